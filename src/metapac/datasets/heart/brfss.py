"""SAS transport files, the format of the BRFSS surveys, read a block of rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from metapac._types import Floats
from metapac.exceptions import InvalidInput

REMEDY = "Delete it and run 'metapac data fetch heart' again."

_CARD = 80  # bytes; every part of a file is padded with blanks to a multiple of it
_BLOCK = 2**23  # bytes read at a time
_NUMBER = 1  # the type of a numeric column; text is 2

# A number is a sign, seven bits of exponent to base 16, and up to 56 bits of fraction (IBM, 1964).
_FRACTION = np.uint64(2**56 - 1)
_LEAD = np.arange(256)  # the first byte: sign and exponent
_SCALE = np.where(_LEAD < 128, 1.0, -1.0) * np.ldexp(1.0, 4 * (_LEAD % 128 - 64) - 56)
_MISSING = np.isin(_LEAD, [*b"._ABCDEFGHIJKLMNOPQRSTUVWXYZ"])  # if the fraction is zero


@dataclass(frozen=True)
class Column:
    """The position of a column in a row.

    Parameters
    ----------
    start, width : int
        First byte, and number of bytes.
    text : bool
        Whether it holds text rather than numbers.
    """

    start: int
    width: int
    text: bool


@dataclass(frozen=True)
class Transport:
    """A SAS transport file of version 5, whose header has been read.

    Parameters
    ----------
    path : Path
        The file.
    columns : mapping of str to Column
        Columns by name, in upper case and in the order of the file.
    start, width : int
        First byte of the first row, and bytes per row.
    rows : int
        Number of rows.
    """

    path: Path
    columns: Mapping[str, Column]
    start: int
    width: int
    rows: int

    def blocks(self, names: Sequence[str]) -> Iterator[Floats]:
        """Yield the rows of some numeric columns.

        Parameters
        ----------
        names : sequence of str
            Columns.

        Yields
        ------
        ndarray, shape (rows, names)
            Values, NaN where one is missing.
        """
        columns = [self.columns[name] for name in names]
        at_once = max(1, _BLOCK // self.width)
        # Eight bytes are read for every number, even for a short one at the end of the last row.
        buffer = np.zeros(at_once * self.width + 8, np.uint8)
        with self.path.open("rb") as file:
            file.seek(self.start)
            for first in range(0, self.rows, at_once):
                rows = min(at_once, self.rows - first)
                if file.readinto(buffer.data[: rows * self.width]) < rows * self.width:
                    raise _truncated(self.path, "it ended while it was read")
                yield np.stack([self._read_numbers(buffer, rows, column) for column in columns]).T

    def _read_numbers(self, buffer: NDArray[np.uint8], rows: int, column: Column) -> Floats:
        strides = (self.width,)
        words = np.ndarray((rows,), ">u8", buffer.data, column.start, strides).astype(np.uint64)
        # The bytes beyond a number of fewer than eight bytes belong to the next column.
        excess = np.uint64(8 * (8 - column.width))
        return ibm_numbers(words >> excess << excess)


def ibm_numbers(words: NDArray[np.uint64]) -> Floats:
    """Return the values of 64-bit IBM floating-point numbers.

    Parameters
    ----------
    words : ndarray of uint64
        The bits.

    Returns
    -------
    ndarray of float
        Values, NaN for SAS's codes of missing numbers.
    """
    fraction, lead = words & _FRACTION, words >> np.uint64(56)
    numbers: Floats = fraction * _SCALE[lead]
    numbers[(fraction == 0) & _MISSING[lead]] = np.nan
    return numbers


def open_transport(path: Path) -> Transport:
    """Read the header of a SAS transport file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Transport
        The file, ready to be read.

    Raises
    ------
    InvalidInput
        If the file is truncated, damaged or of another format.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise InvalidInput(f"{path} has zero bytes. {REMEDY}")
        columns = _read_columns(path, file)
        start = file.tell()
        width = sum(column.width for column in columns.values())
        ends = [column.start + column.width for column in columns.values()]
        numeric = [column.width for column in columns.values() if not column.text]
        if not width or max(ends) != width or not all(2 <= n <= 8 for n in numeric):
            raise InvalidInput(f"{path} is damaged: its columns do not make a row. {REMEDY}")
        if size % _CARD:
            raise _truncated(path, f"it has {size} bytes, which is not a multiple of {_CARD}")
        return Transport(path, columns, start, width, _count_rows(path, file, size - start, width))


def _read_columns(path: Path, file: IO[bytes]) -> dict[str, Column]:
    """Read the header up to the first row; return the columns that it describes."""
    _read_header(path, file, "LIBRARY")
    _read_cards(path, file, 2)
    member = _read_header(path, file, "MEMBER")
    _read_header(path, file, "DSCRPTR")
    _read_cards(path, file, 2)
    names = _read_header(path, file, "NAMESTR")
    if not (member[74:78].isdigit() and names[54:58].isdigit()):
        raise InvalidInput(f"{path} is damaged: its header does not count its columns. {REMEDY}")
    size, count = int(member[74:78]), int(names[54:58])  # bytes per description, number of columns
    raw = _read_cards(path, file, -(-size * count // _CARD))
    _read_header(path, file, "OBS")
    entries = [raw[i * size : (i + 1) * size] for i in range(count)]
    return {entry[8:16].decode("latin1").strip().upper(): _parse_column(entry) for entry in entries}


def _parse_column(entry: bytes) -> Column:
    kind, width, start = (int.from_bytes(entry[a:b], "big") for a, b in ((0, 2), (4, 6), (84, 88)))
    return Column(start, width, text=kind != _NUMBER)


def _read_header(path: Path, file: IO[bytes], part: str) -> bytes:
    """Return the header card of a part of the file."""
    card = _read_cards(path, file, 1)
    if not card.startswith(f"HEADER RECORD*******{part:8}HEADER RECORD!!!!!!!".encode()):
        raise InvalidInput(
            f"{path} is not a SAS transport file of version 5: it has no {part} header where one "
            f"belongs. {REMEDY}"
        )
    return card


def _read_cards(path: Path, file: IO[bytes], count: int) -> bytes:
    raw = file.read(count * _CARD)
    if len(raw) < count * _CARD:
        raise _truncated(path, "its header is not complete")
    return raw


def _count_rows(path: Path, file: IO[bytes], size: int, width: int) -> int:
    """Return the number of rows in ``size`` bytes; up to 79 blanks at the end are padding."""
    tail = min(size, _CARD - 1)
    file.seek(-tail, os.SEEK_END)
    padding = tail - len(file.read().rstrip(b" "))
    rows = -(-(size - padding) // width)
    if rows * width > size:
        raise _truncated(path, f"row {rows} of {width} bytes is not complete")
    return rows


def _truncated(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{path} is truncated: {why}. {REMEDY}")

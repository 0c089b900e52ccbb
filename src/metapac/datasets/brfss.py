"""SAS transport files, in which the CDC publishes the BRFSS surveys: a block of rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

REMEDY = "Delete it and run 'metapac data fetch heart' again."

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

_CARD = 80  # every part of a file is padded with blanks to a multiple of it
_BLOCK = 2**23  # bytes read at a time
_NUMBER = 1  # the type of a numeric column; text is 2

# A number is a sign, seven bits of exponent to base 16, and up to 56 bits of fraction (IBM, 1964).
_FRACTION = np.uint64(2**56 - 1)
_LEAD = np.arange(256)  # the first byte: sign and exponent
_SCALE = np.where(_LEAD < 128, 1.0, -1.0) * np.ldexp(1.0, 4 * (_LEAD % 128 - 64) - 56)
_MISSING = np.isin(_LEAD, [*b"._ABCDEFGHIJKLMNOPQRSTUVWXYZ"])  # with no fraction behind it


@dataclass(frozen=True)
class Column:
    """Where in a row a column lies, in bytes."""

    start: int
    width: int
    text: bool


@dataclass(frozen=True)
class Transport:
    """A SAS transport file of version 5, of which the head has been read."""

    path: Path
    columns: Mapping[str, Column]  # by their names in upper case, in the order of the file
    start: int  # of the first row, in bytes
    width: int  # of a row
    rows: int

    def blocks(self, names: Sequence[str]) -> Iterator[Floats]:
        """Yield the rows of these numeric columns, (rows, names), NaN where one is missing."""
        columns = [self.columns[name] for name in names]
        at_once = max(1, _BLOCK // self.width)
        # Eight bytes are taken for every number, also for a short one at the end of the last row.
        buffer = np.zeros(at_once * self.width + 8, np.uint8)
        with self.path.open("rb") as file:
            file.seek(self.start)
            for first in range(0, self.rows, at_once):
                rows = min(at_once, self.rows - first)
                if file.readinto(buffer.data[: rows * self.width]) < rows * self.width:
                    raise _cut(self.path, "it ended while it was read")
                yield np.stack([self._numbers(buffer, rows, each) for each in columns]).T

    def _numbers(self, buffer: NDArray[np.uint8], rows: int, column: Column) -> Floats:
        strides = (self.width,)
        words = np.ndarray((rows,), ">u8", buffer.data, column.start, strides).astype(np.uint64)
        # A number of fewer than eight bytes has lost the last ones of its fraction.
        return ibm_numbers(words >> _beyond(column) << _beyond(column))


def ibm_numbers(words: Words) -> Floats:
    """Return the values of IBM floating-point numbers of 64 bits, NaN for SAS's missing ones."""
    fraction, lead = words & _FRACTION, words >> np.uint64(56)
    numbers: Floats = fraction * _SCALE[lead]
    numbers[(fraction == 0) & _MISSING[lead]] = np.nan
    return numbers


def _beyond(column: Column) -> np.uint64:
    """Return the bits behind a number that belong to its neighbour."""
    return np.uint64(8 * (8 - column.width))


def open_transport(path: Path) -> Transport:
    """Read the head of a file, and refuse one that is cut off or something else."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise ValueError(f"{path} has zero bytes. {REMEDY}")
        columns = _columns(path, file)
        start = file.tell()
        width = sum(column.width for column in columns.values())
        ends = [column.start + column.width for column in columns.values()]
        numbers = [column.width for column in columns.values() if not column.text]
        if not width or max(ends) != width or not all(2 <= each <= 8 for each in numbers):
            raise ValueError(f"{path} is damaged: its columns do not make a row. {REMEDY}")
        if size % _CARD:
            raise _cut(path, f"it has {size} bytes, which is no multiple of {_CARD}")
        return Transport(path, columns, start, width, _rows(path, file, size - start, width))


def _columns(path: Path, file: IO[bytes]) -> dict[str, Column]:
    """Return the columns that a head names; the file is then at its first row."""
    _expect(path, file, "LIBRARY")
    _cards(path, file, 2)
    member = _expect(path, file, "MEMBER")
    _expect(path, file, "DSCRPTR")
    _cards(path, file, 2)
    named = _expect(path, file, "NAMESTR")
    if not (member[74:78].isdigit() and named[54:58].isdigit()):
        raise ValueError(f"{path} is damaged: its head does not count its columns. {REMEDY}")
    size, count = int(member[74:78]), int(named[54:58])  # bytes about a column, columns
    raw = _cards(path, file, -(-size * count // _CARD))
    _expect(path, file, "OBS")
    entries = [raw[i * size : (i + 1) * size] for i in range(count)]
    return {entry[8:16].decode("latin1").strip().upper(): _column(entry) for entry in entries}


def _column(entry: bytes) -> Column:
    kind, width, start = (int.from_bytes(entry[a:b], "big") for a, b in ((0, 2), (4, 6), (84, 88)))
    return Column(start, width, text=kind != _NUMBER)


def _expect(path: Path, file: IO[bytes], part: str) -> bytes:
    """Return the card that opens a part of the file."""
    card = _cards(path, file, 1)
    if not card.startswith(f"HEADER RECORD*******{part:8}HEADER RECORD!!!!!!!".encode()):
        raise ValueError(
            f"{path} is not a SAS transport file of version 5: it has no {part} header where one "
            f"belongs. {REMEDY}"
        )
    return card


def _cards(path: Path, file: IO[bytes], count: int) -> bytes:
    found = file.read(count * _CARD)
    if len(found) < count * _CARD:
        raise _cut(path, "its head is not complete")
    return found


def _rows(path: Path, file: IO[bytes], size: int, width: int) -> int:
    """Return how many rows there are in ``size`` bytes; up to 79 blanks at the end are padding."""
    tail = min(size, _CARD - 1)
    file.seek(-tail, os.SEEK_END)
    padding = tail - len(file.read().rstrip(b" "))
    rows = -(-(size - padding) // width)
    if rows * width > size:
        raise _cut(path, f"row {rows} of {width} bytes is not complete")
    return rows


def _cut(path: Path, why: str) -> ValueError:
    return ValueError(f"{path} is cut off: {why}. {REMEDY}")

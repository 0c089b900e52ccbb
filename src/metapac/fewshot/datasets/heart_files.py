"""Files of the CDC's survey, by year."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from metapac._common import Floats, require
from metapac.errors import InvalidInput

LABEL = "CVDINFR4"  # "ever told you had a heart attack"
STATE = "_STATE"

# Dates of the interview and the file, and the sequence number with its copy, the sampling unit.
UNINFORMATIVE = {
    *("IDATE", "IMONTH", "IDAY", "IYEAR", "FMONTH", "SEQNO", "_PSU"),
    *("DATE", "YEAR", "MONTH", "DAY", "SEQUENCE"),
}
LEAK = "_MICHD"  # computed by the CDC from the label
PAPER = range(2011, 2021)  # the years of the paper


@dataclass(frozen=True)
class Coding:
    """The column of the label and the meaning of its numbers; NaN is always an unknown answer."""

    column: str
    yes: int
    no: int
    unknown: tuple[int, ...]
    remedy: str


@dataclass(frozen=True)
class Block:
    """Some respondents as they are coded, NaN where a value is missing."""

    x: Floats
    label: Floats
    year: Floats
    state: Floats


@dataclass(frozen=True)
class Source:
    """A file of respondents."""

    path: Path
    rows: int | None
    coding: Coding
    numeric: Sequence[str]
    text: Sequence[str]
    blocks: Callable[[Sequence[str]], Iterator[Block]]


_TABLE = """
1 Alabama, 2 Alaska, 4 Arizona, 5 Arkansas, 6 California, 8 Colorado, 9 Connecticut, 10 Delaware,
11 District of Columbia, 12 Florida, 13 Georgia, 15 Hawaii, 16 Idaho, 17 Illinois, 18 Indiana,
19 Iowa, 20 Kansas, 21 Kentucky, 22 Louisiana, 23 Maine, 24 Maryland, 25 Massachusetts,
26 Michigan, 27 Minnesota, 28 Mississippi, 29 Missouri, 30 Montana, 31 Nebraska, 32 Nevada,
33 New Hampshire, 34 New Jersey, 35 New Mexico, 36 New York, 37 North Carolina, 38 North Dakota,
39 Ohio, 40 Oklahoma, 41 Oregon, 42 Pennsylvania, 44 Rhode Island, 45 South Carolina,
46 South Dakota, 47 Tennessee, 48 Texas, 49 Utah, 50 Vermont, 51 Virginia, 53 Washington,
54 West Virginia, 55 Wisconsin, 56 Wyoming, 60 American Samoa, 66 Guam,
69 Northern Mariana Islands, 72 Puerto Rico, 78 Virgin Islands
"""
_ENTRIES = (entry.split(maxsplit=1) for entry in _TABLE.strip().split(","))
_NAMES = {int(code): name for code, name in _ENTRIES}


def state_name(fips: int) -> str:
    """Return the name of a state or territory."""
    return _NAMES.get(fips, f"state {fips}")


REMEDY = "Delete it and run 'metapac data fetch heart' again."

_CARD = 80  # bytes; every part of a file is padded with blanks to a multiple of it
_BLOCK = 2**23  # bytes read at a time
_NUMBER = 1  # the type of a numeric column; text is 2

# A number is a sign, seven bits of exponent to base 16, and up to 56 bits of fraction (IBM, 1964).
_FRACTION = np.uint64(2**56 - 1)
_LEAD = np.arange(256)  # the first byte: sign and exponent
_SCALE = np.where(_LEAD < 128, 1.0, -1.0) * np.ldexp(1.0, 4 * (_LEAD % 128 - 64) - 56)
_MISSING_LETTERS = np.isin(_LEAD, [*b"._ABCDEFGHIJKLMNOPQRSTUVWXYZ"])  # if the fraction is zero


@dataclass(frozen=True)
class Column:
    """The position of a column in a row."""

    start: int
    width: int
    text: bool


@dataclass(frozen=True)
class Transport:
    """A SAS transport file of version 5, whose header has been read."""

    path: Path
    columns: Mapping[str, Column]
    start: int
    width: int
    rows: int

    def blocks(self, names: Sequence[str]) -> Iterator[Floats]:
        """Yield the rows of some numeric columns."""
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
    """Return the values of 64-bit IBM floating-point numbers."""
    fraction, lead = words & _FRACTION, words >> np.uint64(56)
    numbers: Floats = fraction * _SCALE[lead]
    numbers[(fraction == 0) & _MISSING_LETTERS[lead]] = np.nan
    return numbers


def open_transport(path: Path) -> Transport:
    """Read the header of a SAS transport file."""
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


SUFFIXES = (".parquet", ".csv")

_USUAL_NAMES = {
    "year": ("year",),
    "state": ("state", "state_fips", "_state"),
    "label": ("label", "hadheartattack", LABEL.lower()),
}
_ROWS = 2**16  # at a time, from Parquet
_BYTES = 2**22  # at a time, from CSV
_MISSING_CODE = -1
_REMEDY = (
    "7 and 9 mean 'do not know' and 'refused' in BRFSS: make unknown labels -1 or empty, and "
    "correct the others."
)


def open_table(
    path: Path,
    *,
    year: str | None = None,
    state: str | None = None,
    label: str | None = None,
    exclude: Sequence[str] = (),
) -> Source:
    """Read the header of a table."""
    with _readable(path):
        schema, rows = _read_schema(path)
        names = schema.names  # decoded here, which may fail
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInput(f"{path} has two columns {repeated[0]!r}. Rename one of them.")
    wanted = {"label": label, "year": year, "state": state}
    roles = {role: _find_column(path, role, name, names) for role, name in wanted.items()}
    types = {name: _numeric_type(schema.field(name).type) for name in names}
    text = _droppable_text(path, schema, types, [*roles.values()], exclude)
    no = 2 if roles["label"].upper() == LABEL else 0
    return Source(
        path,
        rows,
        Coding(roles["label"], yes=1, no=no, unknown=(), remedy=_REMEDY),
        numeric=[name for name in names if name not in (*roles.values(), *text)],
        text=text,
        blocks=partial(_parquet_blocks, path, types, [*roles.values()]),
    )


def _find_column(path: Path, role: str, name: str | None, names: Sequence[str]) -> str:
    """Return the column called ``name``, or by default the only one with a usual name."""
    usual = [column for column in names if column.lower() in _USUAL_NAMES[role]]
    matches = usual if name is None else [column for column in names if column == name]
    if len(matches) != 1:
        sought = repr(name) if name else f"named {' or '.join(_USUAL_NAMES[role])}"
        raise InvalidInput(
            f"{path} must have one column {sought} for the {role}, got {len(matches)}. Pass {role} "
            f"with one of: {', '.join(names)}.",
            parameter=role,
        )
    return matches[0]


def _droppable_text(
    path: Path,
    schema: Any,
    types: Mapping[str, Any],
    roles: Sequence[str],
    exclude: Sequence[str],
) -> list[str]:
    """Return the text columns, all of which will be dropped; raise if another one is text."""
    text = [name for name, kind in types.items() if kind is None]
    needed = [n for n in text if n in roles or not (n.upper() in UNINFORMATIVE or n in exclude)]
    if needed:
        raise InvalidInput(
            f"{path} must hold numbers, got other columns: "
            f"{', '.join(f'{name} ({schema.field(name).type})' for name in needed)}. Code them "
            "as numbers (states by FIPS), remove them, or name features in exclude.",
            parameter="exclude",
        )
    return text


def _read_schema(path: Path) -> tuple[Any, int | None]:
    if path.suffix.lower() == ".csv":
        with _open_csv(path) as reader:
            return reader.schema, None
    file = _open_parquet(path)
    return file.schema_arrow, file.metadata.num_rows


def _parquet_blocks(
    path: Path, types: Mapping[str, Any], roles: Sequence[str], features: Sequence[str]
) -> Iterator[Block]:
    """Yield blocks; ``roles`` are the columns of label, year and state."""
    names = [*roles, *features]
    with _readable(path, [*types]):
        if path.suffix.lower() == ".csv":
            batches = _open_csv(path, {name: types[name] for name in names})
        else:
            batches = _open_parquet(path).iter_batches(_ROWS, columns=names)
        for batch in batches:
            label, year, state, *x = (_to_floats(batch.column(name)) for name in names)
            shape = (len(features), len(label))
            yield Block(np.array(x).reshape(shape).T, label=label, year=year, state=state)


def _open_csv(path: Path, types: Mapping[str, Any] | None = None) -> Any:
    """Open a CSV file to read blocks, only of the columns in ``types`` if it is given."""
    from pyarrow import csv

    convert = csv.ConvertOptions(column_types=types, include_columns=[*types] if types else None)
    return csv.open_csv(
        path, read_options=csv.ReadOptions(block_size=_BYTES), convert_options=convert
    )


def _open_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path)


def _numeric_type(kind: Any) -> Any:
    """Return the type to read a column of numbers as; None for any other column."""
    import pyarrow
    from pyarrow import types

    if types.is_boolean(kind):
        return kind
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return pyarrow.float64() if any(of_kind(kind) for of_kind in numeric) else None


def _to_floats(column: Any) -> Floats:
    import pyarrow

    numbers: Floats = column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    return np.where(numbers == _MISSING_CODE, np.nan, numbers)


@contextmanager
def _readable(path: Path, columns: Sequence[str] = ()) -> Iterator[None]:
    """Report read errors with the name of the file and, if known, of the column."""
    pyarrow = require("pyarrow", extra="data", purpose="a table of respondents")
    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        why = re.sub(
            r"CSV column #(\d+)", lambda match: f"column {columns[int(match[1])]}", str(error)
        )
        raise InvalidInput(
            f"{path} cannot be read as a table of numbers ({why.strip()}). Correct it, or write it "
            "again if it is truncated."
        ) from error


# 7 is "do not know" and 9 "refused"; not asked or missing is blank.
_CODING = Coding(LABEL, yes=1, no=2, unknown=(7, 9), remedy=REMEDY)

_NAME = re.compile(r"LLCP(\d{4})\.XPT *", re.IGNORECASE)  # some published names end in a space


def parse_year(path: Path) -> int | None:
    """Return the year in the name of a yearly file."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def find_yearly_files(folder: Path) -> list[Path]:
    """Return the yearly files in a folder."""
    dated = sorted((year, path) for path in folder.iterdir() if (year := parse_year(path)))
    return [path for _, path in dated if path.is_file()]


def open_years(paths: Iterable[Path]) -> list[Source]:
    """Read the headers of yearly files."""
    years: dict[int, Source] = {}
    for path in paths:
        year = parse_year(path)
        if year is None:
            raise InvalidInput(
                f"{path} must be a yearly file named after its year, such as LLCP2011.XPT, or a "
                "table, .parquet or .csv. Rename it."
            )
        if year in years:
            raise InvalidInput(
                f"{years[year].path} and {path} are both of the year {year}. Delete one of them."
            )
        years[year] = _source(open_transport(path), year)
    return [*years.values()]


def _source(file: Transport, year: int) -> Source:
    for name in (LABEL, STATE):
        if name not in file.columns or file.columns[name].text:
            raise InvalidInput(
                f"{file.path} must have a column of numbers {name}, got {len(file.columns)} other "
                "columns. Remove that year from the folder."
            )
    features = {
        name: column.text for name, column in file.columns.items() if name not in (LABEL, STATE)
    }
    return Source(
        file.path,
        file.rows,
        _CODING,
        numeric=[name for name, is_text in features.items() if not is_text],
        text=[name for name, is_text in features.items() if is_text],
        blocks=partial(_transport_blocks, file, year),
    )


def _transport_blocks(file: Transport, year: int, features: Sequence[str]) -> Iterator[Block]:
    for rows in file.blocks([LABEL, STATE, *features]):
        years = np.full(len(rows), float(year))
        yield Block(rows[:, 2:], label=rows[:, 0], year=years, state=rows[:, 1])

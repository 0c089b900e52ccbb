"""A prepared table of respondents, Parquet or CSV, with year, state, label and coded features."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac.datasets.heart_source import LABEL, UNINFORMATIVE, Block, Coding

SUFFIXES = (".parquet", ".csv")

Floats = NDArray[np.float64]

_KNOWN = {
    "year": ("year",),
    "state": ("state", "state_fips", "_state"),
    "label": ("label", "hadheartattack", LABEL.lower()),
}
_ROWS = 2**16  # at a time, from Parquet
_BYTES = 2**22  # at a time, from CSV
_MISSING = -1
_REMEDY = (
    "7 and 9 mean 'do not know' and 'refused' in BRFSS: make unknown labels -1 or empty, and "
    "correct the others."
)


@dataclass(frozen=True)
class Table:
    """A table whose columns are known."""

    path: Path
    rows: int | None
    coding: Coding
    groups: tuple[str, str]  # the columns of year and state
    types: Mapping[str, Any]  # as pyarrow calls them
    numeric: Sequence[str]
    text: Sequence[str]

    def blocks(self, features: Sequence[str]) -> Iterator[Block]:
        names = [self.coding.column, *self.groups, *features]
        with _readable(self.path, [*self.types]):
            for batch in self._batches(names):
                label, year, state, *x = (_numbers(batch.column(name)) for name in names)
                shape = (len(features), len(label))
                yield Block(np.array(x).reshape(shape).T, label=label, year=year, state=state)

    def _batches(self, names: Sequence[str]) -> Any:
        if self.path.suffix.lower() == ".csv":
            return _csv(self.path, {name: self.types[name] for name in names})
        return _parquet(self.path).iter_batches(_ROWS, columns=[*names])


def open_table(
    path: Path,
    *,
    year: str | None = None,
    state: str | None = None,
    label: str | None = None,
    leave_out: Sequence[str] = (),
) -> Table:
    """Find year, state and label among the columns, by name or as told, and refuse text."""
    with _readable(path):
        schema, rows = _schema(path)
        names = schema.names  # decoded only now
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{path} has two columns {repeated[0]!r}. Rename one of them.")
    wanted = {"year": year, "state": state, "label": label}
    chosen = {what: _chosen(path, what, name, names) for what, name in wanted.items()}
    types = {name: _as_numbers(schema.field(name).type) for name in names}
    text = [name for name in names if types[name] is None]
    by_name = [n for n in text if n.upper() in UNINFORMATIVE or n in leave_out]
    refused = [n for n in text if n not in by_name or n in chosen.values()]
    if refused:
        kinds = ", ".join(f"{name} ({schema.field(name).type})" for name in refused)
        raise ValueError(
            f"{path} must hold numbers, got other columns: {kinds}. Code them as numbers (states "
            "by FIPS), take them out, or name features in leave_out."
        )
    features = [name for name in names if name not in (*chosen.values(), *text)]
    groups = (chosen["year"], chosen["state"])
    return Table(path, rows, _coding(chosen["label"]), groups, types, features, by_name)


def _chosen(path: Path, what: str, name: str | None, names: Sequence[str]) -> str:
    """Return the column of that name, or else the only one that has a known name."""
    known = [each for each in names if each.lower() in _KNOWN[what]]
    found = known if name is None else [each for each in names if each == name]
    if len(found) != 1:
        sought = repr(name) if name else f"named {' or '.join(_KNOWN[what])}"
        raise ValueError(
            f"{path} must have one column {sought} for the {what}, got {len(found)}. Pass "
            f"{what}=NAME with one of: {', '.join(names)}."
        )
    return found[0]


def _coding(column: str) -> Coding:
    if column.upper() == LABEL:
        return Coding(column, yes=1, no=2, unknown=(), remedy=_REMEDY)
    return Coding(column, yes=1, no=0, unknown=(), remedy=_REMEDY)


def _schema(path: Path) -> tuple[Any, int | None]:
    if path.suffix.lower() == ".csv":
        with _csv(path) as reader:
            return reader.schema, None
    file = _parquet(path)
    return file.schema_arrow, file.metadata.num_rows


def _csv(path: Path, types: Mapping[str, Any] | None = None) -> Any:
    """Open a CSV file for reading in blocks, and only the columns of ``types`` if it is given."""
    from pyarrow import csv

    convert = csv.ConvertOptions(column_types=types, include_columns=[*types] if types else None)
    return csv.open_csv(
        path, read_options=csv.ReadOptions(block_size=_BYTES), convert_options=convert
    )


def _parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path)


def _as_numbers(kind: Any) -> Any:
    """Return the type in which to read a column of numbers, None for a column of others."""
    import pyarrow
    from pyarrow import types

    if types.is_boolean(kind):
        return kind
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return pyarrow.float64() if any(of_kind(kind) for of_kind in numeric) else None


def _numbers(column: Any) -> Floats:
    import pyarrow

    numbers: Floats = column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    return np.where(numbers == _MISSING, np.nan, numbers)


@contextmanager
def _readable(path: Path, columns: Sequence[str] = ()) -> Iterator[None]:
    """Say of a file that cannot be read which one it is, and which of its columns."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "tables of respondents need pyarrow. Install it with: pip install 'metapac[data]'",
            name="pyarrow",
        ) from error
    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        why = re.sub(
            r"CSV column #(\d+)", lambda found: f"column {columns[int(found[1])]}", str(error)
        )
        raise ValueError(
            f"{path} cannot be read as a table of numbers ({why.strip()}). Correct it, or write it "
            "anew if it is cut off."
        ) from error

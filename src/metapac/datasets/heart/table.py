"""A table of respondents, Parquet or CSV, with year, state, label and coded features."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _optional
from metapac._types import Floats
from metapac.datasets.heart.source import LABEL, UNINFORMATIVE, Block, Coding, Source
from metapac.exceptions import InvalidInput, Parameter

SUFFIXES = (".parquet", ".csv")

_USUAL_NAMES = {
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


def open_table(
    path: Path,
    *,
    year: str | None = None,
    state: str | None = None,
    label: str | None = None,
    exclude: Sequence[str] = (),
) -> Source:
    """Read the header of a table.

    Parameters
    ----------
    path : Path
        A .parquet or .csv file.
    year, state, label : str, optional
        Names of these columns; by default they are recognised by their usual names.
    exclude : sequence of str, optional
        Features to drop; only these may hold text.

    Returns
    -------
    Source
        The respondents; -1 and empty cells are missing.

    Raises
    ------
    InvalidInput
        If a column is missing, ambiguous or not numeric, or the file cannot be read.
    """
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
        blocks=partial(_blocks, path, types, [*roles.values()]),
    )


def _find_column(path: Path, role: str, name: str | None, names: Sequence[str]) -> str:
    """Return the column called ``name``, or by default the only one with a usual name."""
    usual = [column for column in names if column.lower() in _USUAL_NAMES[role]]
    matches = usual if name is None else [column for column in names if column == name]
    if len(matches) != 1:
        sought = repr(name) if name else f"named {' or '.join(_USUAL_NAMES[role])}"
        raise InvalidInput(
            "{} must have one column {} for the {}, got {}. Pass {} with one of: {}.",
            path,
            sought,
            role,
            len(matches),
            Parameter(role),
            ", ".join(names),
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
            "{} must hold numbers, got other columns: {}. Code them as numbers (states by FIPS), "
            "remove them, or name features in {}.",
            path,
            ", ".join(f"{name} ({schema.field(name).type})" for name in needed),
            Parameter("exclude"),
        )
    return text


def _read_schema(path: Path) -> tuple[Any, int | None]:
    if path.suffix.lower() == ".csv":
        with _open_csv(path) as reader:
            return reader.schema, None
    file = _open_parquet(path)
    return file.schema_arrow, file.metadata.num_rows


def _blocks(
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
    return np.where(numbers == _MISSING, np.nan, numbers)


@contextmanager
def _readable(path: Path, columns: Sequence[str] = ()) -> Iterator[None]:
    """Report read errors with the name of the file and, if known, of the column."""
    pyarrow = _optional.require("pyarrow", extra="data", purpose="a table of respondents")
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

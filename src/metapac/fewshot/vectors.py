"""Files of vectors: stored embeddings with classes and groups, or examples of any shape."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from metapac._common import Array, require
from metapac.artefact import check_ratio, first_line
from metapac.errors import InvalidInput
from metapac.provenance import read_provenance

_PARQUET = (".parquet", ".pq")
Names = str | Sequence[str] | None


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors with the class and, where each group is a task, the group of each."""

    x: Array
    y: Array
    groups: Array | None = None
    columns: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.x, self.y) if self.groups is None else (self.x, self.y, self.groups)

    @cached_property
    def names(self) -> Array:
        return np.unique(self.y)

    @property
    def codes(self) -> Array:
        return np.searchsorted(self.names, self.y)


def read_vectors(
    file: Path, labels: str | None = None, groups: str | None = None, columns: Names = None
) -> Vectors:
    """Return the vectors in a file, with their classes and groups."""
    used: tuple[str, ...] = ()
    if file.suffix.lower() in _PARQUET:
        arrays, used = _read_parquet(file, labels, groups, columns)
    elif columns is None:
        arrays = load_arrays(file)
        given = {"y": labels, "groups": groups}
        arrays |= {name: _read_ids(path) for name, path in given.items() if path is not None}
    else:
        raise InvalidInput(f"columns is for Parquet files, not for {file}.", parameter="columns")
    if "y" not in arrays:
        raise InvalidInput(f"{file} has no classes. Pass labels.", parameter="labels")
    x = _check_examples(file, arrays, axes=2)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    y = _check_ids("labels", arrays["y"], file, len(x))
    ids = _check_ids("groups", arrays["groups"], file, len(x)) if "groups" in arrays else None
    return Vectors(x, y, ids, used)


def holds_vectors(file: Path) -> bool:
    """Return whether a file is one of vectors, not of images or damaged."""
    if file.suffix.lower() != ".npz":
        return file.suffix.lower() in (".npy", *_PARQUET)
    try:
        return bool(load_arrays(file)["x"].ndim == 2)
    except (OSError, KeyError, InvalidInput):
        return False


def read_examples(file: Path) -> dict[str, Array]:
    """Return the examples in a NumPy file, of any shape."""
    arrays = load_arrays(file)
    _check_examples(file, arrays)
    return arrays


def load_arrays(file: Path) -> dict[str, Array]:
    """Return the arrays of an .npz file by name; that of an .npy file is x."""
    size = 0
    with suppress(Exception), zipfile.ZipFile(file) as zipped:  # which states how much it holds
        size = sum(info.file_size for info in zipped.infolist())
    check_ratio(file, size)
    with file.open("rb") as opened:
        try:
            found = np.load(opened, allow_pickle=False)
            return {"x": found} if isinstance(found, np.ndarray) else dict(found)
        except Exception as error:  # of many types, if headers are damaged
            text = f"{file} is not a complete NumPy file of numbers or text ({first_line(error)})."
            raise InvalidInput(text) from error


def _read_ids(path: str) -> Any:
    """Return the classes or groups in a file: an array, or the lines of a text."""
    file = Path(path)
    if file.suffix.lower() == ".npy":
        return load_arrays(file)["x"]
    if file.suffix.lower() in (".txt", ""):
        return np.array(file.read_text(encoding="utf-8").splitlines())
    raise InvalidInput(f"{path} must be an .npy file, or a .txt file with a name in each line.")


def _read_parquet(
    file: Path, labels: str | None, groups: str | None, columns: Names
) -> tuple[dict[str, Any], tuple[str, ...]]:
    arrow = require("pyarrow", extra="tables", purpose="reading Parquet")
    from pyarrow import parquet

    if read_provenance(file) is not None:
        raise InvalidInput(f"{file} holds scores, not vectors. Pass it to 'metapac calibrate'.")
    try:
        table = parquet.read_table(file)
    except arrow.ArrowException as error:
        raise InvalidInput(f"{file} is not a complete Parquet file ({error}).") from error
    taken = {"labels": labels or "label"} | ({"groups": groups} if groups else {})
    ids = {name: _get_column(file, table, name, column) for name, column in taken.items()}
    arrays = {"y": ids.pop("labels"), **ids}
    names, is_list = _choose_columns(file, table, columns, taken.values())
    if is_list:
        arrays["x"] = _stack_lists(file, table.column(names[0]).combine_chunks())
    else:
        arrays["x"] = np.column_stack([table.column(name).to_numpy() for name in names])
    return arrays, tuple(names)


def _get_column(file: Path, table: Any, parameter: str, name: str | None) -> Array:
    if name not in table.column_names or table.column(name).null_count:
        got = f"{', '.join(table.column_names)}. Pass the column as {parameter}"
        rule = f"{file} must have a column {name!r} without null values"
        raise InvalidInput(f"{rule}; it has: {got}.", parameter=parameter)
    return np.array(table.column(name).to_pylist())


def _choose_columns(file: Path, table: Any, columns: Names, taken: Any) -> tuple[list[str], bool]:
    """Return the column of lists, or the columns of numbers, that hold the vectors."""
    from pyarrow import types

    kinds: dict[bool, list[str]] = {True: [], False: []}  # by whether it is a column of lists
    for field in table.schema:
        is_list = hasattr(field.type, "value_field")
        kind = field.type.value_type if is_list else field.type
        if field.name not in taken and (types.is_floating(kind) or types.is_integer(kind)):
            kinds[is_list].append(field.name)
    lists, numbers = kinds[True], kinds[False]
    names = lists or numbers
    if columns is not None:
        patterns = [columns] if isinstance(columns, str) else columns
        names = [x for x in lists + numbers if any(fnmatchcase(x, each) for each in patterns)]
    if not names or (len(names) > 1 and {*names} & {*lists}):
        rule = "columns must name one column of lists of numbers, or columns of numbers"
        got = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
        raise InvalidInput(f"{rule}; {file} has: {got}.", parameter="columns")
    return names, names[0] in lists


def _stack_lists(file: Path, lists: Any) -> Array:
    """Return lists of one length as a matrix."""
    flat, lengths = lists.flatten(), {*lists.value_lengths().to_pylist()}
    if len(lengths) > 1 or flat.null_count:
        got = f"lengths {lengths} and {flat.null_count} null values"
        raise InvalidInput(f"{file} must hold vectors of one length, without null, got {got}.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lists), -1 if lengths else 0)


def _check_examples(file: Path, arrays: dict[str, Any], axes: int | None = None) -> Array:
    """Return the examples of a file; raise InvalidInput if one is not of finite numbers."""
    x = np.asarray(arrays.get("x"))
    if x.ndim < 2 or x.ndim != (axes or x.ndim) or x.dtype.kind not in "fiub" or 0 in x.shape:
        got = f"shape {x.shape} of {x.dtype}" if "x" in arrays else ", ".join(arrays)
        raise InvalidInput(f"{file} must hold numbers x, a row for each example, got {got}.")
    bad = ~np.isfinite(x).reshape(len(x), -1).all(1)
    if bad.any():
        where = f"{int(bad.sum())} examples (first in row {int(np.argmax(bad))})"
        raise InvalidInput(f"{file} has NaN or infinity in {where}. Drop them.")
    return x


def _check_ids(name: str, values: Any, file: Path, count: int) -> Array:
    """Return classes or groups as strings or integers, one for each vector."""
    ids = np.asarray(values)
    if ids.shape != (count,) or ids.dtype.kind not in "iuUSb":
        rule = f"{name} must be strings or whole numbers, one for each of {count} vectors in {file}"
        raise InvalidInput(f"{rule}, got shape {ids.shape} of {ids.dtype}.", parameter=name)
    return ids.astype(np.int64) if ids.dtype.kind in "iub" else ids.astype(str)

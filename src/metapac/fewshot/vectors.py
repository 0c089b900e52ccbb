"""Files of vectors: stored embeddings with classes and groups, or examples of any shape."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from metapac._common import Array, PathLike, require
from metapac.artefact import check_ratio
from metapac.errors import InvalidInput
from metapac.fewshot.drawing import count_noun
from metapac.provenance import read_provenance

_PARQUET = (".parquet", ".pq")
# What zipfile and NumPy raise for damaged headers.
_DAMAGE = (OSError, ValueError, EOFError, RuntimeError, MemoryError, SyntaxError)
_DAMAGE_OF_ZIP = (tokenize.TokenError, zipfile.BadZipFile, zlib.error)


def _check_stated_size(path: PathLike) -> None:
    """Raise BadArchive if a zip file states far more bytes than its size; zipfile reads no more."""
    size = 0
    with suppress(Exception), zipfile.ZipFile(path) as zipped:  # whoever reads it explains
        size = sum(info.file_size for info in zipped.infolist())
    check_ratio(path, size)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors with the class and, where each group is a task, the group of each."""

    x: Array
    y: Array
    groups: Array | None = None
    columns: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that there are."""
        return (self.x, self.y) if self.groups is None else (self.x, self.y, self.groups)

    @cached_property
    def names(self) -> Array:
        """The classes, sorted."""
        return np.unique(self.y)

    @property
    def codes(self) -> Array:
        """Position of the class of each vector among ``names``."""
        return np.searchsorted(self.names, self.y)


def read_vectors(
    file: Path,
    labels: str | None = None,
    groups: str | None = None,
    columns: str | Sequence[str] | None = None,
) -> Vectors:
    """Return the vectors in a file, with their classes and groups."""
    is_table = file.suffix.lower() in _PARQUET
    if columns is not None and not is_table:
        raise InvalidInput(
            f"columns is for Parquet files, and {file} is not one.", parameter="columns"
        )
    if is_table:
        x, y, of_groups, names = _read_parquet(file, labels, groups, columns)
    else:
        x, y, of_groups, names = *_read_numpy(file, labels, groups), ()
    groups_checked = None if of_groups is None else _check_ids("groups", of_groups)
    vectors = Vectors(_check_vectors(file, x), _check_ids("labels", y), groups_checked, names)
    for name, array in (("labels", vectors.y), ("groups", vectors.groups)):
        if array is not None and len(array) != len(vectors.x):
            raise InvalidInput(
                f"{name} must have one entry for each of the {len(vectors.x)} vectors in {file}, "
                f"got {len(array)}.",
                parameter=name,
            )
    return vectors


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
    x = arrays.get("x")
    if x is None or x.ndim < 2 or x.dtype.kind not in "fiub" or 0 in x.shape:
        kind = f"shape {x.shape} of {x.dtype}" if x is not None else ", ".join(arrays)
        raise InvalidInput(
            f"{file} must hold examples of numbers, as an array x whose first axis counts them, "
            f"got {kind}."
        )
    _check_finite(file, x, "example")
    return arrays


def _read_numpy(file: Path, labels: str | None, groups: str | None) -> tuple[Any, Any, Any]:
    arrays = load_arrays(file)
    if "x" not in arrays:
        raise InvalidInput(
            f"{file} must hold an array x of vectors; it has: {', '.join(arrays)}. Write it with "
            "np.savez(path, x=x, y=y)."
        )
    y = arrays.get("y") if labels is None else _read_ids(labels)
    if y is None:
        raise InvalidInput(
            f"{file} has no classes. Pass them as labels: a file with one entry for each vector.",
            parameter="labels",
        )
    return arrays["x"], y, arrays.get("groups") if groups is None else _read_ids(groups)


def load_arrays(file: Path) -> dict[str, Array]:
    """Return the arrays of an .npz file by name; that of an .npy file is x."""
    _check_stated_size(file)
    with file.open("rb") as opened:
        try:
            found = np.load(opened, allow_pickle=False)
            return {"x": found} if isinstance(found, np.ndarray) else dict(found)
        except (*_DAMAGE, *_DAMAGE_OF_ZIP) as error:
            reason = " ".join(str(error).split())
            raise InvalidInput(
                f"{file} is not a complete NumPy file of numbers or text ({reason}). Write it with "
                "np.save(path, x)."
            ) from error


def _read_ids(path: str) -> Any:
    """Return the classes or groups in a file: an array, or the lines of a text."""
    file = Path(path)
    if file.suffix.lower() == ".npy":
        return load_arrays(file)["x"]
    if file.suffix.lower() in (".txt", ""):
        return np.array(file.read_text(encoding="utf-8").splitlines())
    raise InvalidInput(
        f"{path} must be an .npy file, or a .txt file with a name in each line, to go with vectors "
        "in a NumPy file."
    )


def _read_parquet(
    file: Path, labels: str | None, groups: str | None, columns: str | Sequence[str] | None
) -> tuple[Any, Any, Any, tuple[str, ...]]:
    arrow = require("pyarrow", extra="tables", purpose="reading Parquet")
    from pyarrow import parquet

    if read_provenance(file) is not None:
        raise InvalidInput(
            f"{file} is a table that 'metapac score' wrote, and holds scores, not vectors. Pass it "
            "to 'metapac calibrate', 'predict' or 'evaluate'."
        )
    try:
        table = parquet.read_table(file)
    except arrow.ArrowException as error:
        raise InvalidInput(f"{file} is not a complete Parquet file ({error}).") from error
    y = _get_column(file, table, "labels", labels or "label")
    of_groups = None if groups is None else _get_column(file, table, "groups", groups)
    taken = {labels or "label", groups}
    names = _vector_columns(file, table.schema, columns, taken)
    if len(names) == 1 and _is_list(table.schema.field(names[0]).type):
        return _stack_lists(file, table, names[0]), y, of_groups, tuple(names)
    x = np.column_stack([table.column(name).to_numpy() for name in names])
    return x, y, of_groups, tuple(names)


def _get_column(file: Path, table: Any, parameter: str, name: str) -> Array:
    if name not in table.column_names:
        raise InvalidInput(
            f"{file} has no column {name!r}; it has: {', '.join(table.column_names)}. Pass the "
            f"column as {parameter}.",
            parameter=parameter,
        )
    column = table.column(name)
    if column.null_count:
        raise InvalidInput(
            f"{file}: column {name!r} has {count_noun(column.null_count, 'null value')}. Drop "
            "those rows."
        )
    return np.array(column.to_pylist())


def _vector_columns(
    file: Path, schema: Any, columns: str | Sequence[str] | None, taken: set[Any]
) -> list[str]:
    """Return the column of lists, or the columns of numbers, that hold the vectors."""
    from pyarrow import types

    fields = [field for field in schema if field.name not in taken]
    lists = [field.name for field in fields if _is_list(field.type)]
    numbers = [
        field.name
        for field in fields
        if types.is_floating(field.type) or types.is_integer(field.type)
    ]
    if columns is None:
        names = lists or numbers
    else:
        patterns = [columns] if isinstance(columns, str) else columns
        names = [
            name for name in lists + numbers if any(fnmatchcase(name, each) for each in patterns)
        ]
    if not names or (len(names) > 1 and set(names) & set(lists)):
        raise InvalidInput(
            "columns must name one column of lists of numbers, or columns of numbers, with a star "
            f"for what differs; {file} has: "
            f"{', '.join(f'{field.name} ({field.type})' for field in schema)}.",
            parameter="columns",
        )
    return names


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(
        is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))
    )


def _stack_lists(file: Path, table: Any, name: str) -> Array:
    """Return a column of lists of one length as a matrix."""
    from pyarrow import compute

    lists = table.column(name).combine_chunks()
    if not len(lists):
        return np.empty((0, 0))
    shortest, longest = compute.min_max(compute.list_value_length(lists)).as_py().values()
    flat = compute.list_flatten(lists)
    if lists.null_count or shortest != longest or flat.null_count:
        raise InvalidInput(
            f"{file}: the lists of column {name!r} must hold the same number of values, none of "
            f"them null, got {lists.null_count + flat.null_count} null values and lengths from "
            f"{shortest} to {longest}. Drop the rows without a vector."
        )
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lists), -1)


def _check_vectors(file: Path, values: Any) -> Array:
    """Return vectors as floats; raise InvalidInput if one is not finite."""
    x: Array = np.asarray(values)
    if x.ndim != 2 or x.dtype.kind not in "fiub" or 0 in x.shape:
        raise InvalidInput(
            f"{file} must hold vectors of numbers, an array of shape (examples, dimensions), got "
            f"shape {x.shape} of {x.dtype}."
        )
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    _check_finite(file, x, "vector")
    return x


def _check_finite(file: Path, x: Array, noun: str) -> None:
    bad = ~np.isfinite(x).reshape(len(x), -1).all(1)
    if bad.any():
        raise InvalidInput(
            f"{file} has {count_noun(int(bad.sum()), noun)} with NaN or infinity (first in row "
            f"{int(np.argmax(bad))}). Compute those again, or drop them."
        )


def _check_ids(name: str, values: Any) -> Array:
    """Return classes or groups as strings or integers."""
    ids: Array = np.asarray(values)
    if ids.ndim != 1 or ids.dtype.kind not in "iuUSb":
        raise InvalidInput(
            f"{name} must be a list of strings or whole numbers, got shape {ids.shape} of "
            f"{ids.dtype}.",
            parameter=name,
        )
    return ids.astype(np.int64) if ids.dtype.kind in "iub" else ids.astype(str)

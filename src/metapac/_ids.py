"""Task ids and class labels: conversion and checks."""

from __future__ import annotations

import datetime
import numbers
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac._checks import as_whole_numbers, brief, check_same_shape, on_host
from metapac._scores import as_score_array, check_finite
from metapac._types import Array, Counts
from metapac._visible import without_invisible
from metapac.exceptions import InvalidInput

NAME_RULE = 1  # version of `fold_name`, stored in promise files
_LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")
_SPACE = re.compile(r"(?<!\d) | (?!\d)")  # but between two numbers
_WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0*")


def show_name(name: str) -> str:
    """Return a name as it looks: in one Unicode form, with single spaces, and none at the ends."""
    if not (name.isascii() and name.isprintable()):
        name = without_invisible(unicodedata.normalize("NFKC", name))
    return " ".join(name.split())


def fold_name(name: object) -> str:
    """Return what tells tasks apart: spaces, case, Unicode form, ``.0`` and leading zeros do not.

    >>> fold_name(" Site 007") == fold_name("site 7"), fold_name("1.0") == fold_name(1)
    (True, True)
    """
    text = _SPACE.sub("", show_name(str(name)).casefold())
    if "." in text and (whole := _WHOLE_NUMBER.fullmatch(text)):
        text = whole[1]
    return _LEADING_ZEROS.sub("", text) if "0" in text else text


def fold_names(names: Sequence[str]) -> list[str]:
    """Return `fold_name` of each name; of very many plain ones, all at once."""
    joined = "\n".join(names)
    is_plain = joined.isascii() and joined.replace("\n", "").isprintable()
    if is_plain and "." not in joined and "  " not in joined:
        folded = _LEADING_ZEROS.sub("", _SPACE.sub("", joined.casefold())).split("\n")
        if len(folded) == len(names):
            return folded
    return [fold_name(name) for name in names]


def match_names(
    new: Sequence[Any], known: Iterable[Any]
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Return the new names that are known, and pairs of a new and a known name that are alike."""
    if not new:
        return [], []
    by_text = {str(name): name for name in known}
    by_fold = {fold_name(name): name for name in by_text.values()}
    rest = [name for name in new if str(name) not in by_text]
    near = [(name, by_fold[key]) for name in rest if (key := fold_name(name)) in by_fold]
    return [name for name in new if str(name) in by_text], near


def as_task_ids(tasks: ArrayLike | Iterable[object]) -> Array:
    """Return the task id of each example as a one-dimensional array of integers or objects.

    Dates, timestamps and booleans become text, as promise files and tables name them.
    """
    if hasattr(tasks, "__array__"):
        ids = np.asarray(on_host(tasks))
    elif isinstance(tasks, str | Set | Mapping) or not isinstance(tasks, Iterable):
        raise InvalidInput(
            "tasks must hold one id for each example, in the same order, got "
            f"{brief(tasks)}. Pass a list or an array."
        )
    else:
        ids = np.fromiter(tasks, dtype=object)
    if ids.ndim != 1:
        raise InvalidInput(
            f"tasks must be one-dimensional, got shape {ids.shape}. Combine several columns into "
            "one id, such as f'{state}-{year}'."
        )
    if ids.dtype.kind == "f" and len(ids):
        raise _missing_id() if np.isnan(ids).any() else _fractional_id(ids[0])
    if ids.dtype.kind in "iuU":
        return ids
    return _as_texts(ids, (datetime.date, np.datetime64, bool, np.bool_))


def keep_tasks(tasks: ArrayLike | Iterable[object]) -> ArrayLike | Iterable[object]:
    """Return task ids that can be read more than once: a generator becomes a list."""
    return list(tasks) if isinstance(tasks, Iterator) else tasks


def as_date_name(value: Any) -> str:
    """Return a date as ISO text, and a timestamp too; at midnight without its time.

    Zeros at the end of a fraction are dropped. A timestamp with a time zone is named in UTC.
    """
    if isinstance(value, np.datetime64):
        has_seconds = np.datetime_data(value.dtype)[0] not in ("h", "m")
        text = str(np.datetime_as_string(value if has_seconds else value.astype("M8[s]")))
    else:
        if getattr(value, "tzinfo", None) is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        text = value.isoformat()
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix("T00:00:00")


def as_task_names(names: list[Any]) -> Array:
    """Return distinct task ids as an array; none may be missing, and all must be of one kind."""
    types = {type(name): name for name in reversed(names)}  # few types, however many names
    suspects = types.values() if types.keys() <= {str, int} else names
    if any(_is_missing(name) for name in suspects):
        raise _missing_id()
    kinds = {kind_of(name): name for name in types.values()}
    if "float" in kinds:
        raise _fractional_id(kinds["float"])
    if len(kinds) > 1:
        raise _mixed_types(" and ".join(f"{kind} ({kinds[kind]!r})" for kind in reversed(kinds)))
    if kinds.keys() == {"int"}:
        return _as_integers(names)
    if "str" in kinds and types.keys() != {str}:
        names = [str(name) for name in names]  # NumPy strings, taken from an object array
    return np.fromiter(names, object, len(names))


def check_one_type(types: set[type]) -> None:
    """Raise if ids are numbers of several types, which may be equal but mean different tasks."""
    if len(types) > 1:
        raise _mixed_types(" and ".join(sorted(kind.__name__ for kind in types)))


def append_new_names(old: Array, new: Array) -> Array:
    """Return old and new task ids in one array; raise if a new id is among the old ones."""
    calibrated = set(old.tolist())
    for name in new.tolist():
        if name in calibrated:
            raise InvalidInput(
                f"tasks holds {name!r}, which was calibrated already. Add only new tasks; to "
                "change the examples of a task, calibrate from scratch."
            )
    return as_task_names(old.tolist() + new.tolist())


def check_distinct(names: list[Any]) -> None:
    """Raise if a task occurs more than once."""
    try:
        repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    except TypeError as error:
        raise unhashable_task(error) from error
    if repeated is not None:
        raise InvalidInput(
            f"tasks holds {repeated!r} more than once, and a task counts only once. "
            "Send one threshold for each task."
        )


def reorder_by_task(
    name: str, values: Mapping[Any, Any], other: str, tasks: list[Any]
) -> list[Any]:
    """Return the values of a mapping in the order of ``tasks``, the tasks of ``other``."""
    missing = [task for task in tasks if task not in values]
    if missing or len(values) != len(tasks):
        which = missing or [task for task in values if task not in set(tasks)]
        raise InvalidInput(
            f"{name} must have the same tasks as {other}, but only one has {which[0]!r}."
        )
    return [values[task] for task in tasks]


def as_task_quantiles(quantiles: Any, tasks: list[Any]) -> NDArray[np.float64]:
    """Return one finite number for each task, from an array or a mapping from task to number."""
    if isinstance(quantiles, Mapping):
        quantiles = reorder_by_task("quantiles", quantiles, "scores", tasks)
    array = as_score_array("quantiles", quantiles)
    if array.shape != (len(tasks),):
        raise InvalidInput(
            f"quantiles must hold one number for each of the {len(tasks)} tasks, got shape "
            f"{array.shape}. Pass a mapping from task to number, or an array in the order in which "
            "the tasks first appear."
        )
    check_finite("quantiles", array)
    return array.astype(np.float64)


def as_task_sizes(sizes: Any, names: Array) -> Counts:
    """Return the number of examples of each task, from an array or a mapping from task."""
    if isinstance(sizes, Mapping):
        sizes = reorder_by_task("sizes", sizes, "task_thresholds", names.tolist())
    counts = as_whole_numbers("sizes", sizes, minimum=1)
    check_same_shape("sizes", counts, "tasks", names)
    return counts


def as_json_names(names: Array) -> list[Any]:
    """Return task ids as a list of strings and integers, which JSON preserves."""
    plain: list[Any] = names.tolist()
    for name in plain:
        if type(name) not in (str, int):
            raise InvalidInput(
                f"tasks must be strings or integers to be saved, got {name!r} of type "
                f"{type(name).__name__}. Calibrate with [str(task) for task in tasks]."
            )
    return plain


def as_json_labels(classes: Iterable[Any]) -> list[Any]:
    """Return classes as a list of strings, integers and booleans, which JSON preserves."""
    return [
        label if isinstance(label, str | int) else str(label)
        for label in map(as_plain_label, classes)
    ]


def as_class_codes(labels: Any) -> tuple[tuple[Any, ...], Counts]:
    """Return the sorted classes, and for each label the index of its class."""
    if not hasattr(labels, "__array__"):  # NumPy would turn NaN among strings into "nan"
        labels = np.fromiter(labels, dtype=object)
    array = np.asarray(on_host(labels))
    if array.ndim == 1 and not len(array):
        raise InvalidInput("labels is empty; pass at least one labelled example.")
    if array.ndim != 1:
        raise InvalidInput(
            f"labels must be one-dimensional, one true label for each example, got shape "
            f"{array.shape}."
        )
    if array.dtype.kind in "OM":
        array = _as_plain_labels(_as_texts(array, (datetime.date, np.datetime64)))
    if array.dtype.kind not in "iuUb":
        raise _bad_labels(str(array.dtype))
    classes, codes = np.unique(array, return_inverse=True)
    return tuple(classes.tolist()), codes.astype(np.int64)


def as_classes(labels: list[Any]) -> tuple[Any, ...]:
    """Return distinct classes, which must be of one kind."""
    kinds = {kind_of(label) for label in labels}
    if len(kinds) != 1 or not kinds <= {"str", "int", "bool"}:
        got = " and ".join(sorted(kinds)) or "none"
        raise InvalidInput(f"classes must be strings, integers or booleans of one type, got {got}.")
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"classes must be distinct, got {brief(labels)}.")
    return tuple(labels)


def as_plain_label(label: Any) -> Any:
    """Return a label as a Python string, integer or boolean."""
    return label.item() if isinstance(label, np.generic) else label


def unhashable_task(error: TypeError) -> InvalidInput:
    """Return the error for task ids that a dict cannot look up."""
    return InvalidInput(
        f"tasks must hold hashable ids ({error}). Pass one string or integer for each example."
    )


def kind_of(value: object) -> str:
    """Return the kind of an id or label: "str", "int", "float" or the name of its type."""
    if isinstance(value, str):
        return "str"
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return "int"
    return "float" if isinstance(value, float) else type(value).__name__


def _as_integers(names: list[Any]) -> Array:
    try:
        return np.array(names, dtype=np.int64)
    except OverflowError:  # such as 64-bit hashes; as objects they keep their value
        return np.fromiter((int(name) for name in names), object, len(names))


def _as_texts(array: Array, kinds: tuple[type, ...]) -> Array:
    """Return values of some kinds as text; an array that holds other kinds too is kept."""
    if array.dtype.kind == "M":
        distinct, index = np.unique(array, return_inverse=True)
        return _as_texts(np.fromiter(distinct, object, len(distinct)), kinds)[index]
    values: list[Any] = array.tolist()
    first = next((value for value in values if not _is_missing(value)), None)
    if not isinstance(first, kinds) or not all(
        isinstance(x, kinds) or _is_missing(x) for x in values
    ):
        return array.astype(object)
    texts = {value: None if _is_missing(value) else _as_text(value) for value in values}
    return np.fromiter((texts[value] for value in values), object, len(values))


def _as_text(value: Any) -> str:
    return str(value) if isinstance(value, bool | np.bool_) else as_date_name(value)


def _as_plain_labels(array: Array) -> Array:
    missing = sum(_is_missing(label) for label in array)
    kinds = {kind_of(label) for label in array}
    if missing or len(kinds) > 1 or not kinds <= {"str", "int", "bool"}:
        raise _bad_labels(" and ".join(sorted(kinds)), missing)
    return array.astype({"str": str, "int": np.int64, "bool": bool}[kinds.pop()])


def _is_missing(value: object) -> bool:
    unequal_to_itself = isinstance(value, float | np.datetime64) and value != value
    return value is None or unequal_to_itself or type(value).__name__ in ("NAType", "NaTType")


def _bad_labels(got: str, missing: int = 0) -> InvalidInput:
    remedy = "Convert them, for example with [str(label) for label in labels]."
    if missing:
        got, remedy = f"{missing} missing", "Drop those rows."
    return InvalidInput(
        "labels must hold strings, integers or booleans of one type, none missing, got "
        f"{got}. {remedy}"
    )


def _missing_id() -> InvalidInput:
    return InvalidInput(
        "tasks holds missing ids (None or NaN); every example must belong to a task. "
        "Drop those examples or name their task."
    )


def _fractional_id(value: object) -> InvalidInput:
    return InvalidInput(
        f"tasks must be strings or integers, got the float {value}. "
        "Were scores and tasks swapped? If not, convert the ids with .astype(int)."
    )


def _mixed_types(got: str) -> InvalidInput:
    return InvalidInput(
        f"tasks must hold ids of one type, got {got}. Convert them all, "
        "for example with [str(task) for task in tasks]."
    )

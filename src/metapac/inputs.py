"""Scores, task names and labels as users pass them, checked and converted once."""

from __future__ import annotations

import datetime
import numbers
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _common
from metapac._common import Array, Counts, Floats, brief, listed
from metapac._text import without_invisible
from metapac.columns import NUMBERS, Columns
from metapac.errors import InvalidInput, keyword


def as_score_array(name: str, scores: ArrayLike) -> Floats:
    """Return ``scores`` as a NumPy array of the same precision; integers become float64."""
    if isinstance(scores, np.ma.MaskedArray) and np.ma.is_masked(scores):
        masked = np.ma.getmaskarray(scores).sum()
        raise InvalidInput(f"{name} holds {masked} masked values; pass only examples with one.")
    try:
        array = np.asarray(_common.on_host(scores))
    except ValueError as error:
        raise InvalidInput(f"{name} must be rectangular, got rows of unequal length.") from error
    if array.dtype.kind == "O":
        array = _objects_as_floats(name, array)
    if array.dtype.kind not in "iuf":
        hint = _TASKS_HINT if array.dtype.kind in "US" else ""
        raise InvalidInput(f"{name} must be real numbers, got {array.dtype}.{hint}")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.astype(np.float64)


_TASKS_HINT = " Were they swapped with tasks?"


def _objects_as_floats(name: str, array: Array) -> Floats:
    for position, value in enumerate(array.ravel()):
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            hint = _TASKS_HINT if isinstance(value, str) else " Drop examples that lack one."
            text = f"{name} must be real numbers, got {value!r} of type {type(value).__name__} at"
            raise InvalidInput(f"{text} position {position}.{hint}")
    return array.astype(np.float64)


def as_number_array(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers that are not scores, such as predictions, as float64."""
    return as_score_array(name, values).astype(np.float64)


def as_calibration_scores(name: str, scores: ArrayLike) -> Floats:
    """Return scores to calibrate on; bfloat16, which NumPy lacks, becomes float32.

    A bfloat16 stands for all numbers that round to it, so their lower bound is used: half a step
    below. A deployed score of any precision that rounds to the same bfloat16 is then kept.
    """
    array = as_score_array(name, scores)
    if not is_bfloat16(scores):
        return array
    step = np.int32(1 << 16)  # a bfloat16 is the upper half of a float32
    finite = np.isfinite(array)
    bits = np.where(finite, array, np.float32(0)).view(np.int32)
    below = np.where(array > 0, bits - step, np.where(array < 0, bits + step, -(2**31) + step))
    down = np.maximum(below.astype(np.int32).view(np.float32), np.finfo(np.float32).min)
    return np.where(finite, array / 2 + down / 2, array)


def is_bfloat16(scores: object) -> bool:
    """Return whether scores are a torch tensor of bfloat16, without importing torch."""
    return str(getattr(scores, "dtype", "")) == "torch.bfloat16"


def floor_to_bfloat16(values: ArrayLike) -> NDArray[np.float32]:
    """Return the largest bfloat16 not above each value, as float32.

    A score at or above a value is still at or above this after rounding to bfloat16, in any
    rounding mode.
    """
    exact = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
        near = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
    bits = near.view(np.int32)
    cut = bits & np.int32(-(1 << 16))  # drops the lower half, which rounds towards zero
    down = np.where((near < 0) & (cut != bits), cut + np.int32(1 << 16), cut)
    return down.astype(np.int32).view(np.float32)


def is_at_least(
    scores: ArrayLike, thresholds: ArrayLike, precision: np.dtype[Any]
) -> NDArray[np.bool_]:
    """Return which scores reach a threshold in the coarser precision, so as to lose no label."""
    array = np.atleast_1d(as_score_array("scores", scores))
    remedy = "Give a label without a score inf, so that it is kept."
    check_no_nan("scores", array, lambda i: f"in row {i // array[0].size}", remedy)
    if is_bfloat16(scores):
        return np.asarray(array >= floor_to_bfloat16(thresholds))
    coarser = coarsest_precision([array.dtype, precision])
    with np.errstate(over="ignore"):  # overflow to inf is intended; it preserves order
        cuts = np.asarray(thresholds).astype(coarser)
        return np.asarray(array.astype(coarser, copy=False) >= cuts)


def check_one_dimensional(name: str, array: Array) -> None:
    """Raise if scores are not one-dimensional, or empty."""
    if array.ndim != 1:
        hint = "With the scores of all classes, pass labels too."
        raise InvalidInput(f"{name} must be one-dimensional, got shape {array.shape}. {hint}")
    if not len(array):
        raise InvalidInput(f"{name} is empty; pass at least one labelled example.")


def check_no_nan(
    name: str,
    array: Floats,
    where: Callable[[int], str] = "at position {}".format,
    remedy: str = "Drop those examples.",
) -> None:
    """Raise if a score is NaN; ``where`` describes the flat position of the first one."""
    # min() propagates NaN and needs no temporary array; NaN are counted only for the message.
    if array.size and np.isnan(array.min()):
        bad = np.flatnonzero(np.isnan(array))
        seen = f"{len(bad)} NaN out of {array.size} values (first {where(int(bad[0]))})"
        raise InvalidInput(f"{name} holds {seen}, which cannot be compared. {remedy}")


def check_finite(name: str, array: Floats, *, positive: bool = False) -> None:
    """Raise if a number is infinite or NaN; with ``positive``, also if it is not above 0."""
    bad = np.flatnonzero(~np.isfinite(array) | (positive & (array <= 0)))
    if len(bad):
        rule = "finite and positive" if positive else "finite"
        raise InvalidInput(f"{name} must be {rule}, got {array.flat[bad[0]]} at position {bad[0]}.")


def as_threshold_matrix(thresholds: Floats, *, levels: int) -> Floats:
    """Return task thresholds as a matrix (tasks, levels) without NaN."""
    matrix = thresholds[:, None] if thresholds.ndim == 1 and levels == 1 else thresholds
    if matrix.ndim != 2 or matrix.shape[1] != levels or not len(matrix):
        rule = f"task_thresholds must hold {levels} value{'s' if levels > 1 else ''} for each task"
        raise InvalidInput(f"{rule}, as task_threshold returns them, got shape {thresholds.shape}.")
    remedy = "Take it out of the scores of that task."
    check_no_nan("task_thresholds", matrix, lambda i: f"in task number {i // levels}", remedy)
    return matrix


def get_precisions(values: Any) -> list[np.dtype[Any]]:
    """Return each item's precision; one array of all would have the finest, and lose labels."""
    items = [values] if hasattr(values, "dtype") or not len(values) else values
    return [as_score_array("task_thresholds", item).dtype for item in items]


def as_precision(precision: Any) -> np.dtype[Any]:
    """Return a precision that scores can have; no other type compares them safely."""
    name = precision.name if isinstance(precision, np.dtype) else precision
    if not isinstance(name, str) or name not in ("float16", "float32", "float64"):
        raise InvalidInput(f"precision must be float16, float32 or float64, got {name!r}.")
    return np.dtype(name)


def is_representable(values: ArrayLike, precision: np.dtype[Any]) -> NDArray[np.bool_]:
    """Return which numbers a score of this precision can be."""
    exact = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):  # overflow to inf is another number
        return np.asarray(exact.astype(precision) == exact)


def coarsest_precision(precisions: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the coarsest precision, at which no label certified at a finer one is lost."""
    return min(precisions, key=lambda dtype: dtype.itemsize)


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


def as_column(name: str, values: Any) -> Array:
    """Return one value for each example as an array; of lists, as Python objects."""
    if hasattr(values, "__array__"):
        array = np.asarray(_common.on_host(values))
    elif isinstance(values, str | Set | Mapping) or not isinstance(values, Iterable):
        rule = f"{name} must hold one value for each example, in the same order"
        raise InvalidInput(f"{rule}, got {brief(values)}.")
    else:  # NumPy would turn NaN among strings into "nan"
        array = np.fromiter(values, dtype=object)
    if array.ndim != 1:
        raise InvalidInput(f"{name} must be one-dimensional, got shape {array.shape}.")
    return array


def as_task_ids(tasks: ArrayLike | Iterable[object]) -> Array:
    """Return task ids as a 1-D array; dates and booleans become text, as in files and tables."""
    ids = as_column("tasks", tasks)
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
        text = str(value if has_seconds else value.astype("M8[s]"))
    else:
        if getattr(value, "tzinfo", None) is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        text = value.isoformat()
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix("T00:00:00")


def as_task_names(names: list[Any]) -> Array:
    """Return distinct task ids as an array; none may be missing, and all must be of one kind."""
    types = {type(name): name for name in reversed(names)}  # few types, however many names
    suspects = types.values() if types.keys() <= {str, int} else names
    if any(is_missing(name) for name in suspects):
        raise _missing_id()
    kinds = {kind_of(name): name for name in types.values()}
    if "float" in kinds:
        raise _fractional_id(kinds["float"])
    check_one_type([f"{kind} ({kinds[kind]!r})" for kind in reversed(kinds)])
    if kinds.keys() == {"int"}:
        try:
            return np.array(names, dtype=np.int64)
        except OverflowError:  # such as 64-bit hashes; as objects they keep their value
            names = [int(name) for name in names]
    elif "str" in kinds and types.keys() != {str}:
        names = [str(name) for name in names]  # NumPy strings, taken from an object array
    return np.fromiter(names, object, len(names))


def check_one_type(types: Sequence[str]) -> None:
    """Raise if ids are of several types; those of numbers may be equal but mean different tasks."""
    if len(types) > 1:
        remedy = "Convert them, such as with [str(task) for task in tasks]."
        raise InvalidInput(f"tasks must hold ids of one type, got {' and '.join(types)}. {remedy}")


def append_new_names(old: Array, new: Array) -> Array:
    """Return old and new task ids in one array; raise if a new id is among the old ones."""
    known, names = old.tolist(), new.tolist()
    again = {*names} & {*known}
    if again:
        first = next(name for name in names if name in again)
        raise InvalidInput(f"tasks holds {first!r}, which was calibrated already; add new tasks.")
    return as_task_names(known + names)


def check_distinct(names: list[Any]) -> None:
    """Raise if a task occurs more than once."""
    try:
        repeated = [name for name, count in Counter(names).items() if count > 1]
    except TypeError as error:
        raise unhashable_task(error) from error
    if repeated:
        raise InvalidInput(f"tasks holds {repeated[0]!r} more than once; a task counts only once.")


def reorder_by_task(
    name: str, values: Mapping[Any, Any], other: str, tasks: list[Any]
) -> list[Any]:
    """Return the values of a mapping in the order of ``tasks``, the tasks of ``other``."""
    known = {*tasks}
    odd = [task for task in (*tasks, *values) if (task in values) != (task in known)]
    if odd:
        raise InvalidInput(f"{name} must have the tasks of {other}, but only one has {odd[0]!r}.")
    return [values[task] for task in tasks]


def as_task_sizes(sizes: Any, names: Array) -> Counts:
    """Return the number of examples of each task, from an array or a mapping from task."""
    if isinstance(sizes, Mapping):
        sizes = reorder_by_task("sizes", sizes, "task_thresholds", names.tolist())
    counts = _common.as_whole_numbers("sizes", sizes, minimum=1)
    _common.check_same_shape("sizes", counts, "tasks", names)
    return counts


def as_json_names(names: Array) -> list[Any]:
    """Return task ids as a list of strings and integers, which JSON preserves."""
    plain: list[Any] = names.tolist()
    for name in plain:
        if type(name) not in (str, int):
            raise InvalidInput(f"tasks must be strings or integers to be saved, got {name!r}.")
    return plain


def as_json_labels(classes: Iterable[Any]) -> list[Any]:
    """Return classes as a list of strings, integers and booleans, which JSON preserves."""
    plain = map(as_plain_label, classes)
    return [label if isinstance(label, str | int) else str(label) for label in plain]


def as_class_codes(labels: Any) -> tuple[tuple[Any, ...], Counts]:
    """Return the sorted classes, and for each label the index of its class."""
    array = as_column("labels", labels)
    check_one_dimensional("labels", array)
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
        rule = "classes must be strings, integers or booleans of one type"
        raise InvalidInput(f"{rule}, got {' and '.join(sorted(kinds)) or 'none'}.")
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"classes must be distinct, got {brief(labels)}.")
    return tuple(labels)


def as_plain_label(label: Any) -> Any:
    """Return a label as a Python string, integer or boolean."""
    return label.item() if isinstance(label, np.generic) else label


def unhashable_task(error: TypeError) -> InvalidInput:
    """Return the error for task ids that a dict cannot look up."""
    return InvalidInput(f"tasks must hold hashable ids, such as strings or integers ({error}).")


def kind_of(value: object) -> str:
    """Return the kind of an id or label: "str", "int", "float" or the name of its type."""
    if isinstance(value, str):
        return "str"
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return "int"
    return "float" if isinstance(value, float) else type(value).__name__


def _as_texts(array: Array, kinds: tuple[type, ...]) -> Array:
    """Return values of some kinds as text; an array that holds other kinds too is kept."""
    if array.dtype.kind == "M":
        distinct, index = np.unique(array, return_inverse=True)
        return _as_texts(np.fromiter(distinct, object, len(distinct)), kinds)[index]
    values: list[Any] = array.tolist()
    first = next((value for value in values if not is_missing(value)), None)
    if not isinstance(first, kinds) or not all(
        isinstance(x, kinds) or is_missing(x) for x in values
    ):
        return array.astype(object)
    texts = {value: None if is_missing(value) else _as_text(value) for value in values}
    return np.fromiter((texts[value] for value in values), object, len(values))


def _as_text(value: Any) -> str:
    return str(value) if isinstance(value, bool | np.bool_) else as_date_name(value)


def _as_plain_labels(array: Array) -> Array:
    missing = sum(map(is_missing, array))
    if missing:
        raise _bad_labels(f"{missing} missing")
    kinds = {kind_of(label) for label in array}
    if len(kinds) > 1 or not kinds <= {"str", "int", "bool"}:
        raise _bad_labels(" and ".join(sorted(kinds)))
    return array.astype({"str": str, "int": np.int64, "bool": bool}[kinds.pop()])


def is_missing(value: object) -> bool:
    unequal_to_itself = isinstance(value, float | np.datetime64) and value != value
    return value is None or unequal_to_itself or type(value).__name__ in ("NAType", "NaTType")


def _bad_labels(got: str) -> InvalidInput:
    rule = "labels must hold strings, integers or booleans of one type, none missing"
    return InvalidInput(f"{rule}, got {got}. Convert them, or drop those rows.")


def _missing_id() -> InvalidInput:
    return InvalidInput("tasks holds missing ids (None or NaN); every example must have a task.")


def _fractional_id(value: object) -> InvalidInput:
    return InvalidInput(
        f"tasks must be strings or integers, got the float {value}. Were scores and tasks swapped?"
    )


def advise_on_labels(
    unknown: Sequence[str], classes: Sequence[str], columns: Sequence[str] | None = None
) -> str | None:
    """Return how to bring labels and classes together, if their names tell."""
    by_fold = {_fold(name): name for name in classes}
    alike = [(label, by_fold[_fold(label)]) for label in unknown if _fold(label) in by_fold]
    if alike:
        pairs = listed([f"{label!r} and {name!r}" for label, name in alike], shown=3)
        return f"{pairs} differ only in case or spaces: give each class one spelling."
    if columns is None:
        return None
    ends = [[name for name in unknown if _fold(column).endswith(_fold(name))] for column in columns]
    longest = [max(names, key=len, default="") for names in ends]
    labels = longest if sorted(longest) == sorted(unknown) else sorted(unknown)
    passed = keyword("classes", labels) if len(unknown) == len(columns) else "classes"
    return f"If the columns are in this order, pass {keyword('columns', [*columns])} and {passed}."


def _fold(name: str) -> str:
    return " ".join(name.split()).casefold()


class ClassMatrix(NamedTuple):
    """Scores of all classes, and the true labels."""

    scores: Floats
    classes: tuple[Any, ...]
    codes: Counts

    @property
    def true_scores(self) -> Floats:
        """Scores of the true labels."""
        return self.scores[np.arange(len(self.codes)), self.codes]


def read_class_matrix(
    scores: ArrayLike, labels: Any, classes: Sequence[Any] | None = None
) -> ClassMatrix | None:
    """Return a matrix of class scores with its labels; None if scores are those of true labels."""
    array = as_calibration_scores("scores", scores)
    if array.ndim != 2 or labels is None:
        if classes is not None:
            got = f"shape {array.shape}{' without labels' if labels is None else ''}"
            raise InvalidInput(f"classes needs scores of shape (n, classes) and labels, got {got}.")
        return None
    names = _column_classes(array.shape[1], scores, classes)
    _common.check_same_index("labels", labels, "scores", scores)
    found, codes = as_class_codes(labels)
    _common.check_same_length("scores", array, "labels", codes)
    return ClassMatrix(array, names, find_classes(found, names)[codes])


def find_classes(labels: Sequence[Any], classes: Sequence[Any]) -> Counts:
    """Return the position of each label among the classes; as in tables, its text will do."""
    by_text = {str(name): place for place, name in enumerate(classes)}
    by_name = {name: place for place, name in enumerate(classes)}
    found = [by_name.get(label, by_text.get(str(label), -1)) for label in labels]
    unknown = [label for label, place in zip(labels, found, strict=True) if place < 0]
    if unknown:
        rule = f"labels must be among the classes {listed([*map(repr, classes)])}"
        advice = advise_on_labels([*map(str, unknown)], [*by_text])
        advice = advice or "Pass the class of each column as classes, such as model.classes_."
        got = listed([*map(repr, unknown)])
        raise InvalidInput(f"{rule}, got {got}. {advice}")
    return np.array(found, dtype=np.int64)


def check_column_order(
    stored: Sequence[Any],
    pattern: str | Sequence[str],
    scores: Any,
    classes: Sequence[Any] | None = None,
    by_position: bool = True,
) -> None:
    """Raise InvalidInput unless the columns of ``scores`` are the calibrated classes, in order."""
    shape = np.shape(as_score_array("scores", scores))
    expected = [str(name) for name in stored]
    if (by_position or len(shape) > 1) and shape[-1:] != (len(expected),):
        text = f"scores must have a column for each of the {len(expected)} classes"
        text += f" {listed([*map(repr, stored)])}, in this order, got shape"
        raise InvalidInput(f"{text} {shape}.")
    names = _frame_columns(scores) if classes is None else classes
    if isinstance(pattern, str):
        pattern = [pattern.replace("*", name) for name in expected]
    if names is not None and [*map(str, names)] not in (expected, [*pattern]):
        text = f"the columns of scores are {listed([*map(str, names)])}, but the classes were"
        text += f" calibrated in the order {listed(expected)}, and a set is decided by"
        raise InvalidInput(f"{text} position.")


def _frame_columns(scores: Any) -> list[Any] | None:
    """Return the column names of a data frame; None if it was made without names."""
    if not hasattr(scores, "columns") or not hasattr(scores, "__array__"):
        return None
    names = [as_plain_label(name) for name in scores.columns]
    return None if names == list(range(len(names))) else names


def _column_classes(width: int, scores: Any, classes: Sequence[Any] | None) -> tuple[Any, ...]:
    named = _frame_columns(scores)
    if classes is None:
        return tuple(range(width) if named is None else named)
    names = tuple(as_plain_label(name) for name in classes)
    texts, of_frame = [str(name) for name in names], [str(name) for name in named or names]
    if len(texts) != width or len({*texts}) != width:
        rule = f"classes must name each of the {width} columns of scores once"
        raise InvalidInput(f"{rule}, got {listed([*map(repr, names)])}.")
    if texts != of_frame and {*texts} == {*of_frame}:
        order = f"the order of the columns of the frame, {listed(of_frame)}"
        raise InvalidInput(f"classes must be in {order}, got {listed(texts)}. Leave classes out.")
    return names


_MEANINGS = ("task", "score", "label", "classes_column", *NUMBERS)


def find_names(*reserved: str, **columns: Any) -> dict[str, str]:
    """Return the names of Series by their meaning, if all have one, and no two the same."""
    names = {meaning: getattr(column, "name", None) for meaning, column in columns.items()}
    texts = {meaning: name for meaning, name in names.items() if isinstance(name, str) and name}
    distinct = {*reserved, *texts.values()}
    return texts if len(distinct) == len(reserved) + len(columns) else {}


def check_columns(columns: Mapping[str, Any] | None, classes: Sequence[Any] | None) -> None:
    """Raise InvalidInput for columns that no calibration stores."""
    if columns is None:
        return
    stored = {f.name: columns[f.name] for f in fields(Columns) if f.name in columns}
    used = [str(stored[meaning]) for meaning in _MEANINGS if meaning in stored]
    if len({*used}) < len(used):
        raise InvalidInput(f"columns must name one column for each meaning, got {brief(columns)}.")
    Columns(**stored)
    named, lists = stored.get("classes"), stored.get("columns")
    if named is None:
        return
    texts = [str(name) for name in named]
    if not texts or len(set(texts)) < len(texts):
        raise InvalidInput(f"columns.classes must name each class once, got {brief(named)}.")
    if isinstance(lists, list) and len(lists) != len(named):
        rule = f"columns.columns must hold a column for each of {len(named)} classes"
        raise InvalidInput(f"{rule}, got {len(lists)}.")
    if classes is not None and [str(name) for name in classes] != texts:
        rule = f"columns.classes must be those of the evidence, in its order, {brief([*classes])}"
        raise InvalidInput(f"{rule}, got {brief(named)}.")

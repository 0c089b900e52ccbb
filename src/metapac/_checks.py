"""Every check of outside input, and every message it can raise."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST_COUNT = 2**53

P = ParamSpec("P")
R = TypeVar("R")
Array = NDArray[Any]
Floats = NDArray[np.floating[Any]]


# The words of other libraries, and what they are called here.
_FOREIGN = {
    "confidence_level": "epsilon = 1 - confidence_level",
    "coverage": "epsilon = 1 - coverage",
    "significance_level": "epsilon",
    "miscoverage": "epsilon",
    "error_rate": "epsilon",
}


def own_words(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that is called with another library's words say what ours are."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def told(*args: P.args, **params: P.kwargs) -> R:
        for word in params:
            if word in _FOREIGN:
                raise TypeError(f"{word} is called otherwise here: pass {_FOREIGN[word]}.")
        if "alpha" in params and ("alpha" not in known or "epsilon" not in params):
            raise TypeError(
                "alpha is not the miss rate here: epsilon is. alpha is the fraction of new tasks "
                "that may break the promise, and belongs to MetaPS beside epsilon and delta."
            )
        return function(*args, **params)

    return told


def probability(name: str, value: object) -> float:
    """Return ``value`` as a float strictly between 0 and 1."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 < float(value) < 1:
        return float(value)
    raise ValueError(
        f"{name} must be a number strictly between 0 and 1, got {value!r}. "
        f"Pass a small fraction such as {name}=0.1."
    )


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        words = " or ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be {words}, got {value!r}.")


def true_or_false(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def whole_numbers(name: str, value: Any, *, least: int) -> NDArray[np.int64]:
    """Return ``value`` as int64 of any shape, none of them below ``least``."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of unequal length
        array = np.array(None)
    exact = array.dtype.kind in "iu" or (
        array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.floor(array))))
    )
    if not exact or (array.size and (array.min() < least or array.max() > LARGEST_COUNT)):
        raise ValueError(
            f"{name} must hold whole numbers from {least} to 2**53, got {_brief(value)}. "
            "Pass counts, not fractions."
        )
    return array.astype(np.int64)


def whole_number(name: str, value: object, *, least: int = 1) -> int:
    array = whole_numbers(name, value, least=least)
    if array.ndim:
        raise ValueError(f"{name} must be one whole number, got {_brief(value)}.")
    return int(array)


def score_array(name: str, scores: ArrayLike) -> Floats:
    """Return ``scores`` as a NumPy array in its own precision (integers become float64)."""
    if isinstance(scores, np.ma.MaskedArray) and np.ma.is_masked(scores):
        masked = int(np.ma.getmaskarray(scores).sum())
        raise ValueError(
            f"{name} holds {masked} masked values; a score that is not there cannot be certified. "
            "Pass only the examples that have one."
        )
    try:
        array = np.asarray(_on_host(scores))
    except ValueError as error:
        raise ValueError(
            f"{name} must be a rectangular array of numbers, got rows of unequal length. "
            "Pass one flat array of scores and one task id for each."
        ) from error
    if array.dtype.kind == "O":
        array = _numbers_only(name, array)
    if array.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must be real numbers, got {array.dtype}. Pass probabilities, "
            f"log-probabilities or negative distances.{_swapped(array.dtype.kind in 'USO')}"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.astype(np.float64)


def calibration_scores(name: str, scores: ArrayLike) -> Floats:
    """Return scores to calibrate on; those of bfloat16, which NumPy has not, as float32.

    A bfloat16 stands for all numbers that round to it, so the least of them is taken: half a step
    below. Whatever precision is deployed, a score that rounds to the same bfloat16 is kept.
    """
    array = score_array(name, scores)
    if not is_bfloat16(scores):
        return array
    step = np.int32(1 << 16)  # of the float32 whose upper half a bfloat16 is
    finite = np.isfinite(array)
    bits = np.where(finite, array, np.float32(0)).view(np.int32)
    below = np.where(array > 0, bits - step, np.where(array < 0, bits + step, -(2**31) + step))
    down = np.maximum(below.astype(np.int32).view(np.float32), np.finfo(np.float32).min)
    return np.where(finite, array / 2 + down / 2, array)


def is_bfloat16(scores: object) -> bool:
    """Whether scores are a torch tensor of bfloat16, without importing torch."""
    return str(getattr(scores, "dtype", "")) == "torch.bfloat16"


def floor_to_bfloat16(values: ArrayLike) -> NDArray[np.float32]:
    """Return the largest bfloat16 not above each value, as float32.

    A score at or above a value, rounded to bfloat16 in whatever way, is at or above this.
    """
    exact = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
        near = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
    bits = near.view(np.int32)
    cut = bits & np.int32(-(1 << 16))  # of the lower half: towards zero
    down = np.where((near < 0) & (cut != bits), cut + np.int32(1 << 16), cut)
    return down.astype(np.int32).view(np.float32)


def flat(name: str, array: Array) -> None:
    """Refuse scores that are not one row of at least one."""
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one value for each example, got shape "
            f"{array.shape}. Of class probabilities pass those of the true labels, "
            f"{name}[np.arange(len(y)), y]; of a row per task, {name}.ravel() with "
            f"np.repeat(names, {name}.shape[1])."
        )
    if not len(array):
        raise ValueError(f"{name} is empty; pass at least one labelled example.")


def no_nan(name: str, array: Floats, where: Callable[[int], str] | None = None) -> None:
    """Refuse NaN; ``where`` turns the flat position of the first one into words."""
    # min() carries a NaN along and needs no temporary; the count is made for the message alone.
    if array.size and np.isnan(array.min()):
        bad = np.flatnonzero(np.isnan(array))
        first = where(int(bad[0])) if where else f"at position {int(bad[0])}"
        raise ValueError(
            f"{name} holds {len(bad)} NaN out of {array.size} values (first {first}); a score that "
            "cannot be compared cannot be certified. Drop those examples or give them -inf."
        )


def finite(name: str, array: Floats, *, positive: bool = False) -> None:
    bad = ~np.isfinite(array) if not positive else ~(np.isfinite(array) & (array > 0))
    if bad.any():
        rule = "finite and positive" if positive else "finite"
        raise ValueError(
            f"{name} must be {rule}, got {array[bad].flat[0]!s} at position "
            f"{int(np.flatnonzero(bad)[0])}."
        )


def same_length(name: str, array: Array, other: str, reference: Array) -> None:
    if len(array) != len(reference):
        raise ValueError(
            f"{name} and {other} must have the same length, got {len(array)} and "
            f"{len(reference)}. Pass one of each for every example."
        )


def aligned(name: str, column: Any, other: str, reference: Any) -> None:
    """Refuse two pandas columns whose rows go by different labels: order alone would pair them."""
    pandas = hasattr(column, "iloc") and hasattr(reference, "iloc")
    if pandas and not column.index.equals(reference.index):
        raise ValueError(
            f"{name} and {other} are pandas columns with different indices. Take both from one "
            "frame, or pass .to_numpy() to pair them by position."
        )


def paired(name: str, array: Array, other: str, reference: Array) -> tuple[Array, Array]:
    """Return two arrays stretched to one shape."""
    try:
        return tuple(np.broadcast_arrays(array, reference))  # type: ignore[return-value]
    except ValueError:
        raise ValueError(
            f"{name} and {other} must have matching shapes, got {array.shape} and "
            f"{reference.shape}. Pass one of each, or one number for all."
        ) from None


def same_shape(name: str, array: Array, other: str, reference: Array) -> None:
    if array.shape != reference.shape:
        raise ValueError(
            f"{name} and {other} must have the same shape, got {array.shape} and "
            f"{reference.shape}. Pass one of each for every example."
        )


def task_ids(tasks: ArrayLike | Iterable[object]) -> Array:
    """Return ``tasks`` as a one-dimensional array whose elements can be looked up in a dict."""
    if hasattr(tasks, "__array__"):
        ids = np.asarray(_on_host(tasks))
    elif isinstance(tasks, str | Set | Mapping) or not isinstance(tasks, Iterable):
        raise ValueError(
            f"tasks must hold one id for each example, in their order, got {_brief(tasks)}. "
            "Pass a list or an array."
        )
    else:
        ids = np.fromiter(tasks, dtype=object)
    if ids.ndim != 1:
        raise ValueError(
            f"tasks must be one-dimensional, got shape {ids.shape}. Make one id of several "
            "columns, such as f'{state}-{year}'."
        )
    if ids.dtype.kind == "f" and len(ids):
        raise _missing_task() if np.isnan(ids).any() else _fractional_task(ids[0])
    return ids if ids.dtype.kind in "iuU" else ids.astype(object)


def task_names(names: list[Any]) -> Array:
    """Check distinct task ids: none missing, all of one kind. Integers come back as integers."""
    types = {type(name): name for name in reversed(names)}  # few, however many the names
    looked_at = types.values() if types.keys() <= {str, int} else names
    if any(_is_missing(name) for name in looked_at):
        raise _missing_task()
    kinds = {_kind(name): name for name in types.values()}
    if "float" in kinds:
        raise _fractional_task(kinds["float"])
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} ({kinds[kind]!r})" for kind in reversed(kinds))
        raise ValueError(
            f"tasks must hold ids of one type, got {examples}. Convert them all, "
            "for example with [str(task) for task in tasks]."
        )
    if kinds.keys() == {"int"}:
        return _integers(names)
    if "str" in kinds and types.keys() != {str}:
        names = [str(name) for name in names]  # NumPy's strings, out of an object array
    return np.fromiter(names, object, len(names))


def one_type(types: set[type]) -> None:
    """Refuse numbers of several types, which may be equal and yet meant as different tasks."""
    if len(types) > 1:
        listed = " and ".join(sorted(each.__name__ for each in types))
        raise ValueError(
            f"tasks must hold ids of one type, got {listed}. Convert them all, "
            "for example with [str(task) for task in tasks]."
        )


def _integers(names: list[Any]) -> Array:
    try:
        return np.array(names, dtype=np.int64)
    except OverflowError:  # hashes of 64 bits, say; as objects they stay what they are
        return np.fromiter((int(name) for name in names), object, len(names))


def new_names(old: Array, new: Array) -> Array:
    """Return old and new task ids together; a task's examples must come all at once."""
    known = set(old.tolist())
    for name in new.tolist():
        if name in known:
            raise ValueError(
                f"tasks holds {name!r}, which was calibrated already. Add only new tasks; to "
                "change the examples of a task, calibrate from scratch."
            )
    return task_names(old.tolist() + new.tolist())


def distinct(names: list[Any]) -> None:
    try:
        repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    except TypeError as error:
        raise unhashable_task(error) from error
    if repeated is not None:
        raise ValueError(
            f"tasks holds {repeated!r} more than once, and a task counts only once. "
            "Send one threshold for each task."
        )


def in_order(name: str, values: Mapping[Any, Any], other: str, tasks: list[Any]) -> list[Any]:
    """Return the values of a mapping in the order of ``tasks``, those of ``other``."""
    missing = [task for task in tasks if task not in values]
    if missing or len(values) != len(tasks):
        which = missing or [task for task in values if task not in set(tasks)]
        raise ValueError(
            f"{name} must have the same tasks as {other}, but only one has {which[0]!r}."
        )
    return [values[task] for task in tasks]


def task_quantiles(quantiles: Any, tasks: list[Any]) -> NDArray[np.float64]:
    """Return one finite number for each of ``tasks``, out of an array or a mapping from task."""
    if isinstance(quantiles, Mapping):
        quantiles = in_order("quantiles", quantiles, "scores", tasks)
    array = score_array("quantiles", quantiles)
    if array.shape != (len(tasks),):
        raise ValueError(
            f"quantiles must hold one number for each of the {len(tasks)} tasks, got shape "
            f"{array.shape}. Pass a mapping from task to number, or an array in the order in which "
            "the tasks first appear."
        )
    finite("quantiles", array)
    return array.astype(np.float64)


def one_finite(name: str, value: Any) -> float:
    """Return ``value`` as a float that is neither infinite nor NaN."""
    array = score_array(name, value)
    if array.ndim or not np.isfinite(array):
        raise ValueError(f"{name} must be one finite number, got {_brief(value)}.")
    return float(array)


def json_names(names: Array) -> list[Any]:
    """Return task ids as JSON can hold and give back: strings or integers."""
    plain: list[Any] = names.tolist()
    for name in plain:
        if type(name) not in (str, int):
            raise ValueError(
                f"tasks must be strings or integers to be saved, got {name!r} of type "
                f"{type(name).__name__}. Calibrate with [str(task) for task in tasks]."
            )
    return plain


def threshold_table(thresholds: Floats, *, levels: int) -> Floats:
    """Return task thresholds as a matrix (tasks, levels), none of them NaN."""
    table = thresholds[:, None] if thresholds.ndim == 1 and levels == 1 else thresholds
    if table.ndim != 2 or table.shape[1] != levels or not len(table):
        raise ValueError(
            f"task_thresholds must hold {levels} value{'s' if levels > 1 else ''} for each task, "
            f"got shape {thresholds.shape}. Send what task_threshold(scores) returned at each site."
        )
    no_nan("task_thresholds", table, lambda i: f"in task number {i // levels}")
    return table


def class_codes(labels: Any) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
    """Return the classes, sorted, and the number of the class of each label."""
    if not hasattr(labels, "__array__"):  # else NaN among strings would become one
        labels = np.fromiter(labels, dtype=object)
    array = np.asarray(_on_host(labels))
    if array.ndim != 1 or not len(array):
        raise ValueError(
            f"labels must be one-dimensional, one true label for each example, got shape "
            f"{array.shape}."
        )
    if array.dtype.kind == "O":
        missing = sum(_is_missing(label) for label in array)
        kinds = {_kind(label) for label in array}
        if missing or len(kinds) > 1 or not kinds <= {"str", "int", "bool"}:
            found = f"{missing} missing" if missing else " and ".join(sorted(kinds))
            raise _bad_labels(found)
        array = array.astype({"str": str, "int": np.int64, "bool": bool}[kinds.pop()])
    if array.dtype.kind not in "iuUb":
        raise _bad_labels(str(array.dtype))
    classes, codes = np.unique(array, return_inverse=True)
    return tuple(classes.tolist()), codes.astype(np.int64)


def plain_label(label: Any) -> Any:
    """Return a label as Python has it: a string, an integer or a boolean."""
    return label.item() if isinstance(label, np.generic) else label


def _bad_labels(found: str) -> ValueError:
    return ValueError(
        f"labels must hold strings, integers or booleans of one type, none missing, got {found}. "
        "Convert them, for example with [str(label) for label in labels]."
    )


def precisions(values: Any) -> list[np.dtype[Any]]:
    """Return the precision of each number or array in a list; a plain number's is float64.

    An array of them all would have the finest, and certified labels would be lost to it.
    """
    each = [values] if hasattr(values, "dtype") or not len(values) else values
    return [score_array("task_thresholds", value).dtype for value in each]


def task_sizes(sizes: Any, names: Array) -> NDArray[np.int64]:
    """Return the number of examples of each task, out of an array or a mapping from task."""
    if isinstance(sizes, Mapping):
        sizes = in_order("sizes", sizes, "task_thresholds", names.tolist())
    counts = whole_numbers("sizes", sizes, least=1)
    same_shape("sizes", counts, "tasks", names)
    return counts


def unhashable_task(error: TypeError) -> ValueError:
    return ValueError(
        f"tasks must hold ids that can be looked up ({error}). "
        "Pass one string or integer for each example."
    )


def _missing_task() -> ValueError:
    return ValueError(
        "tasks holds missing ids (None or NaN); an example must belong to a task. "
        "Drop those examples or name their task."
    )


def _fractional_task(value: object) -> ValueError:
    return ValueError(
        f"tasks must be strings or integers, got the float {value}. "
        "Were scores and tasks swapped? If not, convert the ids with .astype(int)."
    )


def _is_missing(value: object) -> bool:
    unequal_to_itself = isinstance(value, float | np.datetime64) and value != value
    return value is None or unequal_to_itself or type(value).__name__ in ("NAType", "NaTType")


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "str"
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return "int"
    return "float" if isinstance(value, float) else type(value).__name__


def _on_host(value: Any) -> Any:
    """Bring a torch tensor to NumPy's memory, without importing torch."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def _numbers_only(name: str, array: Array) -> Floats:
    for position, value in enumerate(array.ravel()):
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise ValueError(
                f"{name} must be real numbers, got {value!r} of type {type(value).__name__} at "
                f"position {position}. Convert them to floats, missing ones to -inf."
                f"{_swapped(isinstance(value, str))}"
            )
    return array.astype(np.float64)


def _swapped(suspected: bool) -> str:
    return " Were scores and tasks swapped?" if suspected else ""


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

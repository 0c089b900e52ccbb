"""Score arrays: conversion, checks, and the precisions they come in."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac._checks import brief, on_host
from metapac._types import Array, Floats
from metapac.exceptions import InvalidInput, Parameter

# What to pass instead, what to do if one is missing, and what is taken for tasks.
_SCORES = (
    "Pass probabilities, log-probabilities or negative distances.",
    "drop the example; in prediction, inf keeps the label.",
    "scores",
)
_PRECISIONS = ("float16", "float32", "float64")


def as_score_array(name: str, scores: ArrayLike) -> Floats:
    """Return ``scores`` as a NumPy array of the same precision; integers become float64."""
    return _as_real_array(name, scores, *_SCORES)


def as_number_array(name: str, values: ArrayLike, *, beside_tasks: bool = False) -> Floats:
    """Return numbers that are not scores, such as predictions, as float64.

    With ``beside_tasks``, texts may be tasks that were passed in the wrong place.
    """
    words = "Pass one number for each example.", "drop the example.", name if beside_tasks else ""
    return _as_real_array(name, values, *words).astype(np.float64)


def _as_real_array(
    name: str, scores: ArrayLike, remedy: str, if_missing: str, swapped: str
) -> Floats:
    """Return numbers as an array; messages end with remedies for what these numbers are."""
    if isinstance(scores, np.ma.MaskedArray) and np.ma.is_masked(scores):
        masked = int(np.ma.getmaskarray(scores).sum())
        raise InvalidInput(
            f"{name} holds {masked} masked values; a missing score cannot be certified. "
            "Pass only the examples that have one."
        )
    try:
        array = np.asarray(on_host(scores))
    except ValueError as error:
        raise InvalidInput(
            f"{name} must be a rectangular array of numbers, got rows of unequal length. "
            "Pass one flat array of scores and one task id for each."
        ) from error
    if array.dtype.kind == "O":
        array = _objects_as_floats(name, array, if_missing, swapped)
    if array.dtype.kind not in "iuf":
        raise InvalidInput(
            f"{name} must be real numbers, got {array.dtype}. {remedy}"
            f"{_swap_hint(swapped, array.dtype.kind in 'USO')}"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.astype(np.float64)


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


def check_one_dimensional(name: str, array: Array) -> None:
    """Raise if scores are not one-dimensional, or empty."""
    if array.ndim != 1:
        raise InvalidInput(
            f"{name} must be one-dimensional, one value for each example, got shape "
            f"{array.shape}. Of class probabilities, pass those of the true labels, "
            f"{name}[np.arange(len(y)), y]; of a matrix with one row per task, {name}.ravel() "
            f"with np.repeat(names, {name}.shape[1])."
        )
    if not len(array):
        raise InvalidInput(f"{name} is empty; pass at least one labelled example.")


def check_no_nan(
    name: str,
    array: Floats,
    where: Callable[[int], str] | None = None,
    remedy: str = "Drop those examples.",
) -> None:
    """Raise if a score is NaN; ``where`` describes the flat position of the first one."""
    # min() propagates NaN and needs no temporary array; NaN are counted only for the message.
    if array.size and np.isnan(array.min()):
        bad = np.flatnonzero(np.isnan(array))
        first = where(int(bad[0])) if where else f"at position {int(bad[0])}"
        raise InvalidInput(
            f"{name} holds {len(bad)} NaN out of {array.size} values (first {first}); a score that "
            f"cannot be compared cannot be certified. {remedy}"
        )


def check_finite(name: str, array: Floats, *, positive: bool = False) -> None:
    """Raise if a number is infinite or NaN; with ``positive``, also if it is not above 0."""
    bad = ~np.isfinite(array) if not positive else ~(np.isfinite(array) & (array > 0))
    if bad.any():
        rule = "finite and positive" if positive else "finite"
        first = int(np.flatnonzero(bad)[0])
        text = "{} must be {}, got {} at position {}."
        raise InvalidInput(text, Parameter(name), rule, array.flat[first], first)


def as_finite_number(name: str, value: Any) -> float:
    """Return ``value`` as one float that is neither infinite nor NaN."""
    array = as_score_array(name, value)
    if array.ndim or not np.isfinite(array):
        raise InvalidInput(f"{name} must be one finite number, got {brief(value)}.")
    return float(array)


def as_threshold_matrix(thresholds: Floats, *, levels: int) -> Floats:
    """Return task thresholds as a matrix (tasks, levels) without NaN."""
    matrix = thresholds[:, None] if thresholds.ndim == 1 and levels == 1 else thresholds
    if matrix.ndim != 2 or matrix.shape[1] != levels or not len(matrix):
        raise InvalidInput(
            f"task_thresholds must hold {levels} value{'s' if levels > 1 else ''} for each task, "
            f"got shape {thresholds.shape}. Send what task_threshold(scores) returned at each site."
        )
    remedy = "Take it out of the scores of that task."
    check_no_nan("task_thresholds", matrix, lambda i: f"in task number {i // levels}", remedy)
    return matrix


def get_precisions(values: Any) -> list[np.dtype[Any]]:
    """Return the precision of each number or array in a list; float64 for a plain number.

    One array of all of them would have the finest precision, at which certified labels could be
    lost.
    """
    items = [values] if hasattr(values, "dtype") or not len(values) else values
    return [as_score_array("task_thresholds", item).dtype for item in items]


def as_precision(precision: Any) -> np.dtype[Any]:
    """Return a precision that scores can have; no other type compares them safely."""
    name = precision.name if isinstance(precision, np.dtype) else precision
    if not isinstance(name, str) or name not in _PRECISIONS:
        raise InvalidInput(
            f"precision must be {', '.join(_PRECISIONS[:2])} or {_PRECISIONS[2]}, got {name!r}."
        )
    return np.dtype(name)


def coarsest_precision(precisions: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the coarsest precision, at which no label certified at a finer one is lost."""
    return min(precisions, key=lambda dtype: dtype.itemsize)


def _objects_as_floats(name: str, array: Array, if_missing: str, swapped: str) -> Floats:
    for position, value in enumerate(array.ravel()):
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise InvalidInput(
                f"{name} must be real numbers, got {value!r} of type {type(value).__name__} at "
                f"position {position}. Convert them to floats. Where one is missing, {if_missing}"
                f"{_swap_hint(swapped, isinstance(value, str))}"
            )
    return array.astype(np.float64)


def _swap_hint(name: str, suspected: bool) -> str:
    return f" Were {name} and tasks swapped?" if name and suspected else ""

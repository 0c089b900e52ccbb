"""What people do with sets: read them as labels, count them; and intervals for regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from metapac import _checks

# Bounds on what a score and an end point together lose to rounding, and to underflow.
_ROUNDINGS = 4 * float(np.finfo(np.float64).eps)
_UNDERFLOW = 4 * float(np.finfo(np.float64).smallest_subnormal)


def label_lists(sets: ArrayLike, classes: Sequence[Any] | None = None) -> list[list[Any]]:
    """Return each row of a boolean matrix as the list of its labels (numbers, or ``classes``)."""
    matrix = _matrix(sets)
    names = list(range(matrix.shape[1])) if classes is None else list(classes)
    if len(names) != matrix.shape[1]:
        raise ValueError(
            f"classes must name the {matrix.shape[1]} columns of sets, got {len(names)} names."
        )
    kept = [names[j] for j in np.nonzero(matrix)[1].tolist()]
    ends = np.cumsum(np.count_nonzero(matrix, axis=1)).tolist()
    return [kept[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def set_sizes(sets: ArrayLike) -> NDArray[np.int64]:
    """Return the number of labels in each set."""
    return np.asarray(np.count_nonzero(_matrix(sets), axis=1))


def empty_sets(sets: ArrayLike) -> NDArray[np.bool_]:
    """Return which sets hold no label: a sign that the example is unlike any class."""
    return np.asarray(~_matrix(sets).any(axis=1))


def residual_scores(y: ArrayLike, prediction: ArrayLike, scale: ArrayLike = 1.0) -> _checks.Floats:
    """Return ``-|y - prediction| / scale``, the scores whose sets are intervals."""
    _checks.aligned("y", y, "prediction", prediction)
    target = _checks.score_array("y", y).astype(np.float64)
    centre, width = _centre_and_scale(prediction, scale)
    _checks.finite("y", target)
    _checks.same_shape("y", target, "prediction", centre)
    return np.asarray(-np.abs(target - centre) / width)


def interval(
    threshold: float,
    prediction: ArrayLike,
    scale: ArrayLike = 1.0,
    *,
    precision: DTypeLike = np.float64,
) -> _checks.Floats:
    """Return the lower and upper ends of all y whose residual score is at least ``threshold``.

    The ends are rounded outwards, so that no such y is lost to floating point and the guarantee
    of the threshold carries over; ``precision`` is that of the scores it was found from. Shape:
    that of ``prediction``, with 2 added at the end.
    """
    if not threshold <= 0:
        raise ValueError(
            f"threshold is {threshold:g}, but residual scores -|y - prediction| / scale are never "
            "positive. Calibrate on residual_scores(y, prediction, scale) to get intervals."
        )
    centre, width = _centre_and_scale(prediction, scale)
    if threshold == -np.inf:
        radius = np.full_like(centre, np.inf)
    else:
        grain = np.finfo(precision)
        lowest = -threshold * (1 + float(grain.eps)) + float(grain.smallest_subnormal)
        radius = lowest * width
        radius = radius + _ROUNDINGS * (np.abs(centre) + radius) + _UNDERFLOW
    return np.stack([centre - radius, centre + radius], axis=-1)


def _centre_and_scale(
    prediction: ArrayLike, scale: ArrayLike
) -> tuple[_checks.Floats, _checks.Floats]:
    centre = _checks.score_array("prediction", prediction).astype(np.float64)
    width = _checks.score_array("scale", scale).astype(np.float64)
    _checks.finite("prediction", centre)
    _checks.finite("scale", width, positive=True)
    if width.ndim:
        _checks.same_shape("prediction", centre, "scale", width)
    return centre, width


def _matrix(sets: ArrayLike) -> NDArray[np.bool_]:
    matrix = np.asarray(sets)
    if matrix.ndim != 2 or matrix.dtype != np.bool_:
        raise ValueError(
            "sets must be a boolean matrix with a row per example and a column per class, got "
            f"{matrix.dtype} of shape {matrix.shape}. Pass what predict_set returned."
        )
    return matrix

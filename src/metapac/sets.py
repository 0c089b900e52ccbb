"""Prediction sets as label lists and sizes, and intervals for regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from metapac import _checks, _scores
from metapac._types import Floats
from metapac.exceptions import InvalidInput

# Bounds on what a score and an end point together may lose to rounding, and to underflow.
_ROUNDINGS = 4 * float(np.finfo(np.float64).eps)
_UNDERFLOW = 4 * float(np.finfo(np.float64).smallest_subnormal)


def label_lists(sets: ArrayLike, classes: Sequence[Any] | None = None) -> list[list[Any]]:
    """Return each prediction set as the list of its labels.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.
    classes : sequence, optional
        Names of the classes; by default 0, 1, and so on.

    Returns
    -------
    list of list
        Labels of each set.

    Examples
    --------
    >>> from metapac import label_lists
    >>> label_lists([[True, False, True], [False, False, False]], ["cat", "dog", "owl"])
    [['cat', 'owl'], []]
    """
    matrix = _matrix(sets)
    listed = classes.tolist() if isinstance(classes, np.ndarray) else classes  # no NumPy strings
    names = list(range(matrix.shape[1]) if listed is None else listed)
    if len(names) != matrix.shape[1]:
        raise InvalidInput(
            f"classes must name the {matrix.shape[1]} columns of sets, got {len(names)} names."
        )
    labels = [names[j] for j in np.nonzero(matrix)[1].tolist()]
    ends = np.cumsum(np.count_nonzero(matrix, axis=1)).tolist()
    return [labels[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def set_sizes(sets: ArrayLike) -> NDArray[np.int64]:
    """Return the number of labels in each prediction set.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.

    Returns
    -------
    ndarray of int, shape (n,)
        Size of each set.

    Examples
    --------
    >>> from metapac import set_sizes
    >>> set_sizes([[True, False, True], [False, False, False]])
    array([2, 0])
    """
    return np.asarray(np.count_nonzero(_matrix(sets), axis=1))


def empty_sets(sets: ArrayLike) -> NDArray[np.bool_]:
    """Return which prediction sets are empty, because no label scored high enough.

    With probabilities, the model is torn between labels there. Treat an empty set as all labels.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.

    Returns
    -------
    ndarray of bool, shape (n,)
        Whether each set is empty.

    Examples
    --------
    >>> from metapac import empty_sets
    >>> empty_sets([[True, False, True], [False, False, False]])
    array([False,  True])
    """
    return np.asarray(~_matrix(sets).any(axis=1))


def residual_scores(y: ArrayLike, prediction: ArrayLike, scale: ArrayLike = 1.0) -> Floats:
    """Return ``-|y - prediction| / scale``, the scores whose prediction sets are intervals.

    Parameters
    ----------
    y : array_like
        True values.
    prediction : array_like
        Predicted values, in the shape of ``y``.
    scale : array_like, default 1.0
        Scale of each residual, such as a predicted standard deviation; or one for all.

    Returns
    -------
    ndarray
        Scores in the shape of ``y``; none is positive.

    Examples
    --------
    >>> from metapac import residual_scores
    >>> residual_scores([1.0, 2.0], [1.5, 2.0], scale=0.5)
    array([-1., -0.])
    """
    _checks.check_same_index("y", y, "prediction", prediction)
    target = _scores.as_number_array("y", y)
    centre, width = _centre_and_scale(prediction, scale)
    _scores.check_finite("y", target)
    _checks.check_same_shape("y", target, "prediction", centre)
    return np.asarray(-np.abs(target - centre) / width)


def interval(
    threshold: float,
    prediction: ArrayLike,
    scale: ArrayLike = 1.0,
    *,
    precision: DTypeLike = np.float64,
) -> Floats:
    """Return the lower and upper ends of all y whose residual score is at least ``threshold``.

    The ends are rounded outwards, so that no such y is lost to floating point and the guarantee
    of the threshold holds for the interval.

    Parameters
    ----------
    threshold : float
        Threshold calibrated on `residual_scores`; at most 0.
    prediction : array_like
        Predicted values.
    scale : array_like, default 1.0
        Scale of each residual, as in `residual_scores`.
    precision : dtype, default numpy.float64
        Precision of the calibration scores.

    Returns
    -------
    ndarray
        Lower and upper ends, in the shape of ``prediction`` with a last axis of length 2.

    Examples
    --------
    >>> from metapac import interval
    >>> interval(-2.0, [10.0, 20.0], scale=[1.0, 0.5]).round(6)
    array([[ 8., 12.],
           [19., 21.]])
    """
    centre, width = _centre_and_scale(prediction, scale)
    widest, relative, absolute = interval_radius(threshold, precision)
    if widest == np.inf:
        radius = np.full_like(centre, np.inf)
    else:
        radius = widest * width
        radius = radius + relative * (np.abs(centre) + radius) + absolute
    return np.stack([centre - radius, centre + radius], axis=-1)


def interval_radius(threshold: float, precision: DTypeLike) -> tuple[float, float, float]:
    """Return the numbers from which `interval` computes half the width of an interval.

    Parameters
    ----------
    threshold : float
        Threshold calibrated on `residual_scores`; at most 0.
    precision : dtype
        Precision of the calibration scores.

    Returns
    -------
    widest : float
        Largest residual to keep, in units of the scale.
    relative, absolute : float
        What rounding may cost, relative to the sum of prediction and radius, and in total.
    """
    if not threshold <= 0:
        raise InvalidInput(
            f"threshold is {threshold:g}, but residual scores -|y - prediction| / scale are never "
            "positive. Calibrate on residual_scores(y, prediction, scale) to get intervals."
        )
    info = np.finfo(precision)
    widest = -threshold * (1 + float(info.eps)) + float(info.smallest_subnormal)
    return widest, _ROUNDINGS, _UNDERFLOW


def _centre_and_scale(prediction: ArrayLike, scale: ArrayLike) -> tuple[Floats, Floats]:
    centre = _scores.as_number_array("prediction", prediction)
    width = _scores.as_number_array("scale", scale)
    _scores.check_finite("prediction", centre)
    _scores.check_finite("scale", width, positive=True)
    if width.ndim:
        _checks.check_same_shape("prediction", centre, "scale", width)
    return centre, width


def _matrix(sets: ArrayLike) -> NDArray[np.bool_]:
    matrix = np.asarray(sets)
    if matrix.ndim != 2 or matrix.dtype != np.bool_:
        raise InvalidInput(
            "sets must be a boolean matrix with a row per example and a column per class, got "
            f"{matrix.dtype} of shape {matrix.shape}. Pass what predict_set returned."
        )
    return matrix

"""The comparison ``score >= threshold`` inside an engine, exact to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from metapac._checks import listed
from metapac._types import Array
from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables.class_scores import Precision
from metapac.tables.search.expressions import exact
from metapac.tables.search.floats import float_to_ordinal, ordinal_to_float, previous_float


def is_kept(score: Any, cut: float) -> Any:
    """Return whether a score is at least ``cut``.

    Parameters
    ----------
    score : Ibis expression
        The scores.
    cut : float
        The smallest score to keep, from ``find_cut``.

    Returns
    -------
    Ibis expression
        Booleans.
    """
    if cut == -math.inf:
        return score.notnull()
    if cut == math.inf:
        return score.cast("float64") > exact(float(np.finfo(np.float64).max))
    return score.cast("float64") >= exact(cut)


def find_cut(promise: ThresholdSets, precision: Precision) -> float:
    """Return the smallest score that a predictor with a single threshold keeps.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    precision : numpy.dtype
        Precision of the scores.

    Returns
    -------
    float
        The score.
    """
    thresholds = np.array([promise.threshold_])
    return float(smallest_kept_scores(thresholds, promise.precision_, precision)[0])


def find_cuts(promise: ThresholdSets, names: Sequence[Any], precision: Precision) -> list[float]:
    """Return the smallest score that a predictor keeps, for each of some classes.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    names : sequence
        The classes.
    precision : numpy.dtype
        Precision of the scores.

    Returns
    -------
    list of float
        A score for each class.
    """
    if promise.classes_ is None:
        return [find_cut(promise, precision)] * len(names)
    cuts = smallest_kept_scores(promise.thresholds_, promise.precision_, precision).tolist()
    by_class = {str(name): cut for name, cut in zip(promise.classes_, cuts, strict=True)}
    for name in names:
        if str(name) not in by_class:
            raise InvalidInput(
                "{} must be among the calibrated ones, {}, got {!r}.",
                Parameter("classes"),
                listed([*map(repr, promise.classes_)]),
                name,
            )
    return [by_class[str(name)] for name in names]


def smallest_kept_scores(thresholds: Array, calibrated: Precision, precision: Precision) -> Array:
    """Return for each threshold the smallest score that ``predict_set`` keeps.

    Sets are decided in the coarser of two precisions. Rounding preserves order, so that all finer
    numbers from some number on are kept. Bisection finds that number.

    Parameters
    ----------
    thresholds : ndarray of float
        The thresholds.
    calibrated : numpy.dtype
        Precision of the calibration scores.
    precision : numpy.dtype
        Precision of the scores to compare.

    Returns
    -------
    ndarray of float64
        The scores.
    """
    coarse = min(precision, calibrated, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore"):  # overflow to inf is intended; it preserves order
        rounded = thresholds.astype(coarse)
    if coarse == precision:
        return rounded.astype(np.float64)
    kept, dropped = (
        float_to_ordinal(x.astype(precision)) for x in (rounded, previous_float(rounded))
    )
    while (kept - dropped > 1).any():
        middle = dropped + (kept - dropped) // 2
        with np.errstate(over="ignore"):
            keeps = ordinal_to_float(middle, precision).astype(coarse) >= rounded
        kept, dropped = np.where(keeps, middle, kept), np.where(keeps, dropped, middle)
    return ordinal_to_float(kept, precision).astype(np.float64)

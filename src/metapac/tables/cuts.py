"""The comparison ``score >= threshold`` inside an engine, exact to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import ibis
import numpy as np

from metapac._estimator import ThresholdSets
from metapac.tables import _checks
from metapac.tables.brackets import Array, number, ordinal, previous
from metapac.tables.scores import Precision


def kept(score: Any, cut: float) -> Any:
    """Return whether a score is at least ``cut``, as a boolean expression."""
    if cut == -math.inf:
        return score.notnull()
    if cut == math.inf:
        return score.cast("float64") > exact(float(np.finfo(np.float64).max))
    return score.cast("float64") >= exact(cut)


def exact(value: float) -> Any:
    """Return a finite number as an expression of whole numbers and powers of two.

    Engines may round a decimal fraction on its way in; these they cannot.
    """
    fraction, exponent = math.frexp(value)
    found = ibis.literal(int(fraction * 2**53)).cast("float64")
    for power in _powers(exponent - 53):
        factor = ibis.literal(2 ** abs(power)).cast("float64")
        found = found * factor if power > 0 else found / factor
    return found


def _powers(exponent: int) -> list[int]:
    """Split an exponent into parts whose power of two is a whole number of 64 bits."""
    sign = 1 if exponent > 0 else -1
    whole, rest = divmod(abs(exponent), 60)
    return [sign * 60] * whole + [sign * rest] * (rest > 0)


def cut_of(promise: ThresholdSets, precision: Precision) -> float:
    """Return the least score of a precision that a promise with one threshold keeps."""
    return float(least_kept(np.array([promise.threshold_]), promise.precision_, precision)[0])


def cuts_of(promise: ThresholdSets, names: Sequence[Any], precision: Precision) -> list[float]:
    """Return for each of some classes the least score of a precision that a promise keeps."""
    if promise.classes_ is None:
        return [cut_of(promise, precision)] * len(names)
    _checks.promised_classes(names, promise.classes_)
    cuts = least_kept(promise.thresholds_, promise.precision_, precision).tolist()
    of = {str(name): cut for name, cut in zip(promise.classes_, cuts, strict=True)}
    return [of[str(name)] for name in names]


def least_kept(thresholds: Array, calibrated: Precision, precision: Precision) -> Array:
    """Return for each threshold the least score of a precision that ``predict_set`` keeps.

    Sets are decided in the coarser of two precisions. Rounding keeps order, so that among the
    finer numbers those kept are all from some one on, which is looked for by halving.
    """
    coarse = min(precision, calibrated, key=lambda each: each.itemsize)
    with np.errstate(over="ignore"):  # beyond a narrow type's range lies infinity, in order
        rounded = thresholds.astype(coarse)
    if coarse == precision:
        return rounded.astype(np.float64)
    enough, dropped = (ordinal(x.astype(precision)) for x in (rounded, previous(rounded)))
    while (enough - dropped > 1).any():
        middle = dropped + (enough - dropped) // 2
        with np.errstate(over="ignore"):
            keeps = number(middle, precision).astype(coarse) >= rounded
        enough, dropped = np.where(keeps, middle, enough), np.where(keeps, dropped, middle)
    return number(enough, precision).astype(np.float64)


def one_if(condition: Any) -> Any:
    """Return 1 or 0; not every engine makes numbers of booleans."""
    return condition.ifelse(1, 0)


def total(counts: list[Any]) -> Any:
    """Return the sum of expressions, nested no deeper than it must be."""
    while len(counts) > 1:
        counts = [reduce(lambda a, b: a + b, counts[i : i + 8]) for i in range(0, len(counts), 8)]
    return counts[0]

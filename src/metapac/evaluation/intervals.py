"""Confidence intervals of means, shares and quantiles over tasks, draws and training seeds.

Tasks of one draw share a threshold, and draws of one training seed share a learner. Their results
are not independent, so intervals are computed from independent units: the draws, if there are one
or two seeds, and the seeds, if there are more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._types import Array
from metapac.evaluation.noise import error_quantile
from metapac.evaluation.rows import Rows
from metapac.verdict.intervals import clopper_pearson_interval

CONFIDENCE = 0.95
MIN_SEEDS = 3  # from which the spread of the seeds is estimated
Interval = tuple[float, float]


def mean_by_draw(rows: Rows, values: Array) -> NDArray[np.float64]:
    """Return the mean of some values over the tasks of each draw.

    Parameters
    ----------
    rows : Rows
        Results of one method.
    values : ndarray, shape (rows,)
        A value for each row.

    Returns
    -------
    ndarray, shape (draws,)
        The means, in order of the draws' numbers.
    """
    _, number = np.unique(rows.draw, return_inverse=True)
    return np.bincount(number, weights=values) / np.bincount(number)


def mean_interval(values: Sequence[Array], *, across_seeds: bool = True) -> Interval:
    """Return the interval of a mean by Student's t over independent units.

    Parameters
    ----------
    values : sequence of ndarray
        For each training seed, the value of each of its draws.
    across_seeds : bool, default True
        Whether the interval is about other seeds too, if there are three or more; otherwise it is
        about these learners alone.

    Returns
    -------
    low, high : float
        The interval at 95 % confidence. With three seeds or more, the units are the means of the
        seeds. With fewer they are the draws, whose spread is taken within each seed: the interval
        is then about these learners, not about other seeds. With a single unit it is unbounded.
    """
    if across_seeds and len(values) >= MIN_SEEDS:
        means = np.array([float(np.mean(draws)) for draws in values])
        return _student(float(np.mean(means)), means - np.mean(means), len(means) - 1)
    around = np.concatenate([draws - np.mean(draws) for draws in values])
    return _student(float(np.mean(np.concatenate(values))), around, len(around) - len(values))


def _student(mean: float, deviations: Array, freedom: int) -> Interval:
    if not freedom:
        return -math.inf, math.inf
    error = math.sqrt(float(deviations @ deviations) / freedom / len(deviations))
    half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return mean - half, mean + half


def size_interval(by_seed: Sequence[Rows]) -> Interval:
    """Return the interval of the mean set size.

    Parameters
    ----------
    by_seed : sequence of Rows
        Results of one method, for each training seed.

    Returns
    -------
    low, high : float
        That of `mean_interval`, clipped to what is possible: from 0 to the mean number of labels.
    """
    low, high = mean_interval([mean_by_draw(rows, rows.size) for rows in by_seed])
    if not math.isfinite(low):
        return low, high
    labels = np.concatenate([rows.labels for rows in by_seed])
    most = float(np.mean(labels)) if labels.all() else math.inf
    return max(0.0, low), min(most, high)


def share_interval(
    by_seed: Sequence[Rows], has: Sequence[Array], *, across_seeds: bool = True
) -> Interval:
    """Return the interval of the share of tasks that have a property.

    Parameters
    ----------
    by_seed : sequence of Rows
        Results of one method, for each training seed.
    has : sequence of ndarray of bool
        For each training seed, whether each row has the property.
    across_seeds : bool, default True
        As in `mean_interval`.

    Returns
    -------
    low, high : float
        The interval at 95 % confidence: that of `mean_interval`, widened if it is narrower than
        the Clopper-Pearson interval for independent tasks. So it is not a single point if all
        tasks have the property.
    """
    shares = [mean_by_draw(rows, each) for rows, each in zip(by_seed, has, strict=True)]
    interval = mean_interval(shares, across_seeds=across_seeds)
    return _at_least_binomial(interval, np.concatenate(has))


def draw_share_interval(values: Sequence[Array]) -> Interval:
    """Return the interval of the share of draws that have a property.

    Parameters
    ----------
    values : sequence of ndarray of bool
        For each training seed, whether each of its draws has the property.

    Returns
    -------
    low, high : float
        The interval at 95 % confidence, computed as in `share_interval`.
    """
    return _at_least_binomial(mean_interval(values), np.concatenate(values))


def _at_least_binomial(interval: Interval, has: Array) -> Interval:
    exact = clopper_pearson_interval(np.sum(has), len(has), confidence=CONFIDENCE)
    low, high = (float(end) for end in exact)
    # A single unit says nothing about the spread between units: use the tasks alone.
    if not all(map(math.isfinite, interval)):
        return low, high
    return max(0.0, min(low, interval[0])), min(1.0, max(high, interval[1]))


def quantile_interval(by_seed: Sequence[Rows], alpha: float) -> Interval:
    """Return the interval of the (1 - alpha) quantile of the error over tasks.

    Parameters
    ----------
    by_seed : sequence of Rows
        Results of one method, for each training seed.
    alpha : float
        Share of tasks that may lie above the quantile.

    Returns
    -------
    low, high : float
        The interval at 95 % confidence, after Woodruff (1952): the errors x for which the interval
        of the share of tasks with an error of at most x contains 1 - alpha. The upper end is 1 if
        there are too few tasks.
    """
    errors = np.unique(np.concatenate([rows.error for rows in by_seed]))

    def reaches(end: int, error: float) -> bool:
        return share_interval(by_seed, [rows.error > error for rows in by_seed])[end] <= alpha

    # The lower end of the interval of the share above x belongs to the lower end of the quantile.
    low = _first(errors, lambda error: reaches(0, error))
    high = _first(errors, lambda error: reaches(1, error))
    observed = error_quantile(np.concatenate([rows.error for rows in by_seed]), alpha)
    return min(low, observed), max(high, observed)


def _first(ascending: Array, is_enough: Callable[[float], bool]) -> float:
    """Return the first value that satisfies a condition, by bisection; 1 if none does."""
    low, high = -1, len(ascending)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(float(ascending[middle])) else (middle, high)
    return float(ascending[high]) if high < len(ascending) else 1.0

"""Summaries of evaluation rows: one line for each method, and two methods compared in pairs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from metapac._types import Array
from metapac.evaluation.rows import Rows
from metapac.exceptions import InvalidInput
from metapac.guarantee import Guarantee


class Summary(NamedTuple):
    """Results of one method over all draws and their new tasks.

    Attributes
    ----------
    method : str
        Name of the method.
    delta : float
        Its delta.
    size, size_median : float
        Mean and median set size over tasks.
    error_mean, error_90 : float
        Mean and 90th percentile of the error over tasks.
    tasks_within : float
        Share of tasks whose error is at most epsilon.
    draws_within : float
        Share of draws in which at least 1 - alpha of the tasks have an error of at most epsilon.
    satisfied : bool
        Whether at least 1 - alpha of all tasks have an error of at most epsilon.
    feasible : bool
        False if the method kept every label on some task because there were too few data.

    Examples
    --------
    >>> from metapac.evaluation import Summary
    >>> line = Summary("PS", 0.1, 1.5, 1.4, 0.1, 0.2, 0.6, 0.0, False, True)
    >>> line.error_90
    0.2
    """

    method: str
    delta: float
    size: float
    size_median: float
    error_mean: float
    error_90: float
    tasks_within: float
    draws_within: float
    satisfied: bool
    feasible: bool


def summarise(rows: Rows, guarantee: Guarantee) -> list[Summary]:
    """Return one line for each method and each of its deltas.

    Parameters
    ----------
    rows : Rows
        Results of an evaluation.
    guarantee : Guarantee
        The guarantee that they are compared with.

    Returns
    -------
    list of Summary
        The lines, in order of first appearance.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> summarise(rows, guarantee)[0].method
    'PS'
    """
    return [_summarise_method(rows.select(*method), guarantee) for method in rows.methods()]


def _summarise_method(rows: Rows, g: Guarantee) -> Summary:
    violated = rows.error > g.miss_rate
    return Summary(
        method=str(rows.method[0]),
        delta=float(rows.delta[0]),
        size=float(np.mean(rows.size)),
        size_median=float(np.median(rows.size)),
        error_mean=float(np.mean(rows.error)),
        error_90=float(np.quantile(rows.error, 0.9)),
        tasks_within=float(np.mean(~violated)),
        draws_within=float(np.mean(_mean_by_draw(rows, violated) <= g.alpha)),
        satisfied=bool(np.mean(violated) <= g.alpha),
        feasible=bool(rows.feasible.all()),
    )


def _mean_by_draw(rows: Rows, values: Array) -> Array:
    """Return the mean of ``values`` over the tasks of each draw."""
    _, number = np.unique(rows.draw, return_inverse=True)
    return np.bincount(number, weights=values) / np.bincount(number)


class SizeComparison(NamedTuple):
    """Mean set sizes of two methods on the same draws, and their difference.

    Attributes
    ----------
    first, second : str
        Names of the methods.
    first_size, second_size : float
        Mean set size of each.
    difference : float
        Mean difference, first minus second.
    low, high : float
        Ends of its 95 % confidence interval: Student's t over the mean sizes of the draws, which
        are independent given the study. With one draw it is the whole line.
    draws : int
        Number of draws.

    Examples
    --------
    >>> from metapac.evaluation import SizeComparison
    >>> SizeComparison("tight", "even", 1.9, 2.0, -0.1, -0.15, -0.05, 100).difference
    -0.1
    """

    first: str
    second: str
    first_size: float
    second_size: float
    difference: float
    low: float
    high: float
    draws: int


def compare_sizes(
    rows: Rows, first: str, second: str, *, delta: float | None = None
) -> SizeComparison:
    """Return how much larger the sets of one method are than those of another, draw by draw.

    Parameters
    ----------
    rows : Rows
        Results of an evaluation.
    first, second : str
        Names of the methods.
    delta : float, optional
        Delta of both; by default the first that ``first`` has.

    Returns
    -------
    SizeComparison
        Mean sizes, and their difference with a 95 % interval.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, compare_sizes, evaluate
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> compare_sizes(rows, "Meta-PS joint", "Meta-PS even").difference < 0
    True
    """
    one = rows.select(first, delta)
    other = rows.select(second, float(one.delta[0]))
    if set(one.draw.tolist()) != set(other.draw.tolist()):
        raise InvalidInput(
            f"{first!r} and {second!r} must have been run on the same draws to be compared. "
            "Evaluate them together."
        )
    ones, others = _mean_by_draw(one, one.size), _mean_by_draw(other, other.size)
    differences = ones - others
    mean, draws = float(np.mean(differences)), len(differences)
    half = math.inf
    if draws > 1:
        spread = special.stdtrit(draws - 1, 0.975) * np.std(differences, ddof=1)
        half = float(spread / math.sqrt(draws))
    return SizeComparison(
        first=first,
        second=second,
        first_size=float(np.mean(ones)),
        second_size=float(np.mean(others)),
        difference=mean,
        low=mean - half,
        high=mean + half,
        draws=draws,
    )

"""Hints about all scores from the first rows of a table, which only speed up the search."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac._types import Array, Counts
from metapac.tables.io.engines import Traits
from metapac.tables.scores import Rows
from metapac.tables.search.brackets import Spans
from metapac.tables.search.census import Bounds, Census

# The larger the tasks are, the more precisely ranks can be predicted, and the more rows it takes.
_FEW_ROWS, _ROWS, _SHARE = 1 << 14, 1 << 17, 32
# Tasks with similar means have similar shapes: scores that cannot exceed 1 are skewed close to 1.
_STRATA = 8
# A curve consists of every 64th value, and of at least 32 values.
_EVERY, _ENOUGH = 64, 32
# Distance of a rank from its expected place: some standard deviations, and some slack since the
# shapes of tasks differ a little.
_DEVIATIONS, _SLACK = 3, 0.003
# Bounds include all but one score in a thousand. They are used if another score lies further
# outside than four times their distance.
_RARE, _FAR = 1000, 4
_HUGE = 1e30


class Sample(NamedTuple):
    """The first rows of a table that have a task and a score.

    Attributes
    ----------
    names : list
        The distinct tasks.
    task : ndarray of int, shape (n,)
        Index of the task of each row.
    scores : ndarray of float64, shape (n,)
        Its score.
    """

    names: list[Any]
    task: Counts
    scores: Array

    def find_tasks(self, census: Census) -> Counts:
        """Return the index of the task of each row in a census.

        Parameters
        ----------
        census : Census
            The tasks.

        Returns
        -------
        ndarray of int, shape (n,)
            The indices; -1 for a task that the census does not have.
        """
        place = {name: i for i, name in enumerate(census.names.tolist())}
        index = np.array([place.get(name, -1) for name in self.names], dtype=np.int64)
        return index[self.task]


class Shape(NamedTuple):
    """Distribution of scores about their task's mean, in units of its standard deviation.

    Attributes
    ----------
    stratum : ndarray of int, shape (tasks,)
        Curve that each task follows.
    values : list of ndarray, shape (grid,)
        Values of each curve, in ascending order.
    shares : list of ndarray, shape (grid,)
        Share of the scores below each value.
    """

    stratum: Counts
    values: list[Array]
    shares: list[Array]

    def share_below(self, task: Counts, values: Array) -> Array:
        """Return the share of a task's scores below each value.

        Parameters
        ----------
        task : ndarray of int, shape (n,)
            Index of the task.
        values : ndarray of float, shape (n,)
            The standardised values.

        Returns
        -------
        ndarray of float, shape (n,)
            The shares.
        """
        shares = np.full(len(values), np.nan)
        for i, (curve, share) in enumerate(zip(self.values, self.shares, strict=True)):
            members = self.stratum[task] == i
            shares[members] = np.interp(values[members], curve, share, left=0.0, right=1.0)
        return shares

    def quantile(self, task: Counts, shares: Array) -> Array:
        """Return the value below which each share of a task's scores lies.

        Parameters
        ----------
        task : ndarray of int, shape (n,)
            Index of the task.
        shares : ndarray of float, shape (n,)
            The shares.

        Returns
        -------
        ndarray of float, shape (n,)
            The standardised values; infinite beyond the ends of the curve.
        """
        values = np.full(len(shares), np.nan)
        for i, (curve, share) in enumerate(zip(self.values, self.shares, strict=True)):
            members = self.stratum[task] == i
            values[members] = np.interp(shares[members], share, curve, left=-np.inf, right=np.inf)
        return values


def take_sample(rows: Rows, count: int | None = None) -> Sample:
    """Return the first rows of a table.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.
    count : int, optional
        Number of rows, if there are as many; by default, few.

    Returns
    -------
    Sample
        The rows, without those that lack a task or a score.
    """
    result = rows.source.run(rows.table.limit(count or _FEW_ROWS))
    tasks = result["task"].combine_chunks().dictionary_encode()
    task = tasks.indices.fill_null(-1).to_numpy()
    scores = np.asarray(result["score"].to_numpy(), dtype=np.float64)  # null becomes NaN
    is_usable = (task >= 0) & ~np.isnan(scores)
    return Sample(tasks.dictionary.to_pylist(), task[is_usable], scores[is_usable])


def averaging_bounds(sample: Sample, traits: Traits) -> Bounds | None:
    """Return bounds of the scores to average.

    Parameters
    ----------
    sample : Sample
        Some of the scores.
    traits : Traits
        What the engine can do.

    Returns
    -------
    tuple of float or None
        The bounds; infinite if no score lies far outside and the engine tolerates overflow. None
        if the table is small, or if its scores are all tied.
    """
    scores = sample.scores
    moderate = np.sort(scores[np.abs(scores) < _HUGE])
    if len(moderate) < _FEW_ROWS // 2:
        return None
    few = len(moderate) // _RARE + 1
    lowest, low, high, highest = moderate[[0, few, -1 - few, -1]].tolist()
    if not low < high:
        return None
    room = _FAR * (high - low)
    has_outliers = low - lowest > room or highest - high > room
    is_moderate = len(moderate) == len(scores) and not has_outliers
    return (-math.inf, math.inf) if is_moderate and traits.overflows_to_infinity else (low, high)


def estimate_shape(rows: Rows, census: Census, sample: Sample) -> Shape | None:
    """Return the distribution of standardised scores, shared by tasks with similar means.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.
    census : Census
        Their summary, with averages.
    sample : Sample
        Some of the rows. If the tasks are large, a larger sample is taken.

    Returns
    -------
    Shape or None
        The distribution; None if there are no averages.
    """
    is_averaged = np.isfinite(census.spread) & (census.spread > 0)
    wanted = min(_ROWS, int(_SHARE * np.median(census.sizes)))
    sample = take_sample(rows, wanted) if wanted > len(sample.scores) else sample
    task = sample.find_tasks(census)
    is_used = (task >= 0) & is_averaged[task]
    if not is_used.any():
        return None
    task = task[is_used]
    edges = np.quantile(census.mean[is_averaged], np.arange(1, _STRATA) / _STRATA)
    stratum = np.searchsorted(edges, census.mean)
    value = (sample.scores[is_used] - census.mean[task]) / census.spread[task]
    curves = [np.sort(value[stratum[task] == i])[_EVERY // 2 :: _EVERY] for i in range(_STRATA)]
    # A table sorted by task shows only a few tasks: the others are assumed to have the same shape.
    common = np.sort(np.concatenate(curves))
    if not len(common):
        return None
    values = [curve if len(curve) >= _ENOUGH else common for curve in curves]
    return Shape(stratum, values, [(np.arange(len(v)) + 0.5) / len(v) for v in values])


def guess(
    spans: Spans, mean: Array, spread: Array, shape: Shape
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Return values between which the scores of all targets of each span should lie.

    Between the ends of a bracket, ranks are assumed to rise as in the sample.

    Parameters
    ----------
    spans : Spans
        The distinct brackets.
    mean, spread : ndarray of float, shape (tasks,)
        Mean and standard deviation of each task.
    shape : Shape
        Distribution of the standardised scores.

    Returns
    -------
    floor, ceiling : ndarray of float, shape (spans,)
        The values; NaN if nothing is known.
    expected : ndarray of float, shape (2, spans)
        Number of scores to expect below the floor, and up to the ceiling.
    """
    task, kind = spans.task, spans.low.dtype
    mean, spread = mean[task], spread[task]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low = shape.share_below(task, (spans.low - mean) / spread)
        high = shape.share_below(task, (spans.high - mean) / spread)
        first, last = (
            _part(spans, rank, sign) for rank, sign in ((spans.first, -1), (spans.last, 1))
        )
        floor = mean + spread * shape.quantile(task, low + (high - low) * first)
        ceiling = mean + spread * shape.quantile(task, low + (high - low) * last)
        floor[low >= high] = np.nan
        ends = np.stack([floor, ceiling]).astype(kind)
    floor, ceiling = np.clip(ends, spans.low, spans.high)
    return floor, ceiling, spans.inside * np.clip([first, last], 0, 1)


def _part(spans: Spans, rank: Counts, sign: int) -> Array:
    """Return the part of a span's scores below a rank, plus or minus a margin of error."""
    part = (rank - spans.below + 0.5) / spans.inside
    margin = _DEVIATIONS * np.sqrt(part * (1 - part) / spans.inside) + _SLACK
    return np.asarray(part + sign * margin)

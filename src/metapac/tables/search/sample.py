"""Hints about all scores from the first rows of a table, which only speed up the search."""

from __future__ import annotations

import math
from typing import NamedTuple

import ibis
import numpy as np
from ibis import _

from metapac._types import Array, Counts
from metapac.tables.scores import Rows
from metapac.tables.search.brackets import Brackets
from metapac.tables.search.census import Bounds, Census
from metapac.tables.search.expressions import exact, upload

_ROWS, _FEW_ROWS = 1 << 17, 1 << 14
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


def averaging_bounds(rows: Rows) -> Bounds | None:
    """Return bounds of the scores to average.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.

    Returns
    -------
    tuple of float or None
        The bounds; infinite if no score lies far outside and the engine tolerates overflow. None
        if the table is small, or if its scores are all tied.
    """
    sample = rows.table.select("score").limit(_FEW_ROWS)
    moderate = sample.filter(_.score.abs() < exact(_HUGE))
    placed = moderate.mutate(place=ibis.row_number().over(order_by="score"), all=_.count().over())
    last, few = placed["all"] - 1, placed["all"] // _RARE + 1
    ends = placed.filter(placed.place.isin([0, few, last - few, last])).order_by("score")
    result = rows.source.run(ends)
    if len(result) < 4 or result["all"][0].as_py() < _FEW_ROWS // 2:
        return None
    lowest, low, high, highest = result["score"].to_pylist()
    if not low < high:
        return None
    room = _FAR * (high - low)
    is_moderate = result["all"][0].as_py() == _FEW_ROWS
    has_outliers = low - lowest > room or highest - high > room
    if is_moderate and not has_outliers and rows.source.traits.overflows_to_infinity:
        return -math.inf, math.inf
    return low, high


def estimate_shape(rows: Rows, census: Census) -> Shape | None:
    """Return the distribution of standardised scores, shared by tasks with similar means.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.
    census : Census
        Their summary, with averages.

    Returns
    -------
    Shape or None
        The distribution; None if there are no averages.
    """
    averaged = np.flatnonzero(np.isfinite(census.spread) & (census.spread > 0))
    if not len(averaged):
        return None
    edges = np.quantile(census.mean[averaged], np.arange(1, _STRATA) / _STRATA)
    stratum = np.searchsorted(edges, census.mean)
    tasks = upload(
        rows.table.schema()["task"],
        task=census.names[averaged],
        mean=census.mean[averaged],
        spread=census.spread[averaged],
        stratum=stratum[averaged],
    )
    sample = rows.table.limit(_ROWS).join(tasks, "task")
    value = (sample.score.cast("float64") - sample["mean"]) / sample.spread
    placed = sample.select("stratum", value=value).mutate(
        place=ibis.row_number().over(group_by="stratum", order_by="value")
    )
    result = rows.source.run(placed.filter(_.place % _EVERY == _EVERY // 2))
    value, at = result["value"].to_numpy(), result["stratum"].to_numpy()
    if not len(value):
        return None
    curves = [value[at == i] for i in range(_STRATA)]
    # A table sorted by task shows only a few tasks: the others are assumed to have the same shape.
    values = [np.sort(curve if len(curve) >= _ENOUGH else value) for curve in curves]
    return Shape(stratum, values, [(np.arange(len(v)) + 0.5) / len(v) for v in values])


def guess(brackets: Brackets, mean: Array, spread: Array, shape: Shape) -> tuple[Array, Array]:
    """Return values between which the score of each target should lie.

    Between the ends of a bracket, ranks are assumed to rise as in the sample.

    Parameters
    ----------
    brackets : Brackets
        The brackets.
    mean, spread : ndarray of float, shape (tasks,)
        Mean and standard deviation of each task.
    shape : Shape
        Distribution of the standardised scores.

    Returns
    -------
    floor, ceiling : ndarray of float, shape (targets,)
        The values; NaN if nothing is known.
    """
    task, kind = brackets.task, brackets.low.dtype
    mean, spread = mean[task], spread[task]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low = shape.share_below(task, (brackets.low - mean) / spread)
        high = shape.share_below(task, (brackets.high - mean) / spread)
        part = (brackets.rank - brackets.below + 0.5) / brackets.inside
        margin = _DEVIATIONS * np.sqrt(part * (1 - part) / brackets.inside) + _SLACK
        floor = mean + spread * shape.quantile(task, low + (high - low) * (part - margin))
        ceiling = mean + spread * shape.quantile(task, low + (high - low) * (part + margin))
        floor[low >= high] = np.nan
        ends = np.stack([floor, ceiling]).astype(kind)
    floor, ceiling = np.clip(ends, brackets.low, brackets.high)
    return floor, ceiling

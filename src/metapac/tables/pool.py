"""What the first rows of a table suggest about all its scores. It speeds the search up, no more."""

from __future__ import annotations

import math
from typing import NamedTuple

import ibis
import numpy as np
from ibis import _

from metapac.tables.brackets import Array, Brackets, Counts
from metapac.tables.census import Census, Trim
from metapac.tables.cuts import exact
from metapac.tables.scores import Rows
from metapac.tables.upload import upload

_ROWS, _FEW_ROWS = 1 << 17, 1 << 14
# Tasks of like means have like shapes: scores that cannot exceed 1 are skewed where they are near.
_STRATA = 8
# One value in so many makes a curve, and a curve takes so many values.
_EVERY, _ENOUGH = 64, 32
# How far from the expected place a rank may lie: some standard deviations, and more since tasks
# are not of quite the same shape.
_DEVIATIONS, _SLACK = 3, 0.003
# Bounds of all but one score in a thousand, and how many times their distance others may be off
# before averages are kept to scores within.
_RARE, _FAR = 1000, 4
_HUGE = 1e30
# Engines whose sums and products of large numbers become infinite instead of failing.
_OVERFLOWS_TO_INFINITY = ("duckdb", "pyspark")


class Shape(NamedTuple):
    """How scores spread about their task's mean, in units of its deviation."""

    stratum: Counts  # (tasks,), which of the curves
    values: list[Array]  # each (grid,), ascending
    shares: list[Array]  # each (grid,), of the scores below each value

    def share_below(self, task: Counts, values: Array) -> Array:
        found = np.full(len(values), np.nan)
        for i, (curve, share) in enumerate(zip(self.values, self.shares, strict=True)):
            mine = self.stratum[task] == i
            found[mine] = np.interp(values[mine], curve, share, left=0.0, right=1.0)
        return found

    def quantile(self, task: Counts, shares: Array) -> Array:
        found = np.full(len(shares), np.nan)
        for i, (curve, share) in enumerate(zip(self.values, self.shares, strict=True)):
            mine = self.stratum[task] == i
            found[mine] = np.interp(shares[mine], share, curve, left=-np.inf, right=np.inf)
        return found


def trim_of(rows: Rows) -> Trim | None:
    """Return bounds within which to average scores; None where a table is small or all tied.

    They are infinite where no score is far off, and the engine would not mind if one were.
    """
    pool = rows.table.select("score").limit(_FEW_ROWS)
    usable = pool.filter(_.score.abs() < exact(_HUGE))
    placed = usable.mutate(place=ibis.row_number().over(order_by="score"), all=_.count().over())
    last, few = placed["all"] - 1, placed["all"] // _RARE + 1
    ends = placed.filter(placed.place.isin([0, few, last - few, last])).order_by("score")
    found = rows.source.run(ends)
    if len(found) < 4 or found["all"][0].as_py() < _FEW_ROWS // 2:
        return None
    least, low, high, most = found["score"].to_pylist()
    if not low < high:
        return None
    room = _FAR * (high - low)
    tame = low - least <= room and most - high <= room and found["all"][0].as_py() == _FEW_ROWS
    if tame and rows.source.engine in _OVERFLOWS_TO_INFINITY:
        return -math.inf, math.inf
    return low, high


def shape_of(rows: Rows, census: Census) -> Shape | None:
    """Return the distribution of standardised scores, tasks of like means taken together."""
    known = np.flatnonzero(np.isfinite(census.spread) & (census.spread > 0))
    if not len(known):
        return None
    edges = np.quantile(census.mean[known], np.arange(1, _STRATA) / _STRATA)
    stratum = np.searchsorted(edges, census.mean)
    tasks = upload(
        rows.table.schema()["task"],
        task=census.names[known],
        mean=census.mean[known],
        spread=census.spread[known],
        stratum=stratum[known],
    )
    pool = rows.table.limit(_ROWS).join(tasks, "task")
    value = (pool.score.cast("float64") - pool["mean"]) / pool.spread
    placed = pool.select("stratum", value=value).mutate(
        place=ibis.row_number().over(group_by="stratum", order_by="value")
    )
    some = rows.source.run(placed.filter(_.place % _EVERY == _EVERY // 2))
    value, at = some["value"].to_numpy(), some["stratum"].to_numpy()
    if not len(value):
        return None
    curves = [value[at == i] for i in range(_STRATA)]
    # A table in order of its tasks shows only a few of them: the others are taken to be alike.
    values = [np.sort(curve if len(curve) >= _ENOUGH else value) for curve in curves]
    return Shape(stratum, values, [(np.arange(len(v)) + 0.5) / len(v) for v in values])


def guess(brackets: Brackets, mean: Array, spread: Array, shape: Shape) -> tuple[Array, Array]:
    """Return values between which each target's score should lie, NaN where nothing is known.

    Between the ends of a bracket, ranks are taken to rise as those of the pool do.
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

"""The first pass: which tasks there are, their sizes, and whether every score can be used."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac import _checks as core
from metapac.tables import _checks
from metapac.tables.brackets import Array, Counts
from metapac.tables.cuts import exact
from metapac.tables.scores import Rows, usable

# Engines for which NaN is larger than every number, so that a maximum shows whether there is one.
_NAN_IS_LARGEST = ("duckdb", "postgres", "pyspark")

Trim = tuple[float, float]


class Census(NamedTuple):
    """What one pass tells of each task, or of each class in it, in ascending order of names."""

    names: Array  # (tasks,)
    sizes: Counts  # (tasks,)
    low: Array  # (tasks,), the lowest score, in the precision of the scores; -inf if unknown
    high: Array  # (tasks,), the greatest; inf if unknown
    mean: NDArray[np.float64]  # (tasks,), of scores within the trim; NaN if unknown
    spread: NDArray[np.float64]  # (tasks,), their standard deviation


def take_census(rows: Rows, trim: Trim | None = None) -> Census:
    """Return the tasks with their sizes and ranges; refuse missing tasks, nulls and NaN.

    Scores within ``trim``, if given, are averaged besides. Averages only guide the search. Where
    all are averaged, finite averages show that all are numbers, and ranges are left out: least
    and greatest take longer to find. Those of a class have to be known in any case.
    """
    ranged = trim is None or bool(np.isfinite(trim).all()) or rows.keys is not None
    found = rows.source.run(_grouped(rows, trim, ranged=ranged))
    if not ranged and not np.isfinite(_column(found, "square")).all():
        ranged, found = True, rows.source.run(_grouped(rows, trim, ranged=True))
    if not len(found):
        raise _checks.no_rows(rows.source.name)
    sizes = found["size"].to_numpy()
    ends = {"low": -np.inf, "high": np.inf}
    low, high = (
        _column(found, name) if ranged else np.full(len(found), end) for name, end in ends.items()
    )
    missing = found["task"].is_null().to_numpy()
    if missing.any() or (found["filled"].to_numpy() != sizes).any() or np.isnan(high).any():
        rows.refuse_faults()
        _checks.no_missing_tasks(rows.source.name, rows.task, int(sizes[missing].sum()))
        raise _missing_scores(rows, int(sizes.sum()))
    names = core.task_names(found["task"].to_pylist())
    order = np.argsort(names, kind="stable")
    low, high = low.astype(rows.precision), high.astype(rows.precision)
    return Census(*(column[order] for column in (names, sizes, low, high, *_moments(found, trim))))


def extremes(rows: Rows, census: Census) -> tuple[float, float]:
    """Return the lowest and the highest score of all.

    Where the census left them out, the engine is asked, which often knows without looking.
    """
    if np.isfinite(census.low).any() or np.isfinite(census.high).any():
        return float(census.low.min()), float(census.high.max())
    ends = rows.table.agg(low=rows.table.score.min(), high=rows.table.score.max())
    found = rows.source.run(ends)
    return float(found["low"][0].as_py()), float(found["high"][0].as_py())


def _grouped(rows: Rows, trim: Trim | None, *, ranged: bool) -> _checks.Table:
    table = rows.table
    shown = rows.source.engine in _NAN_IS_LARGEST
    can_be_used = usable(rows.source, table.score)
    columns = {
        "size": table.count(),
        "filled": table.score.count() if shown else table.count(where=can_be_used),
    }
    if ranged:
        columns |= {"low": table.score.min(), "high": table.score.max()}
    if trim is not None:
        value, within = _averaged(table.score, trim)
        square = value * value
        columns |= {"mean": value.mean(where=within), "square": square.mean(where=within)}
    return table.group_by("task").agg(**columns)


def _averaged(score: Any, trim: Trim) -> tuple[Any, Any]:
    """Return what is averaged, and of which rows.

    Within bounds, scores are moved to lie from 1 to 2: there are engines that fail where a square
    is too large or too small for a number.
    """
    if not np.isfinite(trim).all():
        return score, None
    low, width = exact(trim[0]), exact(trim[1] - trim[0])
    return (score.cast("float64") - low + width) / width, score.between(*map(exact, trim))


def _moments(found: Any, trim: Trim | None) -> tuple[Array, Array]:
    """Return mean and deviation of each task's scores, moved back to where they were."""
    if trim is None:
        return np.full(len(found), np.nan), np.full(len(found), np.nan)
    mean, square = (_column(found, name).astype(np.float64) for name in ("mean", "square"))
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.sqrt(np.maximum(square - mean * mean, 0))
    if not np.isfinite(trim).all():
        return mean, spread
    width = trim[1] - trim[0]
    return trim[0] + (mean - 1) * width, spread * width


def _column(found: Any, name: str) -> Array:
    """Return a column of numbers; null becomes NaN."""
    return np.asarray(found[name].to_numpy(zero_copy_only=False))


def _missing_scores(rows: Rows, count: int) -> ValueError:
    """Count nulls and NaN and name the first tasks that hold them."""
    bad = rows.table.filter(~usable(rows.source, rows.table.score))
    counts = bad.group_by("task").agg(nans=_.score.count(), all=_.count())
    found = rows.source.run(counts)
    nans, both = sum(found["nans"].to_pylist()), sum(found["all"].to_pylist())
    words = map(rows.words, found["task"].to_pylist())
    tasks = sorted(zip(words, found["all"].to_pylist(), strict=True))
    return _checks.missing_scores(rows.source.name, both - nans, nans, count, tasks)

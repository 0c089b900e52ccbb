"""The first pass over a table: tasks, their sizes, and whether every score can be used."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from ibis import _
from numpy.typing import NDArray

from metapac import _ids
from metapac._checks import listed
from metapac._types import Array, Counts, Table
from metapac.exceptions import InvalidInput
from metapac.tables import _checks
from metapac.tables.class_scores import is_usable
from metapac.tables.scores import Rows
from metapac.tables.search.expressions import exact

Bounds = tuple[float, float]


class Census(NamedTuple):
    """Summary of each task, or of each class in it, in ascending order of names.

    Attributes
    ----------
    names : ndarray, shape (tasks,)
        The tasks; with a guarantee per class, keys of task and class.
    sizes : ndarray of int, shape (tasks,)
        Number of examples.
    low : ndarray of float, shape (tasks,)
        Lowest score, in the precision of the scores.
    high : ndarray of float, shape (tasks,)
        Highest score.
    mean : ndarray of float64, shape (tasks,)
        Mean of the scores within the bounds; NaN if not computed.
    spread : ndarray of float64, shape (tasks,)
        Their standard deviation; NaN if not computed.
    """

    names: Array
    sizes: Counts
    low: Array
    high: Array
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]


def take_census(rows: Rows, bounds: Bounds | None = None) -> Census:
    """Return the tasks with their sizes and ranges; raise for missing tasks, nulls and NaN.

    Averages only guide the search.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.
    bounds : tuple of float, optional
        Average the scores between these; without them, nothing is averaged.

    Returns
    -------
    Census
        The summary.

    Raises
    ------
    InvalidInput
        If a task or a score is missing.
    """
    result = rows.source.run(_query(rows, bounds)).sort_by("task")
    if not len(result):
        raise _checks.no_rows(rows.source.name)
    sizes = result["size"].to_numpy()
    low, high = _column(result, "low"), _column(result, "high")
    is_filled = np.array_equal(result["filled"].to_numpy(), sizes)
    names = name_tasks(rows, result, is_complete=is_filled and not np.isnan(high).any())
    low, high = low.astype(rows.precision), high.astype(rows.precision)
    return Census(names, sizes, low, high, *_moments(result, bounds))


def name_tasks(rows: Rows, result: Any, *, is_complete: bool) -> Array:
    """Return the tasks of a result; raise for missing tasks, nulls and NaN.

    Parameters
    ----------
    rows : Rows
        Tasks and scores.
    result : pyarrow.Table
        Each task, and its number of rows as ``size``.
    is_complete : bool
        Whether every score is a number.

    Returns
    -------
    ndarray, shape (tasks,)
        The tasks.

    Raises
    ------
    InvalidInput
        If a task or a score is missing.
    """
    sizes = result["size"].to_numpy()
    missing = result["task"].is_null().to_numpy()
    if missing.any() or not is_complete:
        rows.check_faults()
        _checks.check_no_missing_tasks(
            rows.source.name, rows.columns.task, int(sizes[missing].sum())
        )
        raise _missing_scores(rows, int(sizes.sum()))
    return _ids.as_task_names(result["task"].to_pylist())


def _query(rows: Rows, bounds: Bounds | None) -> Table:
    table = rows.table
    if rows.source.traits.nan_is_largest:  # NaN then shows in the maximum
        filled = table.score.count()
    else:
        filled = table.count(where=is_usable(rows.source, table.score))
    columns = {"size": table.count(), "filled": filled}
    columns |= {"low": table.score.min(), "high": table.score.max()}
    if bounds is not None:
        value, is_within = _averaged(table.score, bounds)
        square = value * value
        columns |= {"mean": value.mean(where=is_within), "square": square.mean(where=is_within)}
    return table.group_by("task").agg(**columns)


def _averaged(score: Any, bounds: Bounds) -> tuple[Any, Any]:
    """Return the values to average, and the rows to include.

    Scores within bounds are rescaled to lie between 1 and 2, because some engines fail on squares
    that overflow or underflow.
    """
    if not np.isfinite(bounds).all():
        return score.cast("float64"), None
    low, width = exact(bounds[0]), exact(bounds[1] - bounds[0])
    return (score.cast("float64") - low + width) / width, score.between(*map(exact, bounds))


def _moments(result: Any, bounds: Bounds | None) -> tuple[Array, Array]:
    """Return mean and standard deviation of each task's scores, on their original scale."""
    if bounds is None:
        return np.full(len(result), np.nan), np.full(len(result), np.nan)
    mean, square = (_column(result, name).astype(np.float64) for name in ("mean", "square"))
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.sqrt(np.maximum(square - mean * mean, 0))
    if not np.isfinite(bounds).all():
        return mean, spread
    width = bounds[1] - bounds[0]
    return bounds[0] + (mean - 1) * width, spread * width


def _column(result: Any, name: str) -> Array:
    """Return a column of numbers; null becomes NaN."""
    return np.asarray(result[name].to_numpy(zero_copy_only=False))


def _missing_scores(rows: Rows, count: int) -> InvalidInput:
    """Count nulls and NaN and name the first tasks that hold them."""
    bad = rows.table.filter(~is_usable(rows.source, rows.table.score))
    result = rows.source.run(bad.group_by("task").agg(nans=_.score.count(), all=_.count()))
    nans, both = sum(result["nans"].to_pylist()), sum(result["all"].to_pylist())
    names = map(rows.describe, result["task"].to_pylist())
    tasks = sorted(zip(names, result["all"].to_pylist(), strict=True))
    name = rows.source.name
    null = "NaN or null" if name == "the pandas frame" else "null"  # the same to pandas
    problems = [_checks.pluralize(both - nans, null)] if both > nans else []
    problems += [f"{nans} NaN"] if nans else []
    return InvalidInput(
        f"{name}: the scores hold {' and '.join(problems)} out of {count} values (by task, "
        f"{listed([f'{task}: {bad}' for task, bad in tasks])}); a score that cannot be compared "
        "cannot be certified. Drop those rows."
    )

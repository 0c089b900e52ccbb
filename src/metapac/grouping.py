"""Scores and task ids in, one order statistic per task out: linear in the number of scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks
from metapac.binomial import allowed_errors

# Ids are turned into Python objects this many at a time, so that a dict can number them without a
# second copy of the whole column in memory.
_CHUNK = 1 << 14


class Grouped(NamedTuple):
    """Scores laid out task after task, tasks in the order in which they first appear."""

    names: NDArray[Any]  # (tasks,)
    sizes: NDArray[np.int64]  # (tasks,)
    scores: _checks.Floats  # (sizes.sum(),)


def group(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Grouped:
    """Check scores and task ids and lay the scores out task after task."""
    array = _checks.score_array("scores", scores)
    _checks.flat("scores", array)
    ids = _checks.task_ids(tasks)
    _checks.same_length("scores", array, "tasks", ids)
    names, runs, lengths = _number_tasks(ids)
    _checks.no_nan("scores", array, lambda i: f"in task {ids[i : i + 1].tolist()[0]!r}")
    if len(names) == len(runs):  # every task is one run: nothing to move
        return Grouped(names, lengths, array)
    codes = np.repeat(runs, lengths)
    # NumPy sorts 16-bit integers by radix, which is linear; wider ones by merging.
    order = np.argsort(codes.astype(np.min_scalar_type(len(names) - 1)), kind="stable")
    return Grouped(names, np.bincount(codes), array[order])


def _number_tasks(ids: _checks.Array) -> tuple[_checks.Array, _checks.Array, _checks.Array]:
    """Return the distinct ids, and for each run of equal neighbours its number and its length."""
    if ids.dtype == object:
        starts = np.arange(len(ids))
    else:
        starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    lengths = np.diff(starts, append=len(ids))
    heads = ids if len(starts) == len(ids) else ids[starts]
    number: defaultdict[object, int] = defaultdict(lambda: len(number))
    number.default_factory = number.__len__
    runs = np.empty(len(heads), dtype=np.int32)
    try:
        for start in range(0, len(heads), _CHUNK):
            chunk = heads[start : start + _CHUNK].tolist()
            runs[start : start + _CHUNK] = np.fromiter(
                map(number.__getitem__, chunk), np.int32, len(chunk)
            )
    except TypeError as error:
        raise _checks.unhashable_task(error) from error
    return _checks.task_names(list(number)), runs, lengths


def task_thresholds(
    grouped: Grouped, epsilon: float, alphas_within: Iterable[float]
) -> NDArray[np.float64]:
    """Return for each task and each level the threshold of PS-Binom, shape (tasks, levels).

    It depends on the size of a task only through its rank, so that tasks of one size are
    selected together. A task too small to certify has ``-inf``.
    """
    sizes = np.unique(grouped.sizes)
    ranks = np.stack([allowed_errors(sizes, epsilon, within) for within in alphas_within], axis=1)
    found = np.full((len(grouped.sizes), ranks.shape[1]), -np.inf)
    for rank, (mine, rows) in zip(ranks, _rows_by_size(grouped, sizes), strict=True):
        certified = rank >= 0
        if certified.any():
            rows.partition(np.unique(rank[certified]), axis=1)
            found[np.ix_(mine, certified)] = rows[:, rank[certified]]
    return found


def _rows_by_size(
    grouped: Grouped, sizes: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.intp], _checks.Floats]]:
    """Yield, for each size, the tasks that have it and a fresh matrix of their scores."""
    if len(sizes) == 1:
        yield np.arange(len(grouped.sizes)), grouped.scores.reshape(-1, sizes[0]).copy()
        return
    starts = np.cumsum(grouped.sizes) - grouped.sizes
    order = np.argsort(grouped.sizes, kind="stable")
    borders = np.searchsorted(grouped.sizes[order], sizes[1:])
    for size, mine in zip(sizes, np.split(order, borders), strict=True):
        yield mine, grouped.scores[starts[mine, None] + np.arange(size)]

"""Scores and task ids in, one order statistic per task out: linear in the number of scores."""

from __future__ import annotations

import numbers
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
# Ids are compared and scores are copied this many at a time, so that they stay in the cache.
_BLOCK = 1 << 17


class Grouped(NamedTuple):
    """Scores laid out task after task, tasks in the order in which they first appear."""

    names: NDArray[Any]  # (tasks,)
    sizes: NDArray[np.int64]  # (tasks,)
    scores: _checks.Floats  # (sizes.sum(),)

    def refuse_nan(self) -> None:
        ends = np.cumsum(self.sizes)

        def where(position: int) -> str:
            task = np.searchsorted(ends, position, side="right")
            return f"in task {self.names.tolist()[task]!r}"

        _checks.no_nan("scores", self.scores, where)


def group(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Grouped:
    """Check scores and task ids and lay the scores out task after task."""
    _checks.aligned("scores", scores, "tasks", tasks)
    array = _checks.score_array("scores", scores)
    _checks.flat("scores", array)
    ids = _checks.task_ids(tasks)
    _checks.same_length("scores", array, "tasks", ids)
    starts = _run_starts(ids)
    if starts is None:
        names, codes = _number(ids)
    else:
        names, runs = _number(ids[starts])
        lengths = np.diff(starts, append=len(ids))
        if len(names) == len(runs):  # every task is one run: nothing to move
            return Grouped(names, lengths, array)
        codes = np.repeat(runs, lengths)
    sizes = np.bincount(codes)
    # NumPy sorts 16-bit integers by radix, which is linear; wider ones by merging.
    codes = codes.astype(np.min_scalar_type(len(names) - 1))
    return Grouped(names, sizes, array[np.argsort(codes, kind="stable")])


def _run_starts(ids: _checks.Array) -> NDArray[np.intp] | None:
    """Return where runs of equal neighbours start; None where they are too short to be of use."""
    if ids.dtype == object:  # comparing objects costs as much as looking them up
        return None
    found, count = [np.zeros(1, dtype=np.intp)], 1
    changed = np.empty(_BLOCK, dtype=bool)
    for start in range(0, len(ids) - 1, _BLOCK):
        left, right = ids[:-1][start : start + _BLOCK], ids[1:][start : start + _BLOCK]
        np.not_equal(left, right, out=changed[: len(left)])
        found.append(np.flatnonzero(changed[: len(left)]) + start + 1)
        count += len(found[-1])
        if count > len(ids) // 4:
            return None
    return np.concatenate(found)


def _number(ids: _checks.Array) -> tuple[_checks.Array, NDArray[np.int32]]:
    """Return the distinct ids in order of first appearance, and the number of each id."""
    number: defaultdict[object, int] = defaultdict()
    number.default_factory = number.__len__
    codes = np.empty(len(ids), dtype=np.int32)
    try:
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK].tolist()
            codes[start : start + _CHUNK] = np.fromiter(
                map(number.__getitem__, chunk), np.int32, len(chunk)
            )
    except TypeError as error:
        raise _checks.unhashable_task(error) from error
    if ids.dtype == object and isinstance(ids[0], numbers.Number):
        _checks.one_type(set(map(type, ids.tolist())))  # 1, 1.0 and True are one key
    return _checks.task_names(list(number)), codes


def task_thresholds(
    grouped: Grouped, epsilon: float, alphas_within: Iterable[float]
) -> NDArray[np.float64]:
    """Return for each task and each level the threshold of PS-Binom, shape (tasks, levels).

    The rank depends on the size of a task only, so that tasks of one size are selected together.
    A task too small to certify has ``-inf``. NaN is refused with the name of its task.
    """
    order = np.argsort(grouped.sizes, kind="stable")
    sizes, first = np.unique(grouped.sizes[order], return_index=True)
    ranks = np.stack([allowed_errors(sizes, epsilon, within) for within in alphas_within], axis=1)
    found = np.empty((len(order), ranks.shape[1]))
    starts = np.cumsum(grouped.sizes) - grouped.sizes
    for size, rank, mine in zip(sizes.tolist(), ranks, np.split(order, first[1:]), strict=True):
        for block in _blocks(mine, size):
            rows = _rows(grouped.scores, starts, block, size)
            if np.isnan(rows.min()):
                grouped.refuse_nan()
            rows.partition(np.maximum(rank, 0), axis=1)
            found[block] = rows[:, rank]
        found[np.ix_(mine, rank < 0)] = -np.inf
    return found


def _rows(
    scores: _checks.Floats, starts: NDArray[np.int64], tasks: NDArray[np.intp], size: int
) -> _checks.Floats:
    """Copy the scores of some tasks of one size, in ascending order, into a matrix."""
    if tasks[-1] - tasks[0] == len(tasks) - 1:  # neighbours: one slice
        first = starts[tasks[0]]
        return scores[first : first + len(tasks) * size].reshape(-1, size).copy()
    return np.asarray(scores[starts[tasks, None] + np.arange(size)])


def _blocks(tasks: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    """Split tasks of one size into blocks of a bounded number of scores."""
    step = max(1, _BLOCK // size)
    return (tasks[start : start + step] for start in range(0, len(tasks), step))

"""Scores and task ids in, one order statistic per task out: linear in the number of scores."""

from __future__ import annotations

import numbers
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks

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
            name = self.names.tolist()[task]
            return (
                f"in task {name!r}"
                if not isinstance(name, tuple)
                else "in task {!r}, class {!r}".format(*name)
            )

        _checks.no_nan("scores", self.scores, where)


def group(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Grouped:
    """Check scores and task ids and lay the scores out task after task."""
    array, ids = _paired(scores, tasks)
    starts = _run_starts(ids)
    if starts is None:
        names, codes = _number(ids)
    else:
        names, runs = _number(ids[starts])
        lengths = np.diff(starts, append=len(ids))
        if len(names) == len(runs):  # every task is one run: nothing to move
            return Grouped(names, lengths, array)
        codes = np.repeat(runs, lengths)
    codes = _narrowed(codes, len(names))
    return _laid_out(names, codes, array)


class GroupedByClass(NamedTuple):
    """Scores laid out by task and class: the groups are the pairs that occur."""

    names: NDArray[Any]  # (tasks,)
    classes: tuple[Any, ...]
    task: NDArray[np.int64]  # (groups,), the number of its task
    label: NDArray[np.int64]  # (groups,), the number of its class
    groups: Grouped


def group_by_class(
    scores: ArrayLike, tasks: ArrayLike | Iterable[object], labels: ArrayLike
) -> GroupedByClass:
    """Check scores, task ids and labels and lay the scores out by task and class."""
    array, ids = _paired(scores, tasks)
    _checks.aligned("scores", scores, "labels", labels)
    classes, label = _checks.class_codes(labels)
    _checks.same_length("scores", array, "labels", label)
    names, task = _number(ids)
    keys, codes = np.unique(task.astype(np.int64) * len(classes) + label, return_inverse=True)
    codes = _narrowed(codes, len(keys))
    task, label = np.divmod(keys, len(classes))
    pairs = np.fromiter(
        ((names[t], classes[c]) for t, c in zip(task, label, strict=True)), object, len(keys)
    )
    return GroupedByClass(names, classes, task, label, _laid_out(pairs, codes, array))


def _paired(
    scores: ArrayLike, tasks: ArrayLike | Iterable[object]
) -> tuple[_checks.Floats, _checks.Array]:
    _checks.aligned("scores", scores, "tasks", tasks)
    array = _checks.calibration_scores("scores", scores)
    _checks.flat("scores", array)
    ids = _checks.task_ids(tasks)
    _checks.same_length("scores", array, "tasks", ids)
    return array, ids


def _narrowed(codes: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the numbers of ``count`` groups in the narrowest type, to be sorted.

    NumPy sorts 16-bit integers by radix, which is linear; wider ones by merging.
    """
    return codes.astype(np.min_scalar_type(count - 1))


def _laid_out(names: NDArray[Any], codes: NDArray[Any], scores: _checks.Floats) -> Grouped:
    return Grouped(names, np.bincount(codes), scores[np.argsort(codes, kind="stable")])


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
    grouped: Grouped, ranks: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scores of some ranks of each group, and its lowest: (groups, levels), (groups,).

    ``ranks``, from 0, has a row for each group and a column for each level; -1 gives ``-inf``.
    Groups of one size and the same ranks are selected together. NaN is refused with the name of
    its group.
    """
    found, lowest = np.empty(ranks.shape), np.empty(len(ranks))
    starts = np.cumsum(grouped.sizes) - grouped.sizes
    for alike in _alike(grouped.sizes, ranks):
        size, rank = int(grouped.sizes[alike[0]]), ranks[alike[0]]
        for block in _blocks(alike, size):
            rows = _rows(grouped.scores, starts, block, size)
            bottom = rows.min(axis=1)
            if np.isnan(bottom).any():
                grouped.refuse_nan()
            lowest[block], found[block] = bottom, _selected(rows, rank)
    return found, lowest


def _selected(rows: _checks.Floats, ranks: NDArray[np.int64]) -> _checks.Floats:
    """Return the values of some ranks of each row, reordering it; ``-inf`` for a rank of -1."""
    usable = ranks[ranks >= 0]
    if not len(usable):
        return np.full((len(rows), len(ranks)), -np.inf)
    # One pass over the row for the highest rank; the others lie close together to its left. Given
    # all ranks at once, NumPy makes a pass for each where it has vector instructions.
    low, high = int(usable.min()), int(usable.max())
    rows.partition(high, axis=1)
    if low < high:
        left = rows[:, :high]
        left.partition(low, axis=1)
        left[:, low:].sort(axis=1)
    found = rows[:, ranks]
    if len(usable) < len(ranks):
        found[:, ranks < 0] = -np.inf
    return found


def _alike(sizes: NDArray[np.int64], ranks: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return the numbers of the groups of each kind: those of one size and the same ranks."""
    order = np.argsort(sizes, kind="stable")
    sizes_change = _changes([sizes], order)
    changes = sizes_change | _changes(list(ranks.T), order)
    if (changes != sizes_change).any():  # groups of one size with different ranks
        columns = [sizes, *ranks.T]
        order = np.lexsort(columns[::-1])
        changes = _changes(columns, order)
    return np.split(order, np.flatnonzero(changes) + 1)


def _changes(columns: Iterable[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return where neighbours differ in some column once they are in this order."""
    found = np.zeros(len(order) - 1, dtype=bool)
    for column in columns:
        ordered = column[order]
        found |= ordered[1:] != ordered[:-1]
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

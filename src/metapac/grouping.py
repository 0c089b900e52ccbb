"""Order statistics of scores by task."""

from __future__ import annotations

import math
import numbers
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import inputs
from metapac._common import Array, Floats, check_same_index, check_same_length
from metapac.inputs import (
    as_calibration_scores,
    as_class_codes,
    as_task_ids,
    as_task_names,
    check_one_dimensional,
    check_one_type,
    unhashable_task,
)

_PROBES = 4096


def kth_smallest(values: Floats, rank: int) -> float:
    """Return ``np.partition(values, rank)[rank]``, from few of the values.

    A regular sample says between which two values the answer lies, in most cases: its ranks are
    off by four standard deviations of a random sample at most. Where that is wrong, or nearly all
    values are equal, all of them are partitioned. (Floyd and Rivest 1975.)
    """
    probes = np.sort(values[:: max(1, len(values) // _PROBES)])
    expected, margin = rank / len(values) * len(probes), 2 * math.sqrt(len(probes))
    low = probes[max(0, math.floor(expected - margin))]
    high = probes[min(len(probes) - 1, math.ceil(expected + margin))]
    between = values[(values >= low) & (values <= high)]
    below = int(np.count_nonzero(values < low))
    if not below <= rank < below + len(between):
        between, below = values, 0
    return float(np.partition(between, rank - below)[rank - below])


# Ids are converted to Python objects this many at a time, so that a dict can number them without
# a second copy of the whole column in memory.
_CHUNK = 1 << 14
# Ids are compared and scores are copied this many at a time, so that they stay in the cache.
_BLOCK = 1 << 17
# If so many scores do not repeat, others hardly do.
_ENOUGH = 5_000


class Grouped(NamedTuple):
    """Scores sorted by group, with groups in the order in which they first appear."""

    names: NDArray[Any]
    sizes: NDArray[np.int64]
    scores: Floats

    def check_no_nan(self) -> None:
        """Raise InvalidInput if a score is NaN, naming the group of the first one."""
        ends = np.cumsum(self.sizes)

        def where(position: int) -> str:
            name = self.names.tolist()[np.searchsorted(ends, position, side="right")]
            if isinstance(name, tuple):
                return "in task {!r}, class {!r}".format(*name)
            return f"in task {name!r}"

        inputs.check_no_nan("scores", self.scores, where)


def group(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Grouped:
    """Check scores and task ids, and sort the scores by task."""
    array, ids = _check_pairs(scores, tasks)
    starts = _run_starts(ids)
    if starts is None:
        names, codes = _number(ids)
    else:
        names, runs = _number(ids[starts])
        lengths = np.diff(starts, append=len(ids))
        if len(names) == len(runs):  # every task is one run: nothing to move
            return Grouped(names, lengths, array)
        codes = np.repeat(runs, lengths)
    return _sort_by_group(names, codes, array)


class GroupedByClass(NamedTuple):
    """Scores sorted by task and class, with a group for each pair that occurs."""

    names: NDArray[Any]
    classes: tuple[Any, ...]
    task: NDArray[np.int64]
    label: NDArray[np.int64]
    groups: Grouped


def group_by_class(
    scores: ArrayLike, tasks: ArrayLike | Iterable[object], labels: ArrayLike
) -> GroupedByClass:
    """Check scores, task ids and labels, and sort the scores by task and class."""
    array, ids = _check_pairs(scores, tasks)
    check_same_index("scores", scores, "labels", labels)
    classes, label = as_class_codes(labels)
    check_same_length("scores", array, "labels", label)
    names, task = _number(ids)
    keys, codes = np.unique(task.astype(np.int64) * len(classes) + label, return_inverse=True)
    task, label = np.divmod(keys, len(classes))
    pairs = np.fromiter(
        ((names[t], classes[c]) for t, c in zip(task, label, strict=True)), object, len(keys)
    )
    return GroupedByClass(names, classes, task, label, _sort_by_group(pairs, codes, array))


def _check_pairs(scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> tuple[Floats, Array]:
    check_same_index("scores", scores, "tasks", tasks)
    array = as_calibration_scores("scores", scores)
    check_one_dimensional("scores", array)
    ids = as_task_ids(tasks)
    check_same_length("scores", array, "tasks", ids)
    return array, ids


def _sort_by_group(names: NDArray[Any], codes: NDArray[Any], scores: Floats) -> Grouped:
    """Return the scores sorted by the index of their group."""
    # NumPy sorts 16-bit integers by radix, in linear time; wider ones by merging.
    narrow = codes.astype(np.min_scalar_type(len(names) - 1))
    return Grouped(names, np.bincount(narrow), scores[np.argsort(narrow, kind="stable")])


def _run_starts(ids: Array) -> NDArray[np.intp] | None:
    """Return where runs of equal neighbours start; None if they are too short to help."""
    if ids.dtype == object:  # comparing objects costs as much as looking them up
        return None
    starts, count = [np.zeros(1, dtype=np.intp)], 1
    changed = np.empty(_BLOCK, dtype=bool)
    for start in range(0, len(ids) - 1, _BLOCK):
        left, right = ids[:-1][start : start + _BLOCK], ids[1:][start : start + _BLOCK]
        np.not_equal(left, right, out=changed[: len(left)])
        starts.append(np.flatnonzero(changed[: len(left)]) + start + 1)
        count += len(starts[-1])
        if count > len(ids) // 4:
            return None
    return np.concatenate(starts)


def _number(ids: Array) -> tuple[Array, NDArray[np.int32]]:
    """Return the distinct ids in order of first appearance, and the index of each id in them."""
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
        raise unhashable_task(error) from error
    if ids.dtype == object and isinstance(ids[0], numbers.Number):
        check_one_type(set(map(type, ids.tolist())))  # 1, 1.0 and True are one key
    return as_task_names(list(number)), codes


def task_thresholds(
    grouped: Grouped, ranks: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], bool]:
    """Return the scores of given ranks in each group, its lowest and its highest score."""
    thresholds, lowest, highest = np.empty(ranks.shape), *np.empty((2, len(ranks)))
    starts = np.cumsum(grouped.sizes) - grouped.sizes
    seen, may_repeat = 0, False
    for batch in _batches(grouped.sizes, ranks):  # one selection for many groups
        size, rank = int(grouped.sizes[batch[0]]), ranks[batch[0]]
        for block in _blocks(batch, size):
            rows = _rows(grouped.scores, starts, block, size)
            bottom = rows.min(axis=1)
            if np.isnan(bottom).any():
                grouped.check_no_nan()
            lowest[block], highest[block] = bottom, rows.max(axis=1)
            thresholds[block] = _select(rows, rank)
            near = rows[:, max(rank.min(), 0) : rank.max()]  # sorted
            may_repeat = may_repeat or bool((near[:, 1:] == near[:, :-1]).any())
            seen += near.size
    return thresholds, lowest, highest, may_repeat or seen < _ENOUGH


def _select(rows: Floats, ranks: NDArray[np.int64]) -> Floats:
    """Return the values of given ranks in each row, reordering it; ``-inf`` for a rank of -1."""
    usable = ranks[ranks >= 0]
    if not len(usable):
        return np.full((len(rows), len(ranks)), -np.inf)
    # One pass over the row for the highest rank; the others lie close together to its left. Given
    # all ranks at once, NumPy makes a pass for each of them if it has vector instructions.
    low, high = int(usable.min()), int(usable.max())
    rows.partition(high, axis=1)
    if low < high:
        left = rows[:, :high]
        left.partition(low, axis=1)
        left[:, low:].sort(axis=1)
    values = rows[:, ranks]
    if len(usable) < len(ranks):
        values[:, ranks < 0] = -np.inf
    return values


def _batches(sizes: NDArray[np.int64], ranks: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return the indices of all groups, split into those of the same size and ranks."""
    order = np.argsort(sizes, kind="stable")
    sizes_change = _changes([sizes], order)
    changes = sizes_change | _changes(list(ranks.T), order)
    if (changes != sizes_change).any():  # groups of one size with different ranks
        columns = [sizes, *ranks.T]
        order = np.lexsort(columns[::-1])
        changes = _changes(columns, order)
    return np.split(order, np.flatnonzero(changes) + 1)


def _changes(columns: Iterable[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return where neighbours in this order differ in some column."""
    differ = np.zeros(len(order) - 1, dtype=bool)
    for column in columns:
        ordered = column[order]
        differ |= ordered[1:] != ordered[:-1]
    return differ


def _rows(scores: Floats, starts: NDArray[np.int64], tasks: NDArray[np.intp], size: int) -> Floats:
    """Copy the scores of tasks of one size, given by ascending index, into a matrix."""
    if tasks[-1] - tasks[0] == len(tasks) - 1:  # neighbours: one slice
        first = starts[tasks[0]]
        return scores[first : first + len(tasks) * size].reshape(-1, size).copy()
    return np.asarray(scores[starts[tasks, None] + np.arange(size)])


def _blocks(tasks: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    """Split tasks of one size into blocks of a bounded number of scores."""
    step = max(1, _BLOCK // size)
    return (tasks[start : start + step] for start in range(0, len(tasks), step))

"""Tasks that occur twice under different names, recognised by their scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Array, Counts, Floats, listed
from metapac.findings import FALSE_ALARM, Finding

Repeats = Mapping[tuple[int, int], int]
_FEW_RANGES = 3  # fewer that several tasks share are no copies
_UNLIKELY = 0.01  # beyond generous expectations, so that honest data hardly ever reach it


def judge_duplicates(repeats: Repeats) -> Finding | None:
    """Object to rows that occur more often than independent examples can.

    If the n examples of a task are independent, the number of times that a row occurs is binomial,
    with a probability that differs from row to row: coarse scores have few, probable rows. For any
    such mixture, the expected numbers N(k) of rows that occur k times satisfy
    ``N(k - 1) * N(k + 1) >= k / (k + 1) * (n - k) / (n - k + 1) * N(k)**2``. Copies violate it:
    rows occur twice, but none three times. And a number that is not 0 is even with probability at
    most 1/2, so that not all of them are.
    """
    times = sorted({k for _size, k in repeats})
    if not (_has_divisor(repeats) or any(_is_excess(repeats, k) for k in times if k > 1)):
        return None
    rows = sum(k * count for (_size, k), count in repeats.items())
    distinct = sum(repeats.values())
    least = times[0]
    seen = f"{rows - distinct} of {rows} rows are copies of another row"
    if least > 1:
        often = f"{least} times" if len(times) == 1 else f"at least {least} times"
        seen = f"every row occurs {often} ({rows} rows, {distinct} distinct)"
    text = (
        f"{seen}, and by chance equal scores would not repeat in this way. The examples of a task "
        "must be independent, and copies count as evidence that is not there. Drop the copies; "
        "they often come from a join."
    )
    return Finding("duplicates", least > 1, text)


def count_repeats(tasks: Counts, *columns: Array) -> Repeats:
    """Return how many distinct rows occur k times in a task with n rows, for each n and k."""
    if not len(tasks):
        return {}
    wide = np.column_stack([tasks, *(np.asarray(c, dtype=np.float64) for c in columns)]) + 0.0
    order = np.lexsort(wide.T)
    new = np.any(wide[order[1:]] != wide[order[:-1]], axis=1)
    starts = np.concatenate([[0], np.flatnonzero(new) + 1, [len(wide)]])
    sizes = np.bincount(tasks)[tasks[order[starts[:-1]]]]
    pairs = np.column_stack([sizes, np.diff(starts)])
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    return {(n, k): count for (n, k), count in zip(distinct.tolist(), counts.tolist(), strict=True)}


def _has_divisor(repeats: Repeats) -> bool:
    """Return whether all of many rows occur an even number of times, or a multiple of 3, ...

    The last count of a task follows from the others.
    """
    tasks = sum(k * count / size for (size, k), count in repeats.items())
    free = sum(repeats.values()) - tasks
    return math.gcd(*(k for _size, k in repeats)) > 1 and 0.5**free <= FALSE_ALARM / 10


def _is_excess(repeats: Repeats, k: int) -> bool:
    """Return whether more rows occur k times than the neighbouring counts allow.

    Three counts may mislead, for each k, and either neighbour may be the one that is missing: the
    level is divided among them all. Only tasks count in which such rows are at most half.
    """
    level = FALSE_ALARM / (6 * len(repeats))
    least = 2 * (k + 1)
    near = [
        sum(count for (size, j), count in repeats.items() if j == times and size >= least)
        for times in (k - 1, k, k + 1)
    ]
    if not near[1]:
        return False
    count = special.gammaincinv(near[1], level)
    below, above = sorted((near[0], near[2]))
    most = special.gammainccinv(above + 1, level)
    needed = k / (k + 1) * (least - k) / (least - k + 1) * count**2 / most
    return bool(special.pdtr(below, needed) <= level)


def find_ranges(index: Counts, low: Array, high: Array, length: int) -> Floats:
    """Return the lowest and the highest score of the groups with the same index."""
    ends = np.tile([np.inf, -np.inf], (length, 1))
    np.minimum.at(ends[:, 0], index, low)
    np.maximum.at(ends[:, 1], index, high)
    return ends


class Contents(NamedTuple):
    """What recognises the examples of tasks, whatever the tasks are called."""

    names: Array
    sizes: Counts
    ranges: Floats


def judge_copies(new: Contents, known: Contents | None = None) -> Finding | None:
    """Object to tasks with the size and the range of scores of a task with another name.

    Two tasks of one size are twins if both ends of their ranges agree, in the precision of float32.
    Scores that are coarse, discrete or clipped have twins by chance. So there is an objection only
    if twins are far more than the agreements of single ends let expect (unless ends have three
    decimals, which say too little), or if far more new tasks have a twin among the known ones than
    known ones have among themselves.
    """
    parts = [new] if known is None else [new, known]
    names, sizes = (np.concatenate(column) for column in list(zip(*parts, strict=True))[:2])
    with np.errstate(over="ignore"):
        low, high = np.concatenate([part.ranges for part in parts]).T.astype(np.float32)
    if len(np.unique(low)) == len(low):
        return None  # the usual case, at no cost
    is_new = np.arange(len(names)) < len(new.names)
    varied = low < high  # false for NaN
    tasks = _Ranges(sizes[varied], low[varied], high[varied], is_new[varied])
    if not (_have_copies(tasks) or (known is not None and _have_known(tasks))):
        return None
    pairs = _list_twins(names[varied].tolist(), tasks)
    shown = listed([f"{name!r} and {other!r}" for name, other in pairs], shown=3)
    text = (
        "tasks have the same number of examples and the same lowest and highest score: "
        f"{shown}. The same data under two names count twice. Leave out the first of each pair."
    )
    return Finding("duplicates", True, text)


class _Ranges(NamedTuple):
    """Size and range of tasks, and which of them are new."""

    sizes: Counts
    low: Floats
    high: Floats
    is_new: NDArray[np.bool_]

    def take(self, which: NDArray[np.bool_]) -> _Ranges:
        """Return some of the tasks."""
        columns: list[Any] = [column[which] for column in self]
        return _Ranges(*columns)

    def count_pairs(self, *names: str) -> int:
        """Return the number of pairs of tasks that agree in some columns."""
        columns = [getattr(self, name) for name in names]
        order = np.lexsort(columns)
        new = np.zeros(max(len(order) - 1, 0), dtype=bool)
        for column in columns:
            new |= column[order][1:] != column[order][:-1]
        counts = np.diff(np.flatnonzero(new), prepend=-1, append=len(order) - 1)
        return int(np.sum(counts * (counts - 1) // 2))

    def count_new(self, *names: str) -> int:
        """Return how many of these pairs hold a new task."""
        return self.count_pairs(*names) - self.take(~self.is_new).count_pairs(*names)


def _have_copies(tasks: _Ranges) -> bool:
    """Return whether there are more twins than independent ends of ranges would give.

    The share of equal lows is taken from pairs that are no twins, with one more to be safe. A range
    depends on how hard a task is, so up to 30 times as many twins pass; 3 times if not even single
    ends agree.
    """
    ends = np.stack([tasks.low, tasks.high])
    fine = tasks.take(np.any(ends != ends.astype(np.float64).round(3).astype(np.float32), axis=0))
    keys = np.stack([fine.sizes, fine.low, fine.high], axis=1)
    _, place, shared = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    if np.count_nonzero(shared > 2) < _FEW_RANGES:  # of tasks whose scores have two values, say
        fine = fine.take(shared[place.ravel()] <= 2)
    twins, of_new = (count("sizes", "low", "high") for count in (fine.count_pairs, fine.count_new))
    if not of_new:
        return False
    every = len(fine.low) * (len(fine.low) - 1) // 2
    expected, agreements = [], 0
    for end, other in (("low", "high"), ("high", "low")):
        equal = fine.count_pairs(end) - twins
        rate = (equal + 1) / (every - fine.count_pairs("sizes", other) + 1)
        expected.append(rate * fine.count_new("sizes", other))
        agreements += equal
    slack = 30 if agreements else 3
    return bool(special.pdtrc(of_new - 1, slack * max(expected)) <= _UNLIKELY)


def _have_known(tasks: _Ranges) -> bool:
    """Return whether new tasks have twins among known ones more often than these among themselves.

    That number is uncertain, and varies if many tasks share one range: twice its upper confidence
    limit is compared.
    """
    known = tasks.take(~tasks.is_new)
    twins = [part.count_pairs("sizes", "low", "high") for part in (tasks, tasks.take(tasks.is_new))]
    inside = known.count_pairs("sizes", "low", "high")
    count = len(known.low)
    most = special.gammaincinv(inside + 1, 1 - _UNLIKELY / 10) / max(1, count * (count - 1) // 2)
    across = twins[0] - twins[1] - inside
    limit = 2 * most * count * np.count_nonzero(tasks.is_new)
    return bool(across and special.pdtrc(across - 1, limit) <= _UNLIKELY / 10)


def _list_twins(names: list[Any], tasks: _Ranges) -> list[tuple[Any, Any]]:
    """Return each new task that has a twin, with the name of the twin."""
    seen: dict[Any, Any] = {}
    rows = [*zip(*(column.tolist() for column in tasks), names, strict=True)]
    pairs = []
    for *key, is_new, name in sorted(rows, key=lambda row: row[3]):  # known tasks first
        other = seen.setdefault(tuple(key), name)
        if is_new and other is not name:
            pairs.append((name, other))
    return pairs

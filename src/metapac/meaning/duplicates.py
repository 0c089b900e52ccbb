"""Rows that occur more often than independent examples can, and tasks under two names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from metapac._checks import listed
from metapac._ids import fold_name
from metapac._types import Array, Counts, Floats
from metapac.exceptions import Message
from metapac.meaning.findings import (
    FALSE_ALARM,
    Finding,
)

Repeats = Mapping[tuple[int, int], int]
_MOST_COPIES = 3  # of a task; a range that more tasks share is that of clipped scores


def judge_duplicates(repeats: Repeats) -> Finding | None:
    """Object to rows that occur more often than independent examples can.

    If the n examples of a task are independent, the number of times that a row occurs is binomial,
    with a probability that differs from row to row: coarse scores have few, probable rows. For any
    such mixture, the expected numbers N(k) of rows that occur k times satisfy
    ``N(k - 1) * N(k + 1) >= k / (k + 1) * (n - k) / (n - k + 1) * N(k)**2``. Copies violate it:
    rows occur twice, but none three times. And a number that is not 0 is even with probability at
    most 1/2, so that not all of them are.

    Parameters
    ----------
    repeats : mapping from (int, int) to int
        For each n and k, how many distinct rows occur k times in a task with n rows.

    Returns
    -------
    Finding or None
        An error if every row occurs at least twice, a warning if some do.

    Examples
    --------
    >>> from metapac.meaning.duplicates import judge_duplicates
    >>> judge_duplicates({(400, 1): 24000}) is None
    True
    >>> judge_duplicates({(400, 1): 20000, (400, 2): 2200, (400, 3): 170}) is None  # coarse scores
    True
    >>> judge_duplicates({(400, 2): 12000}).is_error
    True
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
    text = Message(
        f"{seen}, and by chance equal scores would not repeat in this way. The examples of a task "
        "must be independent, and copies count as evidence that is not there. Drop the copies; "
        "they often come from a join."
    )
    return Finding("duplicates", least > 1, text)


def count_repeats(tasks: Counts, *columns: Array) -> Repeats:
    """Return how many distinct rows occur k times in a task with n rows, for each n and k.

    Parameters
    ----------
    tasks : ndarray of int, shape (n,)
        Index of the task of each row.
    *columns : ndarray, shape (n,) or (n, m)
        Columns of numbers.

    Returns
    -------
    dict from (int, int) to int
        The numbers, by n and k.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning.duplicates import count_repeats
    >>> count_repeats(np.array([0, 0, 1]), np.array([0.5, 0.5, 0.5]))
    {(1, 1): 1, (2, 2): 1}
    """
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
    """Return the lowest and the highest score of the groups with the same index.

    Parameters
    ----------
    index : ndarray of int, shape (groups,)
        Index of each group.
    low, high : ndarray, shape (groups,)
        Lowest and highest score of each group.
    length : int
        Number of ranges.

    Returns
    -------
    ndarray, shape (length, 2)
        The ranges.
    """
    ends = np.tile([np.inf, -np.inf], (length, 1))
    np.minimum.at(ends[:, 0], index, low)
    np.maximum.at(ends[:, 1], index, high)
    return ends


class Contents(NamedTuple):
    """What recognises the examples of tasks, whatever the tasks are called.

    Attributes
    ----------
    names : ndarray, shape (tasks,)
        The tasks.
    sizes : ndarray of int, shape (tasks,)
        Number of examples.
    ranges : ndarray, shape (tasks, 2)
        Lowest and highest score of a true label; NaN if it is not known.
    """

    names: Array
    sizes: Counts
    ranges: Floats

    def keys(self) -> list[Any]:
        """Return a key for each task, in the precision of float32; None if it says nothing."""
        with np.errstate(over="ignore"):
            low, high = self.ranges.T.astype(np.float32)
        rows = zip(self.sizes.tolist(), low.tolist(), high.tolist(), strict=True)
        return [row if row[1] < row[2] else None for row in rows]


def judge_copies(new: Contents, known: Contents | None = None) -> Finding | None:
    """Object to tasks with the size and the range of scores of a task with another name.

    Scores that are coarse or clipped agree by chance. A pair counts if its range, without ends that
    other ranges share, has so many digits that no two tasks would share it. All pairs count if far
    more new tasks have a twin among the known ones than known ones have.

    Parameters
    ----------
    new : Contents
        Tasks that must be distinct.
    known : Contents, optional
        The calibration tasks, from which they must differ too.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning.duplicates import Contents, judge_copies
    >>> ranges = np.array([[0.0123456, 0.9876543]] * 2)
    >>> judge_copies(Contents(np.array(["H-3", "Hospital 3"]), np.array([400, 400]), ranges)).check
    'duplicates'
    """
    pairs = _find_twins(new, known)
    if not pairs:
        return None
    keys = Counter([*new.keys(), *(() if known is None else known.keys())])
    ends = [Counter(key[end] for key in keys if key is not None) for end in (1, 2)]
    least = 7 + math.log10(len(new.names) * keys.total())
    copies = [pair for pair in pairs if _count_digits(pair[0], keys, ends) >= least]
    if known is not None and len(copies) < len(pairs):
        copies = _find_excess(pairs, new, known) or copies
    if not copies:
        return None
    shown = listed([f"{name!r} and {other!r}" for _key, name, other in copies], shown=3)
    text = (
        "tasks have the same number of examples and the same lowest and highest score: "
        f"{shown}. The same data under two names count twice. Leave out the first of each pair."
    )
    return Finding("duplicates", True, Message(text))


_Twins = list[tuple[Any, Any, Any]]  # the key that two tasks share, and their names


def _find_twins(new: Contents, known: Contents | None) -> _Twins:
    """Return the tasks that share a key with a task of another name."""
    if known is None and len(np.unique(new.ranges[:, 0])) == len(new.names):
        return []  # the usual case, at no cost
    seen: dict[Any, Any] = {}
    if known is not None:
        seen = dict(zip(known.keys(), known.names.tolist(), strict=True))
    twins = []
    for key, name in zip(new.keys(), new.names.tolist(), strict=True):
        if key is not None and key in seen and fold_name(seen[key]) != fold_name(name):
            twins.append((key, name, seen[key]))
        else:
            seen[key] = name
    return twins


def _find_excess(pairs: _Twins, new: Contents, known: Contents) -> _Twins:
    """Return the twins of known tasks if new tasks have them more often than known tasks do."""
    counts = Counter(known.keys())
    usual = sum(count for key, count in counts.items() if key is not None and count > 1)
    rate = (usual + 1) / (len(known.names) + 1)
    twins = [pair for pair in pairs if pair[0] in counts]
    is_chance = special.bdtrc(len(twins) - 1, len(new.names), rate) > FALSE_ALARM
    return [] if is_chance else twins


def _count_digits(key: Any, keys: Counter[Any], ends: list[Counter[float]]) -> int:
    """Return the significant digits of the ends of a range, without those that say nothing.

    These are ends of other ranges too, where scores are clipped or coarse.
    """
    if keys[key] > _MOST_COPIES:
        return 0
    own = [key[1 + i] for i, count in enumerate(ends) if count[key[1 + i]] == 1]
    texts = [np.format_float_scientific(np.float32(end), trim="-") for end in own]
    return sum(sum(map(str.isdigit, text.split("e")[0])) for text in texts)

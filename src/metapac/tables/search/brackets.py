"""Brackets around order statistics, which shrink with every count. Arrays only, no engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac._types import Array, Counts
from metapac.tables.search.floats import (
    float_to_ordinal,
    next_float,
    ordinal_to_float,
    previous_float,
)


class Brackets(NamedTuple):
    """For each target, the values between which the score of its rank lies, both included.

    A target is a task and a rank, counted from 0 among the task's scores in ascending order.

    Attributes
    ----------
    task : ndarray of int, shape (targets,)
        Index of the task.
    rank : ndarray of int, shape (targets,)
        The rank.
    low : ndarray of float, shape (targets,)
        Lower end of the bracket, in the precision of the scores.
    high : ndarray of float, shape (targets,)
        Upper end of the bracket.
    below : ndarray of int, shape (targets,)
        Number of scores of the task less than ``low``.
    inside : ndarray of int, shape (targets,)
        Number of scores from ``low`` to ``high``.
    """

    task: Counts
    rank: Counts
    low: Array
    high: Array
    below: Counts
    inside: Counts

    @classmethod
    def whole(cls, task: Counts, rank: Counts, low: Array, high: Array, sizes: Counts) -> Brackets:
        """Return a bracket for each target around all scores of its task.

        Parameters
        ----------
        task, rank : ndarray of int, shape (targets,)
            The targets.
        low, high : ndarray of float, shape (tasks,)
            Lowest and highest score of each task.
        sizes : ndarray of int, shape (tasks,)
            Number of scores of each task.

        Returns
        -------
        Brackets
            The brackets.
        """
        return cls(task, rank, low[task], high[task], np.zeros_like(rank), sizes[task])

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Whether only one value is left, which is the answer."""
        return np.asarray(self.low == self.high)

    @property
    def remaining(self) -> int:
        """Number of scores in brackets that are not solved."""
        return int(Spans.of_brackets(self.take(np.flatnonzero(~self.solved))).inside.sum())

    def clip(self, low: Array, high: Array) -> Brackets:
        """Return the brackets limited to the lowest and the highest score of their tasks.

        Parameters
        ----------
        low, high : ndarray of float, shape (tasks,)
            Lowest and highest score of each task.

        Returns
        -------
        Brackets
            The brackets.
        """
        low, high = np.maximum(self.low, low[self.task]), np.minimum(self.high, high[self.task])
        return self._replace(low=low, high=high)

    def after_scan(
        self, spans: Spans, floor: Array, ceiling: Array, less: Counts, seen: Counts, score: Array
    ) -> Brackets | None:
        """Return the brackets after a scan of their spans; None if the counts contradict them.

        Parameters
        ----------
        spans : Spans
            The spans of these brackets.
        floor, ceiling : ndarray of float, shape (spans,)
            Ends of the part that was sorted.
        less : ndarray of int, shape (spans,)
            Number of scores of each span below its floor.
        seen : ndarray of int, shape (spans,)
            Number of scores of each span up to its ceiling.
        score : ndarray of float, shape (targets,)
            Score of the target's rank, if it was sorted; NaN otherwise.

        Returns
        -------
        Brackets or None
            The brackets, solved or narrowed.
        """
        all_scanned = ceiling >= spans.high
        if (seen > spans.inside).any() or (seen != spans.inside)[all_scanned].any():
            return None
        floor, ceiling, less, seen = (column[spans.of] for column in (floor, ceiling, less, seen))
        place = self.rank - self.below
        under, over = place < less, place >= seen
        solved = ~under & ~over
        if np.isnan(score[solved]).any():
            return None
        return self._replace(
            low=np.select([solved, over], [score, next_float(ceiling)], self.low),
            high=np.select([solved, under], [score, previous_float(floor)], self.high),
            below=np.where(over, self.below + seen, self.below),
            inside=np.select([under, over], [less, self.inside - seen], self.inside),
        )

    def take(self, which: Array) -> Brackets:
        """Return some of the brackets.

        Parameters
        ----------
        which : ndarray of int
            Their positions.

        Returns
        -------
        Brackets
            These brackets.
        """
        return Brackets(*(column[which] for column in self))

    def put(self, which: Array, others: Brackets) -> Brackets:
        """Return these brackets with some of them replaced.

        Parameters
        ----------
        which : ndarray of int
            Positions to replace.
        others : Brackets
            What to put there.

        Returns
        -------
        Brackets
            All brackets.
        """
        columns = [column.copy() for column in self]
        for column, new in zip(columns, others, strict=True):
            column[which] = new
        return Brackets(*columns)


class Spans(NamedTuple):
    """The distinct brackets: one for all targets of a task between the same ends.

    Attributes
    ----------
    of : ndarray of int, shape (targets,)
        Span of each target.
    task : ndarray of int, shape (spans,)
        Index of the task.
    first, last : ndarray of int, shape (spans,)
        Lowest and highest rank of its targets.
    low, high : ndarray of float, shape (spans,)
        Ends of the bracket.
    below, inside : ndarray of int, shape (spans,)
        Number of scores below the bracket, and inside.
    """

    of: Counts
    task: Counts
    first: Counts
    last: Counts
    low: Array
    high: Array
    below: Counts
    inside: Counts

    @classmethod
    def of_brackets(cls, brackets: Brackets) -> Spans:
        """Return the spans of brackets; targets of one bracket are adjacent, by ascending rank.

        Parameters
        ----------
        brackets : Brackets
            The brackets.

        Returns
        -------
        Spans
            The spans.
        """
        is_first = np.zeros(len(brackets.task), dtype=bool)
        is_first[:1] = True
        for column in (brackets.task, brackets.below, brackets.inside):
            is_first[1:] |= column[1:] != column[:-1]
        task, rank, *others = (column[is_first] for column in brackets)
        last = brackets.rank[np.append(is_first[1:], True)] if len(task) else rank
        return cls(np.cumsum(is_first) - 1, task, rank, last, *others)


def narrow(brackets: Brackets, cuts: Array, less: Counts) -> Brackets:
    """Return the brackets between neighbouring cuts.

    Parameters
    ----------
    brackets : Brackets
        The brackets.
    cuts : ndarray of float, shape (targets, cuts)
        Values in ascending order along the last axis.
    less : ndarray of int, shape (targets, cuts)
        Number of scores of the task that are less than each cut.

    Returns
    -------
    Brackets
        The narrower brackets.
    """
    cuts = np.broadcast_to(cuts, less.shape)
    position = (less <= brackets.rank[:, None]).sum(axis=1)  # cuts at or below the answer
    less = np.column_stack([brackets.below, less, brackets.below + brackets.inside])
    values = np.column_stack([brackets.low, cuts, brackets.high])
    row = np.arange(len(position))
    is_last = position == cuts.shape[1]
    high = np.where(is_last, brackets.high, previous_float(values[row, position + 1]))
    return brackets._replace(
        low=values[row, position],
        high=high,
        below=less[row, position],
        inside=less[row, position + 1] - less[row, position],
    )


def cuts_between(low: Array, high: Array, *, linear: int = 4, binary: int = 3) -> Array:
    """Return ascending cuts above ``low`` and up to ``high``.

    Some are evenly spaced by value, which suits most scores. The others are evenly spaced by the
    number of floating-point numbers between them: for any scores, these alone leave a quarter
    of the numbers, so that brackets shrink to one value in a bounded number of rounds.

    Parameters
    ----------
    low, high : ndarray of float, shape (brackets,)
        Ends of the brackets.
    linear : int, default 4
        Number of cuts spaced by value.
    binary : int, default 3
        Number of cuts spaced by floating-point numbers.

    Returns
    -------
    ndarray of float, shape (brackets, linear + binary)
        The cuts.
    """
    shares = np.arange(1, linear + 1) / (linear + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        by_value = low[:, None] * (1 - shares) + high[:, None] * shares
    by_value = np.where(np.isfinite(by_value), by_value, high[:, None]).astype(low.dtype)
    first, last = float_to_ordinal(low), float_to_ordinal(high)
    span = (last - first).astype(np.uint64)  # correct even if the signed difference overflows
    step = np.maximum(span // np.uint64(binary + 1), np.uint64(1))
    steps = np.minimum(step[:, None] * np.arange(1, binary + 1, dtype=np.uint64), span[:, None])
    by_ordinal = ordinal_to_float(first[:, None] + steps.astype(np.int64), low.dtype)
    cuts = np.sort(np.column_stack([by_value, by_ordinal]), axis=1)
    return np.asarray(np.clip(cuts, next_float(low)[:, None], high[:, None]))

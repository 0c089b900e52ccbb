"""Where an order statistic lies: brackets that shrink as counts come in. Arrays only, no engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Counts = NDArray[np.int64]


class Brackets(NamedTuple):
    """For each target, the values between which the score of its rank lies, both included.

    A target is a task and a rank, counted from 0 among the task's scores in ascending order.
    """

    task: Counts  # (targets,), the task's number
    rank: Counts  # (targets,)
    low: Array  # (targets,), in the precision of the scores
    high: Array  # (targets,)
    below: Counts  # (targets,), how many scores of the task are less than low
    inside: Counts  # (targets,), how many lie from low to high

    @classmethod
    def whole(cls, task: Counts, rank: Counts, low: Array, high: Array, sizes: Counts) -> Brackets:
        """Return a bracket for each target around all scores of its task."""
        return cls(task, rank, low[task], high[task], np.zeros_like(rank), sizes[task])

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Whether only one value is left, which is the answer."""
        return np.asarray(self.low == self.high)

    @property
    def left(self) -> int:
        """How many scores lie in brackets that are not solved."""
        open_ = self.take(np.flatnonzero(~self.solved))
        return int(open_.inside[open_.firsts()].sum())

    def firsts(self) -> NDArray[np.intp]:
        """Return the first target of each bracket; targets of one bracket follow one another."""
        new = np.zeros(len(self.task), dtype=bool)
        new[:1] = True
        for column in (self.task, self.below, self.inside):
            new[1:] |= column[1:] != column[:-1]
        return np.flatnonzero(new)

    def within(self, low: Array, high: Array) -> Brackets:
        """Return the brackets cut back to the least and the greatest score of their tasks."""
        low, high = np.maximum(self.low, low[self.task]), np.minimum(self.high, high[self.task])
        return self._replace(low=low, high=high)

    def seen(self, spans: Spans, less: Counts, seen: Counts, score: Array) -> Brackets | None:
        """Return what is left to do after looking at spans; None where the counts contradict.

        Of ``seen`` scores of its span, ``less`` are below its floor; ``score`` is that of the
        target's rank if it was among the others.
        """
        floor, ceiling = spans.floor[spans.of], spans.ceiling[spans.of]
        place = self.rank - self.below
        under, over = place < less, place >= seen
        solved = ~under & ~over
        all_seen = ceiling >= self.high
        if (seen > self.inside).any() or (seen != self.inside)[all_seen].any():
            return None
        if np.isnan(score[solved]).any():
            return None
        return self._replace(
            low=np.select([solved, over], [score, following(ceiling)], self.low),
            high=np.select([solved, under], [score, previous(floor)], self.high),
            below=np.where(over, self.below + seen, self.below),
            inside=np.select([under, over], [less, self.inside - seen], self.inside),
        )

    def take(self, which: Array) -> Brackets:
        return Brackets(*(column[which] for column in self))

    def put(self, which: Array, others: Brackets) -> Brackets:
        """Return these brackets with those at ``which`` replaced."""
        columns = [column.copy() for column in self]
        for column, new in zip(columns, others, strict=True):
            column[which] = new
        return Brackets(*columns)


class Spans(NamedTuple):
    """Targets that are looked for together: those of one task in one bracket."""

    of: Counts  # (targets,), the span of each
    task: Counts  # (spans,)
    low: Array  # (spans,), scores less than this are counted already
    floor: Array  # (spans,), scores from low up to this are to be counted, from here on sorted
    ceiling: Array  # (spans,), scores above this are left alone

    @classmethod
    def of_brackets(cls, brackets: Brackets, floor: Array, ceiling: Array) -> Spans:
        """Return the spans of brackets; each reaches from its least floor to its top ceiling."""
        first = brackets.firsts()
        of = np.repeat(np.arange(len(first)), np.diff(first, append=len(brackets.task)))
        return cls(
            of,
            brackets.task[first],
            brackets.low[first],
            np.minimum.reduceat(floor, first),
            np.maximum.reduceat(ceiling, first),
        )


def narrow(brackets: Brackets, cuts: Array, less: Counts) -> Brackets:
    """Return the brackets between the neighbouring cuts.

    ``cuts`` ascend along the last axis; ``less`` says how many scores of the task are less than
    each, shape (targets, cuts).
    """
    cuts = np.broadcast_to(cuts, less.shape)
    position = (less <= brackets.rank[:, None]).sum(axis=1)  # cuts at or below the answer
    less = np.column_stack([brackets.below, less, brackets.below + brackets.inside])
    values = np.column_stack([brackets.low, cuts, brackets.high])
    row = np.arange(len(position))
    last = position == cuts.shape[1]
    high = np.where(last, brackets.high, previous(values[row, position + 1]))
    return brackets._replace(
        low=values[row, position],
        high=high,
        below=less[row, position],
        inside=less[row, position + 1] - less[row, position],
    )


def cuts_between(low: Array, high: Array, *, linear: int = 4, binary: int = 3) -> Array:
    """Return ascending cuts above ``low`` and up to ``high``, shape (brackets, linear + binary).

    Some are spaced evenly by value, which suits most scores. Others are spaced evenly by how many
    floating-point numbers lie between: whatever the scores, these alone leave a quarter of the
    numbers, so that brackets shrink to one value in a bounded number of rounds.
    """
    shares = np.arange(1, linear + 1) / (linear + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        by_value = low[:, None] * (1 - shares) + high[:, None] * shares
    by_value = np.where(np.isfinite(by_value), by_value, high[:, None]).astype(low.dtype)
    first, last = ordinal(low), ordinal(high)
    span = (last - first).astype(np.uint64)  # right even where the signed difference overflows
    step = np.maximum(span // np.uint64(binary + 1), np.uint64(1))
    steps = np.minimum(step[:, None] * np.arange(1, binary + 1, dtype=np.uint64), span[:, None])
    by_number = number(first[:, None] + steps.astype(np.int64), low.dtype)
    found = np.sort(np.column_stack([by_value, by_number]), axis=1)
    return np.asarray(np.clip(found, following(low)[:, None], high[:, None]))


def previous(values: Array) -> Array:
    """Return the largest number of the same precision below each."""
    return _neighbour(values, -np.inf)


def following(values: Array) -> Array:
    """Return the smallest number of the same precision above each."""
    return _neighbour(values, np.inf)


def _neighbour(values: Array, towards: float) -> Array:
    with np.errstate(over="ignore", under="ignore"):  # to infinity, and to the least of numbers
        return np.asarray(np.nextafter(values, values.dtype.type(towards)))


def ordinal(values: Array) -> NDArray[np.int64]:
    """Number floats in their order: neighbours differ by 1, and both zeros are 0."""
    width = np.dtype(f"i{values.dtype.itemsize}")
    bits = np.ascontiguousarray(values).view(width).astype(np.int64)
    magnitude = bits & np.int64(np.iinfo(width).max)
    return np.where(bits < 0, -magnitude, magnitude)


def number(ordinals: NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    """Return the floats that ``ordinal`` numbers."""
    width = np.dtype(f"i{dtype.itemsize}")
    magnitude = np.abs(ordinals).astype(width).view(dtype)
    return np.where(ordinals < 0, -magnitude, magnitude)

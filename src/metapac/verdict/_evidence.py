"""What a verdict rests on: counts of tasks or of examples, and their p-values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._types import Counts
from metapac.binomial import allowed_errors_in_task
from metapac.guarantee import JOINT_LEVELS
from metapac.verdict.intervals import clopper_pearson_interval

# The level at which a single task counts as within or above epsilon, for people to read.
SHOWN_LEVEL = 0.05
# Relative error reserved for rounding; probabilities are accurate to 1e-10.
SLACK = 1e-9
# Above this many tasks, each level gets an equal share of the error instead: also valid.
_MAX_TASKS = 2_000


class TaskCounts(NamedTuple):
    """How many tasks are not shown to be within epsilon, and not shown to exceed it, by level."""

    tasks: int
    not_within: tuple[int, ...]
    not_above: tuple[int, ...]
    within: int
    flagged: int
    largest: int = 0  # number of examples of the largest task

    def p_holds(self, alpha: float) -> float:
        return _p_value(self.tasks, alpha, self.not_within)

    def p_violated(self, alpha: float) -> float:
        return _p_value(self.tasks, 1 - alpha, self.not_above)

    def rejects_breach(self, alpha: float, limit: float) -> bool:
        return _rejects(self.tasks, alpha, self.not_within, limit)

    def rejects_truth(self, alpha: float, limit: float) -> bool:
        return _rejects(self.tasks, 1 - alpha, self.not_above, limit)

    def interval(self, limit: float) -> tuple[float, float]:
        """Move inwards from 0 and 1 in steps of one percent, up to the first fraction possible."""
        low, high = 0, 100
        while low < 99 and self.rejects_truth((low + 1) / 100, limit):
            low += 1
        while high > 1 and self.rejects_breach((high - 1) / 100, limit):
            high -= 1
        return low / 100, high / 100

    def scaled(self, tasks: int) -> TaskCounts:
        """Return the counts of another number of tasks like these, rounded to prove less."""

        def scale(counts: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(-(-count * tasks // self.tasks) for count in counts)

        return TaskCounts(tasks, scale(self.not_within), scale(self.not_above), 0, 0)


class ExampleCounts(NamedTuple):
    """Examples and misses of all tasks together, for a guarantee for single examples."""

    tasks: int
    examples: int
    missed: int
    epsilon: float
    within: int
    flagged: int

    @property
    def largest(self) -> int:
        return self.examples

    def p_holds(self, _alpha: float) -> float:
        return _lower_tail(self.missed, self.examples, self.epsilon)

    def p_violated(self, _alpha: float) -> float:
        hits = self.examples - self.missed
        return _lower_tail(hits, self.examples, _complement(self.epsilon))

    def rejects_breach(self, alpha: float, limit: float) -> bool:
        return self.p_holds(alpha) <= limit

    def rejects_truth(self, alpha: float, limit: float) -> bool:
        return self.p_violated(alpha) <= limit

    def interval(self, limit: float) -> tuple[float, float]:
        low, high = clopper_pearson_interval(self.missed, self.examples, confidence=1 - 2 * limit)
        return float(low), float(high)

    def scaled(self, tasks: int) -> ExampleCounts:
        examples, missed = (count * tasks // self.tasks for count in (self.examples, self.missed))
        return self._replace(tasks=tasks, examples=examples, missed=missed)


Evidence = TaskCounts | ExampleCounts


def collect(
    sizes: Counts,
    misses: Counts,
    epsilon: float,
    label: Counts,
    classes: int,
    alpha: float | None,
) -> list[Any]:
    """Count, for each class and level, the tasks that are not shown to be within or above."""
    hits, complement = sizes - misses, _complement(epsilon)

    def count(some: Counts, rate: float, level: float) -> Counts:
        open_ = some > allowed_errors_in_task(sizes, rate, level)
        return np.bincount(label[open_], minlength=classes)

    not_within = np.array([count(misses, epsilon, level) for level in JOINT_LEVELS])
    not_above = np.array([count(hits, complement, level) for level in JOINT_LEVELS])
    tasks = np.bincount(label, minlength=classes)
    shown = JOINT_LEVELS.index(SHOWN_LEVEL)
    within, flagged = (tasks - open_[shown] for open_ in (not_within, not_above))
    if alpha is None:
        total = int(sizes.sum()), int(misses.sum())
        return [ExampleCounts(len(sizes), *total, epsilon, int(within[0]), int(flagged[0]))]
    largest = np.zeros(classes, np.int64)
    np.maximum.at(largest, label, sizes)
    return [
        TaskCounts(
            int(tasks[i]),
            tuple(not_within[:, i].tolist()),
            tuple(not_above[:, i].tolist()),
            int(within[i]),
            int(flagged[i]),
            int(largest[i]),
        )
        for i in range(classes)
    ]


def are_above(sizes: Counts, misses: Counts, epsilon: float) -> NDArray[np.bool_]:
    """Return which tasks are shown to have a miss rate above epsilon, each one alone."""
    hits = sizes - misses
    return np.asarray(hits <= allowed_errors_in_task(sizes, _complement(epsilon), SHOWN_LEVEL))


def _complement(epsilon: float) -> float:
    """Return 1 - epsilon for the decimal number that epsilon prints as, below 1."""
    return min(float(1 - Decimal(repr(epsilon))), math.nextafter(1.0, 0.0))


def _lower_tail(count: int, examples: int, rate: float) -> float:
    return float(special.bdtr(count, examples, rate)) if examples else 1.0


def _rejects(tasks: int, share: float, counts: tuple[int, ...], limit: float) -> bool:
    """Return whether the p-value is at most ``limit``; bounds often decide without computing it."""
    smallest = _smallest_tail(tasks, share, counts)
    if smallest > limit:
        return False
    return len(counts) * smallest <= limit or _p_value(tasks, share, counts) <= limit


def _p_value(tasks: int, share: float, counts: tuple[int, ...]) -> float:
    """Return the probability that the smallest tail of all levels is as small as observed.

    In the worst case, the number of tasks counted at level t is Binomial(tasks, share (1 - t)),
    and the tasks counted at the next level are some of them.
    """
    smallest = _smallest_tail(tasks, share, counts)
    if smallest == 1 or tasks > _MAX_TASKS:
        return min(1.0, len(counts) * smallest)
    shares = _shares(share)
    below = special.bdtr(np.arange(tasks + 1), tasks, shares[:, None])  # (levels, tasks + 1)
    limits = np.count_nonzero(below <= smallest * (1 + SLACK), axis=1) - 1
    return min(1.0, _probability_of_any(tasks, shares, limits) * (1 + SLACK))


def _smallest_tail(tasks: int, share: float, counts: tuple[int, ...]) -> float:
    if not tasks:
        return 1.0
    return float(special.bdtr(np.array(counts), tasks, _shares(share)).min())


def _shares(share: float) -> NDArray[np.float64]:
    return share * (1 - np.array(JOINT_LEVELS))


def _probability_of_any(tasks: int, shares: NDArray[np.float64], limits: Counts) -> float:
    """Return P(M_j <= limits_j for some j), summed over the first j where that happens.

    M_1 is Binomial(tasks, shares_1); M_(j+1), given M_j, is Binomial(M_j, shares_(j+1) / shares_j).
    The tasks lost between levels are multinomial: Poisson counts, given that all of them make
    ``tasks``. All terms are positive, so nothing cancels.
    """
    counts = np.arange(tasks + 1)
    lost = _poisson(counts, tasks * (1 - shares[0]))  # weight of having lost 0, 1, ... tasks
    thinned = tasks * -np.diff(shares, append=0.0)
    total = 0.0
    for share, limit, mean in zip(shares, limits.tolist(), thinned, strict=True):
        too_many = tasks - limit  # so many lost leave at most ``limit``
        kept = _poisson(tasks - counts[too_many:], tasks * share)
        total += float(lost[too_many:] @ kept)
        lost[too_many:] = 0
        lost = np.convolve(lost, np.trim_zeros(_poisson(counts, mean), "b"))[: tasks + 1]
    return total / float(_poisson(np.array([tasks]), tasks)[0])


def _poisson(counts: Counts, mean: float) -> NDArray[np.float64]:
    return np.asarray(np.exp(special.xlogy(counts, mean) - special.gammaln(counts + 1) - mean))

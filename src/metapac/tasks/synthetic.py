"""Families of tasks whose true error at any threshold is known in closed form.

They are the oracles of the tests and the data of the demo: whether a promise was kept on a task
is a number here, not an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from metapac.binomial import task_rank
from metapac.guarantee import Guarantee

Array = NDArray[Any]
Seed = int | np.random.Generator | None


class Family(Protocol):
    """A distribution over tasks. A task is a number, or an array of them is many tasks."""

    def draw_tasks(self, count: int, rng: Seed = None) -> Array:
        """Return ``count`` independent tasks."""

    def draw_scores(self, tasks: Array, examples: int, rng: Seed = None) -> Array:
        """Return scores of the true labels, shape (tasks, examples)."""

    def error(self, tasks: Array, threshold: float) -> Array:
        """Return the chance, on each task, that the true label's score is below ``threshold``."""

    def broken(self, threshold: float, epsilon: float) -> float:
        """Return the share of all tasks whose error at ``threshold`` exceeds ``epsilon``."""


@dataclass(frozen=True)
class NormalFamily:
    """Classification by scores that are normal around the task's signal, or around 0.

    A task's signal is normal with mean ``signal`` and deviation ``spread``. The true label's
    score is normal around that signal, the other labels' scores around 0, all with deviation 1.
    """

    classes: int = 5
    signal: float = 3.0
    spread: float = 0.5

    def draw_tasks(self, count: int, rng: Seed = None) -> Array:
        return np.random.default_rng(rng).normal(self.signal, self.spread, count)

    def draw_scores(self, tasks: Array, examples: int, rng: Seed = None) -> Array:
        noise = np.random.default_rng(rng).standard_normal((len(tasks), examples))
        return np.asarray(noise + np.asarray(tasks)[:, None])

    def draw_examples(self, task: float, examples: int, rng: Seed = None) -> tuple[Array, Array]:
        """Return the scores of all labels, shape (examples, classes), and the true labels."""
        generator = np.random.default_rng(rng)
        labels = generator.integers(self.classes, size=examples)
        scores = generator.standard_normal((examples, self.classes))
        scores[np.arange(examples), labels] += task
        return scores, labels

    def error(self, tasks: Array, threshold: float) -> Array:
        return np.asarray(special.ndtr(threshold - np.asarray(tasks)))

    def size(self, tasks: Array, threshold: float) -> Array:
        """Return the expected number of labels in a set, on each task."""
        others = (self.classes - 1) * special.ndtr(-threshold)
        return np.asarray(1 - self.error(tasks, threshold) + others)

    def broken(self, threshold: float, epsilon: float) -> float:
        # Phi(threshold - signal) > epsilon where signal < threshold - Phi^-1(epsilon).
        lowest = threshold - special.ndtri(epsilon)
        return float(special.ndtr((lowest - self.signal) / self.spread))


@dataclass(frozen=True)
class TiedFamily:
    """Scores on a grid of ``levels`` + 1 values, full of ties.

    A task is a chance p, Beta(a, b) distributed; a score is Binomial(levels, p) / levels.
    """

    levels: int = 10
    a: float = 8.0
    b: float = 2.0

    def draw_tasks(self, count: int, rng: Seed = None) -> Array:
        return np.random.default_rng(rng).beta(self.a, self.b, count)

    def draw_scores(self, tasks: Array, examples: int, rng: Seed = None) -> Array:
        chances = np.asarray(tasks)[:, None]
        shape = (len(tasks), examples)
        return np.random.default_rng(rng).binomial(self.levels, chances, shape) / self.levels

    def _below(self, threshold: float) -> int:
        """Return how many values of the grid lie below ``threshold``."""
        return int(np.searchsorted(np.arange(self.levels + 1) / self.levels, threshold))

    def error(self, tasks: Array, threshold: float) -> Array:
        return np.asarray(stats.binom.cdf(self._below(threshold) - 1, self.levels, tasks))

    def broken(self, threshold: float, epsilon: float) -> float:
        below = self._below(threshold)
        if below == 0 or below > self.levels:
            return float(below > 0)
        # The error falls with p, and equals epsilon at this p.
        border = special.betainccinv(below, self.levels - below + 1, epsilon)
        return float(stats.beta.cdf(border, self.a, self.b))


@dataclass(frozen=True)
class TwoPointFamily:
    """The family on which a guarantee breaks with probability close to delta.

    A fraction ``bad`` of tasks has score 0 with chance ``miss`` and 1 otherwise; on the others
    every score is 1. With ``miss`` just above epsilon and ``bad`` just above alpha, any threshold
    above 0 breaks the promise. See docs/guarantee.md.
    """

    bad: float
    miss: float

    def draw_tasks(self, count: int, rng: Seed = None) -> Array:
        return np.random.default_rng(rng).random(count) < self.bad

    def draw_scores(self, tasks: Array, examples: int, rng: Seed = None) -> Array:
        draws = np.random.default_rng(rng).random((len(tasks), examples))
        return np.where(np.asarray(tasks)[:, None] & (draws < self.miss), 0.0, 1.0)

    def error(self, tasks: Array, threshold: float) -> Array:
        if threshold <= 0 or threshold > 1:
            return np.full(np.shape(tasks), float(threshold > 1))
        return np.where(tasks, self.miss, 0.0)

    def broken(self, threshold: float, epsilon: float) -> float:
        if threshold <= 0 or threshold > 1:
            return float(threshold > 1)
        return self.bad if self.miss > epsilon else 0.0

    def chance_of_one(self, guarantee: Guarantee, *, tasks: int, examples: int) -> float:
        """Return the exact chance that Meta-PS answers 1, the threshold that is too high.

        It answers 1 where at some level no more task thresholds are 0 than its rank allows. A
        task's threshold is 0 where it has more misses than may be, so that a higher level has
        fewer such tasks: the counts are a chain, each a thinning of the one before.
        """
        may_be_low: dict[int, int] = {}  # by the number of misses that a task may have
        for level, rank in zip(guarantee.levels, guarantee.ranks(tasks), strict=True):
            misses = task_rank(examples, guarantee.miss_rate, level.alpha_within)
            if misses >= 0:  # else every task threshold is -inf
                may_be_low[misses] = max(rank, may_be_low.get(misses, -1))
        found, before = 0.0, 1.0  # the share of tasks that were low so far
        alive = np.zeros(tasks + 1)  # P(so many are low, and 1 was not the answer yet)
        alive[tasks] = 1.0
        counts = np.arange(tasks + 1)
        for misses, rank in sorted(may_be_low.items()):
            low = self.bad * float(stats.binom.sf(misses, examples, self.miss))
            thinned = stats.binom.pmf(counts[:, None], counts[None, alive > 0], low / before)
            alive = np.asarray(thinned @ alive[alive > 0])
            found, before = found + float(alive[: rank + 1].sum()), low
            alive[: rank + 1] = 0.0
        return found

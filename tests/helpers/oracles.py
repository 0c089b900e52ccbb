"""Slow, obvious references. Nothing here shares code with what it checks."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from scipy import special, stats

from metapac import Guarantee
from metapac.evidence import ranks_within
from metapac.fewshot import synthetic
from metapac.fewshot.synthetic import Family

FALSE_ALARM = 1e-6


def binomial_cdf(k: int, n: int, epsilon: float) -> Fraction:
    """P[Binomial(n, epsilon) <= k], summed as fractions of the very double passed."""
    p = Fraction(epsilon)
    terms = (math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))
    return sum(terms, start=Fraction(0))


def allowed_errors(n: int, epsilon: float, delta: float) -> int:
    k = -1
    while k < n and binomial_cdf(k + 1, n, epsilon) <= Fraction(delta):
        k += 1
    return k


def binomial_term(k: int, n: int, p: mpmath.mpf) -> mpmath.mpf:
    """P[Binomial(n, p) = k], to the digits that mpmath works with."""
    log_choices = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
    return mpmath.exp(log_choices + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p))


def large_binomial_cdf(k: int, n: int, epsilon: float) -> mpmath.mpf:
    """The same to 30 digits for any n: terms from k downwards until they no longer count."""
    with mpmath.workdps(40):
        p = mpmath.mpf(epsilon)
        term = total = binomial_term(k, n, p)
        odds = (1 - p) / p
        for j in range(k, 0, -1):
            term *= odds * j / (n - j + 1)
            total += term
            if j < n * epsilon and term < total * mpmath.mpf(10) ** -30:
                break
        return total


@functools.cache
def allowed_errors_in_task(n: int, epsilon: float, within: float) -> int:
    """Errors allowed in a task, capped at n epsilon - 1, epsilon being the decimal it prints as."""
    k = allowed_errors(n, epsilon, within)
    while k > 0 and k + 1 > n * Fraction(repr(epsilon)):
        k -= 1
    return k


def union_probability(tasks: int, shares: Sequence[Fraction], ranks: Sequence[int]) -> Fraction:
    """P(M_j <= ranks_j for some j), by enumeration, where M_j of the tasks are in share j.

    Each task falls in one of the cells between neighbouring shares, so the counts of the cells are
    multinomial; M_j is the number of tasks in cell j or a later one.
    """
    cells = [a - b for a, b in zip([Fraction(1), *shares], [*shares, Fraction(0)], strict=True)]
    total = Fraction(0)
    for counts in _compositions(tasks, len(cells)):
        in_share = [sum(counts[j + 1 :]) for j in range(len(shares))]
        if any(m <= rank for m, rank in zip(in_share, ranks, strict=True)):
            chance, left = Fraction(1), tasks
            for cell, count in zip(cells, counts, strict=True):
                chance *= math.comb(left, count) * cell**count
                left -= count
            total += chance
    return total


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield first, *rest


def grown_union_probability(tasks: int, shares: Sequence[float], ranks: Sequence[int]) -> float:
    """The same in floating point, for any number of tasks: from the smallest share to the largest.

    Going that way counts only grow. One that is above all ranks still to come is never too low
    again and can be forgotten, so that nothing is approximated.
    """
    total, before = 0.0, 0.0
    counts, mass = np.zeros(1, dtype=int), np.ones(1)
    for j in range(len(shares) - 1, -1, -1):
        highest = max(ranks[: j + 1])
        new = np.arange(max(highest, -1) + 1)
        joins = max(0.0, (shares[j] - before) / (1 - before))  # equal ones differ by rounding
        away = new[:, None] - counts[None, :]
        chances = stats.binom.pmf(away, tasks - counts[None, :], joins) if mass.size else away
        now = (chances @ mass) if mass.size else np.zeros(len(new))
        total += float(now[: ranks[j] + 1].sum())
        counts, mass = new[ranks[j] + 1 :], now[ranks[j] + 1 :]
        before = shares[j]
    return total


def threshold(scores: Sequence[float], epsilon: float, delta: float) -> float:
    return largest(scores, allowed_errors(len(scores), epsilon, delta))


def largest(scores: Sequence[float], k: int) -> float:
    """Walk a grid of all distinct scores: the largest with at most k scores strictly below."""
    found = -math.inf
    if k >= 0:
        for candidate in set(scores):
            if sum(score < candidate for score in scores) <= k:
                found = max(found, candidate)
    return found


def thresholds_by_level(
    scores: Sequence[float],
    tasks: Sequence[object],
    epsilon: float,
    within: Sequence[float],
    ranks: Sequence[int],
) -> list[float]:
    """The method, with a Python loop over tasks and over levels; ranks are those across tasks."""
    by_task: dict[object, list[float]] = {}
    for score, task in zip(scores, tasks, strict=True):
        by_task.setdefault(task, []).append(score)
    found = []
    for level, rank in zip(within, ranks, strict=True):
        cuts = [
            largest(own, allowed_errors_in_task(len(own), epsilon, level))
            for own in by_task.values()
        ]
        found.append(largest(cuts, rank))
    return found


def meta_ps(*arguments: Any) -> float:
    return max(thresholds_by_level(*arguments))


def too_many(count: int, draws: int, chance: float) -> bool:
    """Whether ``count`` events in ``draws`` refute ``chance``, wrongly so once in a million."""
    return bool(stats.binom.sf(count - 1, draws, chance) < FALSE_ALARM)


@dataclass(frozen=True)
class TiedFamily(Family):
    """Tasks whose scores lie on a grid, so that many are tied.

    A task is a probability p, distributed as Beta(``a``, ``b``). A score is
    Binomial(``levels``, p) / ``levels``.
    """

    levels: int = 10
    a: float = 8.0
    b: float = 2.0

    def draw_tasks(self, count: int, rng: Any = None) -> Any:
        return np.random.default_rng(rng).beta(self.a, self.b, count)

    def draw_scores(self, tasks: Any, examples: int, rng: Any = None) -> Any:
        p, shape = np.asarray(tasks)[:, None], (len(tasks), examples)
        return np.random.default_rng(rng).binomial(self.levels, p, shape) / self.levels

    def _below(self, threshold: float) -> int:
        """Return the number of grid values below ``threshold``."""
        return int(np.searchsorted(np.arange(self.levels + 1) / self.levels, threshold))

    def error(self, tasks: Any, threshold: float) -> Any:
        return np.asarray(stats.binom.cdf(self._below(threshold) - 1, self.levels, tasks))

    def violation_rate(self, threshold: float, epsilon: float) -> float:
        below = self._below(threshold)
        if below == 0 or below > self.levels:
            return float(below > 0)
        # The error falls with p, and equals epsilon at this p.
        border = special.betainccinv(below, self.levels - below + 1, epsilon)
        return float(stats.beta.cdf(border, self.a, self.b))


class TwoPointFamily(synthetic.TwoPointFamily):
    """The hardest tasks, with the exact chance that Meta-PS fails on them."""

    def probability_of_one(self, guarantee: Guarantee, *, tasks: int, examples: int) -> float:
        """Return the exact probability that Meta-PS chooses 1, a threshold that is too high."""
        # The threshold is 1 if at some level the number of task thresholds of 0 is at most the
        # rank. The threshold of a task is 0 if it has more misses than the level allows. A higher
        # level allows more misses and has fewer such tasks: their counts form a Markov chain, each
        # a binomial thinning of the one before.
        rank_by_misses: dict[int, int] = {}  # misses that a task may have -> tasks of threshold 0
        ranks = guarantee.allowed_low_thresholds(tasks)
        within = ranks_within(np.array([examples]), guarantee)[0].tolist()
        for misses, rank in zip(within, ranks, strict=True):
            if misses >= 0:  # otherwise every task threshold is -inf
                rank_by_misses[misses] = max(rank, rank_by_misses.get(misses, -1))
        result, previous = 0.0, 1.0
        alive = np.zeros(tasks + 1)  # P(this many thresholds are 0, and 1 was not chosen so far)
        alive[tasks] = 1.0
        counts = np.arange(tasks + 1)
        for misses, rank in sorted(rank_by_misses.items()):
            low = self.bad * float(stats.binom.sf(misses, examples, self.miss))
            thinned = stats.binom.pmf(counts[:, None], counts[None, alive > 0], low / previous)
            alive = np.asarray(thinned @ alive[alive > 0])
            result, previous = result + float(alive[: rank + 1].sum()), low
            alive[: rank + 1] = 0.0
        return result


def draw_examples(
    family: synthetic.NormalFamily, task: float, examples: int, rng: Any
) -> tuple[Any, Any]:
    """Return scores of all labels of a normal task, and the true labels."""
    generator = np.random.default_rng(rng)
    labels = generator.integers(family.classes, size=examples)
    scores = generator.standard_normal((examples, family.classes))
    scores[np.arange(examples), labels] += task
    return scores, labels

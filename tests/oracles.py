"""Slow, obvious references. Nothing here shares code with what it checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
from scipy import stats

FALSE_ALARM = 1e-6


def binomial_cdf(k: int, n: int, epsilon: float) -> Fraction:
    """P[Binomial(n, epsilon) <= k], summed as fractions of the very double passed."""
    p = Fraction(epsilon)
    return sum(
        (math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1)), start=Fraction(0)
    )


def allowed_errors(n: int, epsilon: float, delta: float) -> int:
    k = -1
    while k < n and binomial_cdf(k + 1, n, epsilon) <= Fraction(delta):
        k += 1
    return k


def large_binomial_cdf(k: int, n: int, epsilon: float) -> mpmath.mpf:
    """The same to 30 digits for any n: terms from k downwards until they no longer count."""
    with mpmath.workdps(40):
        p = mpmath.mpf(epsilon)
        log_term = (
            mpmath.loggamma(n + 1)
            - mpmath.loggamma(k + 1)
            - mpmath.loggamma(n - k + 1)
            + k * mpmath.log(p)
            + (n - k) * mpmath.log1p(-p)
        )
        term = total = mpmath.exp(log_term)
        odds = (1 - p) / p
        for j in range(k, 0, -1):
            term *= odds * j / (n - j + 1)
            total += term
            if j < n * epsilon and term < total * mpmath.mpf(10) ** -30:
                break
        return total


def threshold(scores: Sequence[float], epsilon: float, delta: float) -> float:
    """Walk a grid of all distinct scores: the largest with at most k scores strictly below."""
    k = allowed_errors(len(scores), epsilon, delta)
    found = -math.inf
    if k >= 0:
        for candidate in set(scores):
            if sum(score < candidate for score in scores) <= k:
                found = max(found, candidate)
    return found


def meta_ps(
    scores: Sequence[float],
    tasks: Sequence[object],
    epsilon: float,
    levels: Sequence[tuple[float, float, float]],
) -> float:
    """The method, with a Python loop over tasks and over levels (within, across, delta)."""
    found = []
    for within, across, delta in levels:
        per_task = [
            threshold([s for s, t in zip(scores, tasks, strict=True) if t == name], epsilon, within)
            for name in dict.fromkeys(tasks)
        ]
        found.append(threshold(per_task, across, delta))
    return max(found)


def too_many(count: int, draws: int, chance: float) -> bool:
    """Whether ``count`` events in ``draws`` refute ``chance``, wrongly so once in a million."""
    return bool(stats.binom.sf(count - 1, draws, chance) < FALSE_ALARM)

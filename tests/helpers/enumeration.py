"""Every outcome of a few tasks, with its probability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray


def outcomes(probabilities: NDArray[np.float64], tasks: int) -> Iterator[tuple[list[int], float]]:
    """Yield the misses of tasks that are drawn i.i.d., in ascending order, with their chance."""
    possible = np.flatnonzero(probabilities).tolist()
    for misses in combinations_with_replacement(possible, tasks):
        counts = np.bincount(misses)
        ways = factorial(tasks) / np.prod([float(factorial(count)) for count in counts])
        yield [*misses], float(ways * np.prod(probabilities[list(misses)]))


def chance_of_few(reach: Sequence[NDArray[np.float64]], ranks: Sequence[int]) -> float:
    """P(for some level, at most as many tasks as its rank reach it), for independent tasks.

    ``reach`` holds, for each task, the chance that it reaches each level; who reaches a level has
    reached all before it. Counts are followed jointly, up to one above the rank.
    """
    # Whatever is too few at a level is too few at a later one with the same rank.
    kept = [j for j, rank in enumerate(ranks) if rank > max(ranks[j + 1 :], default=-1)]
    mass = np.zeros([ranks[j] + 2 for j in kept])
    mass.flat[0] = 1.0
    for chances in reach:
        exactly = -np.diff([1.0, *chances[kept], 0.0])
        moved, mass = mass, exactly[0] * mass
        for axis, chance in enumerate(exactly[1:]):
            moved = _one_more(moved, axis)
            mass = mass + chance * moved
    return 1 - float(mass.flat[-1]) if kept else 0.0


def _one_more(mass: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Raise the count of one level; the highest one stands for all above it."""
    old, new = np.moveaxis(mass, axis, 0), np.zeros_like(np.moveaxis(mass, axis, 0))
    new[1:] = old[:-1]
    new[-1] += old[-1]
    return np.moveaxis(new, 0, axis)


def make_ups(n: int, mean: Fraction) -> Iterator[tuple[int, int, Fraction]]:
    """Yield the extreme make-ups of n examples: so many always missed, so many with a chance."""
    for ones in range(math.floor(mean) + 1):
        for equal in range(1, n - ones + 1):
            if mean - ones <= equal:
                yield ones, equal, (mean - ones) / equal


def misses_of(n: int, ones: int, equal: int, share: Any) -> list[Any]:
    """Return the chance of 0, ..., n misses, as fractions if the share is one."""
    some = [math.comb(equal, j) * share**j * (1 - share) ** (equal - j) for j in range(equal + 1)]
    return [0] * ones + some + [0] * (n - ones - equal)

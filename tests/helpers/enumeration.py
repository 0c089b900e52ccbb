"""Every outcome of a few tasks, with its probability."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import factorial

import numpy as np
from numpy.typing import NDArray


def outcomes(probabilities: NDArray[np.float64], tasks: int) -> Iterator[tuple[list[int], float]]:
    """Yield the misses of tasks that are drawn i.i.d., in ascending order, with their chance."""
    possible = np.flatnonzero(probabilities).tolist()
    for misses in combinations_with_replacement(possible, tasks):
        counts = np.bincount(misses)
        ways = factorial(tasks) / np.prod([float(factorial(count)) for count in counts])
        yield [*misses], float(ways * np.prod(probabilities[list(misses)]))

"""Sample sizes: the fewest examples, and the fewest tasks, that certify a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metapac import _checks
from metapac.binomial import certifies
from metapac.bisection import min_integer
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Guarantee
from metapac.ranks import Level, equal_share

# Above this number of tasks, each level gets an equal share of delta: close to exact, and fast.
_EXACT = 20_000


def min_sample_size(epsilon: float, delta: float, errors: int = 0) -> int:
    """Return the smallest n such that ``errors`` errors in n examples certify ``epsilon``.

    Parameters
    ----------
    epsilon : float
        Error rate to certify.
    delta : float
        Failure probability of the certificate.
    errors : int, default 0
        Number of errors observed.

    Returns
    -------
    int
        The sample size.

    Raises
    ------
    InvalidInput
        If it exceeds 10**9.
    """
    guess = math.log(delta) / math.log1p(-epsilon)  # the answer where no error is allowed
    if guess > _checks.LARGEST_COUNT:
        raise sample_size_overflow(epsilon, delta)
    high = max(errors + 1, math.ceil(guess))
    while not certifies(errors, high, epsilon, delta):
        high *= 2
    low = errors  # as many errors as examples certify nothing
    return min_integer(lambda n: bool(certifies(errors, n, epsilon, delta)), low, high)


def sample_size_overflow(epsilon: float, delta: float) -> InvalidInput:
    """Return the error for a rate that would need more examples or tasks than can be counted.

    Parameters
    ----------
    epsilon : float
        Error rate to certify.
    delta : float
        Failure probability of the certificate.

    Returns
    -------
    InvalidInput
        The error to raise.
    """
    rate = f"a rate of {epsilon:g} at confidence 1 - {delta:g}"
    names = map(Parameter, ("epsilon", "alpha", "delta"))
    text = "{} needs more than 10**9 examples or tasks. Choose a larger {}, {} or {}."
    return InvalidInput(text, rate, *names)


def min_task_size(guarantee: Guarantee, level: Level) -> int:
    """Return how many examples a task needs to count at a level.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    level : Level
        The level.

    Returns
    -------
    int
        The number of examples, at least ``min_examples``.
    """
    examples = min_sample_size(guarantee.miss_rate, level.alpha_within)
    return max(examples, guarantee.min_examples)


def min_tasks(guarantee: Guarantee, level: int, small: int = 0) -> int:
    """Return the smallest number of tasks at which ``small`` of them may be too small for a level.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    level : int
        Index of the level.
    small : int, default 0
        Number of tasks that are too small to certify ``epsilon`` at that level.

    Returns
    -------
    int
        The number of tasks.
    """
    share, delta = guarantee.levels[level].alpha_across, guarantee.delta

    def enough(tasks: int) -> bool:
        return guarantee.allowed_low_thresholds(tasks)[level] >= small

    if delta is None:
        return min_integer(enough, 0, math.ceil((small + 1) / share) + 1)
    low = min_sample_size(share, delta, small)
    if len(guarantee.levels) == 1:
        return low
    # Every level gets at least an equal share of delta.
    high = min_sample_size(share, equal_share(delta, len(guarantee.levels)), small)
    if high > _EXACT:
        return high
    return low if enough(low) else min_integer(enough, low, high)


def min_tasks_over_levels(guarantee: Guarantee, small: Sequence[int]) -> tuple[int, int]:
    """Return the smallest number of tasks over all levels, and the level that attains it.

    Counts across tasks are slow to compute, so a level is tried only if, given all of delta, it
    would need no more tasks than the best level so far.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    small : sequence of int
        Number of tasks that are too small for each level.

    Returns
    -------
    tasks : int
        The number of tasks.
    level : int
        Index of the level.
    """
    if guarantee.delta is None:
        return min_tasks(guarantee, 0, small[0]), 0
    pairs = zip(guarantee.levels, small, strict=True)
    bounds = [min_sample_size(level.alpha_across, guarantee.delta, few) for level, few in pairs]
    best = (math.inf, 0)
    for bound, level in sorted((bound, level) for level, bound in enumerate(bounds)):
        if bound <= best[0]:
            best = min(best, (min_tasks(guarantee, level, small[level]), level))
    return int(best[0]), best[1]

"""What must be taken off a coverage averaged over tasks before it can be promised.

Both corrections depend on numbers of tasks and examples alone, never on scores: the proofs, in
docs/guarantee.md, bound the average at one fixed lambda. Tasks come as their distinct sizes and
how many there are of each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac import demands
from metapac import shortage as shortages
from metapac.binomial import clopper_pearson_upper

Counts = NDArray[np.int64]

OVER = ("tasks", "examples")
# Shares of delta tried for the intervals. Any division is valid and the correction is flat around
# the best one, so that a finer list gains nothing.
_SHARES = tuple(i / 20 for i in range(1, 20))


class Split(NamedTuple):
    """How delta was divided: between the average, and intervals for the tasks."""

    across: float
    within: float


class Correction(NamedTuple):
    """What is taken off the average coverage; ``inf`` where nothing would be enough."""

    amount: float
    split: Split

    def leaves_room(self, epsilon: float, tasks: int) -> bool:
        """Return whether tasks that cover all of their examples would carry the promise."""
        # N of N + 1 are covered at best, so that 1 / (N + 1) of epsilon is gone before any error.
        return (epsilon - self.amount) * (tasks + 1) >= 1


def correction(
    over: str, epsilon: float, delta: float, sizes: Counts, counts: Counts
) -> Correction:
    """Return what is taken off so that a promise holds ``over`` tasks, or over examples alone."""
    if over == "tasks":
        return over_tasks(epsilon, delta, int(counts.sum()))
    return over_examples(epsilon, delta, sizes, counts)


def over_tasks(epsilon: float, delta: float, tasks: int) -> Correction:
    """Return the least c with exp(-N KL(1 - epsilon + c, 1 - epsilon)) <= delta.

    Hoeffding's inequality (1963, Theorem 1): N independent numbers in [0, 1] of mean at most
    1 - epsilon average 1 - epsilon + c or more with at most that chance. A task's share of covered
    examples is such a number, with the task's true coverage as its mean, so that all of delta goes
    to the average: an interval for each task would only be paid for.
    """

    def enough(share: float) -> bool:
        miss = epsilon * (1 - share)
        gain = math.log1p(epsilon * share / (1 - epsilon))  # log of (1 - miss) / (1 - epsilon)
        divergence = (1 - miss) * gain + miss * math.log1p(-share)
        return tasks * divergence >= -math.log(delta)

    share = demands.least_value(enough)
    return Correction(math.inf if share is None else epsilon * share, Split(delta, 0.0))


def over_examples(epsilon: float, delta: float, sizes: Counts, counts: Counts) -> Correction:
    """Return Hoeffding's bound for tasks whose coverages lie in intervals, as Fisch et al. do.

    With w_i the width of an interval for task i at level delta_within / N it is
    sqrt(sum w_i^2 log(1 / delta_across) / 2) / N, at the division of delta that makes it least.
    """
    tasks = int(counts.sum())
    best = Correction(math.inf, Split(delta, 0.0))
    for share in _SHARES:
        split = Split(delta * (1 - share), delta * share)
        widths = interval_widths(epsilon, split.within / tasks, sizes)
        squares = float(counts @ widths**2)
        amount = math.sqrt(squares * -math.log(split.across) / 2) / tasks
        best = min(best, Correction(amount, split))
    return best


def interval_widths(epsilon: float, level: float, sizes: Counts) -> NDArray[np.float64]:
    """Return the width of the interval of Clopper and Pearson for a task of each size.

    Around a coverage of 1 - epsilon, and never below 1 / sqrt(n), which is what the proof asks of
    n examples. The interval of Dvoretzky, Kiefer and Wolfowitz is never narrower: by Hoeffding's
    inequality no end of this one is further than sqrt(log(2 / level) / 2n) from the middle.
    """
    errors = np.floor(epsilon * sizes).astype(np.int64)
    upper = clopper_pearson_upper(errors, sizes, level / 2)
    lower = 1 - clopper_pearson_upper(sizes - errors, sizes, level / 2)
    return np.maximum(upper - lower, 1 / np.sqrt(sizes))


def shortage(over: str, epsilon: float, delta: float, tasks: int, least: int) -> str:
    """Return in words what ``tasks`` of at least ``least`` examples lack for the promise."""

    def works(epsilon: float, delta: float, tasks: int) -> bool:
        found = correction(over, epsilon, delta, np.array([least]), np.array([tasks]))
        return found.leaves_room(epsilon, tasks)

    each = "" if over == "tasks" else f" with at least {least} example{'s' if least > 1 else ''}"
    return shortages.of_average(epsilon, delta, tasks, works, each)

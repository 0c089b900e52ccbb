"""What a guarantee needs: the least number of tasks and of examples per task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac._common import LARGEST_COUNT, Counts
from metapac.binomial import certifies, min_integer, min_value, round_up
from metapac.errors import InvalidInput
from metapac.guarantee import Guarantee
from metapac.ranks import Level, equal_share

# Above this number of tasks, each level gets an equal share of delta: close to exact, and fast.
_EXACT = 20_000


def min_sample_size(epsilon: float, delta: float, errors: int = 0) -> int:
    """Return the smallest n such that ``errors`` errors in n examples certify ``epsilon``."""
    guess = math.log(delta) / math.log1p(-epsilon)  # the answer where no error is allowed
    if guess > LARGEST_COUNT:
        raise sample_size_overflow(epsilon, delta)
    high = max(errors + 1, math.ceil(guess))
    while not certifies(errors, high, epsilon, delta):
        high *= 2
    low = errors  # as many errors as examples certify nothing
    return min_integer(lambda n: bool(certifies(errors, n, epsilon, delta)), low, high)


def sample_size_overflow(epsilon: float, delta: float) -> InvalidInput:
    """Return the error for a rate that would need more examples or tasks than can be counted."""
    rate = f"a rate of {epsilon:g} at confidence 1 - {delta:g}"
    return InvalidInput(
        f"{rate} needs more than 10**9 examples or tasks.",
        parameter=("epsilon", "alpha", "delta"),
    )


def min_task_size(guarantee: Guarantee, level: Level) -> int:
    """Return how many examples a task needs to count at a level."""
    examples = min_sample_size(guarantee.miss_rate, level.alpha_within)
    return max(examples, guarantee.min_examples)


def min_tasks(guarantee: Guarantee, level: int, small: int = 0) -> int:
    """Return the least number of tasks at which ``small`` of them may be too small for a level."""
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


# Candidate levels or sizes to try, where each takes time.
MAX_TRIED = 40


class Affordable(NamedTuple):
    """Smallest feasible value of each parameter, the others held fixed."""

    epsilon: float | None
    alpha: float | None
    delta: float | None


class Demand(NamedTuple):
    """A guarantee, and the sizes of the tasks that should support it."""

    guarantee: Guarantee
    sizes: Counts
    counts: Counts
    label: Any = None

    @classmethod
    def from_sizes(cls, guarantee: Guarantee, sizes: ArrayLike, *, label: Any = None) -> Demand:
        """Return the demand on tasks of given sizes."""
        distinct, counts = np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True)
        return cls(guarantee, distinct, counts, label)

    def with_parameters(self, **changes: Any) -> Demand:
        """Return the demand with some parameters of its guarantee changed."""
        return self._replace(guarantee=replace(self.guarantee, **changes))

    def with_tasks(self, count: int, examples: int) -> Demand:
        """Return the demand with more tasks."""
        sizes, counts = np.append(self.sizes, examples), np.append(self.counts, count)
        return self._replace(sizes=sizes, counts=counts)

    @property
    def used(self) -> NDArray[np.bool_]:
        """For each size, whether tasks of that size are used, not left out by ``min_examples``."""
        return np.asarray(self.sizes >= self.guarantee.min_examples)

    @property
    def tasks(self) -> int:
        """Number of tasks that are used."""
        return int(self.counts[self.used].sum())

    @property
    def left_out(self) -> int:
        """Number of tasks that ``min_examples`` leaves out."""
        return int(self.counts[~self.used].sum())

    def too_small(self) -> list[int]:
        """Return for each level how many of the tasks used cannot certify ``epsilon``."""
        rate, levels = self.guarantee.miss_rate, self.guarantee.levels
        certified = [certifies(0, self.sizes, rate, level.alpha_within) for level in levels]
        return [int(self.counts[self.used & ~enough].sum()) for enough in certified]

    def spare_tasks(self) -> list[int]:
        """Return for each level how many more tasks could be too small."""
        if not self.tasks:
            return [-1]
        allowed = self.guarantee.allowed_low_thresholds(self.tasks)
        return [count - few for count, few in zip(allowed, self.too_small(), strict=True)]

    def is_feasible(self) -> bool:
        """Return whether these tasks support the guarantee."""
        g = self.guarantee
        if g.delta is not None and len(g.levels) > 1 and self.tasks:
            # Quick bounds: for some level an equal share of delta is enough, and all of it needed.
            if self._is_any_level_usable(equal_share(g.delta, len(g.levels))):
                return True
            if not self._is_any_level_usable(g.delta):
                return False
        return max(self.spare_tasks()) >= 0

    def _is_any_level_usable(self, delta: float) -> bool:
        """Return whether some level, given ``delta`` for itself, tolerates its small tasks."""
        pairs = zip(self.too_small(), self.guarantee.levels, strict=True)
        return any(certifies(few, self.tasks, level.alpha_across, delta) for few, level in pairs)

    def affordable(self) -> Affordable:
        """Return the best guarantee that these tasks support, one parameter at a time."""
        delta = None if self.guarantee.delta is None else smallest([self], "delta", fast=True)
        return Affordable(smallest([self], "epsilon"), smallest([self], "alpha", fast=True), delta)


def all_feasible(demands: Sequence[Demand], **changes: Any) -> bool:
    """Return whether tasks support all guarantees, with changed parameters; ``delta`` is shared."""
    if changes.get("delta") is not None:
        changes["delta"] = equal_share(changes["delta"], len(demands))
    return all(demand.with_parameters(**changes).is_feasible() for demand in demands)


def smallest(demands: Sequence[Demand], parameter: str, *, fast: bool = False) -> float | None:
    """Return the smallest value of a parameter that tasks support, the others fixed."""
    several = len(demands[0].guarantee.levels) > 1  # which makes each trial slow
    tolerance = 1e-5 if fast and several else 1e-15
    return min_value(lambda value: all_feasible(demands, **{parameter: value}), tolerance)


def find_single_level(demands: Sequence[Demand]) -> float | None:
    """Return a numeric split with which the tasks support all guarantees, if there is one.

    Candidates are the levels that tasks of the given sizes reach without an error, lowest first.
    """
    reached = {
        round_up(max((1 - demand.guarantee.miss_rate) ** int(size), 1e-12))
        for demand in demands
        for size in demand.sizes
    }
    candidates = sorted(level for level in reached if 0.005 <= level <= 0.5)
    some = candidates[:: max(1, len(candidates) // MAX_TRIED)]
    return next((level for level in some if all_feasible(demands, split=level)), None)

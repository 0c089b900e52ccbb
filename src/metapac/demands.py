"""Feasibility: whether given tasks can carry a guarantee, and what they would need."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks
from metapac.binomial import certifies
from metapac.guarantee import Guarantee
from metapac.ranks import Level, equal_share

Counts = NDArray[np.int64]


def least_size(epsilon: float, delta: float, errors: int = 0) -> int:
    """Return the least n such that ``errors`` errors in n examples still certify ``epsilon``."""
    guess = math.log(delta) / math.log1p(-epsilon)  # the answer where no error is allowed
    if guess > _checks.LARGEST_COUNT:
        raise beyond_counting(epsilon, delta)
    high = max(errors + 1, math.ceil(guess))
    while not certifies(errors, high, epsilon, delta):
        high *= 2
    low = errors  # as many errors as examples certify nothing
    return least_whole(lambda n: bool(certifies(errors, n, epsilon, delta)), low, high)


# Beyond this many tasks, an equal share of delta is used: close to exact, and fast.
_EXACT = 20_000


def least_tasks(guarantee: Guarantee, level: int, small: int = 0) -> int:
    """Return the least number of tasks at which ``small`` of them may be too small for a level."""
    share, delta = guarantee.levels[level].alpha_across, guarantee.delta
    if delta is None:
        most = math.ceil((small + 1) / share) + 1
        return least_whole(lambda n: guarantee.ranks(n)[level] >= small, 0, most)
    low = least_size(share, delta, small)
    if len(guarantee.levels) == 1:
        return low
    # Every level gets at least an equal share of delta.
    high = least_size(share, equal_share(delta, len(guarantee.levels)), small)
    if high > _EXACT:
        return high
    if guarantee.ranks(low)[level] >= small:
        return low
    return least_whole(lambda n: guarantee.ranks(n)[level] >= small, low, high)


def fewest_tasks(guarantee: Guarantee, small: Sequence[int]) -> tuple[int, int]:
    """Return the least number of tasks over all levels, and the level that attains it.

    ``small`` is the number of tasks that are too small for each level. Ranks are slow to compute,
    so a level is tried only if, given all of delta, it would need no more tasks than the best yet.
    """
    if guarantee.delta is None:
        return least_tasks(guarantee, 0, small[0]), 0
    pairs = zip(guarantee.levels, small, strict=True)
    bounds = [least_size(level.alpha_across, guarantee.delta, few) for level, few in pairs]
    best = (math.inf, 0)
    for bound, level in sorted((bound, level) for level, bound in enumerate(bounds)):
        if bound <= best[0]:
            best = min(best, (least_tasks(guarantee, level, small[level]), level))
    return int(best[0]), best[1]


def least_whole(works: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number that works, given that ``low`` does not and ``high`` does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def least_value(works: Callable[[float], bool], tolerance: float = 1e-15) -> float | None:
    """Return the least value in (0, 1) that works, if larger values only make it easier."""
    low, high = sys.float_info.min, math.nextafter(1.0, 0.0)  # below low, shares underflow
    if not works(high):
        return None
    while high - low > tolerance * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def beyond_counting(epsilon: float, delta: float) -> ValueError:
    return ValueError(
        f"a rate of {epsilon:g} at confidence 1 - {delta:g} needs more than 2**53 examples or "
        "tasks. Choose a larger epsilon, alpha or delta."
    )


class Affordable(NamedTuple):
    """The smallest feasible value of each parameter, with the others held fixed; None if none."""

    epsilon: float | None
    alpha: float | None
    delta: float | None


class Demand(NamedTuple):
    """A guarantee and the tasks meant to carry it: ``counts[i]`` tasks of size ``sizes[i]``."""

    guarantee: Guarantee
    sizes: Counts
    counts: Counts
    label: Any = None  # the class whose examples are counted; None for all classes together
    known: bool = True  # False where some sizes are only inferred from thresholds

    @classmethod
    def of_sizes(
        cls, guarantee: Guarantee, sizes: ArrayLike, *, label: Any = None, known: bool = True
    ) -> Demand:
        """Return the demand on tasks of these sizes."""
        distinct, counts = np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True)
        return cls(guarantee, distinct, counts, label, known)

    def with_(self, **changes: Any) -> Demand:
        """Return the demand with some parameters of its guarantee changed."""
        return self._replace(guarantee=replace(self.guarantee, **changes))

    def with_tasks(self, count: int, examples: int) -> Demand:
        """Return the demand with ``count`` more tasks of ``examples`` examples each."""
        sizes, counts = np.append(self.sizes, examples), np.append(self.counts, count)
        return self._replace(sizes=sizes, counts=counts)

    @property
    def used(self) -> NDArray[np.bool_]:
        """Whether tasks of each size count, or are left out by ``min_examples``."""
        return np.asarray(self.sizes >= self.guarantee.min_examples)

    @property
    def tasks(self) -> int:
        """The number of tasks that count."""
        return int(self.counts[self.used].sum())

    @property
    def left_out(self) -> int:
        """The number of tasks that ``min_examples`` leaves out."""
        return int(self.counts[~self.used].sum())

    def too_small(self, level: Level) -> int:
        """Return how many of the tasks that count cannot certify epsilon at a level."""
        certified = certifies(0, self.sizes, self.guarantee.miss_rate, level.alpha_within)
        return int(self.counts[self.used & ~certified].sum())

    def spare(self) -> list[int]:
        """Return for each level how many more tasks could be too small; negative if unusable."""
        if not self.tasks:
            return [-1]
        ranks = self.guarantee.ranks(self.tasks)
        small = map(self.too_small, self.guarantee.levels)
        return [rank - few for rank, few in zip(ranks, small, strict=True)]

    def feasible(self) -> bool:
        """Return whether these tasks can carry the guarantee."""
        quick = self._surely()
        return max(self.spare()) >= 0 if quick is None else quick

    def _surely(self) -> bool | None:
        """Return whether it is feasible; None if an equal share of delta and all of it disagree."""
        g, levels = self.guarantee, self.guarantee.levels
        if g.delta is None or len(levels) == 1 or not self.tasks:
            return None

        def any_level(delta: float) -> bool:
            return any(
                bool(certifies(self.too_small(each), self.tasks, each.alpha_across, delta))
                for each in levels
            )

        if any_level(equal_share(g.delta, len(levels))):
            return True
        return None if any_level(g.delta) else False

    @property
    def tolerance(self) -> float:
        """Tolerance of the search for the best guarantee; ranks of several levels are slow."""
        return 1e-15 if len(self.guarantee.levels) == 1 else 1e-5

    def affordable(self) -> Affordable:
        """Return the best guarantee of these tasks, one parameter at a time."""

        def least(name: str) -> float | None:
            def works(value: float) -> bool:
                return self.with_(**{name: value}).feasible()

            return least_value(works, self.tolerance)

        delta = None if self.guarantee.delta is None else least("delta")
        return Affordable(self.affordable_epsilon(), least("alpha"), delta)

    def affordable_epsilon(self) -> float | None:
        """Return the smallest epsilon that these tasks can carry, other parameters held fixed."""
        return least_value(lambda value: self.with_(epsilon=value).feasible())


def single_level(demands: Sequence[Demand]) -> float | None:
    """Return a numeric split with which these tasks can carry their guarantees, if there is one.

    Candidates are the levels that tasks of the given sizes reach with no error, lowest first.
    """
    reached = {
        rounded_up(max((1 - each.guarantee.miss_rate) ** int(size), 1e-12))
        for each in demands
        for size in each.sizes
    }
    tried = sorted(level for level in reached if 0.005 <= level <= 0.5)
    some = tried[:: max(1, len(tried) // TRIED)]
    return next((x for x in some if all(each.with_(split=x).feasible() for each in demands)), None)


TRIED = 40  # levels or sizes at most, where each takes time


def rounded_up(value: float, digits: int = 3) -> float:
    """Return ``value`` rounded up to ``digits`` significant digits."""
    near = float(f"{value:.{digits}g}")
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return near if near >= value else float(f"{near + step:.{digits}g}")

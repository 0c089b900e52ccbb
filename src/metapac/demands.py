"""Guarantees and the tasks that are to carry them: whether they can, and what they would need."""

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
    """Return the least n of which ``errors`` may be wrong and still certify ``epsilon``."""
    guess = math.log(delta) / math.log1p(-epsilon)  # the answer where no error is allowed
    if guess > _checks.LARGEST_COUNT:
        raise beyond_counting(epsilon, delta)
    high = max(errors + 1, math.ceil(guess))
    while not certifies(errors, high, epsilon, delta):
        high *= 2
    low = errors  # as many errors as examples certify nothing
    return least_whole(lambda n: bool(certifies(errors, n, epsilon, delta)), low, high)


# Beyond so many tasks, an equal share of delta is close to the truth and takes no time.
_EXACT = 20_000


def least_tasks(guarantee: Guarantee, level: int, small: int = 0) -> int:
    """Return the least number of tasks of which ``small`` may be too small for that level."""
    share, delta = guarantee.levels[level].alpha_across, guarantee.delta
    if delta is None:
        most = math.ceil((small + 1) / share) + 1
        return least_whole(lambda n: guarantee.ranks(n)[level] >= small, 0, most)
    low = least_size(share, delta, small)
    if len(guarantee.levels) == 1:
        return low
    # Every level has at least an equal share of delta.
    high = least_size(share, equal_share(delta, len(guarantee.levels)), small)
    if high > _EXACT:
        return high
    if guarantee.ranks(low)[level] >= small:
        return low
    return least_whole(lambda n: guarantee.ranks(n)[level] >= small, low, high)


def fewest_tasks(guarantee: Guarantee, small: Sequence[int]) -> tuple[int, int]:
    """Return the least number of tasks over the levels, and the level that it is for.

    At each level so many tasks may be too small. Ranks take time, so that a level is looked at
    only if with all of delta it would need no more tasks than another does.
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
    """Return the least number that works, above ``low``, which does not, and up to ``high``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def least_value(works: Callable[[float], bool], tolerance: float = 1e-15) -> float | None:
    """Return the least value in (0, 1) that works, of a guarantee that only gets easier."""
    low, high = sys.float_info.min, math.nextafter(1.0, 0.0)  # below, shares of it underflow
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
    """The smallest each parameter can be with some data, the others held; None if it cannot."""

    epsilon: float | None
    alpha: float | None
    delta: float | None


class Demand(NamedTuple):
    """A guarantee, and the tasks that are to carry it: ``counts`` of each of the ``sizes``."""

    guarantee: Guarantee
    sizes: Counts
    counts: Counts
    label: Any = None  # of the class whose examples are meant, if it is one
    known: bool = True  # whether sizes are those of the tasks, not only told by their thresholds

    @classmethod
    def of_sizes(
        cls, guarantee: Guarantee, sizes: ArrayLike, *, label: Any = None, known: bool = True
    ) -> Demand:
        """Return the demand on tasks of these sizes, those too small to count left out."""
        distinct, counts = np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True)
        return cls(guarantee, distinct, counts, label, known)._counted()

    def _counted(self) -> Demand:
        enough = self.sizes >= self.guarantee.min_examples
        return self._replace(sizes=self.sizes[enough], counts=self.counts[enough])

    def with_(self, **changes: Any) -> Demand:
        """Return the demand with some parameters of its guarantee changed."""
        return self._replace(guarantee=replace(self.guarantee, **changes))._counted()

    def with_tasks(self, count: int, examples: int) -> Demand:
        """Return the demand on more tasks, of so many examples each."""
        sizes, counts = np.append(self.sizes, examples), np.append(self.counts, count)
        return self._replace(sizes=sizes, counts=counts)

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.counts.sum())

    def too_small(self, level: Level) -> int:
        """Return how many tasks cannot certify epsilon at a level."""
        certified = certifies(0, self.sizes, self.guarantee.miss_rate, level.alpha_within)
        return int(self.counts[~certified].sum())

    def spare(self) -> list[int]:
        """Return for each level how many more tasks could be too small; below 0 it is unusable."""
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
        """Return whether it is feasible where an equal share of delta, or all of it, can tell."""
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
        """How closely to look for the best guarantee: ranks of several levels take time."""
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
        """Return the smallest epsilon that these tasks can carry, the rest of it held."""
        return least_value(lambda value: self.with_(epsilon=value).feasible())


def single_level(demands: Sequence[Demand]) -> float | None:
    """Return a number, as a split, that these tasks can carry their guarantees with, if any.

    Tried are the levels that tasks of the given sizes reach without an error, the lowest first.
    """
    reached = {
        rounded_up(max((1 - each.guarantee.miss_rate) ** int(size), 1e-12))
        for each in demands
        for size in each.sizes
    }
    tried = sorted(level for level in reached if level <= 0.5)
    some = tried[:: max(1, len(tried) // _TRIED)]
    return next((x for x in some if all(each.with_(split=x).feasible() for each in demands)), None)


_TRIED = 40


def rounded_up(value: float, digits: int = 3) -> float:
    """Return ``value`` with so many significant digits, never smaller than it was."""
    near = float(f"{value:.{digits}g}")
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return near if near >= value else float(f"{near + step:.{digits}g}")

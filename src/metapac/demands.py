"""Feasibility: whether given tasks support a guarantee, and which guarantees they support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac._types import Counts
from metapac.binomial import certifies
from metapac.bisection import min_value, round_up
from metapac.guarantee import Guarantee
from metapac.ranks import Level, equal_share

# Candidate levels or sizes to try, where each takes time.
MAX_TRIED = 40


class Affordable(NamedTuple):
    """Smallest feasible value of each parameter, the others held fixed.

    Attributes
    ----------
    epsilon : float or None
        Miss rate allowed on a task; None if no value is feasible.
    alpha : float or None
        Fraction of new tasks that may exceed the miss rate; None if no value is feasible.
    delta : float or None
        Failure probability; None if no value is feasible, or for a guarantee in expectation.
    """

    epsilon: float | None
    alpha: float | None
    delta: float | None


class Demand(NamedTuple):
    """A guarantee, and the sizes of the tasks that should support it.

    Attributes
    ----------
    guarantee : Guarantee
        The guarantee; for one class, the part of that class.
    sizes : ndarray of int64
        Different sizes of tasks.
    counts : ndarray of int64
        Number of tasks of each size.
    label : object
        The class whose examples are counted; None for all classes together.
    sizes_known : bool
        False if some sizes are only inferred from thresholds.
    """

    guarantee: Guarantee
    sizes: Counts
    counts: Counts
    label: Any = None
    sizes_known: bool = True

    @classmethod
    def from_sizes(
        cls, guarantee: Guarantee, sizes: ArrayLike, *, label: Any = None, sizes_known: bool = True
    ) -> Demand:
        """Return the demand on tasks of given sizes.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee.
        sizes : array_like of int
            Number of examples of each task.
        label : object, optional
            The class whose examples are counted.
        sizes_known : bool, default True
            False if some sizes are only inferred from thresholds.

        Returns
        -------
        Demand
            The demand, with tasks of one size counted together.
        """
        distinct, counts = np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True)
        return cls(guarantee, distinct, counts, label, sizes_known)

    def with_parameters(self, **changes: Any) -> Demand:
        """Return the demand with some parameters of its guarantee changed.

        Parameters
        ----------
        **changes : object
            New values of parameters of the guarantee.

        Returns
        -------
        Demand
            The changed demand.
        """
        return self._replace(guarantee=replace(self.guarantee, **changes))

    def with_tasks(self, count: int, examples: int) -> Demand:
        """Return the demand with more tasks.

        Parameters
        ----------
        count : int
            Number of tasks to add.
        examples : int
            Number of examples of each of them.

        Returns
        -------
        Demand
            The changed demand.
        """
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

    def too_small(self, level: Level) -> int:
        """Return how many of the tasks used cannot certify ``epsilon`` at a level.

        Parameters
        ----------
        level : Level
            The level.

        Returns
        -------
        int
            The number of tasks.
        """
        certified = certifies(0, self.sizes, self.guarantee.miss_rate, level.alpha_within)
        return int(self.counts[self.used & ~certified].sum())

    def spare_tasks(self) -> list[int]:
        """Return for each level how many more tasks could be too small.

        Returns
        -------
        list of int
            The number of tasks; negative if the level is unusable.
        """
        if not self.tasks:
            return [-1]
        allowed = self.guarantee.allowed_low_thresholds(self.tasks)
        small = map(self.too_small, self.guarantee.levels)
        return [count - few for count, few in zip(allowed, small, strict=True)]

    def is_feasible(self) -> bool:
        """Return whether these tasks support the guarantee.

        Returns
        -------
        bool
            True if at least one level is usable.
        """
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
        return any(
            bool(certifies(self.too_small(level), self.tasks, level.alpha_across, delta))
            for level in self.guarantee.levels
        )

    @property
    def tolerance(self) -> float:
        """Tolerance of searches over parameters; coarser where several levels make them slow."""
        return 1e-15 if len(self.guarantee.levels) == 1 else 1e-5

    def affordable(self) -> Affordable:
        """Return the best guarantee that these tasks support, one parameter at a time.

        Returns
        -------
        Affordable
            The smallest feasible value of each parameter, the others held fixed.
        """
        in_expectation = self.guarantee.delta is None
        delta = None if in_expectation else self.smallest("delta", self.tolerance)
        return Affordable(self.smallest("epsilon"), self.smallest("alpha", self.tolerance), delta)

    def smallest(self, parameter: str, tolerance: float = 1e-15) -> float | None:
        """Return the smallest value of a parameter that these tasks support, the others fixed.

        Parameters
        ----------
        parameter : {"epsilon", "alpha", "delta"}
            The parameter.
        tolerance : float, default 1e-15
            Relative tolerance of the result.

        Returns
        -------
        float or None
            The value; None if none is feasible.
        """

        def works(value: float) -> bool:
            return self.with_parameters(**{parameter: value}).is_feasible()

        return min_value(works, tolerance)


def find_single_level(demands: Sequence[Demand]) -> float | None:
    """Return a numeric split with which the tasks support all guarantees, if there is one.

    Candidates are the levels that tasks of the given sizes reach without an error, lowest first.

    Parameters
    ----------
    demands : sequence of Demand
        The demands, one for each class.

    Returns
    -------
    float or None
        The level within tasks to pass as ``split``.
    """
    reached = {
        round_up(max((1 - demand.guarantee.miss_rate) ** int(size), 1e-12))
        for demand in demands
        for size in demand.sizes
    }
    candidates = sorted(level for level in reached if 0.005 <= level <= 0.5)
    for level in candidates[:: max(1, len(candidates) // MAX_TRIED)]:
        if all(demand.with_parameters(split=level).is_feasible() for demand in demands):
            return level
    return None

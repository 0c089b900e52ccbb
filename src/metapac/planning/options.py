"""Options: how each split would use given tasks, and which one to choose."""

from __future__ import annotations

from typing import NamedTuple

from metapac._types import Counts
from metapac.demands import Demand, find_single_level
from metapac.guarantee import SPLITS, Guarantee, Split
from metapac.sample_size import min_task_size, min_tasks_over_levels


class Option(NamedTuple):
    """How one split would use given tasks.

    Attributes
    ----------
    split : str or float
        The split.
    delta : float or None
        None for a guarantee in expectation.
    nth_lowest : tuple of int
        For each usable level, n such that its threshold is the n-th lowest task threshold; a higher
        n means a higher threshold and smaller sets. Empty if the split is infeasible.
    examples_per_task : int
        The examples that a task needs to count: at the least demanding of these levels or, if the
        split is infeasible, at the level that needs the fewest tasks. A smaller task is one whose
        sets may miss anything.
    """

    split: Split
    delta: float | None
    nth_lowest: tuple[int, ...]
    examples_per_task: int

    @property
    def feasible(self) -> bool:
        """Whether the tasks support the guarantee with this split."""
        return bool(self.nth_lowest)

    def __str__(self) -> str:
        return f"split={self.split!r}" + ", delta=None" * (self.delta is None)


def compare_splits(guarantee: Guarantee, sizes: Counts) -> tuple[Option, ...]:
    """Return how each split would use tasks of given sizes, feasible splits first.

    The comparison looks at sizes alone, at no score. If no split is feasible, a single level that
    works and a guarantee in expectation are added.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    sizes : ndarray of int64
        Number of examples of each task.

    Returns
    -------
    tuple of Option
        One option for each split.
    """
    demand = Demand.from_sizes(guarantee, sizes)
    splits = [*SPLITS, *([] if guarantee.split in SPLITS else [guarantee.split])]
    options = [_option(demand.with_parameters(split=split)) for split in splits]
    if not any(option.feasible for option in options):
        level = find_single_level([demand])
        options += [] if level is None else [_option(demand.with_parameters(split=level))]
        options.append(_option(demand.with_parameters(delta=None)))
    return tuple(sorted(options, key=lambda option: not option.feasible))


def _option(demand: Demand) -> Option:
    g = demand.guarantee
    usable = [level for level, spare in enumerate(demand.spare_tasks()) if spare >= 0]
    allowed = g.allowed_low_thresholds(demand.tasks) if usable else ()
    # Infeasible: the same level as in the message of the exception, so that both ask for one size.
    small = [demand.too_small(level) for level in g.levels]
    last = usable[-1] if usable else min_tasks_over_levels(g, small)[1]
    ranks = tuple(allowed[level] + 1 for level in usable)
    return Option(g.split, g.delta, ranks, min_task_size(g, g.levels[last]))

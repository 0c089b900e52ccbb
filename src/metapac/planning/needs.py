"""Needs: how many tasks, and how many examples in each, suffice at each level."""

from __future__ import annotations

from typing import NamedTuple

from metapac.guarantee import Guarantee
from metapac.ranks import Level
from metapac.sample_size import min_task_size, min_tasks


class Need(NamedTuple):
    """A number of tasks, and of examples in each, that suffices at one level.

    Attributes
    ----------
    tasks : int
        Number of tasks.
    examples_per_task : int
        Number of labelled examples in each.
    level : Level
        The level.
    """

    tasks: int
    examples_per_task: int
    level: Level

    @property
    def labels(self) -> int:
        """Number of labelled examples in all."""
        return self.tasks * self.examples_per_task

    def describe(self, classes: int = 1) -> str:
        """Return the need in words.

        Parameters
        ----------
        classes : int, default 1
            Number of classes that need as many examples each.

        Returns
        -------
        str
            Tasks, examples per task and labels in total.
        """
        of = " each" if classes == 1 else f" of each of {classes} classes"
        return (
            f"{self.tasks} tasks with at least {self.examples_per_task} labelled examples{of} "
            f"({self.labels * classes} labels in total)"
        )


def find_needs(guarantee: Guarantee) -> tuple[Need, ...]:
    """Return the needs at each level, without those that another level improves on.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.

    Returns
    -------
    tuple of Need
        The fewest tasks first; with more tasks, each may have fewer examples.
    """
    needs: list[Need] = []
    for level in range(len(guarantee.levels)):
        need = find_need(guarantee, level)
        while needs and needs[-1].tasks >= need.tasks:
            needs.pop()
        needs.append(need)
    return tuple(needs)


def find_need(guarantee: Guarantee, number: int) -> Need:
    """Return the need at one level.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    number : int
        Index of the level.

    Returns
    -------
    Need
        The fewest tasks, and the examples that each of them then needs.
    """
    level = guarantee.levels[number]
    return Need(min_tasks(guarantee, number), min_task_size(guarantee, level), level)

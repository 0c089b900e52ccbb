"""Shortfalls: what tasks lack for a guarantee, and how many more would do."""

from __future__ import annotations

from metapac.demands import Demand
from metapac.exceptions import Message, Parameter
from metapac.sample_size import min_task_size, min_tasks, min_tasks_over_levels
from metapac.shortage._words import are_tasks, count_tasks, rounded


class Shortfall:
    """What the tasks of one demand lack, at the level that needs the fewest tasks.

    Parameters
    ----------
    demand : Demand
        An infeasible demand.
    """

    def __init__(self, demand: Demand) -> None:
        g = demand.guarantee
        small = [demand.too_small(level) for level in g.levels]
        enough, level = min_tasks_over_levels(g, small)
        self.demand, self.to_add, self.small = demand, enough - demand.tasks, small[level]
        self.needed = min_tasks(g, level)
        self.examples = min_task_size(g, g.levels[level])
        self.allowed = g.allowed_low_thresholds(demand.tasks)[level] if demand.tasks else -1

    @property
    def examples_needed(self) -> str:
        """What a task needs, in words."""
        label = self.demand.label
        return f"{self.examples} examples{'' if label is None else f' of class {label!r}'}"

    def reason(self) -> Message:
        """Return what is missing; counts are of the tasks used.

        Returns
        -------
        Message
            Tasks, or examples of tasks.
        """
        demand = self.demand
        start: str | Message = ""
        if demand.label is not None:
            epsilon = rounded("epsilon", demand.guarantee.miss_rate)
            start = Message("class {!r} ({}): ", demand.label, epsilon)
        lack = self._too_few() if demand.tasks < self.needed else self._too_small()
        return Message("{}{}{}", start, lack, self._left_out())

    def _too_few(self) -> str:
        smaller = f", {self.small} of them smaller" if self.small else ""
        return (
            f"this takes {count_tasks(self.needed)} with at least {self.examples_needed} each, but "
            f"there {are_tasks(self.demand.tasks)}{smaller}"
        )

    def _too_small(self) -> str:
        demand = self.demand
        minimum = int(demand.sizes[demand.used].min())
        smallest = f" (the smallest has {minimum})" if demand.sizes_known else ""
        most = f"at most {self.allowed} may" if self.allowed >= 0 else "that is too many"
        return (
            f"{self.small} of the {count_tasks(demand.tasks)} have fewer than "
            f"{self.examples_needed}{smallest}, but {most}"
        )

    def _left_out(self) -> str | Message:
        count, minimum = self.demand.left_out, self.demand.guarantee.min_examples
        if not count:
            return ""
        return Message(" ({} more are left out by {})", count, Parameter("min_examples", minimum))

    def why_so_many(self) -> str:
        """Return why more tasks are to be added than the guarantee takes, if so.

        Returns
        -------
        str
            Words that follow the number of tasks; otherwise empty.
        """
        tasks = self.demand.tasks
        if not self.small or not tasks < self.needed < tasks + self.to_add:
            return ""
        label = self.demand.label
        few = "too small" if label is None else f"too small in class {label!r}"
        are = "is" if self.small == 1 else "are"
        return f" ({self.to_add}, because {self.small} of the present {tasks} {are} {few})"

    def remedies(self) -> list[str]:
        """Return how many tasks to add, and how many to enlarge.

        Returns
        -------
        list of str
            One remedy, or two.
        """
        added = f"add {count_tasks(self.to_add)} with at least {self.examples_needed} each"
        remedies = [f"{added}{self.why_so_many()}"]
        if self.allowed >= 0:
            count = self.small - self.allowed
            remedies.append(f"increase {count} of the small tasks to {self.examples_needed} each")
        elif self.small and self.demand.tasks < self.needed:
            more = count_tasks(self.needed - self.demand.tasks)
            remedies.append(
                f"increase the small tasks to {self.examples_needed} each and add {more}"
            )
        return remedies

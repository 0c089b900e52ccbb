"""What a guarantee needs, and which guarantees some tasks can carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks
from metapac.demands import Affordable, Counts, Demand, least_size, least_tasks, single_level
from metapac.guarantee import SPLITS, Guarantee, Split
from metapac.ranks import Level


class Curve(NamedTuple):
    """Least tasks and least examples per task along one parameter of a guarantee."""

    parameter: str
    values: NDArray[np.float64]
    tasks: NDArray[np.int64]
    examples_per_task: NDArray[np.int64]


class Need(NamedTuple):
    """A number of tasks, and of examples in each, that is enough at one level."""

    tasks: int
    examples_per_task: int
    level: Level

    @property
    def labels(self) -> int:
        """The number of labelled examples in all."""
        return self.tasks * self.examples_per_task

    def __str__(self) -> str:
        return (
            f"{self.tasks} tasks with at least {self.examples_per_task} labelled examples each "
            f"({self.labels} labels in all)"
        )


@dataclass(frozen=True)
class Plan:
    """What a guarantee needs at the least, and what it would make of some tasks.

    Attributes
    ----------
    guarantee : Guarantee
        What is to be guaranteed; with several classes, for one of them.
    tasks, examples_per_task : int
        The least number of tasks, and the examples that each of them then needs.
    needs : tuple of Need
        The same at each level: with more tasks, each may have fewer examples.
    options : tuple of Option
        What each split makes of the tasks whose sizes were given.
    recommended : Option or None
        The option to choose; None where no sizes were given.
    """

    guarantee: Guarantee
    needs: tuple[Need, ...]
    options: tuple[Option, ...] = ()

    @property
    def tasks(self) -> int:
        return self.needs[0].tasks

    @property
    def examples_per_task(self) -> int:
        return self.needs[0].examples_per_task

    @property
    def labels(self) -> int:
        """The number of labelled examples in all, with the fewest tasks."""
        return self.needs[0].labels

    @property
    def recommended(self) -> Option | None:
        return next((each for each in self.options if each.feasible), None)

    def affordable(self, tasks: int, examples_per_task: int) -> Affordable:
        """Return the best epsilon, alpha and delta, one at a time, that the given data can carry.

        Parameters
        ----------
        tasks : int
            Number of tasks.
        examples_per_task : int
            Number of labelled examples in each.

        Returns
        -------
        Affordable
            The smallest value of each parameter, the others held; None where none works.
        """
        count = _checks.whole_number("tasks", tasks)
        size = _checks.whole_number("examples_per_task", examples_per_task)
        return Demand(self.guarantee, np.array([size]), np.array([count])).affordable()

    def curve(self, parameter: str = "alpha", values: ArrayLike | None = None) -> Curve:
        """Return what is needed along one parameter of the guarantee.

        Parameters
        ----------
        parameter : {"epsilon", "alpha", "delta", "split"}, default "alpha"
            The parameter. Along "split" it is the trade-off between many small tasks and few
            large ones.
        values : array_like, optional
            Values of the parameter; by default a grid.

        Returns
        -------
        Curve
            Least tasks and least examples per task for each value.
        """
        _checks.one_of("parameter", parameter, tuple(_GRIDS))
        grid = np.array(_GRIDS[parameter] if values is None else values, dtype=float, ndmin=1)
        _checks.flat("values", grid)
        changes: list[dict[str, Any]] = [{parameter: float(value)} for value in grid]
        changed = [replace(self.guarantee, **each) for each in changes]
        needs = [_need(each, 0) for each in changed]
        return Curve(
            parameter,
            grid,
            np.array([each.tasks for each in needs]),
            np.array([each.examples_per_task for each in needs]),
        )

    def __str__(self) -> str:
        some = [self.needs[0], min(self.needs, key=lambda need: need.labels), self.needs[-1]]
        needed = ", or ".join(dict.fromkeys(map(str, some)))
        lines = [f"It takes at least {needed} to guarantee: {self.guarantee}"]
        if self.recommended is not None:
            lines.append(f"Use {self.recommended}.")
        return " ".join(lines)


_GRIDS = {
    "epsilon": np.geomspace(0.01, 0.5, 60),
    "alpha": np.geomspace(0.01, 0.5, 60),
    "delta": np.geomspace(1e-12, 0.5, 60),
    "split": np.linspace(0.01, 0.5, 50),
}


class Option(NamedTuple):
    """What one split makes of some tasks.

    Attributes
    ----------
    split : str or float
    delta : float or None
        None where it carries a guarantee in expectation only.
    ranks : tuple of int
        At each level that can be used, which of the sorted task thresholds is returned; a higher
        rank means a higher threshold and smaller sets. Empty where the split is infeasible.
    examples_per_task : int
        The examples that a task needs at the least demanding of these levels.
    """

    split: Split
    delta: float | None
    ranks: tuple[int, ...]
    examples_per_task: int

    @property
    def feasible(self) -> bool:
        return bool(self.ranks)

    def __str__(self) -> str:
        return f"split={self.split!r}" + ", delta=None" * (self.delta is None)


class Offer(NamedTuple):
    """The smallest epsilon that some tasks can carry at an alpha and a delta; None if none."""

    alpha: float
    delta: float | None
    epsilon: float | None


OFFERED_ALPHAS = (0.05, 0.1, 0.2, 0.3)
OFFERED_DELTAS = (0.05, None)


@overload
def plan(
    *,
    epsilon: float,
    alpha: float,
    delta: float | None,
    split: Split = "joint",
    classes: int = 1,
    sizes: ArrayLike | None = None,
) -> Plan: ...
@overload
def plan(*, split: Split = "joint", classes: int = 1, sizes: ArrayLike) -> list[Offer]: ...
@_checks.own_words
def plan(
    *,
    epsilon: float | None = None,
    alpha: float | None = None,
    delta: float | EllipsisType | None = ...,
    split: Split = "joint",
    classes: int = 1,
    sizes: ArrayLike | None = None,
) -> Plan | list[Offer]:
    """Return what a guarantee needs, and what it would make of tasks of your own.

    Parameters
    ----------
    epsilon : float, optional
        Miss rate allowed on a task.
    alpha : float, optional
        Fraction of new tasks that may miss more often.
    delta : float or None, optional
        Failure probability of the guarantee; None for a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps.
    classes : int, default 1
        Number of classes with a guarantee each, as with ``per_class``; examples are then those of
        one class.
    sizes : array_like of int, optional
        Number of labelled examples of each task that you have.

    Returns
    -------
    Plan or list of Offer
        The plan; with ``sizes`` it has a rank for each split and a recommendation. Where epsilon,
        alpha and delta are left out, the smallest epsilon that tasks of these ``sizes`` can carry,
        for some alphas, at ``delta=0.05`` and in expectation.

    Examples
    --------
    >>> from metapac import plan
    >>> need = plan(epsilon=0.1, alpha=0.1, delta=1e-5)
    >>> need.tasks, need.examples_per_task
    (111, 44)
    >>> plan(epsilon=0.1, alpha=0.1, delta=0.05, sizes=[200] * 60).recommended.ranks[0]
    2
    """
    have = None if sizes is None else _checks.whole_numbers("sizes", sizes, least=0).ravel()
    if epsilon is None and alpha is None and delta is ... and have is not None:
        return offers(have, split=split, classes=classes)
    missing = [name for name, x in (("epsilon", epsilon), ("alpha", alpha)) if x is None]
    missing += ["delta"] * (delta is ...)
    if missing:
        raise TypeError(
            f"plan needs {' and '.join(missing)} too. Pass epsilon, alpha and delta; or only "
            "sizes, to see what tasks of these sizes can carry."
        )
    whole = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split)  # type: ignore[arg-type]
    guarantee = whole.of_class(None, range(_checks.whole_number("classes", classes)))
    return Plan(guarantee, _needs(guarantee), () if have is None else options(guarantee, have))


def _needs(guarantee: Guarantee) -> tuple[Need, ...]:
    """Return the needs at each level, less those that another level undercuts."""
    found: list[Need] = []
    for level in range(len(guarantee.levels)):
        need = _need(guarantee, level)
        while found and found[-1].tasks >= need.tasks:
            found.pop()
        found.append(need)
    return tuple(found)


def _need(guarantee: Guarantee, number: int) -> Need:
    level = guarantee.levels[number]
    examples = least_size(guarantee.miss_rate, level.alpha_within)
    return Need(least_tasks(guarantee, number), max(examples, guarantee.min_examples), level)


def options(guarantee: Guarantee, sizes: Counts) -> tuple[Option, ...]:
    """Return what each split makes of tasks of these sizes, the best first.

    The splits are compared by sizes alone: no score is looked at. Where none is feasible, a
    guarantee in expectation is the last.
    """
    demand = Demand.of_sizes(guarantee, sizes)
    splits = [*SPLITS, *([] if guarantee.split in SPLITS else [guarantee.split])]
    found = [_option(demand.with_(split=split)) for split in splits]
    if not any(each.feasible for each in found):
        number = single_level([demand])
        found += [] if number is None else [_option(demand.with_(split=number))]
        found.append(_option(demand.with_(delta=None)))
    return tuple(sorted(found, key=lambda each: not each.feasible))


def _option(demand: Demand) -> Option:
    g = demand.guarantee
    usable = [i for i, spare in enumerate(demand.spare()) if spare >= 0]
    ranks = g.ranks(demand.tasks) if usable else ()
    last = usable[-1] if usable else len(g.levels) - 1
    need = least_size(g.miss_rate, g.levels[last].alpha_within)
    return Option(g.split, g.delta, tuple(ranks[i] + 1 for i in usable), need)


def offers(sizes: Counts, *, split: Split = "joint", classes: int = 1) -> list[Offer]:
    """Return the smallest epsilon of tasks of these sizes, by alpha and delta."""
    each = range(_checks.whole_number("classes", classes))
    found = []
    for alpha in OFFERED_ALPHAS:
        for delta in OFFERED_DELTAS:
            whole = Guarantee(epsilon=0.5, alpha=alpha, delta=delta, split=split)
            g = whole.of_class(None, each)
            found.append(Offer(alpha, delta, Demand.of_sizes(g, sizes).affordable_epsilon()))
    return found

"""Planning: what a guarantee needs, and which guarantees given tasks can carry."""

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
    """Minimum tasks and examples per task as a function of one parameter of a guarantee."""

    parameter: str
    values: NDArray[np.float64]
    tasks: NDArray[np.int64]
    examples_per_task: NDArray[np.int64]


class Need(NamedTuple):
    """A number of tasks, and of examples in each, that suffices at one level."""

    tasks: int
    examples_per_task: int
    level: Level

    @property
    def labels(self) -> int:
        """The number of labelled examples in all."""
        return self.tasks * self.examples_per_task

    def words(self, classes: int = 1) -> str:
        """Return the need in words, of the examples of each of so many classes."""
        of = "" if classes == 1 else f" of each of {classes} classes"
        return (
            f"{self.tasks} tasks with at least {self.examples_per_task} labelled examples{of} each "
            f"({self.labels * classes} labels in total)"
        )


@dataclass(frozen=True)
class Plan:
    """The minimum that a guarantee needs, and how each split would use given tasks.

    Attributes
    ----------
    guarantee : Guarantee
        The guarantee that is planned; with several classes, the part for one of them.
    tasks, examples_per_task : int
        The minimum number of tasks, and of examples that each of them then needs.
    needs : tuple of Need
        The same at each level: with more tasks, each may have fewer examples.
    options : tuple of Option
        The ranks that each split would use on tasks of the given sizes.
    asked : Guarantee
        The guarantee for all classes together.
    classes : int
        Number of classes with a guarantee each; examples are those of one class.
    recommended : Option or None
        The option to choose; None if no sizes were given or no option is feasible. Its ``delta``
        is None where only a weaker guarantee, in expectation, is feasible.
    """

    guarantee: Guarantee
    needs: tuple[Need, ...]
    options: tuple[Option, ...]
    asked: Guarantee
    classes: int

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
            The smallest value of each parameter, the others held fixed; None if no value works.
        """
        count = _checks.whole_number("tasks", tasks)
        size = _checks.whole_number("examples_per_task", examples_per_task)
        return Demand(self.guarantee, np.array([size]), np.array([count])).affordable()

    def curve(self, parameter: str = "alpha", values: ArrayLike | None = None) -> Curve:
        """Return what is needed as a function of one parameter of the guarantee.

        Parameters
        ----------
        parameter : {"epsilon", "alpha", "delta", "split"}, default "alpha"
            The parameter. For "split", the curve is the trade-off between many small tasks and few
            large ones.
        values : array_like, optional
            Values of the parameter; by default a grid.

        Returns
        -------
        Curve
            Minimum tasks and examples per task for each value.
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
        needed = ", or ".join(dict.fromkeys(each.words(self.classes) for each in some))
        lines = [f"Needed: {needed}. Guarantee: {self.asked}"]
        if self.recommended is not None:
            lines.append(f"Recommended for your tasks: {self.recommended}")
            if self.recommended.delta is None and self.guarantee.delta is not None:
                lines[-1] += ", a weaker guarantee, on average over calibrations"
            lines[-1] += "."
        return " ".join(lines)


_GRIDS = {
    "epsilon": np.geomspace(0.01, 0.5, 60),
    "alpha": np.geomspace(0.01, 0.5, 60),
    "delta": np.geomspace(1e-12, 0.5, 60),
    "split": np.linspace(0.01, 0.5, 50),
}


class Option(NamedTuple):
    """The ranks that one split would use on given tasks.

    Attributes
    ----------
    split : str or float
    delta : float or None
        None for a guarantee in expectation.
    ranks : tuple of int
        For each usable level, which of the sorted task thresholds is returned; a higher rank means
        a higher threshold and smaller sets. Empty if the split is infeasible.
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
    """The smallest epsilon that given tasks can carry at an alpha and a delta, or None."""

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
    """Return what a guarantee needs, and how each split would use your own tasks.

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
        Number of classes, each with its own guarantee, as with ``per_class``; examples are then
        those of one class.
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
            f"plan is missing {' and '.join(missing)}. Pass epsilon, alpha and delta; or only "
            "sizes, to see what tasks of these sizes can carry."
        )
    count = _checks.whole_number("classes", classes)
    asked = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split, per_class=count > 1)  # type: ignore[arg-type]
    part = asked.of_class(None, range(count))
    return Plan(part, _needs(part), () if have is None else options(part, have), asked, count)


def _needs(guarantee: Guarantee) -> tuple[Need, ...]:
    """Return the needs at each level, without those that another level improves on."""
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
    """Return the ranks of each split on tasks of these sizes, feasible splits first.

    The splits are compared by sizes alone, without looking at any score. If none is feasible, a
    single level that works and a guarantee in expectation are added.
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
    """Return the smallest epsilon that tasks of these sizes can carry, by alpha and delta."""
    each = range(_checks.whole_number("classes", classes))
    found = []
    for alpha in OFFERED_ALPHAS:
        for delta in OFFERED_DELTAS:
            whole = Guarantee(epsilon=0.5, alpha=alpha, delta=delta, split=split)
            g = whole.of_class(None, each)
            found.append(Offer(alpha, delta, Demand.of_sizes(g, sizes).affordable_epsilon()))
    return found

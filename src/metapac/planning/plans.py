"""Plans: what a guarantee needs, and how given tasks would support it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, _scores
from metapac.demands import Affordable, Demand
from metapac.guarantee import Guarantee, Split
from metapac.meaning.checks import check_levels
from metapac.planning.needs import Need, find_need, find_needs
from metapac.planning.offers import Offer, find_offers
from metapac.planning.options import Option, compare_splits
from metapac.sample_size import min_task_size


class Curve(NamedTuple):
    """Minimum tasks and examples per task as a function of one parameter of a guarantee.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    values : ndarray of float64
        Values of the parameter.
    tasks : ndarray of int64
        Minimum number of tasks for each value.
    examples_per_task : ndarray of int64
        Number of examples that each of them then needs.
    """

    parameter: str
    values: NDArray[np.float64]
    tasks: NDArray[np.int64]
    examples_per_task: NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """The minimum that a guarantee needs, and how each split would use given tasks.

    Attributes
    ----------
    guarantee : Guarantee
        The guarantee to plan for; with several classes, the part for one of them.
    tasks : int
        Minimum number of tasks.
    examples_per_task : int
        Number of examples that each of them then needs.
    needs : tuple of Need
        The same at each level: with more tasks, each may have fewer examples.
    options : tuple of Option
        How each split would use tasks of the given sizes.
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
        """Minimum number of tasks."""
        return self.needs[0].tasks

    @property
    def examples_per_task(self) -> int:
        """Number of examples that each task needs if there are no more than ``tasks``."""
        return self.needs[0].examples_per_task

    @property
    def labels(self) -> int:
        """Number of labelled examples in all, of all classes, with the fewest tasks."""
        return self.needs[0].labels * self.classes

    @property
    def recommended(self) -> Option | None:
        """The option to choose; None if no sizes were given or no option is feasible."""
        return next((option for option in self.options if option.feasible), None)

    def affordable(self, tasks: int, examples_per_task: int) -> Affordable:
        """Return the best epsilon, alpha and delta, one at a time, that the given data support.

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
        count = _checks.as_whole_number("tasks", tasks)
        size = _checks.as_whole_number("examples_per_task", examples_per_task)
        return Demand(self.guarantee, np.array([size]), np.array([count])).affordable()

    def examples_for(self, tasks: int) -> int | None:
        """Return how many labelled examples each task needs, if there are this many tasks.

        Parameters
        ----------
        tasks : int
            Number of tasks, all of one size.

        Returns
        -------
        int or None
            The smallest size; None if there are too few tasks, whatever their size.
        """
        count = np.array([_checks.as_whole_number("tasks", tasks)])
        g = self.guarantee
        sizes = sorted({min_task_size(g, level) for level in g.levels})
        fit = (size for size in sizes if Demand(g, np.array([size]), count).is_feasible())
        return next(fit, None)

    def tasks_for(self, examples_per_task: int) -> int | None:
        """Return how many tasks are needed, if each has this many labelled examples.

        Parameters
        ----------
        examples_per_task : int
            Number of labelled examples in each task.

        Returns
        -------
        int or None
            The smallest number of tasks; None if the tasks are too small, however many they are.
        """
        size = _checks.as_whole_number("examples_per_task", examples_per_task)
        enough = (need.tasks for need in self.needs if need.examples_per_task <= size)
        return next(enough, None)

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
        _checks.check_one_of("parameter", parameter, tuple(_GRIDS))
        grid = np.array(_GRIDS[parameter] if values is None else values, dtype=float, ndmin=1)
        _scores.check_one_dimensional("values", grid)
        changes: list[dict[str, Any]] = [{parameter: float(value)} for value in grid]
        needs = [find_need(replace(self.guarantee, **change), 0) for change in changes]
        return Curve(
            parameter,
            grid,
            np.array([need.tasks for need in needs]),
            np.array([need.examples_per_task for need in needs]),
        )

    def __str__(self) -> str:
        some = [self.needs[0], min(self.needs, key=lambda need: need.labels), self.needs[-1]]
        needed = ", or ".join(dict.fromkeys(need.describe(self.classes) for need in some))
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


@overload
def plan(
    *,
    epsilon: float,
    alpha: float,
    delta: float | None,
    split: Split = "joint",
    classes: int = 1,
    sizes: ArrayLike | None = None,
    allow: Iterable[str] = (),
) -> Plan: ...
@overload
def plan(*, split: Split = "joint", classes: int = 1, sizes: ArrayLike) -> list[Offer]: ...
@_checks.reject_foreign_keywords
def plan(
    *,
    epsilon: float | None = None,
    alpha: float | None = None,
    delta: float | EllipsisType | None = ...,
    split: Split = "joint",
    classes: int = 1,
    sizes: ArrayLike | None = None,
    allow: Iterable[str] = (),
) -> Plan | list[Offer]:
    """Return what a guarantee needs, and how each split would use your tasks.

    Parameters
    ----------
    epsilon : float, optional
        Miss rate allowed on a task.
    alpha : float, optional
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None, optional
        Failure probability of the guarantee; None for a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps.
    classes : int, default 1
        Number of classes, if you will use ``per_class``. All numbers of examples, given and
        returned, are then per class.
    sizes : array_like of int, optional
        Number of labelled examples of each task that you have.
    allow : iterable of str, default ()
        Checks to skip, as their messages name them: "levels", if you do mean an epsilon or delta
        above 1/2, or an alpha above 3/4.

    Returns
    -------
    Plan or list of Offer
        The plan; with ``sizes`` it compares the splits and recommends one. Where epsilon, alpha and
        delta are left out, the smallest epsilon that tasks of these ``sizes`` support, for some
        alphas, at ``delta=0.05`` and in expectation.

    Raises
    ------
    TypeError
        If only some of epsilon, alpha and delta are given, or neither they nor ``sizes``.
    InvalidInput
        If a parameter is out of its range, or looks like a confidence.

    Examples
    --------
    >>> from metapac import plan
    >>> need = plan(epsilon=0.1, alpha=0.1, delta=1e-5)
    >>> need.tasks, need.examples_per_task
    (111, 44)
    >>> plan(epsilon=0.1, alpha=0.1, delta=0.05, sizes=[200] * 60).recommended.nth_lowest[0]
    2
    """
    task_sizes = (
        None if sizes is None else _checks.as_whole_numbers("sizes", sizes, minimum=0).ravel()
    )
    if epsilon is None and alpha is None and delta is ... and task_sizes is not None:
        return find_offers(task_sizes, split=split, classes=classes)
    missing = [name for name, x in (("epsilon", epsilon), ("alpha", alpha)) if x is None]
    missing += ["delta"] * (delta is ...)
    if missing:
        raise TypeError(
            f"plan is missing {' and '.join(missing)}. Pass epsilon, alpha and delta; or only "
            "sizes, to see which guarantees tasks of these sizes support."
        )
    count = _checks.as_whole_number("classes", classes)
    asked = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split, per_class=count > 1)  # type: ignore[arg-type]
    check_levels(asked.epsilon, asked.alpha, asked.delta, allow=allow)
    part = asked.for_class(None, range(count))
    return Plan(
        part,
        find_needs(part),
        () if task_sizes is None else compare_splits(part, task_sizes),
        asked,
        count,
    )

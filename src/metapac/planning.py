"""Planning: what a guarantee needs, what given tasks support, and remedies for too few."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac._common import (
    Counts,
    as_whole_number,
    as_whole_numbers,
    check_one_of,
    reject_foreign_keywords,
)
from metapac.binomial import certifies, min_value, round_up
from metapac.data_checks import check_levels
from metapac.errors import keyword
from metapac.evidence import Clusters
from metapac.guarantee import SPLITS, Guarantee, Split
from metapac.inputs import check_one_dimensional
from metapac.ranks import Level
from metapac.sample_size import (
    MAX_TRIED,
    Affordable,
    Demand,
    all_feasible,
    find_single_level,
    min_sample_size,
    min_task_size,
    min_tasks,
    min_tasks_over_levels,
    smallest,
)

SHOWN_CLASSES = 3
WEAKEST = 0.5  # guarantees with larger parameters are not worth suggesting


def count_tasks(number: int) -> str:
    """Return a number of tasks in words."""
    return f"{number} task{'s' if number != 1 else ''}"


def there_are(tasks: int) -> str:
    """Return how many tasks there are, as part of a sentence."""
    return f"there {'is' if tasks == 1 else 'are'} {count_tasks(tasks)}"


def _show(name: str, value: float | None) -> str:
    """Return a parameter as one passes it, without the errors of arithmetic."""
    return keyword(name, None if value is None else float(f"{value:g}"))


class Shortfall:
    """What the tasks of one demand lack, at the level that needs the fewest tasks."""

    def __init__(self, demand: Demand) -> None:
        g, small = demand.guarantee, demand.too_small()
        enough, level = min_tasks_over_levels(g, small)
        self.demand, self.to_add, self.small = demand, enough - demand.tasks, small[level]
        self.needed = min_tasks(g, level)  # if none of them were too small
        self.examples = min_task_size(g, g.levels[level])
        of_class = "" if demand.label is None else f" of class {demand.label!r}"
        self.size = f"{self.examples} examples{of_class}"
        self.allowed = g.allowed_low_thresholds(demand.tasks)[level] if demand.tasks else -1

    def __str__(self) -> str:
        """What is missing; counts are of the tasks used."""
        demand, tasks = self.demand, self.demand.tasks
        lack = f"this takes {count_tasks(self.needed)} with at least {self.size} each"
        lack += f", but {there_are(tasks)}"
        if self.small:
            small = f"{self.small} of the {count_tasks(tasks)} have fewer than {self.size}"
            lack = f"{small}, so this takes {tasks + self.to_add} tasks instead of {self.needed}"
        if demand.left_out:
            least = keyword("min_examples", demand.guarantee.min_examples)
            lack += f" ({demand.left_out} more are left out by {least})"
        epsilon = _show("epsilon", demand.guarantee.miss_rate)
        return lack if demand.label is None else f"class {demand.label!r} ({epsilon}): {lack}"


def find_remedies(demands: Sequence[Demand], lacking: Sequence[Shortfall]) -> list[str]:
    """Return what works: first without new data, then with more data, then weaker guarantees."""
    remedies = []
    others = [split for split in SPLITS if split != demands[0].guarantee.split]
    split: Split | None = next((x for x in others if all_feasible(demands, split=x)), None)
    if (split := find_single_level(demands) if split is None else split) is not None:
        remedies.append(f"use {keyword('split', split)}, which gives the same guarantee")
    if (least := find_min_examples(demands)) is not None:
        kept = min(one.with_parameters(min_examples=least).tasks for one in demands)
        covered = f"keeps {count_tasks(kept)} and covers only new tasks of at least that size"
        remedies.append(f"use {keyword('min_examples', least)}, which {covered}")
    if all_feasible(demands, delta=None) and demands[0].guarantee.delta is not None:
        remedies.append("use delta=None, a weaker guarantee, on average over calibrations")
    return [*remedies, *_more_data(demands, lacking), *_weaker_guarantees(demands)]


def find_min_examples(demands: Sequence[Demand]) -> int | None:
    """Return a ``min_examples`` with which tasks support a guarantee, or one for each class."""
    now = demands[0].guarantee.min_examples
    sizes = sorted({0, *(int(size) + 1 for demand in demands for size in demand.sizes)})
    some = sizes[:: max(1, len(sizes) // MAX_TRIED)]
    candidates = [x for x in some if x > now] + [x for x in reversed(some) if x < now]
    return next((size for size in candidates if all_feasible(demands, min_examples=size)), None)


def _more_data(demands: Sequence[Demand], lacking: Sequence[Shortfall]) -> list[str]:
    """Return how many tasks to add, with the fewest examples in each, and how many to enlarge."""
    remedies = []
    most = max(one.to_add for one in lacking)
    guarantees = [demand.guarantee for demand in demands]
    sizes = sorted({min_task_size(g, level) for g in guarantees for level in g.levels})
    for count, size in itertools.product(range(most, most + MAX_TRIED), sizes):
        if all(demand.with_tasks(count, size).is_feasible() for demand in demands):
            each = "each" if demands[0].label is None else "of each class"
            remedies.append(f"add {count_tasks(count)} with at least {size} examples {each}")
            break
    if len(lacking) == 1 and (one := lacking[0]).allowed >= 0:
        few = one.small - one.allowed
        remedies.append(f"increase {few} of the small tasks to {one.size} each")
    return remedies


def _weaker_guarantees(demands: Sequence[Demand]) -> list[str]:
    """Return the weaker guarantees that these tasks support, one parameter at a time."""
    one_rate = len({demand.guarantee.miss_rate for demand in demands}) == 1
    names = ["epsilon"] * one_rate + ["alpha"]
    names += ["delta"] * (demands[0].guarantee.delta is not None)
    values = {name: _smallest_shown(demands, name) for name in names}
    return [
        f"settle for {keyword(name, value)}" for name, value in values.items() if value is not None
    ]


def _smallest_shown(demands: Sequence[Demand], name: str) -> float | None:
    """Return the smallest value that these tasks support, rounded as it is shown.

    With several levels a larger value may be infeasible where a smaller one is feasible: the count
    allowed at one level may fall while those of others rise.
    """
    value = smallest(demands, name, fast=True)
    shown = WEAKEST + 1 if value is None else round_up(value)
    while shown <= WEAKEST and not all_feasible(demands, **{name: shown}):
        shown = round_up(shown * 1.001)
    return shown if shown <= WEAKEST else None


def explain_too_few_tasks(
    demands: Sequence[Demand], *, trivial: bool = True, is_interval: bool = False
) -> str:
    """Return why tasks do not support a guarantee, or one for each class, and what would help."""
    g = demands[0].guarantee
    lacking = [Shortfall(demand) for demand in demands if not demand.is_feasible()]
    delta = None if g.delta is None else g.delta * len(demands)
    asked = f"{_show('alpha', g.alpha)}, {_show('delta', delta)}"
    which = f" for {len(lacking)} of {len(demands)} classes"
    if demands[0].label is None:
        asked, which = f"{_show('epsilon', g.miss_rate)}, {asked}", ""
    reasons = "; ".join(map(str, lacking[:SHOWN_CLASSES]))
    if len(lacking) > SHOWN_CLASSES:
        reasons += f"; and {len(lacking) - SHOWN_CLASSES} more"
    options = _options(find_remedies(demands, lacking), trivial, is_interval)
    split = keyword("split", g.split)
    return f"{asked} cannot be guaranteed with {split}{which}: {reasons}. {options}"


def add_clusters(message: str, clusters: Clusters) -> str:
    """Return a message on too few tasks that says what a task stands for."""
    return (
        f"{message} Each task counted here stands for one of {len(clusters.names)} clusters, which "
        f"hold {count_tasks(clusters.tasks)} in all: to add a task, add a cluster."
    )


def explain_too_few_examples(epsilon: float, delta: float, n: int) -> str:
    """Return what an infeasible ``PS`` lacks, and which guarantees its examples support."""
    need = min_sample_size(epsilon, delta)
    lack = f": this takes {need} examples, but there are {n}"
    add = f"add {need - n} example{'s' if need - n != 1 else ''}"
    return explain_too_few(epsilon, delta, lambda e, d: bool(certifies(0, n, e, d)), lack, add)


def explain_too_few(
    epsilon: float, delta: float, works: Callable[[float, float], bool], lack: str, add: str
) -> str:
    """Return what the data lack, what to add, and the guarantees that they support."""
    best = {
        "epsilon": min_value(lambda value: works(value, delta)),
        "delta": min_value(lambda value: works(epsilon, value)),
    }
    shown = {name: round_up(value) for name, value in best.items() if value}
    weaker = [f"settle for {keyword(*level)}" for level in shown.items() if level[1] <= WEAKEST]
    asked = f"{_show('epsilon', epsilon)}, {_show('delta', delta)}"
    return f"{asked} cannot be guaranteed{lack}. {_options([add, *weaker])}"


def _options(remedies: Sequence[str], trivial: bool = True, is_interval: bool = False) -> str:
    """Return remedies as the end of a message."""
    result = "for intervals of infinite width" if is_interval else "to keep every label"
    options = [*remedies, *[f"pass on_infeasible='trivial' {result}"] * trivial]
    return f"Options: {'; or '.join(options)}." if options else "Nothing that was tried works."


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
        """Return the need in words."""
        of = " each" if classes == 1 else f" of each of {classes} classes"
        return (
            f"{self.tasks} tasks with at least {self.examples_per_task} labelled examples{of} "
            f"({self.labels * classes} labels in total)"
        )


def find_needs(guarantee: Guarantee) -> tuple[Need, ...]:
    """Return the needs at each level, without those that another level improves on."""
    needs: list[Need] = []
    for level in range(len(guarantee.levels)):
        need = find_need(guarantee, level)
        while needs and needs[-1].tasks >= need.tasks:
            needs.pop()
        needs.append(need)
    return tuple(needs)


def find_need(guarantee: Guarantee, number: int) -> Need:
    """Return the need at one level."""
    level = guarantee.levels[number]
    return Need(min_tasks(guarantee, number), min_task_size(guarantee, level), level)


OFFERED_ALPHAS = (0.05, 0.1, 0.2, 0.3)
OFFERED_DELTAS = (0.05, None)


class Offer(NamedTuple):
    """The smallest epsilon that given tasks support at an alpha and a delta.

    Attributes
    ----------
    alpha : float
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee; None for a guarantee in expectation.
    epsilon : float or None
        The miss rate; None if none is feasible.
    """

    alpha: float
    delta: float | None
    epsilon: float | None


def find_offers(sizes: Counts, *, split: Split = "joint", classes: int = 1) -> list[Offer]:
    """Return the smallest epsilon that tasks of given sizes support, by alpha and delta."""
    labels = range(as_whole_number("classes", classes))
    offers = []
    for alpha in OFFERED_ALPHAS:
        for delta in OFFERED_DELTAS:
            whole = Guarantee(epsilon=0.5, alpha=alpha, delta=delta, split=split)
            demand = Demand.from_sizes(whole.for_class(None, labels), sizes)
            offers.append(Offer(alpha, delta, smallest([demand], "epsilon")))
    return offers


class Option(NamedTuple):
    """How one split would use given tasks."""

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
    last = usable[-1] if usable else min_tasks_over_levels(g, demand.too_small())[1]
    ranks = tuple(allowed[level] + 1 for level in usable)
    return Option(g.split, g.delta, ranks, min_task_size(g, g.levels[last]))


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

    Examples
    --------
    >>> from metapac import plan
    >>> found = plan(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> found.tasks, found.examples_per_task
    (29, 44)
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
        count = as_whole_number("tasks", tasks)
        size = as_whole_number("examples_per_task", examples_per_task)
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
        count = np.array([as_whole_number("tasks", tasks)])
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
        size = as_whole_number("examples_per_task", examples_per_task)
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
        check_one_of("parameter", parameter, tuple(_GRIDS))
        grid = np.array(_GRIDS[parameter] if values is None else values, dtype=float, ndmin=1)
        check_one_dimensional("values", grid)
        changed = [replace(self.guarantee, **{parameter: float(value)}) for value in grid]  # type: ignore[arg-type]
        needs = np.array([find_need(guarantee, 0)[:2] for guarantee in changed])
        return Curve(parameter, grid, needs[:, 0], needs[:, 1])

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
@reject_foreign_keywords
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
    task_sizes = None if sizes is None else as_whole_numbers("sizes", sizes, minimum=0).ravel()
    given = {"epsilon": epsilon is not None, "alpha": alpha is not None, "delta": delta is not ...}
    if task_sizes is not None and not any(given.values()):
        return find_offers(task_sizes, split=split, classes=classes)
    if missing := [name for name, is_given in given.items() if not is_given]:
        raise TypeError(f"plan is missing {' and '.join(missing)}. Pass all levels, or only sizes.")
    count = as_whole_number("classes", classes)
    asked = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split, per_class=count > 1)  # type: ignore[arg-type]
    check_levels(asked.epsilon, asked.alpha, asked.delta, allow=allow)
    part = asked.for_class(None, range(count))
    options = () if task_sizes is None else compare_splits(part, task_sizes)
    return Plan(part, find_needs(part), options, asked, count)

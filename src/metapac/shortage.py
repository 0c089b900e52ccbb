"""Messages on infeasible guarantees: what is missing, and every remedy that works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from metapac._checks import LARGEST_COUNT, listed
from metapac.binomial import certifies
from metapac.clusters import Clusters
from metapac.demands import (
    MAX_TRIED,
    Demand,
    find_single_level,
    min_integer,
    min_sample_size,
    min_tasks,
    min_tasks_over_levels,
    min_value,
    round_up,
    sample_size_overflow,
)
from metapac.exceptions import Message, Parameter
from metapac.guarantee import SPLITS, Split
from metapac.ranks import equal_share

_SHOWN = 3  # classes
_WEAKEST = 0.5  # guarantees with larger parameters are not worth suggesting


def explain_too_few_tasks(
    demands: Sequence[Demand], *, trivial: bool = True, is_interval: bool = False
) -> Message:
    """Return why tasks do not support a guarantee, or one for each class, and what would help.

    Parameters
    ----------
    demands : sequence of Demand
        One demand, or one for each class, at least one of them infeasible.
    trivial : bool, default True
        Whether keeping every label is one of the options.
    is_interval : bool, default False
        Whether sets are intervals, so that there are numbers instead of labels.

    Returns
    -------
    Message
        What is missing, followed by the remedies that work.
    """
    infeasible = [demand for demand in demands if not demand.is_feasible()]
    first, g = infeasible[0], demands[0].guarantee
    delta = None if g.delta is None else float(f"{g.delta * len(demands):g}")
    asked, split = (
        [_rounded("alpha", g.alpha), Parameter("delta", delta)],
        Parameter("split", g.split),
    )
    if first.label is None:
        asked.insert(0, _rounded("epsilon", first.guarantee.miss_rate))
        reason = Message(": {}", _Shortfall(first).reason())
    else:
        count = len(infeasible)
        reasons = Message.join("; ", [_Shortfall(one).reason() for one in infeasible[:_SHOWN]])
        more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
        reason = Message(" for {} of {} classes: {}{}", count, len(demands), reasons, more)
    what = Message("{} cannot be guaranteed with {}", Message.join(", ", asked), split)
    options = _options(_remedies(demands, infeasible), trivial, is_interval)
    return Message("{}{}. {}", what, reason, options)


def add_clusters(message: Message, clusters: Clusters) -> Message:
    """Return a message on too few tasks that says what a task stands for.

    Parameters
    ----------
    message : Message
        What `explain_too_few_tasks` returned.
    clusters : Clusters
        The clusters that the tasks were drawn from.

    Returns
    -------
    Message
        The message.
    """
    return Message(
        "{} Each task counted here stands for one of {} clusters, which hold {} in all: to add a "
        "task, add a cluster.",
        message,
        len(clusters.names),
        _tasks(clusters.tasks),
    )


def _rounded(name: str, value: float) -> Parameter:
    return Parameter(name, float(f"{value:g}"))


class _Shortfall:
    """What the tasks of one demand lack, at the level that needs the fewest tasks."""

    def __init__(self, demand: Demand) -> None:
        g = demand.guarantee
        small = [demand.too_small(level) for level in g.levels]
        enough, level = min_tasks_over_levels(g, small)
        self.demand, self.to_add, self.small = demand, enough - demand.tasks, small[level]
        self.needed = min_tasks(g, level)
        certified = min_sample_size(g.miss_rate, g.levels[level].alpha_within)
        self.examples = max(certified, g.min_examples)
        self.allowed = g.allowed_low_thresholds(demand.tasks)[level] if demand.tasks else -1

    @property
    def examples_needed(self) -> str:
        """What a task needs, in words."""
        label = self.demand.label
        return f"{self.examples} examples{'' if label is None else f' of class {label!r}'}"

    def reason(self) -> Message:
        """Return what is missing; counts are of the tasks used."""
        demand = self.demand
        start: str | Message = ""
        if demand.label is not None:
            epsilon = _rounded("epsilon", demand.guarantee.miss_rate)
            start = Message("class {!r} ({}): ", demand.label, epsilon)
        lack = self._too_few() if demand.tasks < self.needed else self._too_small()
        return Message("{}{}{}", start, lack, self._left_out())

    def _too_few(self) -> str:
        smaller = f", {self.small} of them smaller" if self.small else ""
        return (
            f"this takes {_tasks(self.needed)} with at least {self.examples_needed} each, but "
            f"there {_are_tasks(self.demand.tasks)}{smaller}"
        )

    def _too_small(self) -> str:
        demand = self.demand
        minimum = int(demand.sizes[demand.used].min())
        smallest = f" (the smallest has {minimum})" if demand.sizes_known else ""
        most = f"at most {self.allowed} may" if self.allowed >= 0 else "that is too many"
        return (
            f"{self.small} of the {_tasks(demand.tasks)} have fewer than {self.examples_needed}"
            f"{smallest}, but {most}"
        )

    def _left_out(self) -> str | Message:
        count, minimum = self.demand.left_out, self.demand.guarantee.min_examples
        if not count:
            return ""
        return Message(" ({} more are left out by {})", count, Parameter("min_examples", minimum))

    def why_so_many(self) -> str:
        """Return why more tasks are to be added than the guarantee takes, if so."""
        tasks = self.demand.tasks
        if not self.small or not tasks < self.needed < tasks + self.to_add:
            return ""
        label = self.demand.label
        few = "too small" if label is None else f"too small in class {label!r}"
        are = "is" if self.small == 1 else "are"
        return f" ({self.to_add}, because {self.small} of the present {tasks} {are} {few})"

    def remedies(self) -> list[str]:
        """Return how many tasks to add, and how many to enlarge."""
        added = f"add {_tasks(self.to_add)} with at least {self.examples_needed} each"
        remedies = [f"{added}{self.why_so_many()}"]
        if self.allowed >= 0:
            count = self.small - self.allowed
            remedies.append(f"increase {count} of the small tasks to {self.examples_needed} each")
        elif self.small and self.demand.tasks < self.needed:
            more = _tasks(self.needed - self.demand.tasks)
            remedies.append(
                f"increase the small tasks to {self.examples_needed} each and add {more}"
            )
        return remedies


def _remedies(demands: Sequence[Demand], infeasible: Sequence[Demand]) -> list[str | Message]:
    """Return what works: first without new data, then with more data, then weaker guarantees."""
    return [
        *_other_split(demands),
        *_only_larger_tasks(demands),
        *_in_expectation(demands),
        *_fewer_classes(demands, infeasible),
        *_more_data(demands, infeasible),
        *_weaker_guarantees(demands),
    ]


def _other_split(demands: Sequence[Demand]) -> list[Message]:
    others = [split for split in SPLITS if split != demands[0].guarantee.split]
    split: Split | None = next((x for x in others if _works(demands, split=x)), None)
    split = find_single_level(demands) if split is None else split
    if split is None:
        return []
    return [Message("use {}, which gives the same guarantee", Parameter("split", split))]


def _only_larger_tasks(demands: Sequence[Demand]) -> list[Message]:
    """Return a ``min_examples`` that works, and which tasks are then covered."""
    minimum = find_min_examples(demands)
    if minimum is None:
        return []
    of_class = "" if demands[0].label is None else " of the class"
    remaining = [demand.with_parameters(min_examples=minimum).tasks for demand in demands]
    scope = f" and covers only new tasks with at least {minimum} examples{of_class}"
    return [
        Message(
            "use {}, which keeps {} of the {}{}",
            Parameter("min_examples", minimum),
            remaining[0] if len(demands) == 1 else f"at least {min(remaining)}",
            _tasks(demands[0].tasks + demands[0].left_out),
            scope if minimum else "",
        )
    ]


def find_min_examples(demands: Sequence[Demand]) -> int | None:
    """Return a ``min_examples`` with which tasks support a guarantee, or one for each class.

    Parameters
    ----------
    demands : sequence of Demand
        One demand, or one for each class.

    Returns
    -------
    int or None
        The smallest that works of those larger than now, else the largest of the others.
    """
    now = demands[0].guarantee.min_examples
    sizes = sorted({0, *(int(size) + 1 for demand in demands for size in demand.sizes)})
    some = sizes[:: max(1, len(sizes) // MAX_TRIED)]
    candidates = [x for x in some if x > now] + [x for x in reversed(some) if x < now]
    return next((size for size in candidates if _works(demands, min_examples=size)), None)


def _in_expectation(demands: Sequence[Demand]) -> list[Message]:
    if demands[0].guarantee.delta is None or not _works(demands, delta=None):
        return []
    text = "use {}, a weaker guarantee that holds on average over calibrations"
    return [Message(text, Parameter("delta", None))]


def _fewer_classes(demands: Sequence[Demand], infeasible: Sequence[Demand]) -> list[str]:
    """Return the classes to merge into others, if the other classes are then feasible."""
    # Compared by identity: arrays inside make == ambiguous.
    rest = [demand for demand in demands if not any(demand is other for other in infeasible)]
    if len(rest) < 2:
        return []
    share = demands[0].guarantee.delta
    if share is not None:
        share *= len(demands) / len(rest)
    if not _works(rest, delta=share):
        return []
    names = listed([repr(demand.label) for demand in infeasible], shown=_SHOWN)
    return [f"merge {names} into another class"]


def _more_data(demands: Sequence[Demand], infeasible: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add and, if only one class lacks data, how many to enlarge."""
    remedies = _Shortfall(infeasible[0]).remedies() if len(infeasible) == 1 else []
    return remedies if len(demands) == 1 else [*_more_tasks(demands, infeasible), *remedies[1:]]


def _more_tasks(demands: Sequence[Demand], infeasible: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add, and the fewest examples of each class that they need."""
    sizes = {
        max(g.min_examples, min_sample_size(g.miss_rate, level.alpha_within))
        for g in (demand.guarantee for demand in demands)
        for level in g.levels
    }

    def works(count: int, examples: int) -> bool:
        return all(demand.with_tasks(count, examples).is_feasible() for demand in demands)

    largest = max((_Shortfall(demand) for demand in infeasible), key=lambda one: one.to_add)
    for count in range(largest.to_add, largest.to_add + MAX_TRIED):
        if works(count, max(sizes)):
            examples = next(size for size in sorted(sizes) if works(count, size))
            added = f"add {_tasks(count)} with at least {examples} examples of each class"
            return [f"{added}{largest.why_so_many()}"]
    return []


def _weaker_guarantees(demands: Sequence[Demand]) -> list[Message]:
    """Return the weaker guarantees that these tasks support, one parameter at a time."""
    one_rate = len({demand.guarantee.miss_rate for demand in demands}) == 1
    names = ["epsilon"] * one_rate + ["alpha"]
    names += ["delta"] * (demands[0].guarantee.delta is not None)
    remedies = []
    for name in names:
        value = _smallest_shown(demands, name)
        scope = " for every class" if name == "epsilon" and len(demands) > 1 else ""
        if value is not None:
            remedies.append(Message("settle for {}{}", Parameter(name, value), scope))
    return remedies


def _smallest_shown(demands: Sequence[Demand], name: str) -> float | None:
    """Return the smallest value that these tasks support, rounded as it is shown.

    With several levels a larger value may be infeasible where a smaller one is feasible: the count
    allowed at one level may fall while those of others rise.
    """

    def works(value: float) -> bool:
        share = equal_share(value, len(demands)) if name == "delta" else value
        return _works(demands, **{name: share})

    smallest = min_value(works, demands[0].tolerance)
    shown = _WEAKEST + 1 if smallest is None else round_up(smallest)
    while shown <= _WEAKEST and not works(shown):
        shown = round_up(shown * 1.001)
    return shown if shown <= _WEAKEST else None


def _works(demands: Sequence[Demand], **changes: Any) -> bool:
    return all(demand.with_parameters(**changes).is_feasible() for demand in demands)


def explain_too_few_examples(epsilon: float, delta: float, n: int) -> Message:
    """Return what an infeasible ``PS`` lacks, and which guarantees its examples support.

    Parameters
    ----------
    epsilon : float
        Miss rate to certify.
    delta : float
        Failure probability of the guarantee.
    n : int
        Number of examples.

    Returns
    -------
    Message
        What is missing, followed by the remedies that work.
    """
    need = min_sample_size(epsilon, delta)
    lack = f": this takes {need} examples, but there are {n}"
    add = f"add {need - n} example{'s' if need - n != 1 else ''}"
    return _explain(epsilon, delta, lambda e, d: bool(certifies(0, n, e, d)), lack, add)


def explain_too_few_tasks_on_average(
    epsilon: float,
    delta: float,
    tasks: int,
    works: Callable[[float, float, int], bool],
    condition: str = "",
) -> Message:
    """Return what an infeasible guarantee on average over tasks lacks.

    Parameters
    ----------
    epsilon : float
        Average miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    tasks : int
        Number of calibration tasks.
    works : callable
        Takes epsilon, delta and a number of tasks, and returns whether the guarantee is feasible.
    condition : str, default ""
        What every task must have, in words that follow the number of tasks.

    Returns
    -------
    Message
        What is missing, followed by the remedies that work.
    """
    high = tasks + 1
    while not works(epsilon, delta, high):
        high *= 2
        if high > LARGEST_COUNT:
            raise sample_size_overflow(epsilon, delta)
    needed = min_integer(lambda count: works(epsilon, delta, count), tasks, high)
    takes = f" on average over tasks: this takes {_tasks(needed)}{condition}"
    lack = f"{takes}, but there {_are_tasks(tasks)}"
    add = f"add {_tasks(needed - tasks)}{condition}"
    return _explain(epsilon, delta, lambda e, d: works(e, d, tasks), lack, add)


def _explain(
    epsilon: float, delta: float, works: Callable[[float, float], bool], lack: str, add: str
) -> Message:
    """Return what the data lack, what to add, and the guarantees that they support."""
    best = {
        "epsilon": min_value(lambda value: works(value, delta)),
        "delta": min_value(lambda value: works(epsilon, value)),
    }
    shown = [Parameter(name, round_up(value)) for name, value in best.items() if value]
    weaker = [Message("settle for {}", level) for level in shown if level.value <= _WEAKEST]
    asked = _rounded("epsilon", epsilon), _rounded("delta", delta)
    return Message("{}, {} cannot be guaranteed{}. {}", *asked, lack, _options([add, *weaker]))


def _tasks(count: int) -> str:
    return f"{count} task{'s' if count != 1 else ''}"


def _are_tasks(count: int) -> str:
    return f"{'are' if count != 1 else 'is'} {_tasks(count)}"


def _options(
    remedies: Sequence[str | Message], trivial: bool = True, is_interval: bool = False
) -> Message:
    if trivial:
        result = "for intervals of infinite width" if is_interval else "to keep every label"
        keep_all = Message("pass {} {}", Parameter("on_infeasible", "trivial"), result)
        remedies = [*remedies, keep_all]
    if not remedies:
        return Message("Nothing else that was tried works.")
    return Message("Options: {}.", Message.join("; or ", remedies))

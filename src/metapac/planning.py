"""Planning: what a guarantee needs, what given tasks support, and remedies for too few."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _common
from metapac._common import LARGEST_COUNT, Counts, PathLike, as_whole_number, as_whole_numbers
from metapac._text import format_table
from metapac.binomial import certifies, min_integer, min_value, round_up
from metapac.data_checks import check_levels
from metapac.errors import InvalidInput, keyword
from metapac.guarantee import SPLITS, Guarantee, Split
from metapac.inputs import check_one_dimensional
from metapac.ranks import Level, NewTasks, equal_share

if TYPE_CHECKING:
    from metapac.evidence import Clusters

Sizes = ArrayLike | Mapping[Any, ArrayLike]  # of all classes together, or by class
# Above this number of tasks, each level gets an equal share of delta: close to exact, and fast.
_EXACT = 20_000
_MAX_TRIED = 40  # sizes, or numbers of tasks, to try where each takes time
_MAX_DIVISIONS = 12  # of a list
SHOWN_CLASSES = 3
_SHOWN_STEPS = 3
# With delta=None the joint split may give up a rank, for its levels for small tasks, that tight
# keeps; from about this size on, the rank is worth more (benchmarks/splits.md).
_LARGE = 300
WEAKEST = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.2}  # larger values are not worth suggesting


def min_sample_size(epsilon: float, delta: float, errors: int = 0) -> int:
    """Return the smallest n such that ``errors`` errors in n examples certify ``epsilon``."""
    guess = math.log(delta) / math.log1p(-epsilon)  # the answer where no error is allowed
    if guess > LARGEST_COUNT:
        raise sample_size_overflow(epsilon, delta)
    high = max(errors + 1, math.ceil(guess))
    while not certifies(errors, high, epsilon, delta):
        high *= 2
    # As many errors as examples certify nothing.
    return min_integer(lambda n: bool(certifies(errors, n, epsilon, delta)), errors, high)


def sample_size_overflow(epsilon: float, delta: float) -> InvalidInput:
    """Return the error for a rate that would need more examples or tasks than can be counted."""
    rate = f"a rate of {epsilon:g} at confidence 1 - {delta:g}"
    levels = ("epsilon", "alpha", "delta")
    return InvalidInput(f"{rate} needs more than 10**9 examples or tasks.", parameter=levels)


def min_task_size(guarantee: Guarantee, level: Level) -> int:
    """Return how many examples a task needs to count at a level."""
    examples = min_sample_size(guarantee.miss_rate, level.alpha_within)
    return max(examples, guarantee.min_examples)


def min_tasks(guarantee: Guarantee, level: int, small: int = 0) -> int:
    """Return the least number of tasks at which ``small`` of them may be too small for a level."""
    share = guarantee.levels[level].alpha_across

    def enough(tasks: int) -> bool:
        return guarantee.allowed_low_thresholds(tasks)[level] >= small

    if (delta := _delta_of_bounds(guarantee)) is None:
        return _search(enough)
    low = min_sample_size(share, delta, small)
    # Every level gets at least an equal share of delta.
    high = min_sample_size(share, equal_share(delta, len(guarantee.levels)), small)
    if low == high or high > _EXACT:
        return high
    return low if enough(low) else min_integer(enough, low, high)


def _delta_of_bounds(guarantee: Guarantee) -> float | None:
    """Return delta where ranks lie between those of an equal share and of all of it, else None."""
    return None if guarantee.new_tasks or guarantee.dishonest else guarantee.delta


def _search(enough: Callable[[int], bool]) -> int:
    """Return the smallest number of tasks that is enough."""
    high = 16
    while not enough(high):
        if high > LARGEST_COUNT:
            raise InvalidInput("no number of tasks up to 10**9 is enough.", parameter="alpha")
        high *= 2
    return min_integer(enough, 0, high)


def min_tasks_over_levels(guarantee: Guarantee, small: Sequence[int]) -> tuple[int, int]:
    """Return the smallest number of tasks over all levels, and the level that attains it.

    Counts across tasks are slow to compute, so a level is tried only if, given all of delta, it
    would need no more tasks than the best level so far.
    """
    if (delta := _delta_of_bounds(guarantee)) is None:

        def usable(tasks: int) -> list[bool]:
            ranks = guarantee.allowed_low_thresholds(tasks)
            return [rank >= few for rank, few in zip(ranks, small, strict=True)]

        tasks = _search(lambda tasks: any(usable(tasks)))
        return tasks, usable(tasks).index(True)
    pairs = zip(guarantee.levels, small, strict=True)
    bounds = [min_sample_size(level.alpha_across, delta, few) for level, few in pairs]
    best = (math.inf, 0)
    for bound, level in sorted((bound, level) for level, bound in enumerate(bounds)):
        if bound <= best[0]:
            best = min(best, (min_tasks(guarantee, level, small[level]), level))
    return int(best[0]), best[1]


class Step(NamedTuple):
    """Labels that would do: more of them in some tasks, or in new ones."""

    labels: int
    tasks: int
    size: int  # that these tasks then have
    may_stay: int  # how many tasks may stay small
    fewest: int  # labels to add to a task
    most: int

    def __str__(self) -> str:
        tasks = f"{self.tasks:,} task{'s' * (self.tasks > 1)}"
        if self.fewest == self.size:
            return f"{self.labels:,} labels in {tasks.replace('task', 'new task')} of {self.size:,}"
        if self.most == 1:
            return f"one more label in {tasks}"
        if self.tasks == 1:
            return f"{self.labels:,} more labels in {tasks}"
        each = f"{self.fewest:,} to {self.most:,}" if self.fewest < self.most else f"{self.most:,}"
        return f"{self.labels:,} more labels in {tasks}, {each} in each"


class Affordable(NamedTuple):
    """Smallest feasible value of each parameter, the others held fixed."""

    epsilon: float | None
    alpha: float | None
    delta: float | None

    def __str__(self) -> str:
        return ", ".join(f"{name} {_format_level(x)}" for name, x in self._asdict().items())


class Demand(NamedTuple):
    """A guarantee, and the sizes of the tasks that should support it."""

    guarantee: Guarantee
    sizes: Counts
    counts: Counts
    label: Any = None

    @classmethod
    def from_sizes(cls, guarantee: Guarantee, sizes: ArrayLike, *, label: Any = None) -> Demand:
        """Return the demand on tasks of given sizes."""
        distinct, counts = np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True)
        return cls(guarantee, distinct, counts, label)

    def with_parameters(self, **changes: Any) -> Demand:
        """Return the demand with some parameters of its guarantee changed."""
        return self._replace(guarantee=replace(self.guarantee, **changes))

    def with_tasks(self, count: int, examples: int) -> Demand:
        """Return the demand with more tasks."""
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

    def too_small(self) -> list[int]:
        """Return for each level how many of the tasks used cannot certify ``epsilon``."""
        rate, levels = self.guarantee.miss_rate, self.guarantee.levels
        certified = [certifies(0, self.sizes, rate, level.alpha_within) for level in levels]
        return [int(self.counts[self.used & ~enough].sum()) for enough in certified]

    def allowed(self) -> Sequence[int]:
        """Return for each level how many of the tasks used may be too small; -1 if they are few."""
        g = self.guarantee
        return g.allowed_low_thresholds(self.tasks) if self.tasks else [-1] * len(g.levels)

    def is_feasible(self) -> bool:
        """Return whether these tasks support the guarantee."""
        several, delta = len(self.guarantee.levels), _delta_of_bounds(self.guarantee)
        if delta is not None and several > 1 and self.tasks:
            # Quick bounds: for some level an equal share of delta is enough, and all of it needed.
            if self._is_any_level_usable(equal_share(delta, several)):
                return True
            if not self._is_any_level_usable(delta):
                return False
        pairs = zip(self.too_small(), self.allowed(), strict=True)
        return any(few <= most for few, most in pairs)

    def find_enlargement(self) -> Step | None:
        """Return the cheapest way to enlarge small tasks; None if tasks are too few."""
        g, ways = self.guarantee, []
        for level, may_stay, few in zip(g.levels, self.allowed(), self.too_small(), strict=True):
            if may_stay >= 0:
                size = min_task_size(g, level)
                small = self.used & (self.sizes < size)
                lacks = size - np.repeat(self.sizes[small], self.counts[small])[may_stay:]
                ends = (int(lacks.min()), int(lacks.max())) if len(lacks) else (0, 0)
                ways.append(Step(int(lacks.sum()), few - may_stay, size, may_stay, *ends))
        return min(ways, default=None)

    def find_next_labels(self) -> Step | None:
        """Return the fewest labels that would make an infeasible guarantee feasible."""
        ways = [self.find_enlargement(), find_addition([self], Shortfall(self).to_add)]
        return min((way for way in ways if way is not None), default=None)

    def _is_any_level_usable(self, delta: float) -> bool:
        """Return whether some level, given ``delta`` for itself, tolerates its small tasks."""
        pairs = zip(self.too_small(), self.guarantee.levels, strict=True)
        return any(certifies(few, self.tasks, level.alpha_across, delta) for few, level in pairs)


def all_feasible(demands: Sequence[Demand], **changes: Any) -> bool:
    """Return whether tasks support all guarantees, with changed parameters; ``delta`` is shared."""
    if changes.get("delta") is not None:
        changes["delta"] = equal_share(changes["delta"], len(demands))
    try:
        changed = [demand.with_parameters(**changes) for demand in demands]
    except InvalidInput:  # parameters that cannot be combined
        return False
    return all(demand.is_feasible() for demand in changed)


def demand_each(whole: Guarantee, sizes: Mapping[Any, ArrayLike]) -> list[Demand]:
    """Return the demand on tasks for each class or, as None, for all together."""
    if whole.is_together:
        sizes = {None: np.min([np.asarray(own) for own in sizes.values()], axis=0)}
    parts = {x: whole if x is None else whole.for_class(x, [*sizes]) for x in sizes}
    return [Demand.from_sizes(parts[x], counts, label=x) for x, counts in sizes.items()]


def supports_classes(guarantee: Guarantee, sizes: Mapping[Any, ArrayLike]) -> bool:
    """Return whether tasks would support a guarantee for each class."""
    return all_feasible(demand_each(replace(guarantee, per_class=True), sizes))


def smallest(demands: Sequence[Demand], parameter: str) -> float | None:
    """Return the smallest value of a parameter that tasks support, the others fixed.

    With several levels it may be too large by a relative error of 1e-5.
    """
    tolerance = 1e-5 if len(demands[0].guarantee.levels) > 1 else 1e-15  # each trial is slow
    return min_value(lambda value: all_feasible(demands, **{parameter: value}), tolerance)


def find_min_examples(demands: Sequence[Demand]) -> int | None:
    """Return a ``min_examples`` with which tasks support a guarantee, or one for each class."""
    now = demands[0].guarantee.min_examples
    sizes = sorted({0, *(int(size) + 1 for demand in demands for size in demand.sizes)})
    some = sizes[:: max(1, len(sizes) // _MAX_TRIED)]
    candidates = [x for x in some if x > now] + [x for x in reversed(some) if x < now]
    return next((size for size in candidates if all_feasible(demands, min_examples=size)), None)


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
    """What the tasks of one demand lack: tasks, or examples in those that are too small."""

    def __init__(self, demand: Demand) -> None:
        g, small = demand.guarantee, demand.too_small()
        enough, level = min_tasks_over_levels(g, small)
        self.demand, self.to_add, self.small = demand, enough - demand.tasks, small[level]
        self.needed = min_tasks(g, level)  # if none of them were too small
        self.examples = min_task_size(g, g.levels[level])
        self.enlargement = demand.find_enlargement()
        self.of_class = " of each class" * demand.guarantee.is_together
        if demand.label is not None:
            self.of_class = f" of class {demand.label!r}"

    def __str__(self) -> str:
        """What is missing; counts are of the tasks used."""
        demand, g = self.demand, self.demand.guarantee
        if self.enlargement is not None:
            _labels, few, size, may_stay, *_ = self.enlargement
            small = f"{few + may_stay} of the {count_tasks(demand.tasks)} have fewer than {size}"
            lack = f"{small} examples{self.of_class}, and at most {may_stay} may"
        else:
            needed = f"{count_tasks(self.needed)} with at least {self.examples} examples"
            lack = f"this takes {needed}{self.of_class} each, but {there_are(demand.tasks)}"
            lack += f", {self.small} of them smaller" if self.small else ""
        if left_out := int(demand.counts.sum()) - demand.tasks:
            lack += f" ({left_out} more are left out by min_examples={g.min_examples})"
        if demand.label is None:
            return lack
        return f"class {demand.label!r} ({_show('epsilon', g.miss_rate)}): {lack}"


def find_shortfalls(demands: Sequence[Demand]) -> list[Shortfall]:
    """Return what the tasks lack, for each demand that they do not support."""
    return [Shortfall(demand) for demand in demands if not demand.is_feasible()]


def _describe_shortfalls(lacking: Sequence[Shortfall]) -> str:
    more = f"; and {len(lacking) - SHOWN_CLASSES} more" * (len(lacking) > SHOWN_CLASSES)
    return "; ".join(map(str, lacking[:SHOWN_CLASSES])) + more


def find_remedies(demands: Sequence[Demand], lacking: Sequence[Shortfall]) -> list[str]:
    """Return what works: first without new data, then with more data, then weaker guarantees."""
    remedies, g = [], demands[0].guarantee
    if split := next((x for x in SPLITS if all_feasible(demands, split=x)), None):
        remedies.append(f"use split={split!r}, which gives the same guarantee")
    if (least := find_min_examples(demands)) is not None:
        kept = min(one.with_parameters(min_examples=least).tasks for one in demands)
        covered = f"keeps {count_tasks(kept)} and covers only new tasks of at least that size"
        remedies.append(f"use min_examples={least}, which {covered}")
    if g.delta is not None and all_feasible(demands, delta=None):
        remedies.append("use delta=None, a weaker guarantee, on average over calibrations")
    remedies += _more_data(demands, lacking)
    one_rate = len({demand.guarantee.miss_rate for demand in demands}) == 1
    names = ["epsilon"] * one_rate + ["alpha"] + ["delta"] * (g.delta is not None)
    weaker = {name: _smallest_shown(demands, name) for name in names}
    return remedies + [f"settle for {keyword(*level)}" for level in weaker.items() if level[1]]


def _more_data(demands: Sequence[Demand], lacking: Sequence[Shortfall]) -> list[str]:
    """Return how many tasks to add, and how many to enlarge; the fewest labels first."""
    labels = {}
    if (more := find_addition(demands, max(one.to_add for one in lacking))) is not None:
        each = "each" if demands[0].label is None else "of each class"
        add = f"add {count_tasks(more.tasks)} with at least {more.size} examples {each}"
        labels[add] = more.labels
    if len(lacking) == 1 and (enlargement := lacking[0].enlargement):
        cost, few, size, *_ = enlargement
        small = f"{few} of the small tasks to {size} examples{lacking[0].of_class}"
        labels[f"increase {small} each"] = cost
    return sorted(labels, key=lambda text: labels[text])


def find_addition(demands: Sequence[Demand], least: int) -> Step | None:
    """Return the fewest tasks to add, from a number on that is known to be needed."""
    sizes = {min_task_size(d.guarantee, level) for d in demands for level in d.guarantee.levels}
    for count, size in itertools.product(range(least, least + _MAX_TRIED), sorted(sizes)):
        if all(demand.with_tasks(count, size).is_feasible() for demand in demands):
            return Step(count * size * len(demands), count, size, 0, size, size)
    return None


def _smallest_shown(demands: Sequence[Demand], name: str) -> float | None:
    """Return the smallest value that these tasks support, rounded as it is shown.

    With several levels a larger value may be infeasible where a smaller one is feasible: the count
    allowed at one level may fall while those of others rise.
    """
    value, most = smallest(demands, name), WEAKEST[name]
    shown = 1.0 if value is None else round_up(value)
    while shown <= most and not all_feasible(demands, **{name: shown}):
        shown = round_up(shown * 1.001)
    return shown if shown <= most else None


def explain_too_few_tasks(
    demands: Sequence[Demand], *, trivial: str = "to keep every label"
) -> str:
    """Return why tasks do not support a guarantee, or one for each class, and what would help."""
    g, lacking = demands[0].guarantee, find_shortfalls(demands)
    delta = None if g.delta is None else g.delta * len(demands)
    asked, which = f"{_show('alpha', g.alpha)}, {_show('delta', delta)}", ""
    if demands[0].label is None:
        asked = f"{_show('epsilon', g.miss_rate)}, {asked}"
    else:
        which = f" for {len(lacking)} of {len(demands)} classes"
    lack = f" with split={g.split!r}{which}: {_describe_shortfalls(lacking)}"
    last = [f"pass on_infeasible='trivial' {trivial}"] * bool(trivial)
    return _explain(asked, lack, [*find_remedies(demands, lacking), *last])


def _explain(asked: str, lack: str, remedies: Sequence[str]) -> str:
    options = f"Options: {'; or '.join(remedies)}." if remedies else "Nothing that was tried works."
    return f"{asked} cannot be guaranteed{lack}. {options}"


def add_clusters(message: str, clusters: Clusters) -> str:
    """Return a message on too few tasks that says what a task stands for."""
    text = f"{message} Each task counted here stands for one of {len(clusters.names)} clusters,"
    return f"{text} which hold {count_tasks(clusters.tasks)} in all: to add a task, add a cluster."


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
    best = {"epsilon": min_value(lambda value: works(value, delta))}
    best["delta"] = min_value(lambda value: works(epsilon, value))
    shown = {name: round_up(value) for name, value in best.items() if value}
    weaker = [f"settle for {keyword(*x)}" for x in shown.items() if x[1] <= WEAKEST[x[0]]]
    asked = f"{_show('epsilon', epsilon)}, {_show('delta', delta)}"
    return _explain(asked, lack, [add, *weaker, "pass on_infeasible='trivial' to keep every label"])


class Need(NamedTuple):
    """A number of tasks, and of labelled examples in each, that suffices at one level."""

    tasks: int
    examples_per_task: int
    level: Level

    @property
    def labels(self) -> int:
        """Number of labelled examples in all."""
        return self.tasks * self.examples_per_task


def find_needs(guarantee: Guarantee) -> tuple[Need, ...]:
    """Return the needs at each level, without those that another level improves on."""
    by_size: dict[int, int] = {}  # of levels with the same size, the lowest needs fewest tasks
    for number, level in enumerate(guarantee.levels):
        by_size.setdefault(min_task_size(guarantee, level), number)
    needs = [find_need(guarantee, number) for number in by_size.values()]
    later = [min((n.tasks for n in needs[i + 1 :]), default=math.inf) for i in range(len(needs))]
    kept = [need for need, least in zip(needs, later, strict=True) if need.tasks < least]
    larger = [need for need in kept if need.examples_per_task > guarantee.min_examples]
    return tuple(kept[: len(larger) + 1])  # more tasks cannot be smaller than min_examples


def find_need(guarantee: Guarantee, number: int) -> Need:
    """Return the need at one level."""
    level = guarantee.levels[number]
    return Need(min_tasks(guarantee, number), min_task_size(guarantee, level), level)


_NEEDED = ("tasks", "examples_per_task", "labels")
OFFERED_EPSILONS = (0.05, 0.1, 0.2)
OFFERED_ALPHAS = (0.05, 0.1, 0.2, 0.3)
OFFERED_DELTAS = (0.05, None)
_USUAL = (0.1, 0.2)  # alphas


class Offer(NamedTuple):
    """The smallest epsilon that given tasks support at an alpha and a delta.

    Attributes
    ----------
    alpha, delta, epsilon : float or None
        As in `Guarantee`; ``epsilon`` is None if none is feasible.
    """

    alpha: float
    delta: float | None
    epsilon: float | None


def find_offers(sizes: Mapping[Any, Counts], *, classes: int = 1, **options: Any) -> list[Offer]:
    """Return the smallest epsilon that tasks support for every class, by alpha and delta."""
    offers = []
    for alpha, delta in itertools.product(_alphas_above(options), OFFERED_DELTAS):
        whole = Guarantee(epsilon=0.5, alpha=alpha, delta=delta, **options)
        part = whole.for_class(None, range(classes))
        demands = [Demand.from_sizes(part, counts) for counts in sizes.values()]
        offers.append(Offer(alpha, delta, smallest(demands, "epsilon")))
    return offers


def _alphas_above(
    options: Mapping[str, Any], alphas: Sequence[float] = OFFERED_ALPHAS
) -> list[float]:
    """Return the alphas that leave something beside the shift."""
    return [alpha for alpha in alphas if alpha > options.get("shift", 0)]


_NO_VALUE = "no value: the tasks are too few, or too many are too small. Pass epsilon, alpha and "
_NO_VALUE += "delta to see what would help."


def _tabulate(rows: Sequence[Mapping[str, Any]], column: str, value: str, title: str) -> str:
    """Return one value of each row as a table of alpha and another level."""
    table: dict[float, dict[str, str]] = {}
    for row in rows:
        cells = table.setdefault(row["alpha"], {"alpha": f"{row['alpha']:g}"})
        cells[f"{column} {name_delta(row[column])}"] = _format_level(row[value])
    text = format_table([*table.values()], title)
    return f"{text}\n\n{_NO_VALUE}" if any(row[value] is None for row in rows) else text


def find_supported(sizes: Mapping[Any, Counts], **more: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the guarantees that tasks support, as rows and as text."""
    rows = [offer._asdict() for offer in plan(sizes=sizes, **more)]
    text = _tabulate(rows, "delta", "epsilon", f"Smallest epsilon, {describe_sizes(sizes)}")
    if None in sizes and more.get("classes", 1) == 1:
        levels = itertools.product(OFFERED_EPSILONS, _alphas_above(more, _USUAL))
        own = {"delta": OFFERED_DELTAS[0], **{k: v for k, v in more.items() if k != "classes"}}
        usual = [Guarantee(epsilon=e, alpha=a, **own) for e, a in levels]
        text = "\n\n".join([text, *describe_next_labels(find_next_labels(usual, sizes[None]))])
    return rows, text


def find_next_labels(asked: Iterable[Guarantee], sizes: Counts) -> list[tuple[Guarantee, Step]]:
    """Return guarantees that tasks do not support, with the labels that would do: fewest first."""
    demands = [Demand.from_sizes(guarantee, sizes) for guarantee in asked]
    steps = [(d.guarantee, d.find_next_labels()) for d in demands if not d.is_feasible()]
    known = [(guarantee, step) for guarantee, step in steps if step is not None]
    return sorted(known, key=lambda pair: pair[1].labels)


def describe_next_labels(steps: Sequence[tuple[Guarantee, Step]]) -> list[str]:
    """Return a paragraph on the fewest labels that would allow more; none if all is allowed."""
    head, few = "What is refused would take, the fewest labels first:", steps[:_SHOWN_STEPS]
    lines = [f"epsilon {g.miss_rate:g}, alpha {g.alpha:g}: {step}" for g, step in few]
    return ["\n- ".join([head, *lines])] if lines else []


def plan_half(
    tasks: int | None, examples: int | None, **more: Any
) -> tuple[list[dict[str, Any]], str]:
    """Return what common guarantees need of the tasks or of the examples in each, and as text."""
    delta, rows = OFFERED_DELTAS[0], []
    for alpha, epsilon in itertools.product(_alphas_above(more), OFFERED_EPSILONS):
        levels: Any = {"epsilon": epsilon, "alpha": alpha, "delta": delta}
        rows.append(levels | complete_plan(_plan_guarantee(**levels, **more), tasks, examples))
    needed, title = "examples_per_task", f"Examples per task needed with {tasks} tasks"
    if tasks is None:
        needed, title = "tasks", f"Tasks needed with {examples} examples in each task"
    return rows, _tabulate(rows, "epsilon", needed, f"{title}, at delta {delta}")


def name_delta(delta: float | None) -> str:
    """Return a failure probability as commands take it."""
    return "none" if delta is None else f"{delta:g}"


def _format_level(value: float | None) -> str:
    if value is None:
        return "no value"
    return str(value) if isinstance(value, int) else f"{round_up(value):g}"


def span(numbers: Iterable[int]) -> str:
    """Return the smallest and the largest number, or the only one."""
    every = {*map(int, numbers)}
    return " to ".join(map(str, dict.fromkeys([min(every), max(every)])))


def describe_sizes(sizes: Mapping[Any, Counts]) -> str:
    """Return the number of tasks and their sizes; of many classes, the rarest ones."""
    tasks = count_tasks(len(next(iter(sizes.values()))))
    if None in sizes:
        return f"{tasks} of {span(sizes[None])} examples"
    rarest = sorted(sizes, key=lambda label: int(sizes[label].sum()))[:SHOWN_CLASSES]
    parts = [f"{span(sizes[label])} of class {label!r}" for label in sizes if label in rarest]
    more = f", the {len(rarest)} rarest of {len(sizes)} classes" * (len(rarest) < len(sizes))
    return f"{tasks} ({', '.join(parts)}{more})"


class Option(NamedTuple):
    """How one split would use given tasks."""

    split: Split
    delta: float | None
    nth_lowest: tuple[int, ...]
    examples_per_task: int
    too_small: int  # of the tasks used, those with fewer examples

    @property
    def feasible(self) -> bool:
        """Whether the tasks support the guarantee with this split."""
        return bool(self.nth_lowest)

    def __str__(self) -> str:
        return f"split={self.split!r}" + ", delta=None" * (self.delta is None)


def compare_splits(demands: Sequence[Demand]) -> tuple[Option, ...]:
    """Return how each split would use tasks of given sizes, feasible splits first.

    The comparison looks at sizes alone, at no score. If no split is feasible, a guarantee in
    expectation is added. Of several classes, the scarcest one counts.
    """
    g = demands[0].guarantee
    options = [_option(demands, split=each.split) for each in find_splits(g)]
    if not any(option.feasible for option in options) and g.new_tasks is None:
        options.append(_option(demands, delta=None))
    by_split = {option.split: option for option in options if option.feasible}
    first = ""
    if g.delta is None and {"joint", "tight"} <= by_split.keys():
        ranks = (max(by_split[split].nth_lowest) for split in ("joint", "tight"))
        size = min(np.median(np.repeat(one.sizes, one.counts)) for one in demands)
        first = "tight" if next(ranks) < next(ranks) and size >= _LARGE else ""
    return tuple(sorted(options, key=lambda option: (not option.feasible, option.split != first)))


def find_splits(g: Guarantee) -> list[Guarantee]:
    """Return a guarantee with each split that serves it."""
    found = []
    for split in dict.fromkeys([*SPLITS, g.split]):
        with suppress(InvalidInput):
            found.append(replace(g, split=split))
    return found


def _option(demands: Sequence[Demand], **changes: Any) -> Option:
    options, changed = [], [demand.with_parameters(**changes) for demand in demands]
    for demand in changed:
        g = demand.guarantee
        allowed, small = demand.allowed(), demand.too_small()
        usable = [level for level in range(len(g.levels)) if small[level] <= allowed[level]]
        # Infeasible: the level that needs the fewest tasks.
        last = usable[-1] if usable else min_tasks_over_levels(g, small)[1]
        ranks = tuple(allowed[level] + 1 for level in usable)
        size = min_task_size(g, g.levels[last])
        smaller = max(int(one.counts[one.used & (one.sizes < size)].sum()) for one in changed)
        options.append(Option(g.split, g.delta, ranks, size, smaller))
    return min(options, key=lambda option: max(option.nth_lowest, default=0))


class Curve(NamedTuple):
    """Minimum tasks, and examples in each, as a function of one parameter of a guarantee."""

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
    options : tuple of Option
        How each split would use tasks of the given sizes.
    asked : Guarantee
        The guarantee for all classes together.
    classes : int
        Number of classes with a guarantee each; examples are those of one class.
    sizes : mapping from class to ndarray
        Number of examples of each task, by class; of all classes together as None. Empty if no
        sizes were given.

    Examples
    --------
    >>> from metapac import plan
    >>> found = plan(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> found.tasks, found.examples_per_task
    (29, 44)
    """

    guarantee: Guarantee
    options: tuple[Option, ...]
    asked: Guarantee
    classes: int
    sizes: Mapping[Any, Counts] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The minimum at each level: with more tasks, each may have fewer examples."""
        return find_needs(self.guarantee)

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
        """The option to choose, if any; its delta is None where only that is feasible."""
        return next((option for option in self.options if option.feasible), None)

    def affordable(self, tasks: int, examples_per_task: int) -> Affordable:
        """Return the best epsilon, alpha and delta, one at a time, that the given data support.

        Parameters
        ----------
        tasks, examples_per_task : int
            Number of tasks, and of labelled examples in each.

        Returns
        -------
        Affordable
            The smallest value of each parameter, the others held fixed; None if no value works.
        """
        count = as_whole_number("tasks", tasks)
        size = as_whole_number("examples_per_task", examples_per_task)
        own = [Demand(self.guarantee, np.array([size]), np.array([count]))]
        delta = None if self.guarantee.delta is None else smallest(own, "delta")
        return Affordable(smallest(own, "epsilon"), smallest(own, "alpha"), delta)

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
        return next((s for s in sizes if Demand(g, np.array([s]), count).is_feasible()), None)

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
        return next((need.tasks for need in self.needs if need.examples_per_task <= size), None)

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
        _common.check_one_of("parameter", parameter, ("epsilon", "alpha", "delta", "split"))
        if values is None:
            values = np.geomspace(1e-12 if parameter == "delta" else 0.01, 0.5, 60)
            values = np.linspace(0.01, 0.5, 50) if parameter == "split" else values
        grid = np.array(values, dtype=float, ndmin=1)
        check_one_dimensional("values", grid)
        changed = [replace(self.guarantee, **{parameter: float(value)}) for value in grid]  # type: ignore[arg-type]
        needs = np.array([find_need(guarantee, 0)[:2] for guarantee in changed])
        return Curve(parameter, grid, needs[:, 0], needs[:, 1])

    def plot(self, path: PathLike) -> None:
        """Draw the data needed against alpha, a line for each split.

        Parameters
        ----------
        path : str or path
            PNG or SVG file to write.
        """
        from metapac.plots import draw_needs

        g = self.guarantee
        alphas = np.geomspace(min(0.01, g.alpha / 2), max(0.5, g.alpha), 60)
        curves = {str(name): own.curve("alpha", alphas) for name, own in self.by_split().items()}
        title = f"Data needed at epsilon = {g.miss_rate:g}, delta = {name_delta(self.asked.delta)}"
        draw_needs(curves, title=title, path=path, mark=g.alpha)

    def explain(self) -> str:
        """Return why the tasks do not support the guarantee, and what would help.

        Returns
        -------
        str
            The text; empty if they do, or no sizes were given.
        """
        return explain_too_few_tasks(self._demands(), trivial="") if self._lacks_data() else ""

    def remedies(self) -> list[str]:
        """Return what would help if the tasks do not support the guarantee.

        Returns
        -------
        list of str
            Changes, each of which is enough; empty if the tasks suffice.
        """
        demands = self._demands() if self._lacks_data() else []
        return find_remedies(demands, find_shortfalls(demands)) if demands else []

    def to_dict(self) -> dict[str, Any]:
        """Return what each split needs, and how it would use the tasks, as JSON can hold it.

        Returns
        -------
        dict
            A dictionary for each split and, if sizes were given, ``recommended``: the split to use
            for the guarantee that was asked for, if there is one.
        """
        body: dict[str, Any] = {}
        for split, own in self.by_split().items():
            row: dict[str, Any] = {name: getattr(own, name) for name in _NEEDED}
            row["needs"] = [need[:2] for need in own.needs]
            if (option := own._option()) is not None:
                row |= {"ranks": option.nth_lowest, "too_small": option.too_small}
            body[str(split)] = row
        if self.sizes:
            best = None if self._lacks_data() else self.recommended
            body["recommended"] = None if best is None else best.split
        return body

    def __str__(self) -> str:
        """What is needed, whether the tasks suffice, a table by split, and which split to use."""
        of = " each" if self.classes == 1 else f" of each of {self.classes} classes"
        ends = []
        for tasks, size, _level in (self.needs[0], self.needs[-1]):
            data = f"{size:,} labelled example{'s' * (size != 1)}{of}"
            total = f"{tasks * size * self.classes:,} labels in total"
            ends.append(f"{tasks:,} tasks with at least {data} ({total})")
        between = ", or something in between" * (len(self.needs) > 2)
        head = f"Needed: {', or '.join(dict.fromkeys(ends))}{between}."
        note = "Every split gives the same guarantee; joint is the default."
        if self.guarantee.delta is None:
            note += (
                " For large tasks tight may take a higher rank, and then has smaller sets. Number "
            )
            note += "and size of the tasks decide: choose before you look at scores."
        if self.guarantee.dishonest:
            note += f" It holds whatever up to {self.guarantee.dishonest} of the tasks send."
        if self.sizes:
            own = self._demands()[: len(self.sizes)] if self._lacks_data() else []
            lacking = find_shortfalls(own)
            why = f"do not suffice: {_describe_shortfalls(lacking)}" if lacking else "suffice"
            head += f" Your {describe_sizes(self.sizes)} {why}."
            note += " rank: the threshold is that of the task of this rank, from the lowest."
        paragraphs = [head, format_table(self._rows()), note]
        if (best := self.recommended) is not None:
            is_weaker = best.delta != self.guarantee.delta
            weaker = ", a weaker guarantee, on average over calibrations" * is_weaker
            paragraphs.append(f"Recommended for your tasks: {best}{weaker}.")
        return "\n\n".join(paragraphs)

    def _rows(self) -> list[dict[str, object]]:
        """Return the needs of each split and, with sizes, how it would use the tasks."""
        rows = []
        for split, own in self.by_split().items():
            row: dict[str, object] = {"split": split}
            row |= {name.replace("_", " "): getattr(own, name) for name in _NEEDED}
            if (option := own._option()) is not None:
                row["rank"] = span(option.nth_lowest) if option.feasible else "infeasible"
                row["too small"] = f"{option.too_small} (below {option.examples_per_task})"
            rows.append(row)
        return rows

    def _demands(self) -> list[Demand]:
        """Return the demand on the tasks for each class; sizes of no class are those of all."""
        g, sizes = self.guarantee, dict(self.sizes)
        if self.classes > len(sizes):
            sizes = dict.fromkeys(range(1, self.classes + 1), *sizes.values())
        return [Demand.from_sizes(g, counts, label=label) for label, counts in sizes.items()]

    def by_split(self) -> dict[Split, Plan]:
        """Return the plan for each split; all give the same guarantee.

        Returns
        -------
        dict from split to Plan
            The plans.
        """
        parts = find_splits(self.guarantee)
        return {g.split: replace(self, guarantee=g) for g in parts}

    def _option(self) -> Option | None:
        """Return how the split would use the tasks, if their sizes are known."""
        own = self.guarantee.split, self.guarantee.delta
        return next((x for x in self.options if (x.split, x.delta) == own), None)

    def _lacks_data(self) -> bool:
        """Return whether the tasks support the guarantee with none of the splits."""
        best = self.recommended
        return bool(self.options) and (best is None or best.delta != self.guarantee.delta)


def complete_plan(found: Plan, tasks: int | None, examples: int | None) -> dict[str, int | None]:
    """Return the number of tasks and of examples in each: the one that is None, by the other."""
    if tasks is not None:
        return {"tasks": tasks, "examples_per_task": found.examples_for(tasks)}
    size = as_whole_number("examples", examples)
    return {"tasks": found.tasks_for(size), "examples_per_task": size}


class Division(NamedTuple):
    """How a finite list can be divided, from `plan_list`.

    Attributes
    ----------
    label, others, may_exceed : int
        Number of tasks to draw and label, of the others, which the guarantee is for, and of those
        of them that may exceed ``epsilon``.
    examples_per_task : int
        Number of labelled examples that each task drawn needs.
    """

    label: int
    others: int
    may_exceed: int
    examples_per_task: int


@dataclass(frozen=True)
class ListPlan:
    """How many tasks of a finite list to label, from `plan_list`.

    Attributes
    ----------
    listed : int
        Number of tasks on the list.
    divisions : tuple of Division
        The fewest tasks to label for each number of others that may exceed ``epsilon``, and more
        of them where each then needs fewer examples; empty if no number is enough.
    guarantee : Guarantee
        The guarantee, for the others of the first division.

    Examples
    --------
    >>> from metapac import plan_list
    >>> found = plan_list(53, epsilon=0.1, alpha=0.1, delta=0.05)
    >>> found.label, found.divisions[0].may_exceed
    (33, 2)
    """

    listed: int
    divisions: tuple[Division, ...]
    guarantee: Guarantee

    @property
    def label(self) -> int | None:
        """Least number of tasks to draw and label; None if no number is enough."""
        return self.divisions[0].label if self.divisions else None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it, as ``metapac plan --list --json`` prints it.

        Returns
        -------
        dict
            Number of tasks listed, least number to label, and the divisions.
        """
        rows = [division._asdict() for division in self.divisions]
        return {"listed": self.listed, "label": self.label, "divisions": rows}

    def __str__(self) -> str:
        """How many tasks to draw, and what more of them buy."""
        g = self.guarantee
        if not self.divisions:
            levels = f"{keyword('alpha', g.alpha)} and {keyword('delta', g.delta)}"
            lack = (
                f"A list of {count_tasks(self.listed)} is too short for {levels}: however many are"
            )
            return f"{lack} labelled, nothing can be guaranteed for the others."
        first = self.divisions[0]
        others = NewTasks(first.others, first.may_exceed).describe("tasks")
        head = f"Draw {first.label} of the {self.listed} tasks at random, and label at least"
        head += f" {first.examples_per_task} examples in each. The guarantee is then for {others}."
        rows = [{k.replace("_", " "): v for k, v in x._asdict().items()} for x in self.divisions]
        return "\n\n".join([head, format_table(rows), *self._find_gaps()])

    def _find_gaps(self) -> list[str]:
        """Return a warning of numbers of tasks between these that are not enough."""
        gaps = []
        for one, other in itertools.pairwise(self.divisions):
            last = self.listed - math.ceil(one.may_exceed / Fraction(repr(self.guarantee.alpha)))
            if one.may_exceed > other.may_exceed and last + 1 < other.label:
                gaps.append(f"{last + 1} to {other.label - 1}")
        why = "More labels are worse there, because fewer of the others may exceed epsilon."
        return [f"Not enough: {', '.join(gaps)}. {why}"] if gaps else []


def plan_list(
    listed: int,
    *,
    epsilon: float,
    alpha: float,
    delta: float,
    split: Split = "joint",
    classes: int = 1,
    min_examples: int = 0,
    shift: float = 0.0,
    dishonest: int = 0,
    sampling: str = "any",
    randomise: int | None = None,
    allow: Iterable[str] = (),
) -> ListPlan:
    """Return how many tasks of a finite list to draw and label, so that the others are covered.

    Parameters
    ----------
    listed : int
        Number of tasks on the list, such as 53 hospitals.
    epsilon, alpha, delta : float
        The guarantee, as in `Guarantee`: of the m others, ``alpha * m``, rounded down, may exceed
        ``epsilon``.
    split, classes, min_examples, shift, dishonest, sampling, randomise, allow : optional
        As in `plan`; ``shift`` and ``randomise`` are refused for a list, with the reason.

    Returns
    -------
    ListPlan
        The least number, and what other numbers buy.

    Examples
    --------
    >>> from metapac import plan_list
    >>> plan_list(53, epsilon=0.1, alpha=0.1, delta=0.05).divisions[0]
    Division(label=33, others=20, may_exceed=2, examples_per_task=44)
    """
    listed, number = (
        as_whole_number("listed", listed, minimum=2),
        as_whole_number("classes", classes),
    )
    more: Any = {"split": split, "min_examples": min_examples, "per_class": number > 1}
    more |= {"shift": shift, "dishonest": dishonest}
    more |= {"sampling": sampling, "randomise": randomise}
    whole = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, new_tasks=listed - 1, **more)
    check_levels(whole.epsilon, whole.alpha, whole.delta, allow=allow)

    def divide(label: int) -> Division | None:
        g = replace(whole, new_tasks=listed - label).for_class(None, range(number))
        ranks = zip(g.allowed_low_thresholds(label), g.levels, strict=True)
        sizes = [min_task_size(g, level) for rank, level in ranks if rank >= 0]
        of_list = NewTasks.at_most(alpha, listed - label)
        return Division(label, *of_list, min(sizes)) if sizes else None

    found: list[Division] = []
    for start, end in _find_blocks(listed, alpha):
        if len(found) >= _MAX_DIVISIONS:
            break
        if divide(end) is None:
            continue
        # As many others may exceed epsilon: to label one of them too only helps.
        least = min_integer(lambda label: divide(label) is not None, start - 1, end)
        ways = {way.examples_per_task: way for x in (end, least) if (way := divide(x)) is not None}
        found += sorted(ways.values())
    others = found[0].others if found else whole.new_tasks
    return ListPlan(listed, tuple(found), replace(whole, new_tasks=others))


def _find_blocks(listed: int, alpha: float) -> Iterator[tuple[int, int]]:
    """Yield the numbers of tasks to label for which as many of the others may exceed epsilon."""
    start = 1
    while start < listed:
        may_exceed = NewTasks.at_most(alpha, listed - start).may_break
        end = listed - max(1, math.ceil(may_exceed / Fraction(repr(alpha))))
        yield start, end
        start = end + 1


@overload
def plan(*, epsilon: float, alpha: float, delta: float | None, **options: Any) -> Plan: ...
@overload
def plan(*, sizes: Sizes, **options: Any) -> list[Offer]: ...
@_common.reject_foreign_keywords
def plan(
    *,
    epsilon: float | None = None,
    alpha: float | None = None,
    delta: float | EllipsisType | None = ...,
    split: Split = "joint",
    classes: int = 1,
    min_examples: int = 0,
    new_tasks: int | None = None,
    sizes: Sizes | None = None,
    allow: Iterable[str] = (),
    **options: Any,
) -> Plan | list[Offer]:
    """Return what a guarantee needs, and how each split would use your tasks.

    Parameters
    ----------
    epsilon, alpha, delta : float or None, optional
        The guarantee, as in `Guarantee`; with ``delta=None``, a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps.
    classes : int, default 1
        Number of classes, if you will use ``per_class``. All numbers of examples, given and
        returned, are then per class.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with several classes, of the class).
    new_tasks : int, optional
        Number of other tasks in a finite list, as in `Guarantee`; `plan_list` divides a list.
    sizes : array_like of int, or mapping from class to array_like of int, optional
        Number of labelled examples of each task that you have; for several classes, of each class.
    allow : iterable of str, default ()
        Checks to skip, as their messages name them: "levels", if you do mean an epsilon or delta
        above 1/2, or an alpha above 3/4.
    **options : object
        Other parameters of `Guarantee`, such as ``dishonest`` and ``shift``. A plan is made without
        luck: ``randomise`` changes nothing here.

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

    Examples
    --------
    >>> from metapac import plan
    >>> need = plan(epsilon=0.1, alpha=0.1, delta=1e-5)
    >>> need.tasks, need.examples_per_task
    (111, 44)
    >>> plan(epsilon=0.1, alpha=0.1, delta=0.05, sizes=[200] * 60).recommended.nth_lowest[0]
    2
    """
    by_class = sizes if isinstance(sizes, Mapping) else {} if sizes is None else {None: sizes}
    counts = {x: as_whole_numbers("sizes", n, minimum=0).ravel() for x, n in by_class.items()}
    number = max(as_whole_number("classes", classes), len(counts))
    more: Any = {"split": split, "min_examples": min_examples, **options}
    given = {"epsilon": epsilon is not None, "alpha": alpha is not None, "delta": delta is not ...}
    if counts and not any(given.values()) and new_tasks is None:
        return find_offers(counts, classes=number, **more)
    if missing := [name for name, is_given in given.items() if not is_given]:
        raise TypeError(f"plan is missing {' and '.join(missing)}. Pass all levels, or only sizes.")
    more |= {"epsilon": epsilon, "alpha": alpha, "delta": delta, "new_tasks": new_tasks}
    found = _plan_guarantee(number, counts, **more)
    check_levels(found.asked.epsilon, found.asked.alpha, found.asked.delta, allow=allow)
    _ = found.needs  # raises if no number of tasks is enough
    if counts:
        found = replace(found, options=compare_splits(found._demands()[: len(counts)]))
    return found


def _plan_guarantee(
    classes: int = 1, sizes: Mapping[Any, Counts] | None = None, **levels: Any
) -> Plan:
    """Return the plan of a guarantee, without a comparison of options."""
    asked = Guarantee(per_class=classes > 1, **levels)
    return Plan(asked.for_class(None, range(classes)), (), asked, classes, sizes or {})

"""Messages on infeasible guarantees: what is missing, and every remedy that works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metapac import _checks
from metapac.binomial import certifies
from metapac.demands import (
    TRIED,
    Demand,
    beyond_counting,
    fewest_tasks,
    least_size,
    least_tasks,
    least_value,
    least_whole,
    rounded_up,
    single_level,
)
from metapac.guarantee import SPLITS, Split
from metapac.ranks import equal_share

_SHOWN = 3
_WANTED = 0.5  # weaker guarantees are not worth suggesting


def of_tasks(demands: Sequence[Demand], *, trivial: bool = True) -> str:
    """Return what tasks lack for a guarantee, or for a guarantee for each class.

    ``trivial`` is whether keeping every label is one of the options.
    """
    lacking = [each for each in demands if not each.feasible()]
    g, first = demands[0].guarantee, lacking[0]
    what = f"alpha={g.alpha:g}, delta={_delta(demands)}"
    if first.label is None:
        what = f"epsilon={first.guarantee.miss_rate:g}, {what}"
    text = f"{what} cannot be guaranteed with split={g.split!r}"
    if first.label is None:
        text += f": {_Lack(first).reason()}"
    else:
        listed = "; ".join(_Lack(each).reason() for each in lacking[:_SHOWN])
        more = f"; and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        text += f" for {len(lacking)} of {len(demands)} classes: {listed}{more}"
    return f"{text}. {_options(_ways_out(demands, lacking), trivial=trivial)}"


def _delta(demands: Sequence[Demand]) -> str:
    delta = demands[0].guarantee.delta
    return "None" if delta is None else f"{delta * len(demands):g}"


class _Lack:
    """What the tasks of one demand lack, at the level that needs the fewest tasks."""

    def __init__(self, demand: Demand) -> None:
        g = demand.guarantee
        small = [demand.too_small(level) for level in g.levels]
        enough, self.level = fewest_tasks(g, small)
        self.to_add, self.small = enough - demand.tasks, small[self.level]
        certified = least_size(g.miss_rate, g.levels[self.level].alpha_within)
        self.examples = max(certified, g.min_examples)
        self.demand, self.needed = demand, least_tasks(g, self.level)
        self.allowed = g.ranks(demand.tasks)[self.level] if demand.tasks else -1

    @property
    def each(self) -> str:
        """What a task needs, in words."""
        label = self.demand.label
        return f"{self.examples} examples{'' if label is None else f' of class {label!r}'}"

    def reason(self) -> str:
        """Return what is missing; every count in it is one of these tasks."""
        demand, tasks = self.demand, self.demand.tasks
        start = ""
        if demand.label is not None:
            start = f"class {demand.label!r} (epsilon={demand.guarantee.miss_rate:g}): "
        if tasks < self.needed:
            enough = f"{_tasks(self.needed)} with at least {self.each} each"
            there = f"there {'are' if tasks != 1 else 'is'} {_tasks(tasks)}"
            few = f", {self.small} of them smaller" if self.small else ""
            return f"{start}this takes {enough}, but {there}{few}{self._left_out()}"
        least = int(demand.sizes[demand.used].min())
        smallest = f" (the smallest has {least})" if demand.known else ""
        most = f"at most {self.allowed} may" if self.allowed >= 0 else "that is too many"
        return (
            f"{start}{self.small} of the {_tasks(tasks)} have fewer than {self.each}{smallest}, "
            f"but {most}{self._left_out()}"
        )

    def _left_out(self) -> str:
        count, least = self.demand.left_out, self.demand.guarantee.min_examples
        return f" ({count} more are left out by min_examples={least})" if count else ""

    def remedies(self) -> list[str]:
        """Return how many tasks to add, and how many to make larger."""
        found = [f"add {_tasks(self.to_add)} with at least {self.each} each"]
        if self.allowed >= 0:
            count = self.small - self.allowed
            found.append(f"increase {count} of the small tasks to {self.each} each")
        elif self.small and self.demand.tasks < self.needed:
            more = _tasks(self.needed - self.demand.tasks)
            found.append(f"increase the small tasks to {self.each} each and add {more}")
        return found


def _ways_out(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return the remedies: first those without new data, then more data, then weaker guarantees.

    A remedy that would not work is left out.
    """
    found = [*_other_split(demands), *_larger_tasks(demands)]
    if demands[0].guarantee.delta is not None and _works(demands, delta=None):
        found.append("use delta=None, a weaker guarantee that holds on average over calibrations")
    found += _fewer_classes(demands, lacking)
    found += _more_data(demands, lacking)
    return found + _weaker(demands)


def _more_data(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add, and if only one class lacks data, how many to make larger."""
    own = _Lack(lacking[0]).remedies() if len(lacking) == 1 else []
    return own if len(demands) == 1 else [*_more_tasks(demands, lacking), *own[1:]]


def _more_tasks(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add, large enough for every class at every level."""
    rates = [(each.guarantee.miss_rate, each.guarantee.levels[0].alpha_within) for each in demands]
    least = demands[0].guarantee.min_examples
    examples = max(least, *(least_size(*rate) for rate in rates))
    fewest = max(_Lack(each).to_add for each in lacking)
    for count in range(fewest, fewest + TRIED):
        if all(each.with_tasks(count, examples).feasible() for each in demands):
            return [f"add {_tasks(count)} with at least {examples} examples of each class"]
    return []


def _weaker(demands: Sequence[Demand]) -> list[str]:
    """Return the weaker guarantees that these tasks can carry, one parameter at a time."""
    rates = {each.guarantee.miss_rate for each in demands}
    parameters = ["epsilon"] * (len(rates) == 1) + ["alpha"]
    parameters += ["delta"] * (demands[0].guarantee.delta is not None)
    found = {name: _carried(demands, name) for name in parameters}
    each = " for every class" if len(demands) > 1 else ""
    return [
        f"settle for {name}={value:g}{each if name == 'epsilon' else ''}"
        for name, value in found.items()
        if value is not None
    ]


def _carried(demands: Sequence[Demand], name: str) -> float | None:
    """Return the smallest value that these tasks can carry, rounded as it is shown.

    With several levels a larger value may be infeasible where a smaller one is feasible: the rank
    of one level may fall while those of others rise.
    """

    def works(value: float) -> bool:
        share = equal_share(value, len(demands)) if name == "delta" else value
        return _works(demands, **{name: share})

    least = least_value(works, demands[0].tolerance)
    shown = _WANTED + 1 if least is None else rounded_up(least)
    while shown <= _WANTED and not works(shown):
        shown = rounded_up(shown * 1.001)
    return shown if shown <= _WANTED else None


def _works(demands: Sequence[Demand], **changes: Any) -> bool:
    return all(each.with_(**changes).feasible() for each in demands)


def _other_split(demands: Sequence[Demand]) -> list[str]:
    named = [each for each in SPLITS if each != demands[0].guarantee.split]
    found: Split | None = next((each for each in named if _works(demands, split=each)), None)
    found = single_level(demands) if found is None else found
    return [] if found is None else [f"use split={found!r}, which gives the same guarantee"]


def _larger_tasks(demands: Sequence[Demand]) -> list[str]:
    """Return a ``min_examples`` that works, and which tasks are then covered.

    It is the least of those tried that are larger than now, or the greatest that are smaller.
    """
    now = demands[0].guarantee.min_examples
    sizes = sorted({0, *(int(size) + 1 for each in demands for size in each.sizes)})
    some = sizes[:: max(1, len(sizes) // TRIED)]
    tried = [x for x in some if x > now] + [x for x in reversed(some) if x < now]
    least = next((size for size in tried if _works(demands, min_examples=size)), None)
    if least is None:
        return []
    whose = "" if demands[0].label is None else " of the class"
    left = [each.with_(min_examples=least).tasks for each in demands]
    count = str(left[0]) if len(demands) == 1 else f"at least {min(left)}"
    everything = _tasks(demands[0].tasks + demands[0].left_out)
    scope = f" and covers only new tasks with at least {least} examples{whose}" if least else ""
    return [f"use min_examples={least}, which keeps {count} of the {everything}{scope}"]


def _fewer_classes(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return the classes to merge into others, if the other classes are then feasible."""
    # Compared by identity: arrays inside make == ambiguous.
    rest = [each for each in demands if not any(each is other for other in lacking)]
    if len(rest) < 2:
        return []
    share = demands[0].guarantee.delta
    if share is not None:
        share *= len(demands) / len(rest)
    if not _works(rest, delta=share):
        return []
    names = ", ".join(repr(each.label) for each in lacking[:_SHOWN])
    more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
    return [f"merge {names}{more} into another class"]


def of_examples(epsilon: float, delta: float, n: int) -> str:
    """Return what an infeasible ``PS`` lacks, and which guarantees its n examples can carry."""
    need = least_size(epsilon, delta)
    best = {
        "epsilon": least_value(lambda value: bool(certifies(0, n, value, delta))),
        "delta": least_value(lambda value: bool(certifies(0, n, epsilon, value))),
    }
    add = f"add {need - n} example{'s' if need - n != 1 else ''}"
    return (
        f"epsilon={epsilon:g}, delta={delta:g} cannot be guaranteed: this takes {need} "
        f"examples, but there are {n}. {_options([add, *_cheaper(best)])}"
    )


def of_average(
    epsilon: float,
    delta: float,
    tasks: int,
    works: Callable[[float, float, int], bool],
    each: str = "",
) -> str:
    """Return what an infeasible guarantee on average over tasks lacks.

    ``works(epsilon, delta, tasks)`` says whether the guarantee is feasible; ``each`` describes
    what every task must have.
    """
    high = tasks + 1
    while not works(epsilon, delta, high):
        high *= 2
        if high > _checks.LARGEST_COUNT:
            raise beyond_counting(epsilon, delta)
    high = least_whole(lambda count: works(epsilon, delta, count), tasks, high)
    best = {
        "epsilon": least_value(lambda value: works(value, delta, tasks)),
        "delta": least_value(lambda value: works(epsilon, value, tasks)),
    }
    return (
        f"epsilon={epsilon:g}, delta={delta:g} cannot be guaranteed on average over tasks: "
        f"this takes {_tasks(high)}{each}, but there {'are' if tasks != 1 else 'is'} "
        f"{_tasks(tasks)}. {_options([f'add {_tasks(high - tasks)}{each}', *_cheaper(best)])}"
    )


def _tasks(count: int) -> str:
    return f"{count} task{'s' if count != 1 else ''}"


def _cheaper(best: Mapping[str, float | None]) -> list[str]:
    """Return the guarantees that the data can carry, without those too weak to suggest."""
    rounded = {name: rounded_up(value) for name, value in best.items() if value}
    return [f"settle for {name}={value:g}" for name, value in rounded.items() if value <= _WANTED]


def _options(remedies: list[str], *, trivial: bool = True) -> str:
    keep_all = ["pass on_infeasible='trivial' to keep every label"] if trivial else []
    found = "; or ".join([*remedies, *keep_all])
    return f"Options: {found}." if found else "Nothing else that was tried works."

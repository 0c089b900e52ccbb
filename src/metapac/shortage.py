"""What an infeasible guarantee lacks, and every way out that works, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metapac import _checks
from metapac.binomial import certifies
from metapac.demands import (
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

_TRIED = 40
_SHOWN = 3
_WANTED = 0.5  # nobody would want a guarantee of more


def of_tasks(demands: Sequence[Demand]) -> str:
    """Return what some tasks lack for a guarantee, or for one guarantee for each class."""
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
    return f"{text}. {_either(_ways_out(demands, lacking))}"


def _delta(demands: Sequence[Demand]) -> str:
    delta = demands[0].guarantee.delta
    return "None" if delta is None else f"{delta * len(demands):g}"


class _Lack:
    """What the tasks of one demand lack, at the level where they lack the fewest."""

    def __init__(self, demand: Demand) -> None:
        g = demand.guarantee
        small = [demand.too_small(level) for level in g.levels]
        enough, self.level = fewest_tasks(g, small)
        self.to_add, self.small = enough - demand.tasks, small[self.level]
        self.examples = least_size(g.miss_rate, g.levels[self.level].alpha_within)
        self.demand, self.needed = demand, least_tasks(g, self.level)
        self.allowed = g.ranks(demand.tasks)[self.level] if demand.tasks else -1

    @property
    def each(self) -> str:
        """What a task needs, in words."""
        label = self.demand.label
        return f"{self.examples} examples{'' if label is None else f' of class {label!r}'}"

    def reason(self) -> str:
        """Return what is missing; every count in it is one of these tasks."""
        tasks, label = self.demand.tasks, self.demand.label
        start = "" if label is None else f"class {label!r}: "
        if self.allowed < 0:
            enough = f"at least {_tasks(self.needed)} with at least {self.each}"
            there = f"there {'are' if tasks != 1 else 'is'} {_tasks(tasks)}"
            few = f", {self.small} of them smaller" if self.small else ""
            return f"{start}it takes {enough}, and {there}{few}"
        least = int(self.demand.sizes.min())
        smallest = f" (the smallest has {least})" if self.demand.known else ""
        return (
            f"{start}{self.small} of the {_tasks(tasks)} have fewer than {self.each}{smallest}, "
            f"and at most {self.allowed} may"
        )

    def remedies(self) -> list[str]:
        """Return how many tasks to add, and how many to make larger."""
        found = [f"add {_tasks(self.to_add)} with at least {self.each}"]
        if self.allowed >= 0:
            found.append(f"bring {self.small - self.allowed} of the small ones to {self.each}")
        elif self.small:
            more = _tasks(self.needed - self.demand.tasks)
            found.append(f"bring the small ones to {self.each} and add {more}")
        return found


def _ways_out(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return what would work: first what costs no data, then data, then weaker guarantees."""
    found = [*_other_split(demands), *_larger_tasks(demands)]
    if demands[0].guarantee.delta is not None and _works(demands, delta=None):
        found.append("use delta=None, a weaker guarantee that holds on average over calibrations")
    found += _fewer_classes(demands, lacking)
    found += _more_data(demands, lacking)
    return found + _weaker(demands)


def _more_data(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add, and how many to make larger where one class lacks them."""
    own = _Lack(lacking[0]).remedies() if len(lacking) == 1 else []
    return own if len(demands) == 1 else [*_more_tasks(demands, lacking), *own[1:]]


def _more_tasks(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add, large enough for every class at every level."""
    examples = max(
        least_size(each.guarantee.miss_rate, each.guarantee.levels[0].alpha_within)
        for each in demands
    )
    fewest = max(_Lack(each).to_add for each in lacking)
    for count in range(fewest, fewest + _TRIED):
        if all(each.with_tasks(count, examples).feasible() for each in demands):
            return [f"add {_tasks(count)} with at least {examples} examples of each class"]
    return []


def _weaker(demands: Sequence[Demand]) -> list[str]:
    """Return the weaker guarantees that these tasks can carry, one parameter at a time."""
    rates = {each.guarantee.miss_rate for each in demands}
    parameters = ["epsilon"] * (len(rates) == 1) + ["alpha"]
    parameters += ["delta"] * (demands[0].guarantee.delta is not None)
    found = {name: _carried(demands, name) for name in parameters}
    return [f"guarantee {name}={value:g}" for name, value in found.items() if value is not None]


def _carried(demands: Sequence[Demand], name: str) -> float | None:
    """Return the smallest value that these tasks can carry, of the digits that are shown.

    With several levels a larger value may be infeasible where a smaller one is not: ranks of one
    level may fall while those of others rise.
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
    return [] if found is None else [f"use split={found!r}, which carries the same guarantee"]


def _larger_tasks(demands: Sequence[Demand]) -> list[str]:
    """Return the least ``min_examples`` that works, and which tasks it then covers."""
    sizes = sorted({int(size) + 1 for each in demands for size in each.sizes})
    some = sizes[:: max(1, len(sizes) // _TRIED)]
    least = next((size for size in some if _works(demands, min_examples=size)), None)
    if least is None:
        return []
    whose = "" if demands[0].label is None else " of the class"
    left = [each.with_(min_examples=least).tasks for each in demands]
    count = str(left[0]) if len(demands) == 1 else f"at least {min(left)}"
    return [
        f"use min_examples={least}, which keeps {count} of the {demands[0].tasks} tasks and covers "
        f"only new tasks with at least {least} examples{whose}"
    ]


def _fewer_classes(demands: Sequence[Demand], lacking: Sequence[Demand]) -> list[str]:
    """Return the classes to merge with others, if the rest could then have their guarantees."""
    # By identity: the arrays in them have no single truth value to compare.
    rest = [each for each in demands if not any(each is other for other in lacking)]
    if not rest:
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
    """Return what an infeasible ``PS`` lacks and what its n examples could carry."""
    need = least_size(epsilon, delta)
    best = {
        "epsilon": least_value(lambda value: bool(certifies(0, n, value, delta))),
        "delta": least_value(lambda value: bool(certifies(0, n, epsilon, value))),
    }
    add = f"add {need - n} example{'s' if need - n != 1 else ''}"
    return (
        f"epsilon={epsilon:g}, delta={delta:g} cannot be guaranteed: it takes at least {need} "
        f"examples, and there are {n}. {_either([add, *_cheaper(best)])}"
    )


def of_average(
    epsilon: float,
    delta: float,
    tasks: int,
    works: Callable[[float, float, int], bool],
    each: str = "",
) -> str:
    """Return what an infeasible guarantee on average over tasks lacks.

    ``works`` tells whether such an epsilon and delta can be guaranteed with so many tasks,
    ``each`` what is asked of a task.
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
        f"epsilon={epsilon:g}, delta={delta:g} cannot be guaranteed on average over tasks: it "
        f"takes {_tasks(high)}{each}, and there {'are' if tasks != 1 else 'is'} {_tasks(tasks)}. "
        f"{_either([f'add {_tasks(high - tasks)}{each}', *_cheaper(best)])}"
    )


def _tasks(count: int) -> str:
    return f"{count} task{'s' if count != 1 else ''}"


def _cheaper(best: Mapping[str, float | None]) -> list[str]:
    """Return the guarantees that the data can carry, less those that nobody would want."""
    rounded = {name: rounded_up(value) for name, value in best.items() if value}
    return [f"guarantee {name}={value:g}" for name, value in rounded.items() if value <= _WANTED]


def _either(remedies: list[str]) -> str:
    keep_all = "pass on_infeasible='trivial' to keep every label"
    if not remedies:
        return f"P{keep_all[1:]}."
    return f"Either {', or '.join([*remedies, keep_all])}."

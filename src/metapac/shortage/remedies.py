"""Remedies: what makes a guarantee feasible, each of them tried before it is suggested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metapac._checks import listed
from metapac.bisection import min_value, round_up
from metapac.demands import MAX_TRIED, Demand, find_single_level
from metapac.exceptions import Message, Parameter
from metapac.guarantee import SPLITS, Split
from metapac.ranks import equal_share
from metapac.sample_size import min_task_size
from metapac.shortage._words import SHOWN_CLASSES, count_tasks
from metapac.shortage.shortfall import Shortfall

WEAKEST = 0.5  # guarantees with larger parameters are not worth suggesting


def find_remedies(demands: Sequence[Demand], infeasible: Sequence[Demand]) -> list[str | Message]:
    """Return what works: first without new data, then with more data, then weaker guarantees.

    Parameters
    ----------
    demands : sequence of Demand
        One demand, or one for each class.
    infeasible : sequence of Demand
        Those that are infeasible.

    Returns
    -------
    list of str or Message
        The remedies.
    """
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
            count_tasks(demands[0].tasks + demands[0].left_out),
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
    names = listed([repr(demand.label) for demand in infeasible], shown=SHOWN_CLASSES)
    return [f"merge {names} into another class"]


def _more_data(demands: Sequence[Demand], infeasible: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add and, if only one class lacks data, how many to enlarge."""
    remedies = Shortfall(infeasible[0]).remedies() if len(infeasible) == 1 else []
    return remedies if len(demands) == 1 else [*_more_tasks(demands, infeasible), *remedies[1:]]


def _more_tasks(demands: Sequence[Demand], infeasible: Sequence[Demand]) -> list[str]:
    """Return how many tasks to add, and the fewest examples of each class that they need."""
    sizes = {
        min_task_size(g, level)
        for g in (demand.guarantee for demand in demands)
        for level in g.levels
    }

    def works(count: int, examples: int) -> bool:
        return all(demand.with_tasks(count, examples).is_feasible() for demand in demands)

    largest = max((Shortfall(demand) for demand in infeasible), key=lambda one: one.to_add)
    for count in range(largest.to_add, largest.to_add + MAX_TRIED):
        if works(count, max(sizes)):
            examples = next(size for size in sorted(sizes) if works(count, size))
            added = f"add {count_tasks(count)} with at least {examples} examples of each class"
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
    shown = WEAKEST + 1 if smallest is None else round_up(smallest)
    while shown <= WEAKEST and not works(shown):
        shown = round_up(shown * 1.001)
    return shown if shown <= WEAKEST else None


def _works(demands: Sequence[Demand], **changes: Any) -> bool:
    return all(demand.with_parameters(**changes).is_feasible() for demand in demands)

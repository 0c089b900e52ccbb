"""What a promise needs, and what some data can buy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks
from metapac.binomial import allowed_errors, certifies
from metapac.guarantee import Guarantee, Level, Split


class Affordable(NamedTuple):
    """The smallest each parameter can be with some data, the other two held; None if it cannot."""

    epsilon: float | None
    alpha: float | None
    delta: float | None


class Curve(NamedTuple):
    """Least tasks and least examples per task along one parameter of the promise."""

    parameter: str
    values: NDArray[np.float64]
    tasks: NDArray[np.int64]
    examples_per_task: NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """What ``guarantee`` needs at the least: ``tasks`` of ``examples_per_task`` each."""

    guarantee: Guarantee
    tasks: int
    examples_per_task: int
    level: Level

    @property
    def labels(self) -> int:
        return self.tasks * self.examples_per_task

    def affordable(self, tasks: int, examples_per_task: int) -> Affordable:
        """Return the best epsilon, alpha and delta, one at a time, that the given data can buy."""
        count = _checks.whole_number("tasks", tasks)
        size = _checks.whole_number("examples_per_task", examples_per_task)
        return affordable(self.guarantee, np.array([size]), np.array([count]))

    def curve(self, parameter: str = "alpha", values: ArrayLike | None = None) -> Curve:
        """Return what is needed along ``parameter``: epsilon, alpha, delta or split.

        Along ``split`` it is the trade-off between many small tasks and few large ones.
        """
        _checks.one_of("parameter", parameter, tuple(_GRIDS))
        grid = np.array(_GRIDS[parameter] if values is None else values, dtype=float, ndmin=1)
        _checks.flat("values", grid)
        plans = [_plan(replace(self.guarantee, **{parameter: float(value)})) for value in grid]
        return Curve(
            parameter,
            grid,
            np.array([each.tasks for each in plans]),
            np.array([each.examples_per_task for each in plans]),
        )

    def __str__(self) -> str:
        options = [_plan_at(self.guarantee, level) for level in self.guarantee.levels]
        needed = ", or ".join(
            f"at least {each.tasks} tasks with at least {each.examples_per_task} labelled examples "
            f"each ({each.labels} labels in all)"
            for each in options
        )
        return f"It takes {needed} to promise: {self.guarantee}"


_GRIDS = {
    "epsilon": np.geomspace(0.01, 0.5, 60),
    "alpha": np.geomspace(0.01, 0.5, 60),
    "delta": np.geomspace(1e-12, 0.5, 60),
    "split": np.linspace(0.01, 0.95, 95),
}


@_checks.own_words
def plan(*, epsilon: float, alpha: float, delta: float, split: Split = "tight") -> Plan:
    """Return the least number of tasks, and of examples in each, that can carry the promise.

    The adaptive split has several ways to be feasible; the plan is the one with fewest tasks.
    """
    return _plan(Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split))


def _plan(guarantee: Guarantee) -> Plan:
    options = [_plan_at(guarantee, level) for level in guarantee.levels]
    return min(options, key=lambda option: (option.tasks, option.labels))


def _plan_at(guarantee: Guarantee, level: Level) -> Plan:
    return Plan(
        guarantee,
        tasks=least_size(level.alpha_across, level.delta),
        examples_per_task=least_size(guarantee.epsilon, level.alpha_within),
        level=level,
    )


def least_size(epsilon: float, delta: float, errors: int = 0) -> int:
    """Return the least n of which ``errors`` may be wrong and still certify ``epsilon``."""
    guess = math.log(delta) / math.log1p(-epsilon)  # the answer where no error is allowed
    if guess > _checks.LARGEST_COUNT:
        raise _beyond_counting(epsilon, delta)
    high = max(errors + 1, math.ceil(guess))
    while not certifies(errors, high, epsilon, delta):
        high *= 2
    low = errors  # as many errors as examples certify nothing
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if certifies(errors, middle, epsilon, delta) else (middle, high)
    return high


def _beyond_counting(epsilon: float, delta: float) -> ValueError:
    return ValueError(
        f"a rate of {epsilon:g} at confidence 1 - {delta:g} needs more than 2**53 examples or "
        "tasks. Promise a larger epsilon, alpha or delta."
    )


def too_small(
    epsilon: float, level: Level, sizes: NDArray[np.int64], counts: NDArray[np.int64]
) -> int:
    """Return how many tasks cannot certify ``epsilon`` at this level, ``counts`` of each size."""
    return int(counts[~certifies(0, sizes, epsilon, level.alpha_within)].sum())


def feasible(guarantee: Guarantee, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> bool:
    """Return whether ``counts`` tasks of each of the ``sizes`` can carry the promise."""
    return any(
        bool(
            certifies(
                too_small(guarantee.epsilon, level, sizes, counts),
                counts.sum(),
                level.alpha_across,
                level.delta,
            )
        )
        for level in guarantee.levels
    )


def affordable(
    guarantee: Guarantee, sizes: NDArray[np.int64], counts: NDArray[np.int64]
) -> Affordable:
    """Return the best promise, one parameter at a time, of ``counts`` tasks of each size."""

    def least(name: str) -> float | None:
        return least_value(
            lambda value: feasible(replace(guarantee, **{name: value}), sizes, counts)
        )

    return Affordable(least("epsilon"), least("alpha"), least("delta"))


def least_value(works: Callable[[float], bool]) -> float | None:
    """Return the least value in (0, 1) that works, of a promise that only gets easier."""
    low, high = 0.0, math.nextafter(1.0, 0.0)
    if not works(high):
        return None
    while high - low > 1e-15 * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def shortage(
    guarantee: Guarantee, sizes: NDArray[np.int64], counts: NDArray[np.int64], *, said: bool
) -> str:
    """Return in words what an infeasible promise lacks and what the data could carry instead.

    ``said`` is whether the sizes are those of the tasks, not only told by their thresholds.
    """
    tasks = int(counts.sum())
    options = [_Missing(guarantee, level, sizes, counts) for level in guarantee.levels]
    missing = min(options, key=lambda option: option.tasks_to_add)
    need, small, least = missing.need, missing.small, int(sizes.min())
    text = (
        f"epsilon={guarantee.epsilon:g}, alpha={guarantee.alpha:g}, delta={guarantee.delta:g} "
        f"cannot be promised with split={guarantee.split!r}: it needs at least {need.tasks} tasks "
        f"with at least {need.examples_per_task} examples each, and there "
        f"{'are' if tasks != 1 else 'is'} {_tasks(tasks)}"
    )
    if small:
        short = f" (the smallest has {least}, {need.examples_per_task - least} too few)"
        text += f", {small} of them too small{short if said else ''}"
    best = affordable(guarantee, sizes, counts)
    return f"{text}. {_either([*missing.remedies(), *_cheaper(best._asdict())])}"


class _Missing:
    """What some tasks lack at one level."""

    def __init__(
        self,
        guarantee: Guarantee,
        level: Level,
        sizes: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> None:
        self.need = _plan_at(guarantee, level)
        self.tasks = int(counts.sum())
        self.small = too_small(guarantee.epsilon, level, sizes, counts)
        enough = least_size(level.alpha_across, level.delta, errors=self.small)
        self.tasks_to_add = enough - self.tasks
        self.allowed = allowed_errors(self.tasks, level.alpha_across, level.delta)

    def remedies(self) -> list[str]:
        examples = self.need.examples_per_task
        found = [f"add {_tasks(self.tasks_to_add)} with at least {examples} examples"]
        if self.allowed >= 0:
            found.append(f"bring {self.small - self.allowed} of the small ones to {examples}")
        elif self.small:
            more = _tasks(self.need.tasks - self.tasks)
            found.append(f"bring the small ones to {examples} and add {more}")
        return found


def _tasks(count: int) -> str:
    return f"{count} task{'s' if count != 1 else ''}"


def _cheaper(best: Mapping[str, float | None]) -> list[str]:
    """Return the promises that the data can carry, less those that nobody would want."""
    rounded = {name: rounded_up(value) for name, value in best.items() if value}
    return [f"promise {name}={value:g}" for name, value in rounded.items() if value <= 0.5]


def rounded_up(value: float, digits: int = 3) -> float:
    """Return ``value`` with so many significant digits, never smaller than it was."""
    near = float(f"{value:.{digits}g}")
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return near if near >= value else float(f"{near + step:.{digits}g}")


def _either(remedies: list[str]) -> str:
    keep_all = "pass on_infeasible='trivial' to keep every label"
    return f"Either {', or '.join([*remedies, keep_all])}."


def pooled_shortage(epsilon: float, delta: float, n: int) -> str:
    """Return in words what an infeasible ``PS`` lacks and what its n examples could carry."""
    need = least_size(epsilon, delta)
    best = {
        "epsilon": least_value(lambda value: bool(certifies(0, n, value, delta))),
        "delta": least_value(lambda value: bool(certifies(0, n, epsilon, value))),
    }
    add = f"add {need - n} example{'s' if need - n != 1 else ''}"
    return (
        f"epsilon={epsilon:g}, delta={delta:g} cannot be promised: it needs at least {need} "
        f"examples, and there are {n}. {_either([add, *_cheaper(best)])}"
    )


def average_shortage(
    epsilon: float,
    delta: float,
    tasks: int,
    works: Callable[[float, float, int], bool],
    each: str = "",
) -> str:
    """Return in words what an infeasible promise on average over tasks lacks.

    ``works`` tells whether such an epsilon and delta can be promised with so many tasks, ``each``
    what is asked of a task.
    """
    high = tasks + 1
    while not works(epsilon, delta, high):
        high *= 2
        if high > _checks.LARGEST_COUNT:
            raise _beyond_counting(epsilon, delta)
    low = tasks
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(epsilon, delta, middle) else (middle, high)
    best = {
        "epsilon": least_value(lambda value: works(value, delta, tasks)),
        "delta": least_value(lambda value: works(epsilon, value, tasks)),
    }
    return (
        f"epsilon={epsilon:g}, delta={delta:g} cannot be promised on average over tasks: it needs "
        f"{_tasks(high)}{each}, and there {'are' if tasks != 1 else 'is'} {_tasks(tasks)}. "
        f"{_either([f'add {_tasks(high - tasks)}{each}', *_cheaper(best)])}"
    )

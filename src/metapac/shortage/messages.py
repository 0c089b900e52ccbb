"""Messages of ``InfeasibleGuarantee``: what was asked, what is missing, and the options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metapac._checks import LARGEST_COUNT
from metapac.binomial import certifies
from metapac.bisection import min_integer, min_value, round_up
from metapac.clusters import Clusters
from metapac.demands import Demand
from metapac.exceptions import Message, Parameter
from metapac.sample_size import min_sample_size, sample_size_overflow
from metapac.shortage._words import SHOWN_CLASSES, are_tasks, count_tasks, rounded
from metapac.shortage.remedies import WEAKEST, find_remedies
from metapac.shortage.shortfall import Shortfall


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
    asked = [rounded("alpha", g.alpha), Parameter("delta", delta)]
    if first.label is None:
        asked.insert(0, rounded("epsilon", first.guarantee.miss_rate))
        reason = Message(": {}", Shortfall(first).reason())
    else:
        count, shown = len(infeasible), infeasible[:SHOWN_CLASSES]
        reasons = Message.join("; ", [Shortfall(one).reason() for one in shown])
        more = f"; and {count - SHOWN_CLASSES} more" if count > SHOWN_CLASSES else ""
        reason = Message(" for {} of {} classes: {}{}", count, len(demands), reasons, more)
    options = _options(find_remedies(demands, infeasible), trivial, is_interval)
    what = Message.join(", ", asked), Parameter("split", g.split), reason, options
    return Message("{} cannot be guaranteed with {}{}. {}", *what)


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
        count_tasks(clusters.tasks),
    )


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
    takes = f" on average over tasks: this takes {count_tasks(needed)}{condition}"
    lack = f"{takes}, but there {are_tasks(tasks)}"
    add = f"add {count_tasks(needed - tasks)}{condition}"
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
    weaker = [Message("settle for {}", level) for level in shown if level.value <= WEAKEST]
    asked = rounded("epsilon", epsilon), rounded("delta", delta)
    return Message("{}, {} cannot be guaranteed{}. {}", *asked, lack, _options([add, *weaker]))


def _options(
    remedies: Sequence[str | Message], trivial: bool = True, is_interval: bool = False
) -> Message:
    """Return remedies as the end of a message."""
    if trivial:
        result = "for intervals of infinite width" if is_interval else "to keep every label"
        keep_all = Message("pass {} {}", Parameter("on_infeasible", "trivial"), result)
        remedies = [*remedies, keep_all]
    if not remedies:
        return Message("Nothing else that was tried works.")
    return Message("Options: {}.", Message.join("; or ", remedies))

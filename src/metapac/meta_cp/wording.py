"""The guarantee of Meta-CP in words, and what infeasible tasks lack."""

from __future__ import annotations

import numpy as np

from metapac import shortage
from metapac.exceptions import Message
from metapac.meta_cp.corrections import find_correction
from metapac.sentences import BALANCED, SAMPLED, percent


def describe_guarantee(
    over: str, epsilon: float, delta: float, *, tasks: int, offset: float
) -> str:
    """Return the guarantee of `MetaCP`, which covers the average over tasks but no single task.

    Parameters
    ----------
    over : {"tasks", "examples"}
        Whether ``delta`` covers the draw of tasks and examples, or of examples alone.
    epsilon : float
        Average miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    tasks : int
        Number of calibration tasks.
    offset : float
        Calibrated offset of the quantiles, called lambda.

    Returns
    -------
    str
        The sentence.
    """
    sets = f"the sets {{label: score >= -(quantile + {offset!r})}}"
    rate = f"miss the true label at most {percent(epsilon)} of the time on average over"
    if over == "tasks":
        claim = f"the {tasks} calibration tasks and their examples, {sets} {rate} new tasks"
    else:
        claim = (
            f"the examples of the {tasks} calibration tasks, {sets} are at least as large as sets "
            f"that {rate} the draw of the calibration tasks and of a new one"
        )
    return (
        f"With confidence {percent(delta, complement=True)} over the draw of {claim}; this is no "
        "guarantee for each task; it holds provided that tasks are drawn i.i.d. from one "
        f"distribution, {SAMPLED}{BALANCED}, that no calibration task was seen in training, and "
        "that the same fixed score function and quantile predictor are used for all tasks."
    )


def explain_shortage(over: str, epsilon: float, delta: float, tasks: int, min_size: int) -> Message:
    """Return what infeasible tasks lack, and which guarantees they support.

    Parameters
    ----------
    over : {"tasks", "examples"}
        Whether ``delta`` covers the draw of tasks and examples, or of examples alone.
    epsilon : float
        Average miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    tasks : int
        Number of calibration tasks.
    min_size : int
        Number of examples of the smallest task.

    Returns
    -------
    Message
        What is missing, followed by the remedies that work.
    """

    def works(epsilon: float, delta: float, tasks: int) -> bool:
        sizes, counts = np.array([min_size]), np.array([tasks])
        return find_correction(over, epsilon, delta, sizes, counts).leaves_room(epsilon, tasks)

    plural = "s" if min_size > 1 else ""
    condition = "" if over == "tasks" else f" with at least {min_size} example{plural}"
    return shortage.explain_too_few_tasks_on_average(epsilon, delta, tasks, works, condition)

"""What to expect from calibration: the least number of tasks, and the threshold."""

from __future__ import annotations

import math

import numpy as np

from metapac._types import Floats
from metapac.guarantee import Guarantee, Split
from metapac.sample_size import min_tasks_over_levels


def least_tasks(
    alpha: float, delta: float | None, classes: int = 1, *, split: Split = "joint"
) -> int:
    """Return the smallest number of calibration tasks, if each is large enough.

    Parameters
    ----------
    alpha : float
        Fraction of new tasks that may exceed the miss rate.
    delta : float or None
        Failure probability of the guarantee.
    classes : int, default 1
        Number of classes with a guarantee each.
    split : {"joint", "tight", "even"} or float, default "joint"
        How alpha is shared between the two steps.

    Returns
    -------
    int
        Number of tasks.

    Examples
    --------
    >>> from metapac.pilot import least_tasks
    >>> least_tasks(0.1, 0.05), least_tasks(0.1, None)
    (29, 10)
    """
    whole = Guarantee(epsilon=0.5, alpha=alpha, delta=delta, split=split)
    part = whole.for_class(None, range(classes))
    return min_tasks_over_levels(part, [0] * len(part.levels))[0]


def expected_thresholds(
    thresholds: Floats, guarantee: Guarantee, tasks: int
) -> tuple[float, Floats]:
    """Return the threshold to expect from calibration, and that without each task in turn.

    Calibration on N tasks returns the (k + 1)-th lowest of N task thresholds. A share of
    (k + 1) / (N + 1) of all tasks lie at or below it, on average; the threshold expected is the
    one with that share of the pilot tasks, and never below the lowest of them.

    Parameters
    ----------
    thresholds : ndarray, shape (tasks, levels)
        Threshold within each pilot task, at least two, at the levels of the guarantee.
    guarantee : Guarantee
        The guarantee, of one class or of all together.
    tasks : int
        Number of calibration tasks.

    Returns
    -------
    threshold : float
        From all pilot tasks; ``-inf`` if so few calibration tasks support nothing.
    without : ndarray, shape (tasks,)
        From all pilot tasks but one.
    """
    count = len(thresholds)
    best, without = -math.inf, np.full(count, -math.inf)
    for level, allowed in enumerate(guarantee.allowed_low_thresholds(tasks)):
        if allowed < 0:
            continue
        share = (allowed + 1) / (tasks + 1)
        own, ordered = thresholds[:, level], np.sort(thresholds[:, level])
        best = max(best, float(ordered[_place(share, count)]))
        place = _place(share, count - 1)
        removed = np.where(own <= ordered[place], ordered[place + 1], ordered[place])
        without = np.maximum(without, removed)
    return best, without


def _place(share: float, count: int) -> int:
    """Return which of ``count`` sorted values has a share of them at or below it."""
    return min(max(round(share * (count + 1)) - 1, 0), count - 1)

"""The effect of few tasks and few examples on an evaluation.

The error of a task is observed on its test examples and differs from its true miss rate by chance.
So the observed error of a task may exceed epsilon although its miss rate does not, and a draw with
few tasks may look worse, or better, than its threshold is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._types import Array
from metapac.evaluation.rows import Rows
from metapac.verdict.intervals import clopper_pearson_interval

LEVEL = 0.05  # of a single task, as in metapac.verdict


def allowed_tasks(tasks: int, alpha: float) -> int:
    """Return the largest number of tasks above epsilon whose share is at most alpha.

    Parameters
    ----------
    tasks : int
        Number of tasks.
    alpha : float
        Share of tasks that may be above epsilon.

    Returns
    -------
    int
        The number m with m / tasks <= alpha < (m + 1) / tasks, divisions rounded as doubles.
    """
    allowed = int(alpha * tasks)
    while (allowed + 1) / tasks <= alpha:
        allowed += 1
    while allowed / tasks > alpha:
        allowed -= 1
    return allowed


def error_quantile(errors: Array, alpha: float) -> float:
    """Return the (1 - alpha) quantile of errors, as the inverse of their distribution function.

    Parameters
    ----------
    errors : ndarray, shape (n,)
        Errors.
    alpha : float
        Share of errors that may lie above.

    Returns
    -------
    float
        The smallest error that at most a share ``alpha`` of the errors exceeds. So it is at most
        epsilon if and only if at most a share ``alpha`` of the errors is above epsilon.
    """
    at = len(errors) - 1 - allowed_tasks(len(errors), alpha)
    return float(np.partition(errors, at)[at])


def flag_tasks(rows: Rows, epsilon: float) -> NDArray[np.bool_]:
    """Return which tasks have a miss rate significantly above epsilon, at level 0.05.

    Parameters
    ----------
    rows : Rows
        Results of an evaluation.
    epsilon : float
        Miss rate allowed.

    Returns
    -------
    ndarray of bool, shape (rows,)
        Whether the lower Clopper-Pearson limit of the task's miss rate exceeds epsilon. A
        task whose miss rate is at most epsilon is flagged with a probability of at most 0.05. An
        exact error needs no limit.
    """
    counts = np.stack([np.rint(rows.error * rows.examples), rows.examples])
    (missed, examples), position = np.unique(counts, axis=1, return_inverse=True)
    low, _ = clopper_pearson_interval(missed, examples, confidence=1 - 2 * LEVEL)
    return np.where(rows.examples > 0, low[position.ravel()], rows.error) > epsilon


def explained_by_noise(rows: Rows, alpha: float) -> float:
    """Return the largest share of flagged tasks that is compatible with the guarantee.

    Parameters
    ----------
    rows : Rows
        Results of an evaluation.
    alpha : float
        Share of tasks that may be above epsilon.

    Returns
    -------
    float
        ``alpha + (1 - alpha) * 0.05``, since at most 5 % of the tasks within epsilon are flagged;
        ``alpha`` if errors are exact.
    """
    return alpha + (1 - alpha) * (LEVEL if rows.examples.any() else 0.0)


def expect_draws_within(rows: Rows, epsilon: float, alpha: float) -> float:
    """Return the expected share of draws within the guarantee, if all thresholds were equally good.

    Parameters
    ----------
    rows : Rows
        Results of one method.
    epsilon : float
        Miss rate allowed.
    alpha : float
        Share of tasks that may be above it.

    Returns
    -------
    float
        The expected share of draws in which the observed error of at most a share ``alpha`` of
        the tasks exceeds epsilon.

    Notes
    -----
    Suppose that every draw has an equally good threshold. Its T tasks are drawn i.i.d., and the
    observed error of each exceeds epsilon with the same probability p, over the draw of the task
    and of its examples. So the number of such tasks is Binomial(T, p), and the draw is within the
    guarantee with probability P[Binomial(T, p) <= m], where m / T is the largest share up to alpha.
    Here p is the share of such tasks in all draws. If thresholds differ in quality, the share of
    draws within the guarantee differs from this number.
    """
    share = float(np.mean(rows.error > epsilon))
    _, sizes = np.unique(rows.draw, return_counts=True)
    allowed = np.array([allowed_tasks(tasks, alpha) for tasks in sizes.tolist()])
    return float(np.mean(special.bdtr(allowed, sizes, share)))

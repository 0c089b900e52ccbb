"""The corrections of Meta-CP: how far an observed average coverage may exceed the true one.

Both corrections depend on the numbers of tasks and examples alone, never on scores: the proofs,
in docs/guarantee.md, bound the average at one fixed lambda. Tasks are given by their distinct
sizes and the number of tasks of each size.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac._types import Counts
from metapac.binomial import clopper_pearson_upper
from metapac.bisection import min_value

OVER = ("tasks", "examples")
# Shares of delta tried for the intervals. Any division is valid and the correction is flat around
# the best one, so a finer list gains nothing.
_SHARES = tuple(i / 20 for i in range(1, 20))


class Split(NamedTuple):
    """How delta is divided between the average over tasks and the intervals within them.

    Attributes
    ----------
    across : float
        Failure probability of the bound on the average.
    within : float
        Failure probability of all intervals together.
    """

    across: float
    within: float


class Correction(NamedTuple):
    """The amount to subtract from the average coverage.

    Attributes
    ----------
    amount : float
        The amount; ``inf`` if none is enough.
    split : Split
        How delta is divided.
    """

    amount: float
    split: Split

    def leaves_room(self, epsilon: float, tasks: int) -> bool:
        """Return whether tasks that cover all of their examples would support the guarantee.

        Parameters
        ----------
        epsilon : float
            Average miss rate allowed.
        tasks : int
            Number of calibration tasks.

        Returns
        -------
        bool
            Whether the guarantee is feasible.
        """
        # At best N of N + 1 are covered, so 1 / (N + 1) of epsilon is spent before any error.
        return (epsilon - self.amount) * (tasks + 1) >= 1


def find_correction(
    over: str, epsilon: float, delta: float, sizes: Counts, counts: Counts
) -> Correction:
    """Return the correction for a guarantee over tasks and examples, or over examples alone.

    Parameters
    ----------
    over : {"tasks", "examples"}
        Whether ``delta`` covers the draw of tasks and examples, or of examples alone.
    epsilon : float
        Average miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    sizes : ndarray of int
        Distinct sizes of the tasks.
    counts : ndarray of int
        Number of tasks of each size.

    Returns
    -------
    Correction
        The correction.
    """
    if over == "tasks":
        return over_tasks(epsilon, delta, int(counts.sum()))
    if len(sizes) > _FEW:
        return over_examples(epsilon, delta, sizes, counts)
    return _cached_over_examples(epsilon, delta, tuple(sizes.tolist()), tuple(counts.tolist()))


# Studies calibrate many times on tasks of the same few sizes; their corrections are cached.
_FEW = 64


@functools.lru_cache(maxsize=256)
def _cached_over_examples(
    epsilon: float, delta: float, sizes: tuple[int, ...], counts: tuple[int, ...]
) -> Correction:
    return over_examples(epsilon, delta, np.array(sizes), np.array(counts))


def over_tasks(epsilon: float, delta: float, tasks: int) -> Correction:
    """Return the smallest c with exp(-N KL(1 - epsilon + c, 1 - epsilon)) <= delta.

    Parameters
    ----------
    epsilon : float
        Average miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    tasks : int
        Number of calibration tasks, N.

    Returns
    -------
    Correction
        The correction, with all of ``delta`` for the average.

    Notes
    -----
    Hoeffding's inequality (1963, Theorem 1): N independent numbers in [0, 1] with mean at most
    1 - epsilon average 1 - epsilon + c or more with at most that probability. The fraction of a
    task's examples that is covered is such a number, with the task's true coverage as its mean. An
    interval for each task would only cost more.
    """

    def is_enough(share: float) -> bool:
        miss = epsilon * (1 - share)
        gain = math.log1p(epsilon * share / (1 - epsilon))  # log of (1 - miss) / (1 - epsilon)
        divergence = (1 - miss) * gain + miss * math.log1p(-share)
        return tasks * divergence >= -math.log(delta)

    share = min_value(is_enough)
    return Correction(math.inf if share is None else epsilon * share, Split(delta, 0.0))


def over_examples(epsilon: float, delta: float, sizes: Counts, counts: Counts) -> Correction:
    """Return Hoeffding's bound for tasks whose coverages lie in intervals, as in Fisch et al.

    Parameters
    ----------
    epsilon : float
        Average miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    sizes : ndarray of int
        Distinct sizes of the tasks.
    counts : ndarray of int
        Number of tasks of each size.

    Returns
    -------
    Correction
        The correction at the division of ``delta`` that makes it smallest.

    Notes
    -----
    With w_i the width of an interval for task i at level delta_within / N, the bound is
    sqrt(sum w_i^2 log(1 / delta_across) / 2) / N.
    """
    tasks = int(counts.sum())
    best = Correction(math.inf, Split(delta, 0.0))
    for share in _SHARES:
        split = Split(delta * (1 - share), delta * share)
        widths = interval_widths(epsilon, split.within / tasks, sizes)
        squares = float(counts @ widths**2)
        amount = math.sqrt(squares * -math.log(split.across) / 2) / tasks
        best = min(best, Correction(amount, split))
    return best


def interval_widths(epsilon: float, level: float, sizes: Counts) -> NDArray[np.float64]:
    """Return the width of the Clopper-Pearson interval for a task of each size.

    Parameters
    ----------
    epsilon : float
        Average miss rate allowed; the intervals are those around a coverage of 1 - epsilon.
    level : float
        Failure probability of one interval.
    sizes : ndarray of int
        Sizes of the tasks.

    Returns
    -------
    ndarray
        The widths, at least 1 / sqrt(n) for n examples, as the proof requires.

    Notes
    -----
    The Dvoretzky-Kiefer-Wolfowitz interval is never narrower: by Hoeffding's inequality no end of
    this one is further than sqrt(log(2 / level) / 2n) from the middle.
    """
    errors = np.floor(epsilon * sizes).astype(np.int64)
    upper = clopper_pearson_upper(errors, sizes, level / 2)
    lower = 1 - clopper_pearson_upper(sizes - errors, sizes, level / 2)
    return np.maximum(upper - lower, 1 / np.sqrt(sizes))

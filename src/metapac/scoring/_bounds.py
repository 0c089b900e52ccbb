"""Arithmetic of score functions, and their lower bounds given bounds on the odds.

The bounds take the highest and the lowest log-odds of every label against the true one, of shape
(n, classes + 1). The column of the true label is -inf; the last column is the mass of labels
without a column. The proofs are in `metapac.scoring.ScoreFunction.lower`.
"""

from __future__ import annotations

import numpy as np

from metapac._types import Counts, Doubles, Floats

# Steps between the smallest numbers, whose rounding error is not relative.
_TINY = 2.0**-1060


def take(matrix: Floats, labels: Counts) -> Floats:
    """Return the entry of each row at its label, (n,)."""
    return np.asarray(np.take_along_axis(matrix, labels[:, None], 1)[:, 0])


def log_sum(weights: Doubles) -> Doubles:
    """Return the logarithm of the sum of exponentials of each row, (n, 1)."""
    top = finite(weights.max(1, keepdims=True))
    total = np.exp(weights - top).sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(total))


def finite(sums: Doubles) -> Doubles:
    """Return numbers, with 0 for those of rows in which no label is possible."""
    return np.where(np.isfinite(sums), sums, 0.0)


def highest_other(p: Doubles) -> Doubles:
    """Return, for each label, the highest probability of the others; 0 if there is none."""
    if p.shape[1] == 1:
        return np.zeros_like(p)
    first, second = np.partition(p, -2, axis=1)[:, [-1]], np.partition(p, -2, axis=1)[:, [-2]]
    is_first = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(is_first, p.argmax(1)[:, None], True, 1)
    return np.where(is_first, second, first)


def cumulate(p: Doubles) -> Doubles:
    """Return, for each label, the sum of the probabilities that are no higher than its own."""
    order = p.argsort(1, kind="stable")
    ascending = np.take_along_axis(p, order, 1)
    sums = ascending.cumsum(1)
    # Equal probabilities share the sum of the last of them.
    ends = np.diff(ascending, axis=1, append=np.inf) > 0
    sums = np.where(ends, sums, np.inf)
    sums = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, sums, 1)
    return scores


def lower_log(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a log-probability, (n,)."""
    lowered = -np.logaddexp(0.0, log_sum(highest)[:, 0])
    return np.asarray(lowered - rounding * (1 - lowered))


def lower_probability(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a probability, (n,)."""
    lowered = np.exp(-np.logaddexp(0.0, log_sum(highest)[:, 0])) * (1 - rounding)
    return np.asarray(np.maximum(lowered - _TINY, 0.0))


def lower_margin(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a margin, (n,)."""
    top = np.maximum(highest.max(1), 0.0)  # all weights are divided by exp(top)
    true = np.exp(-top)
    ahead = true - np.exp(highest[:, :-1].max(1) - top)
    others = np.where((ahead >= 0)[:, None], highest, lowest)
    total = true + np.exp(others - top[:, None]).sum(1)
    return np.asarray(np.maximum(ahead / np.maximum(total, 1e-300), -1.0) - rounding)


def lower_cumulative(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a cumulative score, (n,)."""
    top = np.maximum(highest.max(1), 0.0)
    is_below = highest <= -rounding
    is_below[:, -1] = False  # labels without a column may be more probable
    below = np.exp(-top) + np.where(is_below, np.exp(lowest - top[:, None]), 0.0).sum(1)
    above = np.where(is_below, 0.0, np.exp(highest - top[:, None])).sum(1)
    return np.asarray(np.maximum(below / (below + above) * (1 - rounding) - _TINY, 0.0))


LOWER = {
    "probability": lower_probability,
    "log_probability": lower_log,
    "margin": lower_margin,
    "cumulative": lower_cumulative,
}

"""The exact interval of a miss rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac import _checks


def clopper_pearson_interval(
    missed: ArrayLike, examples: ArrayLike, *, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the exact two-sided interval of a miss rate (Clopper and Pearson).

    Parameters
    ----------
    missed : array_like of int
        Number of misses.
    examples : array_like of int
        Number of independent examples, of the same shape.
    confidence : float, default 0.95
        Confidence of the interval; half of the rest lies beyond each end.

    Returns
    -------
    low, high : ndarray of float64
        The ends; 0 and 1 where there are no examples.

    Examples
    --------
    >>> from metapac.verdict import clopper_pearson_interval
    >>> low, high = clopper_pearson_interval([0, 3], [10, 100])
    >>> low.round(4), high.round(4)
    (array([0.    , 0.0062]), array([0.3085, 0.0852]))
    """
    k, n = np.asarray(missed, dtype=float), np.asarray(examples, dtype=float)
    tail = (1 - _checks.as_probability("confidence", confidence)) / 2
    low = special.betaincinv(np.maximum(k, 1), n - k + 1, tail)
    high = special.betainccinv(k + 1, np.maximum(n - k, 1), tail)
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)

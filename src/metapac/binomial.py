"""The inequality: how many errors in n examples still certify an error rate.

This is PS-Binom of the paper (Appendix B), solved for the number of errors instead of searching a
grid of thresholds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac import _checks, _exact, _scores
from metapac.exceptions import InvalidInput

# Relative error to expect of SciPy's probabilities: n * 1e-15, at least 1e-9, 30 times the largest
# errors measured (2e-11 up to n = 1e6, 3e-8 at 1e9). A probability closer to delta than that is
# computed again, to forty digits.
_MIN_DOUBT, _DOUBT = 1e-9, 1e-15


@overload
def allowed_errors(n: int, epsilon: float, delta: float) -> int: ...
@overload
def allowed_errors(n: ArrayLike, epsilon: float, delta: float) -> NDArray[np.int64]: ...
def allowed_errors(n: ArrayLike, epsilon: float, delta: float) -> int | NDArray[np.int64]:
    """Return the largest k with P[Binomial(n, epsilon) <= k] <= delta, or -1 if there is none.

    Observing at most that many errors in ``n`` i.i.d. examples certifies, with confidence
    ``1 - delta``, an error rate of at most ``epsilon``.

    Parameters
    ----------
    n : int or array_like of int
        Number of examples, from 0 to 10**9.
    epsilon : float
        Error rate to certify, strictly between 0 and 1.
    delta : float
        Failure probability of the certificate, strictly between 0 and 1.

    Returns
    -------
    int or ndarray of int64
        The number of errors, in the shape of ``n``; -1 where ``n`` examples are too few to certify
        ``epsilon`` even without an error.

    Raises
    ------
    InvalidInput
        If ``n`` is not a whole number in that range, or a probability is not between 0 and 1.

    Notes
    -----
    The comparison with ``delta`` is exact, with one exception: beyond n = 5000 a probability that
    agrees with ``delta`` in forty digits counts as larger.

    Examples
    --------
    >>> from metapac import allowed_errors
    >>> allowed_errors(500, 0.1, 0.05)
    38
    >>> allowed_errors([28, 29, 100], 0.1, 0.05)
    array([-1,  0,  4])
    """
    sizes = _checks.as_whole_numbers("n", n, minimum=0)
    epsilon = _checks.as_probability("epsilon", epsilon)
    delta = _checks.as_probability("delta", delta)
    if sizes.ndim == 0:
        return int(_allowed_errors(sizes.reshape(1), epsilon, delta)[0])
    distinct, position = np.unique(sizes, return_inverse=True)
    return np.take(_allowed_errors(distinct, epsilon, delta), position).reshape(sizes.shape)


def _allowed_errors(sizes: NDArray[np.int64], epsilon: float, delta: float) -> NDArray[np.int64]:
    """Check SciPy's answer and search only where it is wrong."""
    # bdtrik is the real k with probability delta. It is NaN where 1 - epsilon rounds to 1; fmax
    # then returns 0.
    real = special.bdtrik(delta, np.maximum(sizes, 1), epsilon)
    k: NDArray[np.int64] = np.minimum(np.fmax(np.ceil(real), 0), sizes).astype(np.int64) - 1
    enough, more = certifies(k + np.array([[0], [1]]), sizes, epsilon, delta)
    wrong = ~enough | more
    if wrong.any():
        k[wrong] = _search_allowed_errors(sizes[wrong], epsilon, delta)
    return k


def _search_allowed_errors(
    sizes: NDArray[np.int64], epsilon: float, delta: float
) -> NDArray[np.int64]:
    """Bisect between k = -1, which is always certified, and k = n, which never is."""
    low, high = np.full_like(sizes, -1), sizes
    while (high - low > 1).any():
        middle = (low + high) // 2
        certified = certifies(middle, sizes, epsilon, delta)
        low, high = np.where(certified, middle, low), np.where(certified, high, middle)
    return low


@overload
def allowed_errors_in_task(n: int, epsilon: float, alpha_within: float) -> int: ...
@overload
def allowed_errors_in_task(
    n: ArrayLike, epsilon: float, alpha_within: float
) -> NDArray[np.int64]: ...
def allowed_errors_in_task(
    n: ArrayLike, epsilon: float, alpha_within: float
) -> int | NDArray[np.int64]:
    """Return how many of a task's n scores may lie below its threshold, balanced tasks included.

    This is ``allowed_errors(n, epsilon, alpha_within)``, capped so that it also holds where the
    examples of a task are independent but not identically distributed.

    Parameters
    ----------
    n : int or array_like of int
        Number of examples in the task, from 0 to 10**9.
    epsilon : float
        Miss rate to certify, strictly between 0 and 1.
    alpha_within : float
        Probability, over the examples of the task, that the certificate is wrong.

    Returns
    -------
    int or ndarray of int64
        The largest k with ``k <= allowed_errors(n, epsilon, alpha_within)`` and either
        ``k + 1 <= n * epsilon`` or ``k = 0``; -1 where the task is too small to certify
        ``epsilon``. The task's threshold is its (k + 1)-th smallest score.

    Raises
    ------
    InvalidInput
        If ``n`` is not a whole number in that range, or a probability is not between 0 and 1.

    Notes
    -----
    Few-shot tasks have equally many examples of each class, and classes differ in how often they
    are missed. The number of misses is then Poisson-binomial with mean at least ``n * epsilon``
    instead of binomial. Hoeffding (1956, Theorem 4) shows that it is at most k with no larger
    probability than the binomial count if ``k <= n * epsilon - 1``; for k = 0 the inequality of
    arithmetic and geometric means shows it for every n. See docs/guarantee.md#balanced-tasks.
    For ``epsilon`` up to 0.1 the cap takes effect only at levels above 1/3.

    ``n * epsilon`` is computed exactly, with ``epsilon`` read as the decimal number that it prints
    as: ten examples at 0.3 make 3.

    Examples
    --------
    >>> from metapac.binomial import allowed_errors, allowed_errors_in_task
    >>> allowed_errors_in_task(500, 0.1, 0.05)
    38
    >>> allowed_errors(30, 0.1, 0.825), allowed_errors_in_task(30, 0.1, 0.825)
    (4, 2)
    """
    sizes = _checks.as_whole_numbers("n", n, minimum=0)
    epsilon = _checks.as_probability("epsilon", epsilon)
    alpha_within = _checks.as_probability("alpha_within", alpha_within)
    cap = np.maximum(_floor_of_product(sizes, epsilon) - 1, 0)
    rank = np.minimum(allowed_errors(sizes, epsilon, alpha_within), cap)
    return int(rank) if rank.ndim == 0 else rank


def _floor_of_product(n: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """Return floor(n * epsilon) for the decimal number that epsilon prints as."""
    product = n * epsilon
    floor = np.asarray(np.floor(product).astype(np.int64))
    # Conversion and product round by 2.3e-16 at most: the floor can be wrong only near an integer.
    close = np.abs(product - np.rint(product)) <= 1e-15 * product
    if close.any():
        numerator, denominator = Fraction(repr(epsilon)).as_integer_ratio()
        floor[close] = n[close].astype(object) * numerator // denominator
    return floor


def certifies(k: ArrayLike, n: ArrayLike, epsilon: float, delta: float) -> NDArray[np.bool_]:
    """Return whether k errors in n examples certify an error rate of at most ``epsilon``.

    They do if P[Binomial(n, epsilon) <= k] <= delta, which is decided exactly.

    Parameters
    ----------
    k : int or array_like of int
        Number of errors; ``k = -1`` certifies every rate, ``k >= n`` certifies none.
    n : int or array_like of int
        Number of examples, of a shape that broadcasts with ``k``.
    epsilon : float
        Error rate to certify, strictly between 0 and 1. Not checked here.
    delta : float
        Failure probability of the certificate, strictly between 0 and 1. Not checked here.

    Returns
    -------
    ndarray of bool
        One answer for each pair. ``allowed_errors`` states how exact it is.

    Examples
    --------
    >>> from metapac.binomial import certifies
    >>> certifies(0, [28, 29], 0.1, 0.05)
    array([False,  True])
    """
    k, n = np.broadcast_arrays(k, n)
    # P[Binomial(n, epsilon) <= k] is the upper tail of Beta(k + 1, n - k) at epsilon. The lower
    # tail keeps its digits for delta near 1, and is not slow or NaN around 1/2 for the largest n.
    a, b = np.maximum(k, 0) + 1.0, np.maximum(n - k, 1.0)
    if delta <= 0.25:
        tail, limit = special.betaincc(a, b, epsilon), delta
        enough = tail <= limit
    else:
        tail, limit = special.betainc(a, b, epsilon), 1 - delta
        enough = tail >= limit
    possible = (k >= 0) & (k < n)
    certified = np.asarray((enough & possible) | (k < 0))
    doubt = np.maximum(n * _DOUBT, _MIN_DOUBT) * limit
    doubtful = ~(np.abs(tail - limit) > doubt) & possible  # written so that NaN is doubtful
    if doubtful.any():
        for position in np.argwhere(doubtful):
            at = tuple(position)
            certified[at] = _exact.certifies_exactly(int(k[at]), int(n[at]), epsilon, delta)
    return certified


@overload
def clopper_pearson_upper(k: int, n: int, delta: float) -> float: ...
@overload
def clopper_pearson_upper(k: ArrayLike, n: ArrayLike, delta: float) -> NDArray[np.float64]: ...
def clopper_pearson_upper(k: ArrayLike, n: ArrayLike, delta: float) -> float | NDArray[np.float64]:
    """Return the smallest error rate that k errors in n examples certify.

    With confidence ``1 - delta``, the true error rate is at most the returned value (the one-sided
    interval of Clopper and Pearson).

    Parameters
    ----------
    k : int or array_like of int
        Number of errors observed, from 0 to ``n``.
    n : int or array_like of int
        Number of i.i.d. examples, from 1 to 10**9, of a shape that broadcasts with ``k``.
    delta : float
        Failure probability of the interval, strictly between 0 and 1.

    Returns
    -------
    float or ndarray of float64
        The smallest u with P[Binomial(n, u) <= k] <= delta, rounded up; 1 where ``k = n``.

    Raises
    ------
    InvalidInput
        If ``k`` or ``n`` is not a whole number in its range, if their shapes do not match, or if
        ``delta`` is not between 0 and 1.

    Notes
    -----
    The result is never below the exact bound, and exceeds it by at most one unit in the last place.

    Examples
    --------
    >>> from metapac import clopper_pearson_upper
    >>> round(clopper_pearson_upper(3, 100, 0.05), 4)
    0.0757
    >>> clopper_pearson_upper([0, 5], 5, 0.05).round(4)
    array([0.4507, 1.    ])
    """
    errors, sizes = _checks.broadcast_pair(
        "k",
        _checks.as_whole_numbers("k", k, minimum=0),
        "n",
        _checks.as_whole_numbers("n", n, minimum=1),
    )
    delta = _checks.as_probability("delta", delta)
    if (errors > sizes).any():
        raise InvalidInput(
            f"k must be at most n, got k={int(errors[errors > sizes][0])} errors among "
            f"n={int(sizes[errors > sizes][0])} examples."
        )
    both = np.stack([errors.ravel(), sizes.ravel()])
    pairs, position = np.unique(both, axis=1, return_inverse=True)
    # Starting values for Newton's method, accurate to 1e-8; for tiny delta NaN or off by 1e-3.
    starts = special.betainccinv(pairs[0] + 1.0, np.maximum(pairs[1] - pairs[0], 1.0), delta)
    cases = zip(*pairs.tolist(), starts.tolist(), strict=True)
    rates = [_min_certified_rate(k, n, delta, start) for k, n, start in cases]
    upper = np.array(rates, dtype=float)[position].reshape(errors.shape)
    return float(upper) if upper.ndim == 0 else upper


def _min_certified_rate(k: int, n: int, delta: float, start: float) -> float:
    """Return the smallest double that k errors in n examples certify."""
    if k == n:
        return 1.0
    return _exact.min_certified_rate(k, n, delta, start)


def threshold(scores: ArrayLike, *, epsilon: float, delta: float) -> float:
    """Return the largest cut-off whose miss rate is certified to be at most ``epsilon``.

    With confidence ``1 - delta`` over the draw of ``scores``, a new score from the same
    distribution falls below the returned value with probability at most ``epsilon``. Nothing is
    assumed about that distribution; ties are allowed.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        Scores of the true labels of n i.i.d. examples; higher means more plausible.
    epsilon : float
        Miss rate to certify, strictly between 0 and 1.
    delta : float
        Probability, over the draw of ``scores``, that the certificate is wrong.

    Returns
    -------
    float
        The cut-off, one of the scores; ``-inf`` if n is too small to certify ``epsilon``, so that
        every label is kept and the guarantee still holds.

    Raises
    ------
    InvalidInput
        If ``scores`` is empty, not one-dimensional or holds NaN, or if a probability is not between
        0 and 1.

    Notes
    -----
    The cut-off is the (k + 1)-th smallest score, with k from ``allowed_errors``. The proof is in
    docs/guarantee.md#the-inequality-once.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import threshold
    >>> threshold(np.arange(100), epsilon=0.1, delta=0.05)
    4.0
    >>> threshold(np.arange(28), epsilon=0.1, delta=0.05)
    -inf
    """
    array = _scores.as_calibration_scores("scores", scores)
    _scores.check_one_dimensional("scores", array)
    _scores.check_no_nan("scores", array)
    k = allowed_errors(len(array), epsilon, delta)
    # The sign of a zero among tied zeros is arbitrary; adding 0.0 makes it positive.
    return -np.inf if k < 0 else float(np.partition(array, k)[k]) + 0.0

"""The inequality: exact binomial bounds, and the threshold that they certify.

This is PS-Binom of the paper (Appendix B), solved for the number of errors instead of searching a
grid of thresholds.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac._common import Counts, as_probability, as_whole_numbers
from metapac.errors import InvalidInput
from metapac.inputs import as_calibration_scores, check_no_nan, check_one_dimensional


def min_integer(works: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest integer that works, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def min_value(works: Callable[[float], bool], tolerance: float = 1e-15) -> float | None:
    """Return the smallest value between 0 and 1 that works, by bisection."""
    low, high = sys.float_info.min, math.nextafter(1.0, 0.0)  # below low, shares underflow
    if not works(high):
        return None
    while high - low > tolerance * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def round_up(value: float, digits: int = 3) -> float:
    """Return a positive number rounded up to a few significant digits."""
    near = float(f"{value:.{digits}g}")
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return near if near >= value else float(f"{near + step:.{digits}g}")


# Sums have a relative error below 1e-45, so that a difference of 1e-40 is real. Up to this n
# smaller differences are settled in integers; beyond, they count as ties.
_TIE = Decimal("1e-40")
_LARGEST_INTEGER_SUM = 5_000
_LONGEST_SUM = 500_000
_ARITHMETIC = Context(prec=70, Emin=-(10**17), Emax=10**17)
_BITS = 256


def certifies_exactly(k: int, n: int, epsilon: float, delta: float) -> bool:
    """Compare to forty digits, then in integers; an undecided tie is not certified."""
    if is_sum_too_long(k, n, epsilon):
        return False
    with localcontext(_ARITHMETIC):
        limit, success = Decimal(delta), Decimal(epsilon)
        failure = 1 - success
        probability = _mass(k, n, success, failure) * _cumulative_ratio(k, n, failure / success)
        if abs(probability - limit) > _TIE * limit:
            return probability < limit
    return n <= _LARGEST_INTEGER_SUM and certifies_in_integers(k, n, epsilon, delta)


def certifies_in_integers(k: int, n: int, epsilon: float, delta: float) -> bool:
    """Compare the binomial sum with delta over the common denominator of epsilon."""
    a, whole = epsilon.as_integer_ratio()
    b = whole - a
    term = b**n
    total = term
    for j in range(k):
        term = term * (n - j) * a // ((j + 1) * b)
        total += term
    numerator, denominator = delta.as_integer_ratio()
    return bool(total * denominator <= numerator * whole**n)


def is_sum_too_long(k: int, n: int, p: float) -> bool:
    """Return whether the sum has too many relevant terms to compute; never up to n = 1e9."""
    # Terms grow from k down to the mean, and are below 2**-256 some 19 deviations further down.
    return min(k, max(k - n * p, 0) + 20 * math.sqrt(n * p * (1 - p))) > _LONGEST_SUM


def _cumulative_ratio(k: int, n: int, odds: Decimal) -> Decimal:
    """Return P[Binomial <= k] / P[Binomial = k], for these odds of failure to success.

    Fixed-point integers, rounded down: t terms lose less than t**2 / 2**256 of their sum, which is
    1e-65 for the longest sum.
    """
    factor = int(odds * 2**_BITS)
    term = total = 1 << _BITS
    for j in range(k, 0, -1):
        term = (term * factor * j // (n - j + 1)) >> _BITS
        if not term:
            break
        total += term
    return Decimal(total) / (1 << _BITS)


def _mass(k: int, n: int, success: Decimal, failure: Decimal) -> Decimal:
    """Return P[Binomial(n, success) = k], by Stirling's series where k and n - k are large."""
    rest = n - k
    if min(k, rest) < _STIRLING_FROM:
        return Decimal(math.comb(n, k)) * success**k * failure**rest
    power = k * (n * success / k).ln() + rest * (n * failure / rest).ln()
    series = _stirling_series(n) - _stirling_series(k) - _stirling_series(rest)
    return (power + series).exp() * (n / (_TWO_PI * k * rest)).sqrt()


def _stirling_series(n: int) -> Decimal:
    """Return log n! - (n log n - n + log(2 pi n) / 2).

    The error is smaller than the ninth term, 43867/244188 / n**17, which is 2e-52 at n = 1000.
    """
    x = Decimal(n)
    return sum((Decimal(a) / (b * x**power) for a, b, power in _STIRLING), start=Decimal(0))


_STIRLING_FROM = 1000
# B(2m) / (2m (2m - 1)) for m = 1 to 8, as fractions, with the power of 1 / n.
_STIRLING = (
    (1, 12, 1),
    (-1, 360, 3),
    (1, 1260, 5),
    (-1, 1680, 7),
    (1, 1188, 9),
    (-691, 360360, 11),
    (1, 156, 13),
    (-3617, 122400, 15),
)
_TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563281257")


def min_certified_rate(k: int, n: int, delta: float, start: float) -> float:
    """Return the smallest double that k errors in n examples certify, if the sum is not too long.

    ``start`` is a guess; if it is not between 0 and 1, a conservative one is used instead.
    """
    with localcontext(_ARITHMETIC):
        limit, failure = Decimal(delta), 1 - Decimal(start)
        if not 0 < start < 1:  # C(n, rest) <= (e n / rest)**rest
            rest = Decimal(n - k)
            failure = limit ** (1 / rest) * rest / (n * Decimal(math.e))
        return _round_up(1 - _solve(k, n, limit, failure))


def _solve(k: int, n: int, limit: Decimal, failure: Decimal) -> Decimal:
    """Return the 1 - u at which P[Binomial(n, u) <= k] is ``limit``, never too large.

    The derivative of log P in log(1 - u) is (n - k) / ratio, and the ratio grows with 1 - u: the
    function is concave and lies below its tangents. So a step of Newton's method, from either side,
    ends on the safe side of the solution.
    """
    while True:
        success = 1 - failure
        ratio = _cumulative_ratio(k, n, failure / success)
        gap = (_mass(k, n, success, failure) * ratio / limit).ln()
        step = failure * (1 - (-gap * ratio / (n - k)).exp())
        failure -= step
        # The ratio is a polynomial of degree k in (1 - u) / u, which bounds the curvature, and
        # with it the error after the step: k step**2 / (2 u (1 - u)).
        if k * step**2 <= success**2 * failure * Decimal("1e-20"):
            return failure


def _round_up(value: Decimal) -> float:
    """Return the smallest double not below a value known to thirty digits."""
    value = min(value * (1 + Decimal("1e-28")), Decimal(1))
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, 1)


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
    sizes = as_whole_numbers("n", n, minimum=0)
    epsilon = as_probability("epsilon", epsilon)
    delta = as_probability("delta", delta)
    if sizes.ndim == 0:
        return int(_allowed_errors(sizes.reshape(1), epsilon, delta)[0])
    distinct, position = np.unique(sizes, return_inverse=True)
    return np.take(_allowed_errors(distinct, epsilon, delta), position).reshape(sizes.shape)


def _allowed_errors(sizes: Counts, epsilon: float, delta: float) -> Counts:
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


def _search_allowed_errors(sizes: Counts, epsilon: float, delta: float) -> Counts:
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
def allowed_errors_in_task(n: ArrayLike, epsilon: float, alpha_within: float) -> Counts: ...
def allowed_errors_in_task(n: ArrayLike, epsilon: float, alpha_within: float) -> int | Counts:
    """Return how many of a task's n scores may lie below its threshold, balanced tasks included.

    This is ``allowed_errors(n, epsilon, alpha_within)``, capped so that it also holds where the
    examples of a task are independent but not identically distributed, as in balanced tasks. The
    number of misses is then Poisson-binomial with mean at least ``n * epsilon``. Hoeffding (1956,
    Theorem 4) shows that it is at most k with no larger probability than the binomial count if
    ``k <= n * epsilon - 1``; for k = 0 the inequality of arithmetic and geometric means shows it.
    See docs/theory/guarantee.md#balanced-tasks. For ``epsilon`` up to 0.1 the cap takes effect only
    at levels above 1/3. ``n * epsilon`` is exact: ten examples at 0.3 make 3.
    """
    sizes = as_whole_numbers("n", n, minimum=0)
    epsilon = as_probability("epsilon", epsilon)
    alpha_within = as_probability("alpha_within", alpha_within)
    cap = np.maximum(_floor_of_product(sizes, epsilon) - 1, 0)
    rank = np.minimum(allowed_errors(sizes, epsilon, alpha_within), cap)
    return int(rank) if rank.ndim == 0 else rank


# Up to this size the worst case over all make-ups of a task is computed; larger tasks are capped.
LARGEST_EXACT = 200
# Those probabilities are accurate to 1e-12. A probability this close to a level counts as larger.
_MAKE_UP_SLACK = 1e-10


def allowed_errors_at_worst(n: ArrayLike, epsilon: float, level: float) -> Counts:
    """Return how many of a task's n scores may lie below its threshold, whatever its make-up.

    The misses of a violated task are a sum of n independent indicators with mean at least
    ``n * epsilon``: its examples may be i.i.d., balanced, or a sample of finitely many cases. The
    result is the largest k < n with P(misses <= k) at most ``level`` in the worst case.

    The worst case is binomial for k = 0 and for k <= n epsilon - 1 (Hoeffding 1956, Theorem 4). For
    k >= n epsilon it is 1: k examples that are always missed. This leaves a single k in between,
    the integer part of n epsilon. See docs/theory/guarantee.md#small-tasks.
    """
    sizes = as_whole_numbers("n", n, minimum=0)
    between = worst_between(epsilon)[np.minimum(sizes, LARGEST_EXACT + 1)]
    allowed = between <= level * (1 - _MAKE_UP_SLACK)
    cap = np.maximum(_floor_of_product(sizes, epsilon) - ~allowed, 0)
    return np.asarray(np.minimum(allowed_errors(sizes, epsilon, level), cap))


@functools.lru_cache(maxsize=64)
def worst_between(epsilon: float) -> NDArray[np.float64]:
    """Return the largest P(misses <= n epsilon) for each n up to ``LARGEST_EXACT``, and 1 beyond.

    Where n epsilon is an integer it is 1.
    """
    rate, worst = Fraction(repr(epsilon)), np.ones(LARGEST_EXACT + 2)
    for n in range(1, LARGEST_EXACT + 1):
        mean = n * rate
        if mean.denominator > 1:
            ones, equal, share = make_ups(n, float(mean))
            worst[n] = special.bdtr(int(mean) - ones, equal, share).max()
    return worst


def make_ups(n: int, mean: float) -> tuple[Counts, Counts, NDArray[np.float64]]:
    """Return the extreme make-ups of a task: examples always missed, and equal ones.

    Among sums of n independent indicators of a given mean, the extremes of any expected value have
    ``ones`` that are always 1, ``equal`` ones of probability ``share`` and no others (Hoeffding
    1956, Corollary 2.1).
    """
    ones, equal = np.mgrid[: int(mean) + 1, 1 : n + 1].reshape(2, -1)
    share = (mean - ones) / equal
    possible = (ones + equal <= n) & (share <= 1)
    return ones[possible], equal[possible], share[possible]


# Above this size the rank of a task is not randomised: it would hardly change.
_LARGEST_RANDOM = 10_000


def chance_of_next(n: int, epsilon: float, level: float, rank: int, *, is_iid: bool) -> float:
    """Return the largest V at which a randomised rank is one higher than the rank of a level.

    That is P(misses <= rank) + V P(misses = rank + 1) <= level, in the worst case over make-ups, or
    for i.i.d. examples. It is rounded down.
    """
    if rank + 1 >= n or n > _LARGEST_RANDOM:
        return 0.0
    below, at = _chances_around(n, epsilon, rank, is_iid)
    with np.errstate(divide="ignore", over="ignore"):
        limits = np.where(at > 0, (level - below) / at, np.inf)
    return float(np.clip(limits.min() - _MAKE_UP_SLACK, 0.0, 1.0))


@functools.lru_cache(maxsize=16)  # neighbouring levels often have the same rank
def _chances_around(
    n: int, epsilon: float, rank: int, is_iid: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return P(misses <= rank) and P(misses = rank + 1) for each make-up that may be the worst."""
    following, mean = rank + 1, float(n * Fraction(repr(epsilon)))
    ones, equal, share = np.zeros(1, int), np.array([n]), np.array([epsilon])
    if not is_iid and following > max(mean - 1, 0):
        if n > LARGEST_EXACT:
            return np.ones(1), np.ones(1)  # never one higher
        ones, equal, share = make_ups(n, mean)
    below = special.bdtr(np.maximum(rank - ones, 0), equal, share) * (rank >= ones)
    at = special.bdtr(np.maximum(following - ones, 0), equal, share) * (following >= ones) - below
    return below, at


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
    """Return whether P[Binomial(n, epsilon) <= k] <= delta: k errors in n certify ``epsilon``."""
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
            certified[at] = certifies_exactly(int(k[at]), int(n[at]), epsilon, delta)
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
    errors, sizes = as_whole_numbers("k", k, minimum=0), as_whole_numbers("n", n, minimum=1)
    try:
        errors, sizes = np.broadcast_arrays(errors, sizes)
    except ValueError:
        shapes = f"{errors.shape} and {sizes.shape}"
        raise InvalidInput(f"k and n must have matching shapes, got {shapes}.") from None
    delta = as_probability("delta", delta)
    for most, more in zip(sizes[errors > sizes], errors[errors > sizes], strict=True):
        raise InvalidInput(f"k must be at most n, got k={more} errors among n={most} examples.")
    both = np.stack([errors.ravel(), sizes.ravel()])
    pairs, position = np.unique(both, axis=1, return_inverse=True)
    # Starting values for Newton's method, accurate to 1e-8; for tiny delta NaN or off by 1e-3.
    starts = special.betainccinv(pairs[0] + 1.0, np.maximum(pairs[1] - pairs[0], 1.0), delta)
    cases = zip(*pairs.tolist(), starts.tolist(), strict=True)
    rates = [1.0 if k == n else min_certified_rate(k, n, delta, x) for k, n, x in cases]
    upper = np.array(rates, dtype=float)[position].reshape(errors.shape)
    return float(upper) if upper.ndim == 0 else upper


def threshold(scores: ArrayLike, *, epsilon: float, delta: float) -> float:
    """Return the largest cut-off whose miss rate is certified to be at most ``epsilon``.

    With confidence ``1 - delta`` over the draw of ``scores``, a new score from the same
    distribution falls below the returned value with probability at most ``epsilon``. Nothing is
    assumed about that distribution; ties are allowed.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        Scores of the true labels of n i.i.d. examples, without NaN; higher means more plausible.
    epsilon : float
        Miss rate to certify, strictly between 0 and 1.
    delta : float
        Probability, over the draw of ``scores``, that the certificate is wrong.

    Returns
    -------
    float
        The cut-off, one of the scores; ``-inf`` if n is too small to certify ``epsilon``, so that
        every label is kept and the guarantee still holds.

    Notes
    -----
    The cut-off is the (k + 1)-th smallest score, with k from ``allowed_errors``. The proof is in
    docs/theory/guarantee.md#step-1-a-threshold-within-each-task.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import threshold
    >>> threshold(np.arange(100), epsilon=0.1, delta=0.05)
    4.0
    >>> threshold(np.arange(28), epsilon=0.1, delta=0.05)
    -inf
    """
    array = as_calibration_scores("scores", scores)
    check_one_dimensional("scores", array)
    check_no_nan("scores", array)
    k = allowed_errors(len(array), epsilon, delta)
    # The sign of a zero among tied zeros is arbitrary; adding 0.0 makes it positive.
    return -np.inf if k < 0 else float(np.partition(array, k)[k]) + 0.0

"""Binomial probabilities to forty digits, where doubles cannot tell them from a limit."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext

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

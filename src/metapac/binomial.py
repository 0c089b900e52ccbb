"""The inequality: how many errors in n examples still certify an error rate.

PS-Binom of the paper (Appendix B), solved for the number of errors instead of walked on a grid.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac import _checks

# SciPy's probabilities are good to 3e-11 for n up to 1e9; nearer than this to delta, they are
# summed anew: in integers up to this n, with fifty digits beyond.
_DOUBTFUL = 1e-9
_LARGEST_INTEGER_SUM = 5_000
_DIGITS = 50


@overload
def allowed_errors(n: int, epsilon: float, delta: float) -> int: ...
@overload
def allowed_errors(n: ArrayLike, epsilon: float, delta: float) -> NDArray[np.int64]: ...
def allowed_errors(n: ArrayLike, epsilon: float, delta: float) -> int | NDArray[np.int64]:
    """Return the largest k with P[Binomial(n, epsilon) <= k] <= delta, or -1 if there is none.

    Seeing at most that many errors in ``n`` independent examples certifies, with probability at
    least ``1 - delta``, an error rate of at most ``epsilon``. Exact for ``n`` from 0 to 1e9, but
    that beyond n = 5000 a tie between probability and ``delta`` is not certified. ``n`` may be an
    array.
    """
    sizes = _checks.whole_numbers("n", n, least=0)
    epsilon = _checks.probability("epsilon", epsilon)
    delta = _checks.probability("delta", delta)
    # The real k of probability delta, rounded down: the answer, or next to it.
    real = special.bdtrik(delta, np.maximum(sizes, 1), epsilon)
    k = np.clip(np.ceil(real), 0, sizes).astype(np.int64) - 1
    while True:
        enough, more = certifies(np.stack([k, k + 1]), sizes, epsilon, delta)
        if (enough & ~more).all():
            return int(k) if k.ndim == 0 else k
        k = k - ~enough + more


def certifies(k: ArrayLike, n: ArrayLike, epsilon: float, delta: float) -> NDArray[np.bool_]:
    """Return whether P[Binomial(n, epsilon) <= k] <= delta, decided exactly (k = -1 always is)."""
    k, n = np.broadcast_arrays(k, n)
    # P[Binomial(n, epsilon) <= k] is the upper tail of Beta(k + 1, n - k) at epsilon.
    chance = special.betaincc(np.maximum(k, 0) + 1.0, np.maximum(n - k, 1.0), epsilon)
    sure = np.asarray(((chance <= delta) & (k < n)) | (k < 0))
    doubtful = (np.abs(chance - delta) <= _DOUBTFUL * delta) & (k >= 0) & (k < n)
    if doubtful.any():
        for place in np.argwhere(doubtful):
            at = tuple(place)
            sure[at] = _certifies_exactly(int(k[at]), int(n[at]), epsilon, delta)
    return sure


def _certifies_exactly(k: int, n: int, epsilon: float, delta: float) -> bool:
    if n > _LARGEST_INTEGER_SUM:
        return _certifies_to_fifty_digits(k, n, epsilon, delta)
    return _certifies_in_integers(k, n, epsilon, delta)


def _certifies_in_integers(k: int, n: int, epsilon: float, delta: float) -> bool:
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


def _certifies_to_fifty_digits(k: int, n: int, epsilon: float, delta: float) -> bool:
    """Sum the terms from k downwards until they no longer count.

    Forty equal digits are taken for a tie, and not certified: should the probability be above
    delta after all, the promise would not hold.
    """
    with localcontext(prec=_DIGITS):
        p = Decimal(epsilon)
        logarithm = _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)
        term = (logarithm + k * p.ln() + (n - k) * (1 - p).ln()).exp()
        total, odds, limit = term, (1 - p) / p, Decimal(delta)
        for j in range(k, 0, -1):
            term *= odds * j / (n - j + 1)
            total += term
            if j < n * epsilon and term < total.scaleb(-_DIGITS):
                break
        return total < limit * (1 - Decimal(10) ** -40)


def _log_factorial(n: int) -> Decimal:
    """Return log n! by Stirling's series, whose next term is below 1e-36 from n = 1000 on."""
    if n < 1000:
        return Decimal(math.factorial(n)).ln()
    x = Decimal(n)
    series = sum((Decimal(1) / c / x**power for c, power in _STIRLING), start=Decimal(0))
    return x * x.ln() - x + (_TWO_PI * x).ln() / 2 + series


_STIRLING = ((12, 1), (-360, 3), (1260, 5), (-1680, 7), (1188, 9))
_TWO_PI = Decimal("6.2831853071795864769252867665590057683943387987502116419498892")


@overload
def clopper_pearson_upper(k: int, n: int, delta: float) -> float: ...
@overload
def clopper_pearson_upper(k: ArrayLike, n: ArrayLike, delta: float) -> NDArray[np.float64]: ...
def clopper_pearson_upper(k: ArrayLike, n: ArrayLike, delta: float) -> float | NDArray[np.float64]:
    """Return the error rate that k errors in n examples rule out exceeding.

    With probability at least ``1 - delta`` over the examples the true rate is at most the
    returned value (Clopper and Pearson, one-sided). ``k = n`` gives 1.
    """
    errors, sizes = _checks.paired(
        "k", _checks.whole_numbers("k", k, least=0), "n", _checks.whole_numbers("n", n, least=1)
    )
    delta = _checks.probability("delta", delta)
    if (errors > sizes).any():
        raise ValueError(
            f"k must be at most n, got k={int(errors[errors > sizes][0])} errors among "
            f"n={int(sizes[errors > sizes][0])} examples."
        )
    rest = sizes - errors
    upper = special.betainccinv(errors + 1.0, np.maximum(rest, 1.0), delta)
    upper = np.where(rest == 0, 1.0, upper)
    return float(upper) if upper.ndim == 0 else upper


def threshold(scores: ArrayLike, *, epsilon: float, delta: float) -> float:
    """Return the largest cut-off whose miss rate is certified below ``epsilon``.

    With probability at least ``1 - delta`` over the draw of ``scores``, a fresh score from the
    same distribution falls below the returned value with probability at most ``epsilon``. No
    assumption is made on that distribution; ties are allowed.

    Too few scores give ``-inf``: every label is kept, and the statement still holds.
    """
    array = _checks.score_array("scores", scores)
    _checks.flat("scores", array)
    _checks.no_nan("scores", array)
    k = allowed_errors(len(array), epsilon, delta)
    # Of zeros that tie, which sign is picked is left to chance: adding 0.0 makes it plus.
    return -np.inf if k < 0 else float(np.partition(array, k)[k]) + 0.0

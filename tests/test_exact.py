"""Binomial probabilities to forty digits, against integers and against mpmath."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import binomial
from metapac.binomial import certifies_exactly, certifies_in_integers, min_certified_rate
from tests.helpers import oracles

LARGEST = 10**9


def test_integers_and_forty_digits_agree() -> None:
    for n, k, epsilon in [(1500, 130, 0.1), (2000, 0, 0.001), (3000, 1510, 0.5)]:
        nearest = float(oracles.large_binomial_cdf(k, n, epsilon))
        for delta in (math.nextafter(nearest, 0), nearest, math.nextafter(nearest, 1)):
            in_integers = certifies_in_integers(k, n, epsilon, delta)
            assert in_integers == certifies_exactly(k, n, epsilon, delta)


@pytest.mark.parametrize(
    ("k", "n"), [(1000, 2000), (999, 2000), (3000, 10**4), (10**5, 10**6), (10**8, LARGEST)]
)
def test_a_binomial_term_is_good_to_fifty_digits(k: int, n: int) -> None:
    # At k = n - k = 1000 Stirling's series is off by 3.6e-52, and without its last term by 6e-47.
    # The term is a product of numbers to the power n, so that of 70 digits 16 are lost at most.
    with localcontext(binomial._ARITHMETIC), mpmath.workdps(100):
        success = Decimal(k + 1) / n
        result = mpmath.mpf(str(binomial._mass(k, n, success, 1 - success)))
        p = mpmath.mpf(str(success))
        log_choices = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        exact = mpmath.exp(log_choices + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p))
        assert abs(result / exact - 1) < mpmath.mpf("5e-52")


@given(n=st.integers(1, 60), epsilon=st.floats(1e-6, 1 - 1e-6), data=st.data())
def test_integers_compare_as_fractions_do(n: int, epsilon: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n - 1))
    exact = oracles.binomial_cdf(k, n, epsilon)
    nearest = float(exact)
    for delta in (math.nextafter(nearest, 0), nearest, math.nextafter(nearest, 1)):
        if 0 < delta < 1:
            expected = exact <= Fraction(delta)
            assert certifies_in_integers(k, n, epsilon, delta) == expected
            assert certifies_exactly(k, n, epsilon, delta) == expected


@pytest.mark.parametrize("start", [0.0, 1.0, math.nan])
@pytest.mark.parametrize(("k", "n", "delta"), [(0, 1, 0.5), (3, 100, 0.05), (40, 50, 1e-12)])
def test_the_smallest_certified_rate_without_a_guess(
    k: int, n: int, delta: float, start: float
) -> None:
    rate = min_certified_rate(k, n, delta, start)
    assert certifies_in_integers(k, n, rate, delta)
    assert not certifies_in_integers(k, n, math.nextafter(math.nextafter(rate, 0), 0), delta)
    assert min_certified_rate(k, n, delta, rate * (1 - 1e-8)) == rate


def test_sums_are_short_enough_up_to_a_billion_examples() -> None:
    for p in (1e-9, 1e-3, 0.1, 0.5, 0.9):
        assert not binomial.is_sum_too_long(round(10**9 * p), 10**9, p)
    assert binomial.is_sum_too_long(2**52, 2**53, 0.5)

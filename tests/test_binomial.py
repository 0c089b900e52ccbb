"""The inequality, by closed form, by enumeration, and against thirty digits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import oracles
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from metapac import allowed_errors, clopper_pearson_upper, threshold
from metapac.binomial import _certifies_in_integers, _certifies_to_fifty_digits, certifies

probabilities = st.floats(1e-6, 1 - 1e-6)


@given(n=st.integers(1, 10**9), epsilon=probabilities, delta=st.floats(1e-12, 0.999))
def test_guarantee_is_exact_and_cannot_be_loosened(n: int, epsilon: float, delta: float) -> None:
    # On continuous scores the miss rate of the cut is Beta(k+1, n-k): the chance of a broken
    # promise is a number. Nothing is sampled, nothing can flake.
    k = allowed_errors(n, epsilon, delta)
    if k >= 0:
        assert stats.beta.sf(epsilon, k + 1, n - k) <= delta * (1 + 1e-9)
    if k + 1 < n:
        assert stats.beta.sf(epsilon, k + 2, n - k - 1) > delta * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 0.25, 0.1, 0.3, 0.9, 1e-3])
def test_every_small_case_by_enumeration(epsilon: float) -> None:
    for n in range(1, 26):
        for delta in (1e-12, 1e-5, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9):
            assert allowed_errors(n, epsilon, delta) == oracles.allowed_errors(n, epsilon, delta)


def test_ties_between_probability_and_delta_are_decided_exactly() -> None:
    # At epsilon = 1/2 every cumulative probability is a double: delta may equal it, or miss it
    # by the last bit.
    for n in range(1, 41):
        for k in range(n):
            delta = float(oracles.binomial_cdf(k, n, 0.5))
            assert Fraction(delta) == oracles.binomial_cdf(k, n, 0.5)
            if delta < 1:
                assert allowed_errors(n, 0.5, delta) == k
                assert allowed_errors(n, 0.5, math.nextafter(delta, 0)) == k - 1


@given(n=st.integers(1, 120), epsilon=probabilities, data=st.data())
def test_the_last_bit_of_delta_decides(n: int, epsilon: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n - 1))
    exact = oracles.binomial_cdf(k, n, epsilon)
    nearest = float(exact)
    for delta in (math.nextafter(nearest, 0), nearest, math.nextafter(nearest, 1)):
        if 0 < delta < 1:
            assert bool(certifies(k, n, epsilon, delta)) == (exact <= Fraction(delta))


@pytest.mark.parametrize("n", [10**4, 10**6, 10**9])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-12), (0.01, 1e-5), (0.5, 0.05)])
def test_large_n_against_thirty_digits(n: int, epsilon: float, delta: float) -> None:
    k = allowed_errors(n, epsilon, delta)
    assert oracles.large_binomial_cdf(k, n, epsilon) <= delta
    assert oracles.large_binomial_cdf(k + 1, n, epsilon) > delta


def test_a_tie_beyond_exact_summation_is_not_certified() -> None:
    n, k = 20_001, 10_000  # by symmetry P[Binomial(n, 1/2) <= k] is 1/2 exactly
    assert not certifies(k, n, 0.5, 0.5)
    assert certifies(k, n, 0.5, math.nextafter(0.5, 1))
    assert allowed_errors(n, 0.5, 0.5) == k - 1


@pytest.mark.parametrize(
    ("n", "epsilon", "k"), [(5001, 0.3, 1400), (10**5, 0.1, 10_700), (10**9, 5e-9, 4)]
)
def test_the_last_bit_of_delta_decides_for_large_n(n: int, epsilon: float, k: int) -> None:
    # SciPy's probability is off by 2e-11 in the last case, and above the mean in the second.
    exact = oracles.large_binomial_cdf(k, n, epsilon)
    nearest = float(exact)
    for delta in (math.nextafter(nearest, 0), nearest, math.nextafter(nearest, 1)):
        assert bool(certifies(k, n, epsilon, delta)) == (exact <= delta)


def test_integers_and_fifty_digits_agree() -> None:
    for n, k, epsilon in [(1500, 130, 0.1), (2000, 0, 0.001), (3000, 1510, 0.5)]:
        nearest = float(oracles.large_binomial_cdf(k, n, epsilon))
        for delta in (math.nextafter(nearest, 0), nearest, math.nextafter(nearest, 1)):
            in_integers = _certifies_in_integers(k, n, epsilon, delta)
            assert in_integers == _certifies_to_fifty_digits(k, n, epsilon, delta)


def test_an_array_of_n_gives_an_array() -> None:
    n = np.array([[0, 1, 28, 29], [100, 109, 110, 2500]])
    found = allowed_errors(n, 0.1, 1e-5)
    assert found.dtype == np.int64
    assert found.tolist() == [[allowed_errors(int(x), 0.1, 1e-5) for x in row] for row in n]
    assert isinstance(allowed_errors(29, 0.1, 0.05), int)
    assert isinstance(allowed_errors(np.int64(29), 0.1, 0.05), int)
    assert allowed_errors(np.array([], dtype=int), 0.1, 0.05).shape == (0,)


def test_no_examples_certify_nothing() -> None:
    assert allowed_errors(0, 0.1, 0.9) == -1


def test_numbers_of_the_paper() -> None:
    # PS-Test with 20 shots of 5 classes is infeasible; Meta-PS uses the 7th or the 22nd of 500.
    assert allowed_errors(100, 0.1, 1e-5) == -1
    assert (allowed_errors(109, 0.1, 1e-5), allowed_errors(110, 0.1, 1e-5)) == (-1, 0)
    assert allowed_errors(500, 0.05, 1e-5) + 1 == 7
    assert allowed_errors(500, 0.095, 1e-5) + 1 == 22


@given(n=st.integers(1, 10**6), epsilon=probabilities, delta=st.floats(1e-12, 0.999))
@example(n=29, epsilon=0.1, delta=0.05)
def test_clopper_pearson_is_the_same_inequality(n: int, epsilon: float, delta: float) -> None:
    k = allowed_errors(n, epsilon, delta)
    if k >= 0:
        assert clopper_pearson_upper(k, n, delta) <= epsilon * (1 + 1e-9)
    if k < n:
        assert clopper_pearson_upper(k + 1, n, delta) > epsilon * (1 - 1e-9)


def test_clopper_pearson_in_closed_form() -> None:
    n = np.array([1, 10, 1000, 10**9])
    np.testing.assert_allclose(
        clopper_pearson_upper(0, n, 1e-12), -np.expm1(np.log(1e-12) / n), rtol=1e-12
    )
    assert clopper_pearson_upper(7, 7, 0.05) == 1.0
    assert isinstance(clopper_pearson_upper(1, 7, 0.05), float)
    upper = clopper_pearson_upper(12_345, 10**9, 1e-9)
    assert oracles.large_binomial_cdf(12_345, 10**9, upper) == pytest.approx(1e-9, rel=1e-6)


@given(
    scores=st.lists(
        st.sampled_from([-math.inf, -1.0, 0.0, 0.25, 0.5, 2.0]), min_size=1, max_size=40
    ),
    epsilon=st.floats(0.01, 0.9),
    delta=st.floats(0.01, 0.9),
)
def test_threshold_is_the_best_of_all_distinct_scores(
    scores: list[float], epsilon: float, delta: float
) -> None:
    assert threshold(scores, epsilon=epsilon, delta=delta) == oracles.threshold(
        scores, epsilon, delta
    )


def test_broken_promises_by_enumeration_with_ties() -> None:
    # Scores 0, 1, 2 with known chances: go through every sample of 6 and add up the chances of
    # those whose threshold misses more than epsilon. The promise caps the sum at delta.
    chances, n, epsilon, delta = np.array([0.3, 0.3, 0.4]), 6, 0.35, 0.15
    missed = np.concatenate([[0.0], np.cumsum(chances)])  # P(score < value)
    broken = 0.0
    for sample in np.ndindex(3, 3, 3, 3, 3, 3):
        cut = threshold(np.array(sample, float), epsilon=epsilon, delta=delta)
        if cut > -np.inf and missed[int(cut)] > epsilon:
            broken += float(np.prod(chances[list(sample)]))
    assert 0 < broken <= delta
    assert allowed_errors(n, epsilon, delta) == 0


def test_threshold_keeps_the_scores_precision() -> None:
    scores = np.linspace(0, 1, 100, dtype=np.float32)
    found = threshold(scores, epsilon=0.1, delta=0.05)
    assert np.float32(found) == found
    assert found == scores[allowed_errors(100, 0.1, 0.05)]


def test_threshold_does_not_touch_its_input() -> None:
    scores = np.array([3.0, 1.0, 2.0] * 20)
    before = scores.copy()
    threshold(scores, epsilon=0.1, delta=0.1)
    np.testing.assert_array_equal(scores, before)


def test_too_few_scores_keep_every_label() -> None:
    assert threshold([0.4] * 28, epsilon=0.1, delta=0.05) == -math.inf
    assert threshold([0.4] * 29, epsilon=0.1, delta=0.05) == 0.4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: allowed_errors(-1, 0.1, 0.1),
            r"n must hold whole numbers from 0 to 2\*\*53, got -1",
        ),
        (lambda: allowed_errors(2.5, 0.1, 0.1), "n must hold whole numbers .* got 2.5"),
        (lambda: allowed_errors(5, 0.0, 0.1), "epsilon must be a number strictly between 0 and 1"),
        (lambda: allowed_errors(5, 0.1, 1.0), "delta must be a number .* got 1.0. Pass a small"),
        (lambda: allowed_errors(5, "0.1", 0.1), "epsilon must be a number .* got '0.1'"),  # type: ignore[call-overload]
        (lambda: allowed_errors(5, math.nan, 0.1), "epsilon must be a number .* got nan"),
        (lambda: allowed_errors(5, True, 0.1), "epsilon must be a number .* got True"),
        (lambda: clopper_pearson_upper(8, 7, 0.1), "k must be at most n, got k=8 errors among n=7"),
        (lambda: clopper_pearson_upper(0, 0, 0.1), "n must hold whole numbers from 1"),
        (
            lambda: clopper_pearson_upper([1, 2], [3, 4, 5], 0.1),
            r"k and n must have matching shapes, got \(2,\) and \(3,\). Pass one of each",
        ),
        (lambda: allowed_errors([[1], [1, 2]], 0.1, 0.1), "n must hold whole numbers from 0"),
        (lambda: threshold([], epsilon=0.1, delta=0.1), "scores is empty; pass at least one"),
        (
            lambda: threshold([0.1, math.nan], epsilon=0.1, delta=0.1),
            r"scores holds 1 NaN out of 2 values \(first at position 1\); a score that cannot be "
            "compared cannot be certified. Drop those examples or give them -inf.",
        ),
        (
            lambda: threshold([[0.1], [0.2]], epsilon=0.1, delta=0.1),
            r"scores must be one-dimensional, .* got shape \(2, 1\)",
        ),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]

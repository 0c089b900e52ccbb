"""The inequality: closed form, enumeration, mpmath; the search for smallest numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats

from metapac import allowed_errors, binomial, clopper_pearson_upper, threshold
from metapac.guarantee import Guarantee
from tests.helpers import oracles
from tests.helpers.enumeration import make_ups, misses_of
from tests.helpers.refusals import assert_refused

LARGEST = 10**9
SMALLEST_DOUBLE = 5e-324
BELOW_ONE = 1 - 2**-53
probabilities = st.floats(1e-6, 1 - 1e-6)
all_probabilities = st.floats(SMALLEST_DOUBLE, BELOW_ONE)


@given(n=st.integers(1, 10**9), epsilon=probabilities, delta=st.floats(1e-12, 0.999))
def test_guarantee_is_exact_and_cannot_be_loosened(n: int, epsilon: float, delta: float) -> None:
    # On continuous scores the miss rate of the cut is Beta(k+1, n-k): the probability of a
    # violated guarantee is a number. Nothing is sampled, nothing can flake.
    k = allowed_errors(n, epsilon, delta)
    if k >= 0:
        assert stats.beta.sf(epsilon, k + 1, n - k) <= delta * (1 + 1e-9)
    if k + 1 < n:
        assert stats.beta.sf(epsilon, k + 2, n - k - 1) > delta * (1 - 1e-9)


def test_every_small_case_by_enumeration() -> None:
    for n, epsilon in itertools.product(range(1, 26), (0.5, 0.25, 0.1, 0.3, 0.9, 1e-3)):
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


def around(exact: Any) -> list[float]:
    """The doubles at a probability: the last bit of delta decides."""
    nearest = float(exact)
    near = (math.nextafter(nearest, 0), nearest, math.nextafter(nearest, 1))
    return [delta for delta in near if 0 < delta < 1]


@given(n=st.integers(1, 120), epsilon=probabilities, data=st.data())
def test_the_last_bit_of_delta_decides(n: int, epsilon: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n - 1))
    exact = oracles.binomial_cdf(k, n, epsilon)
    for delta in around(exact):
        expected = exact <= Fraction(delta)
        for decide in (
            binomial.certifies,
            binomial.certifies_in_integers,
            binomial.certifies_exactly,
        ):
            assert bool(decide(k, n, epsilon, delta)) == expected


@pytest.mark.parametrize("n", [10**4, 10**6, 10**9])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-12), (0.01, 1e-5), (0.5, 0.05)])
def test_large_n_against_thirty_digits(n: int, epsilon: float, delta: float) -> None:
    k = allowed_errors(n, epsilon, delta)
    assert oracles.large_binomial_cdf(k, n, epsilon) <= delta
    assert oracles.large_binomial_cdf(k + 1, n, epsilon) > delta


def test_a_tie_beyond_integer_sums_is_not_certified() -> None:
    for n in (4999, 5001, 5003, 5101, 20_001):
        k = n // 2  # by symmetry P[Binomial(n, 1/2) <= k] is 1/2 exactly
        assert bool(binomial.certifies(k, n, 0.5, 0.5)) == (n < 5000)
        assert binomial.certifies(k, n, 0.5, math.nextafter(0.5, 1))
        assert allowed_errors(n, 0.5, 0.5) == k - (n > 5000)


def test_the_last_bit_of_delta_decides_for_large_n() -> None:
    # SciPy's complement is off by 3.5e-8 in the fourth case; the second is above the mean.
    for n, epsilon, k in (
        (5001, 0.3, 1400),
        (10**5, 0.1, 10_700),
        (10**9, 5e-9, 4),
        (10**9, 2.2694335985948988e-09, 1),
        (10**9, 3e-7, 320),
    ):
        exact = oracles.large_binomial_cdf(k, n, epsilon)
        for delta in around(exact):
            assert bool(binomial.certifies(k, n, epsilon, delta)) == (exact <= delta)
    for n, k, epsilon in [(1500, 130, 0.1), (2000, 0, 0.001), (3000, 1510, 0.5)]:
        for delta in around(oracles.large_binomial_cdf(k, n, epsilon)):
            in_integers = binomial.certifies_in_integers(k, n, epsilon, delta)
            assert in_integers == binomial.certifies_exactly(k, n, epsilon, delta)


def test_a_nan_of_scipy_is_summed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = binomial.certifies([-1, 0, 4, 5, 100], 100, 0.1, 0.05)
    assert expected.tolist() == [True, True, True, False, False]
    monkeypatch.setattr(special, "betaincc", lambda a, b, x: np.full_like(a, np.nan))
    np.testing.assert_array_equal(binomial.certifies([-1, 0, 4, 5, 100], 100, 0.1, 0.05), expected)


@given(n=st.integers(0, 200), epsilon=all_probabilities, delta=all_probabilities)
@example(n=100, epsilon=1e-17, delta=0.05)  # SciPy's inverse is NaN
@example(n=100, epsilon=SMALLEST_DOUBLE, delta=BELOW_ONE)
@example(n=29, epsilon=BELOW_ONE, delta=SMALLEST_DOUBLE)
@example(n=1, epsilon=2.0**-53, delta=BELOW_ONE)  # a tie
def test_every_probability_that_a_double_can_hold(n: int, epsilon: float, delta: float) -> None:
    k = allowed_errors(n, epsilon, delta)
    assert -1 <= k < max(n, 1)
    assert k == -1 or binomial.certifies_in_integers(k, n, epsilon, delta)
    assert k + 1 >= n or not binomial.certifies_in_integers(k + 1, n, epsilon, delta)


@given(correct=st.integers(21, 60), k=st.integers(0, 5), exponent=st.floats(970, 1080))
def test_probabilities_that_underflow(correct: int, k: int, exponent: float) -> None:
    # About 2**-exponent: most of these are below the smallest normal double and have few digits.
    n, epsilon = k + correct, 1 - 2 ** (-exponent / correct)
    exact = oracles.binomial_cdf(k, n, epsilon)
    for delta in around(exact):
        assert bool(binomial.certifies(k, n, epsilon, delta)) == (exact <= Fraction(delta))


def test_the_largest_n() -> None:
    for epsilon, delta, k in (
        (1e-10, 0.05, -1),  # without an error: exp(-0.1) = 0.905
        (1e-10, 0.92, 0),
        (1e-17, 0.92, -1),
        (SMALLEST_DOUBLE, BELOW_ONE, -1),
        (9e-9, 2e-3, 1),  # Poisson with mean 9: 0.00012, 0.0012, 0.0062
        (BELOW_ONE, 0.5, LARGEST - 1),  # Poisson successes with mean 1e-7
    ):
        assert allowed_errors(LARGEST, epsilon, delta) == k


def test_arrays_give_arrays() -> None:
    n = np.array([[0, 1, 28, 29], [100, 109, 110, 2500]])
    for count in (allowed_errors, binomial.allowed_errors_in_task):
        result = count(n, 0.1, 0.05)
        assert result.dtype == np.int64
        assert result.tolist() == [[count(int(x), 0.1, 0.05) for x in row] for row in n]
        assert isinstance(count(np.int64(29), 0.1, 0.05), int)
        assert count(np.array([], dtype=int), 0.1, 0.05).shape == (0,)
    upper = clopper_pearson_upper(np.array([[0, 3], [7, 0]]), np.array([7, 8]), 0.05)
    pairs = [[(0, 7), (3, 8)], [(7, 7), (0, 8)]]
    assert upper.tolist() == [[clopper_pearson_upper(k, m, 0.05) for k, m in row] for row in pairs]
    assert clopper_pearson_upper(np.array([], dtype=int), 7, 0.05).shape == (0,)


def test_numbers_of_the_paper() -> None:
    # PS-Test with 20 shots of 5 classes is infeasible; Meta-PS uses the 7th or the 22nd of 500.
    assert allowed_errors(100, 0.1, 1e-5) == -1
    assert (allowed_errors(109, 0.1, 1e-5), allowed_errors(110, 0.1, 1e-5)) == (-1, 0)
    assert allowed_errors(500, 0.05, 1e-5) + 1 == 7
    assert allowed_errors(500, 0.095, 1e-5) + 1 == 22


def test_clopper_pearson_in_closed_form() -> None:
    n = np.array([1, 10, 1000, 10**9])
    np.testing.assert_allclose(
        clopper_pearson_upper(0, n, 1e-12), -np.expm1(np.log(1e-12) / n), rtol=1e-12
    )
    assert clopper_pearson_upper(7, 7, 0.05) == 1.0
    assert isinstance(clopper_pearson_upper(1, 7, 0.05), float)


def assert_smallest(upper: float, cdf: Callable[[float], Any], delta: Any) -> None:
    """Assert that a rate is certified, and no rate that is two doubles below it."""
    assert upper == 1 or cdf(upper) <= delta
    assert cdf(math.nextafter(math.nextafter(upper, 0), 0)) > delta


@given(n=st.integers(1, 40), delta=all_probabilities, data=st.data())
@example(n=5, delta=1e-130, data=None)  # SciPy's inverse is NaN
@example(n=10, delta=SMALLEST_DOUBLE, data=None)
@example(n=40, delta=SMALLEST_DOUBLE, data=None)
@example(n=40, delta=BELOW_ONE, data=None)
@example(n=1, delta=0.25, data=None)  # a tie
def test_clopper_pearson_is_smallest(n: int, delta: float, data: Any | None) -> None:
    for k in range(n) if data is None else [data.draw(st.integers(0, n - 1))]:
        upper = clopper_pearson_upper(k, n, delta)
        assert_smallest(upper, lambda p: oracles.binomial_cdf(k, n, p), Fraction(delta))


@given(
    n=st.integers(1000, 10**9),
    few=st.integers(0, 300),
    mostly_errors=st.booleans(),
    delta=st.floats(SMALLEST_DOUBLE, 0.999),
)
@example(n=843_631_654, few=1, mostly_errors=False, delta=0.3827)  # SciPy: too small by 2.6e-8
@example(n=1000, few=100, mostly_errors=True, delta=SMALLEST_DOUBLE)  # SciPy: NaN
def test_clopper_pearson_by_mpmath(n: int, few: int, mostly_errors: bool, delta: float) -> None:
    k = n - 1 - few if mostly_errors else few
    upper = clopper_pearson_upper(k, n, delta)
    assert_smallest(upper, lambda p: oracles.large_binomial_cdf(k, n, p), delta)


@pytest.mark.parametrize("delta", [SMALLEST_DOUBLE, 1e-300, 1e-9, 0.05, 0.5, 0.9])
def test_clopper_pearson_for_many_errors_against_mpmath(delta: float) -> None:
    for k, n in ((125, 2500), (2250, 2500), (2500, 5001), (12_345, 10**5), (10**4, 10**9)):
        upper = clopper_pearson_upper(k, n, delta)
        assert_smallest(upper, lambda p: oracles.large_binomial_cdf(k, n, p), delta)


@given(n=st.integers(0, 400), epsilon=probabilities, alpha_within=st.floats(1e-6, 0.999))
@example(n=10, epsilon=0.3, alpha_within=0.999)  # 10 * 0.3 is 3, but the double 0.3 is below it
@example(n=30, epsilon=0.1, alpha_within=0.825)
@example(n=3, epsilon=0.1, alpha_within=0.999)  # k = 0 needs no n * epsilon
@example(n=2, epsilon=0.9, alpha_within=0.005)  # too few examples for any k
def test_allowed_errors_in_task_by_definition(n: int, epsilon: float, alpha_within: float) -> None:
    allowed = allowed_errors(n, epsilon, alpha_within)
    product = n * Fraction(str(epsilon))
    valid = [k for k in range(allowed + 1) if k == 0 or k + 1 <= product]
    assert binomial.allowed_errors_in_task(n, epsilon, alpha_within) == max(valid, default=-1)


@given(
    n=st.integers(1, LARGEST),
    epsilon=st.integers(1, 9999).map(lambda part: part / 10**4) | all_probabilities,
)
@example(n=100, epsilon=0.29)  # 28.999999999999996 in doubles
@example(n=10**15, epsilon=0.007)
@example(n=LARGEST, epsilon=BELOW_ONE)
@example(n=LARGEST - 1, epsilon=0.5)
def test_n_times_epsilon_is_exact(n: int, epsilon: float) -> None:
    sizes = np.array([[n, n // 10 * 10], [n // 1000 * 1000, n - 1]])
    expected = [[math.floor(int(x) * Fraction(str(epsilon))) for x in row] for row in sizes]
    assert binomial._floor_of_product(sizes, epsilon).tolist() == expected


def poisson_binomial_cdf(k: int, sizes: Sequence[int], misses: Sequence[Fraction]) -> Fraction:
    """P[count <= k] for independent examples: so many with each of these miss probabilities."""
    masses = [Fraction(1)]
    for size, p in zip(sizes, misses, strict=True):
        for _ in range(size):
            missed = [Fraction(0), *(mass * p for mass in masses)]
            kept = [*(mass * (1 - p) for mass in masses), Fraction(0)]
            masses = [a + b for a, b in zip(missed, kept, strict=True)]
    return sum(masses[: k + 1], start=Fraction(0))


def largest_double_below(mean: Fraction) -> float:
    """The largest epsilon that is at most the mean, read as a double and as a decimal number."""
    epsilon = float(mean)
    while max(Fraction(epsilon), Fraction(str(epsilon))) > mean:
        epsilon = math.nextafter(epsilon, 0)
    return epsilon


def attained_levels(n: int, epsilon: float) -> list[float]:
    """The smallest doubles that allow 0, 1, ... errors; other levels allow no other numbers."""
    exact = [oracles.binomial_cdf(k, n, epsilon) for k in range(n)]
    rounded = [(level, float(level)) for level in exact]
    up = [near if near >= level else math.nextafter(near, 1) for level, near in rounded]
    return [level for level in up if level < 1]


def violated_levels(
    rule: Callable[[Any, float, float], Any], sizes: Sequence[int], misses: Sequence[Fraction]
) -> list[float]:
    """Levels at which a task that misses epsilon or more passes too often."""
    n = sum(sizes)
    mean = sum((size * p for size, p in zip(sizes, misses, strict=True)), start=Fraction(0)) / n
    epsilon = largest_double_below(mean)
    counts = [(level, rule(n, epsilon, level)) for level in attained_levels(n, epsilon)]
    return [
        level
        for level, count in counts
        if poisson_binomial_cdf(count, sizes, misses) > Fraction(level)
    ]


misses = st.sampled_from([Fraction(0), Fraction(1)]) | st.fractions(0, 1, max_denominator=50)


@given(
    strata=st.lists(st.tuples(st.integers(1, 6), misses), min_size=2, max_size=3).filter(
        lambda strata: 0 < sum(p for _, p in strata) < len(strata)
    )
)
@example(strata=[(5, Fraction(0)), (5, Fraction(2, 5))])
@example(strata=[(4, Fraction(0)), (4, Fraction(1, 2)), (4, Fraction(1))])
def test_the_cap_holds_for_every_stratified_task(strata: list[tuple[int, Fraction]]) -> None:
    # Every level at once: between two attained levels the count does not change.
    sizes, rates = zip(*strata, strict=True)
    assert violated_levels(binomial.allowed_errors_in_task, sizes, rates) == []


def test_negative_control_without_the_cap_stratified_tasks_violate_the_level() -> None:
    # One class is missed with probability 1/5, the other never: epsilon is 1/10.
    rates = (Fraction(0), Fraction(1, 5))
    for balanced in (2, 3, 5, 10, 15):
        assert violated_levels(allowed_errors, (balanced, balanced), rates)
        assert violated_levels(binomial.allowed_errors_in_task, (balanced, balanced), rates) == []
        for low in (0, 3, 8):  # in hundredths; the other class makes up for it
            pair = Fraction(low, 100), Fraction(20 - low, 100)
            assert (
                violated_levels(binomial.allowed_errors_at_worst, (balanced, balanced), pair) == []
            )
    uncapped, capped = (
        allowed_errors(30, 0.1, 0.825),
        binomial.allowed_errors_in_task(30, 0.1, 0.825),
    )
    assert (uncapped, capped) == (4, 2)
    assert float(poisson_binomial_cdf(4, (15, 15), rates)) == pytest.approx(0.836, abs=5e-4)
    assert poisson_binomial_cdf(2, (15, 15), rates) <= Fraction(0.825)


# The worst case over all make-ups of a task, against the whole list of extreme ones, as fractions.
CLOSE = Fraction(2, 10**10)  # a chance as close to a level as this counts as higher


def levels_of(epsilon: float) -> list[float]:
    g = Guarantee(epsilon=epsilon, alpha=0.1, delta=0.1)
    return [level.alpha_within for level in g.levels]


def rank_at(chances: Sequence[Fraction], limit: Fraction) -> int:
    return next((k for k, chance in enumerate(chances) if chance > limit), len(chances)) - 1


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.2, 1 / 3, 0.5, 0.7])
def test_ranks_at_the_worst_make_up_by_enumeration(epsilon: float) -> None:
    for n in range(1, 13):
        kinds = make_ups(n, n * Fraction(str(epsilon)))
        every = [[*itertools.accumulate(misses_of(n, *kind))][:n] for kind in kinds]
        worst = [max(column) for column in zip(*every, strict=True)]
        for level in levels_of(epsilon):
            least = rank_at(worst, Fraction(level) * (1 - CLOSE))
            found = binomial.allowed_errors_at_worst(n, epsilon, level)
            assert least <= found <= rank_at(worst, Fraction(level))


@pytest.mark.parametrize(("epsilon", "n"), [(0.1, 25), (0.015, 134), (0.03, 167), (0.2, 33)])
def test_ranks_at_the_worst_make_up_of_larger_tasks(epsilon: float, n: int) -> None:
    kinds = [[float(each) for each in kind] for kind in make_ups(n, n * Fraction(str(epsilon)))]
    ones, equal, share = np.array(kinds).T
    between = math.floor(n * Fraction(str(epsilon)))
    chance = stats.binom.cdf(between - ones, equal, share).max()
    assert stats.binom.cdf(between, n, epsilon) < chance  # i.i.d. is not the worst
    found = [binomial.allowed_errors_at_worst(n, epsilon, chance * (1 + 1e-9 * x)) for x in (-1, 1)]
    assert found == [between - 1, between]
    # Beyond 200 examples, and where n epsilon is an integer, the cap is that of large tasks.
    sizes = np.array([200, 201, 10**6])
    for level in (0.3, 0.94):
        capped = binomial.allowed_errors_in_task(sizes, epsilon, level)
        np.testing.assert_array_equal(
            binomial.allowed_errors_at_worst(sizes, epsilon, level), capped
        )


@pytest.mark.parametrize("is_iid", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.5])
def test_the_limit_of_a_randomised_rank_by_enumeration(epsilon: float, is_iid: bool) -> None:
    rule, raised = allowed_errors if is_iid else binomial.allowed_errors_at_worst, 0
    for n in range(1, 11):
        alike = [(0, n, Fraction(epsilon))]
        kinds = alike if is_iid else make_ups(n, n * Fraction(str(epsilon)))
        masses = [misses_of(n, *kind) for kind in kinds]
        for level in levels_of(epsilon):
            rank = int(rule(n, epsilon, level))
            chance = binomial.chance_of_next(n, epsilon, level, rank, is_iid=is_iid)
            if rank == n - 1:
                assert chance == 0
                continue
            pairs = [(sum(mass[: rank + 1]), mass[rank + 1]) for mass in masses]
            limits = [(Fraction(level) - below) / at for below, at in pairs if at]
            assert 0 <= min(1, *limits) - Fraction(chance) <= CLOSE
            raised += chance > 0
    assert raised > 100


def test_ranks_of_large_tasks_are_hardly_randomised() -> None:
    assert 0 < binomial.chance_of_next(10**4, 0.1, 0.05, 950, is_iid=True) <= 1
    assert binomial.chance_of_next(10_001, 0.1, 0.05, 951, is_iid=True) == 0
    # Beyond 200 examples only where the worst case is binomial.
    assert 0 < binomial.chance_of_next(201, 0.1, 0.05, 12, is_iid=False) < 1
    assert 0 < binomial.chance_of_next(200, 0.1, 0.9, 19, is_iid=False) < 1
    assert binomial.chance_of_next(201, 0.1, 0.9, 19, is_iid=False) == 0


@given(
    scores=st.lists(
        st.sampled_from([-math.inf, -1.0, 0.0, 0.25, 0.5, 2.0]), min_size=1, max_size=40
    ),
    epsilon=st.floats(0.01, 0.9),
    delta=st.floats(0.01, 0.9),
)
def test_threshold_is_the_best_score(scores: Any, epsilon: float, delta: float) -> None:
    found = threshold(scores, epsilon=epsilon, delta=delta)
    assert found == oracles.threshold(scores, epsilon, delta)


def test_violations_by_enumeration_with_ties() -> None:
    # Scores 0, 1, 2 with known probabilities: enumerate every sample of 6 and add up the
    # probabilities of those whose threshold misses more than epsilon: at most delta.
    weights, n, epsilon, delta = np.array([0.3, 0.3, 0.4]), 6, 0.35, 0.15
    missed = np.concatenate([[0.0], np.cumsum(weights)])  # P(score < value)
    violated = 0.0
    for sample in np.ndindex(3, 3, 3, 3, 3, 3):
        cut = threshold(np.array(sample, float), epsilon=epsilon, delta=delta)
        if cut > -np.inf and missed[int(cut)] > epsilon:
            violated += float(np.prod(weights[list(sample)]))
    assert 0 < violated <= delta
    assert allowed_errors(n, epsilon, delta) == 0


def test_a_threshold_is_one_of_the_scores_and_leaves_them_as_they_are() -> None:
    scores = np.linspace(1, 0, 100, dtype=np.float32)
    before = scores.copy()
    found = threshold(scores, epsilon=0.1, delta=0.05)
    assert found == before[::-1][allowed_errors(100, 0.1, 0.05)]
    np.testing.assert_array_equal(scores, before)
    assert threshold([0.4] * 28, epsilon=0.1, delta=0.05) == -math.inf
    assert threshold([0.4] * 29, epsilon=0.1, delta=0.05) == 0.4


CALLS: list[tuple[str, Any]] = [
    ("n", lambda: allowed_errors(-1, 0.1, 0.1)),
    ("n", lambda: allowed_errors(2.5, 0.1, 0.1)),
    ("n", lambda: allowed_errors([[1], [1, 2]], 0.1, 0.1)),
    ("n", lambda: allowed_errors(10**9 + 1, 0.1, 0.1)),
    *(("epsilon", lambda x=x: allowed_errors(5, x, 0.1)) for x in (0.0, "0.1", math.nan, True)),
    ("delta", lambda: allowed_errors(5, 0.1, 1.0)),
    ("k n", lambda: clopper_pearson_upper(8, 7, 0.1)),
    ("n", lambda: clopper_pearson_upper(0, 0, 0.1)),
    ("k n", lambda: clopper_pearson_upper([1, 2], [3, 4, 5], 0.1)),
    ("n", lambda: binomial.allowed_errors_in_task(-1, 0.1, 0.1)),
    ("alpha_within", lambda: binomial.allowed_errors_in_task(5, 0.1, 1.0)),
    ("scores", lambda: threshold([], epsilon=0.1, delta=0.1)),
    ("scores NaN", lambda: threshold([0.1, math.nan], epsilon=0.1, delta=0.1)),
    ("scores one-dimensional", lambda: threshold([[0.1], [0.2]], epsilon=0.1, delta=0.1)),
]


def test_bad_input_is_named() -> None:
    for words, call in CALLS:
        assert_refused(words, call)


def test_a_binomial_term_is_good_to_fifty_digits() -> None:
    # At k = n - k = 1000 Stirling's series is off by 3.6e-52, and without its last term by 6e-47.
    # The term is a product of numbers to the power n, so that of 70 digits 16 are lost at most.
    pairs = ((1000, 2000), (999, 2000), (3000, 10**4), (10**5, 10**6), (10**8, LARGEST))
    with localcontext(binomial._ARITHMETIC), mpmath.workdps(100):
        for k, n in pairs:
            success = Decimal(k + 1) / n
            result = mpmath.mpf(str(binomial._mass(k, n, success, 1 - success)))
            exact = oracles.binomial_term(k, n, mpmath.mpf(str(success)))
            assert abs(result / exact - 1) < mpmath.mpf("5e-52")


def test_the_smallest_certified_rate_without_a_guess() -> None:
    for k, n, delta in ((0, 1, 0.5), (3, 100, 0.05), (40, 50, 1e-12)):
        for start in (0.0, 1.0, math.nan):
            rate = binomial.min_certified_rate(k, n, delta, start)
            assert binomial.certifies_in_integers(k, n, rate, delta)
            lower = math.nextafter(math.nextafter(rate, 0), 0)
            assert not binomial.certifies_in_integers(k, n, lower, delta)
            assert binomial.min_certified_rate(k, n, delta, rate * (1 - 1e-8)) == rate


def test_sums_are_short_enough_up_to_a_billion_examples() -> None:
    for p in (1e-9, 1e-3, 0.1, 0.5, 0.9):
        assert not binomial.is_sum_too_long(round(10**9 * p), 10**9, p)
    assert binomial.is_sum_too_long(2**52, 2**53, 0.5)


@given(low=st.integers(0, 50), answer=st.integers(1, 100), extra=st.integers(0, 100))
def test_the_smallest_integer_is_found_by_bisection(low: int, answer: int, extra: int) -> None:
    target = low + answer
    assert binomial.min_integer(lambda n: n >= target, low, target + extra) == target


@given(answer=st.floats(1e-300, 0.999))
def test_the_smallest_value_is_found_by_bisection(answer: float) -> None:
    value = binomial.min_value(lambda x: x >= answer)
    assert value is not None
    assert answer <= value <= answer * (1 + 1e-14)
    assert binomial.min_value(lambda _: False) is None
    up = binomial.round_up(answer)
    assert answer <= up <= answer * 1.011
    assert float(f"{up:.3g}") == up

"""Copies of rows are noticed, and coarse scores are not taken for copies."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import data_checks
from metapac.data_checks import FALSE_ALARM, Repeats, count_repeats, judge_duplicates
from tests.helpers.honest_scores import SITES, draw_honest


def repeat(repeats: Repeats, times: int) -> Repeats:
    """Return the numbers if every row were repeated."""
    return {(times * size, times * k): count for (size, k), count in repeats.items()}


@given(
    st.lists(st.tuples(st.floats(0.001, 0.999), st.integers(6, 100)), min_size=1, max_size=5),
    st.integers(2, 20),
)
def test_expected_repeats_of_independent_rows_obey_the_inequality(
    cells: list[tuple[float, int]], k: int
) -> None:
    # N(k) is the number of rows, of given probabilities, that occur k times among n. No mixture
    # breaks the rule, so that the check can only be wrong by chance.
    counted = [(p, n) for p, n in cells if n >= 2 * (k + 1)]
    before, at, after = (
        sum(stats.binom.pmf(j, n, p) for p, n in counted) for j in (k - 1, k, k + 1)
    )
    factor = k / (k + 1) * (k + 2) / (k + 3)
    assert before * after >= factor * at**2 * (1 - 1e-9)


def test_the_false_alarm_rate_of_copies_is_computed() -> None:
    # Three counts in a row, of cells with one rate, where the inequality is an equality: the
    # worst case. Their joint distribution is a product of Poisson tails, and is summed up.
    rate, k, cells = 1.0, 2, 60.0
    means = [cells * stats.poisson.pmf(j, rate) for j in (k - 1, k, k + 1)]
    ranges = [range(int(stats.poisson.isf(1e-9, mean)) + 1) for mean in means]
    probabilities = [
        stats.poisson.pmf(list(r), mean) for r, mean in zip(ranges, means, strict=True)
    ]
    total = 0.0
    for (i, a), (j, b), (m, c) in itertools.product(*map(enumerate, ranges)):
        weight = probabilities[0][i] * probabilities[1][j] * probabilities[2][m]
        if (
            weight > 1e-12
            and b
            and data_checks._is_excess({(60, k - 1): a, (60, k): b, (60, k + 1): c}, k)
        ):
            total += weight
    assert total <= FALSE_ALARM


@given(st.floats(1e-3, 100))
def test_a_count_that_is_not_0_is_seldom_a_multiple(rate: float) -> None:
    # Hence the probability that 24 counts are all even, or all multiples of 3, and so on.
    counts = np.arange(1, 400)
    odds = stats.poisson.pmf(counts, rate) / stats.poisson.sf(0, rate)
    shares = [odds[counts % divisor == 0].sum() for divisor in (2, 3, 5, 7, 11, 13)]
    assert shares[0] <= 0.5 + 1e-12
    assert sum(share**24 for share in shares) <= FALSE_ALARM / 10


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_copies_are_objected_to_only_if_chance_cannot_explain_them(once: int, twice: int) -> None:
    # At least this many rows would then occur three times, and none does.
    needed = 2 / 3 * twice**2 / once
    if judge_duplicates({(10**9, 1): once, (10**9, 2): twice}) is not None:
        assert math.exp(-needed) <= FALSE_ALARM / 10
    else:
        assert needed < 100 or twice < 100


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 17])
def test_coarse_scores_pass_and_their_copies_do_not(digits: int) -> None:
    rng = np.random.default_rng(digits)
    labels, scores = draw_honest(rng)
    repeats = count_repeats(SITES, labels, np.round(scores, digits))
    assert judge_duplicates(repeats) is None
    twice = judge_duplicates(repeat(repeats, 2))
    assert twice is not None
    assert twice.is_error


def test_few_values_with_very_unequal_frequencies_pass() -> None:
    rng = np.random.default_rng(0)
    leaves = rng.choice(40, size=len(SITES), p=rng.dirichlet(np.full(40, 0.2)))
    repeats = count_repeats(SITES, leaves)
    assert judge_duplicates(repeats) is None
    assert judge_duplicates(repeat(repeats, 20)) is not None


def test_every_row_twice_is_an_error_and_some_rows_twice_a_warning() -> None:
    finding = judge_duplicates({(800, 2): 24000})
    assert finding is not None
    assert finding.is_error
    assert "every row occurs 2 times (48000 rows, 24000 distinct)" in str(finding.text)
    finding = judge_duplicates({(500, 1): 19000, (500, 2): 5000})
    assert finding is not None
    assert not finding.is_error
    assert "5000 of 29000 rows are copies of another row" in str(finding.text)
    finding = judge_duplicates({(300, 2): 1000, (400, 4): 100})
    assert finding is not None
    assert "every row occurs at least 2 times" in str(finding.text)


@pytest.mark.parametrize("repeats", [{}, {1: 10**9}, {2: 5}, {1: 10**6, 2: 100}, {5: 1}, {9: 8}])
def test_few_repeats_show_nothing(repeats: dict[int, int]) -> None:
    assert judge_duplicates({(1000, k): count for k, count in repeats.items()}) is None


def test_constant_scores_are_no_copies() -> None:
    # All rows of a task are alike: the number of times is the size of the task, not a coincidence.
    assert judge_duplicates(count_repeats(SITES, np.zeros(len(SITES)))) is None
    assert judge_duplicates({(2, 2): 10**6}) is None


@pytest.mark.parametrize("size", [6, 7, 40])
def test_two_values_in_tasks_of_one_size_are_no_copies(size: int) -> None:
    # Binomial counts, whose sum is fixed: as many tasks as have each split, in expectation.
    tasks = 10**7
    repeats: dict[tuple[int, int], int] = {}
    for k in range(size + 1):
        for times in (k, size - k):
            if times and (count := int(tasks * stats.binom.pmf(k, size, 0.5))):
                repeats[size, times] = repeats.get((size, times), 0) + count
    assert judge_duplicates(repeats) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_repeats_are_counted(rows: list[tuple[int, int]]) -> None:
    expected: dict[tuple[int, int], int] = {}
    tasks, values = np.array(rows).T
    for row in {*rows}:
        key = int(np.sum(tasks == row[0])), rows.count(row)
        expected[key] = expected.get(key, 0) + 1
    assert count_repeats(tasks, values) == expected
    assert count_repeats(tasks, np.column_stack([values, values])) == expected


def test_no_rows_are_no_copies() -> None:
    assert count_repeats(np.zeros(0, np.int64), np.zeros((0, 2))) == {}
    assert judge_duplicates({}) is None

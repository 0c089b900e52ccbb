"""Summaries and comparisons against plain loops."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee
from metapac.evaluation import (
    Rows,
    compare_sizes,
    summarise,
)

G = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)


def table(
    errors: Sequence[Sequence[float]],
    sizes: Sequence[Sequence[float]] | None = None,
    *,
    method: str = "PS",
    delta: float = G.failure_probability,
    feasible: bool = True,
) -> Rows:
    """Rows of one method, from the errors of the tasks of each draw."""
    shape = np.shape(errors)
    count = int(np.prod(shape))
    return Rows(
        draw=np.repeat(np.arange(shape[0]), shape[1]),
        method=np.full(count, method),
        delta=np.full(count, delta),
        task=np.tile(np.arange(shape[1]), shape[0]),
        threshold=np.zeros(count),
        feasible=np.full(count, feasible),
        error=np.ravel(errors),
        size=np.ones(count) if sizes is None else np.ravel(sizes),
    )


numbers = st.sampled_from([0.0, 0.05, 0.1, 0.100001, 0.3])


draws = st.integers(1, 5).flatmap(
    lambda tasks: st.lists(
        st.lists(st.tuples(numbers, st.integers(0, 5)), min_size=tasks, max_size=tasks),
        min_size=1,
        max_size=6,
    )
)


@given(draws)
def test_a_summary_is_what_plain_loops_count(cells: list[list[tuple[float, int]]]) -> None:
    errors = [[error for error, _ in draw] for draw in cells]
    sizes = [[float(size) for _, size in draw] for draw in cells]
    flat = [error for draw in errors for error in draw]
    (result,) = summarise(table(errors, sizes), G)
    assert (result.method, result.delta, result.feasible) == ("PS", 0.05, True)
    assert result.size == pytest.approx(statistics.fmean([size for draw in sizes for size in draw]))
    assert result.size_median == statistics.median([size for draw in sizes for size in draw])
    within = sum(error <= 0.1 for error in flat)
    assert result.tasks_within == within / len(flat)
    assert result.satisfied == (5 * (len(flat) - within) <= len(flat))  # alpha is one fifth
    good = [5 * sum(error > 0.1 for error in draw) <= len(draw) for draw in errors]
    assert result.draws_within == sum(good) / len(good)


def test_the_90th_percentile_lies_between_its_neighbours() -> None:
    (result,) = summarise(table([[i / 100 for i in range(11)]]), G)
    assert result.error_90 == pytest.approx(0.09)
    (result,) = summarise(table([[0.0, 0.2]]), G)
    assert result.error_90 == pytest.approx(0.18)


def test_each_method_has_a_line_for_each_delta() -> None:
    rows = Rows.concatenate(
        [
            table([[0.1]], method="A", delta=0.5),
            table([[0.2]], method="B", feasible=False),
            table([[0.3]], method="A"),
        ]
    )
    result = summarise(rows, G)
    assert [(s.method, s.delta, s.error_90, s.feasible) for s in result] == [
        ("A", 0.5, 0.1, True),
        ("B", 0.05, 0.2, False),
        ("A", 0.05, 0.3, True),
    ]


def test_a_share_that_is_just_allowed_is_allowed() -> None:
    # 1 - 0.7 is more than three tenths in doubles; seven tenths in violation are still allowed.
    (result,) = summarise(table([[0.0] * 3 + [0.2] * 7]), replace(G, alpha=0.7))
    assert result.satisfied
    assert result.draws_within == 1


def test_one_infeasible_task_makes_a_method_infeasible() -> None:
    rows = table([[0.0, 0.0]])
    (result,) = summarise(replace(rows, feasible=np.array([True, False])), G)
    assert not result.feasible


def test_pairs_are_students_t_over_draws() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 8, 5))
    rows = Rows.concatenate([table(one, one, method="A"), table(other, other, method="B")])
    result = compare_sizes(rows, "A", "B")
    apart = (one - other).mean(axis=1)
    low, high = stats.ttest_1samp(apart, 0).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((low, high))
    assert result.difference == pytest.approx(apart.mean())
    assert (result.first_size, result.second_size) == pytest.approx((one.mean(), other.mean()))
    assert (result.first, result.second, result.draws) == ("A", "B", 8)
    assert compare_sizes(rows, "B", "A").difference == pytest.approx(-result.difference)


def test_one_draw_says_nothing_about_the_spread() -> None:
    rows = Rows.concatenate([table([[0.1]], [[2]], method="A"), table([[0.1]], [[3]], method="B")])
    result = compare_sizes(rows, "A", "B")
    assert (result.difference, result.low, result.high) == (-1, -np.inf, np.inf)


def test_pairs_have_one_delta_and_the_same_draws() -> None:
    rows = Rows.concatenate(
        [
            table([[0.1]], [[2]], method="A"),
            table([[0.1]], [[9]], method="B", delta=0.5),
            table([[0.1]], [[3]], method="B"),
            table([[0.1]], [[5]], method="A", delta=0.5),
            table([[0.1], [0.1]], method="C"),
        ]
    )
    assert compare_sizes(rows, "A", "B").difference == -1
    assert compare_sizes(rows, "A", "B", delta=0.5).difference == -4
    with pytest.raises(ValueError, match="'A' and 'C' must have been run on the same draws to be"):
        compare_sizes(rows, "A", "C")
    with pytest.raises(ValueError, match="rows hold no method 'C' at delta=0.5"):
        compare_sizes(rows, "A", "C", delta=0.5)

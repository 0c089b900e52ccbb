"""Two methods compared on the same draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import compare_sizes
from tests.helpers.studies import method_rows as table


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


def test_three_seeds_are_students_t_over_seeds() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.normal(size=(3, 2, 8, 5))  # (seeds, methods, draws, tasks)
    by_seed = [
        Rows.concatenate([table(one, one, method="A"), table(other, other, method="B")])
        for one, other in sizes
    ]
    result = compare_sizes(by_seed, "A", "B")
    of_draws = (sizes[:, 0] - sizes[:, 1]).mean(axis=2)
    low, high = stats.ttest_1samp(of_draws.mean(axis=1), 0).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((low, high))
    assert result.difference == pytest.approx(of_draws.mean())
    means = sizes.mean(axis=(0, 2, 3))
    assert (result.first_size, result.second_size) == pytest.approx(tuple(means))
    assert result.draws == 24
    assert compare_sizes(by_seed[:1], "A", "B") == compare_sizes(by_seed[0], "A", "B")
    # Two learners say little of a third: the draws of both are the units, spread within each.
    two = compare_sizes(by_seed[:2], "A", "B")
    around = (of_draws[:2] - of_draws[:2].mean(axis=1, keepdims=True)).ravel()
    half = stats.t.ppf(0.975, 14) * np.sqrt(around @ around / 14 / 16)
    assert two.high - two.difference == pytest.approx(half)

"""Two methods compared on the same draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from metapac.evaluation import Rows, compare_sizes
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

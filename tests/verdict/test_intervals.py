"""Intervals are those of SciPy."""

from __future__ import annotations

import pytest
from scipy import stats

from metapac.verdict import clopper_pearson_interval


def test_intervals_are_those_of_clopper_and_pearson() -> None:
    low, high = clopper_pearson_interval([0, 3, 10, 0], [10, 10, 10, 0])
    for i, missed in enumerate((0, 3, 10)):
        ends = stats.binomtest(missed, 10).proportion_ci(method="exact")
        assert (low[i], high[i]) == pytest.approx((ends.low, ends.high))
    assert (low[3], high[3]) == (0, 1)

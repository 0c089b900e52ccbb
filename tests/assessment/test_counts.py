"""Counts of each task and class, compared with a loop over the examples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from metapac import judge
from metapac.evaluation import ClassMisses
from tests.helpers.labelled_sites import calibrate, get_scores, get_true_scores, run


def test_counts_of_each_task_and_class(frame: pd.DataFrame) -> None:
    promise = calibrate()
    result = run(promise, frame)
    sets = promise.predict_set(get_scores(frame))
    missed = ~promise.predict_set(get_true_scores(frame))
    new = (frame.site != "known 3").to_numpy()
    assert result.tasks.tolist() == ["a", "b", "d"]
    assert result.overlap == ("known 3",)
    for i, name in enumerate(result.tasks):
        rows = (frame.site == name).to_numpy()
        assert result.examples[i] == rows.sum()
        assert result.missed[i] == missed[rows].sum()
        sizes = sets[rows].sum(axis=1)
        assert result.sizes is not None
        assert result.sizes[i] == sizes.mean()
        assert result.sets is not None
        found = [column[i] for column in result.sets]
        assert found == [sizes.sum(), (sizes == 0).sum(), (sizes == 1).sum(), (sizes == 3).sum()]
        ends = stats.binomtest(int(result.missed[i]), int(result.examples[i])).proportion_ci()
        assert (result.low[i], result.high[i]) == pytest.approx((ends.low, ends.high))
    assert result.classes is not None
    for part in result.classes:
        rows = (frame.y == part.label).to_numpy() & new
        assert (part.examples, part.missed) == (rows.sum(), missed[rows].sum())
        ends = stats.binomtest(part.missed, part.examples).proportion_ci()
        assert (part.low, part.high) == pytest.approx((ends.low, ends.high))
    assert result.verdict is not None
    expected = judge(result.examples, result.missed, epsilon=0.3, alpha=0.4, delta=0.3)
    assert result.verdict.p_holds == expected.p_holds
    shares = result.set_shares
    assert shares is not None
    sizes = sets[new].sum(axis=1)
    assert shares == pytest.approx(
        {
            k: np.mean(sizes == n)
            for k, n in zip(("empty", "single", "full"), (0, 1, 3), strict=True)
        }
    )


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3])
def test_a_class_is_above_by_the_one_sided_limit_of_verdicts(epsilon: float) -> None:
    apart = 0
    for missed in range(61):
        low, high = stats.binomtest(missed, 60).proportion_ci()
        part = ClassMisses("a", 60, missed, low, high)
        chance = stats.binom.sf(missed - 1, 60, epsilon)  # of as many misses, or more
        assert part.is_above(epsilon) == (chance <= 0.05)
        verdict = judge([60], [missed], epsilon=epsilon, alpha=0.1, delta=0.1)
        assert part.is_above(epsilon) == (verdict.flagged == 1)
        apart += part.is_above(epsilon) and low <= epsilon
    assert apart  # the two-sided interval would call fewer of them above

"""The bound on scores that allows for rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.learners.protocols import lower_scores


@given(
    logits=st.lists(st.floats(-20, 20), min_size=2, max_size=5),
    slack=st.floats(0, 1),
    precision=st.sampled_from([np.float32, np.float64]),
)
def test_no_rise_of_the_other_logits_falls_below_the_bound(
    logits: list[float], slack: float, precision: type[np.floating]
) -> None:
    def true_score(raised: float) -> float:
        return float(1 / (1 + np.exp(np.array(logits[1:]) + raised - logits[0]).sum()))

    bound = lower_scores(np.array([true_score(0.0)]), slack, precision=precision)
    assert bound.dtype == precision
    assert bound[0] <= precision(true_score(slack)) * (1 + 1e-12)
    assert bound[0] < precision(true_score(0.0))


def test_zero_stays_zero_and_one_falls_by_one_float() -> None:
    bounds = lower_scores(np.array([0.0, 1.0], np.float32), 0.1)
    assert bounds.tolist() == [0.0, float(np.nextafter(np.float32(1), np.float32(0)))]


def test_the_bound_is_tight() -> None:
    (bound,) = lower_scores(np.array([0.5]), np.log(2), steps=0)
    assert bound == pytest.approx(1 / 3)  # odds of 1 to 1 become 1 to 2

"""PS: one call to the inequality, and the sets of its threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from metapac import PS, InfeasibleGuarantee, threshold
from tests.helpers.calibrations import draw_tasks


def test_ps_is_one_call_to_the_inequality() -> None:
    scores = draw_tasks()[0]
    result = PS(epsilon=0.1, delta=1e-5).calibrate(scores)
    assert result.threshold_ == threshold(scores, epsilon=0.1, delta=1e-5)
    assert "over the draw of the 5200 calibration examples" in str(result)


def test_ps_on_examples_of_the_test_task_is_infeasible_in_the_paper() -> None:
    with pytest.raises(InfeasibleGuarantee) as caught:
        PS(epsilon=0.1, delta=1e-5).calibrate(np.zeros(100))
    assert str(caught.value) == (
        "epsilon=0.1, delta=1e-05 cannot be guaranteed: this takes 110 examples, but there "
        "are 100. Options: add 10 examples; or settle for epsilon=0.109; or settle for "
        "delta=2.66e-05; or pass on_infeasible='trivial' to keep every label."
    )
    assert PS(epsilon=0.109, delta=1e-5).calibrate(np.zeros(100)).threshold_ == 0
    assert PS(epsilon=0.1, delta=2.66e-5).calibrate(np.zeros(100)).threshold_ == 0
    trivial = PS(epsilon=0.1, delta=1e-5, on_infeasible="trivial").calibrate(np.zeros(100))
    assert trivial.threshold_ == -math.inf


def test_sets_are_scores_at_least_the_threshold() -> None:
    result = PS(epsilon=0.5, delta=0.5).calibrate([0.25] * 9)
    kept = result.predict_set([[0.25, 0.2], [0.3, math.nextafter(0.25, 0)]])
    assert kept.dtype == np.bool_
    assert kept.tolist() == [[True, False], [True, False]]
    assert result.predict_set(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("coarse", [np.float16, np.float32])
def test_scores_are_compared_in_the_coarser_precision(coarse: type) -> None:
    # 0.1 rounds up to float32 and down to float16; what calibration kept is still kept.
    exact = np.full(50, 0.1)
    narrow: Any = exact.astype(coarse)
    for calibration in (exact, narrow):
        result = PS(epsilon=0.1, delta=0.05).calibrate(calibration)
        for scores in (exact, narrow):
            assert result.predict_set(scores).all()
    below = PS(epsilon=0.1, delta=0.05).calibrate(narrow)
    assert not below.predict_set(np.nextafter(narrow, coarse(0))).any()
    assert PS(epsilon=0.1, delta=0.05).calibrate([1e300] * 50).predict_set(narrow).sum() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PS(epsilon=2, delta=0.1).calibrate([1.0]), "epsilon must be .* got 2"),
        (
            lambda: PS(epsilon=0.5, delta=0.5).calibrate([0.1] * 9).predict_set([[0.1, math.nan]]),
            r"scores holds 1 NaN out of 2 values \(first in row 0\)",
        ),
        (
            lambda: PS(epsilon=0.5, delta=0.5).calibrate([0.1] * 9).predict_set(math.nan),
            "scores holds 1 NaN out of 1 values",
        ),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_scikit_learns_contract() -> None:
    assert clone(PS(epsilon=0.1, delta=0.2)).get_params() == {
        "epsilon": 0.1,
        "delta": 0.2,
        "on_infeasible": "raise",
    }

"""Prediction sets as label lists and sizes, and intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metapac import (
    PS,
    MetaPS,
    empty_sets,
    interval,
    label_lists,
    residual_scores,
    set_sizes,
    threshold,
)

SETS = np.array([[True, False, True], [False, False, False], [True, True, True]])
finite = st.floats(-1e6, 1e6)


def test_labels_sizes_and_empties() -> None:
    assert label_lists(SETS) == [[0, 2], [], [0, 1, 2]]
    assert label_lists(SETS, ["cat", "dog", "owl"])[0] == ["cat", "owl"]
    names: Any = np.array(["cat", "dog", "owl"])
    assert type(label_lists(SETS, names)[0][0]) is str
    assert set_sizes(SETS).tolist() == [2, 0, 3]
    assert empty_sets(SETS).tolist() == [False, True, False]
    assert label_lists(np.zeros((0, 3), dtype=bool)) == []


@given(y=finite, prediction=finite, scale=st.floats(1e-6, 1e6), cut=st.floats(-1e6, 0))
def test_no_y_is_lost_to_rounding(y: float, prediction: float, scale: float, cut: float) -> None:
    low, high = interval(cut, prediction, scale).tolist()
    if residual_scores(y, prediction, scale) >= cut:
        assert low <= y <= high
    assert high - low <= 2 * -cut * scale * (1 + 1e-12) + 1e-12 * abs(prediction) + 1e-300 * scale


@given(prediction=finite, scale=st.floats(1e-3, 1e3), y=finite)
def test_the_example_at_the_cut_is_inside(prediction: float, scale: float, y: float) -> None:
    # The tie that decides a threshold: the calibration example whose score it is.
    cut = float(residual_scores(y, prediction, scale))
    assume(math.isfinite(cut))
    low, high = interval(cut, prediction, scale).tolist()
    assert low <= y <= high


def test_underflow_loses_nothing() -> None:
    cut = float(residual_scores(5e-324, 0.0, 1e6))
    low, high = interval(cut, 0.0, 1e6).tolist()
    assert low <= 5e-324 <= high


@given(y=finite, prediction=finite, scale=st.floats(1e-3, 1e3))
def test_scores_rounded_to_float32_lose_nothing(y: float, prediction: float, scale: float) -> None:
    cut = np.float32(residual_scores(y, prediction, scale))
    low, high = interval(float(cut), prediction, scale, precision=np.float32).tolist()
    assert low <= y <= high


def test_intervals_satisfy_the_guarantee_of_the_threshold() -> None:
    rng = np.random.default_rng(0)
    prediction = rng.normal(size=(130, 40))
    scale = rng.uniform(0.5, 2, size=(130, 40))
    y = prediction + scale * rng.normal(size=(130, 40))
    scores = residual_scores(y, prediction, scale)
    result = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(
        scores.ravel(), np.repeat(np.arange(130), 40)
    )
    ends = result.predict_interval(prediction, scale)
    assert ends.shape == (130, 40, 2)
    inside = (ends[..., 0] <= y) & (y <= ends[..., 1])
    np.testing.assert_array_equal(inside, result.predict_set(scores))


def test_intervals_without_a_threshold_are_the_whole_line() -> None:
    trivial = PS(epsilon=0.1, delta=0.1, on_infeasible="trivial").calibrate([-1.0])
    assert trivial.predict_interval([3.0]).tolist() == [[-math.inf, math.inf]]


def test_one_scale_for_all_predictions() -> None:
    cut = threshold(residual_scores([1.0] * 50, [0.0] * 50, 2.0), epsilon=0.1, delta=0.1)
    assert cut == -0.5
    np.testing.assert_allclose(interval(cut, [1.0, 5.0], 2.0), [[0, 2], [4, 6]], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: label_lists(SETS, ["a"]), "classes must name the 3 columns of sets, got 1 names"),
        (lambda: set_sizes([[1, 0]]), "sets must be a boolean matrix .* got int64 of shape"),
        (lambda: empty_sets([True]), r"sets must be a boolean matrix .* got bool of shape \(1,\)"),
        (
            lambda: interval(math.nan, [1.0]),
            "threshold is nan, but residual scores",
        ),
        (
            lambda: interval(0.5, [1.0]),
            "threshold is 0.5, but residual scores .* are never positive. Calibrate on residual_sc",
        ),
        (lambda: interval(-1.0, [math.nan]), "prediction must be finite, got nan at position 0"),
        (lambda: interval(-1.0, [1.0], 0.0), "scale must be finite and positive, got 0.0 at posit"),
        (lambda: interval(-1.0, [1.0], [1.0, -2.0]), "scale must be finite and positive, got -2.0"),
        (lambda: residual_scores([math.inf], [1.0]), "y must be finite, got inf at position 0"),
        (
            lambda: interval(-1.0, [1.0, 2.0, 3.0], [1.0, 2.0]),
            r"prediction and scale must have the same shape, got \(3,\) and \(2,\)",
        ),
        (
            lambda: residual_scores([1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]]),
            r"y and prediction must have the same shape, got \(3,\) and \(3, 1\)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

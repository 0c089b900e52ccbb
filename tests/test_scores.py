"""Scores as users have them: lists, NumPy, pandas, polars, pyarrow, torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import PS, InvalidInput, MetaPS, inputs
from metapac.grouping import group

NAMES = ["ohio", "iowa", "ohio", "utah", "iowa", "ohio"]
NUMBERS = [7, 3, 7, 5, 3, 7]
SCORES = [0.5, 0.25, 0.75, 1.0, 0.0, 0.125]


@pytest.mark.parametrize(
    "column",
    [
        list,
        np.array,
        lambda scores: np.array(scores, dtype=">f8"),
        lambda scores: np.array(scores, dtype=np.longdouble),
        lambda scores: np.array(scores, dtype=object),
        pd.Series,
        lambda scores: pd.Series(scores, dtype="Float64"),
        pl.Series,
        pa.array,
        torch.tensor,
        lambda scores: torch.tensor(scores, requires_grad=True),
        lambda scores: torch.tensor(scores, dtype=torch.float16),
        lambda scores: np.ma.masked_array(scores, mask=[False] * 6),
    ],
)
def test_scores(column: Callable[[Any], Any]) -> None:
    result = group(column(SCORES), NAMES)
    assert result.scores.tolist() == [0.5, 0.75, 0.125, 0.25, 0.0, 1.0]


def test_precision_is_kept() -> None:
    for precision in (np.float16, np.float32, np.float64):
        assert group(np.array(SCORES, dtype=precision), NAMES).scores.dtype == precision
    assert group(torch.tensor(SCORES), NAMES).scores.dtype == np.float32
    assert group(torch.tensor(SCORES, dtype=torch.bfloat16), NAMES).scores.dtype == np.float32
    assert group([1, 0, 1, 1, 0, 0], NAMES).scores.dtype == np.float64


@pytest.mark.needs_gpu
def test_a_tensor_on_the_gpu() -> None:
    scores = torch.tensor(SCORES, device="cuda")
    assert group(scores, torch.tensor(NUMBERS, device="cuda")).sizes.tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    ("scores", "tasks", "message"),
    [
        (
            [0.1, math.nan, math.nan],
            ["iowa", "ohio", "ohio"],
            r"scores holds 2 NaN out of 3 values \(first in task 'ohio'\); a score that cannot be "
            "compared cannot be certified. Drop those examples.",
        ),
        ([], [], "scores is empty; pass at least one labelled example."),
        (
            np.zeros((2, 3)),
            ["a", "b"],
            r"got shape \(2, 3\). Of class probabilities, pass those of the true labels, "
            r"scores\[np.arange\(len\(y\)\), y\]; of a matrix with one row per task, scores.ravel",
        ),
        (
            pd.Series([0.1, 0.2], index=[1, 0]),
            pd.Series(["a", "b"]),
            "scores and tasks are pandas columns with different indices. Take both from one frame",
        ),
        ([[1.0], [1.0, 2.0]], ["a", "b"], "scores must be a rectangular array of numbers"),
        (["x", "y"], [0.1, 0.2], "scores must be real numbers, got <U1.* Were scores and tasks s"),
        ([True, False], ["a", "b"], "scores must be real numbers, got bool"),
        ([1j], ["a"], "scores must be real numbers, got complex128"),
        (
            np.array([0.1, "0.2"], dtype=object),
            ["a", "b"],
            "scores must be real numbers, got '0.2' of type str at position 1.* tasks swapped",
        ),
        ([0.1, None], ["a", "b"], "got None of type NoneType at position 1. Convert them to fl"),
        (np.ma.masked_array([0.1, 0.2], [True, False]), ["a", "b"], "scores holds 1 masked value"),
    ],
)
def test_bad_input_is_named(scores: Any, tasks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MetaPS(epsilon=0.1, alpha=0.1, delta=0.1).calibrate(scores, tasks)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_must_be_finite(value: float) -> None:
    array = np.array([1.0, value])
    with pytest.raises(InvalidInput, match="x must be finite, got .* at position 1"):
        inputs.check_finite("x", array)
    with pytest.raises(InvalidInput, match="x must be finite and positive, got .* at position 1"):
        inputs.check_finite("x", array, positive=True)


def test_numbers_that_must_be_positive() -> None:
    inputs.check_finite("x", np.array([1.0, 0.0]))
    with pytest.raises(
        InvalidInput, match=r"x must be finite and positive, got 0\.0 at position 1"
    ):
        inputs.check_finite("x", np.array([1.0, 0.0]), positive=True)


def test_thresholds_become_a_matrix() -> None:
    assert inputs.as_threshold_matrix(np.zeros(3), levels=1).shape == (3, 1)
    assert inputs.as_threshold_matrix(np.zeros((3, 2)), levels=2).shape == (3, 2)
    with pytest.raises(InvalidInput, match=r"must hold 2 values for each task, got shape \(3,\)"):
        inputs.as_threshold_matrix(np.zeros(3), levels=2)
    with pytest.raises(InvalidInput, match="1 NaN out of 4 values .first in task number 1."):
        inputs.as_threshold_matrix(np.array([[0, 1], [0, math.nan]]), levels=2)


def test_each_number_keeps_its_precision() -> None:
    mixed = [np.float16(1), 1.0, np.zeros(2, dtype=np.float32)]
    assert inputs.get_precisions(mixed) == [np.float16, np.float64, np.float32]
    assert inputs.get_precisions(np.zeros(3, dtype=np.float32)) == [np.float32]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_largest_bfloat16_not_above_a_value(value: float) -> None:
    floor = float(inputs.floor_to_bfloat16(value))
    assert floor <= value
    assert torch.tensor(floor).to(torch.bfloat16).float().item() == floor or math.isinf(floor)
    rounded = torch.tensor(value).to(torch.bfloat16).float().item()
    assert floor <= rounded


def nearest(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float32).to(torch.bfloat16)


@settings(max_examples=300)
@given(st.floats(-(2.0**127), 2.0**127, width=32), st.floats(-1, 1))
def test_no_score_that_rounds_to_the_same_bfloat16_is_lost(value: float, away: float) -> None:
    stored = nearest(value)
    result = PS(epsilon=0.5, delta=0.5).calibrate(stored.expand(9))
    # Any float32 that rounds to it is kept, and so is the bfloat16 itself.
    step = max(abs(float(stored)) * 2.0**-8, 2.0**-134)
    other = np.float32(float(stored) + away * step)
    if nearest(float(other)) == stored:
        assert result.predict_set(np.array([other])).all()
    assert result.predict_set(stored).all()
    assert result.predict_set(np.array([value], dtype=np.float32)).all()
    # A score a few steps below is not kept.
    below = float(stored) - 4 * step
    if below > -3e38:
        assert not result.predict_set(np.array([below], dtype=np.float32)).any()


def test_a_bfloat16_score_at_the_threshold_is_kept() -> None:
    result = PS(epsilon=0.1, delta=0.05)
    result.calibrate(torch.full((100,), 0.1, dtype=torch.bfloat16))
    assert result.predict_set(np.array([0.1], np.float32)).all()
    tasks = np.repeat(np.arange(40), 60)
    whole = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(
        torch.full((2400,), 0.1, dtype=torch.bfloat16), tasks
    )
    assert whole.predict_set(np.array([0.1], np.float32)).all()
    for edge in (-math.inf, math.inf):  # no finite score rounds to it
        same = PS(epsilon=0.5, delta=0.5).calibrate(torch.full((9,), edge, dtype=torch.bfloat16))
        assert same.threshold_ == edge


@given(score=st.floats(-1e30, 1e30), wide=st.booleans())
def test_a_score_deployed_in_bfloat16_is_kept(score: float, wide: bool) -> None:
    kind = np.float64 if wide else np.float32
    result = PS(epsilon=0.1, delta=0.05).calibrate(np.full(100, score, kind))
    deployed = torch.tensor([score], dtype=torch.float64).to(torch.bfloat16)
    assert result.predict_set(deployed).all()
    lower = torch.tensor([float(deployed) - 0.02 * abs(float(deployed)) - 1e-30])
    assert not result.predict_set(lower.to(torch.bfloat16)).any() or score == 0


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_precisions_of_scores(name: str) -> None:
    assert inputs.as_precision(name) == inputs.as_precision(np.dtype(name)) == np.dtype(name)


@pytest.mark.parametrize("name", ["int8", "bool", "S1", "O", "longdouble", "", 8, None, np.float64])
def test_other_types_are_no_precision(name: object) -> None:
    with pytest.raises(InvalidInput, match="precision must be float16, float32 or float64, got"):
        inputs.as_precision(name)

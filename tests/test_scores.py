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
from hypothesis import given
from hypothesis import strategies as st

from metapac import MetaPS, _scores
from metapac.exceptions import InvalidInput
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
        _scores.check_finite("x", array)
    with pytest.raises(InvalidInput, match="x must be finite and positive, got .* at position 1"):
        _scores.check_finite("x", array, positive=True)


def test_numbers_that_must_be_positive() -> None:
    _scores.check_finite("x", np.array([1.0, 0.0]))
    with pytest.raises(
        InvalidInput, match=r"x must be finite and positive, got 0\.0 at position 1"
    ):
        _scores.check_finite("x", np.array([1.0, 0.0]), positive=True)


def test_one_finite_number() -> None:
    assert _scores.as_finite_number("x", np.float32(0.5)) == 0.5
    for bad in (math.inf, math.nan, [0.5]):
        with pytest.raises(InvalidInput, match="x must be one finite number, got"):
            _scores.as_finite_number("x", bad)


def test_thresholds_become_a_matrix() -> None:
    assert _scores.as_threshold_matrix(np.zeros(3), levels=1).shape == (3, 1)
    assert _scores.as_threshold_matrix(np.zeros((3, 2)), levels=2).shape == (3, 2)
    with pytest.raises(InvalidInput, match=r"must hold 2 values for each task, got shape \(3,\)"):
        _scores.as_threshold_matrix(np.zeros(3), levels=2)
    with pytest.raises(InvalidInput, match="1 NaN out of 4 values .first in task number 1."):
        _scores.as_threshold_matrix(np.array([[0, 1], [0, math.nan]]), levels=2)


def test_each_number_keeps_its_precision() -> None:
    mixed = [np.float16(1), 1.0, np.zeros(2, dtype=np.float32)]
    assert _scores.get_precisions(mixed) == [np.float16, np.float64, np.float32]
    assert _scores.get_precisions(np.zeros(3, dtype=np.float32)) == [np.float32]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_largest_bfloat16_not_above_a_value(value: float) -> None:
    floor = float(_scores.floor_to_bfloat16(value))
    assert floor <= value
    assert torch.tensor(floor).to(torch.bfloat16).float().item() == floor or math.isinf(floor)
    rounded = torch.tensor(value).to(torch.bfloat16).float().item()
    assert floor <= rounded

"""Scores and task ids as people have them: lists, NumPy, pandas, polars, pyarrow, torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from metapac import MetaPS, load
from metapac.grouping import group

NAMES = ["ohio", "iowa", "ohio", "utah", "iowa", "ohio"]
NUMBERS = [7, 3, 7, 5, 3, 7]
SCORES = [0.5, 0.25, 0.75, 1.0, 0.0, 0.125]


@pytest.mark.parametrize(
    "column",
    [
        list,
        tuple,
        np.array,
        lambda ids: np.array(ids, dtype=object),
        pd.Series,
        pd.Index,
        pd.Categorical,
        lambda ids: pd.Series(ids).astype("category"),
        lambda ids: pd.Series(ids, index=[9, 8, 7, 6, 5, 4]),
        pl.Series,
        pa.array,
        lambda ids: pa.chunked_array([ids[:2], ids[2:]]),
        lambda ids: pa.array(ids).dictionary_encode(),
        iter,
    ],
)
@pytest.mark.parametrize("ids", [NAMES, NUMBERS], ids=["strings", "integers"])
def test_task_ids(column: Callable[[Any], Any], ids: list[Any]) -> None:
    found = group(SCORES, column(ids))
    assert found.names.tolist() == list(dict.fromkeys(ids))
    assert found.sizes.tolist() == [3, 2, 1]
    assert found.scores.tolist() == [0.5, 0.75, 0.125, 0.25, 0.0, 1.0]


@pytest.mark.parametrize(
    "ids",
    [
        torch.tensor(NUMBERS),
        pl.Series(NAMES, dtype=pl.Categorical),
        pd.Series(NUMBERS, dtype="Int64"),
        pd.Series(NAMES, dtype="string[pyarrow]"),
        np.array(NUMBERS, dtype=np.uint8),
        [("ohio", 1), ("iowa", 1), ("ohio", 1), ("utah", 1), ("iowa", 1), ("ohio", 1)],
        np.array(NUMBERS, dtype="datetime64[D]"),
        np.array(NAMES, dtype=bytes),
    ],
    ids=lambda ids: type(ids).__module__,
)
def test_more_task_ids(ids: Any) -> None:
    assert group(SCORES, ids).sizes.tolist() == [3, 2, 1]


def test_integers_too_wide_for_numpy_stay_what_they_are(tmp_path: Path) -> None:
    ids = np.array([2**63 + 1, 2**63 + 3, 5], dtype=np.uint64)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    method.calibrate([0.1, 0.2, 0.3], ids).save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").tasks_.tolist() == ids.tolist()


def test_names_that_differ_in_little_stay_apart() -> None:
    ids = ["a", "a ", "A", "a\0", "a\n", "", "ä", "a\u0308"]
    assert group(np.zeros(8), ids).names.tolist() == ids


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
    found = group(column(SCORES), NAMES)
    assert found.scores.tolist() == [0.5, 0.75, 0.125, 0.25, 0.0, 1.0]


def test_precision_is_kept() -> None:
    for kept in (np.float16, np.float32, np.float64):
        assert group(np.array(SCORES, dtype=kept), NAMES).scores.dtype == kept
    assert group(torch.tensor(SCORES), NAMES).scores.dtype == np.float32
    assert group(torch.tensor(SCORES, dtype=torch.bfloat16), NAMES).scores.dtype == np.float32
    assert group([1, 0, 1, 1, 0, 0], NAMES).scores.dtype == np.float64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_tensor_on_the_gpu() -> None:
    scores = torch.tensor(SCORES, device="cuda")
    assert group(scores, torch.tensor(NUMBERS, device="cuda")).sizes.tolist() == [3, 2, 1]


@pytest.mark.parametrize(("tasks", "sizes"), [(70_000, 1), (3, 50_000), (300, 200)])
def test_many_tasks_or_large_ones(tasks: int, sizes: int) -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(tasks), sizes))
    scores = rng.random(len(ids))
    found = group(scores, ids)
    assert found.names.tolist() == list(dict.fromkeys(ids.tolist()))
    starts = np.cumsum(found.sizes) - found.sizes
    for i in (0, tasks // 2, tasks - 1):
        mine = found.scores[starts[i] : starts[i] + found.sizes[i]]
        np.testing.assert_array_equal(mine, scores[ids == found.names[i]])


@pytest.mark.parametrize(
    ("scores", "tasks", "message"),
    [
        (
            [0.1, math.nan, math.nan],
            ["iowa", "ohio", "ohio"],
            r"scores holds 2 NaN out of 3 values \(first in task 'ohio'\); a score that cannot be "
            "compared cannot be certified. Drop those examples or give them -inf.",
        ),
        ([0.1], ["a", "b"], "scores and tasks must have the same length, got 1 and 2. Pass one of"),
        ([], [], "scores is empty; pass at least one labelled example."),
        (
            np.zeros((2, 3)),
            ["a", "b"],
            r"got shape \(2, 3\). Of class probabilities pass those of the true labels, "
            r"scores\[np.arange\(len\(y\)\), y\]; of a row per task, scores.ravel\(\) with",
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
        ([0.1, 0.2], ["a", None], r"tasks holds missing ids \(None or NaN\); an example must bel"),
        ([0.1, 0.2], ["a", math.nan], "tasks holds missing ids"),
        ([0.1, 0.2], pd.Series(["a", None]), "tasks holds missing ids"),
        ([0.1, 0.2], pd.Series(["a", pd.NA], dtype="string"), "tasks holds missing ids"),
        ([0.1, 0.2], pd.Series([1, None]), "tasks holds missing ids"),
        ([0.1, 0.2], pd.Series([1, None], dtype="Int64"), "tasks holds missing ids"),
        ([0.1, 0.2], pl.Series(["a", None]), "tasks holds missing ids"),
        ([0.1, 0.2], pl.Series([1, None]), "tasks holds missing ids"),
        ([0.1, 0.2], pa.array(["a", None]), "tasks holds missing ids"),
        ([0.1, 0.2], np.array(["2020-01-01", "NaT"], dtype="M8[D]"), "tasks holds missing ids"),
        ([0.1, 0.2], [0.5, 0.7], "tasks must be strings or integers, got the float 0.5. Were sco"),
        ([1, 2], np.array([0.5, 0.7]), "Were scores and tasks swapped"),
        (
            [0.1, 0.2],
            ["a", 3],
            r"tasks must hold ids of one type, got str \('a'\) and int \(3\). Convert them all",
        ),
        (
            [0.1, 0.2],
            [["a"], ["b"]],
            "tasks must hold ids that can be looked up .* Pass one string",
        ),
        (
            [0.1, 0.2],
            np.array([["a"], ["b"]]),
            r"tasks must be one-dimensional, got shape \(2, 1\)",
        ),
        ([0.1, 0.2], "ab", "tasks must hold one id for each example, in their order, got 'ab'"),
        ([0.1, 0.2], {"a", "b"}, "tasks must hold one id for each example, in their order, got {"),
        ([0.1], np.array([]), "scores and tasks must have the same length, got 1 and 0"),
        (
            [0.1, 0.2, 0.3],
            [1, True, 1.0],
            "tasks must hold ids of one type, got bool and float and",
        ),
        (
            [0.1, 0.2],
            np.array([np.datetime64("2020-01-01"), np.datetime64("NaT")], dtype=object),
            "tasks holds missing ids",
        ),
        ([0.1], 3, "tasks must hold one id for each example, in their order, got 3"),
    ],
)
def test_bad_input_is_named(scores: Any, tasks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MetaPS(epsilon=0.1, alpha=0.1, delta=0.1).calibrate(scores, tasks)

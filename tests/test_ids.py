"""Task ids and labels as users have them: lists, NumPy, pandas, polars, pyarrow, torch."""

from __future__ import annotations

import datetime
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

from metapac import InvalidInput, MetaPS, inputs, load
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
    result = group(SCORES, column(ids))
    assert result.names.tolist() == list(dict.fromkeys(ids))
    assert result.sizes.tolist() == [3, 2, 1]
    assert result.scores.tolist() == [0.5, 0.75, 0.125, 0.25, 0.0, 1.0]


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


def test_integers_beyond_64_bits_keep_their_value(tmp_path: Path) -> None:
    ids = np.array([2**63 + 1, 2**63 + 3, 5], dtype=np.uint64)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    method.calibrate([0.1, 0.2, 0.3], ids).save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").tasks_.tolist() == ids.tolist()


INSTANT = datetime.datetime(2024, 1, 31, 10, 20, 30, 120_000)


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ([datetime.date(2024, 1, 31), datetime.date(987, 1, 2)], ["2024-01-31", "0987-01-02"]),
        ([INSTANT, datetime.datetime(2024, 1, 31)], ["2024-01-31T10:20:30.12", "2024-01-31"]),
        (
            pd.Series([INSTANT, pd.Timestamp("2024-01-31")]),
            ["2024-01-31T10:20:30.12", "2024-01-31"],
        ),
        (pl.Series([INSTANT]), ["2024-01-31T10:20:30.12"]),
        (pa.array([INSTANT]), ["2024-01-31T10:20:30.12"]),
        (
            np.array(["2024-01-31T10", "2024-01-31T00"], "M8[h]"),
            ["2024-01-31T10:00:00", "2024-01-31"],
        ),
        (np.array(["2024-01-31T10:20"], "M8[m]"), ["2024-01-31T10:20:00"]),
        (np.array(["2024-01-31T10:20:30.100000001"], "M8[ns]"), ["2024-01-31T10:20:30.100000001"]),
        (np.array([np.datetime64("2024-01-31")], dtype=object), ["2024-01-31"]),
        (pd.Series([INSTANT]).dt.tz_localize("Asia/Tokyo"), ["2024-01-31T01:20:30.12"]),
        ([INSTANT.replace(tzinfo=datetime.UTC)], ["2024-01-31T10:20:30.12"]),
        ([True, False], ["True", "False"]),
        (np.array([True, False]), ["True", "False"]),
        (pd.Series([True, False], dtype="boolean"), ["True", "False"]),
    ],
    ids=str,
)
def test_dates_and_booleans_are_named_by_text(ids: Any, names: list[str], tmp_path: Path) -> None:
    assert inputs.as_task_ids(ids).tolist() == names
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    method.calibrate(np.zeros(len(names)), ids, allow=["task-column"]).save(tmp_path / "p.json")
    assert load(tmp_path / "p.json").tasks_.tolist() == names


@pytest.mark.parametrize(
    "ids",
    [
        ["2024-01-31", datetime.date(2024, 1, 31)],
        [datetime.date(2024, 1, 31), "2024-01-31"],
        [True, "a"],
    ],
    ids=str,
)
def test_dates_and_booleans_among_strings_are_refused(ids: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="tasks must hold ids of one type"):
        group([0.1, 0.2], ids)


def test_similar_names_are_different_tasks() -> None:
    ids = ["a", "a ", "A", "a\0", "a\n", "", "ä", "a\u0308"]
    assert group(np.zeros(8), ids).names.tolist() == ids


@pytest.mark.parametrize(("tasks", "sizes"), [(70_000, 1), (3, 50_000), (300, 200)])
def test_many_tasks_or_large_ones(tasks: int, sizes: int) -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(tasks), sizes))
    scores = rng.random(len(ids))
    result = group(scores, ids)
    assert result.names.tolist() == list(dict.fromkeys(ids.tolist()))
    starts = np.cumsum(result.sizes) - result.sizes
    for i in (0, tasks // 2, tasks - 1):
        of_task = result.scores[starts[i] : starts[i] + result.sizes[i]]
        np.testing.assert_array_equal(of_task, scores[ids == result.names[i]])


@pytest.mark.parametrize(
    ("scores", "tasks", "message"),
    [
        ([0.1], ["a", "b"], "scores and tasks must have the same length, got 1 and 2. Pass one of"),
        ([0.1, 0.2], ["a", None], r"tasks holds missing ids \(None or NaN\); every example must "),
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
            "tasks must hold hashable ids .* Pass one string",
        ),
        (
            [0.1, 0.2],
            np.array([["a"], ["b"]]),
            r"tasks must be one-dimensional, got shape \(2, 1\)",
        ),
        ([0.1, 0.2], "ab", "tasks must hold one id for each example, in the same order, got 'ab'"),
        (
            [0.1, 0.2],
            {"a", "b"},
            "tasks must hold one id for each example, in the same order, got {",
        ),
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
        ([0.1], 3, "tasks must hold one id for each example, in the same order, got 3"),
    ],
)
def test_bad_input_is_named(scores: Any, tasks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MetaPS(epsilon=0.1, alpha=0.1, delta=0.1).calibrate(scores, tasks)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes", "no"], ("no", "yes")),
        (np.array([2, 0, 2]), (0, 2)),
        ([True, False], (False, True)),
        (pd.Series(["b", "a"], dtype="category"), ("a", "b")),
        (torch.tensor([1, 0]), (0, 1)),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (np.array(["2024-02-01", "2024-01-31"], "M8[s]"), ("2024-01-31", "2024-02-01")),
        ([datetime.date(2024, 2, 1), datetime.date(2024, 1, 31)], ("2024-01-31", "2024-02-01")),
    ],
    ids=str,
)
def test_labels_become_indices_of_sorted_classes(labels: Any, classes: tuple[Any, ...]) -> None:
    result, codes = inputs.as_class_codes(labels)
    assert result == classes
    is_date = isinstance(next(iter(labels)), datetime.date | np.datetime64)
    read = inputs.as_date_name if is_date else inputs.as_plain_label
    assert [classes[code] for code in codes] == [read(x) for x in list(labels)]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["yes", None], "none missing, got 1 missing. Drop those rows."),
        (["yes", math.nan], "none missing, got 1 missing"),
        (["yes", 1], "of one type, none missing, got int and str"),
        ([0.5, 1.5], "none missing, got float"),
        (np.array([0.5]), "none missing, got float64"),
        (np.array([["a"]]), r"labels must be one-dimensional, one true .* got shape \(1, 1\)"),
        ([], "labels is empty; pass at least one labelled example."),
    ],
)
def test_bad_labels_are_named(labels: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        inputs.as_class_codes(labels)


def test_values_by_task_are_put_in_order() -> None:
    names = np.array(["a", "b"], dtype=object)
    assert inputs.as_task_sizes({"b": 2, "a": 1}, names).tolist() == [1, 2]
    with pytest.raises(InvalidInput, match="sizes must have the same tasks .* only one has 'b'"):
        inputs.as_task_sizes({"a": 1}, names)
    with pytest.raises(InvalidInput, match="sizes must have the same tasks .* only one has 'c'"):
        inputs.as_task_sizes({"a": 1, "b": 1, "c": 1}, names)


def test_new_names_must_be_new_and_distinct_names_distinct() -> None:
    old = np.array([1, 2])
    assert inputs.append_new_names(old, np.array([3])).tolist() == [1, 2, 3]
    with pytest.raises(InvalidInput, match="tasks holds 2, which was calibrated already"):
        inputs.append_new_names(old, np.array([2]))
    inputs.check_distinct(["a", "b"])
    with pytest.raises(InvalidInput, match="tasks holds 'a' more than once"):
        inputs.check_distinct(["a", "b", "a"])


def test_only_strings_and_integers_can_be_saved() -> None:
    assert inputs.as_json_names(np.array([1, 2])) == [1, 2]
    with pytest.raises(InvalidInput, match=r"to be saved, got \('a', 1\) of type tuple"):
        inputs.as_json_names(np.fromiter([("a", 1)], dtype=object))


def test_classes_are_distinct_and_of_one_kind() -> None:
    assert inputs.as_classes(["b", "a"]) == ("b", "a")
    assert inputs.as_classes([True, False]) == (True, False)
    for mixed in ([], ["a", 1], [1, True], [0.5], [None]):
        with pytest.raises(InvalidInput, match="classes must be strings, integers or booleans"):
            inputs.as_classes(mixed)
    with pytest.raises(InvalidInput, match="classes must be distinct"):
        inputs.as_classes(["a", "a"])

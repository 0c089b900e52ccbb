"""Scores, tasks and labels as users have them: lists, NumPy, pandas, polars, pyarrow, torch."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import PS, InvalidInput, MetaPS, inputs, load
from metapac.fewshot.meta_cp import as_finite_number, as_task_quantiles
from metapac.grouping import group
from metapac.inputs import advise_on_labels, check_columns, find_names
from tests.helpers.refusals import assert_refused

# Scores.


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


def test_one_finite_number() -> None:
    assert as_finite_number("x", np.float32(0.5)) == 0.5
    for bad in (math.inf, math.nan, [0.5]):
        with pytest.raises(InvalidInput, match="x must be one finite number, got"):
            as_finite_number("x", bad)


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


# Tasks and labels.


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


def test_values_by_task_are_put_in_order() -> None:
    names = np.array(["a", "b"], dtype=object)
    assert inputs.as_task_sizes({"b": 2, "a": 1}, names).tolist() == [1, 2]
    assert as_task_quantiles({"b": 0.5, "a": 0.25}, ["a", "b"]).tolist() == [0.25, 0.5]
    assert_refused("sizes 'b'", lambda: inputs.as_task_sizes({"a": 1}, names))
    assert_refused("sizes 'c'", lambda: inputs.as_task_sizes({"a": 1, "b": 1, "c": 1}, names))
    assert_refused("quantiles 2 tasks (1,)", lambda: as_task_quantiles([0.5], ["a", "b"]))


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
    names = np.fromiter([("a", 1)], dtype=object)
    assert_refused("tasks saved ('a', 1)", lambda: inputs.as_json_names(names))


def test_classes_are_distinct_and_of_one_kind() -> None:
    assert inputs.as_classes(["b", "a"]) == ("b", "a")
    assert inputs.as_classes([True, False]) == (True, False)
    for mixed in ([], ["a", 1], [1, True], [0.5], [None]):
        with pytest.raises(InvalidInput, match="classes must be strings, integers or booleans"):
            inputs.as_classes(mixed)
    with pytest.raises(InvalidInput, match="classes must be distinct"):
        inputs.as_classes(["a", "a"])


# Columns that a promise or a site file stores.


@pytest.mark.parametrize(
    "columns",
    [
        None,
        {},
        {"task": "site", "score": "p"},
        {"task": "site", "label": "y", "columns": "p_*", "classes": ["a", "b"]},
        {"label": "y", "columns": ["u", "v"], "classes": [0, 1]},
        {"prediction": "m", "y": "y", "scale": "s", "future": ["a", "a"]},
    ],
)
def test_columns_that_calibration_stores_are_accepted(columns: Any) -> None:
    check_columns(columns, None)


def test_classes_are_those_of_the_evidence_in_its_order() -> None:
    check_columns({"classes": ["a", "b"]}, ("a", "b"))
    check_columns({"score": "p"}, ("a", "b"))
    for named in (["b", "a"], ["a"], ["a", "b", "c"]):
        with pytest.raises(InvalidInput, match=r"columns.classes must be those of the evidence"):
            check_columns({"classes": named}, ("a", "b"))


def test_names_of_series() -> None:
    y, site = pd.Series([1.0, 2.0], name="stay"), pl.Series("site", ["ohio", "utah"])
    assert find_names(task=site, y=y) == {"task": "site", "y": "stay"}
    assert find_names("prediction", task=site, y=y) == {"task": "site", "y": "stay"}
    assert find_names("stay", task=site, y=y) == {}
    assert find_names(task=site, y=y.rename("site")) == {}
    assert find_names(task=site, y=np.ones(2)) == {}
    assert find_names(task=site, y=y.rename(0)) == {}
    assert find_names(task=site, y=y.rename("")) == {}


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ("columns 'task' 'score' 'a'", {"task": "a", "score": "a"}),
        ("columns 'prediction' 'y' 'a'", {"prediction": "a", "y": "a"}),
        ("columns.classes once []", {"classes": []}),
        ("columns.classes once ['1', 1]", {"classes": ["1", 1]}),
        ("columns.columns 2 classes 1", {"columns": ["u"], "classes": ["a", "b"]}),
    ],
)
def test_columns_that_contradict_themselves_are_refused(words: str, columns: Any) -> None:
    assert_refused(words, lambda: check_columns(columns, None))


@pytest.mark.parametrize(
    ("unknown", "columns", "words"),
    [
        (["YES "], None, "'YES ' 'yes' spelling"),
        (["No", "Yes", "fox"], ["p_no", "p_yes"], "'No' 'no' 'Yes' 'yes' spelling"),
        (["1", "0"], ["p_no", "p_yes"], "columns=['p_no', 'p_yes'] classes=['0', '1']"),
        (["cat", "dog"], ["s_dog", "s_cat"], "columns=['s_dog', 's_cat'] classes=['dog', 'cat']"),
        (["0", "1", "2"], ["p_no", "p_yes"], "columns=['p_no', 'p_yes'] classes"),
    ],
)
def test_advice_on_labels_that_are_no_classes(
    unknown: list[str], columns: list[str] | None, words: str
) -> None:
    advice = advise_on_labels(unknown, ["no", "yes"], columns)
    assert advice is not None
    assert [word for word in words.split() if word not in advice] == []
    assert ("classes=" in advice) == ("classes=" in words)


def test_names_that_tell_nothing() -> None:
    assert advise_on_labels(["fox"], ["no", "yes"]) is None
    assert advise_on_labels([], ["no", "yes"]) is None

"""Scores, tasks, labels and contexts as users have them; the shipped sample."""

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

from metapac import PS, Context, InvalidInput, MetaPS, inputs, load, load_heart_sites
from metapac.fewshot import MetaCP
from metapac.grouping import group
from metapac.heart_sites import LABELS, Sample, read_sample
from metapac.inputs import advise_on_labels
from metapac.score_functions import ScoreFunction
from tests.helpers.refusals import assert_refused
from tests.helpers.shared_data import SHARED, needs_real_data

# Scores.
NAMES = ["ohio", "iowa", "ohio", "utah", "iowa", "ohio"]
NUMBERS = [7, 3, 7, 5, 3, 7]
SCORES = [0.5, 0.25, 0.75, 1.0, 0.0, 0.125]


COLUMNS: list[Callable[[Any], Any]] = [  # of scores and of task ids
    list,
    tuple,
    np.array,
    lambda values: np.array(values, dtype=object),
    pd.Series,
    lambda values: pd.Series(values, index=[9, 8, 7, 6, 5, 4]),
    lambda values: pd.Series(values).convert_dtypes(),
    pl.Series,
    pa.array,
]
SCORE_COLUMNS: list[Callable[[Any], Any]] = [
    lambda scores: np.array(scores, dtype=">f8"),
    lambda scores: np.array(scores, dtype=np.longdouble),
    lambda scores: torch.tensor(scores, requires_grad=True),
    lambda scores: torch.tensor(scores, dtype=torch.float16),
    lambda scores: np.ma.masked_array(scores, mask=[False] * 6),
]
ID_COLUMNS: list[Callable[[Any], Any]] = [
    pd.Index,
    pd.Categorical,
    lambda ids: pd.Series(ids).astype("category"),
    lambda ids: pa.chunked_array([ids[:2], ids[2:]]),
    lambda ids: pa.array(ids).dictionary_encode(),
    iter,
]


MORE_TASK_IDS: list[Any] = [
    torch.tensor(NUMBERS),
    pl.Series(NAMES, dtype=pl.Categorical),
    pd.Series(NUMBERS, dtype="Int64"),
    pd.Series(NAMES, dtype="string[pyarrow]"),
    np.array(NUMBERS, dtype=np.uint8),
    [("ohio", 1), ("iowa", 1), ("ohio", 1), ("utah", 1), ("iowa", 1), ("ohio", 1)],
    np.array(NUMBERS, dtype="datetime64[D]"),
    np.array(NAMES, dtype=bytes),
]


def test_scores_and_task_ids() -> None:
    for column in COLUMNS + SCORE_COLUMNS:
        result = group(column(SCORES), NAMES)
        assert result.scores.tolist() == [0.5, 0.75, 0.125, 0.25, 0.0, 1.0]
    for column in COLUMNS + ID_COLUMNS:
        for ids in (NAMES, NUMBERS):
            result = group(SCORES, column(ids))
            assert result.names.tolist() == list(dict.fromkeys(ids))
            assert result.sizes.tolist() == [3, 2, 1]
            assert result.scores.tolist() == [0.5, 0.75, 0.125, 0.25, 0.0, 1.0]
    for more in MORE_TASK_IDS:
        assert group(SCORES, more).sizes.tolist() == [3, 2, 1]


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


def test_no_finite_score_rounds_to_an_infinite_bfloat16() -> None:
    for edge in (-math.inf, math.inf):
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


INSTANT = datetime.datetime(2024, 1, 31, 10, 20, 30, 120_000)


NAMES_BY_TEXT: list[Any] = [
    ([datetime.date(2024, 1, 31), datetime.date(987, 1, 2)], ["2024-01-31", "0987-01-02"]),
    *(
        (make([INSTANT, datetime.datetime(2024, 1, 31)]), ["2024-01-31T10:20:30.12", "2024-01-31"])
        for make in (list, pd.Series, pl.Series, pa.array)
    ),
    (np.array(["2024-01-31T10", "2024-01-31T00"], "M8[h]"), ["2024-01-31T10:00:00", "2024-01-31"]),
    (np.array(["2024-01-31T10:20:30.100000001"], "M8[ns]"), ["2024-01-31T10:20:30.100000001"]),
    (np.array([np.datetime64("2024-01-31")], dtype=object), ["2024-01-31"]),
    (pd.Series([INSTANT]).dt.tz_localize("Asia/Tokyo"), ["2024-01-31T01:20:30.12"]),
    ([INSTANT.replace(tzinfo=datetime.UTC)], ["2024-01-31T10:20:30.12"]),
    *((make([True, False]), ["True", "False"]) for make in (list, np.array)),
    (pd.Series([True, False], dtype="boolean"), ["True", "False"]),
]


def test_dates_and_booleans_are_named_by_text(tmp_path: Path) -> None:
    for ids, names in NAMES_BY_TEXT:
        assert inputs.as_task_ids(ids).tolist() == names
        method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
        method.calibrate(np.zeros(len(names)), ids, allow=["task-column"]).save(tmp_path / "p.json")
        assert load(tmp_path / "p.json").tasks_.tolist() == names


def test_many_tasks_or_large_ones() -> None:
    rng = np.random.default_rng(0)
    for tasks, size in ((70_000, 1), (3, 50_000), (300, 200)):
        ids = rng.permutation(np.repeat(np.arange(tasks), size))
        scores = rng.random(len(ids))
        result = group(scores, ids)
        assert result.names.tolist() == list(dict.fromkeys(ids.tolist()))
        rows = result.scores.reshape(tasks, size)
        for i in (0, tasks // 2, tasks - 1):
            np.testing.assert_array_equal(rows[i], scores[ids == result.names[i]])
    alike = ["a", "a ", "A", "a\0", "a\n", "", "ä", "a\u0308"]
    assert group(np.zeros(8), alike).names.tolist() == alike


SORTED_CLASSES: list[Any] = [
    (["no", "yes", "no"], ("no", "yes")),
    (np.array([2, 0, 2]), (0, 2)),
    ([True, False], (False, True)),
    (pd.Series(["b", "a"], dtype="category"), ("a", "b")),
    (torch.tensor([1, 0]), (0, 1)),
    (np.array(["2024-02-01", "2024-01-31"], "M8[s]"), ("2024-01-31", "2024-02-01")),
]


def test_labels_become_indices_of_sorted_classes() -> None:
    for labels, classes in SORTED_CLASSES:
        result, codes = inputs.as_class_codes(labels)
        assert result == classes
        is_date = isinstance(next(iter(labels)), datetime.date | np.datetime64)
        read = inputs.as_date_name if is_date else inputs.as_plain_label
        assert [classes[code] for code in codes] == [read(x) for x in list(labels)]


def test_advice_on_labels_that_are_no_classes() -> None:
    for unknown, columns, words in (
        (["YES "], None, "'YES ' 'yes' spelling"),
        (["No", "Yes", "fox"], ["p_no", "p_yes"], "'No' 'no' 'Yes' 'yes' spelling"),
        (["1", "0"], ["p_no", "p_yes"], "columns=['p_no', 'p_yes'] classes=['0', '1']"),
        (["cat", "dog"], ["s_dog", "s_cat"], "columns=['s_dog', 's_cat'] classes=['dog', 'cat']"),
    ):
        advice = advise_on_labels(unknown, ["no", "yes"], columns)
        assert advice is not None
        assert [word for word in words.split() if word not in advice] == []
        assert ("classes=" in advice) == ("classes=" in words)
    assert advise_on_labels(["fox"], ["no", "yes"]) is None


# Contexts are stored with the guarantee, and keep tasks apart.


RANDOM = np.random.default_rng(0).random(400)
SITES = np.repeat([f"h{i}" for i in range(10)], 40)
ABOUT = Context(model="triage 3.1", trained_on=["x", "y"], pilot=[1], unit="hospital")


def calibrate_with(context: Context | None, **options: Any) -> MetaPS:
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    return method.calibrate(RANDOM, SITES, context=context, **options)


def test_every_predictor_saves_and_loads_its_context(tmp_path: Path) -> None:
    predictors = [
        calibrate_with(ABOUT),
        PS(epsilon=0.1, delta=0.1).calibrate(RANDOM, context=ABOUT),
        MetaCP(epsilon=0.3, delta=0.3).calibrate(RANDOM, SITES, np.zeros(10), context=ABOUT),
    ]
    for predictor in predictors:
        predictor.save(tmp_path / "p.json")
        assert load(tmp_path / "p.json").context_ == ABOUT == predictor.context_


def test_tasks_that_were_used_before_are_refused() -> None:
    for name, tasks, shared in (
        ("trained_on", ["h3", "z", "h5"], "2 tasks: 'h3', 'h5'"),
        ("pilot", np.array(["h3"]), "1 task: 'h3'"),
    ):
        context = Context(**{name: tasks})  # type: ignore[arg-type]
        assert_refused(f"{name} {shared}", calibrate_with, context)
    predictor = calibrate_with(Context(trained_on=["new"]))
    assert_refused("share 1 task: 'new'", predictor.add, RANDOM[:40], ["new"] * 40)
    predictor.add(RANDOM[:40] / 2, ["other"] * 40)
    assert predictor.context_.trained_on == ("new",)


def test_models_and_score_functions_are_compared() -> None:
    # What a function computes is compared, not the tasks that its temperature was fitted on.
    fitted = ScoreFunction("margin", temperature=1.5, fitted_on=frozenset(["0a", "1b"]))
    about = Context(score=fitted)
    for same in (None, ScoreFunction("margin", temperature=1.5), "margin(temperature=1.5)"):
        about.check_score(same)
    for other in ("margin", ScoreFunction()):
        assert_refused("score margin(temperature=1.5)", about.check_score, other)
    method = calibrate_with(Context(score="margin"))
    assert method.predict_set([[0.9, 0.0]], score="margin").shape == (1, 2)
    assert_refused("score", lambda: method.predict_set([[0.9, 0.0]], score="cumulative"))
    for model in (None, "triage 3.1"):
        ABOUT.check_model(model)
    for model in ("triage 4", "Triage 3.1", ""):
        assert_refused("model", ABOUT.check_model, model)
    for check, words in ((Context().check_model, "model"), (Context().check_score, "score func")):
        with pytest.warns(UserWarning, match=f"names no {words}.*'margin'"):
            check("margin")


INVALID_VALUES_ARE_REJECTED: list[Any] = [
    ("score", 7),
    ("model", " "),
    *((name, value) for name in ("example", "unit") for value in (None, 3)),
    *(("trained_on", value) for value in ("ohio", {"a": 1}, [None], pd.DataFrame({"s": ["a"]}))),
    *(("pilot", value) for value in (3, [1.5], np.array([["a", "b"]]))),
]


def test_invalid_values_are_rejected() -> None:
    for name, value in INVALID_VALUES_ARE_REJECTED:
        with pytest.raises(InvalidInput) as raised:
            Context(**{name: value})
        assert raised.value.parameters == (name,)


# The shipped sample: small, with natural label frequencies, and large enough for a guarantee.


@pytest.fixture(scope="module")
def sample() -> Sample:
    return read_sample()


def test_frames_hold_the_sample_and_share_no_state(sample: Sample) -> None:
    sites = load_heart_sites(12, 30, rng=5)
    train, pilot, known, new = ({*frame["state"]} for frame in sites)
    assert train == pilot
    assert not train & known
    assert not (train | known) & new
    assert (train | known | new) == {*sample.states}
    assert [len(part) for part in (train, known, new)] == [12, 30, 11]
    for frame, year in zip(sites, ["2021", "2022", "2021", "2021"], strict=True):
        rows = frame.index
        assert {*sample.year[rows]} == {year}
        assert np.array_equal(frame[sites.features], sample.x[rows])
        assert frame["attack"].tolist() == [LABELS[label] for label in sample.y[rows]]
        assert frame["state"].tolist() == sample.state[rows].tolist()


def test_a_split_is_a_function_of_the_seed() -> None:
    first, again, other = (load_heart_sites(rng=rng) for rng in (1, 1, 2))
    assert first.new.equals(again.new)
    assert [*first.new["state"].unique()] != [*other.new["state"].unique()]
    bad: list[tuple[str, dict[str, Any]]] = [
        ("train", {"train": 0}),
        ("calibration", {"calibration": 2.5}),
        ("53", {"train": 23, "calibration": 30}),
    ]
    for words, options in bad:
        assert_refused(words, load_heart_sites, **options)


@needs_real_data
def test_it_is_what_the_script_draws(sample: Sample, tmp_path: Path, monkeypatch: Any) -> None:
    from experiments import make_sample

    monkeypatch.setattr(make_sample, "TARGET", tmp_path / "sites.npz")
    make_sample.main(str(SHARED / "brfss2021_2022_harmonized.parquet"))
    with np.load(tmp_path / "sites.npz") as drawn:
        assert np.array_equal(drawn["answers"][0], sample.y)
        assert np.array_equal(drawn["answers"][1:].T, sample.x)

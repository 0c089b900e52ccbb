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
from metapac.inputs import advise_on_labels, check_columns, find_names
from metapac.score_functions import ScoreFunction
from tests.helpers.refusals import assert_refused
from tests.helpers.shared_data import SHARED, needs_real_data

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
    alike = ["a", "a ", "A", "a\0", "a\n", "", "ä", "a\u0308"]
    assert group(np.zeros(8), alike).names.tolist() == alike


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


def test_classes_and_columns_that_a_file_may_store() -> None:
    assert inputs.as_classes(["b", "a"]) == ("b", "a")
    assert inputs.as_classes([True, False]) == (True, False)
    for bad in ([], ["a", 1], [1, True], [0.5], [None], ["a", "a"]):
        assert_refused("classes", inputs.as_classes, bad)
    for good in (None, {}, {"score": "p"}, {"columns": ["u", "v"], "classes": [0, 1]}):
        check_columns(good, None)
    check_columns({"prediction": "m", "y": "y", "scale": "s", "future": ["a", "a"]}, None)


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


@pytest.mark.parametrize(
    ("name", "tasks", "shared"),
    [
        ("trained_on", ["h3", "z", "h5"], "2 tasks: 'h3', 'h5'"),
        ("pilot", np.array(["h3"]), "1 task: 'h3'"),
    ],
)
def test_tasks_that_were_used_before_are_refused(name: str, tasks: Any, shared: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} and .* share {shared}") as raised:
        calibrate_with(Context(**{name: tasks}))
    assert raised.value.parameters == (name,)


def test_added_tasks_are_compared_too() -> None:
    predictor = calibrate_with(Context(trained_on=["new"]))
    with pytest.raises(InvalidInput, match="share 1 task: 'new'"):
        predictor.add(RANDOM[:40], ["new"] * 40)
    predictor.add(RANDOM[:40] / 2, ["other"] * 40)
    assert predictor.context_.trained_on == ("new",)


def test_score_functions_are_compared() -> None:
    fitted = ScoreFunction("margin", temperature=1.5)
    about = Context(score=fitted)
    assert about == Context(score="margin(temperature=1.5)")
    for same in (None, fitted, "margin(temperature=1.5)"):
        about.check_score(same)
    # What a function computes is compared, not the tasks that its temperature was fitted on.
    provenance = ScoreFunction("margin", temperature=1.5, fitted_on=frozenset(["0a", "1b"]))
    about.check_score(provenance)
    Context(score=provenance).check_score("margin(temperature=1.5)")
    for other in ("margin", ScoreFunction()):
        assert_refused("score margin(temperature=1.5)", about.check_score, other)
    with pytest.warns(UserWarning, match="names no score function.*'margin'"):
        Context().check_score("margin")
    method = calibrate_with(Context(score="margin"))
    assert method.predict_set([[0.9, 0.0]], score="margin").shape == (1, 2)
    assert_refused("score", lambda: method.predict_set([[0.9, 0.0]], score="cumulative"))


def test_models_are_compared() -> None:
    ABOUT.check_model(None)
    ABOUT.check_model("triage 3.1")
    for other in ("triage 4", "Triage 3.1", ""):
        assert_refused("model", ABOUT.check_model, other)
    with pytest.warns(UserWarning, match="names no model, so it cannot be compared with 'a'"):
        Context().check_model("a")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("score", 7),
        ("model", " "),
        *((name, value) for name in ("example", "unit") for value in (None, 3)),
        *(
            ("trained_on", value)
            for value in ("ohio", {"a": 1}, [None], pd.DataFrame({"s": ["a"]}))
        ),
        *(("pilot", value) for value in (3, [1.5], np.array([["a", "b"]]))),
    ],
)
def test_invalid_values_are_rejected(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        Context(**{name: value})
    assert raised.value.parameters == (name,)


# The shipped sample: small, with natural label frequencies, and large enough for a guarantee.


@pytest.fixture(scope="module")
def sample() -> Sample:
    return read_sample()


def test_every_state_year_has_enough_respondents(sample: Sample) -> None:
    (names, years), sizes = np.unique([sample.state, sample.year], axis=1, return_counts=True)
    assert len(names) == 107
    assert {*years} == {"2021", "2022"}
    assert sorted(sizes)[:4] == [743, 1373, 1549, 1646]  # all that there are
    assert set(sorted(sizes)[4:]) == {1700}


def test_label_balance_is_natural(sample: Sample) -> None:
    # 36,266 of the 682,060 respondents behind the sample had a heart attack; states differ in size.
    assert sample.y.mean() == pytest.approx(36266 / 682060, abs=0.005)


def _naive_bayes(x: Any, y: Any) -> Callable[[Any], Any]:
    """Return a function that predicts the probability of a heart attack for each row."""
    codes = (x + 1).astype(int)
    odds = np.zeros((x.shape[1], 7))
    for column in range(x.shape[1]):
        counts = np.array([np.bincount(codes[y == k, column], minlength=7) for k in (0, 1)]) + 1
        rates = counts / counts.sum(1, keepdims=True)
        odds[column] = np.log(rates[1] / rates[0])
    base = np.log(y.mean() / (1 - y.mean()))
    columns = np.arange(x.shape[1])
    return lambda new: 1 / (1 + np.exp(-base - odds[columns, (new + 1).astype(int)].sum(1)))


@pytest.mark.parametrize("per_class", [False, True])
def test_forty_states_support_a_guarantee(sample: Sample, per_class: bool) -> None:
    train, known = (sample.find_rows(part) for part in np.split(sample.states, [10]))
    p = _naive_bayes(sample.x[train], sample.y[train])(sample.x[known])
    y = sample.y[known]
    scores = np.where(y == 1, p, 1 - p)
    predictor = MetaPS(epsilon=0.1, alpha=0.2, delta=0.05, per_class=per_class)
    predictor.calibrate(scores, tasks=sample.state[known], labels=y if per_class else None)
    thresholds = predictor.thresholds_ if per_class else [predictor.threshold_]
    assert np.all(np.isfinite(thresholds))


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
def test_is_what_the_script_draws(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments import make_sample

    monkeypatch.setattr(make_sample, "TARGET", tmp_path / "sites.npz")
    make_sample.main(str(SHARED / "brfss2021_2022_harmonized.parquet"))
    with np.load(tmp_path / "sites.npz") as drawn:
        assert np.array_equal(drawn["answers"][0], sample.y)
        assert np.array_equal(drawn["answers"][1:].T, sample.x)

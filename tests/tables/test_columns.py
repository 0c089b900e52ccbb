"""A predictor stores the columns of the table that it was calibrated on."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS, load
from metapac.columns import Columns, resolve_columns
from metapac.fewshot import MetaCP
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table, site_table

ALLOW = ("overlap",)  # evaluated on the calibration tasks
LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.3, "delta": 0.1}


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=12 * 20)
    scores = rng.dirichlet([1, 1], size=len(label))
    return pd.DataFrame(
        {
            "site": np.repeat(np.arange(12), 20),
            "p_truth": np.where(label == 0, "cat", "dog"),
            "p_cat": scores[:, 0],
            "p_dog": scores[:, 1],
            "p_true": scores[np.arange(len(label)), label],
        }
    )


def test_columns_are_stored_and_saved(frame: pd.DataFrame, tmp_path: Path) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    promise.save(tmp_path / "promise.json")
    for again in (promise, load(tmp_path / "promise.json"), pickle.loads(pickle.dumps(promise))):
        assert again.columns_ == {"task": "site", "score": "p_true"}
        errors = evaluate_table(again, frame, allow=ALLOW).errors
        np.testing.assert_array_equal(
            errors, evaluate_table(again, frame, task="site", allow=ALLOW).errors
        )
        missed = frame.p_true < promise.threshold_
        np.testing.assert_array_equal(errors, missed.groupby(frame.site).mean())


def test_the_score_of_the_true_label_is_not_a_class(frame: pd.DataFrame) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    kept = promise.predict_set(frame[["p_cat", "p_dog"]].to_numpy()).sum(axis=1)
    sizes = evaluate_table(promise, frame, label="p_truth", allow=ALLOW).sizes
    assert sizes is not None
    np.testing.assert_allclose(sizes, kept.reshape(12, 20).mean(axis=1))
    result = predict_table(promise, frame.drop(columns="p_truth")).to_pandas()
    np.testing.assert_array_equal(result["set_size"], kept)


def test_labels_and_classes_are_stored(frame: pd.DataFrame, tmp_path: Path) -> None:
    promise = calibrate_table(
        frame, task="site", label="p_truth", classes=["dog", "cat"], columns="p_*", **LEVELS
    )
    promise.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert again.columns_ == {
        "task": "site",
        "label": "p_truth",
        "columns": "p_*",
        "classes": ["dog", "cat"],
    }
    kept = promise.predict_set(frame[["p_dog", "p_cat"]].to_numpy())
    assert predict_table(again, frame).to_pandas()["set_size"].sum() == kept.sum()
    sizes = evaluate_table(again, frame, allow=ALLOW).sizes
    assert sizes is not None
    np.testing.assert_allclose(sizes, kept.sum(axis=1).reshape(12, 20).mean(axis=1))


def test_columns_passed_override_those_stored() -> None:
    promise = MetaPS(**LEVELS, split="tight").combine(np.linspace(0, 1, 50))
    promise.columns_ = {"task": "site", "label": "y", "columns": "q_*", "classes": ["a"]}
    reserved = ("site", "y")
    stored = Columns("site", None, "y", "q_*", ["a"], reserved=reserved)
    assert resolve_columns(promise) == stored
    passed = resolve_columns(promise, task="t", score="s")
    assert passed == Columns("t", "s", None, "q_*", ["a"], reserved=reserved)
    assert resolve_columns(promise, columns="r_*") == replace(stored, pattern="r_*")
    assert resolve_columns(promise, classes=["b"]) == replace(stored, classes=["b"])


def test_adding_arrays_keeps_the_columns_and_calibrating_on_arrays_forgets_them(
    frame: pd.DataFrame,
) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    promise.add(np.ones(20), np.full(20, 99))
    assert promise.columns_ == {"task": "site", "score": "p_true"}
    promise.calibrate(np.ones(500), np.repeat(np.arange(50), 10))
    assert promise.columns_ is None


def test_classes_are_stored_as_json_can_hold_them() -> None:
    result = Columns("t", None, "y", "p").to_json([np.int64(1), 2, 3.5, True])
    assert result == {"task": "t", "label": "y", "columns": "p", "classes": [1, 2, "3.5", "True"]}


def test_after_calibration_on_arrays_the_task_must_be_passed(frame: pd.DataFrame) -> None:
    promise = MetaPS(**LEVELS, split="tight").combine(np.linspace(0, 1, 50))
    with pytest.raises(
        ValueError, match="task must name the column .* a predictor that was calibrated on arrays"
    ):
        evaluate_table(promise, frame, score="p_true")


def test_other_predictors_are_rejected(frame: pd.DataFrame) -> None:
    with pytest.raises(
        ValueError, match="must be a calibrated MetaPS or PS, got MetaCP. MetaCP needs a"
    ):
        predict_table(MetaCP(epsilon=0.1, delta=0.1), frame)  # type: ignore[arg-type]


def test_a_predictor_with_a_guarantee_per_class_stores_its_classes(frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    labels = np.tile(["cat", "dog"], 1000)
    promise = MetaPS(**LEVELS, per_class=True).calibrate(
        rng.random(2000), np.repeat(np.arange(50), 40), labels
    )
    assert resolve_columns(promise) == Columns(classes=("cat", "dog"), per_class=True)
    promise.columns_ = {"task": "site", "score": "s", "label": "y"}
    stored = resolve_columns(promise)
    assert (stored.task, stored.score, stored.label) == ("site", "s", "y")
    other_score = resolve_columns(promise, score="t")
    assert (other_score.score, other_score.label) == ("t", "y")
    other_label = resolve_columns(promise, label="z")
    assert (other_label.score, other_label.label) == (None, "z")
    assert resolve_columns(promise, classes=["dog"]).classes == ["dog"]


def test_columns_can_be_listed_and_named(frame: pd.DataFrame, tmp_path: Path) -> None:
    by_pattern = calibrate_table(
        frame, task="site", label="p_truth", classes=["cat", "dog"], **LEVELS
    )
    other = frame.rename(columns={"p_cat": "a", "p_dog": "b"}).drop(columns="p_true")
    listed = calibrate_table(
        other, task="site", label="p_truth", columns=["a", "b"], classes=["cat", "dog"], **LEVELS
    )
    assert listed.threshold_ == by_pattern.threshold_
    listed.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    assert again.columns_ == {
        "task": "site",
        "label": "p_truth",
        "columns": ["a", "b"],
        "classes": ["cat", "dog"],
    }
    sets = predict_table(again, other).to_pandas()["set"].map(set).tolist()
    swapped = predict_table(again, other, columns=["b", "a"]).to_pandas()["set"].map(set).tolist()
    assert sets == swapped  # a class follows its column
    assert sets == predict_table(by_pattern, frame).to_pandas()["set"].map(set).tolist()
    np.testing.assert_array_equal(
        again.predict_set(other[["a", "b"]]).sum(axis=1), [len(one) for one in sets]
    )
    with pytest.raises(InvalidInput, match="columns of scores are b, a, but the classes were cal"):
        again.predict_set(other[["b", "a"]])
    evaluation = evaluate_table(again, other, allow=ALLOW)
    assert [part.label for part in evaluation.classes or ()] == ["cat", "dog"]


@pytest.mark.parametrize("kind", [list, tuple, pd.Index, np.array])
def test_listed_columns_are_the_classes(frame: pd.DataFrame, kind: Any) -> None:
    other = frame.rename(columns={"p_cat": "cat", "p_dog": "dog"})
    used: dict[str, Any] = {"task": "site", "label": "p_truth", "columns": kind(["dog", "cat"])}
    promise = calibrate_table(other, **used, **LEVELS)
    assert promise.columns_ is not None
    assert promise.columns_["classes"] == ["dog", "cat"]
    site = site_table(other, name="a", **{k: v for k, v in used.items() if k != "task"}, **LEVELS)
    assert site.examples == (240,)


def test_many_columns_can_be_listed() -> None:
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(60)]
    scores = rng.dirichlet(np.ones(60), size=6000)
    label = rng.integers(60, size=6000)
    site = np.arange(6000) % 12
    frame = pd.DataFrame(scores, columns=names).assign(y=[names[i] for i in label], site=site)
    chosen: dict[str, Any] = {"task": "site", "label": "y", **LEVELS, "allow": ["labels"]}
    promise = calibrate_table(frame, columns=names, **chosen)
    sizes = predict_table(promise, frame.drop(columns="y")).to_pandas()["set_size"]
    np.testing.assert_array_equal(sizes, promise.predict_set(scores).sum(axis=1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["p_cat", "p_cat"], "columns must name each column once, got 'p_cat' twice"),
        (["p_cat", "p_owl"], "has no column 'p_owl'; it has: site, p_truth"),
        (["p_cat", "site"], "columns must name columns with scores, got 'site', which names tasks"),
        (["p_cat", "p_truth"], "got 'p_truth', which names tasks or true labels"),
        (["p_cat"], "'p_cat' gives scores of one class only, 'p_cat'"),
        ([], "or a list of names of columns, got an empty list"),
        (["p_cat", 3], "or a list of names of columns, got int"),
        (3, "or a list of names of columns, got int"),
    ],
)
def test_lists_of_columns_are_checked(frame: pd.DataFrame, columns: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        calibrate_table(frame, task="site", label="p_truth", columns=columns, **LEVELS)


def test_classes_name_each_listed_column(frame: pd.DataFrame) -> None:
    with pytest.raises(InvalidInput, match="the class of each of the 2 columns 'p_cat', 'p_dog', "):
        calibrate_table(
            frame,
            task="site",
            label="p_truth",
            columns=["p_cat", "p_dog"],
            classes=["cat"],
            **LEVELS,
        )
    with pytest.raises(
        InvalidInput, match="'p_truth' must hold one of the classes 'p_cat', 'p_dog'"
    ):
        calibrate_table(frame, task="site", label="p_truth", columns=["p_cat", "p_dog"], **LEVELS)

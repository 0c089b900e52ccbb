"""A predictor stores the columns of the table that it was calibrated on."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import MetaCP, MetaPS, load
from metapac.tables import calibrate_table, evaluate_table, predict_table
from metapac.tables.columns import Columns, resolve_columns

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
        errors = evaluate_table(again, frame).errors
        np.testing.assert_array_equal(errors, evaluate_table(again, frame, task="site").errors)
        missed = frame.p_true < promise.threshold_
        np.testing.assert_array_equal(errors, missed.groupby(frame.site).mean())


def test_the_score_of_the_true_label_is_not_a_class(frame: pd.DataFrame) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    kept = promise.predict_set(frame[["p_cat", "p_dog"]].to_numpy()).sum(axis=1)
    sizes = evaluate_table(promise, frame, label="p_truth").sizes
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
    sizes = evaluate_table(again, frame).sizes
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
        ValueError, match="task must name a column. Pass it: a predictor calibrated"
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

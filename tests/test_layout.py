"""A promise remembers the columns of the table it was calibrated on."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import MetaCP, MetaPS, load
from metapac.tables import calibrate_table, evaluate_table, predict_table
from metapac.tables.keys import Keys
from metapac.tables.layout import Layout, as_calibrated

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


def test_columns_are_remembered_and_saved(frame: pd.DataFrame, tmp_path: Path) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    promise.save(tmp_path / "promise.json")
    for again in (promise, load(tmp_path / "promise.json"), pickle.loads(pickle.dumps(promise))):
        assert again.columns_ == {"task": "site", "score": "p_true"}
        errors = evaluate_table(again, frame).errors
        np.testing.assert_array_equal(errors, evaluate_table(again, frame, task="site").errors)
        missed = frame.p_true < promise.threshold_
        np.testing.assert_array_equal(errors, missed.groupby(frame.site).mean())


def test_the_true_label_s_score_is_no_class(frame: pd.DataFrame) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    kept = promise.predict_set(frame[["p_cat", "p_dog"]].to_numpy()).sum(axis=1)
    sizes = evaluate_table(promise, frame, label="p_truth").sizes
    assert sizes is not None
    np.testing.assert_allclose(sizes, kept.reshape(12, 20).mean(axis=1))
    found = predict_table(promise, frame.drop(columns="p_truth")).to_pandas()
    np.testing.assert_array_equal(found["set_size"], kept)


def test_labels_and_classes_are_remembered(frame: pd.DataFrame, tmp_path: Path) -> None:
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


def test_what_is_said_wins_over_what_is_remembered() -> None:
    promise = MetaPS(**LEVELS, split="tight").combine(np.linspace(0, 1, 50))
    promise.columns_ = {"task": "site", "label": "y", "columns": "q_*", "classes": ["a"]}
    assert as_calibrated(promise)[:5] == ("site", None, "y", "q_*", ["a"])
    assert as_calibrated(promise, task="t", score="s")[:5] == ("t", "s", None, "q_*", ["a"])
    assert as_calibrated(promise, columns="r_*")[:5] == ("site", None, "y", "r_*", ["a"])
    assert as_calibrated(promise, classes=["b"])[:5] == ("site", None, "y", "q_*", ["b"])


def test_adding_arrays_keeps_the_columns_and_calibrating_on_arrays_forgets_them(
    frame: pd.DataFrame,
) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    promise.add(np.ones(20), np.full(20, 99))
    assert promise.columns_ == {"task": "site", "score": "p_true"}
    promise.calibrate(np.ones(500), np.repeat(np.arange(50), 10))
    assert promise.columns_ is None


def test_classes_are_kept_as_json_can_hold_them() -> None:
    found = Layout("t", None, "y", "p").record([np.int64(1), 2, 3.5, True])
    assert found == {"task": "t", "label": "y", "columns": "p", "classes": [1, 2, "3.5", "True"]}


def test_arrays_leave_the_task_to_be_said(frame: pd.DataFrame) -> None:
    promise = MetaPS(**LEVELS, split="tight").combine(np.linspace(0, 1, 50))
    with pytest.raises(ValueError, match="task must name a column: the promise was not calibrated"):
        evaluate_table(promise, frame, score="p_true")


def test_other_promises_are_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(
        ValueError, match="must be a calibrated MetaPS or PS, got MetaCP. A MetaCP needs a"
    ):
        predict_table(MetaCP(epsilon=0.1, delta=0.1), frame)  # type: ignore[arg-type]


def test_a_promise_for_each_class_knows_its_classes(frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    labels = np.tile(["cat", "dog"], 1000)
    promise = MetaPS(**LEVELS, per_class=True).calibrate(
        rng.random(2000), np.repeat(np.arange(50), 40), labels
    )
    assert as_calibrated(promise)[4:] == (("cat", "dog"), (), True)
    promise.columns_ = {"task": "site", "score": "s", "label": "y"}
    assert as_calibrated(promise)[:3] == ("site", "s", "y")
    assert as_calibrated(promise, score="t")[:3] == ("site", "t", "y")
    assert as_calibrated(promise, label="z")[:3] == ("site", None, "z")
    assert as_calibrated(promise, classes=["dog"])[4] == ["dog"]


@pytest.mark.parametrize("whole", [True, False])
def test_keys_hold_a_class_and_a_task(whole: bool) -> None:
    keys = Keys(("no", "yes"), whole)
    found = keys.groups(np.array(["0:12", "1:3", "1:12"], dtype=object))
    assert found.names.tolist() == ([3, 12] if whole else ["12", "3"])
    assert found.task.tolist() == ([1, 0, 1] if whole else [0, 1, 0])
    assert found.label.tolist() == [0, 1, 1]
    assert keys.words("1:12") == ("12, class 'yes'" if whole else "'12', class 'yes'")
    assert Keys(("a",), whole=False).words("0:x:y") == "'x:y', class 'a'"

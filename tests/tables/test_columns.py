"""A predictor stores the columns of the table that it was calibrated on."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import Columns, InvalidInput, load
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


STORED = {"task": "site", "label": "y", "columns": "q_*", "classes": ["a"]}
NUMBERS = {"task": "site", "prediction": "m", "y": "t", "scale": "s"}
LISTED = {"label": "y", "columns": ["u", "v"], "classes": ["a", "b"]}


@pytest.mark.parametrize(
    ("passed", "stored", "classes", "expected"),
    [
        ({}, STORED, None, STORED),
        ({"task": "t", "score": "s"}, STORED, None,
         {"task": "t", "score": "s", "columns": "q_*", "classes": ["a"]}),
        ({"columns": "r_*"}, STORED, None, STORED | {"columns": "r_*"}),
        ({"classes": ["b"]}, STORED, None, STORED | {"classes": ["b"]}),
        ({"cluster": "c"}, {"task": "g", "cluster": "k"}, None, {"task": "g", "cluster": "c"}),
        ({}, {}, ("cat", "dog"), {"classes": ("cat", "dog")}),
        ({"score": "t"}, {"score": "s", "label": "y"}, ("a",),
         {"score": "t", "label": "y", "classes": ("a",)}),
        ({"label": "z"}, {"score": "s", "label": "y"}, ("a",), {"label": "z", "classes": ("a",)}),
        ({"columns": ["v", "u"]}, LISTED, None, LISTED | {"columns": ("v", "u"),
                                                          "classes": ["b", "a"]}),
        ({"columns": ["v", "w"]}, LISTED, None, {"label": "y", "columns": ("v", "w")}),
        ({}, NUMBERS, None, NUMBERS),
        ({"prediction": "n"}, NUMBERS, None, NUMBERS | {"prediction": "n"}),
        ({"score": "r"}, NUMBERS, None, {"task": "site", "score": "r"}),
        ({"prediction": "n"}, STORED, None, {"task": "site", "prediction": "n", "columns": "q_*"}),
        ({}, {"columns": "l", "classes_column": "k"}, None, {"columns": "l",
                                                             "classes_column": "k"}),
    ],
)  # fmt: skip
def test_columns_left_out_are_those_of_calibration(
    passed: dict[str, Any], stored: dict[str, Any], classes: Any, expected: dict[str, Any]
) -> None:
    found = Columns(**passed).resolve(stored, classes)
    names = [field.name for field in fields(Columns)]
    got = {name: getattr(found, name) for name in names if getattr(found, name) is not None}
    wanted = Columns(**expected)
    assert got == {name: getattr(wanted, name) for name in got}
    assert {*got} == {*expected}


def test_columns_of_calibration_are_no_classes() -> None:
    new = Columns(task="t").resolve({"task": "site", "label": "y", "score": "p_true"}, None)
    assert new.not_classes >= {"t", "site", "y"}
    assert new.score_columns == {"p_true"}
    assert Columns(score="s").score_columns == {"s"}


def test_adding_arrays_keeps_the_columns_and_calibrating_on_arrays_forgets_them(
    frame: pd.DataFrame,
) -> None:
    promise = calibrate_table(frame, task="site", score="p_true", **LEVELS)
    promise.add(np.ones(20), np.full(20, 99))
    assert promise.columns_ == {"task": "site", "score": "p_true"}
    promise.calibrate(np.ones(500), np.repeat(np.arange(50), 10))
    assert promise.columns_ is None


@pytest.mark.parametrize(
    ("columns", "classes", "expected"),
    [
        ({"task": "t", "score": "s", "id": "i"}, None, {"task": "t", "score": "s"}),
        ({"label": "y"}, ["a", 1], {"label": "y", "columns": "p_*", "classes": ["a", 1]}),
        ({"label": "y", "columns": ["u"]}, ("a",),
         {"label": "y", "columns": ["u"], "classes": ["a"]}),
        ({"label": "y", "columns": "l"}, [], {"label": "y", "columns": "l"}),
        ({"label": "y", "columns": "l", "classes_column": "k"}, [],
         {"label": "y", "columns": "l", "classes_column": "k"}),
        ({"prediction": "m", "y": "t", "cluster": "c"}, None,
         {"prediction": "m", "y": "t", "cluster": "c"}),
    ],
)  # fmt: skip
def test_a_promise_file_names_what_was_used(
    columns: dict[str, Any], classes: Any, expected: dict[str, Any]
) -> None:
    assert Columns(**columns).to_json(classes) == expected


def test_other_predictors_are_rejected(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="must be a calibrated MetaPS or PS"):
        evaluate_table(MetaCP(epsilon=0.1, delta=0.1), frame, task="site", score="p_true")


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

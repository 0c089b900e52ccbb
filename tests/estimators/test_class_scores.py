"""Labels and scores of all classes, whatever the classifier returns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from metapac import InvalidInput, sklearn
from metapac.fewshot import SklearnLearner
from tests.helpers.group_data import make_data

X, Y, *_ = make_data(groups=6)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["no", "yes", "no"], ["no", "yes", "no"]),
        (np.array(["no", "yes"], dtype=object), ["no", "yes"]),
        (pd.Series(["no", "yes"], dtype="category"), ["no", "yes"]),
        (pl.Series(["no", "yes"]), ["no", "yes"]),
        ([True, False], [True, False]),
        (np.array([2, 0], dtype=np.uint8), [2, 0]),
        (torch.tensor([2, 0]), [2, 0]),
        ([1.0, 3.0], [1, 3]),
        (np.array([1.0, 3.0]), [1, 3]),
    ],
)
def test_labels(y: Any, expected: list[Any]) -> None:
    labels = sklearn.as_labels(y)
    assert labels.tolist() == expected
    assert labels.dtype.kind in "Uib"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0.5, 1.0]), "y must hold classes, got continuous numbers such as 0.5"),
        (np.array([np.nan, 1.0]), "y holds NaN"),
        (np.array([np.inf, 1.0]), "continuous numbers such as inf"),
        (["a", None], "y holds the labels: labels must hold .* got 1 missing"),
        ([1, 2.0], "y holds the labels: .* got float and int"),
        ([], "y holds the labels: labels is empty"),
        (["a", 1], "y holds the labels: .* got int and str"),
        (np.zeros((3, 1)), "y holds the labels: labels must be one-dimensional"),
    ],
)
def test_bad_labels_are_refused(y: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sklearn.as_labels(y)


def test_classes_are_those_of_the_model_and_of_the_labels() -> None:
    model = LogisticRegression().fit(X, Y)
    assert sklearn.find_classes(model, np.array(["a", "c"])).tolist() == ["a", "b", "c"]
    with pytest.warns(UserWarning, match="not fitted on the class 'aa': sets miss it unless they"):
        classes = sklearn.find_classes(model, np.array(["aa", "c"]))
    assert classes.tolist() == ["a", "aa", "b", "c"]
    with pytest.warns(UserWarning, match="classes 'x', 'y': sets miss them unless they keep every"):
        sklearn.find_classes(model, np.array(["x", "y"]))


def test_labels_of_another_kind_are_refused() -> None:
    model = LogisticRegression().fit(X, Y == "a")
    with pytest.raises(InvalidInput, match="y must hold the estimator's classes False, True, got"):
        sklearn.find_classes(model, Y)
    with pytest.raises(InvalidInput, match="must have classes_ once it is fitted"):
        sklearn.find_classes(SimpleNamespace(predict_proba=len), Y)
    with pytest.raises(InvalidInput, match="must have predict_proba or decision_function, got"):
        sklearn.find_classes(object(), Y)
    with pytest.raises(InvalidInput, match="classes_ of estimator are not usable: "):
        sklearn.find_classes(SimpleNamespace(predict_proba=len, classes_=[None]), Y)


def test_probabilities_are_those_of_the_model_with_zeros_for_other_classes() -> None:
    model = LogisticRegression().fit(X, Y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(sklearn.score_classes(model, X, model.classes_), expected)
    scores = sklearn.score_classes(model, X, np.array(["a", "aa", "b", "c"]))
    np.testing.assert_array_equal(scores[:, [0, 2, 3]], expected)
    assert (scores[:, 1] == 0).all()


def test_columns_follow_the_classes_even_if_the_model_orders_them_otherwise() -> None:
    model = SimpleNamespace(
        classes_=np.array(["b", "a"]), predict_proba=lambda x: np.array([[0.9, 0.1]] * len(x))
    )
    scores = sklearn.score_classes(model, X[:2], np.array(["a", "b"]))
    assert scores.tolist() == [[0.1, 0.9]] * 2


def test_precision_is_kept() -> None:
    model = SimpleNamespace(
        classes_=[0, 1], predict_proba=lambda x: torch.full((len(x), 2), 0.5, dtype=torch.float32)
    )
    assert sklearn.score_classes(model, X, np.array([0, 1, 2])).dtype == np.float32


def test_decision_functions_serve_if_there_are_no_probabilities() -> None:
    model = LinearSVC().fit(X, Y)
    expected = model.decision_function(X)
    scores = sklearn.score_classes(model, X, np.array(["a", "b", "c", "d"]))
    np.testing.assert_array_equal(scores[:, :3], expected)
    assert (scores[:, 3] == -np.inf).all()
    binary = LinearSVC().fit(X, Y == "a")
    scores = sklearn.score_classes(binary, X, binary.classes_)
    np.testing.assert_array_equal(scores[:, 1], binary.decision_function(X))
    np.testing.assert_array_equal(scores[:, 0], -scores[:, 1])


def test_a_decision_function_of_pairs_is_refused() -> None:
    y = np.random.default_rng(0).choice(list("abcd"), len(X))
    model = SVC(decision_function_shape="ovo").fit(X, y)
    with pytest.raises(InvalidInput, match=r"each class, \(240, 4\), got shape \(240, 6\)"):
        sklearn.score_classes(model, X, model.classes_)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([[0.5, np.nan]], "SimpleNamespace.predict_proba holds 1 NaN .*in row 0.*Mend the model"),
        ([[1.0]], r"a column for each class, \(1, 2\), got shape \(1, 1\)"),
        ([[0.5, 0.5]] * 2, r"a column for each class, \(1, 2\), got shape \(2, 2\)"),
        ([["a", "b"]], "SimpleNamespace.predict_proba must be real numbers, got <U1"),
    ],
)
def test_bad_probabilities_are_refused(output: Any, message: str) -> None:
    model = SimpleNamespace(classes_=[0, 1], predict_proba=lambda x: np.array(output))
    with pytest.raises(InvalidInput, match=message):
        sklearn.score_classes(model, X[:1], np.array([0, 1]))


def test_a_decision_function_with_nan_is_refused() -> None:
    model = SimpleNamespace(classes_=[0, 1], decision_function=lambda x: np.full(len(x), np.nan))
    with pytest.raises(InvalidInput, match="decision_function holds .* NaN"):
        sklearn.score_classes(model, X[:3], np.array([0, 1]))


def test_adaptation_fits_a_clone_on_the_support() -> None:
    classes = np.array(["a", "b", "c", "d"])
    learner = SklearnLearner(LogisticRegression())
    scores = sklearn.adapt(learner, X[:30], Y[:30], classes)(X[30:])
    expected = LogisticRegression().fit(X[:30], Y[:30]).predict_proba(X[30:])
    np.testing.assert_array_equal(scores[:, :3], expected)
    assert (scores[:, 3] == 0).all()
    with pytest.raises(InvalidInput, match="labels of support must be among the classes 'x', got"):
        sklearn.adapt(learner, X[:3], Y[:3], np.array(["x"]))


@given(st.lists(st.sampled_from("abcde")), st.sets(st.sampled_from("abcde")))
def test_codes_are_positions_in_the_classes(labels: list[str], classes: set[str]) -> None:
    names = sorted(classes)
    codes = sklearn.find_codes(np.array(labels, dtype=str), np.array(names, dtype=str))
    assert codes.tolist() == [names.index(x) if x in names else -1 for x in labels]


def test_classes_that_fit_has_not_seen_are_named() -> None:
    sklearn.check_known(np.array(["a", "b"]), np.array(["a", "b", "c"]))
    message = r"y holds 2 of 3 rows with classes that fit has not seen \('x'; it knows 'a', 'b'\)"
    with pytest.raises(InvalidInput, match=message):
        sklearn.check_known(np.array(["x", "a", "x"]), np.array(["a", "b"]))

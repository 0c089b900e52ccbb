"""Labels and scores of all classes, whatever the classifier returns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

from metapac import InvalidInput
from metapac.data_checks import CHECKS
from metapac.sklearn import MetaPSClassifier
from tests.helpers.group_data import LEVELS, make_data

X, Y, _, GROUPS = make_data(groups=6)


def fit(estimator: Any, y: Any = Y, **changes: Any) -> Any:
    """Return a classifier that keeps every label: the groups are few."""
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS | changes
    return MetaPSClassifier(estimator, **options).fit(X, y, GROUPS)


def use(y: Any = Y, **methods: Any) -> Any:
    """Return what calibrates an object with these methods."""
    return fit(SimpleNamespace(**methods), y, prefit=True)


TEXTS, NUMBERS = np.tile(["no", "yes", "no"], 80), np.tile([2, 0, 0], 80)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (TEXTS.tolist(), ["no", "yes"]),
        (TEXTS.astype(object), ["no", "yes"]),
        (pd.Series(TEXTS, dtype="category"), ["no", "yes"]),
        (pl.Series(TEXTS.tolist()), ["no", "yes"]),
        ((NUMBERS == 2).tolist(), [False, True]),
        (NUMBERS.astype(np.uint8), [0, 2]),
        (torch.tensor(NUMBERS), [0, 2]),
        (NUMBERS.astype(float).tolist(), [0, 2]),
        (NUMBERS.astype(np.float32), [0, 2]),
    ],
)
def test_labels(y: Any, expected: list[Any]) -> None:
    model = fit(LogisticRegression(), y)
    assert model.classes_.tolist() == expected
    assert model.classes_.dtype.kind in "Uib"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0.5, 1.0]), "0.5 is missing or continuous, as for MetaPSRegressor"),
        (np.array([np.nan, 1.0]), "nan is missing"),
        (np.array([np.inf, 1.0]), "inf is missing or continuous"),
        (["a", None], "labels must hold .* got 120 missing"),
        ([1, 2.0], "got float and int"),
        (["a", 1], "got int and str"),
        (["a", ["b"]], "got list and str"),
    ],
)
def test_bad_labels_are_refused(y: Any, message: str) -> None:
    many = np.tile(y, 120) if isinstance(y, np.ndarray) else y * 120
    with pytest.raises(InvalidInput, match=f"y holds the labels: .*{message}"):
        fit(LogisticRegression(), many)
    with pytest.raises(InvalidInput, match="one-dimensional"):
        fit(LogisticRegression(), np.zeros((240, 1)))


def test_classes_are_those_of_the_model_and_of_the_labels() -> None:
    fitted = LogisticRegression().fit(X, Y)
    assert fit(fitted, np.where(Y == "b", "a", Y), prefit=True).classes_.tolist() == list("abc")
    with pytest.warns(UserWarning, match="not fitted on 'aa': sets miss such labels unless they"):
        model = fit(fitted, np.where(Y == "a", "aa", Y), prefit=True)
    assert model.classes_.tolist() == ["a", "aa", "b", "c"]
    np.testing.assert_array_equal(model.predict_proba(X)[:, [0, 2, 3]], fitted.predict_proba(X))
    assert (model.predict_proba(X)[:, 1] == 0).all()


def test_estimators_without_usable_classes_or_scores_are_refused() -> None:
    other = LogisticRegression().fit(X, Y == "a")
    with pytest.raises(
        InvalidInput, match="y must hold the classes False, True, got 'a', 'b', 'c'"
    ):
        fit(other, prefit=True)
    with pytest.raises(InvalidInput, match="must have usable classes_.*no attribute 'classes_'"):
        use(predict_proba=len)
    with pytest.raises(InvalidInput, match="an instance with predict_proba or decision_function"):
        use(predict=len)
    with pytest.raises(InvalidInput, match="estimator must have usable classes_"):
        use(predict_proba=len, classes_=[None])


def test_columns_follow_the_classes_even_if_the_model_orders_them_otherwise() -> None:
    model = use(
        np.where(Y == "c", "a", Y),
        classes_=np.array(["b", "a"]),
        predict_proba=lambda x: np.array([[0.9, 0.1]] * len(x)),
    )
    assert model.predict_proba(X[:2]).tolist() == [[0.1, 0.9]] * 2


def test_precision_is_kept() -> None:
    def halves(x: Any) -> Any:
        return torch.full((len(x), 2), 0.5, dtype=torch.float32)

    with pytest.warns(UserWarning, match="not fitted on 2"):
        model = use(np.arange(len(X)) % 3, classes_=[0, 1], predict_proba=halves)
    assert model.predict_proba(X).dtype == np.float32
    assert model.meta_ps_.precision_ == np.float32


def test_decision_functions_serve_if_there_are_no_probabilities() -> None:
    with pytest.warns(UserWarning, match="not fitted on 'd'"):
        model = fit(LinearSVC().fit(X, Y), np.where(Y == "a", "d", Y), prefit=True)
    assert not hasattr(model, "predict_proba")
    scores = model._respond(X, None)
    np.testing.assert_array_equal(scores[:, :3], model.estimator_.decision_function(X))
    assert (scores[:, 3] == -np.inf).all()
    binary = fit(LinearSVC(), Y == "a")
    scores = binary._respond(X, None)
    np.testing.assert_array_equal(scores[:, 1], binary.estimator_.decision_function(X))
    np.testing.assert_array_equal(scores[:, 0], -scores[:, 1])


def test_a_decision_function_of_pairs_is_refused() -> None:
    y = np.random.default_rng(0).choice(list("abcd"), len(X))
    with pytest.raises(InvalidInput, match=r"rows and classes, \(120, 4\), got \(120, 6\)"):
        fit(SVC(decision_function_shape="ovo"), y)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, np.nan], "SimpleNamespace.predict_proba holds 240 NaN .*in row 0.*Mend the model"),
        ([1.0], r"rows and classes, \(240, 2\), got \(240, 1\)"),
        (["a", "b"], "SimpleNamespace.predict_proba must be real numbers, got <U1"),
    ],
)
def test_bad_scores_are_refused(row: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        use(Y == "a", classes_=[False, True], predict_proba=lambda x: np.array([row] * len(x)))
    with pytest.raises(InvalidInput, match=r"\(240, 2\), got \(480, 2\)"):
        use(Y == "a", classes_=[False, True], predict_proba=lambda x: np.ones((480, 2)))
    with pytest.raises(InvalidInput, match="decision_function holds .* NaN"):
        use(Y == "a", classes_=[False, True], decision_function=lambda x: np.full(len(x), np.nan))


def test_adaptation_fits_a_clone_on_the_support() -> None:
    y = np.where(np.arange(len(Y)) == 239, "d", Y)
    model = fit(LogisticRegression(), y, shots=30)
    scores = model.predict_proba(X[30:], support=(X[:30], Y[:30]))
    expected = LogisticRegression().fit(X[:30], Y[:30]).predict_proba(X[30:])
    np.testing.assert_array_equal(scores[:, :3], expected)
    assert (scores[:, 3] == 0).all()
    with pytest.raises(InvalidInput, match="support holds 1 of 30 rows with classes .* not seen"):
        model.predict(X, support=(X[:30], ["x", *Y[1:30]]))


def test_perfect_scores_of_many_rows_are_pointed_out() -> None:
    by_heart = KNeighborsClassifier(1).fit(X, Y)
    model = MetaPSClassifier(by_heart, **LEVELS, prefit=True, on_infeasible="trivial", allow=CHECKS)
    for rows in (19, 20):
        if rows < 20:  # few rows show nothing
            model.fit(X[:rows], Y[:rows], np.arange(rows) % 2)
            continue
        with pytest.warns(UserWarning, match="every calibration row has the best possible score"):
            model.fit(X[:rows], Y[:rows], np.arange(rows) % 2)

"""The classifier is the array route, to the last bit, and never mixes groups."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from metapac import Context, InfeasibleGuarantee, InvalidInput, MetaPS, label_lists, load
from metapac.data_checks import CHECKS, CheckWarning
from metapac.fewshot import CallableLearner
from metapac.sklearn import MetaPSClassifier
from tests.helpers.group_data import LEVELS, make_data, threshold_by_loops
from tests.helpers.tables import evaluate_table

X, Y, _, GROUPS = make_data()
NEW = make_data(groups=50, rng=1, prefix="n")
ALLOW = ("duplicates", "direction", "labels", "rare-class")


def fit(estimator: Any = None, x: Any = X, y: Any = Y, groups: Any = GROUPS, **changes: Any) -> Any:
    model = MetaPSClassifier(
        LogisticRegression() if estimator is None else estimator, **LEVELS | changes
    )
    return model.fit(x, y, groups=groups)


def rows_of(names: list[Any]) -> list[int]:
    return [i for i, name in enumerate(GROUPS) if name in names]


@pytest.mark.filterwarnings("ignore:The threshold is 0.0")  # trees may give true labels 0
@settings(max_examples=15)
@given(
    estimator=st.sampled_from(
        [
            LogisticRegression(C=0.1),
            GaussianNB(),
            DecisionTreeClassifier(max_depth=4, random_state=0),
        ]
    ),
    split=st.sampled_from(["joint", "tight", "even", 0.05]),
    per_class=st.booleans(),
    calibration=st.integers(40, 55),
    delta=st.sampled_from([0.1, 0.2, None]),
    rng=st.integers(0, 99),
)
def test_the_result_is_that_of_the_array_route(
    estimator: Any, split: Any, per_class: bool, calibration: int, delta: float | None, rng: int
) -> None:
    levels: dict[str, Any] = {"epsilon": 0.35, "alpha": 0.35, "delta": delta}
    choices: dict[str, Any] = {"split": split, "per_class": per_class}
    model = fit(estimator, **levels, **choices, calibration=calibration, rng=rng, allow=ALLOW)
    train, known = rows_of(model.training_groups_), rows_of(model.calibration_groups_)
    assert len(model.calibration_groups_) == calibration
    assert sorted(train + known) == list(range(len(GROUPS)))
    arrays = MetaPS(**levels, **choices)
    reference = type(estimator)(**estimator.get_params()).fit(X[train], Y[train])
    scores = reference.predict_proba(X[known])
    arrays.calibrate(scores, GROUPS[known], Y[known], classes=reference.classes_, allow=ALLOW)
    np.testing.assert_array_equal(model.meta_ps_.task_thresholds_, arrays.task_thresholds_)
    assert model.meta_ps_._result()[0] == arrays._result()[0]
    np.testing.assert_array_equal(model.meta_ps_._result()[1], arrays._result()[1])
    assert model.promise_ == arrays.promise_
    np.testing.assert_array_equal(
        model.predict_set(NEW.x), arrays.predict_set(reference.predict_proba(NEW.x))
    )


def test_the_threshold_is_that_of_two_loops() -> None:
    model = fit(split=0.1)
    train, known = rows_of(model.training_groups_), rows_of(model.calibration_groups_)
    reference = LogisticRegression().fit(X[train], Y[train])
    scores = [
        float(reference.predict_proba(X)[i, list(reference.classes_).index(Y[i])]) for i in known
    ]
    assert model.meta_ps_.threshold_ == threshold_by_loops(scores, GROUPS[known], **LEVELS)


def test_a_model_that_knows_its_rows_by_heart_is_not_calibrated_on_them() -> None:
    # Labels are coins and the model repeats its training rows: on these it is always right, on
    # others by chance. Only sets of both labels miss at most a fifth.
    rng = np.random.default_rng(0)
    x, y, groups = rng.random((2400, 2)), rng.integers(2, size=2400), np.repeat(np.arange(60), 40)
    new_x, new_y, new = rng.random((400, 2)), rng.integers(2, size=400), np.repeat(range(10), 40)
    with pytest.warns(UserWarning, match="The threshold is 0.0"):
        model = fit(KNeighborsClassifier(1), x, y, groups, allow=ALLOW)
    assert model.score(new_x, new_y, new) == 1
    with pytest.warns(UserWarning, match=r"best possible score.* Context\(trained_on=\[...\]\)"):
        leaked = fit(KNeighborsClassifier(1).fit(x, y), x, y, groups, prefit=True, allow=ALLOW)
    assert leaked.score(new_x, new_y, new) < 0.65  # the control: the mistake would be seen


def test_new_groups_are_covered_as_promised() -> None:
    model = fit()
    evaluation = model.evaluate(NEW.x, NEW.labels, NEW.groups)
    assert evaluation.verdict.status != "violated"
    assert evaluation.within >= 0.8
    assert (evaluation.sizes < 2.5).all()


def test_prefit_estimators_are_used_as_they_are_and_every_group_calibrates() -> None:
    fitted = LogisticRegression().fit(NEW.x, NEW.labels)
    model = fit(fitted, prefit=True, calibration=0.01)
    assert model.estimator_ is fitted
    assert model.training_groups_ == []
    assert model.calibration_groups_ == sorted(set(GROUPS))
    arrays = MetaPS(**LEVELS).calibrate(fitted.predict_proba(X), GROUPS, Y, classes=list("abc"))
    assert model.meta_ps_.threshold_ == arrays.threshold_
    assert model.meta_ps_.context_.trained_on is None


@pytest.mark.parametrize("shots", [1, 10])
def test_shots_adapt_a_clone_to_each_group(shots: int) -> None:
    rng = np.random.default_rng(7)
    scores, tasks = [], []
    for name in sorted(set(GROUPS)):
        rows = rng.permutation(rows_of([name]))
        support, query = rows[:shots], sorted(rows[shots:])
        for i in query:
            seen = sorted({*Y[support]})
            if len(seen) == 1:
                proba = {seen[0]: 1.0}
            else:
                one = GaussianNB().fit(X[support], Y[support])
                proba = dict(zip(seen, one.predict_proba(X[[i]])[0], strict=True))
            scores.append(proba.get(Y[i], 0.0))
            tasks.append(name)
    vacuous = pytest.warns(UserWarning, match="The threshold is 0.0")
    expected = MetaPS(epsilon=0.4, alpha=0.4, delta=0.1)
    with vacuous if shots == 1 else nullcontext():
        model = fit(GaussianNB(), shots=shots, rng=7, epsilon=0.4, alpha=0.4, allow=ALLOW)
        expected.calibrate(scores, tasks, allow=ALLOW)
    assert model.meta_ps_.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)
    assert model.meta_ps_.task_sizes_.tolist() == [40 - shots] * 60


def test_a_new_group_is_adapted_to_its_support() -> None:
    model = fit(GaussianNB(), shots=10, epsilon=0.4, alpha=0.4)
    site = NEW.groups == "n0"
    x, y = NEW.x[site], NEW.labels[site]
    expected = GaussianNB().fit(x[:10], y[:10]).predict_proba(x[10:])
    support = x[:10], y[:10].tolist()
    np.testing.assert_array_equal(model.predict_proba(x[10:], support=support), expected)
    np.testing.assert_array_equal(
        model.predict_set(x[10:], support=support), expected >= model.meta_ps_.threshold_
    )
    best = model.classes_[expected.argmax(1)]
    assert model.predict(x[10:], support=support).tolist() == best.tolist()
    with pytest.raises(InvalidInput, match=r"support must be \(X, y\): 10 rows"):
        model.predict_set(x)
    assert 0 <= model.score(NEW.x, NEW.labels, NEW.groups) <= 1
    assert len(model.evaluate(NEW.x, NEW.labels, NEW.groups).tasks) == 50
    assert model.evaluate(NEW.x, NEW.labels, NEW.groups).examples.tolist() == [30] * 50


def test_a_learner_adapts_itself() -> None:
    def nearest(support_x: Any, support_y: Any, x: Any) -> Any:
        gaps = ((x[:, None] - support_x[None]) ** 2).sum(-1)
        nearness = [np.where(support_y == c, np.exp(-gaps), 0).max(1) for c in range(3)]
        return np.stack(nearness, axis=1) / 3

    model = fit(CallableLearner(nearest), shots=20)
    assert isinstance(model.estimator_, CallableLearner)
    codes = np.searchsorted(model.classes_, Y)
    expected = nearest(X[:20], codes[:20], X[20:30])
    support = X[:20], Y[:20]
    np.testing.assert_array_equal(model.predict_proba(X[20:30], support=support), expected)


@pytest.mark.parametrize(
    ("x", "y", "groups"),
    [
        (pd.DataFrame(X), pd.Series(Y), pd.Series(GROUPS)),
        (pd.DataFrame(X), pd.Series(Y, dtype="category"), pd.Series(GROUPS, dtype="category")),
        (pl.DataFrame(X), pl.Series(Y.tolist()), pl.Series(GROUPS.tolist())),
        (X.tolist(), Y.tolist(), GROUPS.tolist()),
        (np.asfortranarray(X), Y.astype(object), GROUPS.astype(object)),
    ],
    ids=["pandas", "categories", "polars", "lists", "objects"],
)
def test_every_container_gives_the_same_result(x: Any, y: Any, groups: Any) -> None:
    if isinstance(x, pd.DataFrame):
        x = x.set_axis(["u", "v", "w"], axis=1)
    model, expected = fit(x=x, y=y, groups=groups), fit()
    assert model.meta_ps_.threshold_ == pytest.approx(expected.meta_ps_.threshold_, rel=1e-12)
    assert model.calibration_groups_ == expected.calibration_groups_
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3


def test_frames_keep_their_feature_names() -> None:
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(kind=np.where(Y == "a", "x", "y"))
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), remainder=StandardScaler())
    model = fit(make_pipeline(columns, LogisticRegression()), x=frame)
    assert model.feature_names_in_.tolist() == ["u", "v", "w", "kind"]
    assert model.predict_set(frame.iloc[:2]).shape == (2, 3)
    with pytest.raises(ValueError, match="columns are missing: {'kind'}"):
        model.predict_set(frame[["u", "v", "w"]])
    model.set_params(estimator=GaussianNB()).fit(X, Y, GROUPS)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")


def test_sparse_features_and_texts() -> None:
    for kind in (sparse.csr_matrix, sparse.coo_array):
        assert fit(x=kind(X)).meta_ps_.threshold_ == pytest.approx(fit().meta_ps_.threshold_)
    rng = np.random.default_rng(0)
    texts = [f"{rng.choice(list('xyz'))} {label}{rng.integers(3)}" for label in Y]
    words = CountVectorizer(token_pattern=r"\w+")
    model = fit(make_pipeline(words, LogisticRegression()), x=texts, allow=ALLOW)
    assert label_lists(model.predict_set(["x a0", "y b1"]), model.classes_) == [["a"], ["b"]]


@pytest.mark.parametrize(
    "labels",
    [(Y == "a"), (Y == "a").astype(int), (Y == "a").astype(float), np.where(Y == "a", "é", "ü")],
    ids=["bool", "int", "float", "text"],
)
def test_labels_of_any_kind(labels: Any) -> None:
    model = fit(y=labels)
    expected = fit(y=(Y == "a").astype(int))
    if model.classes_.dtype.kind != "U":  # é sorts before ü, a before other
        assert model.meta_ps_.threshold_ == expected.meta_ps_.threshold_
    assert set(model.predict(X)) <= set(labels)
    assert model.score(X, labels, GROUPS) > 0.8


def test_a_decision_function_is_a_score_too() -> None:
    model = fit(LinearSVC())
    known = rows_of(model.calibration_groups_)
    scores = model.estimator_.decision_function(X[known])
    arrays = MetaPS(**LEVELS).calibrate(scores, GROUPS[known], Y[known], classes=list("abc"))
    assert model.meta_ps_.threshold_ == arrays.threshold_
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'"):
        model.predict_proba(X)


def test_prediction_is_the_estimators_own() -> None:
    class Stubborn(LogisticRegression):  # type: ignore[misc]
        def predict(self, X: Any) -> Any:
            return np.full(len(X), "a")

    assert set(fit(Stubborn()).predict(X)) == {"a"}
    with pytest.raises(InvalidInput, match="support must be .* with shots=0"):
        fit().predict(X, support=(X[:1], Y[:1]))


def test_a_class_that_training_lacks_is_missed() -> None:
    labels = np.where(GROUPS == "s3", "rare", Y)
    calibration = [f"s{i}" for i in range(3, 40)]
    with pytest.warns(UserWarning, match="not fitted on 'rare': sets miss such labels unless"):
        model = fit(y=labels, calibration=calibration, allow=["rare-class"])
    assert model.classes_.tolist() == ["a", "b", "c", "rare"]
    assert not model.predict_set(X)[:, 3].any()
    assert (model.predict_proba(X)[:, 3] == 0).all()
    rows = GROUPS == "s3"
    assert model.score(X[rows], labels[rows], GROUPS[rows]) == 0


def test_the_score_is_the_mean_coverage_of_groups() -> None:
    model = fit()
    rows = np.r_[0:10, 100:190]  # 10 rows of s0, 20 of s2, 40 of s3, 30 of s4
    sets = model.predict_set(X)
    shares = []
    for name in sorted(set(GROUPS[rows])):
        hits = [sets[i, "abc".index(Y[i])] for i in rows if GROUPS[i] == name]
        shares.append(sum(hits) / len(hits))
    expected = math.fsum(shares) / len(shares)
    assert model.score(X[rows], Y[rows], GROUPS[rows]) == pytest.approx(expected, abs=1e-12)
    unknown = np.where(np.arange(len(Y)) == 0, "zz", Y)
    drop = model.score(X[rows], Y[rows], GROUPS[rows])
    drop -= model.score(X[rows], unknown[rows], GROUPS[rows])
    with pytest.raises(InvalidInput, match="y must hold classes .* in 100 of 100 rows"):
        model.score(X[rows], np.searchsorted(model.classes_, Y[rows]), GROUPS[rows])
    assert drop == pytest.approx(sets[0, "abc".index(Y[0])] / 10 / 4, abs=1e-12)


def test_evaluation_leaves_known_groups_out() -> None:
    model = fit()
    x, y = np.concatenate([X, NEW.x]), np.concatenate([Y, NEW.labels])
    evaluation = model.evaluate(x, y, np.concatenate([GROUPS, NEW.groups]))
    assert evaluation.overlap == tuple(sorted(set(GROUPS)))
    assert evaluation.tasks.tolist() == sorted(set(NEW.groups))
    with pytest.raises(InvalidInput, match="every task has the name of a calibration, training"):
        model.evaluate(X, Y, GROUPS)
    everything = fit(allow=["overlap"]).evaluate(X, Y, GROUPS)
    assert (
        everything.tasks.tolist() == model.evaluate(X, Y, GROUPS, allow=["overlap"]).tasks.tolist()
    )
    assert 1 - everything.errors.mean() == pytest.approx(model.score(X, Y, GROUPS), abs=1e-12)
    with pytest.raises(InvalidInput, match="y must hold classes that fit has seen"):
        model.evaluate(NEW.x, np.where(NEW.labels == "a", "z", NEW.labels), NEW.groups)


def test_the_training_groups_are_kept_in_the_promise_file(tmp_path: Any) -> None:
    context = Context(model="risk 1.0", trained_on=["elsewhere"], unit="hospital")
    model = fit(context=context)
    model.save_promise(tmp_path / "promise.json")
    loaded = load(tmp_path / "promise.json")
    assert isinstance(loaded, MetaPS)
    assert loaded.threshold_ == model.meta_ps_.threshold_
    assert loaded.context_.model == "risk 1.0"
    assert loaded.context_.trained_on is not None
    assert {*loaded.context_.trained_on} == {"elsewhere", *model.training_groups_}
    np.testing.assert_array_equal(
        loaded.predict_set(model.predict_proba(NEW.x)), model.predict_set(NEW.x)
    )
    assert "hospitals" in model.explain()
    assert "rows" in fit().explain()
    assert "groups" in fit().explain()


def test_a_rare_class_has_its_own_guarantee() -> None:
    model = fit(per_class=True, epsilon={"a": 0.2, "b": 0.3, "c": 0.3})
    assert model.meta_ps_.classes_ == ("a", "b", "c")
    evaluation = model.evaluate(NEW.x, NEW.labels, NEW.groups)
    assert evaluation.by_class is not None
    labels = np.where((GROUPS == "s3") & (Y == "a"), "rare", Y)
    with pytest.raises(InfeasibleGuarantee, match="; class 'rare'.*30 of 60 calibrate"):
        fit(y=labels, per_class=True)


def test_a_class_rarer_than_epsilon_is_pointed_out() -> None:
    labels = np.where(np.arange(len(Y)) % 20 == 0, "yes", "no")
    message = "'yes' is 5.0% of the examples, less than epsilon.*Use per_class=True"
    with pytest.warns(CheckWarning, match=message):
        fit(y=labels)
    fit(y=labels, allow=["rare-class"])
    fit(y=labels, epsilon=0.04)


def test_forests_of_few_trees_have_ties() -> None:
    with pytest.warns(UserWarning, match="The threshold is 0.0"):
        model = fit(RandomForestClassifier(5, random_state=0), allow=ALLOW)
    assert model.score(NEW.x, NEW.labels, NEW.groups) > 0.8


def test_a_missing_label_is_to_be_dropped() -> None:
    y = pd.Series(np.where(Y[0] == Y, "yes", "no"), dtype=object)
    y[3] = math.nan
    with pytest.raises(InvalidInput, match=r"got 1 missing.*drop those rows"):
        fit(y=y)


def test_commands_find_the_columns_of_series(tmp_path: Path) -> None:
    illness, clinic = pd.Series(Y, name="illness"), pd.Series(GROUPS, name="clinic")
    model = fit(y=illness, groups=clinic)
    model.save_promise(tmp_path / "promise.json")
    promise = load(tmp_path / "promise.json")
    names = {"task": "clinic", "label": "illness", "classes": model.classes_.tolist()}
    assert promise.columns_ == names
    frame = pd.DataFrame(model.predict_proba(NEW.x), columns=[f"p_{c}" for c in model.classes_])
    found = evaluate_table(promise, frame.assign(clinic=NEW.groups, illness=NEW.labels))
    expected = model.evaluate(NEW.x, NEW.labels, NEW.groups)
    assert dict(zip(found.tasks, found.missed, strict=True)) == dict(
        zip(expected.tasks, expected.missed, strict=True)
    )
    assert fit().meta_ps_.columns_ == {"classes": model.classes_.tolist()}


X6, Y6, _, GROUPS6 = make_data(groups=6)


def fit_any(estimator: Any, y: Any = Y6, **changes: Any) -> Any:
    """Return a classifier that keeps every label: the groups are few."""
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS | changes
    return MetaPSClassifier(estimator, **options).fit(X6, y, GROUPS6)


def use(y: Any = Y6, **methods: Any) -> Any:
    """Return what calibrates an object with these methods."""
    return fit_any(SimpleNamespace(**methods), y, prefit=True)


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
    model = fit_any(LogisticRegression(), y)
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
        fit_any(LogisticRegression(), many)
    with pytest.raises(InvalidInput, match="one-dimensional"):
        fit_any(LogisticRegression(), np.zeros((240, 1)))


def test_classes_are_those_of_the_model_and_of_the_labels() -> None:
    fitted = LogisticRegression().fit(X6, Y6)
    assert fit_any(fitted, np.where(Y6 == "b", "a", Y6), prefit=True).classes_.tolist() == list(
        "abc"
    )
    with pytest.warns(UserWarning, match="not fitted on 'aa': sets miss such labels unless they"):
        model = fit_any(fitted, np.where(Y6 == "a", "aa", Y6), prefit=True)
    assert model.classes_.tolist() == ["a", "aa", "b", "c"]
    np.testing.assert_array_equal(model.predict_proba(X6)[:, [0, 2, 3]], fitted.predict_proba(X6))
    assert (model.predict_proba(X6)[:, 1] == 0).all()


def test_estimators_without_usable_classes_or_scores_are_refused() -> None:
    other = LogisticRegression().fit(X6, Y6 == "a")
    with pytest.raises(
        InvalidInput, match="y must hold the classes False, True, got 'a', 'b', 'c'"
    ):
        fit_any(other, prefit=True)
    with pytest.raises(InvalidInput, match="must have usable classes_.*no attribute 'classes_'"):
        use(predict_proba=len)
    with pytest.raises(InvalidInput, match="an instance with predict_proba or decision_function"):
        use(predict=len)
    with pytest.raises(InvalidInput, match="estimator must have usable classes_"):
        use(predict_proba=len, classes_=[None])


def test_columns_follow_the_classes_even_if_the_model_orders_them_otherwise() -> None:
    model = use(
        np.where(Y6 == "c", "a", Y6),
        classes_=np.array(["b", "a"]),
        predict_proba=lambda x: np.array([[0.9, 0.1]] * len(x)),
    )
    assert model.predict_proba(X6[:2]).tolist() == [[0.1, 0.9]] * 2


def test_precision_is_kept() -> None:
    def halves(x: Any) -> Any:
        return torch.full((len(x), 2), 0.5, dtype=torch.float32)

    with pytest.warns(UserWarning, match="not fitted on 2"):
        model = use(np.arange(len(X6)) % 3, classes_=[0, 1], predict_proba=halves)
    assert model.predict_proba(X6).dtype == np.float32
    assert model.meta_ps_.precision_ == np.float32


def test_decision_functions_serve_if_there_are_no_probabilities() -> None:
    with pytest.warns(UserWarning, match="not fitted on 'd'"):
        model = fit_any(LinearSVC().fit(X6, Y6), np.where(Y6 == "a", "d", Y6), prefit=True)
    assert not hasattr(model, "predict_proba")
    scores = model._respond(X6, None)
    np.testing.assert_array_equal(scores[:, :3], model.estimator_.decision_function(X6))
    assert (scores[:, 3] == -np.inf).all()
    binary = fit_any(LinearSVC(), Y6 == "a")
    scores = binary._respond(X6, None)
    np.testing.assert_array_equal(scores[:, 1], binary.estimator_.decision_function(X6))
    np.testing.assert_array_equal(scores[:, 0], -scores[:, 1])


def test_a_decision_function_of_pairs_is_refused() -> None:
    y = np.random.default_rng(0).choice(list("abcd"), len(X6))
    with pytest.raises(InvalidInput, match=r"rows and classes, \(120, 4\), got \(120, 6\)"):
        fit_any(SVC(decision_function_shape="ovo"), y)


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
        use(Y6 == "a", classes_=[False, True], predict_proba=lambda x: np.array([row] * len(x)))
    with pytest.raises(InvalidInput, match=r"\(240, 2\), got \(480, 2\)"):
        use(Y6 == "a", classes_=[False, True], predict_proba=lambda x: np.ones((480, 2)))
    with pytest.raises(InvalidInput, match="decision_function holds .* NaN"):
        use(Y6 == "a", classes_=[False, True], decision_function=lambda x: np.full(len(x), np.nan))


def test_adaptation_fits_a_clone_on_the_support() -> None:
    y = np.where(np.arange(len(Y6)) == 239, "d", Y6)
    model = fit_any(LogisticRegression(), y, shots=30)
    scores = model.predict_proba(X6[30:], support=(X6[:30], Y6[:30]))
    expected = LogisticRegression().fit(X6[:30], Y6[:30]).predict_proba(X6[30:])
    np.testing.assert_array_equal(scores[:, :3], expected)
    assert (scores[:, 3] == 0).all()
    with pytest.raises(InvalidInput, match="support must hold classes .* 'x' in 1 of 30 rows"):
        model.predict(X6, support=(X6[:30], ["x", *Y6[1:30]]))


def test_perfect_scores_of_many_rows_are_pointed_out() -> None:
    by_heart = KNeighborsClassifier(1).fit(X6, Y6)
    model = MetaPSClassifier(by_heart, **LEVELS, prefit=True, on_infeasible="trivial", allow=CHECKS)
    for rows in (19, 20):
        if rows < 20:  # few rows show nothing
            model.fit(X6[:rows], Y6[:rows], np.arange(rows) % 2)
            continue
        with pytest.warns(UserWarning, match="every calibration row has the best possible score"):
            model.fit(X6[:rows], Y6[:rows], np.arange(rows) % 2)

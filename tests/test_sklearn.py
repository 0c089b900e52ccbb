"""The estimators are the array route, to the last bit, never mix groups, and keep the contract."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_checks
from sklearn.utils.validation import _num_samples

import metapac as mp
from metapac._common import Array
from metapac.data_checks import CHECKS
from metapac.fewshot import CallableLearner
from metapac.sklearn import MetaPSClassifier, MetaPSRegressor

LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}


class Data(NamedTuple):
    """Features, labels, values and group of each row."""

    x: Array
    labels: Array
    values: Array
    groups: Array


def make_data(groups: int = 60, rows: int = 40, rng: int = 0, prefix: str = "s") -> Data:
    generator = np.random.default_rng(rng)
    group = np.repeat([f"{prefix}{i}" for i in range(groups)], rows)
    labels = generator.choice(["a", "b", "c"], len(group))
    offset = generator.normal(scale=0.5, size=groups).repeat(rows)
    x = generator.normal(size=(len(group), 3))
    x[:, 0] += 2 * (labels == "b") + offset
    x[:, 1] += 2 * (labels == "c")
    return Data(x, labels, x[:, 1] + offset + generator.normal(size=len(group)), group)


X, Y, VALUES, GROUPS = make_data()


class Untrained(LogisticRegression):  # type: ignore[misc]
    """Fails if it is trained: what is checked before costs nothing."""

    def fit(self, X: Any, y: Any, **params: Any) -> Any:
        raise AssertionError("it was trained")


def make(estimator: Any = None, **changes: Any) -> MetaPSClassifier:
    return MetaPSClassifier(estimator or LogisticRegression(), **LEVELS | changes)


class Filled:
    """Groups that scikit-learn's checks do not pass: four, each with every fourth row."""

    def fit(self, X: Any, y: Any = None, groups: Any = None, **params: Any) -> Any:
        groups = np.arange(_num_samples(X)) % 4 if groups is None else groups
        return super().fit(X, y, groups, **params)  # type: ignore[misc]

    def score(self, X: Any, y: Any, groups: Any = None) -> Any:
        groups = np.arange(_num_samples(X)) % 4 if groups is None else groups
        return super().score(X, y, groups)  # type: ignore[misc]


# Documented in docs/howto/sklearn.md: in each case an error is raised, of another type or wording.
DIFFERENT = {
    "check_complex_data": "complex numbers are refused in other words",
    "check_supervised_y_2d": "y of shape (n, 1) is refused, not flattened",
    "check_fit2d_1sample": "one row is one group, and two are needed",
}
LENIENT: dict[str, Any] = LEVELS | {
    "on_infeasible": "trivial",
    "calibration": 1,
    "allow": ("task-column", "duplicates", "direction", "score-column"),
}


class FilledClassifier(Filled, MetaPSClassifier):
    """The classifier with groups for rows that come without."""


class FilledRegressor(Filled, MetaPSRegressor):
    """The regressor with groups for rows that come without."""


class Quantile(LinearRegression):  # type: ignore[misc]
    """A least-squares fit, moved by as much as the quantile of a normal error."""

    def __init__(self, move: float = 0.0) -> None:
        super().__init__()
        self.move = move

    def predict(self, X: Any) -> Any:
        return super().predict(X) + self.move


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (FilledClassifier, LogisticRegression()),
        (FilledRegressor, Ridge()),
        (FilledRegressor, (Quantile(-1.0), Quantile(1.0))),
    ],
)
def test_the_checks_of_scikit_learn_pass(kind: Any, model: Any) -> None:
    estimator = kind(model, **LENIENT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a base class, and of guarantees that say nothing
        results = estimator_checks.check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == DIFFERENT.keys()
    assert sum(result["status"] == "passed" for result in results) >= 45


def test_a_search_passes_groups_to_fit_and_score() -> None:
    model, folds = make(calibration=20), GroupKFold(2)
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(model, X, Y, params={"groups": GROUPS}, cv=folds)
    for score, (train, test) in zip(scores, folds.split(X, Y, GROUPS), strict=True):
        model.fit(X[train], Y[train], GROUPS[train])
        assert score == model.score(X[test], Y[test], GROUPS[test])


@pytest.mark.parametrize("enabled", [False, True])
def test_a_search_inside_gets_the_training_groups(enabled: bool) -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=GroupKFold(3))
    with sklearn.config_context(enable_metadata_routing=enabled):
        found = make(search).fit(X, Y, GROUPS)
    rows = np.isin(GROUPS, found.training_groups_)
    expected = clone(search).fit(X[rows], Y[rows], groups=GROUPS[rows])
    name = "mean_test_score"
    np.testing.assert_array_equal(found.estimator_.cv_results_[name], expected.cv_results_[name])


BAD_SHARES: tuple[Any, ...] = (0, 60, -1, 0.0, 1.0, 1.5, True, None, "half", np.nan, [], {"s1": 2})
BAD: list[tuple[str, dict[str, Any]]] = [  # a word of the error, and what is changed
    ("epsilon", {"epsilon": 0.9}),
    ("prefit", {"prefit": 1}),
    *(("shots", {"shots": value}) for value in (-1, 1.5)),
    ("shots=40 .*'s0'", {"shots": 40}),
    ("shots=2 .*prefit", {"shots": 2, "prefit": True}),
    ("60 of the 60 tasks", {"shots": 39}),
    *(("calibration .* 60 groups", {"calibration": share}) for share in BAD_SHARES),
    ("calibration", {"calibration": [*{*GROUPS}]}),
    ("calibration .* got 's99'", {"calibration": ["s1", "s99"]}),
    ("30 of 60 calibrate", {"delta": 1e-9}),
    ("share 1 task", {"context": mp.Context(trained_on=["s1"]), "calibration": ["s1", "s3"]}),
    ("estimator .* fit, got <class", {"estimator": Untrained}),
    ("estimator .* fit or adapt, got 'ridge'", {"estimator": "ridge", "shots": 2}),
    ("classifier.*MetaPSRegressor", {"estimator": LinearRegression()}),
    ("fitted on other groups", {"prefit": True}),
    *((f"{k}={v}, so weight", {k: v, "weight": 1}) for k, v in (("prefit", True), ("shots", 3))),
    ("groups .*enable_metadata_routing=True", {"groups": None}),
    ("groups must have an entry for each row: .*2399", {"groups": GROUPS[:-1]}),
    ("of the 1 groups", {"groups": np.full(2400, "a")}),
    ("groups differ only in spaces", {"groups": np.where(GROUPS == "s1", "s2 ", GROUPS)}),
    ("groups .*missing", {"groups": [*GROUPS[1:], None]}),
    ("groups .*strings or integers", {"groups": np.arange(2400) / 2}),
    ("groups .*one type", {"groups": [*GROUPS[1:], 1]}),
    ("groups .*unhashable", {"groups": [[name] for name in GROUPS]}),
    ("groups .*one-dimensional", {"groups": pd.DataFrame({"site": GROUPS})}),
    ("requires y", {"y": None}),
    ("got 40 missing", {"y": np.where(GROUPS == "s1", np.array(None), Y)}),
    ("y holds .* continuous, as for MetaPSRegressor", {"y": VALUES}),
    *(("got float and int", {"y": [1, 2.0] * 1200}), ("one-dimensional", {"y": X})),
    *(("an entry for each row", {"y": y}) for y in (Y[:-1], "a" * 2400, {*Y}, 3)),
    ("X and groups", {"X": pd.DataFrame(X), "groups": pd.Series(GROUPS)[::-1]}),
    *(("an entry for each row", {"X": x}) for x in ("rows", None, np.array(1.0), X[:-1], iter(X))),
]


def test_bad_input_is_refused_before_anything_is_trained() -> None:
    for words, changes in BAD:
        data = {"X": X, "y": Y, "groups": GROUPS, "weight": None}
        options = {name: value for name, value in changes.items() if name not in data}
        given = {name: changes.get(name, value) for name, value in data.items()}
        model = make(**{"estimator": Untrained()} | options)
        with pytest.raises(mp.MetapacError, match=words):
            model.fit(**{name: value for name, value in given.items() if name != "weight" or value})
        assert not hasattr(model, "meta_ps_")


def test_a_failed_fit_keeps_the_earlier_result() -> None:
    class Broken(LogisticRegression):  # type: ignore[misc]
        def predict_proba(self, X: Any) -> Any:
            return np.full((len(X), 3), np.nan)

    model = make().fit(X, Y, GROUPS)
    before = dict(vars(model))
    with pytest.raises(mp.InvalidInput, match="groups must name"):
        model.fit(X, Y)
    assert vars(model) == before
    with pytest.raises(mp.InvalidInput, match="predict_proba holds"):  # once it is trained
        model.set_params(estimator=Broken()).fit(X, Y, GROUPS)
    assert vars(model) == before | {"estimator": model.estimator}


def test_results_are_refused_before_fit_and_after_a_change() -> None:
    model = make()
    calls: list[Any] = [
        lambda: model.predict_set(X),
        lambda: model.predict_proba(X),
        lambda: model.score(X, Y, GROUPS),
        lambda: model.evaluate(X, Y, GROUPS),
        lambda: model.promise_,
    ]
    for changes in ({}, {"epsilon": 0.1}, {"split": "tight"}, {"shots": 3}, {"per_class": True}):
        model.set_params(**changes)
        for call in calls:
            with pytest.raises(
                mp.NotCalibrated, match="was fitted with" if changes else "fit"
            ) as e:
                call()
            assert isinstance(e.value, NotFittedError)
        model = make().fit(X, Y, GROUPS)
    model.set_params(calibration=3, on_infeasible="trivial").predict_set(X)
    numbers = fit_regressor(BayesianRidge(), return_std=True).set_params(return_std=False)
    with pytest.raises(mp.NotCalibrated, match="'return_std': True}, not with"):
        numbers.predict_interval(X)


def test_a_model_that_looks_at_other_rows_is_refused() -> None:
    class Uneven(LogisticRegression):  # type: ignore[misc]
        row, by = 0, 1.0

        def predict_proba(self, X: Any) -> Any:
            rows = np.arange(len(X)) == self.row % len(X)
            return super().predict_proba(X) * np.where(rows & (len(X) > 1), self.by, 1)[:, None]

    for Uneven.row in (0, -1):
        Uneven.by = 0.9
        with pytest.raises(mp.InvalidInput, match=r"the model gives row \d+ .* among others"):
            make(Uneven()).fit(X, Y, GROUPS)
        Uneven.by = 1.0001  # rounding
        make(Uneven()).fit(X, Y, GROUPS)


# The classifier.


NEW = make_data(groups=50, rng=1, prefix="n")
ALLOW = ("duplicates", "direction", "labels", "rare-class")


def fit_classifier(
    estimator: Any = None, x: Any = X, y: Any = Y, groups: Any = GROUPS, **changes: Any
) -> Any:
    return make(estimator, **changes).fit(x, y, groups=groups)


def rows_of(names: list[Any]) -> list[int]:
    return [i for i, name in enumerate(GROUPS) if name in names]


# Trees may give true labels 0.
@pytest.mark.filterwarnings("ignore:The threshold is 0.0")
@settings(max_examples=15)
@given(
    estimator=st.sampled_from([GaussianNB(), DecisionTreeClassifier(max_depth=4, random_state=0)]),
    split=st.sampled_from(["joint", "tight", "even", 0.05]),
    per_class=st.booleans(),
    calibration=st.integers(40, 55),
    delta=st.sampled_from([0.1, 0.2, None]),
    rng=st.integers(0, 99),
)
def test_results_are_those_of_arrays(
    estimator: Any, calibration: int, rng: int, **choices: Any
) -> None:
    choices |= {"epsilon": 0.35, "alpha": 0.35}
    model = fit_classifier(estimator, **choices, calibration=calibration, rng=rng, allow=ALLOW)
    train, known = rows_of(model.training_groups_), rows_of(model.calibration_groups_)
    assert len(model.calibration_groups_) == calibration
    assert sorted(train + known) == list(range(len(GROUPS)))
    reference = clone(estimator).fit(X[train], Y[train])
    arrays = mp.MetaPS(**choices).calibrate(
        reference.predict_proba(X[known]),
        GROUPS[known],
        Y[known],
        classes=reference.classes_,
        allow=ALLOW,
    )
    np.testing.assert_array_equal(model.meta_ps_.task_thresholds_, arrays.task_thresholds_)
    assert model.promise_ == arrays.promise_
    np.testing.assert_array_equal(
        model.predict_set(NEW.x), arrays.predict_set(reference.predict_proba(NEW.x))
    )


def test_a_model_that_knows_its_rows_by_heart_is_not_calibrated_on_them() -> None:
    # Labels are coins and the model repeats its training rows: on these it is always right, on
    # others by chance. Only sets of both labels miss at most a fifth.
    rng = np.random.default_rng(0)
    x, y, groups = rng.random((2400, 2)), rng.integers(2, size=2400), np.repeat(np.arange(60), 40)
    new = rng.random((400, 2)), rng.integers(2, size=400), np.repeat(range(10), 40)
    with pytest.warns(UserWarning, match="The threshold is 0.0"):
        model = fit_classifier(KNeighborsClassifier(1), x, y, groups, allow=ALLOW)
    assert model.score(*new) == 1
    by_heart = KNeighborsClassifier(1).fit(x, y)
    with pytest.warns(UserWarning, match=r"best possible score.* Context\(trained_on=\[...\]\)"):
        leaked = fit_classifier(by_heart, x, y, groups, prefit=True, allow=ALLOW)
    assert leaked.score(*new) < 0.65  # the control: the mistake would be seen
    with pytest.warns(UserWarning, match="every prediction equals its true value"):
        leaked = fit_regressor(
            KNeighborsRegressor(1).fit(x, y), x, y, groups, prefit=True, allow=["duplicates"]
        )
    assert leaked.score(*new) < 0.65


@pytest.mark.parametrize("shots", [1, 10])
def test_shots_adapt_a_clone_to_each_group(shots: int) -> None:
    rng = np.random.default_rng(7)
    scores, tasks = [], []
    for name in sorted(set(GROUPS)):
        rows = rng.permutation(rows_of([name]))
        support, query = rows[:shots], sorted(rows[shots:])
        seen = sorted({*Y[support]})
        for i in query:
            proba = [1.0]  # of a single class
            if len(seen) > 1:
                proba = GaussianNB().fit(X[support], Y[support]).predict_proba(X[[i]])[0]
            scores.append(dict(zip(seen, proba, strict=True)).get(Y[i], 0.0))
            tasks.append(name)
    vacuous = pytest.warns(UserWarning, match="The threshold is 0.0")
    levels: Any = {"epsilon": 0.4, "alpha": 0.4, "delta": 0.1}
    with vacuous if shots == 1 else nullcontext():
        model = fit_classifier(GaussianNB(), shots=shots, rng=7, **levels, allow=ALLOW)
        expected = mp.MetaPS(**levels).calibrate(scores, tasks, allow=ALLOW)
    assert model.meta_ps_.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)
    assert model.meta_ps_.task_sizes_.tolist() == [40 - shots] * 60


def test_a_new_group_is_adapted_to_its_support() -> None:
    model = fit_classifier(GaussianNB(), shots=10, epsilon=0.4, alpha=0.4)
    x, y = NEW.x[:40], NEW.labels[:40]
    expected = GaussianNB().fit(x[:10], y[:10]).predict_proba(x[10:])
    support = x[:10], y[:10].tolist()
    np.testing.assert_array_equal(model.predict_proba(x[10:], support=support), expected)
    np.testing.assert_array_equal(
        model.predict_set(x[10:], support=support), expected >= model.meta_ps_.threshold_
    )
    best = model.classes_[expected.argmax(1)]
    assert model.predict(x[10:], support=support).tolist() == best.tolist()
    evaluation = model.evaluate(NEW.x, NEW.labels, NEW.groups)
    assert evaluation.examples.tolist() == [30] * 50
    numbers = fit_regressor(Ridge(), shots=8)
    centre = Ridge().fit(NEW.x[:8], NEW.values[:8]).predict(x[8:])
    np.testing.assert_array_equal(
        numbers.predict_interval(x[8:], support=(NEW.x[:8], NEW.values[:8])),
        numbers.meta_ps_.predict_interval(centre),
    )


def test_a_learner_adapts_itself() -> None:
    def nearest(support_x: Any, support_y: Any, x: Any) -> Any:
        gaps = ((x[:, None] - support_x[None]) ** 2).sum(-1)
        nearness = [np.where(support_y == c, np.exp(-gaps), 0).max(1) for c in range(3)]
        return np.stack(nearness, axis=1) / 3

    model = fit_classifier(CallableLearner(nearest), shots=20)
    assert isinstance(model.estimator_, CallableLearner)
    codes = np.searchsorted(model.classes_, Y)
    expected = nearest(X[:20], codes[:20], X[20:30])
    support = X[:20], Y[:20]
    np.testing.assert_array_equal(model.predict_proba(X[20:30], support=support), expected)


def test_every_container_gives_the_same_result() -> None:
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    cases: list[tuple[Any, Any, Any]] = [
        (X, Y, GROUPS),
        (frame, pd.Series(Y, dtype="category"), pd.Series(GROUPS, dtype="category")),
        (pl.DataFrame(X), pl.Series(Y.tolist()), pl.Series(GROUPS.tolist())),
        (X.tolist(), Y.tolist(), GROUPS.tolist()),
        (X, np.searchsorted(["a", "b", "c"], Y), GROUPS.astype(object)),
        (X, np.searchsorted(["a", "b", "c"], Y) * 1.0, GROUPS),
    ]
    models = [fit_classifier(None, *data) for data in cases]
    for model, (x, y, _groups) in zip(models, cases, strict=True):
        expected = pytest.approx(models[0].meta_ps_.threshold_, rel=1e-12)
        assert model.meta_ps_.threshold_ == expected
        assert model.calibration_groups_ == models[0].calibration_groups_
        assert {*model.predict(x)} == {*y}
        assert model.n_features_in_ == 3


def test_the_score_is_the_mean_coverage_of_groups() -> None:
    model = fit_classifier()
    rows = np.r_[0:10, 100:190]  # 10 rows of s0, 20 of s2, 40 of s3, 30 of s4
    known = np.arange(len(Y)) > 0  # a class that fit has not seen is missed
    hits = model.predict_set(X)[np.arange(len(Y)), np.searchsorted(model.classes_, Y)] & known
    shares = [np.mean(hits[rows][GROUPS[rows] == name]) for name in {*GROUPS[rows]}]
    score = model.score(X[rows], np.where(known, Y, "zz")[rows], GROUPS[rows])
    assert score == pytest.approx(np.mean(shares), abs=1e-12)
    with pytest.raises(mp.InvalidInput, match="y must hold classes .* in 100 of 100 rows"):
        model.score(X[rows], np.searchsorted(model.classes_, Y[rows]), GROUPS[rows])


def test_evaluation_leaves_known_groups_out() -> None:
    model = fit_classifier()
    x, y = np.concatenate([X, NEW.x]), np.concatenate([Y, NEW.labels])
    evaluation = model.evaluate(x, y, np.concatenate([GROUPS, NEW.groups]))
    assert evaluation.overlap == tuple(sorted(set(GROUPS)))
    assert evaluation.tasks.tolist() == sorted(set(NEW.groups))
    with pytest.raises(mp.InvalidInput, match="every task has the name of a calibration, training"):
        model.evaluate(X, Y, GROUPS)
    everything = model.evaluate(X, Y, GROUPS, allow=["overlap"])
    assert 1 - everything.errors.mean() == pytest.approx(model.score(X, Y, GROUPS), abs=1e-12)
    with pytest.raises(mp.InvalidInput, match="y must hold classes that fit has seen"):
        model.evaluate(NEW.x, np.where(NEW.labels == "a", "z", NEW.labels), NEW.groups)


def test_the_training_groups_are_kept_in_the_promise_file(tmp_path: Any) -> None:
    context = mp.Context(model="risk 1.0", trained_on=["elsewhere"], unit="hospital")
    illness, clinic = pd.Series(Y, name="illness"), pd.Series(GROUPS, name="clinic")
    model = fit_classifier(y=illness, groups=clinic, context=context)
    model.save_promise(tmp_path / "promise.json")
    loaded: Any = mp.load(tmp_path / "promise.json")
    assert loaded.threshold_ == model.meta_ps_.threshold_
    assert loaded.context_.model == "risk 1.0"
    assert {*loaded.context_.trained_on} == {"elsewhere", *model.training_groups_}
    assert "hospitals" in model.explain()
    names = {"task": "clinic", "label": "illness", "classes": model.classes_.tolist()}
    assert loaded.columns_ == names  # commands find them


X6, Y6, _, GROUPS6 = make_data(groups=6)


def fit_any(estimator: Any, y: Any = Y6, **changes: Any) -> Any:
    """Return a classifier that keeps every label: the groups are few."""
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS | changes
    return MetaPSClassifier(estimator, **options).fit(X6, y, GROUPS6)


def use(y: Any = Y6, **methods: Any) -> Any:
    """Return what calibrates an object with these methods."""
    return fit_any(SimpleNamespace(**methods), y, prefit=True)


def test_classes_are_those_of_the_model_and_of_the_labels() -> None:
    fitted = LogisticRegression().fit(X6, Y6)
    model = fit_any(fitted, np.where(Y6 == "b", "a", Y6), prefit=True)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.estimator_ is fitted
    with pytest.warns(UserWarning, match="not fitted on 'aa': sets miss such labels unless they"):
        model = fit_any(fitted, np.where(Y6 == "a", "aa", Y6), prefit=True)
    assert model.classes_.tolist() == ["a", "aa", "b", "c"]
    np.testing.assert_array_equal(model.predict_proba(X6)[:, [0, 2, 3]], fitted.predict_proba(X6))
    assert (model.predict_proba(X6)[:, 1] == 0).all()


def test_columns_follow_the_classes_even_if_the_model_orders_them_otherwise() -> None:
    model = use(
        np.where(Y6 == "c", "a", Y6),
        classes_=np.array(["b", "a"]),
        predict_proba=lambda x: np.array([[0.9, 0.1]] * len(x)),
    )
    assert model.predict_proba(X6[:2]).tolist() == [[0.1, 0.9]] * 2


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


def test_bad_scores_are_refused() -> None:
    def give(row: Any, rows: int = 240) -> dict[str, Any]:
        return {"classes_": [False, True], "predict_proba": lambda x: np.array([row] * rows)}

    for message, methods in (
        ("predict_proba holds 240 NaN .*in row 0.*Mend the model", give([0.5, np.nan])),
        (r"rows and classes, \(240, 2\), got \(240, 1\)", give([1.0])),
        (r"\(240, 2\), got \(480, 2\)", give([1, 1], 480)),
        ("SimpleNamespace.predict_proba must be real numbers, got <U1", give(["a", "b"])),
        ("must have usable classes_.*no attribute 'classes_'", {"predict_proba": len}),
        ("must have usable classes_", {"predict_proba": len, "classes_": [None]}),
        ("y must hold the classes 'a', 'b', got ", {"predict_proba": len, "classes_": ["a", "b"]}),
        ("with predict_proba or decision_function", {"predict": len}),
    ):
        with pytest.raises(mp.InvalidInput, match=message):
            use(Y6 == "a", **methods)


# The regressor.


def fit_regressor(
    estimator: Any = None, x: Any = X, y: Any = VALUES, groups: Any = GROUPS, **changes: Any
) -> Any:
    model = MetaPSRegressor(
        LinearRegression() if estimator is None else estimator, **LEVELS | changes
    )
    return model.fit(x, y, groups=groups)


def check_evaluation(model: Any, ends: Array) -> None:
    """Check misses and widths on new groups, whose intervals end there."""
    evaluation = model.evaluate(NEW.x, NEW.values, NEW.groups)
    missed = (NEW.values < ends[:, 0]) | (NEW.values > ends[:, 1])
    by_group = pd.DataFrame({"missed": missed, "width": np.diff(ends)[:, 0]}).groupby(NEW.groups)
    assert evaluation.missed.tolist() == by_group.missed.sum().tolist()
    assert evaluation.widths.tolist() == pytest.approx(by_group.width.mean().tolist())
    score = model.score(NEW.x, NEW.values, NEW.groups)
    assert score == pytest.approx(1 - evaluation.errors.mean(), abs=1e-12)


@settings(max_examples=12)
@given(
    estimator=st.sampled_from([LinearRegression(), BayesianRidge()]),
    split=st.sampled_from(["joint", "tight", "even"]),
    calibration=st.integers(25, 50),
    rng=st.integers(0, 99),
)
def test_intervals_are_those_of_the_array_route(estimator: Any, split: Any, **options: int) -> None:
    scaled: Any = {"return_std": True} if isinstance(estimator, BayesianRidge) else {}
    model = fit_regressor(estimator, split=split, **options, **scaled)
    train = np.isin(GROUPS, model.training_groups_)
    assert np.array_equal(~train, np.isin(GROUPS, model.calibration_groups_))
    reference = clone(estimator).fit(X[train], VALUES[train])

    def predict(x: Any) -> tuple[Any, ...]:
        found = reference.predict(x, **scaled)
        return found if scaled else (found,)

    scores = mp.residual_scores(VALUES[~train], *predict(X[~train]))
    arrays = mp.MetaPS(**LEVELS, split=split).calibrate(scores, GROUPS[~train])
    assert model.meta_ps_.threshold_ == arrays.threshold_
    np.testing.assert_array_equal(model.predict(NEW.x), predict(NEW.x)[0])
    ends = arrays.predict_interval(*predict(NEW.x))
    np.testing.assert_array_equal(model.predict_interval(NEW.x), ends)
    check_evaluation(model, ends)


@pytest.mark.parametrize("options", [{}, {"prefit": True}, {"shots": 8}])
@pytest.mark.parametrize("half", [0.5, 20.0])  # too close together, and too far apart
def test_intervals_from_quantiles_are_those_of_the_array_route(half: float, options: Any) -> None:
    pair = (Quantile(-half), Quantile(half))
    if options.get("prefit"):
        pair = tuple(model.fit(X[:9], VALUES[:9]) for model in pair)
    model = fit_regressor(pair, **options)
    assert model.meta_ps_.columns_.keys() >= {"lower", "upper"}
    assert (model.meta_ps_.threshold_ > 0) == (half == 20.0)
    if options.get("shots"):
        support = (NEW.x[:8], NEW.values[:8])
        fitted, new = [clone(one).fit(*support) for one in pair], NEW.x[8:]
        ends = model.predict_interval(new, support=support)
    else:
        fitted, new, ends = model.estimator_, NEW.x, model.predict_interval(NEW.x)
        rest = np.isin(GROUPS, model.calibration_groups_)
        scores = mp.quantile_scores(VALUES[rest], *(one.predict(X[rest]) for one in fitted))
        arrays = mp.MetaPS(**LEVELS).calibrate(scores, GROUPS[rest])
        assert model.meta_ps_.threshold_ == arrays.threshold_
        np.testing.assert_allclose(model.predict(new), fitted[0].predict(new) + half)
        check_evaluation(model, ends)
    lower, upper = (one.predict(new) for one in fitted)
    expected = model.meta_ps_.predict_interval(lower=lower, upper=upper)
    np.testing.assert_array_equal(ends, expected)


class MultiColumn:
    """A regressor that returns a column, as some networks do."""

    def __init__(self, inner: Any, columns: int = 1) -> None:
        self.inner, self.columns = inner, columns

    def fit(self, x: Any, y: Any) -> None:
        self.inner.fit(x, y)

    def predict(self, x: Any) -> Any:
        return np.repeat(self.inner.predict(x)[:, None], self.columns, axis=1)


RIDGE = Ridge()
BAD_NUMBERS: list[Any] = [
    *(({"estimator": x}, "estimator")
      for x in ((), (RIDGE,), (RIDGE,) * 3, [RIDGE, RIDGE], (RIDGE, Ridge))),
    ({"estimator": (BayesianRidge(), BayesianRidge()), "return_std": True}, "estimator"),
    ({"estimator": (Quantile(1.0), Quantile(-1.0))}, "swapped"),
    ({"y": GROUPS}, "for classes use MetaPSClassifier: y must be real numbers"),
    ({"y": VALUES > 0}, "y must be real numbers, got bool"),
    ({"y": VALUES[:, None]}, r"y must be one column, got shape \(2400, 1\)"),
    ({"y": np.where(VALUES > 1, np.nan, VALUES)}, "y must be finite, got nan"),
    ({"y": np.ma.masked_greater(VALUES, 1)}, "y holds .* masked values"),
    ({"estimator": MultiColumn(LinearRegression(), 2)}, "predict must return 1200 numbers"),
]  # fmt: skip


def test_bad_input_is_refused() -> None:
    column = fit_regressor(MultiColumn(LinearRegression()))
    assert column.meta_ps_.threshold_ == fit_regressor().meta_ps_.threshold_
    for changes, message in BAD_NUMBERS:
        with pytest.raises(mp.InvalidInput, match=message):
            fit_regressor(**{"estimator": LinearRegression()} | changes)
    with pytest.raises(mp.InvalidInput, match="estimator"):
        make((LogisticRegression(), LogisticRegression())).fit(X, Y, GROUPS)


X32 = np.random.default_rng(0).random((32, 3))
Y32 = np.random.default_rng(1).random(32)
SITES = np.repeat(list("abcdefgh"), 4)
CODES = np.repeat([7, 3, 5, 1, 8, 2, 9, 4], 4)
FRAME = pd.DataFrame(X32, columns=["u", "v", "w"], index=[f"row {i}" for i in range(32)])


class OnlyArray:
    """What scikit-learn calls not an array: it can become one, and has no length."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X32


class Recorder:
    """A regressor that keeps what it was fitted on. It is none of scikit-learn's."""

    def fit(self, x: Any, y: Any, **params: Any) -> None:
        self.x, self.y, self.params = x, y, params

    def predict(self, x: Any) -> Any:
        return np.zeros(x.shape[0] if hasattr(x, "shape") else len(x))


def fit_numbers(
    x: Any = X32, groups: Any = SITES, estimator: Any = None, y: Any = Y32, **changes: Any
) -> Any:
    """Fit on groups that need not suffice for a guarantee."""
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS | changes
    return MetaPSRegressor(estimator or DummyRegressor(), **options).fit(x, y, groups)


def test_the_training_rows_are_taken_by_position_and_keep_their_type() -> None:
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    arrays = (X32, sparse.csr_array(X32), sparse.coo_array(X32), torch.tensor(X32))
    frames = (FRAME, pl.from_pandas(FRAME), pa.table(columns))
    for x in (*arrays, *frames, X32.tolist(), OnlyArray()):
        own = Recorder()
        model = fit_numbers(x, estimator=own)
        assert model.estimator_ is not own
        assert not hasattr(own, "x")
        rows = np.isin(SITES, model.training_groups_)
        taken = model.estimator_.x
        assert type(taken) is type(x) or isinstance(x, OnlyArray) or taken.format == "csr"
        values = taken.toarray() if sparse.issparse(taken) else np.asarray(taken)
        np.testing.assert_array_equal(values, X32[rows])
        np.testing.assert_array_equal(model.estimator_.y, Y32[rows])
        if hasattr(x, "columns"):
            assert getattr(taken, "column_names", list(taken.columns)) == ["u", "v", "w"]
        with pytest.raises(mp.InvalidInput, match="X, y, groups must have an entry .*31"):
            fit_numbers(x, SITES[:-1])


def test_fit_parameters_are_cut_to_the_training_rows() -> None:
    params: Any = {"weight": np.arange(32), "list": [*"ab"] * 16, "other": np.arange(7), "no": None}
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS
    model = MetaPSRegressor(Recorder(), **options).fit(X32, Y32, SITES, **params)
    rows, cut = np.flatnonzero(np.isin(SITES, model.training_groups_)), model.estimator_.params
    assert cut["weight"].tolist() == rows.tolist()
    assert cut["list"] == [params["list"][i] for i in rows]
    assert (cut["other"] is params["other"], cut["no"]) == (True, None)


GROUP_COLUMNS: list[Any] = [
    (FRAME.assign(site=Y32), pd.Series(SITES, name="site", index=FRAME.index), "'site'"),
    (pl.from_pandas(FRAME.assign(site=SITES)), pl.Series("site", SITES), "'site'"),
    (FRAME.assign(clinic=SITES).convert_dtypes(), SITES, "'clinic'"),
    (pl.from_pandas(FRAME.assign(code=CODES)), pl.Series("site", SITES), "'code'"),
    (pa.table({"a": X32[:, 0], "code": CODES}), SITES, "'code'"),
    (np.column_stack([X32, CODES]), SITES, str(X32.shape[1])),  # as floats
]


def test_the_column_of_the_groups_is_found() -> None:
    for x, groups, name in GROUP_COLUMNS:
        with pytest.warns(UserWarning, match=f"column {name} of X.*leave such a column out of X"):
            fit_numbers(x, groups)


def test_other_columns_pass_without_warning() -> None:
    fit_numbers(X32, pd.Series(SITES, name="site"))
    others: list[Any] = [
        np.zeros(32),
        np.where(CODES == 7, 1, CODES % 2),  # two groups share a value
        np.arange(32),  # a value for each row
        CODES + 0.5,
        CODES.astype("datetime64[D]"),
        [None, *CODES[1:]],
        pd.array([pd.NA, *SITES[1:]], dtype="string"),
        np.where(CODES == 7, np.nan, CODES),
    ]
    for column in others:
        fit_numbers(FRAME.assign(other=column))
    fit_numbers(["a text"] * 32)
    # As many groups as rows: every column of codes would do.
    fit_numbers(FRAME.assign(code=np.arange(32)), np.arange(32))


@given(st.integers(0, 3), st.integers(0, 5))
def test_support_must_have_as_many_rows_as_in_calibration(shots: int, given_: int) -> None:
    model = fit_numbers(shots=shots)
    support: Any = X32[:given_], Y32[:given_]
    if shots == given_ > 0:
        means = [Y32[:shots].mean()] * 32
        assert model.predict(X32, support=support).tolist() == pytest.approx(means)
        for words, y in (("y must be finite", [np.inf] * shots), ("an entry for each row", [])):
            with pytest.raises(mp.InvalidInput, match=words):
                model.predict(X32, support=(X32[:shots], y))
        support = None
    with pytest.raises(mp.InvalidInput, match=rf"support must be \(X, y\): {shots} rows.* got "):
        model.predict_interval(X32, support=support)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=80),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
    st.randoms(),
)
def test_groups_are_divided_whole_whatever_the_order(
    ids: list[int], share: float, rng: int, random: Any
) -> None:
    def divide(groups: list[int], calibration: Any) -> tuple[list[int], list[int]]:
        model = fit_numbers(
            np.zeros((len(ids), 1)), groups, y=ids, calibration=calibration, rng=rng
        )
        return model.training_groups_, model.calibration_groups_

    names = sorted({*ids}, key=str)  # "10" before "2"
    if len(names) < 2:
        with pytest.raises(mp.InvalidInput, match="of the 1 groups, and leave one to train on"):
            divide(ids, share)
        return
    number = min(max(round(share * len(names)), 1), len(names) - 1)
    drawn = [names[i] for i in np.random.default_rng(rng).permutation(len(names))]
    # A larger number adds groups to a smaller one, as the advice on calibration= assumes.
    expected = sorted(drawn[number:], key=str), sorted(drawn[:number], key=str)
    assert divide(ids, share) == divide(random.sample(ids, len(ids)), share) == expected
    assert divide(ids, number) == divide(ids, np.array(drawn[:number])) == expected


def fit_sizes(sizes: list[int], calibration: Any = 0.5, extra: int = 0, **changes: Any) -> None:
    """Fit on groups of given sizes, each with further rows to adapt to."""
    groups = np.repeat([f"s{i}" for i in range(len(sizes))], np.array(sizes) + extra)
    x, y = np.random.default_rng(0).random((2, len(groups)))
    options: Any = LEVELS | changes | {"shots": extra, "calibration": calibration}
    MetaPSRegressor(DummyRegressor(), **options).fit(x[:, None], y, groups)


def test_feasibility_is_that_of_calibrate() -> None:
    for calibration in (1, 9, *range(11, 16), 39):
        scores = np.random.default_rng(0).random(25 * calibration)
        refused: Any = nullcontext()
        tasks = np.repeat(np.arange(calibration), 25)
        try:
            mp.MetaPS(**LEVELS).calibrate(scores, tasks, allow=["duplicates"])
        except mp.InfeasibleGuarantee:
            refused = pytest.raises(mp.InfeasibleGuarantee, match=rf"\b{calibration} (of 40|task)")
        with refused:
            fit_sizes([25] * 40, calibration)
        with refused:
            fit_sizes([25] * calibration, extra=5)


def test_the_number_of_groups_in_the_message_is_the_least_that_works() -> None:
    sizes = np.random.default_rng(0).integers(5, 60, 60).tolist()
    with pytest.raises(
        mp.InfeasibleGuarantee, match="Groups are the tasks here: 3 of 60"
    ) as caught:
        fit_sizes(sizes, 3)
    enough = int(str(caught.value).rpartition("calibration=")[2].split()[0])
    fit_sizes(sizes, enough)
    with pytest.raises(mp.InfeasibleGuarantee):
        fit_sizes(sizes, enough - 1)


def fit_classes(yes: list[int], **changes: Any) -> Any:
    """Fit on groups with 40 rows of "no" and a number of rows of "yes" each."""
    number = len(yes)
    groups = np.append(np.repeat(np.arange(number), 40), np.repeat(np.arange(number), yes))
    y = np.repeat(["no", "yes"], [40 * number, sum(yes)])
    x = np.random.default_rng(0).normal(size=(len(y), 1)) + (y == "yes")[:, None]
    options: Any = LEVELS | {"per_class": True, "calibration": 30} | changes
    return MetaPSClassifier(GaussianNB(), **options).fit(x, y, groups)


def test_each_class_is_counted() -> None:
    with pytest.raises(
        mp.InfeasibleGuarantee, match="for 1 of 2 classes: class 'yes'.*30 of 40 cali"
    ):
        fit_classes([2] * 40)
    with pytest.raises(
        mp.InfeasibleGuarantee, match=r"6 of 120 calibrate, and the others train\.$"
    ):
        fit_classes([40, 40, 0] * 40, calibration=6)
    with pytest.raises(mp.InfeasibleGuarantee, match="30 of the 30 tasks.*30 of 40 calibrate"):
        fit_classes([0] * 30 + [40] * 10, calibration=np.arange(30))  # in training only

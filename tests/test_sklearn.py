"""The estimators are the array route, to the last bit, never mix groups, and keep the contract."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import estimator_checks
from sklearn.utils.validation import _num_samples

from metapac import (
    Context,
    InfeasibleGuarantee,
    InvalidInput,
    MetapacError,
    MetaPS,
    NotCalibrated,
    load,
    residual_scores,
)
from metapac.data_checks import CHECKS
from metapac.fewshot import CallableLearner
from metapac.sklearn import MetaPSClassifier, MetaPSRegressor
from tests.helpers.group_data import LEVELS, make_data
from tests.helpers.oracles import FALSE_ALARM
from tests.helpers.tables import evaluate_table

DATA = make_data()
X, Y, _, GROUPS = DATA


class Untrained(LogisticRegression):  # type: ignore[misc]
    """Fails if it is trained: what is checked before costs nothing."""

    def fit(self, X: Any, y: Any, **params: Any) -> Any:
        raise AssertionError("it was trained")


def make(estimator: Any = None, **changes: Any) -> MetaPSClassifier:
    return MetaPSClassifier(
        LogisticRegression() if estimator is None else estimator, **LEVELS | changes
    )


class Filled:
    """Groups that scikit-learn's checks do not pass: four, each with every fourth row."""

    def fit(self, X: Any, y: Any = None, groups: Any = None, **params: Any) -> Any:
        chosen = fill(X) if groups is None else groups
        return super().fit(X, y, chosen, **params)  # type: ignore[misc]

    def score(self, X: Any, y: Any, groups: Any = None) -> Any:
        return super().score(X, y, fill(X) if groups is None else groups)  # type: ignore[misc]


def fill(x: Any) -> Any:
    return np.arange(_num_samples(x)) % 4


class FilledClassifier(Filled, MetaPSClassifier):
    """The classifier with groups for rows that come without."""


class FilledRegressor(Filled, MetaPSRegressor):
    """The regressor with groups for rows that come without."""


# Documented in docs/estimators.md: in each case an error is raised, of another type or wording.
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


@pytest.mark.parametrize(
    "estimator",
    [
        FilledClassifier(LogisticRegression(), **LENIENT),
        FilledRegressor(Ridge(), **LENIENT),
    ],
    ids=["classifier", "regressor"],
)
def test_the_checks_of_scikit_learn_pass(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a base class, and of guarantees that say nothing
        results = estimator_checks.check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == DIFFERENT.keys()
    assert sum(result["status"] == "passed" for result in results) >= 45


def test_scikit_learn_is_an_extra() -> None:
    code = """
import sys, metapac
print({"sklearn", "torch", "pandas"} & {*sys.modules})
sys.modules["sklearn"] = None
try:
    import metapac.sklearn
except metapac.MissingExtra as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, message = run.stdout.splitlines()
    assert imported == "set()"
    expected = "metapac.sklearn needs sklearn. Install it with: pip install 'metapac[sklearn]'"
    assert message.startswith(expected)


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_a_search_passes_groups_to_fit_and_score() -> None:
    search = GridSearchCV(make(calibration=20), {"estimator__C": [0.01, 1.0]}, cv=GroupKFold(2))
    search.fit(DATA.x, DATA.labels, groups=DATA.groups)
    assert (search.cv_results_["mean_test_score"] > 0.8).all()
    scores = cross_val_score(
        make(calibration=20),
        DATA.x,
        DATA.labels,
        params={"groups": DATA.groups},
        cv=GroupKFold(2),
    )
    folds = GroupKFold(2).split(DATA.x, DATA.labels, DATA.groups)
    for score, (train, test) in zip(scores, folds, strict=True):
        model = make(calibration=20)
        model.fit(DATA.x[train], DATA.labels[train], DATA.groups[train])
        assert score == model.score(DATA.x[test], DATA.labels[test], DATA.groups[test])


def test_without_routing_groups_go_to_the_step_of_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), make())
    pipeline.fit(DATA.x, DATA.labels, metapsclassifier__groups=DATA.groups)
    assert pipeline.predict_proba(DATA.x).shape == (len(DATA.x), 3)
    search = GridSearchCV(make(), {"estimator__C": [1.0]}, cv=2, error_score="raise")
    with pytest.raises(InvalidInput, match="groups must name the site.*enable_metadata_routing"):
        search.fit(DATA.x, DATA.labels)


@pytest.mark.parametrize("enabled", [False, True])
def test_a_search_inside_gets_the_training_groups(enabled: bool) -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=GroupKFold(3))
    with sklearn.config_context(enable_metadata_routing=enabled):
        model = MetaPSClassifier(search, **LEVELS).fit(DATA.x, DATA.labels, DATA.groups)
    rows = np.isin(DATA.groups, model.training_groups_)
    expected = clone(search).fit(DATA.x[rows], DATA.labels[rows], groups=DATA.groups[rows])
    assert model.estimator_.best_params_ == expected.best_params_
    np.testing.assert_array_equal(
        model.estimator_.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )


def test_a_prefit_estimator_may_have_nothing_but_a_prediction() -> None:
    class Served:
        def predict(self, x: Any) -> Any:
            return x[:, 1]

    class Own(Served):
        def fit(self, x: Any, y: Any) -> None:
            raise AssertionError("it was trained")

    for served in (Served(), Own()):
        model = MetaPSRegressor(served, **LEVELS, prefit=True)
        assert model.fit(DATA.x, DATA.values, DATA.groups).estimator_ is served


SPACED = np.where(GROUPS == "s1", "s2 ", GROUPS)  # beside "s2"
REVERSED = {"X": pd.DataFrame(X), "groups": pd.Series(GROUPS)[::-1]}
TRAINED = {"context": Context(trained_on=["s1", "s2"]), "calibration": ["s1", "s3"]}
BAD_SHARES: tuple[Any, ...] = (0, 60, -1, 0.0, 1.0, 1.5, True, None, "half", np.nan, [], {"s1": 2})
ENTRIES = "must have an entry for each row"
BAD: list[tuple[str, dict[str, Any]]] = [  # a word of the error, and what is changed
    *(("epsilon", {"epsilon": value}) for value in (2, 0.9)),
    ("alpha", {"alpha": 0}),
    ("split", {"split": "odd"}),
    ("on_infeasible", {"on_infeasible": "hope"}),
    ("min_examples", {"min_examples": -1}),
    ("prefit", {"prefit": 1}),
    *(("shots", {"shots": value}) for value in (-1, 1.5)),
    ("shots=40 .*'s0'", {"shots": 40}),
    ("shots=2 .*prefit", {"shots": 2, "prefit": True}),
    *(("calibration .* 60 groups", {"calibration": share}) for share in BAD_SHARES),
    ("calibration", {"calibration": [*{*GROUPS}]}),
    ("calibration .* got 's99'", {"calibration": ["s1", "s99"]}),
    ("context", {"context": {"model": "x"}}),
    ("allow", {"allow": ["everything"]}),
    ("30 of 60 calibrate", {"delta": 1e-9}),
    ("share 1 task", TRAINED),
    ("estimator .* fit, got <class", {"estimator": Untrained}),
    ("estimator .* fit or adapt, got 'ridge'", {"estimator": "ridge", "shots": 2}),
    ("classifier.*MetaPSRegressor", {"estimator": LinearRegression()}),
    ("classifier", {"estimator": make_pipeline(StandardScaler(), LinearRegression())}),
    ("fitted on other groups", {"prefit": True}),
    ("predict_proba", {"estimator": object(), "prefit": True}),
    ("groups .*enable_metadata_routing=True", {"groups": None}),
    (f"groups {ENTRIES}: .*2399", {"groups": GROUPS[:-1]}),
    ("of the 1 groups", {"groups": np.full(2400, "a")}),
    ("groups differ only in spaces", {"groups": SPACED}),
    ("groups .*for each", {"groups": "s" * 2400}),
    ("groups .*missing", {"groups": [*GROUPS[1:], None]}),
    ("groups .*strings or integers", {"groups": np.arange(2400) / 2}),
    ("groups .*one type", {"groups": [*GROUPS[1:], 1]}),
    ("groups .*strings or integers", {"groups": [(name, 1) for name in GROUPS]}),
    ("groups .*unhashable", {"groups": [[name] for name in GROUPS]}),
    ("groups .*one-dimensional", {"groups": pd.DataFrame({"site": GROUPS})}),
    ("requires y", {"y": None}),
    (f"y, groups {ENTRIES}: .*2399", {"y": Y[:-1]}),
    ("got 40 missing", {"y": np.where(GROUPS == "s1", np.array(None), Y)}),
    *((ENTRIES, {"y": y}) for y in ("a" * 2400, dict.fromkeys(range(2400)), {*Y}, 3)),
    ("X and groups", REVERSED),
    *((ENTRIES, {"X": x}) for x in ("rows", None, 3, np.array(1.0), {"u": X}, X[:-1], iter(X))),
]


@pytest.mark.parametrize(("words", "changes"), BAD)
def test_bad_input_is_refused_before_anything_is_trained(
    words: str, changes: dict[str, Any]
) -> None:
    data = {"X": X, "y": Y, "groups": GROUPS}
    options = {name: value for name, value in changes.items() if name not in data}
    model = make(**{"estimator": Untrained()} | options)
    with pytest.raises(MetapacError, match=words):
        model.fit(**{name: changes.get(name, value) for name, value in data.items()})
    assert not hasattr(model, "meta_ps_")


def test_too_few_groups_are_an_error_with_a_remedy() -> None:
    with pytest.raises(InfeasibleGuarantee, match="5 of 60 calibrate, and calibration=11 would"):
        make(Untrained(), calibration=5).fit(X, Y, GROUPS)
    assert make(calibration=11).fit(X, Y, GROUPS).calibration_groups_
    rows = np.isin(GROUPS, [f"s{i}" for i in range(5)])
    fitted = LogisticRegression().fit(X[~rows], Y[~rows])
    with pytest.raises(InfeasibleGuarantee, match="there are 5 tasks.*keep every label.$"):
        make(fitted, prefit=True).fit(X[rows], Y[rows], GROUPS[rows])


def test_a_failed_fit_keeps_the_earlier_result() -> None:
    class Broken(LogisticRegression):  # type: ignore[misc]
        def predict_proba(self, X: Any) -> Any:
            return np.full((len(X), 3), np.nan)

    model = make().fit(X, Y, GROUPS)
    before = dict(vars(model))
    with pytest.raises(InvalidInput, match="groups must name"):
        model.fit(X, Y)
    assert vars(model) == before
    with pytest.raises(InvalidInput, match="predict_proba holds"):  # once it is trained
        model.set_params(estimator=Broken()).fit(X, Y, GROUPS)
    assert vars(model) == before | {"estimator": model.estimator}


def test_results_are_refused_before_fit_and_after_a_change() -> None:
    model = make()
    calls: list[Any] = [
        lambda: model.predict_set(X),
        lambda: model.predict(X),
        lambda: model.predict_proba(X),
        lambda: model.score(X, Y, GROUPS),
        lambda: model.evaluate(X, Y, GROUPS),
        model.explain,
        lambda: model.promise_,
        lambda: model.save_promise("promise.json"),
    ]
    for call in calls:
        with pytest.raises(
            NotCalibrated, match="MetaPSClassifier is not fitted yet. Call .fit"
        ) as e:
            call()
        assert isinstance(e.value, NotFittedError)
    model.fit(X, Y, GROUPS)
    for changes in ({"epsilon": 0.1}, {"split": "tight"}, {"shots": 3}, {"per_class": True}):
        old = {name: getattr(model, name) for name in changes}
        model.set_params(**changes)
        for call in calls:
            with pytest.raises(NotCalibrated, match="was fitted with .*, not with"):
                call()
        model.set_params(**old)
    model.set_params(calibration=3, on_infeasible="trivial").predict_set(X)


def test_fit_parameters_have_nowhere_to_go_if_nothing_is_fitted() -> None:
    fitted = LogisticRegression().fit(X, Y)
    with pytest.raises(InvalidInput, match="prefit=True, so sample_weight"):
        make(fitted, prefit=True).fit(X, Y, GROUPS, sample_weight=np.ones(len(X)))
    with pytest.raises(InvalidInput, match="shots=3, so sample_weight"):
        make(shots=3).fit(X, Y, GROUPS, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        make().fit(X, Y, GROUPS, colour=1)


def test_the_division_is_the_same_in_every_fit_unless_the_seed_says_otherwise() -> None:
    def groups_of(rng: Any) -> list[str]:
        return make(rng=rng).fit(X, Y, GROUPS).calibration_groups_

    assert groups_of(0) == groups_of(0)
    numbers = make().fit(X, Y, np.array([int(name[1:]) for name in GROUPS]))  # "10" before "2"
    assert [f"s{number}" for number in numbers.calibration_groups_] == groups_of(0)
    assert groups_of(0) != groups_of(1)
    order = np.random.default_rng(5).permutation(len(X))
    shuffled = make().fit(X[order], Y[order], GROUPS[order])
    assert shuffled.calibration_groups_ == groups_of(0)
    generator = np.random.default_rng(0)
    model = make(rng=generator)
    first = model.fit(X, Y, GROUPS).calibration_groups_
    assert first == groups_of(0)
    assert model.fit(X, Y, GROUPS).calibration_groups_ != first


def test_a_model_that_looks_at_other_rows_is_refused() -> None:
    class Uneven(LogisticRegression):  # type: ignore[misc]
        def __init__(self, row: int = 0, by: float = 1.0) -> None:
            super().__init__()
            self.row, self.by = row, by

        def predict_proba(self, X: Any) -> Any:
            rows = np.arange(len(X)) == self.row % len(X)
            return super().predict_proba(X) * np.where(rows & (len(X) > 1), self.by, 1)[:, None]

    for row in (0, -1):
        with pytest.raises(InvalidInput, match=r"the model gives row \d+ .* among others"):
            make(Uneven(row, 0.9)).fit(X, Y, GROUPS)
        make(Uneven(row, 1.0001)).fit(X, Y, GROUPS)  # rounding


def test_a_fitted_object_survives_pickling() -> None:
    model = make().fit(X, Y, GROUPS)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_set(X), model.predict_set(X))
    assert copied.promise_ == model.promise_


# The classifier.


NEW = make_data(groups=50, rng=1, prefix="n")
ALLOW = ("duplicates", "direction", "labels", "rare-class")


def fit_classifier(
    estimator: Any = None, x: Any = X, y: Any = Y, groups: Any = GROUPS, **changes: Any
) -> Any:
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
    model = fit_classifier(
        estimator, **levels, **choices, calibration=calibration, rng=rng, allow=ALLOW
    )
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


def test_a_model_that_knows_its_rows_by_heart_is_not_calibrated_on_them() -> None:
    # Labels are coins and the model repeats its training rows: on these it is always right, on
    # others by chance. Only sets of both labels miss at most a fifth.
    rng = np.random.default_rng(0)
    x, y, groups = rng.random((2400, 2)), rng.integers(2, size=2400), np.repeat(np.arange(60), 40)
    new_x, new_y, new = rng.random((400, 2)), rng.integers(2, size=400), np.repeat(range(10), 40)
    with pytest.warns(UserWarning, match="The threshold is 0.0"):
        model = fit_classifier(KNeighborsClassifier(1), x, y, groups, allow=ALLOW)
    assert model.score(new_x, new_y, new) == 1
    with pytest.warns(UserWarning, match=r"best possible score.* Context\(trained_on=\[...\]\)"):
        leaked = fit_classifier(
            KNeighborsClassifier(1).fit(x, y), x, y, groups, prefit=True, allow=ALLOW
        )
    assert leaked.score(new_x, new_y, new) < 0.65  # the control: the mistake would be seen


def test_prefit_estimators_are_used_as_they_are_and_every_group_calibrates() -> None:
    fitted = LogisticRegression().fit(NEW.x, NEW.labels)
    model = fit_classifier(fitted, prefit=True, calibration=0.01)
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
        model = fit_classifier(
            GaussianNB(), shots=shots, rng=7, epsilon=0.4, alpha=0.4, allow=ALLOW
        )
        expected.calibrate(scores, tasks, allow=ALLOW)
    assert model.meta_ps_.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)
    assert model.meta_ps_.task_sizes_.tolist() == [40 - shots] * 60


def test_a_new_group_is_adapted_to_its_support() -> None:
    model = fit_classifier(GaussianNB(), shots=10, epsilon=0.4, alpha=0.4)
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

    model = fit_classifier(CallableLearner(nearest), shots=20)
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
    model, expected = fit_classifier(x=x, y=y, groups=groups), fit_classifier()
    assert model.meta_ps_.threshold_ == pytest.approx(expected.meta_ps_.threshold_, rel=1e-12)
    assert model.calibration_groups_ == expected.calibration_groups_
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3


@pytest.mark.parametrize(
    "labels",
    [(Y == "a"), (Y == "a").astype(int), (Y == "a").astype(float), np.where(Y == "a", "é", "ü")],
    ids=["bool", "int", "float", "text"],
)
def test_labels_of_any_kind(labels: Any) -> None:
    model = fit_classifier(y=labels)
    expected = fit_classifier(y=(Y == "a").astype(int))
    if model.classes_.dtype.kind != "U":  # é sorts before ü, a before other
        assert model.meta_ps_.threshold_ == expected.meta_ps_.threshold_
    assert set(model.predict(X)) <= set(labels)
    assert model.score(X, labels, GROUPS) > 0.8


def test_a_class_that_training_lacks_is_missed() -> None:
    labels = np.where(GROUPS == "s3", "rare", Y)
    calibration = [f"s{i}" for i in range(3, 40)]
    with pytest.warns(UserWarning, match="not fitted on 'rare': sets miss such labels unless"):
        model = fit_classifier(y=labels, calibration=calibration, allow=["rare-class"])
    assert model.classes_.tolist() == ["a", "b", "c", "rare"]
    assert not model.predict_set(X)[:, 3].any()
    assert (model.predict_proba(X)[:, 3] == 0).all()
    rows = GROUPS == "s3"
    assert model.score(X[rows], labels[rows], GROUPS[rows]) == 0


def test_the_score_is_the_mean_coverage_of_groups() -> None:
    model = fit_classifier()
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
    model = fit_classifier()
    x, y = np.concatenate([X, NEW.x]), np.concatenate([Y, NEW.labels])
    evaluation = model.evaluate(x, y, np.concatenate([GROUPS, NEW.groups]))
    assert evaluation.overlap == tuple(sorted(set(GROUPS)))
    assert evaluation.tasks.tolist() == sorted(set(NEW.groups))
    with pytest.raises(InvalidInput, match="every task has the name of a calibration, training"):
        model.evaluate(X, Y, GROUPS)
    everything = fit_classifier(allow=["overlap"]).evaluate(X, Y, GROUPS)
    assert (
        everything.tasks.tolist() == model.evaluate(X, Y, GROUPS, allow=["overlap"]).tasks.tolist()
    )
    assert 1 - everything.errors.mean() == pytest.approx(model.score(X, Y, GROUPS), abs=1e-12)
    with pytest.raises(InvalidInput, match="y must hold classes that fit has seen"):
        model.evaluate(NEW.x, np.where(NEW.labels == "a", "z", NEW.labels), NEW.groups)


def test_the_training_groups_are_kept_in_the_promise_file(tmp_path: Any) -> None:
    context = Context(model="risk 1.0", trained_on=["elsewhere"], unit="hospital")
    model = fit_classifier(context=context)
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
    assert "rows" in fit_classifier().explain()
    assert "groups" in fit_classifier().explain()


def test_a_rare_class_has_its_own_guarantee() -> None:
    model = fit_classifier(per_class=True, epsilon={"a": 0.2, "b": 0.3, "c": 0.3})
    assert model.meta_ps_.classes_ == ("a", "b", "c")
    evaluation = model.evaluate(NEW.x, NEW.labels, NEW.groups)
    assert evaluation.by_class is not None
    labels = np.where((GROUPS == "s3") & (Y == "a"), "rare", Y)
    with pytest.raises(InfeasibleGuarantee, match="; class 'rare'.*30 of 60 calibrate"):
        fit_classifier(y=labels, per_class=True)


def test_commands_find_the_columns_of_series(tmp_path: Path) -> None:
    illness, clinic = pd.Series(Y, name="illness"), pd.Series(GROUPS, name="clinic")
    model = fit_classifier(y=illness, groups=clinic)
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
    assert fit_classifier().meta_ps_.columns_ == {"classes": model.classes_.tolist()}


X6, Y6, _, GROUPS6 = make_data(groups=6)


def fit_any(estimator: Any, y: Any = Y6, **changes: Any) -> Any:
    """Return a classifier that keeps every label: the groups are few."""
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS | changes
    return MetaPSClassifier(estimator, **options).fit(X6, y, GROUPS6)


def use(y: Any = Y6, **methods: Any) -> Any:
    """Return what calibrates an object with these methods."""
    return fit_any(SimpleNamespace(**methods), y, prefit=True)


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


def test_perfect_scores_of_many_rows_are_pointed_out() -> None:
    by_heart = KNeighborsClassifier(1).fit(X6, Y6)
    model = MetaPSClassifier(by_heart, **LEVELS, prefit=True, on_infeasible="trivial", allow=CHECKS)
    for rows in (19, 20):
        if rows < 20:  # few rows show nothing
            model.fit(X6[:rows], Y6[:rows], np.arange(rows) % 2)
            continue
        with pytest.warns(UserWarning, match="every calibration row has the best possible score"):
            model.fit(X6[:rows], Y6[:rows], np.arange(rows) % 2)


# The regressor.

VALUES = DATA.values


def fit_regressor(
    estimator: Any = None, x: Any = X, y: Any = VALUES, groups: Any = GROUPS, **changes: Any
) -> Any:
    model = MetaPSRegressor(
        LinearRegression() if estimator is None else estimator, **LEVELS | changes
    )
    return model.fit(x, y, groups=groups)


@settings(max_examples=12)
@given(
    estimator=st.sampled_from(
        [LinearRegression(), Ridge(9.0), DecisionTreeRegressor(max_depth=3, random_state=0)]
    ),
    split=st.sampled_from(["joint", "tight", "even"]),
    calibration=st.integers(25, 50),
    rng=st.integers(0, 99),
)
def test_intervals_are_those_of_the_array_route(
    estimator: Any, split: Any, calibration: int, rng: int
) -> None:
    model = fit_regressor(estimator, split=split, calibration=calibration, rng=rng)
    train = np.isin(GROUPS, model.training_groups_)
    assert np.array_equal(~train, np.isin(GROUPS, model.calibration_groups_))
    reference = type(estimator)(**estimator.get_params()).fit(X[train], VALUES[train])
    arrays = MetaPS(**LEVELS, split=split)
    arrays.calibrate(residual_scores(VALUES[~train], reference.predict(X[~train])), GROUPS[~train])
    assert model.meta_ps_.threshold_ == arrays.threshold_
    np.testing.assert_array_equal(model.predict(NEW.x), reference.predict(NEW.x))
    np.testing.assert_array_equal(
        model.predict_interval(NEW.x), arrays.predict_interval(reference.predict(NEW.x))
    )


def test_numbers_known_by_heart_are_not_calibrated_on() -> None:
    rng = np.random.default_rng(0)
    x, y, groups = rng.random((2400, 2)), rng.normal(size=2400), np.repeat(np.arange(60), 40)
    new = rng.random((400, 2)), rng.normal(size=400), np.repeat(np.arange(10), 40)
    assert fit_regressor(KNeighborsRegressor(1), x, y, groups).score(*new) > 0.8
    by_heart = KNeighborsRegressor(1).fit(x, y)
    with pytest.warns(UserWarning, match="every prediction equals its true value"):
        leaked = fit_regressor(by_heart, x, y, groups, prefit=True, allow=["duplicates"])
    assert leaked.score(*new) == 0  # the control: all residuals were 0


def count_broken(fits: int, *, shuffle: bool) -> int:
    """How many of many fits break the promise, which is known of each exactly.

    The model predicts 0, and three groups in ten, more than alpha, have noise of scale 10. The
    promise is broken if the intervals miss more than epsilon there: if their radius is below 10 z.
    """
    rng, broken = np.random.default_rng(0), 0
    z = stats.norm.isf(LEVELS["epsilon"] / 2)
    groups = np.repeat(np.arange(30), 40)
    for _ in range(fits):
        scale = np.where(rng.random(30) < 0.3, 10.0, 1.0)
        y = rng.normal(size=len(groups)) * scale[groups]
        names = rng.permutation(groups) if shuffle else groups
        zero = DummyRegressor(strategy="constant", constant=0.0)
        model = fit_regressor(zero, np.zeros((len(y), 1)), y, names, calibration=28, split="tight")
        broken += -model.meta_ps_.threshold_ < 10 * z
    return broken


def test_the_promise_is_broken_at_most_as_often_as_delta_says() -> None:
    most = stats.binom.isf(FALSE_ALARM, 100, LEVELS["delta"])
    assert count_broken(100, shuffle=False) <= most
    assert count_broken(100, shuffle=True) > most  # the control: groups that are none


def test_new_groups_are_covered_as_promised() -> None:
    model = fit_regressor(BayesianRidge(), return_std=True)  # widths differ
    evaluation = model.evaluate(NEW.x, NEW.values, NEW.groups)
    assert evaluation.verdict.status != "violated"
    low, high = model.predict_interval(NEW.x).T
    covered = (low <= NEW.values) & (NEW.values <= high)
    for name, missed, width in zip(
        evaluation.tasks, evaluation.missed, evaluation.widths, strict=True
    ):
        rows = NEW.groups == name
        assert missed == np.count_nonzero(~covered[rows])
        assert width == pytest.approx(np.mean((high - low)[rows]), rel=1e-12)
    means = [covered[NEW.groups == name].mean() for name in set(NEW.groups)]
    assert model.score(NEW.x, NEW.values, NEW.groups) == pytest.approx(np.mean(means), abs=1e-12)


def test_intervals_scale_with_the_predicted_standard_deviation() -> None:
    model = fit_regressor(BayesianRidge(), return_std=True)
    known = np.isin(GROUPS, model.calibration_groups_)
    reference = BayesianRidge().fit(X[~known], VALUES[~known])
    scores = residual_scores(VALUES[known], *reference.predict(X[known], return_std=True))
    arrays = MetaPS(**LEVELS).calibrate(scores, GROUPS[known])
    assert model.meta_ps_.threshold_ == arrays.threshold_
    expected = arrays.predict_interval(*reference.predict(NEW.x, return_std=True))
    np.testing.assert_array_equal(model.predict_interval(NEW.x), expected)
    pipeline = fit_regressor(make_pipeline(StandardScaler(), BayesianRidge()), return_std=True)
    assert pipeline.predict_interval(NEW.x[:2]).shape == (2, 2)
    with pytest.raises(TypeError, match="return_std"):
        fit_regressor(return_std=True)


def test_shots_adapt_a_regressor_to_each_group() -> None:
    rng, scores, tasks = np.random.default_rng(7), [], []
    for name in sorted(set(GROUPS)):
        rows = rng.permutation(np.flatnonzero(np.isin(GROUPS, name)))
        one = Ridge().fit(X[rows[:8]], VALUES[rows[:8]])
        for i in rows[8:]:
            scores.append(-abs(VALUES[i] - one.predict(X[[i]])[0]))
            tasks.append(name)
    model = fit_regressor(Ridge(), shots=8, rng=7)
    expected = MetaPS(**LEVELS).calibrate(scores, tasks)
    assert model.meta_ps_.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)
    support = NEW.x[:8], NEW.values[:8]
    centre = Ridge().fit(*support).predict(NEW.x[8:40])
    np.testing.assert_array_equal(model.predict(NEW.x[8:40], support=support), centre)
    np.testing.assert_array_equal(
        model.predict_interval(NEW.x[8:40], support=support),
        model.meta_ps_.predict_interval(centre),
    )
    assert not hasattr(model.estimator, "coef_")


def test_values_of_any_container_and_precision() -> None:
    expected = fit_regressor().meta_ps_.threshold_
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=VALUES, site=GROUPS)
    model = fit_regressor(x=frame[["u", "v", "w"]], y=frame["y"], groups=frame["site"])
    assert model.meta_ps_.threshold_ == pytest.approx(expected)
    assert fit_regressor(y=VALUES.tolist()).meta_ps_.threshold_ == expected
    assert fit_regressor(y=torch.tensor(VALUES)).meta_ps_.threshold_ == expected
    assert fit_regressor(y=VALUES.astype(np.float32)).meta_ps_.threshold_ == pytest.approx(
        expected, rel=1e-5
    )
    column = fit_regressor(MultiColumn(LinearRegression()))
    assert column.meta_ps_.threshold_ == expected


class MultiColumn:
    """A regressor that returns a column, as some networks do."""

    def __init__(self, inner: Any, columns: int = 1) -> None:
        self.inner, self.columns = inner, columns

    def fit(self, x: Any, y: Any) -> None:
        self.inner.fit(x, y)

    def predict(self, x: Any) -> Any:
        return np.repeat(self.inner.predict(x)[:, None], self.columns, axis=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": GROUPS}, "for classes use MetaPSClassifier: y must be real numbers"),
        ({"y": VALUES > 0}, "y must be real numbers, got bool"),
        ({"y": VALUES + 0j}, "y must be real numbers, got complex128"),
        ({"y": X}, r"y must be one column, got shape \(2400, 3\)"),
        ({"y": np.where(VALUES > 1, np.nan, VALUES)}, "y must be finite, got nan"),
        ({"y": VALUES[:, None]}, r"y must be one column, got shape \(2400, 1\)"),
        ({"y": np.ma.masked_greater(VALUES, 1)}, "y holds .* masked values"),
        ({"y": None}, "requires y to be passed, but the target y is None"),
        (
            {"estimator": MultiColumn(LinearRegression(), 2)},
            "MultiColumn.predict must return 1200 numbers",
        ),
        ({"estimator": object()}, "estimator must be an instance with fit, got <object"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fit_regressor(**changes)


def test_the_scale_is_part_of_what_was_fitted() -> None:
    model = fit_regressor(BayesianRidge(), return_std=True).set_params(return_std=False)
    with pytest.raises(NotCalibrated, match="'return_std': True}, not with"):
        model.predict_interval(X)


def test_the_promise_is_about_intervals(tmp_path: Path) -> None:
    model = fit_regressor()
    assert "it gives an interval: the predicted number plus and minus" in model.explain()
    assert "the intervals prediction plus and minus" in model.promise_
    assert "label" not in model.explain() + model.promise_
    model.save_promise(tmp_path / "promise.json")
    loaded = load(tmp_path / "promise.json")
    assert loaded.columns_ == {"prediction": "prediction", "y": "y"}
    assert loaded.explain() == model.explain()
    assert model.meta_ps_.add([-0.1] * 50, ["another"] * 50).columns_ == loaded.columns_


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
    x: Any = X32,
    groups: Any = SITES,
    estimator: Any = None,
    params: Any = None,
    y: Any = Y32,
    **changes: Any,
) -> Any:
    """Fit on groups that need not suffice for a guarantee."""
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS | changes
    model = MetaPSRegressor(DummyRegressor() if estimator is None else estimator, **options)
    return model.fit(x, y, groups, **params or {})


@pytest.mark.parametrize(
    "x",
    [
        X32,
        FRAME,
        pl.from_pandas(FRAME),
        pa.table({name: FRAME[name].to_numpy() for name in FRAME}),
        sparse.csr_array(X32),
        sparse.coo_array(X32),
        sparse.csc_matrix(X32),
        torch.tensor(X32),
        X32.tolist(),
        OnlyArray(),
    ],
    ids=lambda x: type(x).__name__,
)
def test_the_training_rows_are_taken_by_position_and_keep_their_type(x: Any) -> None:
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
    with pytest.raises(InvalidInput, match="X, y, groups must have an entry .*31"):
        fit_numbers(x, SITES[:-1])


def test_fit_parameters_are_cut_to_the_training_rows() -> None:
    params = {
        "weight": np.arange(32),
        "series": FRAME["u"],
        "list": [str(i) for i in range(32)],
        "other": np.arange(7),
        "pairs": [(X32, Y32)],
        "flag": True,
        "none": None,
    }
    model = fit_numbers(estimator=Recorder(), params=params)
    rows, cut = np.flatnonzero(np.isin(SITES, model.training_groups_)), model.estimator_.params
    assert cut["weight"].tolist() == rows.tolist()
    assert cut["series"].tolist() == X32[rows, 0].tolist()
    assert cut["list"] == [str(i) for i in rows]
    for name in ("other", "pairs", "flag", "none"):
        assert cut[name] is params[name]


@pytest.mark.parametrize(
    ("x", "groups", "name"),
    [
        (FRAME.assign(site=SITES), pd.Series(SITES, name="site", index=FRAME.index), "'site'"),
        (FRAME.assign(site=Y32), pd.Series(SITES, name="site", index=FRAME.index), "'site'"),
        (pl.from_pandas(FRAME.assign(site=SITES)), pl.Series("site", SITES), "'site'"),
        (FRAME.assign(clinic=SITES), SITES, "'clinic'"),
        (FRAME.assign(clinic=SITES).convert_dtypes(), SITES, "'clinic'"),
        (pl.from_pandas(FRAME.assign(code=CODES)), pl.Series("site", SITES), "'code'"),
        (pa.table({"a": X32[:, 0], "code": CODES}), SITES, "'code'"),
        (np.column_stack([X32, CODES]), SITES, str(X32.shape[1])),  # as floats
    ],
)
def test_the_column_of_the_groups_is_found(x: Any, groups: Any, name: str) -> None:
    with pytest.warns(UserWarning, match=f"column {name} of X.*leave such a column out of X"):
        fit_numbers(x, groups)


def test_other_columns_pass_without_warning() -> None:
    fit_numbers(X32, pd.Series(SITES, name="site"))
    others = {
        "constant": np.zeros(32),
        "coarser": CODES == 7,  # two groups share a value
        "region": np.where(CODES == 7, 1, CODES % 2),
        "finer": np.arange(32),  # a value for each row
        "measured": CODES + 0.5,
        "day": CODES.astype("datetime64[D]"),
        "missing": [None, *CODES[1:]],
        "not available": pd.array([pd.NA, *SITES[1:]], dtype="string"),
        "not a number": np.where(CODES == 7, np.nan, CODES),
    }
    for column in others.values():
        fit_numbers(FRAME.assign(other=column))
    fit_numbers(["a text"] * 32)
    fit_numbers(sparse.csr_matrix(np.column_stack([X32, CODES])))
    # As many groups as rows: every column of codes would do.
    fit_numbers(FRAME.assign(code=np.arange(32)), np.arange(32))


@given(st.integers(1, 3), st.integers(0, 5))
def test_support_must_have_as_many_rows_as_in_calibration(shots: int, given_: int) -> None:
    model, support = fit_numbers(shots=shots), (X32[:given_], Y32[:given_])
    if shots == given_:
        assert model.predict(X32, support=support).tolist() == pytest.approx(
            [Y32[:shots].mean()] * 32
        )
        return
    with pytest.raises(InvalidInput, match=rf"support must be .* {shots} rows.* got {given_}\."):
        model.predict_interval(X32, support=support)


def test_support_is_checked() -> None:
    with pytest.raises(InvalidInput, match="support must be .* with shots=0"):
        fit_numbers().predict(X32, support=(X32, Y32))
    with pytest.raises(InvalidInput, match=r"X, y must have an entry for each row: .*\[2, 1\]"):
        fit_numbers(shots=2).predict(X32, support=(X32[:2], [1.0]))
    with pytest.raises(InvalidInput, match="y must be finite"):
        fit_numbers(shots=2).predict(X32, support=(X32[:2], [1.0, np.inf]))


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=80),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
    st.randoms(),
)
def test_groups_are_divided_whole_and_whatever_the_order_of_rows(
    ids: list[int], share: float, rng: int, random: Any
) -> None:
    def divide(groups: list[int], calibration: Any) -> tuple[list[int], list[int]]:
        model = fit_numbers(
            np.zeros((len(ids), 1)), groups, y=ids, calibration=calibration, rng=rng
        )
        return model.training_groups_, model.calibration_groups_

    names = sorted({*ids}, key=str)  # "10" before "2"
    if len(names) < 2:
        with pytest.raises(InvalidInput, match="of the 1 groups, and leave one to train on"):
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
        tasks = np.repeat(np.arange(calibration), 25)
        try:
            MetaPS(**LEVELS).calibrate(scores, tasks, allow=["duplicates"])
        except InfeasibleGuarantee:
            with pytest.raises(InfeasibleGuarantee, match=f"{calibration} of 40 calibrate"):
                fit_sizes([25] * 40, calibration)
            with pytest.raises(InfeasibleGuarantee, match=f"there .* {calibration} task"):
                fit_sizes([25] * calibration, extra=5)
        else:
            fit_sizes([25] * 40, calibration)
            fit_sizes([25] * calibration, extra=5)


def test_the_number_of_groups_in_the_message_is_the_least_that_works() -> None:
    sizes = np.random.default_rng(0).integers(5, 60, 60).tolist()
    with pytest.raises(InfeasibleGuarantee, match="Groups are the tasks here: 3 of 60") as caught:
        fit_sizes(sizes, 3)
    enough = int(str(caught.value).rpartition("calibration=")[2].split()[0])
    fit_sizes(sizes, enough)
    with pytest.raises(InfeasibleGuarantee):
        fit_sizes(sizes, enough - 1)


def test_enough_groups_of_a_size_are_named() -> None:
    """Small groups are too many, however many calibrate; without them there are enough."""
    sizes = [40, 40, 2] * 40
    with pytest.raises(InfeasibleGuarantee, match=r"use min_examples=3, .* and the others train"):
        fit_sizes(sizes, 60)
    fit_sizes(sizes, 60, min_examples=3)


def fit_classes(yes: list[int], **changes: Any) -> Any:
    """Fit on groups with 40 rows of "no" and a number of rows of "yes" each."""
    number = len(yes)
    groups = np.append(np.repeat(np.arange(number), 40), np.repeat(np.arange(number), yes))
    y = np.repeat(["no", "yes"], [40 * number, sum(yes)])
    x = np.random.default_rng(0).normal(size=(len(y), 1)) + (y == "yes")[:, None]
    options: Any = LEVELS | {"per_class": True, "calibration": 30} | changes
    return MetaPSClassifier(GaussianNB(), **options).fit(x, y, groups)


def test_each_class_is_counted() -> None:
    with pytest.raises(InfeasibleGuarantee, match="for 1 of 2 classes: class 'yes'.*30 of 40 cali"):
        fit_classes([2] * 40)
    with pytest.raises(InfeasibleGuarantee, match=r"6 of 120 calibrate, and the others train\.$"):
        fit_classes([40, 40, 2] * 40, calibration=6)
    with pytest.raises(InfeasibleGuarantee, match="30 of the 30 tasks.*30 of 40 calibrate"):
        fit_classes([0] * 30 + [40] * 10, calibration=np.arange(30))  # in training only


def test_with_shots_the_other_rows_must_suffice_before_anything_is_fitted() -> None:
    class Unfit(DummyRegressor):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            raise AssertionError("it was fitted")

    groups = np.repeat(np.arange(40), 30)
    x, y = np.random.default_rng(0).random((2, len(groups)))
    model = MetaPSRegressor(Unfit(), **LEVELS, shots=28)
    with pytest.raises(InfeasibleGuarantee, match="40 tasks"):
        model.fit(x[:, None], y, groups)

"""What scikit-learn asks of estimators: parameters, clones, routing, tags, its own checks."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.validation import _num_samples, check_is_fitted

from metapac import Context, InvalidInput
from metapac.sklearn import MetaPSClassifier, MetaPSRegressor
from tests.helpers.group_data import LEVELS, make_data

DATA = make_data()


def classifier(**changes: Any) -> MetaPSClassifier:
    return MetaPSClassifier(LogisticRegression(), **LEVELS | changes)


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


def test_parameters_are_read_and_set_with_those_of_the_estimator() -> None:
    model = classifier(rng=3)
    assert model.get_params(deep=False).keys() == {
        "estimator", "epsilon", "alpha", "delta", "split", "per_class", "min_examples",
        "on_infeasible", "calibration", "prefit", "shots", "rng", "context", "allow",
    }  # fmt: skip
    assert model.get_params()["estimator__C"] == 1.0
    assert model.set_params(epsilon=0.3, estimator__C=7) is model
    assert (model.epsilon, model.estimator.C) == (0.3, 7)
    replaced = make_pipeline(StandardScaler(), LogisticRegression())
    model.set_params(estimator__logisticregression__C=2, estimator=replaced)
    assert replaced.get_params()["logisticregression__C"] == 2
    with pytest.raises(ValueError, match="Invalid parameter 'C' for estimator MetaPSClassifier"):
        model.set_params(C=1)
    with pytest.raises(AttributeError, match="set_params"):
        model.set_params(context__model="x")
    with pytest.raises(ValueError, match="Invalid parameter 'D'"):
        model.set_params(estimator__D=1)


def test_clones_have_the_same_parameters_and_no_results() -> None:
    context = Context(model="risk 1.0", unit="hospital")
    model = classifier(context=context, calibration=["s1", "s2"], rng=np.random.default_rng(0))
    copied = clone(model)
    assert copied.context == context
    assert copied.calibration == ["s1", "s2"]
    assert copied.estimator is not model.estimator
    fitted = classifier().fit(DATA.x, DATA.labels, DATA.groups)
    check_is_fitted(fitted)
    assert not hasattr(clone(fitted), "meta_ps_")
    assert not hasattr(clone(fitted), "classes_")
    assert fitted.estimator_ is not fitted.estimator
    assert not hasattr(fitted.estimator, "classes_")


def test_the_type_of_an_estimator_is_known() -> None:
    assert is_classifier(classifier())
    assert is_regressor(MetaPSRegressor(LinearRegression(), **LEVELS))
    tags = classifier().set_params(estimator=HistGradientBoostingClassifier()).__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert tags.target_tags.required
    wide = MetaPSClassifier(RandomForestClassifier(), **LEVELS).__sklearn_tags__()
    assert (wide.classifier_tags.multi_label, wide.target_tags.multi_output) == (False, False)
    both = MetaPSClassifier(LinearDiscriminantAnalysis(), **LEVELS).__sklearn_tags__()
    assert (both.transformer_tags, both.array_api_support) == (None, False)
    assert not classifier().__sklearn_tags__().input_tags.allow_nan
    assert MetaPSClassifier(object(), **LEVELS).__sklearn_tags__().estimator_type == "classifier"


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_groups_are_requested_by_default() -> None:
    requests = classifier().get_metadata_routing()
    assert requests.consumes("fit", ["groups"]) == {"groups"}
    assert requests.consumes("score", ["groups"]) == {"groups"}
    assert requests.consumes("predict", ["groups"]) == set()


@pytest.mark.usefixtures("routing")
def test_requests_can_be_changed_and_are_cloned() -> None:
    model = classifier().set_fit_request(groups="hospital").set_score_request(groups=False)
    for one in (model, clone(model), copy.deepcopy(model)):
        requests = one.get_metadata_routing()
        assert requests.consumes("fit", ["groups", "hospital"]) == {"hospital"}
        assert requests.consumes("score", ["groups"]) == set()
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline.fit(DATA.x, DATA.labels, hospital=DATA.groups)
    assert pipeline[-1].calibration_groups_


@pytest.mark.usefixtures("routing")
def test_a_search_passes_groups_to_fit_and_score() -> None:
    search = GridSearchCV(
        classifier(calibration=20), {"estimator__C": [0.01, 1.0]}, cv=GroupKFold(2)
    )
    search.fit(DATA.x, DATA.labels, groups=DATA.groups)
    assert (search.cv_results_["mean_test_score"] > 0.8).all()
    scores = cross_val_score(
        classifier(calibration=20),
        DATA.x,
        DATA.labels,
        params={"groups": DATA.groups},
        cv=GroupKFold(2),
    )
    folds = GroupKFold(2).split(DATA.x, DATA.labels, DATA.groups)
    for score, (train, test) in zip(scores, folds, strict=True):
        model = classifier(calibration=20)
        model.fit(DATA.x[train], DATA.labels[train], DATA.groups[train])
        assert score == model.score(DATA.x[test], DATA.labels[test], DATA.groups[test])


@pytest.mark.usefixtures("routing")
def test_weights_reach_an_estimator_that_requests_them() -> None:
    weight = np.random.default_rng(0).random(len(DATA.groups))
    inner = LogisticRegression().set_fit_request(sample_weight=True)
    pipeline = make_pipeline(MetaPSClassifier(inner, **LEVELS))
    pipeline.fit(DATA.x, DATA.labels, groups=DATA.groups, sample_weight=weight)
    direct = classifier().fit(DATA.x, DATA.labels, DATA.groups, sample_weight=weight)
    np.testing.assert_array_equal(pipeline[-1].estimator_.coef_, direct.estimator_.coef_)
    plain = classifier().fit(DATA.x, DATA.labels, DATA.groups)
    assert (plain.estimator_.coef_ != direct.estimator_.coef_).any()


def test_without_routing_groups_go_to_the_step_of_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), classifier())
    pipeline.fit(DATA.x, DATA.labels, metapsclassifier__groups=DATA.groups)
    assert pipeline.predict_proba(DATA.x).shape == (len(DATA.x), 3)
    search = GridSearchCV(classifier(), {"estimator__C": [1.0]}, cv=2, error_score="raise")
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


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (Ridge, {}, "estimator must be an instance with fit, got <class"),
        ("ridge", {"shots": 2}, "estimator must be an instance with fit or adapt, got 'ridge'"),
        (Ridge(), {"prefit": True}, "fitted on other groups if prefit=True: This Ridge instance"),
        (Ridge, {"prefit": True}, "estimator must be an instance with predict, got <class"),
        (object(), {"prefit": True}, "estimator must be an instance with predict, got <object"),
    ],
)
def test_estimators_that_cannot_be_used_are_refused(
    estimator: Any, options: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        MetaPSRegressor(estimator, **LEVELS | options).fit(DATA.x, DATA.values, DATA.groups)


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

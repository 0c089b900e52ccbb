"""What classifier and regressor share: scikit-learn's contract, and what is refused."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.validation import _num_samples, check_is_fitted

from metapac import Context, InfeasibleGuarantee, InvalidInput, MetapacError, NotCalibrated
from metapac.data_checks import CheckWarning
from metapac.sklearn import MetaPSClassifier, MetaPSRegressor
from tests.helpers.group_data import LEVELS, make_data

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


def test_parameters_are_read_and_set_with_those_of_the_estimator() -> None:
    model = make(rng=3)
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
    model = make(context=context, calibration=["s1", "s2"], rng=np.random.default_rng(0))
    copied = clone(model)
    assert copied.context == context
    assert copied.calibration == ["s1", "s2"]
    assert copied.estimator is not model.estimator
    fitted = make().fit(DATA.x, DATA.labels, DATA.groups)
    check_is_fitted(fitted)
    assert not hasattr(clone(fitted), "meta_ps_")
    assert not hasattr(clone(fitted), "classes_")
    assert fitted.estimator_ is not fitted.estimator
    assert not hasattr(fitted.estimator, "classes_")


def test_the_type_of_an_estimator_is_known() -> None:
    assert is_classifier(make())
    assert is_regressor(MetaPSRegressor(LinearRegression(), **LEVELS))
    tags = make().set_params(estimator=HistGradientBoostingClassifier()).__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert tags.target_tags.required
    wide = MetaPSClassifier(RandomForestClassifier(), **LEVELS).__sklearn_tags__()
    assert (wide.classifier_tags.multi_label, wide.target_tags.multi_output) == (False, False)
    both = MetaPSClassifier(LinearDiscriminantAnalysis(), **LEVELS).__sklearn_tags__()
    assert (both.transformer_tags, both.array_api_support) == (None, False)
    assert not make().__sklearn_tags__().input_tags.allow_nan
    assert MetaPSClassifier(object(), **LEVELS).__sklearn_tags__().estimator_type == "classifier"


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_groups_are_requested_by_default() -> None:
    requests = make().get_metadata_routing()
    assert requests.consumes("fit", ["groups"]) == {"groups"}
    assert requests.consumes("score", ["groups"]) == {"groups"}
    assert requests.consumes("predict", ["groups"]) == set()


@pytest.mark.usefixtures("routing")
def test_requests_can_be_changed_and_are_cloned() -> None:
    model = make().set_fit_request(groups="hospital").set_score_request(groups=False)
    for one in (model, clone(model), copy.deepcopy(model)):
        requests = one.get_metadata_routing()
        assert requests.consumes("fit", ["groups", "hospital"]) == {"hospital"}
        assert requests.consumes("score", ["groups"]) == set()
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline.fit(DATA.x, DATA.labels, hospital=DATA.groups)
    assert pipeline[-1].calibration_groups_


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


@pytest.mark.usefixtures("routing")
def test_weights_reach_an_estimator_that_requests_them() -> None:
    weight = np.random.default_rng(0).random(len(DATA.groups))
    inner = LogisticRegression().set_fit_request(sample_weight=True)
    pipeline = make_pipeline(MetaPSClassifier(inner, **LEVELS))
    pipeline.fit(DATA.x, DATA.labels, groups=DATA.groups, sample_weight=weight)
    direct = make().fit(DATA.x, DATA.labels, DATA.groups, sample_weight=weight)
    np.testing.assert_array_equal(pipeline[-1].estimator_.coef_, direct.estimator_.coef_)
    plain = make().fit(DATA.x, DATA.labels, DATA.groups)
    assert (plain.estimator_.coef_ != direct.estimator_.coef_).any()


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 2}, "epsilon must be"),
        ({"epsilon": 0.9}, "epsilon=0.9 is a miss rate.*Did you mean epsilon=0.1"),
        ({"alpha": 0}, "alpha must be"),
        ({"split": "odd"}, "split must be"),
        ({"on_infeasible": "hope"}, "on_infeasible must be"),
        ({"min_examples": -1}, "min_examples must be"),
        ({"prefit": 1}, "prefit must be True or False, got 1"),
        *[({"shots": shots}, "shots must be a whole number from 0") for shots in (-1, 1.5)],
        ({"shots": 40}, "shots=40 takes 40 rows of each group.*'s0'"),
        ({"shots": 2, "prefit": True}, "shots=2 .*prefit"),
        *[
            ({"calibration": share}, "calibration must be .* of the 60 groups, and leave one")
            for share in BAD_SHARES
        ],
        ({"calibration": [*{*GROUPS}]}, "calibration must be"),
        ({"calibration": ["s1", "s99"]}, "calibration must be .* got 's99'"),
        ({"context": {"model": "x"}}, "context must be a metapac.Context"),
        ({"allow": ["everything"]}, "allow must name checks to skip"),
        ({"delta": 1e-9}, "cannot be guaranteed with split='joint'.*30 of 60 calibrate"),
        (TRAINED, "share 1 task"),
        ({"estimator": Untrained}, "estimator must be an instance with fit, got <class"),
        ({"estimator": "ridge", "shots": 2}, "estimator must be .* fit or adapt, got 'ridge'"),
        ({"estimator": LinearRegression()}, "must be a classifier.*use MetaPSRegressor"),
        (
            {"estimator": make_pipeline(StandardScaler(), LinearRegression())},
            "must be a classifier.*use MetaPSRegressor",
        ),
        ({"prefit": True}, "fitted on other groups if prefit=True: This Untrained"),
        ({"estimator": object(), "prefit": True}, "must be an instance with predict_proba or"),
        ({"groups": None}, "groups must name the site .*enable_metadata_routing=True"),
        ({"groups": GROUPS[:-1]}, f"groups {ENTRIES}: .*2399"),
        ({"groups": np.full(2400, "a")}, "of the 1 groups, and leave one to train on"),
        ({"groups": SPACED}, "groups differ only in spaces"),
        *[
            ({"groups": groups}, f"groups are the tasks: .*{message}")
            for groups, message in [
                ("s" * 2400, "for each"),
                ([*GROUPS[1:], None], "missing"),
                (np.arange(2400) / 2, "strings or integers"),
                ([*GROUPS[1:], 1], "one type"),
                ([(name, 1) for name in GROUPS], "strings or integers"),
                ([[name] for name in GROUPS], "unhashable"),
                (pd.DataFrame({"site": GROUPS}), "one-dimensional"),
            ]
        ],
        ({"y": None}, "MetaPSClassifier requires y to be passed, but the target y is None"),
        ({"y": Y[:-1]}, f"y, groups {ENTRIES}: .*2399"),
        ({"y": np.where(GROUPS == "s1", np.array(None), Y)}, "got 40 missing"),
        *[({"y": y}, ENTRIES) for y in ("a" * 2400, dict.fromkeys(range(2400)), {*Y}, 3)],
        (REVERSED, "X and groups are pandas columns"),
        ({"X": "rows"}, f"X, y, groups {ENTRIES}: X is 'rows'"),
        *[({"X": x}, ENTRIES) for x in (None, 3, np.array(1.0), {"u": X}, X[:-1], iter(X))],
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(
    changes: dict[str, Any], message: str
) -> None:
    data = {"X": X, "y": Y, "groups": GROUPS}
    options = {name: value for name, value in changes.items() if name not in data}
    model = make(**{"estimator": Untrained()} | options)
    with pytest.raises(MetapacError, match=message):
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


def test_groups_among_the_features_are_noticed() -> None:
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(site=np.repeat(np.arange(60), 40))
    with pytest.warns(UserWarning, match="column 'site' of X tells the groups"):
        make().fit(frame, Y, groups=frame["site"])


@pytest.mark.parametrize("both", [False, True])
def test_alike_names_are_compared_over_all_groups_and_once(both: bool) -> None:
    groups = np.where(GROUPS == "s1", "S2", GROUPS)
    calibration = ["S2", *[f"s{i}" for i in range(3 - both, 40)]]  # s2 trains, or calibrates too
    with pytest.warns(CheckWarning, match="names of groups differ only in .*case") as caught:
        make(calibration=calibration).fit(X, Y, groups)
    assert len(caught) == 1
    make(calibration=calibration, allow=["task-names"]).fit(X, Y, groups)


def test_fit_parameters_have_nowhere_to_go_if_nothing_is_fitted() -> None:
    fitted = LogisticRegression().fit(X, Y)
    with pytest.raises(InvalidInput, match="prefit=True, so sample_weight"):
        make(fitted, prefit=True).fit(X, Y, GROUPS, sample_weight=np.ones(len(X)))
    with pytest.raises(InvalidInput, match="shots=3, so sample_weight"):
        make(shots=3).fit(X, Y, GROUPS, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        make().fit(X, Y, GROUPS, colour=1)


def test_groups_are_no_argument_of_predictions() -> None:
    model: Any = make().fit(X, Y, GROUPS)
    for name in ("predict", "predict_set", "predict_proba"):
        with pytest.raises(TypeError, match="unexpected keyword argument 'groups'"):
            getattr(model, name)(X, groups=GROUPS)


def test_words_of_other_libraries_are_explained() -> None:
    untyped: Any = MetaPSClassifier
    with pytest.raises(TypeError, match="use epsilon = 1 - confidence_level instead"):
        untyped(LogisticRegression(), confidence_level=0.9)
    with pytest.raises(TypeError, match="alpha is not the miss rate here: epsilon is"):
        untyped(LogisticRegression(), alpha=0.1)


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


def test_an_estimator_whose_fit_returns_nothing_is_used_itself() -> None:
    class Quiet(LogisticRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> None:
            super().fit(X, y)

    model = make(Quiet()).fit(X, Y, GROUPS)
    assert isinstance(model.estimator_, Quiet)

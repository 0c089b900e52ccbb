"""What classifier and regressor share: the order of checks, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from metapac import Context, InfeasibleGuarantee, InvalidInput, MetapacError, NotCalibrated
from metapac.data_checks import CheckWarning
from metapac.sklearn import MetaPSClassifier
from tests.helpers.group_data import LEVELS, make_data

X, Y, _, GROUPS = make_data()


class Untrained(LogisticRegression):  # type: ignore[misc]
    """Fails if it is trained: what is checked before costs nothing."""

    def fit(self, X: Any, y: Any, **params: Any) -> Any:
        raise AssertionError("it was trained")


def make(estimator: Any = None, **changes: Any) -> MetaPSClassifier:
    return MetaPSClassifier(
        LogisticRegression() if estimator is None else estimator, **LEVELS | changes
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 2}, "epsilon must be a number strictly between 0 and 1, got 2"),
        ({"epsilon": 0.9}, "epsilon=0.9 is a miss rate.*Did you mean epsilon=0.1"),
        ({"alpha": 0}, "alpha must be a number strictly between 0 and 1"),
        ({"split": "odd"}, "split must be"),
        ({"on_infeasible": "hope"}, "on_infeasible must be 'raise' or 'trivial'"),
        ({"min_examples": -1}, "min_examples must be a whole number"),
        ({"prefit": 1}, "prefit must be True or False, got 1"),
        ({"shots": -1}, "shots must be a whole number from 0"),
        ({"shots": 1.5}, "shots must be a whole number from 0"),
        ({"shots": 40}, "shots=40 takes 40 rows of each group.*Leave out 's0'"),
        ({"shots": 2, "prefit": True}, "shots=2 .*prefit"),
        ({"calibration": 60}, "calibration must be a fraction"),
        ({"context": {"model": "x"}}, "context must be a metapac.Context"),
        ({"allow": ["everything"]}, "allow must name checks to skip"),
        ({"delta": 1e-9}, "cannot be guaranteed with split='joint'.*30 of 60 calibrate"),
        (
            {"context": Context(trained_on=["s1", "s2"]), "calibration": ["s1", "s3"]},
            "share 1 task",
        ),
    ],
)
def test_parameters_are_checked_before_anything_is_trained(
    changes: dict[str, Any], message: str
) -> None:
    model = make(Untrained(), **changes)
    with pytest.raises(MetapacError, match=message):
        model.fit(X, Y, groups=GROUPS)
    assert not hasattr(model, "meta_ps_")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": None}, "groups must name the site .*enable_metadata_routing=True"),
        ({"groups": GROUPS[:-1]}, "groups must have an entry for each row: .*2399"),
        ({"groups": np.full(2400, "a")}, "of the 1 groups, and leave one to train on"),
        ({"groups": np.where(GROUPS == "s1", "s2 ", GROUPS)}, "groups differ only in spaces"),
        ({"y": None}, "MetaPSClassifier requires y to be passed, but the target y is None"),
        ({"y": Y[:-1]}, "y, groups must have an entry for each row: .*2399"),
        ({"y": np.where(GROUPS == "s1", np.array(None), Y)}, "labels must hold .* got 40 missing"),
        ({"X": pd.DataFrame(X), "groups": pd.Series(GROUPS)[::-1]}, "X and groups are pandas col"),
        ({"X": "rows"}, "X, y, groups must have an entry for each row: X is 'rows'"),
        *[({"X": x}, "X, y, groups") for x in (None, 3, np.array(1.0), {"u": X}, X[:-1], iter(X))],
        *[({"y": y}, "X, y, groups") for y in ("a" * 2400, dict.fromkeys(range(2400)), {*Y}, 3)],
        ({"groups": "s" * 2400}, "groups are the tasks"),
        ({"groups": [[name] for name in GROUPS]}, "groups are the tasks: unhashable"),
    ],
)
def test_data_are_checked_before_anything_is_trained(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make(Untrained()).fit(**{"X": X, "y": Y, "groups": GROUPS} | changes)


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

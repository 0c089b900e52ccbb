"""The regressor is the array route on residuals, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from metapac import InfeasibleGuarantee, InvalidInput, MetaPS, NotCalibrated, load, residual_scores
from metapac.sklearn import MetaPSRegressor
from tests.helpers.group_data import LEVELS, make_data, threshold_by_loops
from tests.helpers.oracles import FALSE_ALARM
from tests.helpers.tables import evaluate_table, predict_table

X, _, Y, GROUPS = make_data()
NEW = make_data(groups=50, rng=1, prefix="n")


def fit(estimator: Any = None, x: Any = X, y: Any = Y, groups: Any = GROUPS, **changes: Any) -> Any:
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
def test_the_result_is_that_of_the_array_route(
    estimator: Any, split: Any, calibration: int, rng: int
) -> None:
    model = fit(estimator, split=split, calibration=calibration, rng=rng)
    train = np.isin(GROUPS, model.training_groups_)
    assert np.array_equal(~train, np.isin(GROUPS, model.calibration_groups_))
    reference = type(estimator)(**estimator.get_params()).fit(X[train], Y[train])
    arrays = MetaPS(**LEVELS, split=split)
    arrays.calibrate(residual_scores(Y[~train], reference.predict(X[~train])), GROUPS[~train])
    assert model.meta_ps_.threshold_ == arrays.threshold_
    np.testing.assert_array_equal(model.predict(NEW.x), reference.predict(NEW.x))
    np.testing.assert_array_equal(
        model.predict_interval(NEW.x), arrays.predict_interval(reference.predict(NEW.x))
    )


def test_the_threshold_is_that_of_two_loops() -> None:
    model = fit(split=0.1)
    known = [i for i, name in enumerate(GROUPS) if name in model.calibration_groups_]
    scores = [-abs(Y[i] - model.estimator_.predict(X[[i]])[0]) for i in known]
    expected = threshold_by_loops(scores, GROUPS[known], **LEVELS)
    assert model.meta_ps_.threshold_ == pytest.approx(expected, rel=1e-12)


def test_a_model_that_knows_its_rows_by_heart_is_not_calibrated_on_them() -> None:
    rng = np.random.default_rng(0)
    x, y, groups = rng.random((2400, 2)), rng.normal(size=2400), np.repeat(np.arange(60), 40)
    new = rng.random((400, 2)), rng.normal(size=400), np.repeat(np.arange(10), 40)
    assert fit(KNeighborsRegressor(1), x, y, groups).score(*new) > 0.8
    by_heart = KNeighborsRegressor(1).fit(x, y)
    with pytest.warns(UserWarning, match="every prediction equals its true value"):
        leaked = fit(by_heart, x, y, groups, prefit=True, allow=["duplicates"])
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
        model = fit(zero, np.zeros((len(y), 1)), y, names, calibration=28, split="tight")
        broken += -model.meta_ps_.threshold_ < 10 * z
    return broken


def test_the_promise_is_broken_at_most_as_often_as_delta_says() -> None:
    most = stats.binom.isf(FALSE_ALARM, 100, LEVELS["delta"])
    assert count_broken(100, shuffle=False) <= most
    assert count_broken(100, shuffle=True) > most  # the control: groups that are none


def test_new_groups_are_covered_as_promised() -> None:
    model = fit()
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
    model = fit(BayesianRidge(), return_std=True)
    known = np.isin(GROUPS, model.calibration_groups_)
    reference = BayesianRidge().fit(X[~known], Y[~known])
    scores = residual_scores(Y[known], *reference.predict(X[known], return_std=True))
    arrays = MetaPS(**LEVELS).calibrate(scores, GROUPS[known])
    assert model.meta_ps_.threshold_ == arrays.threshold_
    expected = arrays.predict_interval(*reference.predict(NEW.x, return_std=True))
    np.testing.assert_array_equal(model.predict_interval(NEW.x), expected)
    pipeline = fit(make_pipeline(StandardScaler(), BayesianRidge()), return_std=True)
    assert pipeline.predict_interval(NEW.x[:2]).shape == (2, 2)
    with pytest.raises(TypeError, match="return_std"):
        fit(return_std=True)


def test_shots_adapt_a_clone_to_each_group() -> None:
    rng, scores, tasks = np.random.default_rng(7), [], []
    for name in sorted(set(GROUPS)):
        rows = rng.permutation(np.flatnonzero(np.isin(GROUPS, name)))
        one = Ridge().fit(X[rows[:8]], Y[rows[:8]])
        for i in rows[8:]:
            scores.append(-abs(Y[i] - one.predict(X[[i]])[0]))
            tasks.append(name)
    model = fit(Ridge(), shots=8, rng=7)
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
    expected = fit().meta_ps_.threshold_
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=Y, site=GROUPS)
    model = fit(x=frame[["u", "v", "w"]], y=frame["y"], groups=frame["site"])
    assert model.meta_ps_.threshold_ == pytest.approx(expected)
    assert fit(y=Y.tolist()).meta_ps_.threshold_ == expected
    assert fit(y=torch.tensor(Y)).meta_ps_.threshold_ == expected
    assert fit(y=Y.astype(np.float32)).meta_ps_.threshold_ == pytest.approx(expected, rel=1e-5)
    column = fit(MultiColumn(LinearRegression()))
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
        ({"y": Y > 0}, "y must be real numbers, got bool"),
        ({"y": Y + 0j}, "y must be real numbers, got complex128"),
        ({"y": X}, r"y must be one column, got shape \(2400, 3\)"),
        ({"y": np.where(Y > 1, np.nan, Y)}, "y must be finite, got nan"),
        ({"y": Y[:, None]}, r"y must be one column, got shape \(2400, 1\)"),
        ({"y": np.ma.masked_greater(Y, 1)}, "y holds .* masked values"),
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
        fit(**changes)


def test_a_classifier_is_refused_by_itself() -> None:
    with pytest.raises(ValueError, match="Unknown label type"):
        fit(LogisticRegression())


def test_the_scale_is_part_of_what_was_fitted() -> None:
    model = fit(BayesianRidge(), return_std=True).set_params(return_std=False)
    with pytest.raises(NotCalibrated, match="'return_std': True}, not with"):
        model.predict_interval(X)


def test_the_promise_is_about_intervals(tmp_path: Path) -> None:
    model = fit()
    assert "it gives an interval: the predicted number plus and minus" in model.explain()
    assert "the intervals prediction plus and minus" in model.promise_
    assert "label" not in model.explain() + model.promise_
    model.save_promise(tmp_path / "promise.json")
    loaded = load(tmp_path / "promise.json")
    assert loaded.columns_ == {"prediction": "prediction", "y": "y"}
    assert loaded.explain() == model.explain()
    assert model.meta_ps_.add([-0.1] * 50, ["another"] * 50).columns_ == loaded.columns_


def test_too_few_groups_may_have_infinite_intervals() -> None:
    with pytest.raises(InfeasibleGuarantee, match="'trivial' for intervals of infinite width. Gr"):
        fit(calibration=2)
    few = fit(calibration=2, on_infeasible="trivial")
    assert np.isinf(few.predict_interval(NEW.x)).all()
    remark = "Every interval is infinite, so the guarantee holds trivially."
    assert few.promise_.endswith(remark)
    assert "label" not in few.explain() + few.promise_


def test_a_largest_residual_that_groups_share_is_reported() -> None:
    y = np.where(np.arange(len(Y)) % 2, 1.0, 5.0)
    with pytest.warns(UserWarning, match="so intervals are wide enough for every true number"):
        fit(DummyRegressor(strategy="constant", constant=1.0), y=y, allow=("duplicates",))


def test_commands_find_the_columns_of_series(tmp_path: Path) -> None:
    stay, clinic = pd.Series(Y, name="stay"), pd.Series(GROUPS, name="clinic")
    model = fit(BayesianRidge(), y=stay, groups=clinic, return_std=True)
    reserved = fit(BayesianRidge(), y=pd.Series(Y, name="scale"), groups=clinic, return_std=True)
    assert reserved.meta_ps_.columns_ == {"prediction": "prediction", "y": "y", "scale": "scale"}
    model.save_promise(tmp_path / "promise.json")
    prediction, scale = model._respond(NEW.x, None).T
    columns = {"clinic": NEW.groups, "prediction": prediction, "scale": scale}
    frame = pd.DataFrame(columns)
    found = predict_table(load(tmp_path / "promise.json"), frame).to_pandas()
    np.testing.assert_array_equal(found[["lower", "upper"]], model.predict_interval(NEW.x))
    evaluation = evaluate_table(load(tmp_path / "promise.json"), frame.assign(stay=NEW.values))
    expected = model.evaluate(NEW.x, NEW.values, NEW.groups)
    assert dict(zip(evaluation.tasks, evaluation.missed, strict=True)) == dict(
        zip(expected.tasks, expected.missed, strict=True)
    )


@pytest.mark.parametrize("y", [pd.Series(["a", "b"] * (len(Y) // 2)), ["a", "b"] * (len(Y) // 2)])
def test_classes_are_not_numbers(y: Any) -> None:
    with pytest.raises(InvalidInput, match="for classes use MetaPSClassifier: y must be real"):
        fit(y=y)

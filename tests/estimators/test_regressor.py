"""The regressor is the array route on residuals; rows and groups of any kind are divided whole."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from metapac import InfeasibleGuarantee, InvalidInput, MetaPS, NotCalibrated, load, residual_scores
from metapac.data_checks import CHECKS, CheckWarning
from metapac.sklearn import MetaPSClassifier, MetaPSRegressor
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
    model = fit(BayesianRidge(), return_std=True)  # widths differ
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


def fit_any(
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
    model = fit_any(x, estimator=own)
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
        fit_any(x, SITES[:-1])


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
    model = fit_any(estimator=Recorder(), params=params)
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
        fit_any(x, groups)


def test_other_columns_pass_without_warning() -> None:
    fit_any(X32, pd.Series(SITES, name="site"))
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
        fit_any(FRAME.assign(other=column))
    fit_any(["a text"] * 32)
    fit_any(sparse.csr_matrix(np.column_stack([X32, CODES])))
    # As many groups as rows: every column of codes would do.
    fit_any(FRAME.assign(code=np.arange(32)), np.arange(32))


@given(st.integers(1, 3), st.integers(0, 5))
def test_support_must_have_as_many_rows_as_in_calibration(shots: int, given_: int) -> None:
    model, support = fit_any(shots=shots), (X32[:given_], Y32[:given_])
    if shots == given_:
        assert model.predict(X32, support=support).tolist() == pytest.approx(
            [Y32[:shots].mean()] * 32
        )
        return
    with pytest.raises(InvalidInput, match=rf"support must be .* {shots} rows.* got {given_}\."):
        model.predict_interval(X32, support=support)


@pytest.mark.parametrize("support", [None, X32, (X32,), 5])
def test_support_must_be_a_pair(support: Any) -> None:
    with pytest.raises(InvalidInput, match=r"support must be \(X, y\): 2 rows"):
        fit_any(shots=2).predict(X32, support=support)


def test_support_is_checked() -> None:
    with pytest.raises(InvalidInput, match="support must be .* with shots=0"):
        fit_any().predict(X32, support=(X32, Y32))
    with pytest.raises(InvalidInput, match=r"X, y must have an entry for each row: .*\[2, 1\]"):
        fit_any(shots=2).predict(X32, support=(X32[:2], [1.0]))
    with pytest.raises(InvalidInput, match="y must be finite"):
        fit_any(shots=2).predict(X32, support=(X32[:2], [1.0, np.inf]))


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
        model = fit_any(np.zeros((len(ids), 1)), groups, y=ids, calibration=calibration, rng=rng)
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


def test_groups_may_be_dates_and_alike_if_allowed() -> None:
    days = np.repeat([datetime.date(2026, 1, day) for day in range(1, 9)], 4)
    model = fit_any(groups=days)
    known = model.training_groups_ + model.calibration_groups_
    assert sorted(known) == [f"2026-01-0{day}" for day in range(1, 9)]
    alike = np.where(SITES == "a", "b ", SITES)
    assert "b " in fit_any(groups=alike, calibration=["b ", "c"]).calibration_groups_
    with pytest.warns(CheckWarning, match="case"):
        fit_any(groups=np.where(SITES == "a", "B", SITES), allow=["duplicates"])


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


def test_without_enough_groups_no_number_is_named() -> None:
    with pytest.raises(InfeasibleGuarantee, match=r"3 of 8 calibrate, and the others train\.$"):
        fit_sizes([40] * 8, 3)
    with pytest.raises(InfeasibleGuarantee, match=r"3 of 40 calibrate, and the others train\.$"):
        fit_sizes([40] * 40, ["s0", "s1", "s2"])
    with pytest.raises(InfeasibleGuarantee, match=r"intervals of infinite width\.$"):
        fit_sizes([40] * 8, extra=3)
    fit_sizes([40] * 8, extra=3, on_infeasible="trivial")


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


def test_classes_share_delta_before_anything_is_trained() -> None:
    with pytest.raises(InfeasibleGuarantee, match="12 of 40 calibrate, and calibration=") as caught:
        fit_classes([40] * 40, calibration=12)
    enough = int(str(caught.value).rpartition("calibration=")[2].split()[0])
    fit_classes([40] * 40, calibration=enough)
    with pytest.raises(InfeasibleGuarantee):
        fit_classes([40] * 40, calibration=enough - 1)


def test_with_shots_the_other_rows_must_suffice_before_anything_is_fitted() -> None:
    class Unfit(DummyRegressor):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            raise AssertionError("it was fitted")

    groups = np.repeat(np.arange(40), 30)
    x, y = np.random.default_rng(0).random((2, len(groups)))
    model = MetaPSRegressor(Unfit(), **LEVELS, shots=28)
    with pytest.raises(InfeasibleGuarantee, match="40 tasks"):
        model.fit(x[:, None], y, groups)


def test_classes_cannot_be_counted_before_the_support_is_drawn() -> None:
    with pytest.raises(InfeasibleGuarantee) as caught:
        fit_classes([2] * 40, shots=3)
    assert "Groups are the tasks here" not in str(caught.value)

"""Prediction sets: labels, sizes, intervals, summaries, and answers or abstention."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

import metapac as mp
from tests.helpers.refusals import assert_refused
from tests.helpers.tables import calibrate_table, predict_table, site_table

ELEVEN_OF_20 = np.r_[np.zeros(20), np.arange(20.0), np.full(20, 8.5)]  # y, lower and upper
SETS = np.array([[True, False, True], [False, False, False], [True, True, True]])
finite = st.floats(-1e6, 1e6)


def test_labels_sizes_and_empties() -> None:
    assert mp.label_lists(SETS) == [[0, 2], [], [0, 1, 2]]
    names: Any = np.array(["cat", "dog", "owl"])
    assert mp.label_lists(SETS, names)[0] == ["cat", "owl"]
    assert type(mp.label_lists(SETS, names)[0][0]) is str
    assert mp.set_sizes(SETS).tolist() == [2, 0, 3]
    assert mp.empty_sets(SETS).tolist() == [False, True, False]


@given(y=finite, prediction=finite, scale=st.floats(1e-6, 1e6), cut=st.floats(-1e6, 0))
def test_no_y_is_lost_to_rounding(y: float, prediction: float, scale: float, cut: float) -> None:
    low, high = mp.interval(cut, prediction, scale).tolist()
    if mp.residual_scores(y, prediction, scale) >= cut:
        assert low <= y <= high
    assert high - low <= 2 * -cut * scale * (1 + 1e-12) + 1e-12 * abs(prediction) + 1e-300 * scale


@given(prediction=finite, scale=st.floats(1e-3, 1e3), y=finite)
def test_the_example_at_the_cut_is_inside(prediction: float, scale: float, y: float) -> None:
    # The tie that decides a threshold: the calibration example whose score it is.
    for precision in (np.float64, np.float32):
        cut = float(precision(mp.residual_scores(y, prediction, scale)))
        low, high = mp.interval(cut, prediction, scale, precision=precision).tolist()
        assert low <= y <= high


anything = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 5e-324, -5e-324, 1.0, np.nextafter(1, 2), -1.0, 2.0**53, 1.7e308, -1.7e308]
)


@pytest.mark.filterwarnings("ignore:overflow")
@given(y=anything, lower=anything, upper=anything, cut=anything | st.just(-math.inf))
def test_quantile_intervals_hold_what_scores(
    y: float, lower: float, upper: float, cut: float
) -> None:
    score = mp.quantile_scores(y, lower, upper)
    assert score < math.inf
    both: Any = ((np.float64, [cut, score]), (np.float32, [score.astype("f4")]))
    for precision, cuts in both:
        for one in (float(value) for value in cuts if value < math.inf):
            low, high = mp.quantile_interval(one, lower, upper, precision=precision).tolist()
            if precision(score) >= one:
                assert low <= y <= high
            assert low <= high or (low, high) == (math.inf, -math.inf)
            if low <= y <= high and precision is np.float64:  # too low by rounding at most
                room = Fraction(1e-15) * sum(abs(Fraction(v)) for v in (lower, upper, y))
                assert min(exactly(y, lower), exactly(upper, y)) >= exactly(one) - room - TINY


TINY = Fraction(1e-322)


def exactly(one: float, minus: float = 0.0) -> Any:
    """Return a difference without rounding."""
    return Fraction(one) - Fraction(minus) if math.isfinite(one) else one


@given(st.lists(st.integers(-(2**20), 2**20), min_size=4, max_size=4))
def test_a_quantile_interval_is_exact_on_a_grid(numbers: list[int]) -> None:
    """Where differences are exact, y is inside if and only if its score reaches the threshold."""
    y, lower, upper, cut = (number / 64 for number in numbers)
    for value in (y, lower + cut, upper - cut, lower + cut - 1 / 64, upper - cut + 1 / 64):
        low, high = mp.quantile_interval(cut, lower, upper).tolist()
        assert (low <= value <= high) == (mp.quantile_scores(value, lower, upper) >= cut)
    assert (low > high) == (lower + cut > upper - cut)


@given(hnp.arrays(bool, st.tuples(st.integers(0, 30), st.integers(2, 4))))
def test_the_figures_are_those_of_a_loop(sets: np.ndarray) -> None:
    summary = mp.summarise_sets(sets)
    sizes = [sum(row) for row in sets.tolist()]
    assert summary.rows == len(sizes)
    assert summary.empty == sizes.count(0)
    assert summary.single == sizes.count(1)
    assert summary.full == sizes.count(sets.shape[1])
    assert list(summary.by_class.values()) == [sum(column) for column in sets.T.tolist()]
    if sizes:
        assert summary.mean_size == pytest.approx(sum(sizes) / len(sizes))
    else:
        assert math.isnan(summary.mean_size)
        assert summary.to_dict()["mean_size"] is None


def some_sets(no: int, yes: int, rows: int = 2000) -> np.ndarray:
    """Return sets of which the first ones contain "no", and the last ones "yes"."""
    index = np.arange(rows)
    return np.stack([index < no, index >= rows - yes], axis=1)


def test_warnings() -> None:
    for no, yes, expected in (
        (1900, 300, []),
        (1900, 0, ["None of the 2000 sets contains 'yes'"]),
        (2000, 9, [r"Hardly any of the 2000 sets contains some classes \('yes' in 9\)."]),
        (2000, 10, []),
        (2000, 0, ["All 2000 sets are alike: each contains 'no' and nothing else."]),
        (2000, 2000, ["All 2000 sets are alike: each contains every class."]),
        (0, 0, ["All 2000 sets are alike: each is empty."]),
    ):
        found = mp.summarise_sets(some_sets(no, yes), ["no", "yes"]).warnings()
        assert len(found) == len(expected)
        assert all(re.match(start, text) for text, start in zip(found, expected, strict=True))
    for rows in (99, 100):  # few sets say nothing, and many classes need more sets
        assert len(mp.summarise_sets(some_sets(rows, 0, rows)).warnings()) == rows - 99
        kept = np.eye(10, dtype=bool)[np.arange(rows + 100) % 9]
        assert len(mp.summarise_sets(kept).warnings()) == rows - 99


def test_more_empty_sets_than_may_miss() -> None:
    summary = mp.summarise_sets(some_sets(1000, 206))
    assert re.match("39.7% .* are empty.*at most 10%", summary.warnings(epsilon=0.1)[0])
    assert not summary.warnings()


@pytest.mark.parametrize("rows", [1, 4, 40, 4000])
def test_a_few_more_empty_sets_may_be_chance(rows: int) -> None:
    for empty in range(0, rows + 1, -(-rows // 40)):
        summary = mp.summarise_sets(some_sets(rows - empty, 0, rows), ["no", "yes"])
        found = [text for text in summary.warnings(epsilon=0.1) if "sets are empty" in text]
        by_chance = stats.binom.sf(empty - 1, rows, 0.1)
        assert bool(found) == (by_chance <= 1e-3 and (rows < 100 or empty < rows))


def test_scores_beyond_those_of_calibration() -> None:
    for high, warns in ((0.99, False), (1.9, False), (2.1, True), (99.0, True), (None, False)):
        summary = replace(mp.summarise_sets(some_sets(1900, 300)), low=0.0, high=high)
        assert ["reached 0.99" in text for text in summary.warnings((0.01, 0.99))] == [True] * warns
        assert not summary.warnings((0.01, math.inf))
        assert not summary.warnings()


matrices = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.lists(st.booleans(), min_size=k, max_size=k), min_size=1, max_size=12)
)


@given(matrices)
def test_a_set_of_one_answers_and_any_other_abstains(rows: list[list[bool]]) -> None:
    names = ["cat", "dog", "owl", "ant"][: len(rows[0])]
    found, lists = mp.answers(np.array(rows), names), mp.label_lists(rows, names)
    for row, label, answered in zip(rows, found.labels, found.answered, strict=True):
        assert answered == (sum(row) == 1)
        assert label == (names[row.index(True)] if sum(row) == 1 else None)
    assert found.share == sum(sum(row) == 1 for row in rows) / len(rows)
    for same in (lists, pd.Series(lists), pd.Series(lists).map(np.array)):
        assert mp.answers(same).labels == found.labels


@given(matrices, st.data())
def test_a_wrong_answer_is_a_miss(rows: list[list[bool]], data: st.DataObject) -> None:
    y = [data.draw(st.integers(0, len(rows[0]) - 1)) for _ in rows]
    errors = mp.answers(rows).count_errors(y)
    misses = sum(not row[label] for row, label in zip(rows, y, strict=True))
    single = sum(sum(row) == 1 for row in rows)
    assert errors.wrong <= misses
    assert errors.of_all == errors.wrong / len(rows) <= misses / len(rows)
    if single:
        assert errors.of_answered == errors.wrong / single >= errors.of_all


def test_the_bound_divides_by_what_clopper_and_pearson_allow() -> None:
    for answered, n in ((1, 1), (10, 10), (70, 100), (3, 400)):
        found = mp.answers([["a"]] * answered + [[]] * (n - answered))
        for confidence in (0.5, 0.95):
            low = stats.beta.ppf(1 - confidence, answered, n - answered + 1)
            bound = found.bound_errors(0.05, confidence=confidence)
            assert bound == pytest.approx(min(1.0, 0.05 / low), rel=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_bound_fails_as_rarely_as_it_says(share: float) -> None:
    # On n questions of a task, the number answered is binomial: the chance that the bound is below
    # the true error rate among the answered, epsilon / share at worst, is a sum of n + 1 terms.
    n, epsilon = 60, 0.08
    fails = [
        mp.answers([["a"]] * k + [[]] * (n - k)).bound_errors(epsilon) < epsilon / share - 1e-12
        for k in range(n + 1)
    ]
    chance = stats.binom.pmf(np.arange(n + 1), n, share)[fails].sum()
    assert chance <= 0.05
    assert chance > 0.005  # and it is not vacuous


def test_without_answers_nothing_is_known() -> None:
    found, none = mp.answers([[], ["a", "b"]]), mp.answers([])
    assert repr(found) == "<Answers: 0 of 2 answered>"
    assert (found.share, found.bound_errors(0.1), none.bound_errors(0.1)) == (0, 1, 1)
    unknown = [found.count_errors(["a", "a"]).of_answered, none.share]
    assert all(math.isnan(value) for value in [*unknown, none.count_errors([]).of_all])


def test_true_labels_are_compared_by_value() -> None:
    assert mp.answers([[True, False], [False, True]]).count_errors(np.array([0, 0])).wrong == 1


CALLS: list[tuple[str, Any]] = [
    ("classes 3 1", lambda: mp.label_lists(SETS, ["a"])),
    ("classes 3 4", lambda: mp.summarise_sets(SETS, list("abcd"))),
    ("classes 2 3", lambda: mp.answers([[True, False]], list("abc"))),
    ("classes labels", lambda: mp.answers([["a"], []], ["a", "b"])),
    ("sets boolean int64", lambda: mp.set_sizes([[1, 0]])),
    ("sets boolean", lambda: mp.summarise_sets([[1, 0]])),
    ("sets boolean (1,)", lambda: mp.empty_sets([True])),
    ("sets boolean", lambda: mp.answers([[True, False], [True]])),
    *(
        ("labels", lambda x=x: mp.answers(x))
        for x in (["cat"], [1, 2], [["a"], None], [["a"], "b"])
    ),
    ("y answers 1 2", lambda: mp.answers([["a"], ["b"]]).count_errors(["a"])),
    ("answers 0 'no'", lambda: mp.answers([[True, False]]).count_errors(["no"])),
    ("epsilon", lambda: mp.answers([["a"]]).bound_errors(0.0)),
    ("epsilon", lambda: mp.answers([["a"]]).bound_errors(1.5)),
    ("confidence", lambda: mp.answers([["a"]]).bound_errors(0.1, confidence=1.0)),
    ("threshold nan", lambda: mp.interval(math.nan, [1.0])),
    ("threshold 0.5", lambda: mp.interval(0.5, [1.0])),
    ("prediction nan position 0", lambda: mp.interval(-1.0, [math.nan])),
    ("scale positive 0.0", lambda: mp.interval(-1.0, [1.0], 0.0)),
    ("scale positive -2.0", lambda: mp.interval(-1.0, [1.0], [1.0, -2.0])),
    ("y inf position 0", lambda: mp.residual_scores([math.inf], [1.0])),
    ("prediction scale (3,) (2,)", lambda: mp.interval(-1.0, [1.0, 2.0, 3.0], [1.0, 2.0])),
    ("threshold inf", lambda: mp.quantile_interval(math.inf, [1.0], [2.0])),
    ("threshold nan", lambda: mp.quantile_interval(math.nan, [1.0], [2.0])),
    ("lower nan position 1", lambda: mp.quantile_interval(0.0, [1.0, math.nan], [2.0, 2.0])),
    ("upper inf position 0", lambda: mp.quantile_scores([1.0], [1.0], [math.inf])),
    ("y nan position 0", lambda: mp.quantile_scores([math.nan], [1.0], [2.0])),
    ("lower upper (2,) (1,)", lambda: mp.quantile_interval(0.0, [1.0, 2.0], [2.0])),
    ("y upper (1,) (2,)", lambda: mp.quantile_scores([1.0], [1.0], [2.0, 3.0])),
    ("y lower real", lambda: mp.quantile_scores([1.0], ["a"], [2.0])),
    ("lower upper 11 20 swapped", lambda: mp.quantile_scores(*np.split(ELEVEN_OF_20, 3))),
    (
        "lower upper 11 20 swapped",
        lambda: mp.quantile_interval(0.0, *np.split(ELEVEN_OF_20, 3)[1:]),
    ),
    ("y prediction (3,) (3, 1)", lambda: mp.residual_scores([1.0] * 3, [[1.0]] * 3)),
]


def test_bad_input_is_named() -> None:
    for words, call in CALLS:
        assert_refused(words, call)


# Intervals from arrays: the threshold of residual scores, and the words of tables.


LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}


def draw_sites(sites: int = 40, rng: int = 0) -> pd.DataFrame:
    """Return predictions with a scale, and the true numbers, at sites with 50 rows each."""
    generator = np.random.default_rng(rng)
    frame = pd.DataFrame({"site": np.repeat([f"{rng}-{i}" for i in range(sites)], 50)})
    frame["guess"] = generator.normal(size=len(frame))
    frame["sd"] = np.exp(generator.normal(scale=0.3, size=len(frame)))
    frame["truth"] = frame.guess + frame.sd * generator.normal(size=len(frame))
    return frame


def calibrate(frame: pd.DataFrame, **options: Any) -> mp.MetaPS:
    return mp.MetaPS(**LEVELS).calibrate_intervals(
        frame.truth, frame.guess, frame.site, frame.sd, **options
    )


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"prediction": "guess"}, "interval"),
        ({"prediction": "guess", "scale": "sd"}, "times its scale"),
        ({"lower": "q5", "upper": "q95"}, "an empty interval the two quantiles"),
    ],
)
def test_arrays_give_what_a_table_gives(names: dict[str, str], words: str, tmp_path: Path) -> None:
    """Series lend their names to columns; tests/tables compares the numbers."""
    frame, about = draw_sites(), mp.Context(unit="clinic", example="patient")
    frame = frame.assign(q5=frame.guess - frame.sd, q95=frame.guess + 2 * frame.sd)
    given = {name: frame[column] for name, column in names.items()}
    ours = mp.MetaPS(**LEVELS)
    ours.calibrate_intervals(frame.truth, tasks=frame.site, context=about, **given)
    table = calibrate_table(frame, task="site", y="truth", context=about, **names, **LEVELS)
    ours.save(tmp_path / "promise.json")
    for predictor in (ours, mp.load(tmp_path / "promise.json")):
        assert predictor.columns_ == {"task": "site", "y": "truth", **names}
        assert (predictor.columns_, predictor.promise_) == (table.columns_, table.promise_)
        assert predictor.explain() == table.explain()
    assert "label" not in ours.explain() + ours.promise_
    assert words in ours.explain()
    if "scale" in names:
        new = draw_sites(10, rng=1)
        ours.add(mp.residual_scores(new.truth, new.guess, new.sd), new.site)
        assert ours.promise_ == calibrate(pd.concat([frame, new], ignore_index=True)).promise_


def test_more_empty_intervals_than_misses_are_allowed_are_reported() -> None:
    frame = draw_sites()
    method = mp.MetaPS(**LEVELS).calibrate_intervals(
        frame.truth, tasks=frame.site, lower=frame.guess - 9, upper=frame.guess + 9
    )
    assert method.threshold_ > 2
    new = frame.assign(lo=frame.guess, up=frame.guess + 1)
    with pytest.warns(UserWarning, match="100.0% of the intervals are empty"):
        result = predict_table(method, new, lower="lo", upper="up")
    assert set(result.to_pandas()["lower"]) == {math.inf}


def test_too_few_tasks_may_have_infinite_intervals() -> None:
    few, method = draw_sites(3), mp.MetaPS(**LEVELS, on_infeasible="trivial")
    with pytest.raises(mp.InfeasibleGuarantee, match="'trivial' for intervals of infinite width"):
        calibrate(few)
    method.calibrate_intervals(few.truth, few.guess, few.site)
    assert method.predict_interval([1.0]).tolist() == [[-math.inf, math.inf]]
    assert method.remarks_ == ["Every interval is infinite, so the guarantee holds trivially."]


def test_a_largest_residual_that_tasks_share_is_reported() -> None:
    """Of ratings from 1 to 5, all predicted as 1, many are as wrong as can be."""
    y, method = np.tile(np.where(np.arange(50) < 20, 5.0, 1.0), 40), mp.MetaPS(**LEVELS)
    with pytest.warns(UserWarning, match=r"-4\.0 is the lowest .* in 40 of 40 tasks"):
        method.calibrate_intervals(y, np.ones(2000), np.arange(2000) // 50, allow=("duplicates",))
    assert "hardly any true number is farther off" in method.explain()


def test_a_copy_of_the_true_value_is_no_prediction() -> None:
    frame = draw_sites()
    copied = frame.assign(guess=frame.truth)
    columns = {"prediction": "guess", "y": "truth", "scale": "sd", **LEVELS}
    calls: list[Any] = [
        lambda: calibrate(copied, allow=("duplicates",)),
        lambda: calibrate_table(copied, task="site", **columns),
        lambda: site_table(copied.head(50), name="ohio", **columns),
    ]
    for call in calls:
        with pytest.warns(mp.CheckWarning, match="^every prediction equals its true value"):
            call()
    copied.loc[7, "guess"] += 1  # one prediction that differs
    assert calls[0]().threshold_ == calls[1]().threshold_ == 0


def test_sites_whose_numbers_are_exact_have_the_most_informative_intervals() -> None:
    """A threshold of 0 keeps every label of probabilities, but intervals of no width."""
    agreed, names = mp.Guarantee(**LEVELS), {"prediction": "guess", "y": "truth"}
    zeros = ((0.0,) * len(agreed.levels),)
    kind = np.dtype("f8")
    sites = [mp.Site(f"s{i}", agreed, (60,), zeros, kind, columns=names) for i in range(40)]
    exact = mp.combine_sites(sites)
    assert (exact.threshold_, exact.remarks_) == (0.0, [])
    with pytest.warns(UserWarning, match="The threshold is 0.0, so, if scores are probabilities"):
        mp.combine_sites([replace(site, columns=None) for site in sites])

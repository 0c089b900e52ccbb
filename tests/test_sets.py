"""Prediction sets: labels, sizes, intervals, summaries, and answers or abstention."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from metapac import (
    PS,
    InvalidInput,
    MetaPS,
    answers,
    empty_sets,
    interval,
    label_lists,
    residual_scores,
    set_sizes,
    summarise_sets,
    threshold,
)

SETS = np.array([[True, False, True], [False, False, False], [True, True, True]])
finite = st.floats(-1e6, 1e6)


def test_labels_sizes_and_empties() -> None:
    assert label_lists(SETS) == [[0, 2], [], [0, 1, 2]]
    assert label_lists(SETS, ["cat", "dog", "owl"])[0] == ["cat", "owl"]
    names: Any = np.array(["cat", "dog", "owl"])
    assert type(label_lists(SETS, names)[0][0]) is str
    assert set_sizes(SETS).tolist() == [2, 0, 3]
    assert empty_sets(SETS).tolist() == [False, True, False]
    assert label_lists(np.zeros((0, 3), dtype=bool)) == []


@given(y=finite, prediction=finite, scale=st.floats(1e-6, 1e6), cut=st.floats(-1e6, 0))
def test_no_y_is_lost_to_rounding(y: float, prediction: float, scale: float, cut: float) -> None:
    low, high = interval(cut, prediction, scale).tolist()
    if residual_scores(y, prediction, scale) >= cut:
        assert low <= y <= high
    assert high - low <= 2 * -cut * scale * (1 + 1e-12) + 1e-12 * abs(prediction) + 1e-300 * scale


@given(prediction=finite, scale=st.floats(1e-3, 1e3), y=finite)
def test_the_example_at_the_cut_is_inside(prediction: float, scale: float, y: float) -> None:
    # The tie that decides a threshold: the calibration example whose score it is.
    cut = float(residual_scores(y, prediction, scale))
    assume(math.isfinite(cut))
    low, high = interval(cut, prediction, scale).tolist()
    assert low <= y <= high


def test_underflow_loses_nothing() -> None:
    cut = float(residual_scores(5e-324, 0.0, 1e6))
    low, high = interval(cut, 0.0, 1e6).tolist()
    assert low <= 5e-324 <= high


@given(y=finite, prediction=finite, scale=st.floats(1e-3, 1e3))
def test_scores_rounded_to_float32_lose_nothing(y: float, prediction: float, scale: float) -> None:
    cut = np.float32(residual_scores(y, prediction, scale))
    low, high = interval(float(cut), prediction, scale, precision=np.float32).tolist()
    assert low <= y <= high


def test_intervals_satisfy_the_guarantee_of_the_threshold() -> None:
    rng = np.random.default_rng(0)
    prediction = rng.normal(size=(130, 40))
    scale = rng.uniform(0.5, 2, size=(130, 40))
    y = prediction + scale * rng.normal(size=(130, 40))
    scores = residual_scores(y, prediction, scale)
    result = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(
        scores.ravel(), np.repeat(np.arange(130), 40)
    )
    ends = result.predict_interval(prediction, scale)
    assert ends.shape == (130, 40, 2)
    inside = (ends[..., 0] <= y) & (y <= ends[..., 1])
    np.testing.assert_array_equal(inside, result.predict_set(scores))


def test_intervals_without_a_threshold_are_the_whole_line() -> None:
    trivial = PS(epsilon=0.1, delta=0.1, on_infeasible="trivial").calibrate([-1.0])
    assert trivial.predict_interval([3.0]).tolist() == [[-math.inf, math.inf]]


def test_one_scale_for_all_predictions() -> None:
    cut = threshold(residual_scores([1.0] * 50, [0.0] * 50, 2.0), epsilon=0.1, delta=0.1)
    assert cut == -0.5
    np.testing.assert_allclose(interval(cut, [1.0, 5.0], 2.0), [[0, 2], [4, 6]], atol=1e-12)


@given(hnp.arrays(bool, st.tuples(st.integers(0, 30), st.integers(2, 4))))
def test_the_figures_are_those_of_a_loop(sets: np.ndarray) -> None:
    summary = summarise_sets(sets)
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


@pytest.mark.parametrize(
    ("no", "yes", "expected"),
    [
        (1900, 300, []),
        (1900, 0, ["None of the 2000 sets contains 'yes'"]),
        (2000, 9, [r"Hardly any of the 2000 sets contains some classes \('yes' in 9\)."]),
        (2000, 10, []),
        (2000, 0, ["All 2000 sets are alike: each contains 'no' and nothing else."]),
        (2000, 2000, ["All 2000 sets are alike: each contains every class."]),
        (0, 0, ["All 2000 sets are alike: each is empty."]),
    ],
)
def test_warnings(no: int, yes: int, expected: list[str]) -> None:
    found = summarise_sets(some_sets(no, yes), ["no", "yes"]).warnings()
    assert len(found) == len(expected)
    for text, start in zip(found, expected, strict=True):
        assert re.match(start, text), text


def test_more_empty_sets_than_may_miss() -> None:
    (found,) = summarise_sets(some_sets(1000, 206)).warnings(epsilon=0.1)
    assert re.match("39.7% of the sets are empty.*at most 10% may", found)
    assert not summarise_sets(some_sets(1000, 206)).warnings(epsilon=0.4)
    assert not summarise_sets(some_sets(1000, 206)).warnings()


@pytest.mark.parametrize("rows", [1, 4, 40, 4000])
def test_a_few_more_empty_sets_may_be_chance(rows: int) -> None:
    for empty in range(0, rows + 1, -(-rows // 40)):
        summary = summarise_sets(some_sets(rows - empty, 0, rows), ["no", "yes"])
        found = [text for text in summary.warnings(epsilon=0.1) if "sets are empty" in text]
        by_chance = stats.binom.sf(empty - 1, rows, 0.1)
        assert bool(found) == (by_chance <= 1e-3 and (rows < 100 or empty < rows))


@pytest.mark.parametrize(("rows", "warns"), [(99, False), (100, True)])
def test_few_sets_say_nothing(rows: int, warns: bool) -> None:
    assert bool(summarise_sets(some_sets(rows, 0, rows)).warnings()) == warns


def test_many_classes_need_more_sets() -> None:
    kept = np.eye(10, dtype=bool)[np.arange(199) % 9]
    assert not summarise_sets(kept).warnings()
    kept = np.eye(10, dtype=bool)[np.arange(200) % 9]
    assert len(summarise_sets(kept).warnings()) == 1


@pytest.mark.parametrize(
    ("high", "warns"), [(0.99, False), (1.9, False), (2.1, True), (99.0, True), (None, False)]
)
def test_scores_beyond_those_of_calibration(high: float | None, warns: bool) -> None:
    summary = replace(summarise_sets(some_sets(1900, 300)), low=0.0, high=high)
    found = summary.warnings((0.01, 0.99))
    assert bool(found) == warns
    if warns:
        assert "reached 0.99" in found[0]
    assert not summary.warnings((0.01, math.inf))
    assert not summary.warnings()


matrices = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.lists(st.booleans(), min_size=k, max_size=k), min_size=1, max_size=12)
)


@given(matrices)
def test_a_set_of_one_answers_and_any_other_abstains(rows: list[list[bool]]) -> None:
    found = answers(np.array(rows))
    for row, label, answered in zip(rows, found.labels, found.answered, strict=True):
        assert answered == (sum(row) == 1)
        assert label == (row.index(True) if sum(row) == 1 else None)
    assert found.share == sum(sum(row) == 1 for row in rows) / len(rows)


@given(matrices)
def test_matrices_lists_and_tables_give_the_same_answers(rows: list[list[bool]]) -> None:
    names = ["cat", "dog", "owl", "ant"][: len(rows[0])]
    expected = answers(np.array(rows), names).labels
    lists = label_lists(rows, names)
    assert answers(rows, names).labels == expected
    assert answers(lists).labels == expected
    assert answers(pd.Series(lists)).labels == expected
    assert answers(pd.DataFrame({"set": lists})["set"].map(np.array)).labels == expected


@given(matrices, st.data())
def test_a_wrong_answer_is_a_miss(rows: list[list[bool]], data: st.DataObject) -> None:
    y = [data.draw(st.integers(0, len(rows[0]) - 1)) for _ in rows]
    errors = answers(rows).count_errors(y)
    misses = sum(not row[label] for row, label in zip(rows, y, strict=True))
    single = sum(sum(row) == 1 for row in rows)
    assert errors.wrong <= misses
    assert errors.of_all == errors.wrong / len(rows) <= misses / len(rows)
    if single:
        assert errors.of_answered == errors.wrong / single >= errors.of_all


def test_of_those_answered_more_than_epsilon_may_be_wrong() -> None:
    # The miss rate is 1/10 and every answer is wrong: the guarantee does not bound this share.
    sets = [["no", "yes"]] * 9 + [["no"]]
    errors = answers(sets).count_errors(["yes"] * 10)
    assert (errors.wrong, errors.of_all, errors.of_answered) == (1, 0.1, 1.0)


@pytest.mark.parametrize(("answered", "n"), [(1, 1), (10, 10), (70, 100), (3, 400)])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_bound_divides_by_what_clopper_and_pearson_allow(
    answered: int, n: int, confidence: float
) -> None:
    found = answers([["a"]] * answered + [[]] * (n - answered))
    low = stats.beta.ppf(1 - confidence, answered, n - answered + 1)
    expected = min(1.0, 0.05 / low)
    assert found.bound_errors(0.05, confidence=confidence) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_bound_fails_as_rarely_as_it_says(share: float) -> None:
    # On n questions of a task, the number answered is binomial: the chance that the bound is below
    # the true error rate among the answered, epsilon / share at worst, is a sum of n + 1 terms.
    n, epsilon = 60, 0.08
    fails = [
        answers([["a"]] * k + [[]] * (n - k)).bound_errors(epsilon) < epsilon / share - 1e-12
        for k in range(n + 1)
    ]
    chance = stats.binom.pmf(np.arange(n + 1), n, share)[fails].sum()
    assert chance <= 0.05
    assert chance > 0.005  # and it is not vacuous


def test_without_answers_nothing_is_known() -> None:
    found = answers([[], ["a", "b"]])
    assert found.share == 0
    assert found.bound_errors(0.1) == 1
    errors = found.count_errors(["a", "a"])
    assert (errors.wrong, errors.of_all) == (0, 0)
    assert math.isnan(errors.of_answered)


def test_without_questions_there_is_no_share() -> None:
    found = answers([])
    assert found.labels == []
    assert math.isnan(found.share)
    assert math.isnan(found.count_errors([]).of_all)
    assert found.bound_errors(0.1) == 1


def test_answers_are_shown_in_a_few_words() -> None:
    assert repr(answers([["yes"], ["no", "yes"], []])) == "<Answers: 1 of 3 answered>"


def test_answers_and_true_labels_have_one_type() -> None:
    found = answers([[True, False], [False, True]])
    with pytest.raises(InvalidInput, match="type of the answers, such as 0, got 'no'"):
        found.count_errors(["no", "yes"])
    assert found.count_errors(np.array([0, 0])).wrong == 1


@pytest.mark.parametrize(
    ("call", "parameter", "message"),
    [
        (lambda: label_lists(SETS, ["a"]), "classes", "the 3 columns of sets, got 1 names"),
        (lambda: summarise_sets(SETS, list("abcd")), "classes", "the 3 columns of sets, got 4"),
        (lambda: answers([[True, False]], list("abc")), "classes", "the 2 columns of sets, got 3"),
        (lambda: answers([["a"], []], ["a", "b"]), None, "classes names .* sets holds labels"),
        (lambda: set_sizes([[1, 0]]), None, "sets must be a boolean matrix.* got int64 of shape"),
        (lambda: summarise_sets([[1, 0]]), None, "sets must be a boolean matrix"),
        (lambda: empty_sets([True]), None, r"sets must be a boolean .* got bool of shape \(1,\)"),
        (lambda: answers([[True, False], [True]]), None, "sets must be a boolean matrix"),
        *[
            (lambda sets=sets: answers(sets), None, "hold the labels of each set")
            for sets in (["cat", "dog"], [1, 2], [["a"], None], [["a"], "b"])
        ],
        (lambda: answers([["a"], ["b"]]).count_errors(["a"]), None, "y and answers .* 1 and 2"),
        (lambda: answers([["a"]]).bound_errors(0.0), "epsilon", "between 0 and 1"),
        (lambda: answers([["a"]]).bound_errors(1.5), "epsilon", "between 0 and 1"),
        (lambda: answers([["a"]]).bound_errors(0.1, confidence=1.0), "confidence", "between 0"),
        (lambda: interval(math.nan, [1.0]), None, "threshold must be at most 0.* got nan"),
        (lambda: interval(0.5, [1.0]), None, "threshold must be at most 0.* got 0.5"),
        (lambda: interval(-1.0, [math.nan]), "prediction", "must be finite, got nan at position 0"),
        (lambda: interval(-1.0, [1.0], 0.0), "scale", "must be finite and positive, got 0.0 at"),
        (lambda: interval(-1.0, [1.0], [1.0, -2.0]), "scale", "finite and positive, got -2.0"),
        (lambda: residual_scores([math.inf], [1.0]), "y", "must be finite, got inf at position 0"),
        (
            lambda: interval(-1.0, [1.0, 2.0, 3.0], [1.0, 2.0]),
            None,
            r"prediction and scale must have the same shape, got \(3,\) and \(2,\)",
        ),
        (
            lambda: residual_scores([1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]]),
            None,
            r"y and prediction must have the same shape, got \(3,\) and \(3, 1\)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, parameter: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        call()
    assert raised.value.parameters == ((parameter,) if parameter else ())

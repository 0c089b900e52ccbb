"""Answer or abstain: a set of one answers, and what the guarantee says about answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import InvalidInput, answers, label_lists

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


@pytest.mark.parametrize("sets", [["cat", "dog"], [1, 2], [["a"], None], [["a"], "b"]])
def test_sets_must_be_collections_of_labels(sets: Any) -> None:
    with pytest.raises(InvalidInput, match="sets must hold the labels of each set, such as"):
        answers(sets)


def test_names_are_for_matrices() -> None:
    with pytest.raises(InvalidInput, match="classes names the columns of a matrix, but sets holds"):
        answers([["a"], []], ["a", "b"])
    with pytest.raises(InvalidInput, match="classes must name the 2 columns of sets, got 3"):
        answers([[True, False]], ["a", "b", "c"])


def test_rows_of_booleans_must_have_one_length() -> None:
    with pytest.raises(InvalidInput, match="sets must be a boolean matrix, or lists of labels"):
        answers([[True, False], [True]])


def test_labels_of_another_type_are_refused() -> None:
    found = answers([[True, False], [False, True]])
    with pytest.raises(InvalidInput) as raised:
        found.count_errors(["no", "yes"])
    assert str(raised.value) == (
        "y must hold labels of the type of the answers, got 'no', where an answer is 0. Pass "
        "classes= the names of the columns to answers."
    )
    assert found.count_errors(np.array([0, 0])).wrong == 1


def test_each_question_has_a_label() -> None:
    with pytest.raises(InvalidInput, match="y and answers must have the same length, got 1 and 2"):
        answers([["a"], ["b"]]).count_errors(["a"])


@pytest.mark.parametrize(("epsilon", "confidence"), [(0.0, 0.9), (1.5, 0.9), (0.1, 1.0)])
def test_probabilities_are_checked(epsilon: float, confidence: float) -> None:
    with pytest.raises(InvalidInput, match="must be a number strictly between 0 and 1"):
        answers([["a"]]).bound_errors(epsilon, confidence=confidence)


def test_answers_are_shown_in_a_few_words() -> None:
    assert repr(answers([["yes"], ["no", "yes"], []])) == "<Answers: 1 of 3 answered>"

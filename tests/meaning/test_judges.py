"""Judges of levels, names, columns and scales: each speaks up where data are wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import InvalidInput
from metapac.data_checks import (
    judge_levels,
    judge_percentages,
    judge_rare_classes,
    judge_scale,
    judge_score_column,
    judge_task_column,
    judge_task_names,
    report,
)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ((0.95, 0.1, 0.05), "epsilon=0.95 is a miss rate.*Did you mean epsilon=0.05"),
        (({"a": 0.1, "b": 0.9}, 0.1, None), "epsilon=0.9 .* mean epsilon=0.1"),
        ((0.1, 0.8, 0.05), "alpha=0.8 is a fraction of new tasks.* mean alpha=0.2"),
        ((0.1, 0.1, 0.99), "delta=0.99 is a failure probability.* mean delta=0.01"),
    ],
)
def test_a_level_above_one_half_is_taken_for_a_confidence(levels: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        report([judge_levels(*levels)])


@given(st.floats(1e-9, 0.5), st.floats(1e-9, 0.5), st.none() | st.floats(1e-9, 0.5))
def test_levels_up_to_one_half_pass(epsilon: float, alpha: float, delta: float | None) -> None:
    assert judge_levels(epsilon, alpha, delta) is None
    assert judge_levels({"a": epsilon, "b": alpha}, alpha, delta) is None


@pytest.mark.parametrize(
    ("other", "is_error"),
    [
        ("São Paulo ", True),
        ("São  Paulo", True),
        ("São\N{NO-BREAK SPACE}Paulo", True),
        ("Sa\N{COMBINING TILDE}o Paulo", True),
        ("são paulo", False),
        ("SÃO PAULO ", False),
    ],
)
def test_one_task_under_two_names(other: str, is_error: bool) -> None:
    finding = judge_task_names(["Rio", "São Paulo", other])
    assert finding is not None
    assert finding.is_error == is_error
    assert f"'São Paulo' and {other!r}" in str(finding.text)
    assert "names of sites" in str(judge_task_names(["a", "a "], what="site").text)  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [["a", "b", "ab"], [1, 2, 10], [" ", "x"], ["a b", "a-b"], []])
def test_names_that_differ_pass(names: list[Any]) -> None:
    assert judge_task_names(names) is None


def test_a_column_of_ids_is_no_column_of_tasks() -> None:
    finding = judge_task_column(20, 20)
    assert finding is not None
    assert "a different task in each of 20 rows" in str(finding.text)
    assert judge_task_column(19, 19) is None
    assert judge_task_column(20, 21) is None


@pytest.mark.parametrize(
    ("counts", "is_wrong"),
    [
        ((100, 50, 50), True),
        ((100, 99, 1), True),
        ((100, 100, 0), False),
        ((100, 0, 100), False),
        ((100, 40, 40), False),
        ((0, 0, 0), False),
    ],
)
def test_fractions_mixed_with_percentages(counts: tuple[int, int, int], is_wrong: bool) -> None:
    assert (judge_percentages(*counts) is not None) == is_wrong


@pytest.mark.parametrize(
    ("scores", "calibration", "words"),
    [
        ((0, 99), (0, 0.99), "up to 99, .* up to 0.99: these are percentages and those fractions"),
        ((0, 1), (0, 100), "up to 1, .* up to 100: these are fractions .* Multiply these by 100"),
        ((0, 0.8), (0, 1), None),
        ((0, 1.1), (0, 1), None),
        ((0, 80), (0, 100), None),
        ((-3, 80), (0, 1), None),
        ((0, 5000), (0, 1), None),
        ((0, 80), (-10, 1), None),
        ((0, 50), (0, 0.001), None),
        ((0, math.inf), (0, 1), None),
        ((0, 90), (-math.inf, 1), None),
        ((-7, 0), (0, 1), "these look like logarithms; the calibration used probabilities"),
        ((0.1, 0.9), (-7, -0.1), "these look like probabilities; the calibration used logarithms"),
        ((0, 0), (-7, 0), None),  # residuals of exact predictions
    ],
)
def test_a_scale_other_than_that_of_the_calibration(
    scores: tuple[float, float], calibration: tuple[float, float], words: str | None
) -> None:
    finding = judge_scale(scores, calibration)
    if words is None:
        assert finding is None
    else:
        with pytest.raises(InvalidInput, match=words):
            report([finding])


def test_logarithms_are_a_warning_without_labels_and_if_they_may_be_differences() -> None:
    for scores, labelled in (((-7, 0), False), ((-0.9, -0.1), True)):
        finding = judge_scale(scores, (0, 1), labelled=labelled)
        assert finding is not None
        assert not finding.is_error


def test_a_class_column_as_the_score() -> None:
    with pytest.raises(InvalidInput, match="score='p_yes' looks like the score of one class"):
        report([judge_score_column("p_yes", ["p_no"], rows=100, equal=2)])
    assert judge_score_column("p_true", ["p_no", "p_yes"], rows=100, equal=100) is None
    assert judge_score_column("p_yes", [], rows=100, equal=0) is None


def test_a_class_without_examples_is_named() -> None:
    found = judge_rare_classes({"no": 60, "yes": 40, "maybe": 0}, 0.1)
    assert found is not None
    assert not found.is_error
    assert str(found.text).startswith("no calibration example is of class 'maybe': sets may always")
    both = judge_rare_classes({"no": 60, "yes": 40, "maybe": 0, "never": 0}, 0.1)
    assert both is not None
    assert "of class 'maybe', 'never': sets may always miss any of them" in str(both.text)
    rare = judge_rare_classes({"no": 95, "yes": 5, "maybe": 0}, 0.1)
    assert rare is not None
    assert str(rare.text).startswith("'yes' is 5.0% of the examples")
    assert judge_rare_classes({"no": 0, "yes": 0}, 0.1) is None

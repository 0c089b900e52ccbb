"""Sentences: every number to its last digit, every assumption, and the limits."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import Guarantee
from metapac import guarantee as sentences

PAPER: dict[str, Any] = {"epsilon": 0.05, "alpha": 0.1, "delta": 1e-5}
SAMPLED = "that calibration and new examples are sampled in the same way"
ASSUMED = (
    "that no calibration task was seen in training, and that the score function and the number of "
    "tasks were fixed before looking at results."
)


@pytest.mark.parametrize("split", ["joint", "tight", 0.2])
def test_the_sentence_has_numbers_and_assumptions(split: str | float) -> None:
    g = Guarantee(**PAPER, split=split)
    assert str(g) == g.sentence()
    assert g.sentence(tasks=500, threshold=0.25) == (
        "With confidence 99.999% over the draw of the 500 calibration tasks, the sets {label: "
        "score >= 0.25} miss the true label at most 5% of the time on at least 90% of new tasks, "
        "provided that calibration tasks and new tasks are drawn i.i.d. from one distribution, "
        f"{SAMPLED} (all balanced by class, or none), {ASSUMED}"
    )


@pytest.mark.parametrize(
    ("threshold", "columns", "intervals"),
    [
        (-2.5, {"prediction": "m"}, "the intervals prediction plus and minus 2.5 miss the true"),
        (-2.5, {"prediction": "m", "scale": "s"}, "prediction plus and minus 2.5 times scale miss"),
        (
            float("-inf"),
            {"prediction": "m"},
            "tasks, the intervals miss the true number at most 5% of",
        ),
    ],
)
def test_regression_speaks_of_intervals(
    threshold: float, columns: dict[str, Any], intervals: str
) -> None:
    text = Guarantee(**PAPER).sentence(tasks=500, threshold=threshold, columns=columns)
    assert intervals in text
    assert f"{SAMPLED}, that no" in text
    assert "label" not in text


def test_a_guarantee_in_expectation_states_its_limits() -> None:
    g = Guarantee(epsilon=0.05, alpha=0.1, delta=None)
    assert g.sentence(tasks=10, threshold=0.25) == (
        "On average over the draw of the 10 calibration tasks, the sets {label: score >= 0.25} "
        "miss the true label at most 5% of the time on at least 90% of new tasks; this is an "
        "average over calibrations (delta=None) and gives no confidence for this one; it holds "
        "provided that calibration tasks and new tasks are exchangeable, "
        f"{SAMPLED} (all balanced by class, or none), {ASSUMED}"
    )
    assert "confidence 9" not in str(g)


def test_a_sentence_for_each_class() -> None:
    g = Guarantee(**PAPER, per_class=True)
    assert str(g) == (
        "With confidence 99.999% over the draw of the calibration tasks, for each class, the sets "
        "{label: score >= its threshold} miss at most 5% of the examples of that class on at least "
        "90% of new tasks, provided that calibration tasks and new tasks are drawn i.i.d. from one "
        f"distribution, {SAMPLED}, {ASSUMED}"  # immune to another mix of classes
    )
    guarantee = Guarantee(**PAPER | {"epsilon": {"yes": 0.02, "no": 0.1}}, per_class=True)
    assert (
        "miss at most the following share of the examples of that class (yes: 2%, no: 10%) on"
        in str(guarantee)
    )


def test_a_sentence_for_large_tasks_only() -> None:
    g = Guarantee(**PAPER, min_examples=30)
    assert "over the draw of the 40 calibration tasks with at least 30 examples, the" in g.sentence(
        tasks=40
    )
    assert "90% of new tasks with at least 30 examples, provided that" in str(g)
    by_class = Guarantee(**PAPER, min_examples=30, per_class=True)
    assert str(by_class).count("with at least 30 examples of that class") == 2
    assert "at least 30" not in str(Guarantee(**PAPER))


def test_no_number_in_the_sentence_is_rounded() -> None:
    g = Guarantee(epsilon=0.123456789, alpha=1e-7, delta=1.23456789e-9)
    text = g.sentence(threshold=0.00019000160734350402)
    for number in ("12.3456789%", "99.99999%", "99.999999876543211%", "0.00019000160734350402"):
        assert number in text
    seven = str(Guarantee(epsilon=0.07, alpha=0.07, delta=0.1))
    assert "7%" in seven
    assert "93%" in seven


@given(st.floats(5e-324, 1, exclude_max=True))
def test_percentages_are_exact(fraction: float) -> None:
    shown = sentences.percent(fraction)
    assert float(Decimal(shown[:-1]) / 100) == fraction
    assert "e" not in shown.lower()
    rest = sentences.percent(fraction, complement=True)
    assert Decimal(rest[:-1]) < 100


def test_the_sentence_of_ps() -> None:
    assert sentences.describe_example_guarantee(0.1, 0.01, examples=50, threshold=0.5) == (
        "With confidence 99% over the draw of the 50 calibration examples, the sets {label: score "
        ">= 0.5} miss the true label at most 10% of the time on new examples, provided that these "
        "are drawn i.i.d. from the same distribution, that no calibration example was seen in "
        "training, and that the score function is fixed; this says nothing about any one task "
        "within that distribution."
    )


def test_remarks() -> None:
    assert sentences.describe_trivial() == "Every label is kept, so the guarantee holds trivially."
    assert (
        sentences.describe_trivial("yes")
        == "Class 'yes' is always kept, so its guarantee holds trivially."
    )
    assert sentences.describe_uninformative(0.0, 3, 40) == (
        "The threshold is 0.0, so, if scores are probabilities, every label is kept whatever its "
        "score, and the guarantee says little: in 3 of 40 tasks (8%) more true labels score that "
        "low than may be missed."
    )
    text = sentences.describe_uninformative(-3.0, 3, 40, "yes")
    assert "-3.0 is the lowest calibration score, so class 'yes' may be kept whatever" in text


def test_remarks_on_intervals() -> None:
    assert (
        sentences.describe_trivial(is_interval=True)
        == "Every interval is infinite, so the guarantee holds trivially."
    )
    assert sentences.describe_uninformative(-4.0, 3, 40, is_interval=True) == (
        "The threshold -4.0 is the lowest calibration score, so intervals are wide enough for "
        "every true number in the calibration tasks, and the guarantee says little: in 3 of 40 "
        "tasks (8%) more true numbers lie that far from their prediction than may be missed."
    )


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.05894, "5.9%"),
        (0.9997, "99.97%"),
        (0.0003, "0.03%"),
        (1e-9, "<0.001%"),
        (1 - 1e-9, ">99.999%"),
    ],
)
def test_only_exact_fractions_are_shown_as_none_or_all(fraction: float, shown: str) -> None:
    assert sentences.format_share(fraction) == shown

"""Charts of tasks and classes: what they show, counted by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from metapac import judge
from metapac.evaluation import ClassMisses
from metapac.report import charts
from metapac.verdict import clopper_pearson_interval
from metapac.words import Words

WORDS = Words("hospital", "hospitals", "patient", "patients", "the model")


def marks(svg: str, kind: str) -> list[str]:
    """Return the elements of the marks of a kind."""
    groups = re.findall(rf'<g class="mark-{kind} role-mark[^>]*>(.*?)</g>', svg, re.DOTALL)
    return [mark for group in groups for mark in re.findall(r"<(?:path|line)[^>]*>", group)]


def test_errors_are_sorted_into_three_kinds() -> None:
    examples = np.array([100, 100, 100, 10, 150])
    # within, at the limit, above, above by chance, above though its interval holds the limit
    missed = np.array([5, 10, 30, 2, 22])
    low, high = clopper_pearson_interval(missed, examples)
    assert low[-1] < 0.1
    flagged = judge(examples, missed, epsilon=0.1, alpha=0.2, delta=0.1).flagged
    chart = charts.draw_errors(missed, examples, low, high, 0.1, WORDS)
    assert chart.label == (
        "Share missed at each of 5 new hospitals: 2 at most 10%; 1 above 10%, perhaps by chance; "
        f"{flagged} above 10% (95% confidence, each hospital alone)."
    )
    points = marks(chart.wide, "symbol")
    for colour, number in (("good", 2), ("warn", 1), ("bad", flagged)):
        assert sum(f"var(--{colour})" in point for point in points) == number
    assert len(marks(chart.wide, "rule")) == 6  # an interval for each, and the limit


def test_many_tasks_become_a_histogram() -> None:
    examples, missed = np.full(61, 100), np.arange(61) % 15
    low, high = clopper_pearson_interval(missed, examples)
    chart = charts.draw_errors(missed, examples, low, high, 0.1, WORDS)
    assert "number of hospitals" in chart.wide
    assert not marks(chart.wide, "symbol")


@pytest.mark.parametrize("tasks", [5, 60, 61, 10_000])
def test_the_chosen_threshold_is_marked(tasks: int) -> None:
    thresholds = np.linspace(0, 1, tasks)
    chart = charts.draw_thresholds(thresholds, float(thresholds[2]), 3, "hospitals", "label")
    points = marks(chart.wide, "symbol")
    assert sum('stroke="var(--bad)"' in point for point in points) == 1
    assert "chosen" in chart.wide
    assert len(chart.wide) < 60_000
    assert len(points) == (tasks + 1 if tasks <= charts.SINGLE else 1)


def test_tasks_without_a_threshold_are_left_out() -> None:
    thresholds = np.array([-np.inf, -np.inf, 0.2, 0.3])
    chart = charts.draw_thresholds(thresholds, 0.2, 3, "hospitals", "label")
    assert len(marks(chart.wide, "symbol")) == 3


def test_thresholds_may_all_be_equal() -> None:
    chart = charts.draw_thresholds(np.zeros(4), 0.0, 1, "hospitals", "label")
    assert len(marks(chart.wide, "symbol")) == 5
    assert "NaN" not in chart.wide


def test_a_class_above_its_limit_has_another_colour() -> None:
    counts = {"yes": (100, 99), "edge": (150, 22), "no": (100, 1)}
    classes = [
        ClassMisses(name, n, k, *map(float, clopper_pearson_interval(k, n)))
        for name, (n, k) in counts.items()
    ]
    chart = charts.draw_classes(classes, dict.fromkeys(counts, 0.1), "label")
    points = marks(chart.wide, "symbol")
    assert ["bad" in point for point in points] == [True, True, False]


def test_long_class_names_are_shortened_and_kept_apart() -> None:
    names = [f"{'<b>long' * 9} {i}" for i in range(30)]
    classes = [ClassMisses(name, 10, 1, 0.0, 0.5) for name in names]
    chart = charts.draw_classes(classes, dict.fromkeys(names, 0.1), "label")
    assert "<b>" not in chart.wide
    assert len(marks(chart.wide, "symbol")) == 20  # no two share a place, and no more are drawn


def test_shares_have_their_percentages() -> None:
    chart = charts.draw_shares({"no label": 0.004, "one label": 0.996}, "label")
    assert "0.4%" in chart.wide
    assert "99.6%" in chart.wide


@pytest.mark.parametrize("tasks", [1, 20, 200])
def test_one_value_of_each_task(tasks: int) -> None:
    chart = charts.draw_values(np.full(tasks, 1.5), "labels in a list", WORDS, "label")
    assert "labels in a list" in chart.wide
    assert "NaN" not in chart.wide

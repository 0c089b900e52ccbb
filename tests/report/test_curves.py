"""Charts against epsilon, and of the course of a monitor."""

from __future__ import annotations

import re

import numpy as np
import pytest

from metapac.report.charts import draw_course, draw_curves


def test_each_panel_has_a_point_for_each_number() -> None:
    sizes, errors = np.array([np.nan, 2.0, 1.5]), np.array([np.nan, 0.01, 0.05])
    chart = draw_curves([0.01, 0.1, 0.2], {"labels": sizes, "share missed %": errors}, "label")
    for svg in chart[:2]:
        groups = re.findall(r'<g class="[^"]*points[^"]*"[^>]*>(.*?)</g>', svg, re.DOTALL)
        assert [group.count("<path") for group in groups] == [2, 2]
    assert "share missed" in chart.wide
    assert "share missed %" not in chart.wide


def test_the_course_has_its_alarm_line_and_its_limit() -> None:
    wealth = np.array([1.2, 0.0, 3.0, 500.0])
    low, high = np.array([0.0, 0.0, 0.1, 0.3]), np.array([1.0, 0.9, 0.9, 0.2])  # crossing ends
    chart = draw_course(
        wealth, low, high, alarm=100.0, alpha=0.1, unit="hospitals", label="an alarm"
    )
    assert chart.label == "an alarm"
    assert chart.wide.count("stroke-dasharray") == 2
    assert "NaN" not in chart.wide
    assert "Infinity" not in chart.wide


def test_the_course_starts_before_the_first_task() -> None:
    steps = np.array([1.5, 2.0])
    chart = draw_course(steps, 0 * steps, steps / 2, alarm=100.0, alpha=0.1, unit="x", label="")
    for svg in chart[:2]:
        (path,) = re.findall(r'mark-line[^>]*><path[^>]* d="([^"]*)"', svg)
        assert len(re.findall("[ML]", path)) == 3
        assert path.startswith("M0,")


def test_a_long_course_stays_small() -> None:
    steps = np.ones(20_000)
    chart = draw_course(steps, 0 * steps, steps, alarm=100.0, alpha=0.1, unit="sites", label="")
    assert len(chart.wide) < 60_000


@pytest.mark.parametrize("step", [0, 7_001, 19_999])
def test_a_long_course_keeps_the_step_of_the_alarm(step: int) -> None:
    wealth = np.ones(20_000)
    wealth[step] = 150.0
    chart = draw_course(wealth, 0 * wealth, wealth, alarm=100.0, alpha=0.1, unit="x", label="")
    (path,) = re.findall(r'mark-line[^>]*><path[^>]* d="([^"]*)"', chart.wide)
    heights = [float(pair.split(",")[1]) for pair in re.split("[ML]", path)[1:]]
    assert min(heights) < heights[0] - 30  # one step lies far above all others


def test_equal_steps_of_epsilon_are_equally_far_apart() -> None:
    rates = [0.1, 0.2, 0.3]
    chart = draw_curves(rates, {"labels": np.array([3.0, 2.0, 1.0])}, "label")
    (group,) = re.findall(r'<g class="[^"]*points[^"]*"[^>]*>(.*?)</g>', chart.wide, re.DOTALL)
    places = [float(x) for x in re.findall(r"translate\(([\d.]+),", group)]
    assert places == pytest.approx([rate / 0.3 * places[-1] for rate in rates])


def test_every_wealth_lies_within_the_panel() -> None:
    wealth = np.array([1.0, 0.0, 1e3, 1e6])  # nothing, and far beyond the alarm
    chart = draw_course(wealth, 0 * wealth, 0 * wealth, alarm=100.0, alpha=0.1, unit="x", label="")
    (path,) = re.findall(r'mark-line[^>]*><path[^>]* d="([^"]*)"', chart.wide)
    heights = [float(pair.split(",")[1]) for pair in re.split("[ML]", path)[1:]]
    assert heights[2] == 150  # the bottom
    assert heights[0] > heights[3] > heights[4] == 0

"""Charts: what they show, counted by hand; colours are classes, and text is drawn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metapac import MetaPS, Scored, evaluate, judge
from metapac.evaluation import Evaluation
from metapac.plots import format_percent, thin_out
from metapac.report import charts

RATES = st.sampled_from([0.001, 0.01, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5])


def make_part(missed: list[int], examples: list[int]) -> Evaluation:
    names = np.arange(len(missed))
    return Evaluation(names, np.array(examples), np.array(missed), None, 0.1)


def count_marks(body: str, colour: str) -> int:
    """Return how many marks of points have a colour."""
    return len(re.findall(rf'<use [^>]*class="[^"]*fill-{colour}[^"]*"', body))


def test_errors_are_sorted_into_three_kinds() -> None:
    # within, at the limit, above, above by chance, above though its interval holds the limit
    examples, missed = [100, 100, 100, 10, 150], [5, 10, 30, 2, 22]
    part = make_part(missed, examples)
    assert part.low[-1] < 0.1
    flagged = judge(examples, missed, epsilon=0.1, alpha=0.2, delta=0.1).flagged
    assert np.bincount(charts.find_kinds(part)).tolist() == [2, 1, flagged]
    body = charts.draw_errors(part, "errors").body
    assert [count_marks(body, colour) for colour in ("good", "warn", "bad")] == [2, 1, flagged]
    # Colours are classes, and text is drawn.
    assert not re.search(r"style=|<text|<style|<metadata|#[0-9a-f]{6}|font", body)
    names = {*" ".join(re.findall(r'class="([^"]+)"', body)).split()}
    assert names <= {f"{k}-{n}" for k in ("fill", "stroke") for n in charts._CLASSES.values()}
    assert all(name.startswith("errors-") for name in re.findall(r' id="([^"]+)"', body))


def test_many_tasks_become_a_histogram() -> None:
    few, many = (make_part([*np.arange(n) % 15], [100] * n) for n in (60, 61))
    assert count_marks(charts.draw_errors(few, "errors").body, "good") > 30
    body = charts.draw_errors(many, "errors").body
    assert count_marks(body, "good") == 0
    assert {"fill-good", "fill-warn"} <= {*re.findall(r"fill-\w+", body)}
    assert len(charts.draw_values(np.arange(100_000) / 7, "sizes").body) < 60_000


def test_the_chosen_threshold_is_marked() -> None:
    for tasks in (5, 60, 61, 100_000):
        thresholds = np.linspace(0, 1, tasks)
        thresholds[0] = -np.inf
        body = charts.draw_thresholds(thresholds, float(thresholds[2]), 3, "thresholds").body
        assert len(re.findall(r'<use [^>]*class="stroke-bad"', body)) == 1
        assert count_marks(body, "good") == (tasks - 1 if tasks <= charts.SINGLE else 0)
        assert len(body) < 60_000


def test_names_from_the_data_do_not_enter_a_drawing(promise: MetaPS, labelled: Scored) -> None:
    found = evaluate(promise, labelled)
    again = Evaluation(np.arange(20), found.examples, found.missed, None, found.epsilon)
    assert charts.draw_errors(found, "errors") == charts.draw_errors(again, "errors")


@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(0, 200)), min_size=1, max_size=80), RATES
)
def test_bars_count_tasks_beside_the_limit(counts: Any, limit: float) -> None:
    sizes = np.array([size for size, _missed in counts])
    errors = np.array([min(size, missed) / size for size, missed in counts])
    edges = charts.find_edges(errors, limit, 1 / float(np.median(sizes)))
    bars = charts.count_between(errors, edges)
    assert sum(bars) == len(errors)
    above = sum(bar for bar, low in zip(bars, edges[:-1], strict=True) if low >= limit)
    assert above == np.count_nonzero(errors > limit)
    assert limit in edges
    assert edges[0] == 0
    assert edges[-1] >= errors.max() * (1 - 1e-9)
    assert np.all(np.diff(edges) > 0)
    assert len(bars) <= 48


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_bars_without_a_limit_span_the_values(values: list[float]) -> None:
    array = np.array(values)
    edges = charts.find_edges(array, None, 0.0)
    assert sum(charts.count_between(array, edges)) == len(values)
    assert edges[0] <= array.min()
    assert edges[-1] >= array.max()


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_thinned_curve_keeps_its_ends_and_what_matters(length: int, keep: int) -> None:
    places = thin_out(length, keep)
    assert {0, length - 1, min(keep, length - 1)} <= {*places.tolist()}
    assert np.all(np.diff(places) > 0)
    assert len(places) <= 1001
    assert length > 1000 or len(places) == length


def test_ticks_have_the_digits_that_they_need() -> None:
    shown = [format_percent(tick) for tick in (0.025, 0.075, 0.1, 0, 1)]
    assert shown == ["2.5%", "7.5%", "10%", "0%", "100%"]

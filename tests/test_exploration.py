"""Pilot tasks: what to expect from calibration at some levels; figures of all results."""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import metapac as mp
from metapac.evidence import ranks_within
from metapac.exploration import Cell, Estimate, estimate_ratio, expected_thresholds, least_tasks
from metapac.fewshot.study.figures import draw_boxes
from metapac.plots import draw_pilot
from tests.helpers import oracles
from tests.helpers.refusals import assert_refused


@pytest.fixture
def pilot() -> mp.Exploration:
    """Two pilot tasks, two classes, one of them without examples, and four cells."""
    half, nothing = Estimate(0.5, 0.4, 0.6), Estimate(math.nan, math.nan, math.nan)
    missed = {"no": half, "yes": nothing}
    cells = tuple(
        Cell(epsilon, 0.1, per_class, 29, thresholds, half, half, half, missed)
        for per_class, thresholds in ((False, (0.2,)), (True, (-math.inf, 0.3)))
        for epsilon in (0.05, 0.1)
    )
    columns = {"task": "site"}
    shares = {"no": 0.9, "yes": 0.1}
    return mp.Exploration(("utah", "ohio"), 40, 0.05, shares, cells, columns, 0.05, 7)


def test_a_mean_over_tasks_has_students_interval() -> None:
    values = np.array([1.0, 2.0, 4.0])
    estimate = estimate_ratio(values, np.ones(3), 9.0)
    half = stats.t.ppf(0.975, 2) * stats.sem(values)
    assert estimate.value == pytest.approx(7 / 3)
    assert estimate.high == pytest.approx(7 / 3 + half)
    assert estimate.low == 0.0  # cut
    assert math.isnan(estimate_ratio(np.zeros(2), np.zeros(2)).value)
    assert math.isnan(estimate_ratio(np.ones(1), np.ones(1)).low)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30), st.integers(10, 80))
def test_leaving_a_task_out_is_computing_without_it(values: list[int], tasks: int) -> None:
    guarantee = mp.Guarantee(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    own = np.array(values, dtype=float)[:, None]
    _best, without = expected_thresholds(own, guarantee, tasks)
    for i in range(len(own) if len(own) > 2 else 0):
        alone, _ = expected_thresholds(np.delete(own, i, axis=0), guarantee, tasks)
        assert without[i] == alone


@pytest.mark.parametrize("tasks", [20, 25, 40, 90, 333])
def test_the_threshold_expected_is_the_mean_of_the_order_statistic(tasks: int) -> None:
    # Task thresholds uniform on (0, 1): the (k+1)-th lowest of N is Beta(k+1, N-k).
    guarantee = mp.Guarantee(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    (k,) = guarantee.allowed_low_thresholds(tasks)
    expected = stats.beta.mean(k + 1, tasks - k)
    for steps in (7, 10, 30, 100):
        pilot = np.arange(1, steps)[:, None] / steps
        nearest = max(round(expected * steps), 1) / steps
        assert expected_thresholds(pilot, guarantee, tasks)[0] == nearest


def asked(alpha: float, delta: float | None, **options: Any) -> mp.Guarantee:
    return mp.Guarantee(epsilon=0.1, alpha=alpha, delta=delta, **options)


@pytest.mark.parametrize("delta", [0.05, None])
def test_least_tasks_are_those_of_plan(pilot: mp.Exploration, delta: float | None) -> None:
    assert least_tasks(asked(0.1, delta)) == mp.plan(epsilon=0.1, alpha=0.1, delta=delta).tasks
    at_half = mp.plan(epsilon=0.1, alpha=0.1, delta=delta, split=0.05).tasks
    assert least_tasks(asked(0.1, delta, split=0.05)) == at_half == pilot.tasks_needed[0.1][delta]
    assert least_tasks(asked(0.1, 0.05), classes=5) == least_tasks(asked(0.1, 0.01))


def test_what_is_saved_is_read(pilot: mp.Exploration, tmp_path: Path) -> None:
    pilot.save(tmp_path / "pilot.json")
    again = mp.read_pilot(tmp_path / "pilot.json")
    assert again.to_dict() == pilot.to_dict()
    assert (again.tasks, again.split, again.min_examples) == (pilot.tasks, 0.05, 7)
    assert again.find(0.05, 0.1, per_class=True).thresholds == (-math.inf, 0.3)
    assert math.isnan(again.cells[0].missed["yes"].value)
    assert again.to_frame()["missed_no"].tolist() == [0.5] * 4
    assert repr(again) == "<Exploration of 2 pilot tasks with 40 examples of 2 classes: 4 cells>"
    with pytest.raises(KeyError):
        again.find(0.07, 0.1)


def test_rare_classes_have_panels(pilot: Any, monkeypatch: Any) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(mp.plots, "save", lambda figure, _path: drawn.append(figure))
    shares = {"common": 0.5, "a": 0.11, "b": 0.12, "c": 0.13, "$d$": 0.14}
    missed = dict.fromkeys(shares, pilot.cells[0].size)
    cells = tuple(replace(cell, missed=missed) for cell in pilot.cells)
    draw_pilot(replace(pilot, prevalence=shares, cells=cells), "never-written.png")
    titles = [axes.get_title().splitlines()[0] for axes in drawn[0].axes]
    assert titles == ["mean set size over tasks", *(f"missed among {x}" for x in [*shares][1:])]
    labels = [line.get_label() for line in drawn[0].axes[0].get_lines()]
    assert labels == ["alpha 0.1", "alpha 0.1, per class"]
    for axes in drawn[0].axes:
        assert axes.get_lines()[0].get_xydata().tolist() == [[0.05, 0.5], [0.1, 0.5]]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Ten pilot tasks of two classes; one of them lacks the rare class."""
    rng = np.random.default_rng(0)
    site = np.repeat([f"s{i}" for i in range(10)], 60)
    sick = (rng.random(600) < 0.15) & (site != "s3")
    p = np.clip(0.1 + 0.3 * sick + 0.1 * rng.normal(size=600), 0.01, 0.99)
    columns = {"site": site, "y": np.where(sick, "yes", "no"), "p_no": 1 - p, "p_yes": p}
    return pd.DataFrame(columns)


GRID: dict[str, Any] = {"epsilon": [0.1, 0.3], "alpha": [0.3], "delta": 0.2, "n_tasks": 20}


def explore_rows(rows: pd.DataFrame, **changes: Any) -> mp.Exploration:
    """Explore the rows as arrays."""
    data: dict[str, Any] = {"scores": rows[["p_no", "p_yes"]].to_numpy(), "tasks": rows.site}
    return mp.explore(**data | {"labels": rows.y, "classes": ["no", "yes"]} | GRID | changes)


@pytest.mark.parametrize("changes", [{}, {"min_examples": 60}, {"n_tasks": None}, {"n_tasks": 3}])
def test_arrays_and_tables_are_explored_alike(rows: pd.DataFrame, changes: dict[str, Any]) -> None:
    options = GRID | changes
    found = explore_rows(rows, **options)
    expected = mp.explore(mp.open_table(rows, mp.Columns(task="site", label="y")), **options)
    body, other = found.to_dict(), expected.to_dict()
    own = body.pop("columns")
    assert other.pop("columns") == {"task": "site", "label": "y", "columns": "p_*"} | own
    assert own == {"classes": ["no", "yes"]}
    assert body == other
    assert found.prevalence["yes"] == (rows.y == "yes").mean()
    assert {cell.tasks for cell in found.cells} == {options["n_tasks"] or 10}


@pytest.mark.parametrize("least", [0, 8])
def test_each_pilot_task_is_judged_by_the_others(rows: pd.DataFrame, least: int) -> None:
    """A slow reference: sets of each task are made with the thresholds of the other tasks."""
    scores, classes = rows[["p_no", "p_yes"]].to_numpy(), ["no", "yes"]
    true, names = np.where(rows.y == "yes", rows.p_yes, rows.p_no), [*rows.site.unique()]
    for cell in explore_rows(rows, min_examples=least).cells:
        whole = mp.Guarantee(epsilon=cell.epsilon, alpha=0.3, delta=0.2, per_class=cell.per_class)
        cuts, used = np.zeros((10, 2)), np.zeros((10, 2), dtype=bool)
        for j, label in enumerate(classes):
            part = whole.for_class(label, classes) if cell.per_class else whole
            of_class = (rows.y == label) | (not cell.per_class)
            own = [true[(rows.site == name) & of_class] for name in names]
            used[:, j] = [len(values) >= least for values in own]
            levels = np.array([find_levels(values, part) for values in own])
            for i in range(10):
                others = used[:, j] & (np.arange(10) != i)
                cuts[i, j] = expected_thresholds(levels[others], part, 20)[0]
        sets = scores >= cuts[[names.index(name) for name in rows.site]]
        sizes = [sets[rows.site == name].sum(axis=1).mean() for name in names]
        assert cell.size.value == pytest.approx(np.mean(sizes), rel=1e-12)
        counted = used[[names.index(name) for name in rows.site], 1] & (rows.y == "yes")
        assert cell.missed["yes"].value == pytest.approx(np.mean(~sets[counted, 1]), rel=1e-12)
        assert used.all() == (least == 0 or not cell.per_class)


def find_levels(values: Any, part: mp.Guarantee) -> list[float]:
    """Return the threshold of a task at each level."""
    ranks = ranks_within(np.array([len(values)]), part)[0].tolist()
    return [oracles.largest(values.tolist(), rank) for rank in ranks]


def test_what_calibration_refuses_is_called_infeasible(rows: pd.DataFrame) -> None:
    found = explore_rows(rows, epsilon=[0.01, 0.05, 0.3, 0.5], n_tasks=None)
    refused, scores = [], rows[["p_no", "p_yes"]].to_numpy()
    for cell in found.cells:
        method = mp.MetaPS(epsilon=cell.epsilon, alpha=0.3, delta=0.2, per_class=cell.per_class)
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(mp.InfeasibleGuarantee):
            method.calibrate(scores, rows.site, rows.y, classes=["no", "yes"])
        refused.append(not hasattr(method, "tasks_"))
    assert [cell.is_infeasible for cell in found.cells] == refused
    assert {*refused} == {True, False}
    assert len(re.findall("  refused", str(found))) == sum(refused)
    few = explore_rows(rows, n_tasks=2)
    assert f"needs {least_tasks(asked(0.3, 0.2))} tasks" in str(few)
    for cell in few.cells:
        assert cell.tasks_needed == least_tasks(asked(0.3, 0.2), classes=1 + cell.per_class) > 2
        estimates = (cell.size, cell.empty, cell.full, *cell.missed.values())
        assert all(math.isnan(estimate.value) for estimate in estimates)


BAD_INPUT: list[Any] = [
    *(("epsilon", {"epsilon": value}) for value in (0, "0.1")),
    ("alpha", {"alpha": [0.1, 2]}),
    ("delta", {"delta": 0}),
    ("split", {"split": "wrong"}),
    ("min_examples", {"min_examples": -1}),
    ("task", {"min_examples": 61}),
    *(("n_tasks", {"n_tasks": value}) for value in (0, 2.5)),
    ("labels", {"labels": None}),
    ("tasks", {"tasks": None}),
    ("at least 2", {"tasks": ["a"] * 600}),
    ("NaN", {"scores": np.full((600, 2), np.nan)}),
    ("labels", {"scores": np.full(600, 0.5)}),
    ("classes", {"classes": ["no"]}),
    ("allow", {"allow": ["typo"]}),
    ("levels", {"epsilon": [0.95], "alpha": [0.9]}),
]


def test_bad_input(rows: pd.DataFrame) -> None:
    for words, changes in BAD_INPUT:
        assert_refused(words, lambda: explore_rows(rows, **changes))
    with pytest.raises(mp.InvalidInput, match="allow="):
        explore_rows(pd.concat([rows, rows]))


# Figures: their files, and what the axes of each hold.


def test_an_svg_depends_on_the_figure_alone(tmp_path: Path) -> None:
    for name in ("first", "second"):
        figure, (axes,) = mp.plots.create_figure(1, width=3, height=2)
        draw_boxes(axes, [np.arange(11)], whiskers=(10, 90), colours=["#123456"])
        axes.plot([0, 1], [0, 1], clip_path=axes.patch)  # SVG gives clip paths random names
        mp.plots.save(figure, tmp_path / f"{name}.svg")
    content = (tmp_path / "first.svg").read_bytes()
    assert content == (tmp_path / "second.svg").read_bytes()
    assert b"<dc:date>" not in content
    assert b"#123456" in content


@pytest.mark.parametrize("tasks", [1, 40, 41, 500])
@pytest.mark.parametrize("classes", [2, 30])
def test_an_evaluation_is_drawn(tasks: int, classes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    promise = mp.MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    promise.calibrate(rng.random(1200), np.repeat([f"old {i}" for i in range(12)], 100))
    names = np.repeat([f"$\\alpha {i} " + "x" * 20 for i in range(tasks)], 30)
    labels, scores = np.arange(30 * tasks) % classes, rng.random((30 * tasks, classes))
    scores[labels == 1, 1] = -1  # this class is always missed
    evaluation: Any = mp.evaluate(promise, scores, names, labels, allow=["labels", "direction"])
    figure: Any = evaluation.plot(tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").read_bytes().startswith(b"\x89PNG")
    errors, sets, by_class = figure.axes
    assert errors.lines[0].get_ydata() == pytest.approx(np.sort(evaluation.errors))
    assert len(errors.get_xticklabels()) == tasks or tasks > 40
    heights = [float(bar.get_height()) for bar in sets.patches]
    shares = (*evaluation.set_shares.values(),)
    assert (heights[0], heights[1], heights[3]) == pytest.approx(shares)
    assert sum(heights) == pytest.approx(1)
    assert sum(len(np.ravel(line.get_xdata())) for line in by_class.lines) == min(classes, 20)
    assert figure.get_suptitle().startswith(f"guarantee: {evaluation.verdict.status}")
    assert ("class 1: 100% missed" in figure.get_suptitle()) == bool(evaluation.neglected)
    if evaluation.neglected:
        assert by_class.lines[1].get_color() == mp.plots.LIMIT

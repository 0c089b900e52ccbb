"""Pilot tasks: what to expect from calibration at some levels; figures of all results."""

from __future__ import annotations

import contextlib
import math
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

from metapac import (
    Columns,
    Exploration,
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    Plan,
    evaluate,
    explore,
    open_table,
    plan,
    plots,
    read_pilot,
)
from metapac.evaluation import Evaluation
from metapac.exploration import Cell, Estimate, expected_thresholds, least_tasks
from metapac.fewshot.reproduce.figures import draw_boxes
from metapac.plots import draw_pilot
from tests.helpers import oracles
from tests.helpers.refusals import assert_refused


@pytest.fixture
def pilot() -> Exploration:
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
    return Exploration(("utah", "ohio"), 40, 0.05, shares, cells, columns, 0.05, 7)


def test_a_mean_over_tasks_has_students_interval() -> None:
    values = np.array([1.0, 2.0, 4.0])
    estimate = Estimate.of_ratio(values, np.ones(3), 9.0)
    half = stats.t.ppf(0.975, 2) * stats.sem(values)
    assert estimate.value == pytest.approx(7 / 3)
    assert estimate.high == pytest.approx(7 / 3 + half)
    assert estimate.low == 0.0  # cut
    assert math.isnan(Estimate.of_ratio(np.zeros(2), np.zeros(2)).value)
    assert math.isnan(Estimate.of_ratio(np.ones(1), np.ones(1)).low)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30), st.integers(10, 80))
def test_leaving_a_task_out_is_computing_without_it(values: list[int], tasks: int) -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    own = np.array(values, dtype=float)[:, None]
    _best, without = expected_thresholds(own, guarantee, tasks)
    for i in range(len(own) if len(own) > 2 else 0):
        alone, _ = expected_thresholds(np.delete(own, i, axis=0), guarantee, tasks)
        assert without[i] == alone


@pytest.mark.parametrize("tasks", [20, 25, 40, 90, 333])
def test_the_threshold_expected_is_the_mean_of_the_order_statistic(tasks: int) -> None:
    # Task thresholds uniform on (0, 1): the (k+1)-th lowest of N is Beta(k+1, N-k).
    guarantee = Guarantee(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    (k,) = guarantee.allowed_low_thresholds(tasks)
    expected = stats.beta.mean(k + 1, tasks - k)
    for steps in (7, 10, 30, 100):
        pilot = np.arange(1, steps)[:, None] / steps
        nearest = max(round(expected * steps), 1) / steps
        assert expected_thresholds(pilot, guarantee, tasks)[0] == nearest


@pytest.mark.parametrize("delta", [0.05, None])
def test_least_tasks_are_those_of_plan(pilot: Exploration, delta: float | None) -> None:
    assert least_tasks(0.1, delta) == plan(epsilon=0.1, alpha=0.1, delta=delta).tasks
    at_half = plan(epsilon=0.1, alpha=0.1, delta=delta, split=0.05).tasks
    assert least_tasks(0.1, delta, split=0.05) == at_half == pilot.tasks_needed[0.1][delta]
    assert least_tasks(0.1, 0.05, classes=5) == least_tasks(0.1, 0.01)


def test_what_is_saved_is_read(pilot: Exploration, tmp_path: Path) -> None:
    pilot.save(tmp_path / "pilot.json")
    again = read_pilot(tmp_path / "pilot.json")
    assert again.tasks == pilot.tasks
    assert again.to_dict() == pilot.to_dict()
    assert (again.split, again.min_examples) == (0.05, 7)
    assert again.find(0.05, 0.1, per_class=True).thresholds == (-math.inf, 0.3)
    assert math.isnan(again.cells[0].missed["yes"].value)
    assert again.to_frame()["missed_no"].tolist() == [0.5] * 4
    assert repr(again) == "<Exploration of 2 pilot tasks with 40 examples of 2 classes: 4 cells>"
    with pytest.raises(KeyError):
        again.find(0.07, 0.1)


def test_the_rarest_classes_have_a_panel_each(
    pilot: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, _path: drawn.append(figure))
    half = pilot.cells[0].size
    shares = {"common": 0.5, "a": 0.11, "b": 0.12, "c": 0.13, "$d$": 0.14}
    cells = tuple(replace(cell, missed=dict.fromkeys(shares, half)) for cell in pilot.cells)
    draw_pilot(replace(pilot, prevalence=shares, cells=cells), "never-written.png")
    sizes, *misses = drawn[0].axes
    assert sizes.get_title() == "mean set size over tasks"
    assert [line.get_label() for line in sizes.get_lines()] == [
        "alpha 0.1",
        "alpha 0.1, per class",
    ]
    assert [axes.get_title().splitlines()[0] for axes in misses] == [
        "missed among a",
        "missed among b",
        "missed among c",
        "missed among $d$",
    ]
    for axes in drawn[0].axes:
        assert [*axes.get_lines()[0].get_xdata()] == [0.05, 0.1]
        assert [*axes.get_lines()[0].get_ydata()] == [0.5, 0.5]


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


@pytest.mark.parametrize("changes", [{}, {"min_examples": 60}, {"n_tasks": None}, {"n_tasks": 3}])
def test_arrays_and_tables_are_explored_alike(rows: pd.DataFrame, changes: dict[str, Any]) -> None:
    scores = rows[["p_no", "p_yes"]].to_numpy()
    options = GRID | changes
    found = explore(scores, rows.site, rows.y, classes=["no", "yes"], **options)
    table = open_table(rows, Columns(task="site", label="y"))
    expected = explore(table, **options)
    body, other = found.to_dict(), expected.to_dict()
    assert body.pop("columns") == {"classes": ["no", "yes"]}
    assert other.pop("columns") == {"task": "site", "label": "y", "columns": "p_*"} | {
        "classes": ["no", "yes"]
    }
    assert body == other
    assert found.prevalence["yes"] == (rows.y == "yes").mean()


@pytest.mark.parametrize("least", [0, 8])
def test_each_pilot_task_is_judged_by_the_others(rows: pd.DataFrame, least: int) -> None:
    """A slow reference: sets of each task are made with the thresholds of the other tasks."""
    scores, classes = rows[["p_no", "p_yes"]].to_numpy(), ["no", "yes"]
    found = explore(scores, rows.site, rows.y, classes=classes, min_examples=least, **GRID)
    true, names = np.where(rows.y == "yes", rows.p_yes, rows.p_no), [*rows.site.unique()]
    for cell in found.cells:
        whole = Guarantee(epsilon=cell.epsilon, alpha=0.3, delta=0.2, per_class=cell.per_class)
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
        assert cell.tasks == 20
        assert used.all() == (least == 0 or not cell.per_class)


def find_levels(values: Any, part: Guarantee) -> list[float]:
    """Return the threshold of a task at each level."""
    ranks = (
        oracles.allowed_errors_in_task(len(values), part.miss_rate, level.alpha_within)
        for level in part.levels
    )
    return [oracles.largest(values.tolist(), rank) for rank in ranks]


def test_too_few_calibration_tasks_give_no_estimate(rows: pd.DataFrame) -> None:
    scores = rows[["p_no", "p_yes"]].to_numpy()
    data: Any = (scores, rows.site, rows.y)
    for cell in explore(*data, classes=["no", "yes"], **GRID | {"n_tasks": 2}).cells:
        assert cell.tasks_needed == least_tasks(0.3, 0.2, classes=1 + cell.per_class) > 2
        estimates = (cell.size, cell.empty, cell.full, *cell.missed.values())
        assert all(math.isnan(estimate.value) for estimate in estimates)
    for n_tasks, expected in ((None, 10), (13, 13)):
        cells = explore(*data, classes=["no", "yes"], **GRID | {"n_tasks": n_tasks}).cells
        assert {cell.tasks for cell in cells} == {expected}
    twice = [np.concatenate([column, column]) for column in data]
    with pytest.raises(InvalidInput, match="allow="):
        explore(*twice, classes=["no", "yes"], **GRID)


def test_what_calibration_refuses_is_called_infeasible(rows: pd.DataFrame) -> None:
    scores, levels = rows[["p_no", "p_yes"]].to_numpy(), {"alpha": 0.3, "delta": 0.2}
    grid: dict[str, Any] = GRID | {"epsilon": [0.01, 0.05, 0.3, 0.5], "n_tasks": None}
    found = explore(scores, rows.site, rows.y, classes=["no", "yes"], **grid)
    refused = []
    for cell in found.cells:
        method = MetaPS(epsilon=cell.epsilon, per_class=cell.per_class, **levels)  # type: ignore[arg-type]
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(InfeasibleGuarantee):
            method.calibrate(scores, rows.site, rows.y, classes=["no", "yes"])
        refused.append(not hasattr(method, "tasks_"))
    assert [cell.is_infeasible() for cell in found.cells] == refused
    assert {*refused} == {True, False}
    assert str(found).count("  infeasible\n") == sum(refused)


def test_the_text_begins_with_the_decision(rows: pd.DataFrame) -> None:
    scores = rows[["p_no", "p_yes"]].to_numpy()
    text = str(explore(scores, rows.site, rows.y, classes=["no", "yes"], **GRID))
    assert text.startswith("One threshold misses more than half of a class: 'yes' from epsilon 0.3")
    few = str(explore(scores, rows.site, rows.y, classes=["no", "yes"], **GRID | {"n_tasks": 2}))
    assert f"needs {least_tasks(0.3, 0.2)} tasks" in few


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("epsilon", {"epsilon": 0}),
        ("epsilon", {"epsilon": []}),
        ("epsilon", {"epsilon": "0.1"}),
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
    ],
)
def test_bad_input(rows: pd.DataFrame, words: str, changes: dict[str, Any]) -> None:
    scores = rows[["p_no", "p_yes"]].to_numpy()
    arguments: dict[str, Any] = {"scores": scores, "tasks": rows.site, "labels": rows.y}
    assert_refused(words, lambda: explore(**arguments | {"classes": ["no", "yes"]} | changes))


# Figures: their files, and what the axes of each hold.


def save_figure(path: Path) -> bytes:
    figure, (axes,) = plots.create_figure(1, width=3, height=2)
    draw_boxes(axes, [np.arange(11)], whiskers=(10, 90), colours=["#123456"])
    axes.plot([0, 1], [0, 1], clip_path=axes.patch)  # SVG gives clip paths random names
    plots.save(figure, path)
    return path.read_bytes()


def test_an_svg_depends_on_the_figure_alone(tmp_path: Path) -> None:
    first = save_figure(tmp_path / "first.svg")
    assert first == save_figure(tmp_path / "second.svg")
    assert b"<dc:date>" not in first
    assert b"#123456" in first


def assess(tasks: int, classes: int, *, per_class: bool = False) -> Evaluation:
    """Return an evaluation of tasks with awkward names, of thirty examples each."""
    rng = np.random.default_rng(0)
    labels = np.arange(30 * 40) % classes
    options = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3, "per_class": per_class}
    promise = MetaPS(**options)  # type: ignore[arg-type]
    old = np.repeat([f"old {i}" for i in range(12)], 100)
    promise.calibrate(rng.random(1200), old, labels[:1200] if per_class else None)
    names = np.repeat([f"$\\alpha {i} " + "x" * 20 for i in range(tasks)], 30)
    labels = np.arange(30 * tasks) % classes
    return evaluate(promise, rng.random((30 * tasks, classes)), names, labels, allow=["labels"])


@pytest.mark.parametrize("tasks", [1, 2, 40, 41, 500])
@pytest.mark.parametrize("classes", [2, 30])
def test_an_evaluation_is_drawn(tasks: int, classes: int, tmp_path: Path) -> None:
    evaluation = assess(tasks, classes)
    figure = plots.draw_evaluation(evaluation, path=tmp_path / "tasks.png")
    errors, sets, by_class = figure.axes
    ordered = np.sort(evaluation.errors)
    assert errors.lines[0].get_ydata() == pytest.approx(ordered)
    assert len(errors.get_xticklabels()) == tasks or tasks > 40
    heights = [float(bar.get_height()) for bar in sets.patches]  # type: ignore[attr-defined]
    shares = evaluation.set_shares
    assert shares is not None
    assert (heights[0], heights[1], heights[3]) == pytest.approx(tuple(shares.values()))
    assert sum(heights) == pytest.approx(1)
    assert sum(len(np.ravel(line.get_xdata())) for line in by_class.lines) == min(classes, 20)
    assert evaluation.verdict is not None
    assert figure.get_suptitle().startswith(f"guarantee: {evaluation.verdict.status}")


def test_a_neglected_class_is_named_and_red() -> None:
    promise = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    promise.calibrate(np.random.default_rng(0).random(1200), np.repeat(np.arange(12), 100))
    labels = np.tile([0, 0, 0, 0, 1], 400)
    scores = np.where(labels[:, None] == 0, [0.9, 0.0], [0.8, 0.0])
    tasks = np.repeat([f"new {i}" for i in range(20)], 100)
    figure = plots.draw_evaluation(evaluate(promise, scores, tasks, labels, allow=["duplicates"]))
    assert figure.get_suptitle() == "guarantee: holds (class 1: 100% missed)"
    within, above = figure.axes[2].lines
    assert (within.get_xdata(), above.get_xdata()) == ([0], [1])
    assert above.get_color() == plots.LIMIT


@pytest.mark.parametrize("parameter", ["alpha", "delta", "split"])
def test_needs_are_drawn_for_every_split(parameter: str, tmp_path: Path) -> None:
    curves = {}
    for split in ("tight", "even"):
        planned = plan(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
        assert isinstance(planned, Plan)
        curves[split] = planned.curve(parameter, [0.1, 0.2, 0.4])
    path = tmp_path / "needs.svg"
    plots.draw_needs(curves, title="Needs", path=path, mark=0.2)
    content = path.read_text(encoding="utf-8")
    for text in ("Needs", "tight", "even", "minimum tasks", "minimum examples per task"):
        assert f"<!-- {text} -->" in content

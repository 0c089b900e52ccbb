"""Pilot tasks: what to expect from calibration at some levels, and the file that keeps it."""

from __future__ import annotations

import contextlib
import json
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
    BadArtefact,
    Columns,
    Exploration,
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    explore,
    open_table,
    plan,
    plots,
    read_pilot,
)
from metapac.exploration import Cell, Estimate, expected_thresholds, least_tasks
from metapac.plots import draw_pilot
from tests.helpers import oracles


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


def test_nothing_to_estimate() -> None:
    assert math.isnan(Estimate.of_ratio(np.zeros(2), np.zeros(2)).value)
    assert math.isnan(Estimate.of_ratio(np.ones(1), np.ones(1)).low)


def test_cells_survive_json(pilot: Exploration) -> None:
    for cell in pilot.cells:
        body = json.loads(json.dumps(cell.to_dict()))
        assert body["missed"] == [["no", [0.5, 0.4, 0.6]], ["yes", [None, None, None]]]
        again = Cell.from_json(body)
        assert again.to_dict() == cell.to_dict()
        assert again.thresholds == cell.thresholds
        assert again.missed["no"] == cell.missed["no"]
        assert math.isnan(again.missed["yes"].value)
    assert Cell.from_json(body | {"tasks_needed": 40}).tasks_needed == 40
    del body["tasks_needed"]  # early versions did not store it
    assert Cell.from_json(body).tasks_needed is None


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


def test_as_many_calibration_tasks_give_the_threshold_of_calibration() -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.3, delta=0.1)
    levels = np.random.default_rng(0).random((50, len(guarantee.levels)))
    ranks = guarantee.allowed_low_thresholds(50)
    expected = max(np.sort(levels[:, j])[k] for j, k in enumerate(ranks) if k >= 0)
    assert expected_thresholds(levels, guarantee, 50)[0] == expected
    assert expected_thresholds(levels, guarantee, 2)[0] == -math.inf  # nothing is supported


@pytest.mark.parametrize("delta", [0.05, None])
def test_least_tasks_are_those_of_plan(delta: float | None) -> None:
    assert least_tasks(0.1, delta) == plan(epsilon=0.1, alpha=0.1, delta=delta).tasks
    at_half = plan(epsilon=0.1, alpha=0.1, delta=delta, split=0.05).tasks
    assert least_tasks(0.1, delta, split=0.05) == at_half


def test_each_class_needs_its_share_of_delta() -> None:
    assert least_tasks(0.1, 0.05, classes=5) == least_tasks(0.1, 0.01)


def test_what_is_saved_is_read(pilot: Exploration, tmp_path: Path) -> None:
    pilot.save(tmp_path / "pilot.json")
    again = read_pilot(tmp_path / "pilot.json")
    assert again.tasks == pilot.tasks
    assert again.to_dict() == pilot.to_dict()
    assert (again.split, again.min_examples) == (0.05, 7)
    assert again.find(0.05, 0.1, per_class=True).thresholds == (-math.inf, 0.3)
    with pytest.raises(KeyError):
        again.find(0.07, 0.1)


def test_damaged_and_other_files_are_refused(pilot: Exploration, tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    pilot.save(path)
    path.write_text(path.read_text().replace("utah", "iowa"))
    with pytest.raises(BadArtefact, match="checksum"):
        read_pilot(path)
    path.write_text(json.dumps({"format": "metapac promise"}))
    with pytest.raises(BadArtefact, match="pilot file"):
        read_pilot(path)


def test_tasks_needed_are_those_of_the_split(pilot: Exploration) -> None:
    expected = {delta: least_tasks(0.1, delta, split=0.05) for delta in (0.05, 0.01, None)}
    assert pilot.tasks_needed == {0.1: expected}


def test_frame(pilot: Exploration) -> None:
    frame = pilot.to_frame()
    assert frame.shape == (4, 9)
    assert frame["missed_no"].tolist() == [0.5] * 4
    assert repr(pilot) == ("<Exploration of 2 pilot tasks with 40 examples of 2 classes: 4 cells>")


def test_a_figure_is_written(pilot: Exploration, tmp_path: Path) -> None:
    pilot.plot(tmp_path / "pilot.png")
    assert (tmp_path / "pilot.png").read_bytes().startswith(b"\x89PNG")


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
    ("changes", "word"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": []}, "epsilon"),
        ({"epsilon": "0.1"}, "epsilon"),
        ({"alpha": [0.1, 2]}, "alpha"),
        ({"delta": 0}, "delta"),
        ({"split": "wrong"}, "split"),
        ({"min_examples": -1}, "min_examples"),
        ({"min_examples": 61}, "task"),
        ({"n_tasks": 0}, "n_tasks"),
        ({"n_tasks": 2.5}, "n_tasks"),
        ({"labels": None}, "labels"),
        ({"tasks": None}, "tasks"),
        ({"tasks": ["a"] * 600}, "at least 2"),
        ({"scores": np.full((600, 2), np.nan)}, "NaN"),
        ({"scores": np.full(600, 0.5)}, "labels"),
        ({"classes": ["no"]}, "classes"),
        ({"allow": ["typo"]}, "allow"),
        ({"epsilon": [0.95], "alpha": [0.9]}, "levels"),
    ],
)
def test_bad_input(rows: pd.DataFrame, changes: dict[str, Any], word: str) -> None:
    scores = rows[["p_no", "p_yes"]].to_numpy()
    arguments: dict[str, Any] = {"scores": scores, "tasks": rows.site, "labels": rows.y}
    with pytest.raises(InvalidInput) as raised:
        explore(**arguments | {"classes": ["no", "yes"]} | changes)
    assert word in raised.value.parameters or word in str(raised.value)

"""Estimates on pilot tasks, and the file that keeps them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import BadArtefact, Guarantee, plan
from metapac.pilot import (
    Cell,
    Estimate,
    Exploration,
    expected_thresholds,
    least_tasks,
    read_pilot,
)


def make() -> Exploration:
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
    even = plan(epsilon=0.1, alpha=0.1, delta=0.05, split=make().split).tasks
    assert make().tasks_needed[0.1][0.05] == even


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    pilot = make()
    pilot.save(tmp_path / "pilot.json")
    again = read_pilot(tmp_path / "pilot.json")
    assert again.tasks == pilot.tasks
    assert again.to_json() == pilot.to_json()
    assert (again.split, again.min_examples) == (0.05, 7)
    assert again.find(0.05, 0.1, per_class=True).thresholds == (-math.inf, 0.3)
    with pytest.raises(KeyError):
        again.find(0.07, 0.1)


def test_damaged_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    make().save(path)
    path.write_text(path.read_text().replace("utah", "iowa"))
    with pytest.raises(BadArtefact, match="edited or damaged"):
        read_pilot(path)
    path.write_text(json.dumps({"format": "metapac promise"}))
    with pytest.raises(BadArtefact, match="not a metapac pilot file"):
        read_pilot(path)


def test_frame_and_figure(tmp_path: Path) -> None:
    frame = make().to_pandas()
    assert frame.shape == (4, 9)
    assert frame["missed_no"].tolist() == [0.5] * 4
    make().plot(tmp_path / "pilot.png")
    assert (tmp_path / "pilot.png").read_bytes().startswith(b"\x89PNG")

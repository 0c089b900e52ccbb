"""Estimates over pilot tasks: Student's interval, and what JSON keeps of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from metapac import Exploration
from metapac.exploration import Cell, Estimate


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
        body = json.loads(json.dumps(cell.to_json()))
        assert body["missed"] == [["no", [0.5, 0.4, 0.6]], ["yes", [None, None, None]]]
        again = Cell.from_json(body)
        assert again.to_json() == cell.to_json()
        assert again.thresholds == cell.thresholds
        assert again.missed["no"] == cell.missed["no"]
        assert math.isnan(again.missed["yes"].value)
    assert Cell.from_json(body | {"tasks_needed": 40}).tasks_needed == 40
    del body["tasks_needed"]  # early versions did not store it
    assert Cell.from_json(body).tasks_needed is None

"""Feasibility: tasks that support a guarantee, and the guarantees that they support."""

from __future__ import annotations

import math

import numpy as np
import pytest

from metapac import Guarantee
from metapac.sample_size import Demand, find_single_level


def test_tasks_of_one_size_are_counted_together() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, min_examples=10)
    demand = Demand.from_sizes(g, [30, 5, 30, 12])
    assert (demand.sizes.tolist(), demand.counts.tolist()) == ([5, 12, 30], [1, 1, 2])
    assert (demand.tasks, demand.left_out) == (3, 1)
    more = demand.with_tasks(4, 7)
    assert (more.tasks, more.left_out) == (3, 5)
    assert demand.with_parameters(min_examples=0).tasks == 4


@pytest.mark.parametrize("sizes", [[200] * 60, [12] * 60, [200] * 10, [5] * 9, [30] * 40 + [3] * 5])
@pytest.mark.parametrize("delta", [0.05, None])
def test_feasibility_agrees_with_the_spare_tasks_of_each_level(
    sizes: list[int], delta: float | None
) -> None:
    demand = Demand.from_sizes(Guarantee(epsilon=0.1, alpha=0.2, delta=delta), sizes)
    assert demand.is_feasible() == (max(demand.spare_tasks()) >= 0)


def test_without_tasks_nothing_is_feasible() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05, min_examples=10)
    assert not Demand.from_sizes(g, [5, 5]).is_feasible()


def test_a_single_level_is_found_where_one_works() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
    demand = Demand.from_sizes(g, [15] * 145)
    level = find_single_level([demand])
    assert level == pytest.approx(0.9**15, rel=1e-2)
    assert demand.with_parameters(split=level).is_feasible()
    assert find_single_level([Demand.from_sizes(g, [15] * 20)]) is None


def test_affordable_values_are_feasible() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
    demand = Demand(g, np.array([60]), np.array([40]))
    for name, value in demand.affordable()._asdict().items():
        assert 0 < value < 1
        assert demand.with_parameters(**{name: value}).is_feasible()
    assert math.isclose(demand.smallest("epsilon") or 1, demand.affordable().epsilon or 0)

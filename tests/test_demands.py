"""Feasibility: the smallest numbers that are enough, and nothing less."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, allowed_errors, demands
from metapac.demands import Demand, min_sample_size, min_tasks, round_up
from metapac.exceptions import InvalidInput

SPLITS: list[str | float] = ["joint", "tight", "even", 0.2]


@given(epsilon=st.floats(1e-6, 0.99), delta=st.floats(1e-12, 0.99), errors=st.integers(0, 200))
def test_the_minimum_sample_size_is_minimal(epsilon: float, delta: float, errors: int) -> None:
    n = min_sample_size(epsilon, delta, errors)
    assert allowed_errors(n, epsilon, delta) >= errors
    assert allowed_errors(n - 1, epsilon, delta) < errors


@settings(max_examples=25)
@given(
    alpha=st.floats(0.05, 0.5),
    delta=st.one_of(st.none(), st.floats(1e-6, 0.5)),
    few=st.integers(0, 4),
    split=st.sampled_from(SPLITS),
)
def test_the_minimum_number_of_tasks_allows_small_ones(
    alpha: float, delta: float | None, few: int, split: str | float
) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split=split)
    for level in {0, len(g.levels) // 2, len(g.levels) - 1}:
        tasks = min_tasks(g, level, few)
        assert g.allowed_low_thresholds(tasks)[level] >= few
        if len(g.levels) == 1:
            assert g.allowed_low_thresholds(tasks - 1)[level] < few


@given(value=st.floats(1e-300, 0.999))
def test_rounding_up_never_rounds_down(value: float) -> None:
    up = round_up(value)
    assert value <= up <= value * 1.011
    assert float(f"{up:.3g}") == up


@pytest.mark.parametrize("delta", [0.01, None])
@pytest.mark.parametrize("split", SPLITS)
def test_the_level_with_the_fewest_tasks(split: str | float, delta: float | None) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=delta, split=split)
    small = list(range(len(g.levels), 0, -1))  # the lowest level asks for the largest tasks
    tasks, level = demands.min_tasks_over_levels(g, small)
    by_level = [min_tasks(g, number, few) for number, few in enumerate(small)]
    assert tasks == min(by_level) == by_level[level]


@given(low=st.integers(0, 50), answer=st.integers(1, 100), extra=st.integers(0, 100))
def test_the_smallest_integer_is_found_by_bisection(low: int, answer: int, extra: int) -> None:
    target = low + answer
    assert demands.min_integer(lambda n: n >= target, low, target + extra) == target


@given(answer=st.floats(1e-300, 0.999))
def test_the_smallest_value_is_found_by_bisection(answer: float) -> None:
    value = demands.min_value(lambda x: x >= answer)
    assert value is not None
    assert answer <= value <= answer * (1 + 1e-14)


def test_no_value_may_work() -> None:
    assert demands.min_value(lambda _: False) is None


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
    level = demands.find_single_level([demand])
    assert level == pytest.approx(0.9**15, rel=1e-2)
    assert demand.with_parameters(split=level).is_feasible()
    assert demands.find_single_level([Demand.from_sizes(g, [15] * 20)]) is None


def test_a_sample_size_beyond_counting_is_an_error() -> None:
    with pytest.raises(InvalidInput, match=r"needs more than 10\*\*9 .* larger epsilon, alpha"):
        min_sample_size(1e-300, 0.05)


def test_affordable_values_are_feasible() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
    demand = Demand(g, np.array([60]), np.array([40]))
    for name, value in demand.affordable()._asdict().items():
        assert 0 < value < 1
        assert demand.with_parameters(**{name: value}).is_feasible()
    assert math.isclose(demand.smallest("epsilon") or 1, demand.affordable().epsilon or 0)

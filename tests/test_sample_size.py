"""Sample sizes: the smallest numbers that are enough, and nothing less."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, InvalidInput, allowed_errors
from metapac.sample_size import min_sample_size, min_task_size, min_tasks, min_tasks_over_levels

SPLITS: list[str | float] = ["joint", "tight", "even", 0.2]


@given(epsilon=st.floats(1e-6, 0.99), delta=st.floats(1e-12, 0.99), errors=st.integers(0, 200))
def test_the_minimum_sample_size_is_minimal(epsilon: float, delta: float, errors: int) -> None:
    n = min_sample_size(epsilon, delta, errors)
    assert allowed_errors(n, epsilon, delta) >= errors
    assert allowed_errors(n - 1, epsilon, delta) < errors


def test_a_sample_size_beyond_counting_is_an_error() -> None:
    with pytest.raises(InvalidInput, match=r"needs more than 10\*\*9 .* larger epsilon, alpha"):
        min_sample_size(1e-300, 0.05)


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


@pytest.mark.parametrize("delta", [0.01, None])
@pytest.mark.parametrize("split", SPLITS)
def test_the_level_with_the_fewest_tasks(split: str | float, delta: float | None) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=delta, split=split)
    small = list(range(len(g.levels), 0, -1))  # the lowest level asks for the largest tasks
    tasks, level = min_tasks_over_levels(g, small)
    by_level = [min_tasks(g, number, few) for number, few in enumerate(small)]
    assert tasks == min(by_level) == by_level[level]


@pytest.mark.parametrize(("minimum", "expected"), [(0, 22), (22, 22), (30, 30)])
def test_a_task_that_counts_is_not_left_out_by_its_size(minimum: int, expected: int) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight", min_examples=minimum)
    assert min_task_size(g, g.levels[0]) == expected  # 0.9 ** 22 < 0.1 < 0.9 ** 21

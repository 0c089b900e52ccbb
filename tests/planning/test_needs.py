"""Needs: every one is enough, and nothing less is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee, plan
from tests.helpers.plans import make_plan, supports

SPLITS: list[str | float] = ["joint", "tight", "even", 0.2]
small = st.floats(0.01, 0.5)


@settings(max_examples=60)
@given(
    epsilon=small,
    alpha=small,
    delta=st.one_of(st.none(), small),
    split=st.sampled_from(SPLITS),
)
def test_every_need_is_enough_and_nothing_less_is(
    epsilon: float, alpha: float, delta: float | None, split: str | float
) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    result = make_plan(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    assert (result.tasks, result.examples_per_task) == result.needs[0][:2]
    for need in result.needs:
        assert supports(g, need.tasks, need.examples_per_task)
        assert need.level in g.levels
    if len(g.levels) == 1:
        (need,) = result.needs
        assert not supports(g, need.tasks - 1, 10**6)
        assert not supports(g, 10**6, need.examples_per_task - 1)
    else:  # more tasks need fewer examples each; fewer of either is infeasible
        tasks = [need.tasks for need in result.needs]
        examples = [need.examples_per_task for need in result.needs]
        assert tasks == sorted(tasks)
        assert examples == sorted(examples, reverse=True)
        assert not supports(g, tasks[0] - 1, 10**6)
        assert not supports(g, 10**6, examples[-1] - 1)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_more_tasks_always_need_fewer_examples(alpha: float) -> None:
    needs = plan(epsilon=0.1, alpha=alpha, delta=0.05).needs
    for need, more in itertools.pairwise(needs):
        assert need.tasks < more.tasks
        assert need.examples_per_task > more.examples_per_task

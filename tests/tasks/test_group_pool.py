"""Tasks of a group pool: the draws of fixed numbers never change, choices vary, names differ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot import GroupPool
from metapac.fewshot.pools import name_task
from tests.tasks.test_class_pool import EQUAL, checksum
from tests.tasks.test_pools import groups_of, same

POOL = GroupPool(np.arange(63.0), EQUAL % 3, EQUAL)


def test_draws_of_fixed_numbers_are_those_of_the_first_release() -> None:
    assert checksum(POOL.tasks(shots=2, rng=5)) == 1314579383
    assert checksum(POOL.tasks(9, shots=2, queries=3, rng=5)) == 3226733332
    assert checksum(POOL.tasks(9, shots=[2], queries=(3,), rng=5)) == 3226733332


@given(seed=st.integers(0, 99), count=st.none() | st.integers(1, 5))
def test_a_task_of_choices_has_one_of_each(seed: int, count: int | None) -> None:
    pool = groups_of(9, 8, 12)
    tasks = pool.tasks(count, shots=[0, 4], queries=range(1, 5), rng=seed)
    for task in tasks:
        assert len(task.support) in (0, 4)
        assert 1 <= len(task.query) <= 4
        both = np.concatenate([task.support, task.query])
        assert len(np.unique(both)) == len(both)
        assert len(set(pool.groups[both])) == 1
    assert all(map(same, tasks, list(tasks)))


def test_without_queries_the_rest_of_the_group_is_queries() -> None:
    for task, members in zip(POOL.tasks(shots=[1, 5], rng=0), POOL.positions, strict=True):
        assert sorted([*task.support, *task.query]) == members.tolist()


def test_the_largest_choice_must_be_possible() -> None:
    with pytest.raises(ValueError, match=r"each group must have at least shots \+ queries = 12"):
        POOL.tasks(1, shots=[1, 8], queries=[1, 4], rng=0)


def test_names_of_several_calls_can_differ() -> None:
    names = [task.name for task in POOL.tasks(3, shots=1, rng=0, name="late")]
    assert [str(name).split("-")[0] for name in names] == ["late"] * 3
    assert [task.name for task in POOL.tasks(shots=1, rng=0, name="a")][:2] == ["a-0", "a-1"]
    assert name_task(7, None, None) == 7

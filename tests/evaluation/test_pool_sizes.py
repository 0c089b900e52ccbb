"""How many tasks and examples of its pools a study uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput
from metapac.fewshot import ClassPool, GroupPool
from metapac.fewshot.study.pool_study import (
    check_pools,
    count_queries,
    count_tasks,
    count_test_queries,
    describe_group_reuse,
    join_groups,
    largest_queries,
)


def classes(*sizes: int) -> ClassPool:
    y = np.repeat(np.arange(len(sizes)), sizes)
    return ClassPool(np.zeros((len(y), 2)), y, name="mine")


def test_the_smallest_class_decides() -> None:
    pool = classes(30, 12, 50)
    assert largest_queries(pool, 5, 100) == 7
    assert largest_queries(pool, [1, 5], 100) == 7
    assert largest_queries(pool, 5, 4) == 4
    assert count_queries(pool, 5, None) == 7
    assert count_queries(pool, 5, 3) == 3


@pytest.mark.parametrize(
    ("sizes", "shots", "least", "message"),
    [
        (
            (30, 12, 50),
            12,
            1,
            "1 of 3 classes has fewer than 13 examples (12 shots and 1 query); the "
            "smallest, 1, has 12. Leave classes with fewer than 13 examples out of the data, or "
            "pass shots=11.",
        ),
        (
            (4, 2, 50),
            [1, 5],
            2,
            "2 of 3 classes have fewer than 7 examples (5 shots and 2 queries); the "
            "smallest, 1, has 2. Leave classes with fewer than 7 examples out of the data.",
        ),
    ],
)
def test_small_classes_are_counted_and_the_remedy_helps(
    sizes: tuple[int, ...], shots: Any, least: int, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        largest_queries(classes(*sizes), shots, 100, least)
    assert str(caught.value) == message
    needed = int(np.max(shots)) + least
    assert largest_queries(classes(*(n for n in sizes if n >= needed)), shots, 100, least) > 0


def test_a_new_task_needs_an_example_for_ps_test_and_one_to_be_judged() -> None:
    sites = GroupPool(np.zeros((15, 1)), [0] * 15, ["a"] * 6 + ["b"] * 9)
    with pytest.raises(InvalidInput, match=r"^1 of 2 groups has .* the smallest, 'a', has 6\. "):
        count_test_queries(sites, 5, None, None)
    assert count_test_queries(sites, 4, None, None) == (1, 1)


def named_groups(*names: str) -> GroupPool:
    return GroupPool(np.zeros((len(names), 1)), [0] * len(names), list(names))


@pytest.mark.parametrize(
    ("given", "one_pool", "two_pools"),
    [
        ((None, None), (4, 3), (5, 2)),
        ((3, None), (3, 4), (3, 2)),
        ((6, None), (6, 1), (6, 1)),
        ((None, 1), (6, 1), (5, 1)),
        ((None, 4), (3, 4), (3, 4)),
        ((2, 2), (2, 2), (2, 2)),
    ],
)
def test_groups_used_once_are_divided(
    given: tuple[Any, Any], one_pool: tuple[int, int], two_pools: tuple[int, int]
) -> None:
    one, five, two = named_groups(*"abcdefg"), named_groups(*"abcde"), named_groups(*"fg")
    assert count_tasks(one, one, True, *given) == one_pool
    assert count_tasks(five, two, True, *given) == two_pools
    assert count_tasks(five, two, False, *given) == (given[0] or 500, given[1] or 50)


@pytest.mark.parametrize("given", [(7, None), (None, 7), (4, 4)])
def test_groups_used_once_must_suffice(given: tuple[Any, Any]) -> None:
    one, five, two = named_groups(*"abcdefg"), named_groups(*"abcde"), named_groups(*"fg")
    for pools in ((one, one), (five, two)):
        with pytest.raises(InvalidInput, match="must be at most the 7 groups, since .* got 8"):
            count_tasks(*pools, True, *given)


def test_a_note_says_how_often_a_group_is_used() -> None:
    assert describe_group_reuse(3, 500) == (
        "500 calibration tasks from 3 groups: a group is in 167 tasks on average. A guarantee "
        "calibrated on them is for these 3 groups, not for new ones. Pass distinct=True to use "
        "each group once."
    )
    assert "from 9 groups: a group may be in several tasks. A" in describe_group_reuse(9, 9)


@pytest.mark.parametrize(
    ("size", "labelled", "queries", "expected"),
    [
        (605, None, None, (20, 100)),
        (45, None, None, (10, 30)),
        (45, 5, None, (5, 35)),
        (45, None, 30, (10, 30)),
        (45, None, 40, (1, 40)),  # too many: the pool says so when tasks are drawn
        (7, None, None, (1, 1)),
        (6, 8, 9, (8, 9)),
    ],
)
def test_examples_for_ps_test_are_beside_those_that_are_judged(
    size: int, labelled: int | None, queries: int | None, expected: tuple[int, int]
) -> None:
    assert count_test_queries(classes(size, size), 5, labelled, queries) == expected


def test_pools_of_groups_are_joined() -> None:
    rng = np.random.default_rng(0)
    one = GroupPool(rng.random((6, 2)), [0, 1, 0, 1, 0, 0], ["a"] * 3 + ["b"] * 3, classes=3)
    other = GroupPool(rng.random((3, 2)), [2, 1, 0], ["c"] * 3, classes=3)
    both = join_groups(one, other)
    assert (both.names, both.classes) == (["a", "b", "c"], 3)
    np.testing.assert_array_equal(both.x, np.concatenate([one.x, other.x]))
    np.testing.assert_array_equal(both.y, np.concatenate([one.y, other.y]))


def test_joined_frames_keep_their_columns() -> None:
    table = pd.DataFrame({"age": [1.0, 2.0], "pulse": [3.0, 4.0]})
    both = join_groups(GroupPool(table, [0, 1], ["a"] * 2), GroupPool(table, [1, 0], ["b"] * 2))
    (frame, _) = (task.query_x for task in both.tasks(shots=0, rng=0))
    assert list(frame.columns) == ["age", "pulse"]


def test_pools_of_calibration_and_test_share_no_class() -> None:
    x = np.zeros((30, 1))
    one, other = ClassPool(x, np.repeat([0, 1, 2], 10)), ClassPool(x, np.repeat([2, 3, 4], 10))
    with pytest.raises(InvalidInput, match="calibration and test"):
        check_pools(one, other, distinct=False)
    check_pools(one, one, distinct=False)  # a control: the same classes on purpose

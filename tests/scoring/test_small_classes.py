"""Classes that are too small for a task: left out and named, or a remedy that works."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import InvalidInput
from metapac.fewshot import ClassPool, GroupPool
from metapac.fewshot.scored_tables import leave_out_small, most_queries


def pool(sizes: list[int]) -> ClassPool:
    y = np.repeat([f"class {i}" for i in range(len(sizes))], sizes)
    return ClassPool(np.arange(len(y)), y, name="calibration")


def shape(**more: Any) -> dict[str, Any]:
    return {"ways": 2, "shots": 3, "queries": 5, **more}


def test_a_pool_of_large_classes_is_returned_as_it_is() -> None:
    whole = pool([8, 8, 9])
    assert leave_out_small(whole, shape()) == (whole, [])


def test_small_classes_are_left_out_and_positions_kept() -> None:
    whole = pool([9, 7, 8, 1])
    message = (
        "left out 2 classes of calibration with fewer than 8 examples, the shots . queries of a "
        "task: 'class 1' with 7, 'class 3' with 1"
    )
    with pytest.warns(UserWarning, match=message):
        large, left_out = leave_out_small(whole, shape())
    assert left_out == ["class 1", "class 3"]
    assert large.names == ["class 0", "class 2"]
    assert whole.names == [f"class {i}" for i in range(4)]
    for task in large.tasks(20, **shape(), rng=0):
        for label, name in enumerate(task.class_names or ()):
            drawn = task.query[task.query_y == label]
            assert {*whole.y[drawn]} == {name}
            np.testing.assert_array_equal(task.x[drawn], drawn)


def test_choices_need_the_largest_task() -> None:
    with pytest.warns(UserWarning, match="fewer than 10 examples, .*: 'class 1' with 9"):
        _, left_out = leave_out_small(pool([10, 9, 10]), shape(shots=[1, 4], queries=range(2, 7)))
    assert left_out == ["class 1"]


def test_groups_need_one_query_by_default() -> None:
    groups = np.repeat([*"abc"], [4, 3, 9])
    sites = GroupPool(np.zeros(16), np.zeros(16, int), groups, name="test")
    with pytest.warns(UserWarning, match="left out 1 group of test .* 4 examples, .*: 'b' with 3"):
        large, _ = leave_out_small(sites, {"shots": 3, "queries": None})
    assert [task.name for task in large.tasks(shots=3, rng=0)] == ["a", "c"]
    message = (
        r"a task needs 1 group with at least shots \+ 1 = 10 examples, got 0 in test. Lower shots"
    )
    with pytest.raises(InvalidInput, match=message):
        leave_out_small(sites, {"shots": 9, "queries": None})


def test_too_few_large_classes_are_refused_with_a_remedy() -> None:
    message = (
        r"a task needs 2 classes with at least shots \+ queries = 8 examples, got 1 in "
        r"calibration\. Pass queries=3 or fewer\."
    )
    with pytest.raises(InvalidInput, match=message):
        leave_out_small(pool([9, 6, 4]), shape())
    with pytest.raises(InvalidInput, match=r"got 1 in calibration\. Lower shots\."):
        leave_out_small(pool([9, 3, 2]), shape())
    with pytest.raises(InvalidInput, match=r"got 2 in calibration\. Pass ways=2 or fewer\."):
        leave_out_small(pool([9, 9, 1]), shape(ways=3))


@given(st.lists(st.integers(1, 12), min_size=2, max_size=8), st.integers(1, 5))
def test_the_remedy_is_the_largest_that_works(sizes: list[int], shots: int) -> None:
    most = most_queries(pool(sizes), 2, shots)
    for queries in range(1, 12):
        enough = sum(size >= shots + queries for size in sizes) >= 2
        assert enough == (queries <= most)

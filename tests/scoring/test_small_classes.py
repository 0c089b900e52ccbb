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


def test_small_classes_are_left_out_and_positions_kept() -> None:
    whole = pool([9, 7, 8, 1])
    assert leave_out_small(whole, shape(shots=0, queries=1)) == (whole, [])
    with pytest.warns(UserWarning, match="2 classes .* than 8 .* 'class 1' with 7, 'class 3' with"):
        large, left_out = leave_out_small(whole, shape())
    assert (left_out, large.names) == (["class 1", "class 3"], ["class 0", "class 2"])
    assert whole.names == [f"class {i}" for i in range(4)]
    for task in large.tasks(20, **shape(), rng=0):
        for label, name in enumerate(task.class_names or ()):
            drawn = task.query[task.query_y == label]
            assert {*whole.y[drawn]} == {name}
            np.testing.assert_array_equal(task.x[drawn], drawn)
    with pytest.warns(UserWarning, match="fewer than 10 examples, .*: 'class 1' with 9"):
        leave_out_small(pool([10, 9, 10]), shape(shots=[1, 4], queries=range(2, 7)))
    groups = np.repeat([*"abc"], [4, 3, 9])
    sites = GroupPool(np.zeros(16), np.zeros(16, int), groups, name="test")
    with pytest.warns(UserWarning, match="left out 1 group of test .* 4 examples, .*: 'b' with 3"):
        large, _ = leave_out_small(sites, {"shots": 3, "queries": None})
    assert [task.name for task in large.tasks(shots=3, rng=0)] == ["a", "c"]
    with pytest.raises(InvalidInput, match=r"1 group .* 10 examples, got 0 in test. Lower shots"):
        leave_out_small(sites, {"shots": 9, "queries": None})


def test_too_few_large_classes_are_refused_with_a_remedy() -> None:
    for sizes, ways, message in (
        ([9, 6, 4], 2, r"= 8 examples, got 1 in calibration\. Pass queries=3 or fewer\."),
        ([9, 3, 2], 2, r"got 1 in calibration\. Lower shots\."),
        ([9, 9, 1], 3, r"got 2 in calibration\. Pass ways=2 or fewer\."),
    ):
        with pytest.raises(InvalidInput, match=message):
            leave_out_small(pool(sizes), shape(ways=ways))


@given(st.lists(st.integers(1, 12), min_size=2, max_size=8), st.integers(1, 5))
def test_the_remedy_is_the_largest_that_works(sizes: list[int], shots: int) -> None:
    most = most_queries(pool(sizes), 2, shots)
    for queries in range(1, 12):
        enough = sum(size >= shots + queries for size in sizes) >= 2
        assert enough == (queries <= most)

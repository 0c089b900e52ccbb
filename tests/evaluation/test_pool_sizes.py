"""How many examples of its tasks a study uses."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.evaluation.pool_sizes import (
    check_pools,
    count_queries,
    count_test_queries,
    join_groups,
    largest_queries,
)
from metapac.tasks import ClassPool, GroupPool


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
    with pytest.raises(
        ValueError, match="class of the pool 'mine' has 12 examples, which leaves no query beside"
    ):
        largest_queries(pool, 12, 100)


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


def test_pools_of_calibration_and_test_share_no_class() -> None:
    x = np.zeros((30, 1))
    one, other = ClassPool(x, np.repeat([0, 1, 2], 10)), ClassPool(x, np.repeat([2, 3, 4], 10))
    with pytest.raises(InvalidInput, match="calibration and test"):
        check_pools(one, other, distinct=False, needed=4)
    check_pools(one, one, distinct=False, needed=4)  # a control: the same classes on purpose

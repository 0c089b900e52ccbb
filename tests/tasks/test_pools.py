"""Tasks are independent and reproducible; no example is in two sets, no class in two pools."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac.fewshot import ClassPool, GroupPool, Task, split_classes, split_groups
from metapac.fewshot.pools import Pools

FALSE_ALARM = 1e-6
NAMES = ("train", "validation", "calibration", "test")


def pool_of(*sizes: int, name: str = "pool") -> ClassPool:
    """Classes 10, 11, ... of these sizes, shuffled together; x holds each example's class."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10, 10 + len(sizes)), sizes))
    return ClassPool(y[:, None] * 1.0, y, name=name)


def groups_of(*sizes: int, classes: int = 3) -> GroupPool:
    groups = np.repeat([f"site {i}" for i in range(len(sizes))], sizes)
    rng = np.random.default_rng(0)
    return GroupPool(np.arange(len(groups)), rng.integers(classes, size=len(groups)), groups)


def same(a: Task, b: Task) -> bool:
    fields = ("support", "support_y", "query", "query_y")
    return a.name == b.name and all(
        np.array_equal(getattr(a, field), getattr(b, field)) for field in fields
    )


def assert_uniform(counts: Counter[Any], cells: int) -> None:
    observed = [*counts.values(), *[0] * (cells - len(counts))]
    assert stats.chisquare(observed).pvalue > FALSE_ALARM


@given(
    sizes=st.lists(st.integers(5, 12), min_size=2, max_size=6),
    ways=st.integers(1, 2),
    shots=st.integers(0, 2),
    queries=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_a_few_shot_task_has_the_requested_shape(
    sizes: list[int], ways: int, shots: int, queries: int, seed: int
) -> None:
    pool = pool_of(*sizes)
    for task in pool.tasks(3, ways=ways, shots=shots, queries=queries, rng=seed):
        assert task.x is pool.x
        assert task.classes == ways
        both = [*task.support, *task.query]
        assert len(set(both)) == len(both) == ways * (shots + queries)
        assert task.support_y.tolist() == sorted([*range(ways)] * shots)
        assert task.query_y.tolist() == sorted([*range(ways)] * queries)
        meaning = set(zip([*task.support_y, *task.query_y], pool.y[both].tolist(), strict=True))
        assert len(meaning) == len({label for label, _ in meaning}) == ways
        assert len({name for _, name in meaning}) == ways


@given(
    sizes=st.lists(st.integers(4, 9), min_size=1, max_size=5),
    shots=st.integers(0, 2),
    queries=st.none() | st.integers(1, 2),
    count=st.none() | st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_a_group_task_stays_in_its_group(
    sizes: list[int], shots: int, queries: int | None, count: int | None, seed: int
) -> None:
    pool = groups_of(*sizes)
    tasks = pool.tasks(count, shots=shots, queries=queries, rng=seed)
    assert len(tasks) == (len(sizes) if count is None else count)
    for i, task in enumerate(tasks):
        assert (task.x is pool.x, task.classes) == (True, pool.classes)
        both = [*task.support, *task.query]
        (group,) = set(pool.groups[both].tolist())
        assert task.name == (f"site {i}" if count is None else f"{group}#{i}")
        rest = sizes[pool.names.index(group)] - shots if queries is None else queries
        assert (len(task.support), len(task.query), len(set(both))) == (shots, rest, shots + rest)
        assert np.array_equal(task.support_y, pool.y[task.support])
        assert np.array_equal(task.query_y, pool.y[task.query])


@pytest.mark.parametrize("kind", ["classes", "groups", "every group"])
def test_task_i_does_not_depend_on_the_other_tasks(kind: str) -> None:
    def draw(count: int, rng: Any = 3) -> Any:
        if kind == "classes":
            return pool_of(9, 9, 9, 9).tasks(count, ways=2, shots=1, queries=2, rng=rng)
        total = None if kind == "every group" else count
        return groups_of(*[9] * 8).tasks(total, shots=3, queries=2, rng=rng)

    tasks = draw(8)
    forward, backward = list(tasks), [tasks[i] for i in reversed(range(8))][::-1]
    assert all(map(same, forward, backward))
    assert all(map(same, forward, draw(8)))
    assert all(map(same, forward[:5], draw(5)))
    assert all(map(same, tasks[2:6:3], [forward[2], forward[5]]))
    assert same(tasks[-1], forward[7])
    assert all(map(same, forward, pickle.loads(pickle.dumps(tasks))))
    assert not all(map(same, forward, draw(8, rng=4)))
    generator = np.random.default_rng(3)
    assert not all(map(same, draw(8, generator), draw(8, generator)))
    with pytest.raises(IndexError):
        tasks[8]


def test_tasks_are_drawn_only_when_accessed() -> None:
    tasks = pool_of(600, 600).tasks(10**9, ways=2, shots=5, queries=500, rng=0)
    assert len(tasks[10**9 - 1].query) == 1000
    assert tasks[10**9 - 1].name == f"pool-{10**9 - 1}"


def test_classes_and_examples_are_drawn_independently_and_uniformly() -> None:
    pool = pool_of(4, 4, 4)
    tasks = list(pool.tasks(3000, ways=2, shots=1, queries=1, rng=0))
    drawn = [tuple(pool.y[task.support].tolist()) for task in tasks]
    assert_uniform(Counter(drawn), 6)
    assert_uniform(Counter(zip(drawn[::2], drawn[1::2], strict=True)), 36)
    of_class_10 = [
        (int(task.support[k]), int(task.query[k]))
        for task, names in zip(tasks, drawn, strict=True)
        for k in range(2)
        if names[k] == 10
    ]
    assert_uniform(Counter(of_class_10), len(list(permutations(range(4), 2))))


def test_groups_and_their_examples_are_drawn_independently_and_uniformly() -> None:
    pool = groups_of(3, 3, 3, 3, 3)
    tasks = list(pool.tasks(3000, shots=1, queries=1, rng=0))
    drawn = [str(task.name).split("#")[0] for task in tasks]
    assert_uniform(Counter(drawn), 5)
    assert_uniform(Counter(zip(drawn[::2], drawn[1::2], strict=True)), 25)
    pairs = Counter((int(task.support[0]), int(task.query[0])) for task in tasks)
    assert_uniform(pairs, 5 * 6)


def test_uniformity_check_sees_tasks_that_share_their_classes() -> None:
    pool = pool_of(4, 4, 4)
    first = pool.tasks(1, ways=2, shots=1, queries=1, rng=0)[0]
    with pytest.raises(AssertionError):
        assert_uniform(Counter([tuple(pool.y[first.support].tolist())] * 3000), 6)


def test_names_are_sorted_and_positions_follow_them() -> None:
    pool = ClassPool(np.zeros((5, 1)), ["b", "a", "b", "c", "a"])
    assert pool.names == ["a", "b", "c"]
    assert [members.tolist() for members in pool.positions] == [[1, 4], [0, 2], [3]]
    assert repr(pool) == "<ClassPool 'pool': 3 classes, 5 examples>"
    groups = GroupPool(np.zeros(3), [0, 0, 1], [7, 5, 7], name="sites")
    assert (groups.names, groups.classes) == ([5, 7], 2)
    assert repr(groups) == "<GroupPool 'sites': 2 groups, 3 examples>"


@pytest.mark.parametrize(
    "names",
    [
        np.array([3, 4, 3], dtype=np.int16),
        torch.tensor([3, 4, 3]),
        [np.int64(3), 4, 3],
        np.array([3, 4, 3], dtype=object),
    ],
)
def test_integer_names_of_any_type_are_equal(names: Any) -> None:
    assert ClassPool(np.zeros(3), names).names == [3, 4]


def test_data_may_be_a_mapped_file_a_tensor_or_a_table(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    y = np.repeat([0, 1], 5)
    np.save(tmp_path / "x.npy", y * 1.0)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    table = pd.DataFrame({"a": y * 1.0, "site": ["north"] * 5 + ["south"] * 5})
    for x in (mapped, torch.from_numpy(y * 1.0), table[["a"]]):
        (task,) = ClassPool(x, pd.Series(y)).tasks(1, ways=2, shots=2, queries=3, rng=0)
        rows = np.asarray(task.support_x).ravel()
        assert sorted(rows) == [0, 0, 1, 1]
    assert GroupPool(mapped, y, table["site"]).names == ["north", "south"]


def test_the_tasks_of_a_frame_hold_frames() -> None:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"age": np.arange(8), "sex": ["f", "m"] * 4}, index=np.arange(8) + 100)
    y, sites = [0, 1] * 4, np.repeat(["a", "b"], 4)
    parts = {"train": 1, "validation": 0, "calibration": 1, "test": 0}
    pools = split_groups(table, y, sites, **parts, rng=0)
    for pool in (GroupPool(table, y, sites), pools.train, pools.calibration):
        for task in pool.tasks(shots=1, rng=0):
            for x, labels in ((task.support_x, task.support_y), (task.query_x, task.query_y)):
                assert x.columns.tolist() == ["age", "sex"]
                assert x["age"].dtype.kind == "i"
                assert (x["age"] % 2).tolist() == labels.tolist()
    assert isinstance(pools.train.x, np.ndarray)
    assert GroupPool(table.to_numpy(), y, sites).columns is None


def test_one_is_singular() -> None:
    pool = GroupPool(np.zeros(1), [0], ["a"])
    assert repr(pool) == "<GroupPool 'pool': 1 group, 1 example>"
    assert repr(pool.tasks(shots=0, rng=0)) == "<1 task, drawn when accessed>"
    assert repr(ClassPool(np.zeros(1), ["a"])) == "<ClassPool 'pool': 1 class, 1 example>"


def test_without_shots_all_examples_are_queries() -> None:
    pool = GroupPool(np.arange(8.0), [0, 1] * 4, np.repeat(["a", "b"], 4))
    for task, rows in zip(pool.tasks(shots=0, rng=0), pool.positions, strict=True):
        assert len(task.support) == 0
        assert sorted(task.query) == rows.tolist()


def test_too_few_examples_are_counted() -> None:
    with pytest.raises(
        ValueError,
        match=r"each class must have at least shots \+ queries = 6 examples, got 11 with 5, "
        r"13 with 4\. Lower shots or queries, or leave out each class",
    ):
        pool_of(6, 5, 9, 4).tasks(1, ways=2, shots=2, queries=4, rng=0)
    with pytest.raises(ValueError, match=r"'site 4' with 1 and 2 more\. Lower"):
        groups_of(*[1] * 7).tasks(shots=1, rng=0)
    with pytest.raises(ValueError, match=r"shots \+ queries = 3 examples, got 'site 1' with 2\."):
        groups_of(3, 2).tasks(1, shots=1, queries=2, rng=0)
    with pytest.raises(ValueError, match=r"ways must be at most 2, .* got 5"):
        pool_of(9, 9).tasks(1, ways=5, shots=1, queries=1, rng=0)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, "a"], r"y must be all strings or all integers, got int \(1\) and str \('a'\)"),
        (["a", None], r"got str \('a'\) and NoneType \(None\)\. Drop examples where it is missing"),
        ([0.5, 1.0], r"y must be all strings or all integers, got float \(0\.5\)"),
        ([], "y is empty"),
        ([0, 1, 2], "y and x must have the same length, got 3 and 2"),
        (np.zeros((2, 2), int), r"y must be one-dimensional, .* got shape \(2, 2\)"),
        ("ab", r"y must be one-dimensional, .* got shape \(\)"),
    ],
)
def test_bad_class_names_are_rejected(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassPool(np.zeros((2, 1)), y)


def test_bad_labels_of_groups_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"y must hold labels 0, 1, \.\.\., got <U3\. Number them"):
        GroupPool(np.zeros(2), ["yes", "no"], [0, 1])
    with pytest.raises(ValueError, match=r"y must hold labels below classes=2, got 2\."):
        GroupPool(np.zeros(2), [0, 2], [0, 1], classes=2)
    with pytest.raises(ValueError, match="groups and x must have the same length, got 3 and 2"):
        GroupPool(np.zeros(2), [0, 1], [0, 1, 1])


@pytest.mark.parametrize("pair", list(combinations(NAMES, 2)))
def test_pools_that_share_a_class_are_rejected_by_name(pair: tuple[str, str]) -> None:
    pools = {name: ClassPool(np.zeros(2), [f"{name} a", f"{name} b"]) for name in NAMES}
    Pools(**pools)
    pools[pair[1]] = ClassPool(np.zeros(3), ["new", f"{pair[0]} b", "new"])
    message = f"{pair[0]} and {pair[1]} must not share a class, got '{pair[0]} b' in both"
    with pytest.raises(ValueError, match=rf"^{message}\. Leave it out of one of them"):
        Pools(**pools)


def test_pools_may_share_classes_if_both_have_a_transform() -> None:
    def draw(rng: np.random.Generator) -> Any:
        return lambda x, rng: x + 1

    transformed, plain = (
        ClassPool(np.zeros(2), [0, 1], transform=draw),
        ClassPool(np.zeros(2), [0, 1]),
    )
    assert Pools(train=transformed, calibration=transformed, test=transformed).test is transformed
    for pools in ({"train": transformed, "test": plain}, {"train": plain, "test": transformed}):
        with pytest.raises(ValueError, match="train and test must not share a class, got 0, 1 in"):
            Pools(**pools)


def test_pools_that_share_a_group_are_rejected_and_a_pool_may_be_absent() -> None:
    sites = groups_of(3, 3)
    message = "calibration and test must not share a group, got 'site 0', 'site 1' in both"
    with pytest.raises(ValueError, match=message):
        Pools(calibration=sites, test=sites)
    assert Pools(train=sites).calibration is None


def test_pools_of_groups_must_have_the_same_labels() -> None:
    sick = GroupPool(np.zeros(2), [0, 1], ["a", "b"])
    healthy = GroupPool(np.zeros(2), [0, 0], ["c", "d"])
    with pytest.raises(ValueError, match=r"train and test must have the same labels, got 2 and 1"):
        Pools(train=sick, test=healthy)
    Pools(train=sick, test=GroupPool(np.zeros(2), [0, 0], ["c", "d"], classes=2))


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_a_split_keeps_classes_whole(kind: Any) -> None:
    whole = pool_of(*range(3, 13))
    parts = {"train": 4, "validation": 1, "calibration": 2, "test": 2}
    pools = split_classes(kind(whole.x), whole.y, **parts, rng=5)
    seen: list[int] = []
    for name, count in parts.items():
        pool = getattr(pools, name)
        assert (pool.name, len(pool.names)) == (name, count)
        assert np.array_equal(np.asarray(pool.x)[:, 0], pool.y)
        for label, positions in zip(pool.names, pool.positions, strict=True):
            assert len(positions) == label - 10 + 3
        seen += pool.names
    assert len(set(seen)) == len(seen) == 9
    again = split_classes(whole.x, whole.y, **parts, rng=5)
    other = split_classes(whole.x, whole.y, **parts, rng=6)
    assert again.train.names == pools.train.names != other.train.names


def test_a_split_keeps_groups_whole_and_every_label() -> None:
    whole = groups_of(5, 6, 7, 8, 9)
    whole.y[:] = np.where(whole.groups == "site 3", 2, 0)
    pools = split_groups(
        whole.x, whole.y, whole.groups, train=2, validation=0, calibration=2, test=1, rng=0
    )
    assert pools.validation is None
    parts = (pools.train, pools.calibration, pools.test)
    assert sorted(name for pool in parts for name in pool.names) == whole.names
    for pool in parts:
        assert pool.classes == 3
        assert np.array_equal(pool.y, whole.y[pool.x])
        assert np.array_equal(pool.groups, whole.groups[pool.x])


@pytest.mark.parametrize("test", [3, 0])
def test_an_impossible_split_is_rejected(test: int) -> None:
    train = 1 if test else 0
    message = rf"from 1 to 3 classes, .* got train={train} \+ .* \+ test={test} = {train + test}"
    with pytest.raises(ValueError, match=message):
        split_classes(
            np.zeros(3), [1, 2, 3], train=train, validation=0, calibration=0, test=test, rng=0
        )

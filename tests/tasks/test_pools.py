"""Pools: what tasks hold, that they are independent and uniform, and that splits share nothing."""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import InvalidInput, fewshot
from metapac.fewshot import ClassPool, DomainPool, GroupPool, Task, split_classes, split_domains
from metapac.fewshot.pools import Pools, draw_all
from metapac.fewshot.tasks import TaskBatch
from tests.helpers.oracles import FALSE_ALARM

NAMES = ("train", "validation", "calibration", "test")
EQUAL = np.repeat(np.arange(7), 9)
FEW: dict[str, Any] = {"ways": 2, "shots": 1, "queries": 2}


def pool_of(*sizes: int) -> ClassPool:
    """Classes 10, 11, ... of these sizes, shuffled together; x holds each example's class."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10, 10 + len(sizes)), sizes))
    return ClassPool(y[:, None] * 1.0, y)


def groups_of(*sizes: int) -> GroupPool:
    groups = np.repeat([f"site {i}" for i in range(len(sizes))], sizes)
    y = np.random.default_rng(0).integers(3, size=len(groups))
    return GroupPool(np.arange(len(groups)), y, groups)


def domains_of(**letters: int) -> DomainPool:
    """Alphabets of so many letters, 6 examples of each; x holds the number of the alphabet."""
    domains = np.repeat([*letters], [6 * n for n in letters.values()])
    y = np.concatenate([np.repeat(np.arange(n), 6) for n in letters.values()])
    order = np.random.default_rng(0).permutation(len(y))
    return DomainPool(np.unique(domains, return_inverse=True)[1][order], y[order], domains[order])


@dataclass(frozen=True)
class Shift:
    """Adds one number to all examples of a task, and a small random one to each."""

    size: float

    @property
    def name(self) -> str:
        return f"shift {self.size:.3f}"

    def __call__(self, x: Any, rng: np.random.Generator) -> Any:
        x += self.size + 1e-6 * rng.random(x.shape)  # in place, on the task's copy
        return x


def random_shift(rng: np.random.Generator) -> Shift:
    return Shift(float(rng.integers(1, 10**6)) / 1000)


def checksum(tasks: Iterable[Task]) -> int:
    """Return a checksum of the positions, labels and names of tasks."""
    total = 0
    for task in tasks:
        for part in (task.support, task.support_y, task.query, task.query_y):
            total = zlib.crc32(np.ascontiguousarray(part, dtype=np.int64).tobytes(), total)
        total = zlib.crc32(str(task.name).encode(), total)
    return total


def classes_of(task: Task) -> tuple[Any, ...]:
    assert task.class_names is not None
    return tuple(task.class_names)


def check_classes(pool: ClassPool | DomainPool, task: Task, shots: Any, queries: Any) -> None:
    """Check a task of classes with one of the shots and one of the queries each."""
    support, query = (len(part) // task.classes for part in (task.support, task.query))
    assert task.x is pool.x
    assert support in shots
    assert query in queries
    assert task.support_y.tolist() == sorted([*range(task.classes)] * support)
    assert task.query_y.tolist() == sorted([*range(task.classes)] * query)
    both, labels = [*task.support, *task.query], [*task.support_y, *task.query_y]
    assert len(set(both)) == len(both)
    assert len(set(classes_of(task))) == task.classes
    assert pool.y[both].tolist() == [classes_of(task)[k] for k in labels]


@given(
    sizes=st.lists(st.integers(9, 12), min_size=4, max_size=6),
    ways=st.sampled_from([1, 3, [2, 4], range(2, 5)]),
    shots=st.sampled_from([0, 2, [1, 3], (3,)]),
    queries=st.sampled_from([1, 4, range(1, 6), np.array([2, 5])]),
    seed=st.integers(0, 99),
)
def test_a_task_of_classes_has_what_was_asked_for(
    sizes: list[int], ways: Any, shots: Any, queries: Any, seed: int
) -> None:
    pool = pool_of(*sizes)
    for i, task in enumerate(pool.tasks(3, ways=ways, shots=shots, queries=queries, rng=seed)):
        check_classes(pool, task, np.atleast_1d(shots), np.atleast_1d(queries))
        assert task.classes in np.atleast_1d(ways)
        assert task.name == f"pool-{i}"


@given(seed=st.integers(0, 99), count=st.none() | st.integers(0, 6))
def test_a_task_stays_in_its_domain(seed: int, count: int | None) -> None:
    pool = domains_of(greek=4, latin=5, thai=7)
    tasks = pool.tasks(count, ways=range(2, 5), shots=[1, 2], queries=[2, 4], rng=seed)
    for i, task in enumerate(tasks):
        check_classes(pool, task, [1, 2], [2, 4])
        assert set(pool.domains[[*task.support, *task.query]].tolist()) == {task.domain}
        assert task.name == (task.domain if count is None else f"{task.domain}#{i}")
    assert len(tasks) == (3 if count is None else count)
    assert count is not None or [task.domain for task in tasks] == pool.names


@given(
    sizes=st.lists(st.integers(7, 9), min_size=1, max_size=5),
    shots=st.sampled_from([0, 2, [0, 4]]),
    queries=st.sampled_from([None, 2, [1, 3]]),
    count=st.none() | st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_a_task_stays_in_its_group(
    sizes: list[int], shots: Any, queries: Any, count: int | None, seed: int
) -> None:
    pool = groups_of(*sizes)
    tasks = pool.tasks(count, shots=shots, queries=queries, rng=seed)
    assert len(tasks) == (len(sizes) if count is None else count)
    for i, task in enumerate(tasks):
        assert (task.x is pool.x, task.classes) == (True, pool.classes)
        both = [*task.support, *task.query]
        (group,) = set(pool.groups[both].tolist())
        assert task.name == (f"site {i}" if count is None else f"{group}#{i}")
        rest = sizes[pool.names.index(group)] - len(task.support)
        assert len(task.support) in np.atleast_1d(shots)
        assert len(task.query) in ([rest] if queries is None else np.atleast_1d(queries))
        assert len(set(both)) == len(both)
        assert np.array_equal([*task.support_y, *task.query_y], pool.y[both])


def test_task_i_does_not_depend_on_the_other_tasks() -> None:
    shifted = ClassPool(np.arange(27.0), np.repeat([1, 2, 3], 9), transform=random_shift)
    varied: dict[str, Any] = {"ways": [2, 3], "shots": [1, 2], "queries": range(1, 4)}
    plans: list[tuple[Any, dict[str, Any]]] = [
        (pool_of(9, 9, 9), FEW),
        (pool_of(9, 8, 9), varied),
        (shifted, FEW),
        (groups_of(*[9] * 8), {"shots": 3, "queries": 2}),
        (domains_of(a=3, b=4, c=5), varied),
    ]
    for pool, options in plans:
        tasks = pool.tasks(8, **options, rng=3)
        forward = list(tasks)
        copies: list[Sequence[Task]] = [
            [tasks[i] for i in reversed(range(8))][::-1],
            pickle.loads(pickle.dumps(tasks)),
            draw_all(tasks),
            draw_all(tasks),  # and again
            draw_all(forward),
            pool.tasks(99, **options, rng=3)[:8],
            [*tasks[:-1], tasks[-1]],
        ]
        for others in copies:
            assert checksum(others) == checksum(forward)
            for one, other in zip(others, forward, strict=True):
                assert np.array_equal(one.x, other.x)
        generator = np.random.default_rng(3)
        others = [pool.tasks(8, **options, rng=rng) for rng in (4, generator, generator, None)]
        assert len({checksum(drawn) for drawn in [tasks, *others]}) == 4  # 3 and its generator
        with pytest.raises(IndexError):
            tasks[8]
    assert draw_all(tasks)[0] is not tasks[0]


@pytest.mark.parametrize(("y", "first"), [(EQUAL, 199350339), (EQUAL[:60], 899209307)])
def test_tasks_are_those_of_the_first_release_also_in_a_batch(y: Any, first: int) -> None:
    pool = ClassPool(np.arange(float(len(y))), y, name="equal" if len(y) == 63 else "unequal")
    assert checksum(pool.tasks(20, ways=3, shots=2, queries=4, rng=5)) == first
    assert checksum(pool.tasks(20, ways=[3], shots=(2,), queries=range(4, 5), rng=5)) == first
    for shots, queries in ((2, 4), (0, 6)):
        options: dict[str, Any] = {"ways": 3, "shots": shots, "queries": queries}
        tasks = pool.tasks(150, **options, rng=5)  # more than a thread draws at a time
        together = tasks.draw()
        assert isinstance(together, TaskBatch)
        assert checksum(together) == checksum(tasks)
        assert [classes_of(task) for task in together] == [classes_of(task) for task in tasks]
        assert not pool.tasks(0, **options, rng=5).draw()
    groups = GroupPool(np.arange(63.0), EQUAL % 3, EQUAL)
    assert checksum(groups.tasks(shots=2, rng=5)) == 1314579383
    assert checksum(groups.tasks(9, shots=2, queries=(3,), rng=5)) == 3226733332


def assert_uniform(drawn: Iterable[Any], cells: int) -> None:
    counts = Counter(drawn)
    observed = [*counts.values(), *[0] * (cells - len(counts))]
    assert stats.chisquare(observed).pvalue > FALSE_ALARM


def test_classes_examples_and_choices_are_uniform_and_independent() -> None:
    pool = pool_of(4, 4, 4)
    tasks = list(pool.tasks(3000, ways=2, shots=1, queries=1, rng=0))
    drawn = [classes_of(task) for task in tasks]
    assert_uniform(drawn, 6)
    assert_uniform(zip(drawn[::2], drawn[1::2], strict=True), 36)
    both = ((t.support[k], t.query[k]) for t in tasks for k in (0, 1) if classes_of(t)[k] == 10)
    assert_uniform(both, 12)
    with pytest.raises(AssertionError):  # the check can see tasks that share their classes
        assert_uniform(drawn[:1] * 3000, 6)
    varied = pool.tasks(6000, ways=range(1, 4), shots=[1, 1, 3], queries=1, rng=0)
    sizes = [(task.classes, len(task.support) // task.classes) for task in varied]
    assert_uniform((ways for ways, _ in sizes), 3)
    assert_uniform((ways for ways, shots in sizes if shots == 3), 3)
    assert stats.binomtest(sum(s == 1 for _, s in sizes), 6000, 2 / 3).pvalue > FALSE_ALARM


def test_groups_and_their_examples_are_uniform_and_independent() -> None:
    tasks = list(groups_of(3, 3, 3, 3, 3).tasks(3000, shots=1, queries=1, rng=0))
    drawn = [str(task.name).split("#")[0] for task in tasks]
    assert_uniform(drawn, 5)
    assert_uniform(zip(drawn[::2], drawn[1::2], strict=True), 25)
    assert_uniform(((int(task.support[0]), int(task.query[0])) for task in tasks), 5 * 6)


def test_domains_are_uniform_whatever_their_size_and_so_are_their_classes() -> None:
    pool, options = domains_of(large=5, small=2), FEW | {"queries": 1, "rng": 0}
    drawn = [(task.domain, classes_of(task)) for task in pool.tasks(4000, **options)]
    assert_uniform((domain for domain, _ in drawn), 2)
    assert_uniform(((a[0], b[0]) for a, b in zip(drawn[::2], drawn[1::2], strict=True)), 4)
    pairs = [classes for domain, classes in drawn if domain == "large"]
    assert {*pairs} == {*permutations(range(5), 2)}
    assert_uniform(pairs, 20)
    # Negative control: drawing classes first would favour the alphabet with more letters.
    mixed = [classes_of(task) for task in pool.as_class_pool().tasks(4000, **options)]
    with pytest.raises(AssertionError):
        assert_uniform((a[:5] for a, b in mixed if a[:5] == b[:5]), 2)


def test_pools_list_and_name_what_they_hold() -> None:
    pool = ClassPool(np.zeros((5, 1)), ["b", "a", "b", "c", "a"])
    assert pool.names == ["a", "b", "c"]
    assert [members.tolist() for members in pool.positions] == [[1, 4], [0, 2], [3]]
    assert repr(ClassPool(np.zeros(1), ["a"])) == "<ClassPool 'pool': 1 class, 1 example>"
    groups = GroupPool(np.zeros(3), [0, 0, 1], [7, 5, 7], name="sites")
    assert (groups.names, groups.classes) == ([5, 7], 2)
    assert repr(groups) == "<GroupPool 'sites': 2 groups, 3 examples>"
    assert [task.name for task in groups.tasks(shots=0, rng=0, name="a")] == ["a-5", "a-7"]
    domains = domains_of(greek=2, latin=2)
    assert repr(domains) == "<DomainPool 'pool': 2 domains, 4 classes, 24 examples>"
    assert domains.as_class_pool().names == ["greek/0", "greek/1", "latin/0", "latin/1"]
    ints: list[Any] = [np.array([3, 4, 3], np.int16), torch.tensor([3, 4, 3]), [np.int64(3), 4, 3]]
    for names in (*ints, np.array([3, 4, 3], dtype=object), iter([3, 4, 3])):
        assert ClassPool(np.zeros(3), names).names == [3, 4]
    assert GroupPool(np.zeros(2), np.array([1, 0], object), ["a", "b"]).classes == 2


def test_data_may_be_a_mapped_file_a_tensor_or_a_frame(tmp_path: Path) -> None:
    y, sites = np.repeat([0, 1], 5), np.repeat(["north", "south"], 5)
    np.save(tmp_path / "x.npy", y * 1.0)
    mapped: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    for x in (mapped, torch.from_numpy(y * 1.0), pd.DataFrame({"a": y * 1.0})):
        (task,) = ClassPool(x, pd.Series(y)).tasks(1, ways=2, shots=2, queries=3, rng=0)
        assert sorted(np.asarray(task.support_x).ravel()) == [0, 0, 1, 1]
    frame = pd.DataFrame({"age": 2 * np.arange(10) + y, "sex": ["f", "m"] * 5}, index=range(9, 19))
    parts = {"train": 1, "validation": 0, "calibration": 1, "test": 0}
    pools = fewshot.split_groups(frame, y, sites, **parts, rng=0)
    for pool in (GroupPool(frame, y, pd.Series(sites)), pools.train, pools.calibration):
        assert isinstance(pool.x, np.ndarray)
        for task in pool.tasks(shots=1, rng=0):
            for rows, labels in ((task.support_x, task.support_y), (task.query_x, task.query_y)):
                assert rows.columns.tolist() == ["age", "sex"]
                assert (rows["age"] % 2).tolist() == labels.tolist()  # numbers again
    assert GroupPool(frame.to_numpy(), y, sites).columns is None


def test_a_transformed_task_has_a_copy_of_its_data(tmp_path: Path) -> None:
    for sizes in ((9, 9, 9), (7, 9, 8)):
        plain = pool_of(*sizes)
        np.save(tmp_path / "x.npy", 1000.0 * np.arange(len(plain.y))[:, None])
        x = np.load(tmp_path / "x.npy", mmap_mode="r")
        options: dict[str, Any] = {"ways": 2, "shots": 2, "queries": 3, "rng": 5}
        changed = ClassPool(x, plain.y, transform=random_shift).tasks(6, **options)
        for i, (task, same) in enumerate(zip(changed, plain.tasks(6, **options), strict=True)):
            assert sorted([*task.support, *task.query]) == [*range(10)]
            assert np.array_equal(task.support_x // 1000, same.support[:, None])
            assert np.array_equal(task.query_x // 1000, same.query[:, None])
            assert np.array_equal(task.query_y, same.query_y)
            assert classes_of(task) == classes_of(same)
            (shift,) = {round(value % 1000, 3) for value in task.x.ravel()}
            assert task.name == f"pool-{i}: shift {shift:.3f}"
            assert len(np.unique(task.x % 1000)) == 10
        assert len({task.name.partition(":")[2] for task in changed}) == 6  # type: ignore[union-attr]
        assert np.array_equal(x, np.load(tmp_path / "x.npy"))


def test_bad_pools_are_refused_by_name() -> None:
    two, make = np.zeros((2, 1)), ClassPool
    bad: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
        (make, (two, [1, "a"]), {}, r"y .* int \(1\) and str \('a'\)"),
        (make, (two, [0.5, 1.0]), {}, "y .* float"),
        (make, (two, []), {}, "y is empty"),
        (make, (two, [0, 1, 2]), {}, "y and x .* 3 and 2"),
        (make, (two, "ab"), {}, "y .* shape"),
        (make, (two, [0, 1]), {"transform": "noise"}, "transform .* 'noise'"),
        (GroupPool, (two, ["yes", "no"], [0, 1]), {}, "y .* <U3"),
        (GroupPool, (two, [0, 2], [0, 1]), {"classes": 2}, "y .* classes=2, got 2"),
        (GroupPool, (two, [0, 1], [0, 1, 1]), {}, "groups and x .* 3 and 2"),
        (DomainPool, (two, ["a", "b"], ["greek"]), {}, "domains and x .* 1 and 2"),
        (DomainPool, (two, ["a"], ["greek", "latin"]), {}, "y and x .* 1 and 2"),
    ]
    for kind, arguments, options, message in bad:
        with pytest.raises(InvalidInput, match=message):
            kind(*arguments, **options)
    with pytest.raises(InvalidInput, match="domains and classes .* 2 distinct names, got 1"):
        DomainPool([0, 1], ["b/c", "c"], ["a", "a/b"]).as_class_pool()


def test_impossible_tasks_are_refused_by_name() -> None:
    classes, groups = pool_of(6, 5, 9, 4), groups_of(*[1] * 7)
    domains = domains_of(greek=4, latin=2, thai=3)
    bad: list[tuple[Any, dict[str, Any], str, str]] = [
        (classes, {"ways": [2, 5]}, "ways", "at most 4, .* got 5"),
        (classes, {"queries": [1, 5]}, "shots", "class .* = 6 examples, got 11 with 5, 13 with 4"),
        (classes, {"shots": range(3)}, "shots", "mix 0"),
        (classes, {"count": -1}, "count", "count .* -1"),
        (groups, {"ways": None}, "shots", r"group .* \+ queries = 3 .*'site 4' with 1 and 2 more"),
        (groups, {"ways": None, "queries": None}, "shots", r"group .* shots \+ 1 = 2 examples"),
        (domains, {"ways": [2, 4]}, "ways", "ways = 4 classes, got 'latin' with 2, 'thai' with 3"),
        (domains, {"queries": 8}, "shots", "= 9 examples, got 'greek/0' with 6"),
        (domains, {"shots": [0, 1]}, "shots", "mix 0"),
    ]
    for value in (0, -1, 2.5, "5", None, {5}, [], range(5, 5), [0, 5], [1.5], [[5]]):
        bad.append((classes, {"queries": value}, "queries", "queries must (be|hold)"))
    for pool, changes, parameter, message in bad:
        options = {"count": 1, **FEW, "rng": 0} | changes
        if changes.get("ways", 1) is None:
            del options["ways"]
        with pytest.raises(InvalidInput, match=message) as error:
            pool.tasks(**options)
        assert parameter in error.value.parameters
    returned: list[tuple[Any, str]] = [(0.5, "transform .* got 0.5"), (cut, "'cut' .* 6 .*, got 1")]
    for transform, message in returned:
        pool = ClassPool(np.zeros(8), [0, 1] * 4, transform=lambda rng, of=transform: of)  # type: ignore[misc]
        with pytest.raises(InvalidInput, match=message):
            pool.tasks(1, **FEW, rng=0)[0]
    kept = ClassPool(np.zeros(8), [0, 1] * 4, transform=lambda rng: lambda x, rng: x)
    assert kept.tasks(2, **FEW, rng=0)[1].name == "pool-1: transform"


def cut(x: Any, rng: object) -> Any:
    return x[:1]


def test_pools_that_share_a_class_a_group_or_a_domain_are_refused() -> None:
    for first, second in combinations(NAMES, 2):
        pools: dict[str, Any] = {n: ClassPool(np.zeros(2), [f"{n} a", f"{n} b"]) for n in NAMES}
        Pools(**pools)
        pools[second] = ClassPool(np.zeros(3), ["new", f"{first} b", "new"])
        message = f"^{first} and {second} must not share a class, got '{first} b' in both"
        with pytest.raises(InvalidInput, match=message):
            Pools(**pools)
    transformed = ClassPool(np.zeros(2), [0, 1], transform=random_shift)
    assert Pools(train=transformed, calibration=transformed).test is None
    plain, sites, letters = ClassPool(np.zeros(2), [0, 1]), groups_of(3, 3), domains_of(a=2)
    alone = GroupPool(np.zeros(2), [0, 0], ["c", "d"])
    refused: list[tuple[Any, Any, str]] = [
        (transformed, plain, "class, got 0, 1"),
        (plain, transformed, "class, got 0, 1"),
        (sites, sites, "group, got 'site 0', 'site 1'"),
        (letters, letters, "domain, got 'a'"),
        (sites, alone, "same number of labels, .* got 3 and 1"),
    ]
    for one, other, message in refused:
        with pytest.raises(InvalidInput, match=f"train and test must .*{message}"):
            Pools(train=one, test=other)
    Pools(train=sites, test=GroupPool(np.zeros(2), [0, 0], ["c", "d"], classes=3))


@given(seed=st.integers(0, 99), counts=st.tuples(*[st.integers(0, 2)] * 4).filter(any))
def test_a_split_keeps_classes_and_groups_whole(
    seed: int, counts: tuple[int, int, int, int]
) -> None:
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(9), range(3, 12)))
    labels = np.where(ids == 3, 2, 0)  # a label that one group alone has
    x, sizes = np.arange(len(ids)), dict(zip(NAMES, counts, strict=True))
    splits: list[Any] = [
        split_classes(torch.from_numpy(x), ids, **sizes, rng=seed),
        fewshot.split_groups(x, labels, ids, **sizes, rng=seed),
        split_domains(x, labels, ids, **sizes, rng=seed),
    ]
    for pools in splits:
        seen: list[int] = []
        for name, pool in vars(pools).items():
            assert (pool is None) == (sizes[name] == 0)
            if pool is not None:
                rows = np.asarray(pool.x)
                assert (pool.name, len(pool.names)) == (name, sizes[name])
                assert rows.tolist() == np.flatnonzero(np.isin(ids, pool.names)).tolist()
                assert np.array_equal(pool.y, (ids if pool.unit == "class" else labels)[rows])
                assert pool.unit != "group" or pool.classes == 3
                seen += pool.names
        assert len(set(seen)) == len(seen)
    for train, test in ((8, 2), (0, 0)):
        sizes = {"train": train, "validation": 0, "calibration": 0, "test": test}
        with pytest.raises(InvalidInput, match=f"from 1 to 9 classes .* {train + test} in all"):
            split_classes(x, ids, **sizes, rng=0)

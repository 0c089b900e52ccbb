"""Tasks stay in one domain, which is drawn first; classes are those of the domain."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac.fewshot import DomainPool, GroupPool, Task, split_domains
from metapac.fewshot.pools import Pools
from tests.tasks.test_pools import same

FALSE_ALARM = 1e-6


def classes_of(task: Task) -> tuple[Any, ...]:
    assert task.class_names is not None
    return tuple(task.class_names)


def alphabets(**letters: int) -> DomainPool:
    """Alphabets of so many letters, 6 examples of each; x holds the number of the alphabet."""
    domains = np.repeat([*letters], [6 * n for n in letters.values()])
    y = np.concatenate([np.repeat(np.arange(n), 6) for n in letters.values()])
    order = np.random.default_rng(0).permutation(len(y))
    x = np.unique(domains, return_inverse=True)[1]
    return DomainPool(x[order], y[order], domains[order])


@given(seed=st.integers(0, 99), count=st.none() | st.integers(1, 6))
def test_a_task_stays_in_its_domain(seed: int, count: int | None) -> None:
    pool = alphabets(greek=4, latin=5, thai=7)
    tasks = pool.tasks(count, ways=range(2, 5), shots=[1, 2], queries=[2, 4], rng=seed)
    for i, task in enumerate(tasks):
        both = np.concatenate([task.support, task.query])
        labels = np.concatenate([task.support_y, task.query_y])
        assert len(np.unique(both)) == len(both)
        assert set(pool.domains[both].tolist()) == {task.domain}
        assert pool.y[both].tolist() == [classes_of(task)[k] for k in labels]
        assert len(set(classes_of(task))) == task.classes
        assert task.name == (task.domain if count is None else f"{task.domain}#{i}")
    if count is None:
        assert [task.domain for task in tasks] == pool.names


def test_domains_are_uniform_whatever_their_size_and_so_are_their_classes() -> None:
    pool = alphabets(large=5, small=2)
    drawn = [
        (task.domain, *classes_of(task))
        for task in pool.tasks(4000, ways=2, shots=1, queries=1, rng=0)
    ]
    domains = Counter(name for name, *_ in drawn)
    assert stats.binomtest(domains["large"], 4000, 0.5).pvalue > FALSE_ALARM
    neighbours = Counter((a[0], b[0]) for a, b in zip(drawn[::2], drawn[1::2], strict=True))
    assert stats.chisquare([*neighbours.values()]).pvalue > FALSE_ALARM
    pairs = Counter(tuple(classes) for name, *classes in drawn if name == "large")
    assert pairs.keys() == {*permutations(range(5), 2)}
    assert stats.chisquare([*pairs.values()]).pvalue > FALSE_ALARM
    # Negative control: drawing classes first would favour the alphabet with more letters.
    mixed = pool.as_class_pool().tasks(4000, ways=2, shots=1, queries=1, rng=0)
    within = Counter(
        first.split("/")[0]
        for first, second in (classes_of(task) for task in mixed)
        if first.split("/")[0] == second.split("/")[0]
    )
    assert stats.binomtest(within["large"], within.total(), 0.5).pvalue < FALSE_ALARM


def test_task_i_does_not_depend_on_the_others() -> None:
    pool = alphabets(a=3, b=4, c=5)
    arguments: dict[str, Any] = {"ways": [2, 3], "shots": 1, "queries": 2}
    tasks = pool.tasks(9, **arguments, rng=3)
    assert all(map(same, tasks, [tasks[i] for i in reversed(range(9))][::-1]))
    assert all(map(same, tasks[:4], pool.tasks(4, **arguments, rng=3)))
    assert all(map(same, tasks, pickle.loads(pickle.dumps(tasks))))
    assert pool.tasks(1, **arguments, rng=3, name="late")[0].name == f"late-{tasks[0].name}"


def test_what_a_domain_lacks_is_named() -> None:
    pool = alphabets(greek=4, latin=2, thai=3)
    with pytest.raises(
        ValueError,
        match=r"each domain must have at least ways = 4 classes, got 'latin' with 2, 'thai' with 3"
        r"\. Lower ways, or leave out each domain",
    ):
        pool.tasks(ways=[2, 4], shots=1, queries=1, rng=0)
    with pytest.raises(ValueError, match=r"= 9 examples, got 'greek/0' with 6"):
        pool.tasks(ways=2, shots=1, queries=8, rng=0)
    with pytest.raises(ValueError, match="domains and x must have the same length, got 1 and 2"):
        DomainPool([0.0, 1.0], ["a", "b"], ["greek"])


def test_classes_of_two_domains_are_different_even_with_one_name() -> None:
    pool = alphabets(greek=2, latin=2)
    assert pool.classes == [[0, 1], [0, 1]]
    assert repr(pool) == "<DomainPool 'pool': 2 domains, 4 classes, 24 examples>"
    assert pool.as_class_pool().names == ["greek/0", "greek/1", "latin/0", "latin/1"]
    with pytest.raises(ValueError, match=r"joined as 'domain/class', got 1 names for 2 classes"):
        DomainPool([0, 1], ["b/c", "c"], ["a", "a/b"]).as_class_pool()


def test_a_split_keeps_domains_whole() -> None:
    pool = alphabets(**{f"d{i}": 2 + i % 2 for i in range(7)})
    parts = {"train": 2, "validation": 0, "calibration": 3, "test": 1}
    pools = split_domains(pool.x, pool.y, pool.domains, **parts, rng=4)
    assert pools.validation is None
    seen: list[Any] = []
    for name, part in (("train", pools.train), ("calibration", pools.calibration)):
        assert part.name == name
        assert len(part.names) == parts[name]
        for domain, members in zip(part.names, part.positions, strict=True):
            assert len(members) == np.count_nonzero(pool.domains == domain)
            assert {pool.names[k] for k in part.x[members]} == {domain}
        seen += part.names
    assert not {*seen} & {*pools.test.names}
    with pytest.raises(ValueError, match="train and test must not share a domain, got 'd0'"):
        Pools(train=pool, test=pool)


def test_pools_may_hold_any_one_kind() -> None:
    groups = GroupPool(np.zeros(2), [0, 1], ["a", "b"])
    assert Pools(test=groups).test is groups

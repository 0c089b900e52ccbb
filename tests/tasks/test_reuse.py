"""The reuse of classes is counted as a slow loop counts it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot import ClassPool, DomainPool, GroupPool, Task, class_reuse
from metapac.fewshot.tasks import ClassReuse


def task_of(name: str, classes: tuple[str, ...], domain: str | None = None) -> Task:
    x = np.zeros((1, 1))
    part: dict[str, Any] = {"support": [], "support_y": [], "query": [0], "query_y": [0]}
    return Task(name, x, **part, classes=len(classes), class_names=classes, domain=domain)


@given(
    st.lists(
        st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True),
        min_size=2,
        max_size=8,
    )
)
def test_counts_are_those_of_a_loop_over_pairs(drawn: list[list[str]]) -> None:
    reuse = class_reuse([task_of(str(i), tuple(names)) for i, names in enumerate(drawn)])
    distinct = {name for names in drawn for name in names}
    pairs = [len({*a} & {*b}) for a, b in combinations(drawn, 2)]
    assert (reuse.tasks, reuse.classes) == (len(drawn), len(distinct))
    assert reuse.per_class == pytest.approx(sum(map(len, drawn)) / len(distinct))
    assert reuse.shared == pytest.approx(np.mean(pairs))


def test_classes_of_two_domains_are_different() -> None:
    tasks = [task_of("1", ("a", "b"), "greek"), task_of("2", ("a", "b"), "latin")]
    assert class_reuse(tasks) == ClassReuse(2, 4, 1.0, 0.0)
    assert class_reuse(tasks).describe() == "2 tasks from 4 classes: no class is in two tasks."
    assert class_reuse(tasks[:1]) == ClassReuse(1, 2, 1.0, 0.0)


def test_hundreds_of_tasks_from_a_handful_of_classes_are_reported() -> None:
    pool = ClassPool(np.zeros(50), np.arange(50) % 5)
    reuse = class_reuse(pool.tasks(500, ways=5, shots=1, queries=4, rng=0))
    assert reuse == ClassReuse(500, 5, 500.0, 5.0)
    assert reuse.describe() == (
        "500 tasks from 5 classes: a class is in 500 tasks on average, and two tasks share 5 "
        "classes. A guarantee calibrated on them is for new tasks of these 5 classes. For tasks "
        "of new classes, the sample is 5 classes, not 500 tasks."
    )


def test_more_classes_than_tasks_are_no_larger_sample() -> None:
    tasks = [task_of("1", ("a", "b", "c")), task_of("2", ("c", "d", "e"))]
    reuse = class_reuse(tasks)
    assert reuse.describe().endswith(
        "For tasks of new classes, the sample is smaller than 2 tasks, since some share classes."
    )


def test_domain_tasks_are_counted_too() -> None:
    pool = DomainPool(np.zeros(24), np.arange(24) % 3, np.repeat(["a", "b"], 12))
    assert class_reuse(pool.tasks(ways=3, shots=1, queries=1, rng=0)).classes == 6


def test_tasks_that_do_not_name_their_classes_are_refused() -> None:
    groups = GroupPool(np.zeros(4), [0, 1] * 2, ["a"] * 4)
    with pytest.raises(ValueError, match=r"task 'a' does not name its classes.* Pass class_names"):
        class_reuse(groups.tasks(shots=1, rng=0))
    with pytest.raises(ValueError, match="tasks is empty"):
        class_reuse([])

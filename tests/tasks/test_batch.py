"""Tasks in arrays are the tasks themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac.fewshot import ClassPool, GroupPool, Task
from metapac.fewshot.tasks import TaskBatch, batches, query_sizes

FIELDS = ("support", "support_y", "query", "query_y")
POOL = ClassPool(np.arange(70.0)[:, None], np.repeat([f"class {i}" for i in range(7)], 10))


def batch_of(count: int = 6) -> TaskBatch:
    drawn = POOL.tasks(count, ways=3, shots=2, queries=4, rng=5).draw()
    assert isinstance(drawn, TaskBatch)
    return drawn


def same_task(one: Task, other: Task) -> bool:
    return vars(one).keys() - {"domain"} <= vars(other).keys() | {"columns"} and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("name", "x", *FIELDS, "classes", "columns", "class_names", "domain")
    )


def test_a_batch_is_a_sequence_of_its_tasks() -> None:
    batch, tasks = batch_of(), list(POOL.tasks(6, ways=3, shots=2, queries=4, rng=5))
    assert len(batch) == 6
    for one, other in zip(batch, tasks, strict=True):
        assert same_task(one, other)
        assert all(getattr(one, name).flags.writeable for name in FIELDS)  # torch warns otherwise
        assert Task(**vars(one) | {"x": POOL.x}).class_names == other.class_names  # it is valid
    assert same_task(batch[-1], tasks[-1])
    with pytest.raises(IndexError):
        batch[6]
    assert [task.name for task in batch[1:3]] == ["pool-1", "pool-2"]
    assert isinstance(batch[1:3], TaskBatch)
    assert [len(part) for part in batch.split(4)] == [4, 2]
    assert [task.name for part in batch.split(4) for task in part] == [t.name for t in tasks]
    assert query_sizes(batch).tolist() == query_sizes(tasks).tolist() == [12] * 6


def test_consecutive_tasks_of_one_shape_are_stacked() -> None:
    groups = GroupPool(np.arange(60.0)[:, None], np.arange(60) % 2, np.arange(60) % 5)
    few, many = (list(groups.tasks(shots=2, queries=q, rng=0, name=str(q))) for q in (3, 4))
    tasks, checked = [*few[:2], *many[:1], *few[2:]], list[Any]()
    parts = list(batches(tasks, checked.append))
    assert [len(part) for part in parts] == [2, 1, 3]
    assert checked == tasks
    flat = [task for part in parts for task in part]
    for task, expected in zip(flat, tasks, strict=True):
        assert task.name == expected.name
        assert task.classes == 2
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(task, field), getattr(expected, field))


def test_support_examples_may_be_the_queries() -> None:
    batch = batch_of()
    for tasks in (batch, list(batch)):
        (part,) = batches(tasks, lambda task: None, query="support")
        np.testing.assert_array_equal(part.query, batch.support)
        np.testing.assert_array_equal(part.query_y, batch.support_y)
        assert part.names == batch.names


def test_one_task_of_a_batch_is_checked_and_every_task_of_a_list() -> None:
    batch = batch_of()
    for tasks, count in ((batch, 1), (list(batch), 6), (batch[:0], 0)):
        checked = list[Task]()
        list(batches(tasks, checked.append))
        assert len(checked) == count

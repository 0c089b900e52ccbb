"""Tasks of a class pool: the draws of fixed numbers never change, choices vary, names differ."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot import CallableLearner, ClassPool, Task, score_tasks
from metapac.fewshot.tasks import TaskBatch
from tests.tasks.test_pools import pool_of, same

EQUAL = np.repeat(np.arange(7), 9)


def checksum(tasks: Any) -> int:
    """Return a checksum of the positions, labels and names of tasks."""
    total = 0
    for task in tasks:
        for part in (task.support, task.support_y, task.query, task.query_y):
            total = zlib.crc32(np.ascontiguousarray(part, dtype=np.int64).tobytes(), total)
        total = zlib.crc32(str(task.name).encode(), total)
    return total


@pytest.mark.parametrize(
    ("name", "y", "expected"),
    [("equal", EQUAL, 199350339), ("unequal", EQUAL[:60], 899209307)],
)
def test_draws_of_fixed_numbers_are_those_of_the_first_release(
    name: str, y: Any, expected: int
) -> None:
    pool = ClassPool(np.arange(float(len(y))), y, name=name)
    assert checksum(pool.tasks(20, ways=3, shots=2, queries=4, rng=5)) == expected
    assert checksum(pool.tasks(20, ways=[3], shots=(2,), queries=range(4, 5), rng=5)) == expected


@given(seed=st.integers(0, 99))
def test_a_task_of_choices_has_one_of_each(seed: int) -> None:
    pool = pool_of(9, 8, 9, 9, 10)
    for task in pool.tasks(5, ways=range(2, 5), shots=[1, 3], queries=(1, 5), rng=seed):
        ways, shots, queries = (
            task.classes,
            *(len(part) // task.classes for part in (task.support, task.query)),
        )
        assert ways in (2, 3, 4)
        assert shots in (1, 3)
        assert queries in (1, 5)
        assert task.query_y.tolist() == sorted([*range(ways)] * queries)
        both = [*task.support, *task.query]
        assert len(set(both)) == len(both) == ways * (shots + queries)
        labels = [*task.support_y, *task.query_y]
        assert task.class_names is not None
        assert [task.class_names[k] for k in labels] == pool.y[both].tolist()


def test_task_i_of_choices_does_not_depend_on_the_others() -> None:
    pool = pool_of(9, 8, 9, 9)
    choices: dict[str, Any] = {"ways": [2, 4], "shots": [1, 3], "queries": range(1, 5)}
    tasks = pool.tasks(9, **choices, rng=3)
    backward = [tasks[i] for i in reversed(range(9))][::-1]
    assert all(map(same, tasks, backward))
    assert all(map(same, pool.tasks(4, **choices, rng=3), tasks[:4]))
    assert len({(task.classes, len(task.support), len(task.query)) for task in tasks}) > 3


def test_the_largest_choice_must_be_possible() -> None:
    pool = pool_of(6, 6, 6)
    with pytest.raises(ValueError, match="ways must be at most 3, the number of classes.*, got 5"):
        pool.tasks(1, ways=[2, 5], shots=1, queries=2, rng=0)
    with pytest.raises(ValueError, match=r"at least shots \+ queries = 7 examples, got 10 with 6"):
        pool.tasks(1, ways=2, shots=[1, 3], queries=[2, 4], rng=0)


def test_tasks_of_several_calls_can_be_scored_together() -> None:
    pool = pool_of(9, 9, 9)
    learner = CallableLearner(lambda support_x, support_y, x: [[0.5, 0.5]] * len(x))

    def draw(i: int, **name: str) -> Task:
        return pool.tasks(1, ways=2, shots=1, queries=2, rng=i, **name)[0]

    with pytest.raises(ValueError, match=r"tasks holds 'pool-0' more than once.* distinct name"):
        score_tasks(learner, [draw(0), draw(1)])
    _, ids = score_tasks(learner, [draw(i, name=f"draw{i}") for i in range(2)])
    assert list(dict.fromkeys(ids.tolist())) == ["draw0-0", "draw1-0"]
    assert same(draw(0, name="pool"), draw(0))  # the name changes nothing else


class Rows:
    """A map-style dataset that no library knows."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        return np.zeros(3), i % 2


def test_a_dataset_is_refused_with_the_adapter_to_use() -> None:
    torch = pytest.importorskip("torch")

    class Images(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            return torch.zeros(3), i % 2

    message = r"x must be an array, got a {}, which .* LazyArray\.from_dataset\(data{}\), with"
    loader = torch.utils.data.DataLoader(Images())
    for data, name, inner in (
        (Images(), "Images", ""),
        (loader, "DataLoader", r"\.dataset"),
        (Rows(), "Rows", ""),
    ):
        with pytest.raises(ValueError, match=message.format(name, inner)):
            ClassPool(data, [0, 1, 0, 1])


@pytest.mark.parametrize("y", [EQUAL, EQUAL[:60]], ids=["equal", "unequal"])
def test_tasks_drawn_together_are_those_drawn_one_by_one(y: Any) -> None:
    pool = ClassPool(np.arange(float(len(y))), [f"class {c}" for c in y], name="pool")
    for shots, queries in ((2, 4), (0, 6)):
        options: dict[str, Any] = {"ways": 3, "shots": shots, "queries": queries}
        tasks = pool.tasks(150, **options, rng=5)  # more than a thread draws at a time
        together = tasks.draw()
        assert isinstance(together, TaskBatch)
        assert checksum(together) == checksum(tasks)
        assert [task.class_names for task in together] == [task.class_names for task in tasks]
        assert all(task.x is pool.x for task in together)
        for count in (0, 7):
            assert checksum(pool.tasks(count, **options, rng=5).draw()) == checksum(tasks[:count])


def test_tasks_of_several_shapes_or_transformed_data_are_drawn_one_by_one() -> None:
    plain = ClassPool(np.arange(63.0)[:, None], EQUAL)
    changed = ClassPool(plain.x, EQUAL, transform=lambda rng: lambda x, rng: 2 * x)
    for pool, ways in ((plain, [2, 3]), (changed, 2)):
        tasks = pool.tasks(5, ways=ways, shots=2, queries=4, rng=0)
        together = tasks.draw()
        assert isinstance(together, list)
        assert checksum(together) == checksum(tasks)
    assert not plain.tasks(0, ways=2, shots=1, queries=1, rng=0).draw()

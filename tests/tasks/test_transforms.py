"""Transforms change the examples of one task alone, with a name of their own."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac.fewshot import ClassPool
from metapac.fewshot.drawing import apply_transform, transform_name
from tests.tasks.test_pools import pool_of, same


@dataclass(frozen=True)
class Shift:
    """Adds one number to all examples of a task, and a small random one to each."""

    size: float

    @property
    def name(self) -> str:
        return f"shift {self.size:.3f}"

    def __call__(self, images: Any, rng: np.random.Generator) -> Any:
        images += self.size + 1e-6 * rng.random(images.shape)  # in place, on the task's copy
        return images


def random_shift(rng: np.random.Generator) -> Shift:
    return Shift(float(rng.integers(1, 10**6)) / 1000)


@pytest.mark.parametrize("sizes", [(9, 9, 9), (7, 9, 8)])
def test_a_transformed_task_has_a_copy_of_its_data(sizes: tuple[int, ...], tmp_path: Path) -> None:
    plain = pool_of(*sizes, name="pool")
    np.save(tmp_path / "x.npy", 1000.0 * np.arange(len(plain.y))[:, None])
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    pool = ClassPool(x, plain.y, transform=random_shift)
    arguments: dict[str, Any] = {"ways": 2, "shots": 2, "queries": 3, "rng": 5}
    shifts = []
    for i, task in enumerate(pool.tasks(6, **arguments)):
        same_draw = plain.tasks(6, **arguments)[i]
        assert task.x.shape == (10, 1)
        assert sorted([*task.support, *task.query]) == list(range(10))
        assert np.array_equal(task.support_x // 1000, same_draw.support[:, None])
        assert np.array_equal(task.query_x // 1000, same_draw.query[:, None])
        assert np.array_equal(task.support_y, same_draw.support_y)
        assert np.array_equal(task.query_y, same_draw.query_y)
        (shift,) = {round(value % 1000, 3) for value in task.x.ravel()}
        assert task.name == f"pool-{i}: shift {shift:.3f}"
        assert len(np.unique(task.x % 1000)) == 10
        shifts.append(shift)
    assert len(set(shifts)) == 6
    assert np.array_equal(x, np.load(tmp_path / "x.npy"))


def test_a_transformed_task_does_not_depend_on_the_other_tasks() -> None:
    pool = ClassPool(np.arange(30.0), np.repeat([1, 2, 3], 10), transform=random_shift)
    arguments: dict[str, Any] = {"ways": 2, "shots": 1, "queries": 2}
    tasks = pool.tasks(5, **arguments, rng=3)
    backward = [tasks[i] for i in reversed(range(5))][::-1]
    sent = pickle.loads(pickle.dumps(tasks))
    for task, other, third in zip(pool.tasks(7, **arguments, rng=3), backward, sent, strict=False):
        assert same(task, other)
        assert np.array_equal(task.x, other.x)
        assert np.array_equal(task.x, third.x)
    assert pool.tasks(5, **arguments, rng=4)[0].name != tasks[0].name  # another shift


def test_bad_transforms_are_rejected() -> None:
    with pytest.raises(
        ValueError, match=r"transform must be a function that draws .*, got 'noise'\."
    ):
        ClassPool(np.zeros(2), [0, 1], transform="noise")  # type: ignore[arg-type]

    class First:
        name = "first"

        def __call__(self, images: Any, rng: object) -> Any:
            return images[:1]

    pool = ClassPool(np.zeros(8), [0, 1] * 4, transform=lambda rng: First())
    with pytest.raises(ValueError, match="'first' must return as many examples .*, got 1 for 6"):
        pool.tasks(1, ways=2, shots=1, queries=2, rng=0)[0]


def darken(x: Any, rng: np.random.Generator) -> Any:
    return x * rng.uniform(0.1, 0.9)


def test_a_plain_function_is_a_transform_and_lends_its_name() -> None:
    y = np.repeat([1, 2, 3], 6)
    named = ClassPool(np.arange(18.0), y, transform=lambda rng: darken)
    task = named.tasks(2, ways=2, shots=1, queries=2, rng=0)[1]
    assert task.name == "pool-1: darken"
    nameless = ClassPool(np.arange(18.0), y, transform=lambda rng: lambda x, rng: x)
    assert nameless.tasks(1, ways=2, shots=1, queries=2, rng=0)[0].name == "pool-0: transform"
    assert transform_name(Shift(2.0)) == "shift 2.000"


def test_what_a_sampler_returns_must_be_a_function() -> None:
    pool = ClassPool(np.zeros(8), [0, 1] * 4, transform=lambda rng: 0.5)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"transform must return a function of examples and .*, got 0\.5\. Pass"
    ):
        pool.tasks(1, ways=2, shots=1, queries=2, rng=0)[0]
    with pytest.raises(ValueError, match="transform 'first' must return as many examples"):
        apply_transform(_first, np.zeros(3), np.random.default_rng(0))


def _first(x: Any, rng: object) -> Any:
    return x[:1]


_first.__name__ = "first"

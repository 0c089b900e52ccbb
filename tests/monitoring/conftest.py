"""Guarantees that the tests of monitoring watch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import Context, MetaPS

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}


def draw(rng: Any, names: list[Any], examples: int = 100, *, power: float = 1.0) -> tuple[Any, Any]:
    """Return scores and tasks; a larger power means lower scores, so that more are missed."""
    return rng.random(len(names) * examples) ** power, np.repeat(names, examples)


def names(word: str, count: int) -> list[str]:
    """Return as many names of tasks, which begin alike."""
    return [f"{word} {i}" for i in range(count)]


@pytest.fixture
def rng() -> Any:
    """A new stream of numbers for each test."""
    return np.random.default_rng(1)


@pytest.fixture(scope="session")
def promise() -> MetaPS:
    scores, tasks = draw(np.random.default_rng(0), [f"old {i}" for i in range(40)])
    about = Context(unit="clinic", example="patient", trained_on=["trained"], pilot=["pilot"])
    return MetaPS(**LEVELS).calibrate(scores, tasks, context=about)


@pytest.fixture(scope="session")
def by_class() -> MetaPS:
    scores, tasks = draw(np.random.default_rng(0), [f"old {i}" for i in range(40)], 200)
    labels = np.tile(["no", "yes"], len(scores) // 2)
    levels = LEVELS | {"epsilon": {"no": 0.1, "yes": 0.2}}
    return MetaPS(**levels, per_class=True).calibrate(scores, tasks, labels)

"""Experiments that take a moment: groups and classes of a few points, an MLP, few draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metapac.fewshot import ProtoNet
from metapac.fewshot.datasets.pools import LoadedPools
from metapac.fewshot.pools import ClassPool, GroupPool, Pools
from metapac.fewshot.reproduce import run
from metapac.fewshot.reproduce.experiments import Experiment, Training
from metapac.fewshot.training import loop
from metapac.fewshot.training.loop import Recipe

TINY = Training(
    lr=1e-3, episodes_per_epoch=4, epochs=1, episodes_per_step=2, validation_tasks=4, queries=2
)
GROUPS = Experiment(
    name="sites",
    title="Sites",
    data="sites",
    backbone="mlp",
    training=TINY,
    ways=None,
    shots=6,
    calibration_examples=None,
    evaluation_examples=20,
    labelled_examples=5,
    calibration_tasks=5,
    test_tasks=3,
    tasks_from="distinct",
    draws=2,
    seeds=1,
)
CLASSES = replace(
    GROUPS,
    name="points",
    title="Points",
    data="points",
    ways=3,
    shots=3,
    calibration_examples=9,
    evaluation_examples=4,
    labelled_examples=2,
    calibration_tasks=12,
    tasks_from="pools",
)
STRONG = replace(CLASSES, training=None)
_COUNTS = {"train": 8, "validation": 4, "calibration": 8, "test": 4}


def groups(count: int = 8, size: int = 40, rng: int = 0) -> GroupPool:
    """Groups of points with two labels, which the first coordinate tells apart."""
    generator = np.random.default_rng(rng)
    y = (generator.random(count * size) < 0.4).astype(int)
    x = generator.normal(size=(count * size, 4)).astype(np.float32)
    x[:, 0] += 2 * y
    names = np.repeat([f"site {rng}-{i}" for i in range(count)], size)
    return GroupPool(x, y, names, classes=2)


def classes(
    count: int = 6, size: int = 30, rng: int = 0, transform: Callable[..., Any] | None = None
) -> ClassPool:
    """Classes of points around a mean of their own."""
    generator = np.random.default_rng(rng)
    y = np.arange(count).repeat(size)
    x = generator.normal(size=(count, 4))[y] + generator.normal(size=(count * size, 4))
    names = np.array([f"class {rng}-{i}" for i in range(count)])
    return ClassPool(x.astype(np.float32), names[y], transform=transform)


def group_pools() -> LoadedPools:
    """Return pools of groups."""
    pools = {name: groups(count, rng=i) for i, (name, count) in enumerate(_COUNTS.items())}
    return LoadedPools(Pools(**pools), "sha256:groups")


def class_pools(transform: Callable[..., Any] | None = None) -> LoadedPools:
    """Return pools of classes."""
    pools = {name: classes(rng=i, transform=transform) for i, name in enumerate(_COUNTS)}
    return LoadedPools(Pools(**pools), "sha256:classes")


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Measure learners and train Meta-CP's predictor on few tasks, and train strongly for short."""
    patch.setattr(run, "ACCURACY_TASKS", 10)
    patch.setattr(run, "QUANTILE_TASKS", 8)
    patch.setattr(run, "RANKED_TASKS", 20)
    patch.setattr(run, "VALIDATION_TASKS", 4)
    recipe = Recipe(epochs=2, batch=16, tuning_steps=4, episodes_per_step=2)
    patch.setattr(run, "recipe_for", lambda backbone: recipe)
    patch.setattr(loop, "recipe_for", lambda backbone: recipe)


def count_embedded(patch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each call of ``embed`` appends the number of its examples."""
    calls: list[int] = []
    embed = ProtoNet.embed

    def counted(self: ProtoNet, x: Any, **options: Any) -> Any:
        calls.append(len(x))
        return embed(self, x, **options)

    patch.setattr(ProtoNet, "embed", counted)
    return calls

"""Small pools and learners that train within a second by either recipe, and processes for them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metapac.fewshot import MLP, ClassPool, GroupPool, ProtoNet, Sphere, train, train_strong
from metapac.fewshot.training.loop import Epoch, History, Recipe

ROOT = Path(__file__).parents[2]


def class_pool(classes: int, seed: int, per_class: int = 20) -> ClassPool:
    """Rows of 8 numbers: two depend on the class, six are noise, three times as large."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.normal(size=(classes, 2)), per_class, axis=0)
    signal = centres + 0.2 * rng.normal(size=centres.shape)
    noise = 3 * rng.normal(size=(len(centres), 6))
    x = np.concatenate([signal, noise], axis=1)
    return ClassPool(x, np.repeat(np.arange(classes), per_class))


def group_pool(groups: int, seed: int, size: int = 30) -> GroupPool:
    """Tables of 4 columns with a rare label 1 that moves the first column, by group."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(groups * size, 4)), (rng.random(groups * size) < 0.15).astype(int)
    x[:, 0] += 2 * y
    return GroupPool(x, y, np.repeat(np.arange(groups), size), classes=2)


TRAIN, VALIDATION = class_pool(20, 0), class_pool(8, 1)
SMALL: dict[str, Any] = {"epochs": 4, "episodes_per_epoch": 12, "episodes_per_step": 4}
SMALL |= {"validation_tasks": 10, "lr": 0.01, "device": "cpu"}


def direction_pool(classes: int, seed: int) -> ClassPool:
    """Classes that differ in direction; lengths are noise, and two columns are noise."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(classes), 25)
    angle = 2 * math.pi * (y + 0.5 * seed) / classes
    x = rng.uniform(0.5, 2.0, (len(y), 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    noise = rng.normal(0, [0.1, 0.1, 2.0, 2.0], (len(y), 4))
    return ClassPool(np.pad(x, ((0, 0), (0, 2))) + noise, y)


DIRECTIONS = direction_pool(6, 0), direction_pool(6, 1)
RECIPE = Recipe(epochs=3, batch=20, warmup=5, lr=0.05, tuning_steps=120, averaged=0.5)


def small_learner(dropout: float = 0.3, rng: int = 0) -> ProtoNet:
    return ProtoNet(MLP(8, width=6, dropout=dropout, rng=rng))


def sphere_learner(dropout: float = 0.1, rng: int = 0) -> ProtoNet:
    return ProtoNet(Sphere(MLP(4, width=16, dropout=dropout, rng=rng)))


def fit(learner: Any, **options: Any) -> History:
    return train(learner, TRAIN, VALIDATION, **{**SMALL, **options})


def fit_strong(learner: Any, **options: Any) -> History:
    pools = options.pop("pools", DIRECTIONS)
    settings: dict[str, Any] = {"recipe": RECIPE, "ways": 3, "queries": 5, "device": "cpu"}
    return train_strong(learner, *pools, **{**settings, "validation_tasks": 20, **options})


def state_of(learner: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learner.module.state_dict().items()}


def identical(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_seconds(history: History) -> list[Epoch]:
    return [replace(epoch, seconds=0.0) for epoch in history.epochs]


def start_python(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "OMP_NUM_THREADS": "1",
            **environment,
        },
    )

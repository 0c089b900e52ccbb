"""Small pools and learners that train within seconds, and processes to run them in."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metapac.fewshot import MLP, ClassPool, GroupPool, ProtoNet
from metapac.fewshot.training.history import Epoch, History

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


def small_learner(dropout: float = 0.3) -> ProtoNet:
    return ProtoNet(MLP(8, width=6, dropout=dropout, rng=0))


def state_of(learner: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learner.module.state_dict().items()}


def identical(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_seconds(history: History) -> list[Epoch]:
    return [replace(epoch, seconds=0.0) for epoch in history.epochs]


def run_python(*arguments: str, **environment: str) -> str:
    process = start_python(*arguments, **environment)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


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

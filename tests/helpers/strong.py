"""A pool of directions, and the strong recipe at a size that trains within a second."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from metapac.fewshot import MLP, ClassPool, ProtoNet, Sphere, split_classes, train_strong
from metapac.fewshot.pools import Pools
from metapac.fewshot.training.history import History
from metapac.fewshot.training.strong import Recipe

RECIPE = Recipe(epochs=3, batch=20, warmup=5, lr=0.05, tuning_steps=120, averaged=0.5)


def direction_pools() -> Pools[ClassPool]:
    """Classes that differ in direction; lengths are noise, and two columns are noise."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 25)
    angle = 2 * math.pi * y / 12
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = rng.uniform(0.5, 2.0, (len(y), 1)) * direction + rng.normal(0, 0.1, (len(y), 2))
    noise = rng.normal(0, 2.0, (len(y), 2))
    columns = np.concatenate([x, noise], axis=1)
    return split_classes(columns, y, train=6, validation=3, calibration=0, test=3, rng=0)


def image_pools() -> Pools[ClassPool]:
    """Noise of 16 x 16 pixels, in six classes."""
    x = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 1), dtype=np.uint8)
    y = np.repeat(np.arange(6), 10)
    return split_classes(x, y, train=3, validation=3, calibration=0, test=0, rng=0)


def sphere_learner(rng: int = 0) -> ProtoNet:
    return ProtoNet(Sphere(MLP(4, width=16, dropout=0.1, rng=rng)))


def fit_strong(learner: Any, pools: Pools[ClassPool], **options: Any) -> History:
    settings: dict[str, Any] = {"recipe": RECIPE, "ways": 3, "queries": 5, "device": "cpu"}
    settings |= {"validation_tasks": 20}
    return train_strong(learner, pools.train, pools.validation, **settings | options)


def record_averages(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """Return a list that will hold all weights that are averaged, in order."""
    states: list[dict[str, Tensor]] = []
    update = AveragedModel.update_parameters

    def record(self: Any, module: nn.Module) -> None:
        states.append({name: tensor.clone() for name, tensor in module.state_dict().items()})
        update(self, module)

    monkeypatch.setattr(AveragedModel, "update_parameters", record)
    return states

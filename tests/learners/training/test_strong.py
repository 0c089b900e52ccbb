"""Pre-training and tuning: what is learned, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from metapac import InvalidInput
from metapac.fewshot import (
    MAML,
    MLP,
    ClassPool,
    GroupPool,
    ProtoNet,
    Sphere,
    accuracy,
    train_strong,
)
from metapac.fewshot.pools import Pools
from metapac.fewshot.training.history import Epoch
from metapac.fewshot.training.strong import Recipe
from tests.helpers.strong import direction_pools, fit_strong, image_pools, sphere_learner
from tests.helpers.training import identical, state_of


@pytest.fixture(scope="module")
def pools() -> Pools[ClassPool]:
    return direction_pools()


def test_it_learns_new_classes_and_the_scale(pools: Pools[ClassPool]) -> None:
    learner, untrained = sphere_learner(), sphere_learner()
    seen: list[Epoch] = []
    history = fit_strong(learner, pools, on_epoch=seen.append)
    assert [epoch.epoch for epoch in history.epochs] == [1, 2, 3, 4, 5]
    assert tuple(seen) == history.epochs
    assert history.epochs[2].loss < history.epochs[0].loss
    shape = {"ways": 3, "tasks": 100, "rng": 1}
    before, after = (accuracy(each, pools.test, **shape) for each in (untrained, learner))
    assert after.low > before.high
    assert isinstance(learner.module, Sphere)
    learned = float(learner.module.log_temperature.detach())
    assert learned != pytest.approx(math.log(10.0), abs=1e-3)


def test_the_weights_depend_on_rng_and_no_global_state(pools: Pools[ClassPool]) -> None:
    runs = []
    for rng, state in ((0, 1), (0, 2), (1, 2)):
        learner = sphere_learner()
        with torch.random.fork_rng():
            torch.manual_seed(state)
            before = torch.get_rng_state()
            fit_strong(learner, pools, rng=rng)
            assert torch.equal(torch.get_rng_state(), before)
        runs.append(state_of(learner))
    assert identical(runs[0], runs[1])
    assert not identical(runs[0], runs[2])


def test_a_diverging_loss_names_the_learning_rate_of_its_stage(pools: Pools[ClassPool]) -> None:
    first = Recipe(epochs=2, batch=20, warmup=0, lr=1e30)
    with pytest.raises(InvalidInput, match=r"in epoch 1 at .* diverged\. Pass a smaller lr, and"):
        fit_strong(sphere_learner(), pools, recipe=first)
    second = Recipe(epochs=1, batch=20, warmup=0, tuning_steps=20, tuning_lr=1e30)
    with pytest.raises(InvalidInput, match=r"in epoch 2 at .* diverged\. Pass a smaller tuning_lr"):
        fit_strong(sphere_learner(), pools, recipe=second)


def test_learners_and_pools_that_do_not_fit_are_refused(pools: Pools[ClassPool]) -> None:
    with pytest.raises(InvalidInput, match=r"ProtoNet on a Sphere.*got MAML"):
        fit_strong(MAML(MLP(4, rng=0), 3), pools)
    with pytest.raises(InvalidInput, match=r"Pass ProtoNet\(Sphere\(backbone\)\)"):
        fit_strong(ProtoNet(MLP(4, rng=0)), pools)
    with pytest.raises(InvalidInput, match="length of its vectors as features, got Identity"):
        fit_strong(ProtoNet(Sphere(nn.Identity())), pools)
    groups: Any = GroupPool(np.zeros((8, 4)), [0, 1] * 4, [0] * 4 + [1] * 4)
    with pytest.raises(InvalidInput, match="ClassPool without a transform"):
        train_strong(sphere_learner(), groups, groups)
    with pytest.raises(InvalidInput, match="validation_tasks must be a whole number"):
        fit_strong(sphere_learner(), pools, validation_tasks=0)


def test_a_backbone_that_takes_floats_says_so_of_bytes() -> None:
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(256, 4))
    backbone.features = 4  # type: ignore[assignment]
    recipe = Recipe(epochs=1, batch=10, tuning_steps=1)
    with pytest.raises(InvalidInput, match=r"takes floats, and the examples are uint8\. Begin its"):
        fit_strong(ProtoNet(Sphere(backbone)), image_pools(), recipe=recipe, shots=2)

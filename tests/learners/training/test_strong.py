"""Pre-training and tuning: what is learned, averaged, resumed and refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from metapac.exceptions import BadArtefact, InvalidInput
from metapac.learners import (
    MAML,
    MLP,
    Conv4,
    Epoch,
    ProtoNet,
    Recipe,
    Sphere,
    accuracy,
    train_strong,
)
from metapac.learners.training import strong
from metapac.tasks import ClassPool, GroupPool, Pools, split_classes

RECIPE = Recipe(epochs=3, batch=20, warmup=5, lr=0.05, tuning_steps=120, averaged=0.5)


@pytest.fixture
def pools() -> Pools[ClassPool]:
    """Classes that differ in direction; lengths are noise, and two columns are noise."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 25)
    angle = 2 * math.pi * y / 12
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = rng.uniform(0.5, 2.0, (len(y), 1)) * direction + rng.normal(0, 0.1, (len(y), 2))
    noise = rng.normal(0, 2.0, (len(y), 2))
    columns = np.concatenate([x, noise], axis=1)
    return split_classes(columns, y, train=6, validation=3, calibration=0, test=3, rng=0)


def learner(rng: int = 0) -> ProtoNet:
    return ProtoNet(Sphere(MLP(4, width=16, dropout=0.1, rng=rng)))


def fit(model: ProtoNet, pools: Pools[ClassPool], **options: Any) -> Any:
    settings: dict[str, Any] = {
        "recipe": RECIPE,
        "ways": 3,
        "validation_tasks": 20,
        "device": "cpu",
        "queries": 5,
    }
    return train_strong(model, pools.train, pools.validation, **settings | options)


def weights(model: ProtoNet) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.module.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_new_classes_and_the_temperature(pools: Pools[ClassPool]) -> None:
    model, untrained = learner(), learner()
    seen: list[Epoch] = []
    history = fit(model, pools, on_epoch=seen.append)
    assert [epoch.epoch for epoch in history.epochs] == [1, 2, 3, 4, 5]
    assert tuple(seen) == history.epochs
    assert history.epochs[2].loss < history.epochs[0].loss
    shape = {"ways": 3, "tasks": 100, "rng": 1}
    before, after = (accuracy(each, pools.test, **shape) for each in (untrained, model))
    assert after.low > before.high
    assert isinstance(model.module, Sphere)
    assert float(model.module.log_temperature.detach()) != pytest.approx(math.log(10.0), abs=1e-3)


def test_the_same_seed_gives_the_same_weights(pools: Pools[ClassPool]) -> None:
    runs = []
    for seed in (0, 0, 1):
        model = learner()
        fit(model, pools, rng=seed)
        runs.append(weights(model))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize("stop_after", [1, 3, 4])
def test_a_killed_run_resumes_to_the_same_weights(
    pools: Pools[ClassPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    monkeypatch.setattr(strong, "_SAVE_SECONDS", -1.0)  # after each epoch
    straight = learner()
    whole = fit(straight, pools)

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(learner(), pools, checkpoint=tmp_path, on_epoch=stop)
    resumed, seen = learner(rng=5), []
    history = fit(resumed, pools, checkpoint=tmp_path, on_epoch=lambda e: seen.append(e.epoch))
    assert seen == list(range(stop_after + 1, 6))
    assert [e.loss for e in history.epochs] == [e.loss for e in whole.epochs]
    assert same(weights(resumed), weights(straight))
    again = learner(rng=6)
    fit(again, pools, checkpoint=tmp_path)  # finished: nothing is trained, the weights are read
    assert same(weights(again), weights(straight))


def test_the_result_is_the_average_of_the_last_half_of_tuning(
    pools: Pools[ClassPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = learner()
    states: list[dict[str, Tensor]] = []
    update = AveragedModel.update_parameters

    def record(self: Any, module: nn.Module) -> None:
        states.append({k: v.clone() for k, v in module.state_dict().items()})
        update(self, module)

    monkeypatch.setattr(AveragedModel, "update_parameters", record)
    fit(model, pools)
    tuned = states[2:]  # two of the three epochs of pre-training are averaged
    assert len(states) == 2 + 7  # steps 60, 70, ..., 110 and 119 of 120
    for name, tensor in weights(model).items():
        mean = torch.stack([state[name] for state in tuned]).mean(0)
        torch.testing.assert_close(tensor, mean)


def test_batch_norms_get_the_statistics_of_the_averaged_weights() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (60, 16, 16, 1), dtype=np.uint8)
    pools = split_classes(
        x, np.repeat(np.arange(6), 10), train=3, validation=3, calibration=0, test=0, rng=0
    )
    model = ProtoNet(Sphere(Conv4(1, 16, 4, rng=0)))
    recipe = Recipe(epochs=1, batch=10, warmup=1, tuning_steps=3)
    fit(model, pools, recipe=recipe, shots=2, queries=2)
    network = model.module.backbone
    assert isinstance(network, Conv4)
    first = network.blocks[0]
    images = network.pixels(torch.from_numpy(pools.train.x))
    expected = first[0](images).detach()  # type: ignore[index]
    actual = first[1].running_mean  # type: ignore[index]
    torch.testing.assert_close(actual, expected.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)


def test_without_tuning_the_averaged_weights_of_pre_training_remain(
    pools: Pools[ClassPool],
) -> None:
    model = learner()
    history = fit(model, pools, recipe=Recipe(epochs=2, batch=20, warmup=2, tuning_steps=0))
    assert len(history.epochs) == 2
    assert isinstance(model.module, Sphere)
    assert float(model.module.log_temperature.detach()) == pytest.approx(math.log(10.0))


def test_a_diverging_loss_is_reported(pools: Pools[ClassPool]) -> None:
    recipe = Recipe(epochs=2, batch=20, warmup=0, lr=1e30)
    with pytest.raises(InvalidInput, match=r"diverged. Pass a smaller lr"):
        fit(learner(), pools, recipe=recipe)


def test_a_folder_of_another_run_is_refused(pools: Pools[ClassPool], tmp_path: Path) -> None:
    short = Recipe(epochs=1, batch=20, tuning_steps=1)
    fit(learner(), pools, checkpoint=tmp_path, recipe=short)
    other = Recipe(epochs=2, batch=20, tuning_steps=1)
    with pytest.raises(InvalidInput, match=r"made with epochs=1, and this call has epochs=2"):
        fit(learner(), pools, checkpoint=tmp_path, recipe=other)
    with pytest.raises(InvalidInput, match="rng=0, and this call has rng=3"):
        fit(learner(), pools, checkpoint=tmp_path, recipe=short, rng=3)
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BadArtefact):
        fit(learner(), pools, checkpoint=tmp_path, recipe=short)


def test_learners_and_pools_that_do_not_fit_are_refused(pools: Pools[ClassPool]) -> None:
    with pytest.raises(InvalidInput, match=r"ProtoNet on a Sphere.*got MAML"):
        fit(MAML(MLP(4, rng=0), 3), pools)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"Pass ProtoNet\(Sphere\(backbone\)\)"):
        fit(ProtoNet(MLP(4, rng=0)), pools)
    with pytest.raises(InvalidInput, match="length of its vectors as features, got Identity"):
        fit(ProtoNet(Sphere(nn.Identity())), pools)
    groups: Any = GroupPool(np.zeros((8, 4)), [0, 1] * 4, [0] * 4 + [1] * 4)
    with pytest.raises(InvalidInput, match="ClassPool without a transform"):
        train_strong(learner(), groups, groups)

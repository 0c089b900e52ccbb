"""Runs of the strong recipe: stages, averaged weights, interruptions, and other runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from metapac import BadArtefact, InvalidInput
from metapac.fewshot import ClassPool, Conv4, ProtoNet, Sphere
from metapac.fewshot.pools import Pools
from metapac.fewshot.training import checkpoints, strong
from metapac.fewshot.training.history import Epoch
from metapac.fewshot.training.loop import count_correct
from metapac.fewshot.training.strong import Pretraining, Recipe, Stage, StrongConfig, Tuning
from tests.helpers.strong import (
    RECIPE,
    direction_pools,
    fit_strong,
    image_pools,
    record_averages,
    sphere_learner,
)
from tests.helpers.training import identical, state_of, without_seconds

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def pools() -> Pools[ClassPool]:
    return direction_pools()


@pytest.mark.parametrize("stop_after", [1, 3, 4])
def test_a_killed_run_resumes_to_the_same_weights(
    pools: Pools[ClassPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    monkeypatch.setattr(strong, "_SAVE_SECONDS", -1.0)  # after each epoch
    straight = sphere_learner()
    whole = fit_strong(straight, pools)

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_strong(sphere_learner(), pools, checkpoint=tmp_path, on_epoch=stop)
    resumed, seen = sphere_learner(rng=5), list[int]()
    history = fit_strong(
        resumed, pools, checkpoint=tmp_path, on_epoch=lambda epoch: seen.append(epoch.epoch)
    )
    assert seen == list(range(stop_after + 1, 6))
    assert without_seconds(history) == without_seconds(whole)
    assert identical(state_of(resumed), state_of(straight))
    again = sphere_learner(rng=6)
    fit_strong(again, pools, checkpoint=tmp_path)  # finished: the weights are only read
    assert identical(state_of(again), state_of(straight))


def test_a_checkpoint_is_written_once_a_minute_and_at_the_end(
    pools: Pools[ClassPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = []
    write = checkpoints.write_checkpoint

    def record(folder: Path, checkpoint: checkpoints.Checkpoint) -> None:
        lengths.append(len(checkpoint.history))
        write(folder, checkpoint)

    monkeypatch.setattr(strong, "write_checkpoint", record)
    fit_strong(sphere_learner(), pools, checkpoint=tmp_path)
    assert lengths == [5]


def test_batch_norms_get_the_statistics_of_the_averaged_weights() -> None:
    pools = image_pools()
    learner = ProtoNet(Sphere(Conv4(1, 16, 4, rng=0)))
    recipe = Recipe(epochs=1, batch=10, warmup=1, tuning_steps=3)
    fit_strong(learner, pools, recipe=recipe, shots=2, queries=2)
    network = learner.module.backbone
    assert isinstance(network, Conv4)
    first = network.blocks[0]
    images = network.pixels(torch.from_numpy(pools.train.x))
    expected = first[0](images).detach()  # type: ignore[index]
    actual = first[1].running_mean  # type: ignore[index]
    torch.testing.assert_close(actual, expected.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)


class DropsBeforeNorm(nn.Sequential):
    """A backbone whose batch norm sees examples after dropout."""

    features = 8

    def __init__(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            super().__init__(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 8))


def test_statistics_after_dropout_do_not_depend_on_global_state(pools: Pools[ClassPool]) -> None:
    runs = []
    for state in (1, 2):
        learner = ProtoNet(Sphere(DropsBeforeNorm()))
        with torch.random.fork_rng():
            torch.manual_seed(state)
            before = torch.get_rng_state()
            fit_strong(learner, pools)
            assert torch.equal(torch.get_rng_state(), before)
        runs.append(state_of(learner))
    assert identical(*runs)


@pytest.mark.parametrize("steps", [0, 20, 120])
def test_the_last_accuracy_is_that_of_the_returned_weights(
    pools: Pools[ClassPool], monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    measured = []

    def record(learner: ProtoNet, *parts: Any) -> torch.Tensor:
        counts = count_correct(learner, *parts)
        measured.append((state_of(learner), float(counts[0] / counts[1])))
        return counts

    monkeypatch.setattr(strong, "count_correct", record)
    learner, recipe = sphere_learner(), replace(RECIPE, tuning_steps=steps)
    history = fit_strong(learner, pools, recipe=recipe)
    weights, accuracy = measured[-1]
    assert identical(weights, state_of(learner))
    assert history.epochs[-1].accuracy == accuracy
    assert len(measured) == len(history.epochs)


def test_a_finished_run_ends_with_the_average_whatever_weights_were_stored(
    pools: Pools[ClassPool], tmp_path: Path
) -> None:
    straight, again = sphere_learner(), sphere_learner(rng=5)
    fit_strong(straight, pools, checkpoint=tmp_path)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    last = {name: tensor + 1 for name, tensor in stored.weights.items()}
    checkpoints.write_checkpoint(tmp_path, replace(stored, weights=last))
    fit_strong(again, pools, checkpoint=tmp_path)
    assert identical(state_of(again), state_of(straight))


def test_tuning_starts_from_the_averaged_weights(
    pools: Pools[ClassPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    class Recorded(Tuning):
        def __init__(self, learner: ProtoNet, *settings: Any) -> None:
            starts.append(state_of(learner))
            super().__init__(learner, *settings)

    monkeypatch.setattr(strong, "Tuning", Recorded)
    states = record_averages(monkeypatch)
    fit_strong(sphere_learner(), pools)
    (start,) = starts
    for name, tensor in start.items():  # two of the three epochs of pre-training are averaged
        torch.testing.assert_close(tensor, torch.stack([s[name] for s in states[:2]]).mean(0))


def test_every_epoch_has_seeds_of_its_own(
    pools: Pools[ClassPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    def recorded(train: Callable[..., float]) -> Callable[..., float]:
        def train_epoch(stage: Stage, epoch: int, seed: int) -> float:
            seeds.extend([seed, torch.initial_seed()])  # of the examples, and of dropout
            return train(stage, epoch, seed)

        return train_epoch

    for kind in (Pretraining, Tuning):
        monkeypatch.setattr(kind, "train_epoch", recorded(kind.train_epoch))
    fit_strong(sphere_learner(), pools)
    assert len(seeds) == len(set(seeds)) == 10


def test_without_tuning_the_averaged_weights_of_pre_training_remain(
    pools: Pools[ClassPool],
) -> None:
    learner = sphere_learner()
    recipe = Recipe(epochs=2, batch=20, warmup=2, tuning_steps=0)
    assert len(fit_strong(learner, pools, recipe=recipe).epochs) == 2
    assert isinstance(learner.module, Sphere)
    assert float(learner.module.log_temperature.detach()) == pytest.approx(math.log(10.0))


def test_a_folder_of_another_run_is_refused(pools: Pools[ClassPool], tmp_path: Path) -> None:
    short = Recipe(epochs=1, batch=20, tuning_steps=1)
    fit_strong(sphere_learner(), pools, checkpoint=tmp_path, recipe=short)
    other = Recipe(epochs=2, batch=20, tuning_steps=1)
    with pytest.raises(InvalidInput, match=r"made with epochs=1, and this call has epochs=2"):
        fit_strong(sphere_learner(), pools, checkpoint=tmp_path, recipe=other)
    with pytest.raises(InvalidInput, match="rng=0, and this call has rng=3"):
        fit_strong(sphere_learner(), pools, checkpoint=tmp_path, recipe=short, rng=3)
    with pytest.raises(InvalidInput, match="queries=5, and this call has queries=6"):
        fit_strong(sphere_learner(), pools, checkpoint=tmp_path, recipe=short, queries=6)
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BadArtefact):
        fit_strong(sphere_learner(), pools, checkpoint=tmp_path, recipe=short)


@pytest.mark.parametrize(("part", "name"), [("weights", "head.bias"), ("best", "n_averaged")])
def test_tensors_that_do_not_fit_are_refused(
    pools: Pools[ClassPool], tmp_path: Path, part: str, name: str
) -> None:
    short = Recipe(epochs=1, batch=20, tuning_steps=0)
    fit_strong(sphere_learner(), pools, checkpoint=tmp_path, recipe=short)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    forged = {**getattr(stored, part), name: torch.zeros(3, 3)}
    changes: Any = {part: forged}
    checkpoints.write_checkpoint(tmp_path, replace(stored, **changes))
    with pytest.raises(BadArtefact, match=rf"tensor '{name}' has shape \[3, 3\], and its arch"):
        fit_strong(sphere_learner(), pools, checkpoint=tmp_path, recipe=short)


def test_a_configuration_is_recorded_as_plain_numbers() -> None:
    shape = {"ways": np.int64(5), "shots": 5, "queries": 5, "validation_tasks": np.int64(7)}
    config = StrongConfig(RECIPE, **shape, train_pool="a", validation_pool="b", rng=0)  # type: ignore[arg-type]
    recorded = config.as_dict()
    assert json.loads(json.dumps(recorded)) == recorded
    assert asdict(RECIPE).items() <= recorded.items()
    assert config.epochs == 5
    seeds = {config.seed(*key) for key in ((0,), (0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0))}
    assert len(seeds) == 7
    assert all(0 <= seed < 2**63 for seed in seeds)

"""Training against a plain loop, its options, and the accuracy it reaches."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy

from metapac.fewshot import MAML, MLP, Conv4, ProtoNet, SklearnLearner, accuracy
from metapac.fewshot.pools import ClassPool
from metapac.fewshot.training.episodes import EpisodeSampler
from metapac.fewshot.training.history import History, TrainingConfig
from metapac.fewshot.training.loop import Trainer, train
from tests.helpers.training import (
    SMALL,
    TRAIN,
    VALIDATION,
    class_pool,
    group_pool,
    identical,
    small_learner,
    state_of,
    without_seconds,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def plain_loop(
    learner: ProtoNet, epochs: int, step: int, **arguments: Any
) -> tuple[Any, list[float]]:
    """Adam on one episode after another; tasks validated one by one through ``adapt``."""
    config = TrainingConfig(**arguments)
    samplers = [
        EpisodeSampler(pool, "cpu", ways=3, shots=2, queries=4) for pool in (TRAIN, VALIDATION)
    ]
    optimiser = torch.optim.Adam(learner.module.parameters())
    accuracies: list[float] = []
    best: dict[str, Tensor] = {}
    for epoch in range(1, epochs + 1):
        for group in optimiser.param_groups:
            group["lr"] = arguments["lr"] / 2 ** ((epoch - 1) // arguments["halve_every"])
        count = arguments["episodes_per_epoch"]
        episodes = samplers[0].gather(samplers[0].draw(count, config.episodes_seed(epoch)))
        learner.module.train()
        for first in range(0, count, step):
            optimiser.zero_grad()
            for i in range(first, first + step):
                z = learner.module(episodes.support_x[i])
                prototypes = torch.stack([z[2 * way : 2 * way + 2].mean(0) for way in range(3)])
                logits = -(torch.cdist(learner.module(episodes.query_x[i]), prototypes) ** 2)
                loss = cross_entropy(logits, episodes.query_y[i]) / step
                loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        tasks = samplers[1].gather(samplers[1].draw(10, config.validation_seed()))
        right = 0
        for support_x, support_y, query_x, query_y in zip(*tasks[:-1], strict=True):
            actual = learner.adapt(support_x, support_y).predict_proba(query_x).argmax(1)
            right += int((actual == query_y.numpy()).sum())
        accuracies.append(right / (10 * 12))
        if accuracies[-1] > max([-1.0, *accuracies[:-1]]):
            best = state_of(learner)
    return best, accuracies


def test_training_gives_the_result_of_a_plain_loop() -> None:
    arguments: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 4, "episodes_per_epoch": 12}
    arguments |= {"lr": 0.02, "halve_every": 2, "validation_tasks": 10}
    learner, other = small_learner(dropout=0), small_learner(dropout=0)
    history = train(
        learner, TRAIN, VALIDATION, epochs=5, episodes_per_step=4, rng=3, device="cpu", **arguments
    )
    arguments |= {"episodes_per_step": 4, "rng": 3, "class_weights": None, "patience": None}
    best, accuracies = plain_loop(
        other, epochs=5, step=4, train_pool="", validation_pool="", **arguments
    )
    assert [epoch.lr for epoch in history.epochs] == [0.02, 0.02, 0.01, 0.01, 0.005]
    assert [epoch.accuracy for epoch in history.epochs] == pytest.approx(accuracies, abs=1e-12)
    for name, tensor in learner.module.state_dict().items():
        torch.testing.assert_close(tensor, best[name], rtol=1e-4, atol=1e-5)


def train_with_accuracies(
    accuracies: list[float], monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[History, dict[str, Tensor], list[dict[str, Tensor]]]:
    """Train with given validation results; return also the weights after each epoch."""
    results, seen = iter(accuracies), []
    monkeypatch.setattr(Trainer, "_accuracy", lambda self: next(results))
    learner = small_learner()
    history = train(
        learner,
        TRAIN,
        VALIDATION,
        **{**SMALL, "epochs": len(accuracies), **options},
        on_epoch=lambda epoch: seen.append(state_of(learner)),
    )
    return history, state_of(learner), seen


@pytest.mark.parametrize(
    ("accuracies", "best"),
    [([0.5, 0.9, 0.7], 2), ([0.5, 0.9, 0.9], 2), ([0.3, 0.2], 1), ([0.1, 0.2, 0.3], 3)],
)
def test_the_best_weights_are_kept_and_ties_go_to_the_earlier_epoch(
    accuracies: list[float], best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, final, seen = train_with_accuracies(accuracies, monkeypatch)
    assert history.best.epoch == best
    assert [identical(final, state) for state in seen] == [
        epoch.epoch == best for epoch in history.epochs
    ]


def test_patience_ends_a_run_without_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    history, _, _ = train_with_accuracies([0.5, 0.4, 0.6, 0.6, 0.1, 0.9], monkeypatch, patience=2)
    assert [epoch.accuracy for epoch in history.epochs] == [0.5, 0.4, 0.6, 0.6, 0.1]


def test_a_stopped_run_stays_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options: dict[str, Any] = {"patience": 1, "checkpoint": tmp_path}
    history, final, _ = train_with_accuracies([0.5, 0.4, 0.9], monkeypatch, **options)
    again, same, seen = train_with_accuracies([0.9, 0.9, 0.9], monkeypatch, **options)
    assert again == history
    assert not seen
    assert identical(final, same)


def test_training_depends_on_rng_and_no_global_state() -> None:
    actual = []
    for seed, noise in ((1, 0), (1, 1), (2, 0)):
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        learner = small_learner()
        history = train(learner, TRAIN, VALIDATION, rng=seed, **SMALL)
        assert torch.equal(torch.get_rng_state(), before)
        actual.append((state_of(learner), without_seconds(history)))
    assert identical(actual[0][0], actual[1][0])
    assert actual[0][1] == actual[1][1]
    assert not identical(actual[0][0], actual[2][0])


def test_an_epoch_is_rounded_up_to_whole_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    step = Trainer._step

    def counting(self: Trainer, episodes: Any) -> Tensor:
        sizes.append(len(episodes.support_y))
        return step(self, episodes)

    monkeypatch.setattr(Trainer, "_step", counting)
    options = {**SMALL, "epochs": 1, "episodes_per_epoch": 9, "episodes_per_step": 4}
    train(small_learner(), TRAIN, VALIDATION, **options)
    assert sizes == [4, 4, 4]


@pytest.mark.parametrize("rng", [0, 1, 2])
def test_seconds_of_training_are_far_better_than_chance(rng: int) -> None:
    # 5 labels: chance is 0.2, and an untrained network is misled by the noise columns.
    learner, unseen = ProtoNet(MLP(8, width=32, dropout=0, rng=rng)), class_pool(40, 7)
    assert accuracy(learner, unseen, tasks=200).value < 0.35
    options: dict[str, Any] = {"epochs": 12, "episodes_per_epoch": 80, "validation_tasks": 50}
    history = train(
        learner, class_pool(60, 8), class_pool(20, 9), lr=5e-3, rng=rng, device="cpu", **options
    )
    assert history.best.accuracy > 0.7
    assert accuracy(learner, unseen, tasks=200).value > 0.7


def test_groups_with_absent_labels_train_to_finite_weights() -> None:
    # 3 examples of a rare label: most support sets hold none of it.
    learner = ProtoNet(MLP(4, width=6, rng=0))
    options: dict[str, Any] = {"shots": 3, "queries": 6, "class_weights": [1, 10]}
    history = train(learner, group_pool(12, 0), group_pool(5, 1), **SMALL, **options)
    assert all(math.isfinite(epoch.loss) for epoch in history.epochs)
    assert all(tensor.isfinite().all() for tensor in learner.module.state_dict().values())


def test_class_weights_change_what_is_learned() -> None:
    actual = []
    for class_weights in (None, [1.0, 1.0], [1.0, 10.0]):
        learner = ProtoNet(MLP(4, width=6, rng=0))
        options: dict[str, Any] = {"shots": 10, "queries": 10, "class_weights": class_weights}
        train(learner, group_pool(12, 0), group_pool(5, 1), **SMALL, **options)
        actual.append(state_of(learner))
    assert identical(actual[0], actual[1])
    assert not identical(actual[0], actual[2])


def test_maml_trains_by_the_same_loop() -> None:
    learner = MAML(MLP(8, width=6, rng=0), classes=5, steps=2, step_size=0.1)
    before = state_of(learner)
    history = train(learner, TRAIN, VALIDATION, **SMALL)
    assert math.isfinite(history.epochs[-1].loss)
    assert not identical(before, state_of(learner))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, r"epochs must be a whole number from 1"),
        ({"episodes_per_step": 0}, r"episodes_per_step must be a whole number from 1"),
        ({"validation_tasks": 1.5}, r"validation_tasks must be a whole number"),
        ({"patience": 0}, r"patience must be a whole number from 1"),
        ({"lr": -1.0}, r"lr must be finite and positive, got -1.0"),
        ({"class_weights": [1.0, 0.0, 1, 1, 1]}, r"class_weights must be finite and positive"),
        ({"class_weights": [1.0]}, r"class_weights must hold 5 numbers, one for each label, got 1"),
        ({"shots": 18}, r"at least shots \+ queries = 23 examples"),
        ({"rng": -1}, r"rng must be a whole number from 0"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(small_learner(), TRAIN, VALIDATION, **{**SMALL, **options})


def test_learners_that_cannot_be_trained_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"learner must have a module and logits\(\).*SklearnLea"):
        train(SklearnLearner(LogisticRegression()), TRAIN, VALIDATION)  # type: ignore[arg-type]


@pytest.mark.needs_gpu
@pytest.mark.parametrize("compile", [False, True])
def test_training_on_a_gpu_is_far_better_than_chance(compile: bool) -> None:
    learner, unseen = ProtoNet(MLP(8, width=32, dropout=0, rng=0)), class_pool(40, 7)
    options: dict[str, Any] = {"epochs": 12, "episodes_per_epoch": 80, "validation_tasks": 50}
    train(
        learner,
        class_pool(60, 8),
        class_pool(20, 9),
        lr=5e-3,
        device="cuda",
        compile=compile,
        **options,
    )
    assert next(learner.module.parameters()).is_cuda
    assert accuracy(learner, unseen, tasks=200).value > 0.7


@pytest.mark.needs_gpu
def test_no_step_on_a_gpu_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid_waiting(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            torch.cuda.set_sync_debug_mode("error")
            try:
                return function(*args)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        return run

    monkeypatch.setattr(Trainer, "_step", forbid_waiting(Trainer._step))
    images = np.random.default_rng(0).integers(256, size=(80, 16, 16), dtype=np.uint8)
    pool = ClassPool(images, np.repeat(np.arange(8), 10))
    learner = ProtoNet(Conv4(channels=1, size=16, width=4, rng=0))
    history = train(learner, pool, pool, **{**SMALL, "device": "cuda"}, compile=False)
    assert history.epochs  # a step that waited would have raised

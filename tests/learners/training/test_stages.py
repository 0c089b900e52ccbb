"""The two stages of the strong recipe, epoch by epoch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from metapac.fewshot import MLP, ClassPool, ProtoNet, Sphere
from metapac.fewshot.pools import Pools
from metapac.fewshot.training.episodes import EpisodeSampler
from metapac.fewshot.training.strong import BackboneClassifier, Images, Pretraining, Recipe, Tuning
from tests.helpers.strong import direction_pools, fit_strong, record_averages, sphere_learner
from tests.helpers.training import state_of

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pools() -> Pools[ClassPool]:
    return direction_pools()


def plain_learner() -> ProtoNet:
    return ProtoNet(Sphere(MLP(4, width=16, dropout=0.0, rng=0)))


def sampler_of(pool: ClassPool) -> EpisodeSampler:
    return EpisodeSampler(pool, CPU, ways=3, shots=5, queries=5)


def pretraining_of(pool: ClassPool, learner: ProtoNet, **recipe: Any) -> Pretraining:
    images = Images(pool, learner, Recipe(**recipe), sampler_of(pool))
    return Pretraining(learner, images, seed=4, compile=None)


def test_an_epoch_of_pre_training_is_a_plain_loop(pools: Pools[ClassPool]) -> None:
    options = {"epochs": 2, "batch": 30, "warmup": 3, "lr": 0.2, "weight_decay": 0.01}
    stage = pretraining_of(pools.train, plain_learner(), **options)
    by_hand = pretraining_of(pools.train, plain_learner(), **options)
    loss = stage.train_epoch(2, seed=9)
    classifier, losses, steps = by_hand.classifier, list[Tensor](), 5
    optimiser = torch.optim.SGD(
        classifier.parameters(), 1.0, momentum=0.9, nesterov=True, weight_decay=0.01
    )
    for i, (x, y) in enumerate(by_hand.images.epoch(torch.Generator().manual_seed(9))):
        optimiser.param_groups[0]["lr"] = by_hand.recipe.learning_rate(steps + i, 2 * steps)
        optimiser.zero_grad()
        losses.append(cross_entropy(classifier(x), y))
        losses[-1].backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert len(losses) == steps
    assert loss == pytest.approx(float(torch.stack(losses).detach().mean()), rel=1e-6)
    for one, other in zip(stage.classifier.parameters(), classifier.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert stage.lr == by_hand.recipe.learning_rate(9, 10)


def test_the_linear_layer_depends_on_its_seed_alone(pools: Pools[ClassPool]) -> None:
    heads = []
    for state in (1, 2):
        with torch.random.fork_rng():
            torch.manual_seed(state)
            heads.append(pretraining_of(pools.train, plain_learner()).classifier.head.weight)
    assert torch.equal(heads[0], heads[1])


@pytest.mark.parametrize(("share", "epochs"), [(0.0, [4]), (0.5, [3, 4]), (1.0, [1, 2, 3, 4])])
def test_the_last_epochs_of_pre_training_are_averaged(
    pools: Pools[ClassPool], monkeypatch: pytest.MonkeyPatch, share: float, epochs: list[int]
) -> None:
    states = record_averages(monkeypatch)
    learner = plain_learner()
    stage = pretraining_of(pools.train, learner, epochs=4, batch=30, averaged=share)
    averaged: list[int] = []
    for epoch in range(1, 5):
        stage.train_epoch(epoch, seed=epoch)
        averaged += [epoch] * (len(states) - len(averaged))
    assert averaged == epochs
    for name, tensor in stage.average.module.state_dict().items():
        torch.testing.assert_close(tensor, torch.stack([s[name] for s in states]).mean(0))


def test_the_result_is_the_average_of_the_last_half_of_tuning(
    pools: Pools[ClassPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    states, learner = record_averages(monkeypatch), sphere_learner()
    fit_strong(learner, pools)
    tuned = states[2:]  # two of the three epochs of pre-training are averaged
    assert len(states) == 2 + 7  # steps 60, 70, ..., 110 and 119 of 120
    for name, tensor in state_of(learner).items():
        torch.testing.assert_close(tensor, torch.stack([state[name] for state in tuned]).mean(0))


def test_an_epoch_of_tuning_is_a_plain_loop(pools: Pools[ClassPool]) -> None:
    recipe = Recipe(epochs=2, tuning_steps=104, tuning_lr=0.05, episodes_per_step=2)
    learner, by_hand, sampler = plain_learner(), plain_learner(), sampler_of(pools.train)
    stage = Tuning(learner, sampler, recipe)
    loss = stage.train_epoch(4, seed=9)  # the second epoch of tuning: steps 100 to 103
    sphere, losses = by_hand.module, list[Tensor]()
    assert isinstance(sphere, Sphere)
    scale = [sphere.log_temperature]
    optimiser = torch.optim.SGD(
        [
            {"params": [*sphere.backbone.parameters()], "weight_decay": recipe.weight_decay},
            {"params": scale, "lr": 0.01},
        ],
        lr=1.0,
        momentum=0.9,
    )
    drawn = sampler.draw(8, 9)
    for i in range(4):
        optimiser.param_groups[0]["lr"] = recipe.tuning_rate(100 + i)
        support_x, support_y, query_x, query_y, _ = sampler.gather(drawn.part(2 * i, 2 * i + 2))
        logits = by_hand.logits(support_x, support_y, query_x, classes=3)
        losses.append(cross_entropy(logits.flatten(0, 1), query_y.flatten()))
        optimiser.zero_grad()
        losses[-1].backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert loss == pytest.approx(float(torch.stack(losses).detach().mean()), rel=1e-5)
    for name, tensor in learner.module.state_dict().items():
        torch.testing.assert_close(tensor, sphere.state_dict()[name])
    assert stage.lr == recipe.tuning_rate(103)


def test_a_classifier_shares_the_backbone() -> None:
    backbone = MLP(3, width=5, rng=0)
    classifier = BackboneClassifier(backbone, 7, CPU)
    assert classifier.backbone is backbone
    assert classifier(torch.zeros(2, 3)).shape == (2, 7)

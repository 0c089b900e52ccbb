"""MAML against finite differences and against plain gradient descent on a copy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from metapac.fewshot import MAML, Conv4
from metapac.fewshot.learners.maml import Classifier


class Tiny(nn.Sequential):
    """A smooth network, so that finite differences meet no kink."""

    def __init__(self, *layers: nn.Module, features: int) -> None:
        super().__init__(*layers)
        self.features = features


def table() -> Tiny:
    return Tiny(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh(), features=3)


def image() -> Tiny:
    layers = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten()
    return Tiny(*layers, features=8)


SHAPES: dict[Any, tuple[int, ...]] = {table: (3,), image: (1, 4, 4)}
KINDS = pytest.mark.parametrize("kind", [table, image])


def learner(kind: Any, **options: Any) -> MAML:
    """A MAML in float64 whose weights, including those of the head, are far from zero."""
    maml = MAML(kind(), classes=3, **options)
    maml.module.double()
    generator = torch.Generator().manual_seed(0)
    for weight in maml.module.parameters():
        weight.data = 0.7 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return maml


def episodes(kind: Any, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two episodes of 5 support examples and 4 queries; label 1 is absent from the second."""
    rng = np.random.default_rng(seed)
    support, query = (torch.tensor(rng.normal(size=(2, n, *SHAPES[kind]))) for n in (5, 4))
    labels = torch.tensor([[0, 1, 2, 2, 0], [0, 2, 2, 2, 0]])
    return support, labels, query, torch.tensor([[0, 1, 2, 1], [0, 2, 0, 2]])


def query_loss(maml: MAML, kind: Any) -> Tensor:
    support, labels, query, truth = episodes(kind)
    logits = maml.logits(support, labels, query, classes=3)
    return cross_entropy(logits.flatten(0, 1), truth.flatten())


def meta_gradient(maml: MAML, kind: Any) -> Tensor:
    weights = list(maml.module.parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(query_loss(maml, kind), weights)])


def finite_differences(maml: MAML, kind: Any, step: float = 1e-5) -> Tensor:
    """The derivative of the query loss by each weight, one weight at a time."""
    derivatives = []
    for weight in maml.module.parameters():
        flat = weight.data.view(-1)
        for i, value in enumerate(flat.tolist()):
            losses = []
            for moved in (value + step, value - step):
                flat[i] = moved
                losses.append(query_loss(maml, kind).item())
            flat[i] = value
            derivatives.append((losses[0] - losses[1]) / (2 * step))
    return torch.tensor(derivatives, dtype=torch.float64)


def descend(maml: MAML, x: Tensor, y: Tensor) -> Classifier:
    """A copy of the model after plain gradient descent on one support set."""
    model = copy.deepcopy(maml.module)
    assert isinstance(model, Classifier)
    present = torch.zeros(maml.classes, dtype=torch.bool)
    present[y] = True
    for _ in range(maml.steps):
        model.zero_grad()
        loss = cross_entropy(model(x, len(x))[:, present], torch.cumsum(present, 0)[y] - 1)
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for weight in model.parameters():
                assert weight.grad is not None
                weight.sub_(maml.step_size * weight.grad)
    return model


@KINDS
@pytest.mark.parametrize("steps", [1, 3])
def test_second_order_meta_gradient_is_the_finite_difference(kind: Any, steps: int) -> None:
    maml = learner(kind, steps=steps, step_size=0.3)
    slow = finite_differences(maml, kind)
    assert slow.abs().max() > 0.1
    torch.testing.assert_close(meta_gradient(maml, kind), slow, rtol=1e-6, atol=1e-8)


@KINDS
def test_first_order_is_the_gradient_at_the_adapted_weights_and_not_the_true_one(kind: Any) -> None:
    maml = learner(kind, steps=3, step_size=0.3, second_order=False)
    support, labels, query, truth = episodes(kind)
    mean = torch.zeros_like(meta_gradient(maml, kind))
    for x, y, q, t in zip(support, labels, query, truth, strict=True):
        model = descend(maml, x, y)
        every = model(torch.cat([x, q]), len(x))[len(x) :]
        present = torch.isin(torch.arange(3), y)
        loss = cross_entropy(every.masked_fill(~present, -torch.inf), t)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        mean += torch.cat([g.flatten() for g in grads]) / len(labels)
    actual = meta_gradient(maml, kind)
    torch.testing.assert_close(actual, mean, rtol=1e-9, atol=1e-12)
    difference = (actual - finite_differences(maml, kind)).norm() / mean.norm()
    assert difference > 0.05


@KINDS
def test_adapting_is_gradient_descent_in_a_batch_of_episodes_too(kind: Any) -> None:
    maml = learner(kind, steps=4, step_size=0.2)
    support, labels, query, _ = episodes(kind)
    batched = maml.logits(support, labels, query, classes=3).softmax(-1)
    for i, (x, y, q) in enumerate(zip(support, labels, query, strict=True)):
        model = descend(maml, x, y)
        slow = model(torch.cat([x, q]), len(x))[len(x) :]
        slow = slow.masked_fill(~torch.isin(torch.arange(3), y), -torch.inf).softmax(-1).detach()
        torch.testing.assert_close(batched[i].detach(), slow, rtol=1e-10, atol=1e-12)
        alone = maml.adapt(x.numpy(), y, classes=3).predict_proba(q)
        np.testing.assert_allclose(alone, slow, atol=1e-6)


def test_adapting_changes_neither_learner_nor_backbone() -> None:
    backbone = Conv4(1, 16, 4, rng=0)
    maml = MAML(backbone, classes=2, steps=2, step_size=0.1)
    assert any(isinstance(part, nn.BatchNorm2d) for part in backbone.modules())
    assert not any(isinstance(part, nn.BatchNorm2d) for part in maml.module.modules())
    maml.module.train()
    before = copy.deepcopy(maml.module.state_dict())
    x = np.random.default_rng(0).integers(0, 256, (6, 16, 16), dtype=np.uint8)
    scorer = maml.adapt(x[:4], [0, 1, 0, 1])
    actual = scorer.predict_proba(x[4:])
    assert maml.module.training
    for name, value in maml.module.state_dict().items():
        assert torch.equal(value, before[name]), name
    for weight in maml.module.parameters():
        weight.data += 1  # later training does not change an adapted model
    np.testing.assert_array_equal(scorer.predict_proba(x[4:]), actual)


def test_frozen_weights_are_not_adapted() -> None:
    maml = learner(table, steps=1, step_size=0.5)
    frozen = maml.module.get_parameter("backbone.0.weight")
    frozen.requires_grad_(False)
    support, labels, _, _ = (part[0] for part in episodes(table))
    assert "backbone.0.weight" not in maml.adapt(support, labels).weights


def test_autocast_keeps_logits_in_float32() -> None:
    maml = MAML(Conv4(1, 16, 4, rng=0), classes=3, steps=1)
    x = torch.rand(2, 5, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = maml.logits(x, episodes(table)[1], x, classes=3)
        plain = maml.module(x[0], 5)
    assert actual.dtype == plain.dtype == torch.float32
    assert torch.isfinite(actual[0]).all()


def test_fewer_classes_are_the_first_columns_and_more_are_rejected() -> None:
    maml = learner(table)
    support, labels, query, _ = episodes(table)
    two = labels.clamp(max=1)
    assert maml.logits(support, two, query, classes=2).shape == (2, 4, 2)
    with pytest.raises(ValueError, match=r"classes must be at most 3, .* got 4"):
        maml.logits(support, labels, query, classes=4)
    with pytest.raises(ValueError, match="classes must be at most 3"):
        maml.adapt(support[0], [0, 1, 2, 3, 4])

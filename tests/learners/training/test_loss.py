"""The loss of a batch of episodes against one query at a time."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from metapac import InvalidInput
from metapac.fewshot import Conv4, ProtoNet
from metapac.fewshot.pools import GroupPool
from metapac.fewshot.training.episodes import EpisodeSampler
from metapac.fewshot.training.loop import (
    EpisodeLoss,
    check_finite_loss,
    count_correct,
    episode_loss,
)


def slow_loss(
    logits: Tensor, support_y: Tensor, query_y: Tensor, class_weights: list[float]
) -> float:
    """One episode and one query at a time."""
    losses = []
    for rows, support, query in zip(
        logits.tolist(), support_y.tolist(), query_y.tolist(), strict=True
    ):
        total = weight = 0.0
        for row, label in zip(rows, query, strict=True):
            if label in support:
                partition = math.fsum(math.exp(row[other]) for other in set(support))
                total += class_weights[label] * (math.log(partition) - row[label])
                weight += class_weights[label]
        losses.append(total / weight if weight else 0.0)
    return math.fsum(losses) / len(losses)


@st.composite
def labelled_logits(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    e, s, q, classes = (draw(st.integers(1, most)) for most in (3, 4, 5, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    support_y, query_y = rng.integers(classes, size=(e, s)), rng.integers(classes, size=(e, q))
    logits = 3 * rng.normal(size=(e, q, classes))
    for i in range(e):
        logits[i][:, ~np.isin(np.arange(classes), support_y[i])] = -np.inf
    return torch.tensor(logits), torch.tensor(support_y), torch.tensor(query_y)


@given(labelled_logits(), st.lists(st.floats(0.1, 10), min_size=5, max_size=5))
@settings(deadline=None, max_examples=80)
def test_loss_equals_that_of_a_loop(
    episodes: tuple[Tensor, Tensor, Tensor], class_weights: list[float]
) -> None:
    logits = episodes[0].requires_grad_()
    weights = torch.tensor(class_weights, dtype=torch.float64)
    actual = episode_loss(*episodes, weights)
    assert float(actual.detach()) == pytest.approx(slow_loss(*episodes, class_weights), abs=1e-12)
    plain = float(episode_loss(*episodes).detach())
    assert plain == pytest.approx(slow_loss(*episodes, [1.0] * 5), abs=1e-12)
    (slope,) = torch.autograd.grad(actual, logits)
    assert slope.isfinite().all()


def test_loss_of_equal_shots_is_the_cross_entropy_of_torch() -> None:
    logits = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    support_y, query_y = torch.tensor([[0, 1, 2]] * 2), torch.tensor([[0, 1, 2, 2, 1, 0]] * 2)
    expected = cross_entropy(logits.flatten(0, 1), query_y.flatten())
    assert float(episode_loss(logits, support_y, query_y)) == pytest.approx(float(expected))


def test_without_learnable_queries_loss_and_gradient_are_zero() -> None:
    weight = torch.ones(1, requires_grad=True)
    logits = torch.tensor([[[1.0, -torch.inf]]]) * weight
    loss = episode_loss(logits, torch.tensor([[0]]), torch.tensor([[1]]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0
    assert weight.grad is not None


def test_the_loss_compiles_to_one_graph() -> None:
    # A loss that compiles to one graph never waits for the device.
    loss = EpisodeLoss(ProtoNet(Conv4(channels=1, size=16, width=4, rng=0)), 3, torch.ones(3))
    x = torch.arange(2 * 6 * 16 * 16).view(2, 6, 16, 16).to(torch.uint8)
    y = torch.tensor([[0, 0, 1, 1, 2, 2]] * 2)
    whole = copy.deepcopy(loss)
    whole.compile(backend="aot_eager", fullgraph=True, dynamic=False)
    for function in (loss, whole):
        function(x, y, x + 1, y).backward()
    plain = {name: weight.grad for name, weight in loss.named_parameters()}
    for name, weight in whole.named_parameters():
        torch.testing.assert_close(weight.grad, plain[name])


def test_correct_answers_count_with_the_weight_of_their_label() -> None:
    class Never:
        """Always predicts label 0."""

        module: torch.nn.Module = torch.nn.Identity()

        def logits(
            self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
        ) -> Tensor:
            return torch.tensor([1.0, 0.0]).expand(*query_x.shape[:2], classes)

    y = np.array([0] * 30 + [1] * 10)
    pool = GroupPool(np.zeros((40, 1), np.float32), y, ["site"] * 40)
    sampler = EpisodeSampler(pool, "cpu", ways=5, shots=5, queries=35)
    drawn = sampler.draw(3, 0)
    zeros, ones = (int((drawn.query_y == label).sum()) for label in (0, 1))
    plain = count_correct(Never(), sampler, drawn, batch=2)
    assert plain.tolist() == [zeros, zeros + ones]
    weighted = count_correct(Never(), sampler, drawn, 2, torch.tensor([1.0, 10.0]))
    assert weighted.tolist() == [zeros, zeros + 10 * ones]


@pytest.mark.parametrize("loss", [math.inf, -math.inf, math.nan])
def test_a_loss_that_is_not_finite_is_reported(loss: float) -> None:
    message = rf"the loss became {loss} in epoch 3 at learning rate 0\.1: .* Pass a smaller lr, and"
    with pytest.raises(InvalidInput, match=message):
        check_finite_loss(loss, 3, 0.1, "lr")
    check_finite_loss(1e30, 3, 0.1, "lr")

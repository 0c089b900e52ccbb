"""ProtoNet against prototypes and distances computed by Python loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from metapac.fewshot import MLP, Conv4, ProtoNet
from metapac.fewshot.learners import protonet
from tests.learners.test_prototypes import slow_logits


def test_two_prototypes_on_a_line() -> None:
    support = np.array([[-1.0], [1.0], [3.0]])  # label 0 at 0 from two shots, label 1 at 3
    scores = (
        ProtoNet(nn.Identity())
        .adapt(support, [0, 0, 1], classes=3)
        .predict_proba(np.array([[0.5]]))
    )
    np.testing.assert_allclose(scores[0, 0], 1 / (1 + math.exp(-6)), rtol=1e-6)
    assert scores[0, 2] == 0


def test_one_example_and_many_absent_labels() -> None:
    actual = ProtoNet(MLP(3, rng=0)).adapt(np.ones((1, 3)), [2], classes=4).predict_proba(np.eye(3))
    assert actual.tolist() == [[0, 0, 1, 0]] * 3


def test_every_weight_of_the_backbone_gets_a_gradient() -> None:
    learner = ProtoNet(Conv4(1, 16, 8, rng=0))
    x = torch.tensor(np.random.default_rng(3).random((2, 8, 16, 16)), dtype=torch.float32)
    labels = torch.tensor([0, 1, 0, 1]).expand(2, 4)
    logits = learner.logits(x[:, :4], labels, x[:, 4:], classes=2)
    logits.log_softmax(-1)[..., 0].sum().backward()  # type: ignore[no-untyped-call]
    for name, weight in learner.module.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


class Counting(nn.Module):
    """Counts its calls."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.inner(x)


def test_a_batch_of_episodes_is_one_call_and_agrees_with_adapting_to_each() -> None:
    module = Counting(Conv4(3, 16, 8, rng=0)).eval()
    learner = ProtoNet(module)
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, (3, 10, 16, 16, 3), dtype=np.uint8)
    labels = rng.integers(4, size=(3, 6))
    pixels = torch.tensor(x)
    logits = learner.logits(pixels[:, :6], torch.tensor(labels), pixels[:, 6:], classes=4)
    assert module.calls == 1
    for i in range(3):
        alone = learner.adapt(x[i, :6], labels[i], classes=4).predict_proba(x[i, 6:])
        np.testing.assert_allclose(logits[i].softmax(-1).detach(), alone, atol=1e-6)


def test_logits_compile_to_one_graph_for_any_labels() -> None:
    graphs = 0

    def counted(graph: torch.fx.GraphModule, _: list[Tensor]) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    learner = ProtoNet(Conv4(1, 16, 8, rng=0))
    compiled = torch.compile(learner.logits, backend=counted, fullgraph=True)
    x = torch.rand(2, 6, 16, 16, generator=torch.Generator().manual_seed(0))
    for labels in ([0, 1, 2], [2, 2, 2], [1, 0, 0]):
        y = torch.tensor(labels).expand(2, 3)
        actual = compiled(x[:, :3], y, x[:, 3:], classes=3)
        torch.testing.assert_close(actual, learner.logits(x[:, :3], y, x[:, 3:], classes=3))
    assert graphs == 1


def test_rows_are_float32_and_sum_to_one() -> None:
    rng = np.random.default_rng(5)
    x = 3 * rng.normal(size=(400, 20))
    scorer = ProtoNet(nn.Identity()).adapt(x[:200], np.arange(200))
    actual = scorer.predict_proba(x[200:])
    assert actual.dtype == np.float32
    assert actual.shape == (200, 200)
    np.testing.assert_allclose(actual.astype(np.float64).sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_probabilities_are_rounded_once(scale: float, offset: float) -> None:
    # To the nearest float32, from float64. A softmax in float32 is less exact, especially near 1.
    rng = np.random.default_rng(12)
    x = (scale * rng.normal(size=(400, 20)) + offset).astype(np.float32)
    labels = np.arange(40) % 8
    actual = ProtoNet(nn.Identity()).adapt(x[:40], labels).predict_proba(x[40:])
    logits = slow_logits(x[:40], labels, x[40:], 8)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    exact = weights / weights.sum(1, keepdims=True)
    half = np.spacing(actual).astype(np.float64) / 2
    assert (np.abs(actual - exact) <= half * (1 + 1e-4)).all()


def test_the_order_and_the_numbering_of_the_support_set_do_not_matter() -> None:
    rng = np.random.default_rng(6)
    x, labels = rng.normal(size=(30, 5)), np.array([0, 0, 0, 0, 1, 2, 2, 1, 0, 2])
    learner = ProtoNet(MLP(5, rng=0))
    actual = learner.adapt(x[:10], labels).predict_proba(x[10:])
    order = rng.permutation(10)
    shuffled = learner.adapt(x[:10][order], labels[order]).predict_proba(x[10:])
    np.testing.assert_allclose(shuffled, actual, atol=1e-6)
    renamed = learner.adapt(x[:10], 3 - labels, classes=4).predict_proba(x[10:])
    np.testing.assert_allclose(renamed[:, [3, 2, 1, 0]][:, :3], actual, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 3, 7, 64])
def test_embeddings_depend_neither_on_the_batch_nor_on_earlier_calls(batch: int) -> None:
    learner = ProtoNet(Conv4(3, 16, 8, rng=0))
    x = np.random.default_rng(7).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    whole = learner.embed(x)
    assert whole.shape == (20, 8)
    assert not whole.requires_grad
    learner.embed(255 - x, batch)
    np.testing.assert_allclose(learner.embed(x, batch), whole, rtol=1e-6, atol=1e-6)
    assert torch.equal(learner.embed(x), whole)


def test_scores_do_not_depend_on_how_many_differences_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(8).normal(size=(40, 6))
    scorer = ProtoNet(nn.Identity()).adapt(x[:9], np.arange(9) % 3)
    whole = scorer.predict_proba(x[9:])
    monkeypatch.setattr(protonet, "_DIFFERENCES", 40)
    np.testing.assert_allclose(scorer.predict_proba(x[9:]), whole, atol=1e-7)


def test_no_examples_give_no_rows() -> None:
    scorer = ProtoNet(Conv4(1, 16, rng=0)).adapt(np.zeros((2, 16, 16), np.uint8), [0, 1])
    assert scorer.predict_proba(np.zeros((0, 16, 16), np.uint8)).shape == (0, 2)


def test_scores_do_not_depend_on_the_mode_of_the_module() -> None:
    learner = ProtoNet(MLP(4, rng=0))  # dropout would change the scores
    x = np.random.default_rng(10).normal(size=(9, 4))
    learner.module.eval()
    quiet = learner.adapt(x[:4], [0, 1, 0, 1]).predict_proba(x[4:])
    learner.module.train()
    np.testing.assert_array_equal(learner.adapt(x[:4], [0, 1, 0, 1]).predict_proba(x[4:]), quiet)


def test_description_names_learner_and_backbone() -> None:
    described = ProtoNet(MLP(7, rng=0)).describe()
    assert described["class"] == "ProtoNet"
    assert described["backbone"]["class"] == "MLP"
    assert described["backbone"]["inputs"] == 7
    assert ProtoNet(nn.Identity()).describe()["backbone"] == {
        "class": "Identity",
        "is": "Identity()",
    }


def test_a_batch_norm_without_running_statistics_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"must not normalise each batch separately, .* got Batch"):
        ProtoNet(nn.BatchNorm1d(4, track_running_stats=False))

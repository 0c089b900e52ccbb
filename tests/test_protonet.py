"""ProtoNet against prototypes and distances made by Python loops."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from metapac.learners import MLP, Conv4, ProtoNet, protonet, prototype_logits


def by_loop(support_z: Any, support_y: Any, query_z: Any, classes: int) -> NDArray[np.float64]:
    """One episode, one query, one label, one number at a time, in float64."""
    logits = np.full((len(query_z), classes), -np.inf)
    for label in range(classes):
        shots = [
            z for z, y in zip(support_z.tolist(), support_y.tolist(), strict=True) if y == label
        ]
        if not shots:
            continue
        prototype = [math.fsum(column) / len(shots) for column in zip(*shots, strict=True)]
        for i, query in enumerate(query_z.tolist()):
            logits[i, label] = -math.fsum(
                (q - p) ** 2 for q, p in zip(query, prototype, strict=True)
            )
    return logits


@st.composite
def episodes(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, int]:
    e, s, q, d, classes = (draw(st.integers(1, most)) for most in (3, 9, 4, 6, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = rng.integers(classes, size=(e, s))  # unequal shots, absent labels, one example
    support, query = rng.normal(size=(e, s, d)), rng.normal(size=(e, q, d))
    return torch.tensor(support), torch.tensor(labels), torch.tensor(query), classes


@given(episodes())
@settings(max_examples=60, deadline=None)
def test_logits_are_those_of_the_loop(episode: tuple[Tensor, Tensor, Tensor, int]) -> None:
    support, labels, query, classes = episode
    for precision, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        found = prototype_logits(support.to(precision), labels, query.to(precision), classes)
        assert found.dtype == precision
        for i in range(len(labels)):
            slow = by_loop(support[i], labels[i], query[i], classes)
            np.testing.assert_allclose(found[i].numpy(), slow, rtol=tolerance, atol=tolerance)


def test_two_prototypes_on_a_line() -> None:
    support = torch.tensor([[[-1.0], [1.0], [3.0]]])  # label 0 at 0 from two shots, label 1 at 3
    found = prototype_logits(support, torch.tensor([[0, 0, 1]]), torch.tensor([[[0.5]]]), 3)
    assert found.tolist() == [[[-0.25, -6.25, -math.inf]]]
    learner = ProtoNet(nn.Identity())
    scores = learner.adapt(support[0], [0, 0, 1], classes=3).predict_proba(np.array([[0.5]]))
    np.testing.assert_allclose(scores[0, 0], 1 / (1 + math.exp(-6)), rtol=1e-6)
    assert scores[0, 2] == 0


def test_one_example_and_many_absent_labels() -> None:
    found = ProtoNet(MLP(3, rng=0)).adapt(np.ones((1, 3)), [2], classes=4).predict_proba(np.eye(3))
    assert found.tolist() == [[0, 0, 1, 0]] * 3


def test_embeddings_far_from_the_origin_lose_no_digits() -> None:
    rng = np.random.default_rng(0)
    far = torch.tensor(1e4 + rng.normal(size=(1, 45, 32)), dtype=torch.float32)
    labels = torch.arange(15).remainder(5)[None]
    found = prototype_logits(far[:, :15], labels, far[:, 15:], 5)[0]
    slow = by_loop(far[0, :15], labels[0], far[0, 15:], 5)
    np.testing.assert_allclose(found.numpy(), slow, rtol=1e-6)
    # The negative control: the textbook expansion of the square is off by whole units.
    prototypes = torch.stack([far[0, :15][labels[0] == label].mean(0) for label in range(5)])
    query = far[0, 15:]
    expanded = -(query.square().sum(1)[:, None] - 2 * query @ prototypes.T)
    expanded = expanded - prototypes.square().sum(1)
    assert np.abs(expanded.numpy() - slow).max() > 1


def test_half_precision_embeddings_are_compared_in_float32() -> None:
    z = torch.tensor(np.random.default_rng(1).normal(size=(2, 12, 64))).bfloat16()
    labels = torch.arange(6).remainder(3).expand(2, 6)
    plain = prototype_logits(z[:, :6].float(), labels, z[:, 6:].float(), 3)
    assert torch.equal(prototype_logits(z[:, :6], labels, z[:, 6:], 3), plain)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = prototype_logits(z[:, :6].float(), labels, z[:, 6:].float(), 3)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, plain)


def test_gradients_are_right_and_absent_labels_do_not_spoil_them() -> None:
    rng = np.random.default_rng(2)
    support = torch.tensor(rng.normal(size=(2, 4, 3)), requires_grad=True)
    query = torch.tensor(rng.normal(size=(2, 3, 3)), requires_grad=True)
    labels = torch.tensor([[0, 0, 0, 2], [3, 1, 3, 3]])

    def chances(support: Tensor, query: Tensor) -> Tensor:
        return prototype_logits(support, labels, query, 4).softmax(-1)

    assert torch.autograd.gradcheck(chances, (support, query))


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


def test_logits_compile_to_one_graph_whatever_the_labels() -> None:
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
        found = compiled(x[:, :3], y, x[:, 3:], classes=3)
        torch.testing.assert_close(found, learner.logits(x[:, :3], y, x[:, 3:], classes=3))
    assert graphs == 1


def test_rows_are_float32_and_sum_to_one() -> None:
    rng = np.random.default_rng(5)
    x = 3 * rng.normal(size=(400, 20))
    scorer = ProtoNet(nn.Identity()).adapt(x[:200], np.arange(200))
    found = scorer.predict_proba(x[200:])
    assert found.dtype == np.float32
    assert found.shape == (200, 200)
    np.testing.assert_allclose(found.astype(np.float64).sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_probabilities_are_rounded_once(scale: float, offset: float) -> None:
    # To the nearest float32, from float64: a softmax in float32 is off by more, near 1 above all.
    rng = np.random.default_rng(12)
    x = (scale * rng.normal(size=(400, 20)) + offset).astype(np.float32)
    labels = np.arange(40) % 8
    found = ProtoNet(nn.Identity()).adapt(x[:40], labels).predict_proba(x[40:])
    logits = by_loop(x[:40], labels, x[40:], 8)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    exact = weights / weights.sum(1, keepdims=True)
    half = np.spacing(found).astype(np.float64) / 2
    assert (np.abs(found - exact) <= half * (1 + 1e-4)).all()


def test_order_and_naming_of_the_support_set_do_not_matter() -> None:
    rng = np.random.default_rng(6)
    x, labels = rng.normal(size=(30, 5)), np.array([0, 0, 0, 0, 1, 2, 2, 1, 0, 2])
    learner = ProtoNet(MLP(5, rng=0))
    found = learner.adapt(x[:10], labels).predict_proba(x[10:])
    order = rng.permutation(10)
    shuffled = learner.adapt(x[:10][order], labels[order]).predict_proba(x[10:])
    np.testing.assert_allclose(shuffled, found, atol=1e-6)
    renamed = learner.adapt(x[:10], 3 - labels, classes=4).predict_proba(x[10:])
    np.testing.assert_allclose(renamed[:, [3, 2, 1, 0]][:, :3], found, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 3, 7, 64])
def test_embeddings_do_not_depend_on_the_batch_nor_on_earlier_calls(batch: int) -> None:
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


def test_modes_and_statistics_are_left_as_they_were() -> None:
    learner = ProtoNet(Conv4(1, 16, 8, rng=0))
    learner.module.train()
    learner.module.get_submodule("blocks.0").eval()
    modes = [part.training for part in learner.module.modules()]
    before = copy.deepcopy(learner.module.state_dict())
    x = np.random.default_rng(9).random((4, 16, 16))
    learner.adapt(x, [0, 1, 0, 1]).predict_proba(x)
    with pytest.raises(ValueError, match="images of 16 x 16, got 15 x 15"):
        learner.embed(np.zeros((2, 15, 15)))
    assert [part.training for part in learner.module.modules()] == modes
    for name, value in learner.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_training_mode_outside_does_not_change_the_scores() -> None:
    learner = ProtoNet(MLP(4, rng=0))  # dropout, were it on, would
    x = np.random.default_rng(10).normal(size=(9, 4))
    learner.module.eval()
    quiet = learner.adapt(x[:4], [0, 1, 0, 1]).predict_proba(x[4:])
    learner.module.train()
    np.testing.assert_array_equal(learner.adapt(x[:4], [0, 1, 0, 1]).predict_proba(x[4:]), quiet)


def test_all_kinds_of_arrays_give_the_same_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    x, labels = rng.normal(size=(12, 4)).astype(np.float32), np.array([0, 1, 1, 2])
    on_disk = np.memmap(tmp_path / "x", np.float32, "w+", shape=x.shape)
    on_disk[:] = x
    on_disk.flush()
    read_only = np.memmap(tmp_path / "x", np.float32, "r", shape=x.shape)
    kinds = (
        torch.tensor(x),
        read_only,
        x.astype(np.float64),
        x.astype(">f4"),
        np.asfortranarray(x),
        x[::-1].copy()[::-1],
        pd.DataFrame(x),
        x.tolist(),
    )
    learner = ProtoNet(nn.Linear(4, 3))  # takes float32 alone
    found = learner.adapt(x[:4], labels).predict_proba(x[4:])
    for kind in kinds:
        again = learner.adapt(kind[:4], torch.tensor(labels)).predict_proba(kind[4:])
        np.testing.assert_allclose(again, found, atol=1e-6)


def test_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x must hold numbers, got <U1\. A torch learner takes"):
        ProtoNet(MLP(1, rng=0)).embed(np.array([["a"], ["b"]]))


def test_description_names_learner_and_backbone() -> None:
    described = ProtoNet(MLP(7, rng=0)).describe()
    assert described["class"] == "ProtoNet"
    assert described["backbone"]["class"] == "MLP"
    assert described["backbone"]["inputs"] == 7
    assert ProtoNet(nn.Identity()).describe()["backbone"] == {
        "class": "Identity",
        "is": "Identity()",
    }

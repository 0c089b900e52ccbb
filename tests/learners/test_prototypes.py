"""Distances to prototypes against Python loops, and the bound on their rounding error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from metapac.fewshot.learners.protonet import (
    distance_error,
    norms,
    prototype_logits,
    worst_case_logits,
)


def slow_logits(support_z: Any, support_y: Any, query_z: Any, classes: int) -> NDArray[np.float64]:
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
    e, s, q, d, classes = (draw(st.integers(1, largest)) for largest in (3, 9, 4, 6, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = rng.integers(classes, size=(e, s))  # unequal shots, absent labels, one example
    support, query = rng.normal(size=(e, s, d)), rng.normal(size=(e, q, d))
    return torch.tensor(support), torch.tensor(labels), torch.tensor(query), classes


@given(episodes())
@settings(max_examples=60, deadline=None)
def test_logits_equal_those_of_the_loop(episode: tuple[Tensor, Tensor, Tensor, int]) -> None:
    support, labels, query, classes = episode
    for precision, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        actual = prototype_logits(support.to(precision), labels, query.to(precision), classes)
        assert actual.dtype == precision
        for i in range(len(labels)):
            slow = slow_logits(support[i], labels[i], query[i], classes)
            np.testing.assert_allclose(actual[i].numpy(), slow, rtol=tolerance, atol=tolerance)


def test_two_prototypes_on_a_line() -> None:
    support = torch.tensor([[[-1.0], [1.0], [3.0]]])  # label 0 at 0 from two shots, label 1 at 3
    actual = prototype_logits(support, torch.tensor([[0, 0, 1]]), torch.tensor([[[0.5]]]), 3)
    assert actual.tolist() == [[[-0.25, -6.25, -math.inf]]]


def test_embeddings_far_from_the_origin_lose_no_digits() -> None:
    rng = np.random.default_rng(0)
    far = torch.tensor(1e4 + rng.normal(size=(1, 45, 32)), dtype=torch.float32)
    labels = torch.arange(15).remainder(5)[None]
    actual = prototype_logits(far[:, :15], labels, far[:, 15:], 5)[0]
    slow = slow_logits(far[0, :15], labels[0], far[0, 15:], 5)
    np.testing.assert_allclose(actual.numpy(), slow, rtol=1e-6)
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


def test_gradients_are_correct_even_with_absent_labels() -> None:
    rng = np.random.default_rng(2)
    support = torch.tensor(rng.normal(size=(2, 4, 3)), requires_grad=True)
    query = torch.tensor(rng.normal(size=(2, 3, 3)), requires_grad=True)
    labels = torch.tensor([[0, 0, 0, 2], [3, 1, 3, 3]])

    def probabilities(support: Tensor, query: Tensor) -> Tensor:
        return prototype_logits(support, labels, query, 4).softmax(-1)

    assert torch.autograd.gradcheck(probabilities, (support, query))


def test_the_worst_case_is_farther_from_the_true_label_and_nearer_to_the_others() -> None:
    logits = -torch.tensor([[[4.0], [9.0], [0.01], [math.inf]]], dtype=torch.float64)
    worst = worst_case_logits(logits, torch.tensor([[0]]), torch.tensor([[0.5]]))
    expected = torch.tensor([-(2.5**2), -(2.5**2), 0.0, -math.inf], dtype=torch.float64)
    torch.testing.assert_close(worst[0, :, 0], expected)


def test_the_error_of_a_distance_grows_with_the_largest_length() -> None:
    z = torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 100.0]])
    assert norms(z).tolist() == [5, 1, 100]
    error = distance_error(norms(z[:2])[None], norms(z[1:])[None], width=2)
    assert error.shape == (1, 2)
    assert (error[0] >= 2 * 100 * 2.0**-19).all()
    assert (error[0] < 2 * 100 * 2.0**-18).all()

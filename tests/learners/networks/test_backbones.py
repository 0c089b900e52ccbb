"""Conv4, MLP and SentenceCNN against Python loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from metapac.fewshot import MLP, Conv4, ProtoNet, SentenceCNN
from tests.helpers.backbones import (
    EXAMPLES,
    WORDS,
    count_weights,
    images,
    sentences,
    small_sentence_cnn,
)


def test_conv4_has_1600_features_for_84_pixels() -> None:
    backbone = Conv4(rng=0)
    assert backbone.features == 1600
    assert ProtoNet(backbone).embed(images(84, count=1)).shape == (1, 1600)
    assert count_weights(backbone) == 9 * 64 * (3 + 3 * 64) + 4 * 2 * 64


def test_conv4_equals_four_blocks_by_loops() -> None:
    backbone = Conv4(1, 16, 2, rng=0)
    rng = np.random.default_rng(4)
    for key, value in backbone.state_dict().items():
        if value.is_floating_point():  # running statistics too, so that each has an effect
            value.copy_(torch.tensor(rng.uniform(0.5, 1.5, value.shape)) * (-1) ** len(key))
    for key, value in backbone.named_buffers():
        if key.endswith("running_var"):
            value.abs_()
    x = rng.random((1, 16, 16))
    maps = x
    state = {key: value.double().numpy() for key, value in backbone.state_dict().items()}
    for i in range(4):
        maps = slow_block(maps, {k: state[f"blocks.{i}.{k}"] for k in slow_keys})
    actual = ProtoNet(backbone).embed(x[None])[0]
    np.testing.assert_allclose(actual, maps.ravel(), rtol=1e-4)


slow_keys = ("0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var")


def slow_block(maps: NDArray[Any], state: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Convolve 3x3, normalise by running statistics, ReLU, 2x2 maximum; a pixel at a time."""
    kernel, scale, shift, mean, variance = (state[key] for key in slow_keys)
    size = maps.shape[1]
    padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
    out = np.empty((len(kernel), size, size))
    for c in range(len(kernel)):
        for i in range(size):
            for j in range(size):
                value = (kernel[c] * padded[:, i : i + 3, j : j + 3]).sum()
                value = (value - mean[c]) / np.sqrt(variance[c] + 1e-5)
                out[c, i, j] = max(0.0, value * scale[c] + shift[c])
    return np.asarray(out.reshape(len(kernel), size // 2, 2, size // 2, 2).max((2, 4)))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            np.zeros((2, 28, 28), np.uint8),
            r"images of 3 channels \(RGB\), like those that the backbone was built for, got shape "
            r"\(2, 28, 28\)\. Convert the images, or build",
        ),
        (np.zeros((2, 28, 28, 3), np.uint8), "images of 84 x 84, got 28 x 28. Build Conv4"),
        (np.zeros((2, 84, 84, 3), np.int64), "uint8 or float, got torch.int64. Convert pixels"),
    ],
)
def test_unsuitable_images_are_rejected(x: NDArray[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProtoNet(Conv4(rng=0)).embed(x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": (0.5, 0.5)}, r"mean must be one number or 3 numbers, .* got \(0.5, 0.5\)"),
        ({"std": 0.0}, "std must be one number or 3 positive numbers, .* got 0.0"),
        ({"size": 15}, r"size must be at least 16, .* got 15\. Enlarge"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Conv4(**options)


def test_mlp_is_two_linear_layers_with_relu() -> None:
    backbone = MLP(5, rng=0)
    assert count_weights(backbone) == 5 * 100 + 100 + 100 * 100 + 100
    x = np.random.default_rng(5).normal(size=(3, 5))
    slow = x
    for i in (0, 3):
        state = backbone.layers[i].state_dict()
        slow = np.maximum(0, slow @ state["weight"].double().numpy().T + state["bias"].numpy())
    np.testing.assert_allclose(ProtoNet(backbone).embed(x), slow, atol=1e-6)


def test_mlp_flattens_images_and_rejects_rows_of_another_width() -> None:
    x = images(4, 1)
    learner = ProtoNet(MLP(16, rng=0))
    np.testing.assert_allclose(learner.embed(x), learner.embed(x.reshape(5, 16) / 255), atol=1e-6)
    with pytest.raises(ValueError, match=r"rows of 16 numbers, got shape \(2, 5\)\. Build MLP"):
        learner.embed(np.zeros((2, 5)))


@pytest.mark.parametrize("name", ["MLP", "SentenceCNN"])
def test_dropout_acts_in_training_only(name: str) -> None:
    build, x = EXAMPLES[name]
    backbone = build()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        noisy = torch.stack([backbone.train()(torch.tensor(x)) for _ in range(200)])
    quiet = backbone.eval()(torch.tensor(x))
    assert torch.equal(quiet, backbone(torch.tensor(x)))
    if name == "SentenceCNN":  # the last operation: 0 or twice the value
        dropped = (noisy == 0) & (quiet > 0)
        assert torch.equal(noisy, torch.where(dropped, 0, 2 * quiet))
        rate = dropped[:, quiet > 0].double().mean()
        assert 0.4 < rate < 0.6  # at least 200 * 30 coins: 15 standard deviations away
    assert (noisy == 0).any()


def slow_sentence(backbone: SentenceCNN, sentence: NDArray[np.int64]) -> NDArray[np.float64]:
    """The encoder on one sentence without its padding, a token and a map at a time."""
    state = {key: value.double().numpy() for key, value in backbone.state_dict().items()}
    furthest = backbone.tokens - 1
    vectors = []
    for word, head, tail in sentence[sentence[:, 0] != backbone.padding]:
        near = [min(max(p, -furthest), furthest) + furthest for p in (head, tail)]
        position = state["to_head.weight"][near[0]], state["to_tail.weight"][near[1]]
        vectors.append(np.concatenate([state["words.weight"][word], *position]))
    zero = np.zeros_like(vectors[0])
    vectors = [zero, *vectors, zero]
    kernel, bias = state["convolution.weight"], state["convolution.bias"]
    best = np.zeros(len(kernel))  # ReLU: nothing is below 0
    for t in range(len(vectors) - 2):
        for c in range(len(kernel)):
            value = bias[c] + sum(kernel[c, :, k] @ vectors[t + k] for k in range(3))
            best[c] = max(best[c], value)
    return best


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_a_sentence_equals_that_of_loops(seed: int) -> None:
    backbone = small_sentence_cnn()
    x = sentences(np.random.default_rng(seed), 3, 6)
    actual = ProtoNet(backbone).embed(x)
    slow = np.stack([slow_sentence(backbone, sentence) for sentence in x])
    np.testing.assert_allclose(actual, slow, atol=1e-5)


def test_padding_counts_for_nothing() -> None:
    learner = ProtoNet(small_sentence_cnn())
    x = sentences(np.random.default_rng(6), 4, 6)
    actual = learner.embed(x)
    other = x.copy()
    other[x[..., 0] == 0, 1:] = 3  # positions of padding tokens
    longer = np.concatenate([other, np.zeros((4, 9, 3), np.int64)], axis=1)
    np.testing.assert_allclose(learner.embed(longer), actual, atol=1e-6)
    assert (learner.embed(np.zeros((1, 6, 3), np.int64)) == 0).all()


def test_another_padding_word() -> None:
    x = sentences(np.random.default_rng(7), 4, 6)
    swapped = x.copy()
    swapped[..., 0] = np.choose(x[..., 0] == 0, [x[..., 0], 10])
    swapped[x[..., 0] == 10, 0] = 0
    rows = WORDS.copy()
    rows[[0, 10]] = rows[[10, 0]]
    plain = ProtoNet(small_sentence_cnn()).embed(x)
    other = ProtoNet(SentenceCNN(rows, tokens=6, maps=7, padding=10, rng=0)).embed(swapped)
    np.testing.assert_allclose(other, plain, atol=1e-6)


def test_the_sentence_encoder_of_the_paper_has_230_maps() -> None:
    backbone = SentenceCNN(WORDS, rng=0)
    assert backbone.features == 230
    assert count_weights(backbone) == WORDS.size + 2 * 255 * 5 + 230 * (4 + 10) * 3 + 230
    np.testing.assert_array_equal(backbone.words.weight.detach(), WORDS.astype(np.float32))


def test_frozen_word_vectors_get_no_gradient() -> None:
    backbone = small_sentence_cnn(frozen=True)
    z: Tensor = backbone(torch.tensor(EXAMPLES["SentenceCNN"][1]))
    z.sum().backward()  # type: ignore[no-untyped-call]
    assert backbone.words.weight.grad is None
    assert backbone.convolution.weight.grad is not None
    assert "words.weight" in backbone.state_dict()


def test_sentences_of_another_shape_are_rejected() -> None:
    message = r"\(n, tokens, 3\): word, .* got torch.int64 of shape \(2, 6\)"
    with pytest.raises(ValueError, match=message):
        ProtoNet(small_sentence_cnn()).embed(np.zeros((2, 6), np.int64))

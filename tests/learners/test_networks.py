"""Backbones against Python loops, and the contract that all of them satisfy."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn

from metapac.fewshot import MLP, Conv4, ProtoNet, PrototypeLearner, ResNet12, SentenceCNN, Sphere
from metapac.fewshot.learners import networks
from tests.helpers.refusals import assert_refused

WORDS = np.random.default_rng(0).normal(size=(11, 4)).astype(np.float16)


def images(size: int, channels: int = 3, count: int = 5) -> NDArray[np.uint8]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (count, size, size, channels), dtype=np.uint8)


def sentences(seed: int, count: int = 5, tokens: int = 6) -> NDArray[np.int64]:
    """Return sentences of unequal lengths, padded at the end with word 0."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-tokens, tokens, size=(count, tokens, 3))
    x[..., 0] = rng.integers(1, len(WORDS), size=(count, tokens))
    for sentence in x[1:]:
        sentence[rng.integers(1, tokens + 1) :, 0] = 0
    return x


def small_sentence_cnn(words: Any = WORDS, **options: Any) -> SentenceCNN:
    return SentenceCNN(words, **{"tokens": 6, "maps": 7, "rng": 0, **options})


# A backbone with input for it, and the names and shapes of its weights: stored weights must load.
EXAMPLES: dict[str, tuple[Callable[[], networks.Backbone], Any, str]] = {
    "conv4": (lambda: Conv4(1, 28, rng=0), images(28, 1), "b85d5cc97408"),
    "resnet12": (lambda: ResNet12(rng=0), images(16), "e9ad855c95b1"),
    "resnet50": (lambda: networks.ResNet50(rng=0), images(16), "e961d294ad92"),
    "mlp": (lambda: MLP(6, rng=0), np.random.default_rng(2).normal(size=(5, 6)), "c722f8d4e04f"),
    "sentence_cnn": (small_sentence_cnn, sentences(3), "93c34d690b57"),
}


@pytest.mark.parametrize("name", networks.BACKBONES)
def test_every_backbone_satisfies_the_contract(name: str) -> None:
    build, x, keys = EXAMPLES[name]
    state = torch.get_rng_state()
    backbone = build()
    assert torch.equal(torch.get_rng_state(), state)
    weights = backbone.state_dict()
    names = "".join(f"{key}{tuple(tensor.shape)}" for key, tensor in weights.items())
    assert hashlib.sha256(names.encode()).hexdigest()[:12] == keys
    with torch.random.fork_rng(devices=[]):
        torch.rand(1)
        again = build().state_dict()  # weights depend on rng alone
    assert all(torch.equal(weights[key], again[key]) for key in weights)
    described = json.loads(json.dumps(backbone.describe()))
    assert described.pop("class") == networks.BACKBONES[name].__name__
    if name == "sentence_cnn":
        described["words"] = np.zeros(described["words"])
    rebuilt = networks.build_backbone(name, **described)
    assert rebuilt.describe() == backbone.describe()
    rebuilt.load_state_dict(weights)
    learner = ProtoNet(build().double())  # so that the tolerance hides no dependence on the batch
    whole = learner.embed(x)
    assert whole.shape == (5, backbone.features)
    for batch in (1, 2):
        assert (learner.embed(x, batch) - whole).abs().max() <= 1e-6 * whole.abs().max()


@pytest.mark.parametrize("name", networks.BACKBONES)
def test_every_weight_gets_a_gradient_in_training(name: str) -> None:
    build, x, _ = EXAMPLES[name]
    backbone = build().train()
    if name == "sentence_cnn":
        backbone.get_submodule("dropout").eval()  # half of 7 maps may not reach every weight
    z = backbone(torch.tensor(x))
    generator = torch.Generator().manual_seed(0)
    (z * torch.randn(z.shape, generator=generator)).sum().backward()
    for weight in backbone.parameters():
        assert weight.grad is not None
        assert torch.isfinite(weight.grad).all()
        assert weight.grad.abs().sum() > 0


def test_the_stages_of_resnet50_are_strided() -> None:
    backbone, shapes = networks.ResNet50(rng=0).eval(), []
    for stage in backbone.stages:
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape)))
    backbone(torch.tensor(images(32, count=1)))
    assert shapes == [(1, 256, 32, 32), (1, 512, 16, 16), (1, 1024, 8, 8), (1, 2048, 4, 4)]


def slow_convolution(x: NDArray[Any], state: dict[str, NDArray[Any]], key: str) -> NDArray[Any]:
    """Convolve, and normalise by running statistics; a pixel at a time."""
    kernel = state[f"{key}.0.weight"]
    scale, shift, mean, variance = (
        state[f"{key}.1.{name}"] for name in ("weight", "bias", "running_mean", "running_var")
    )
    size, edge = x.shape[1], kernel.shape[2] // 2
    padded = np.pad(x, ((0, 0), (edge, edge), (edge, edge)))
    out = np.empty((len(kernel), size, size))
    for c, i, j in np.ndindex(out.shape):
        window = padded[:, i : i + 2 * edge + 1, j : j + 2 * edge + 1]
        value = ((kernel[c] * window).sum() - mean[c]) / np.sqrt(variance[c] + 1e-5)
        out[c, i, j] = value * scale[c] + shift[c]
    return out


def pooled(x: NDArray[Any]) -> NDArray[Any]:
    size = x.shape[1] // 2
    return np.asarray(x.reshape(len(x), size, 2, size, 2).max((2, 4)))


def with_random_statistics(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Change all weights, running statistics too, so that each has an effect; return them."""
    rng = np.random.default_rng(4)
    for key, value in module.state_dict().items():
        if value.is_floating_point():
            sign = 1 if key.endswith("running_var") else (-1) ** len(key)
            value.copy_(torch.tensor(rng.uniform(0.5, 1.5, value.shape)) * sign)
    return {key: value.double().numpy() for key, value in module.state_dict().items()}


def test_conv4_equals_four_blocks_by_loops() -> None:
    backbone = Conv4(1, 16, 2, rng=0)
    state, x = with_random_statistics(backbone), np.random.default_rng(4).random((1, 16, 16))
    maps = x
    for i in range(4):
        maps = pooled(np.maximum(0, slow_convolution(maps, state, f"blocks.{i}")))
    np.testing.assert_allclose(ProtoNet(backbone).embed(x[None])[0], maps.ravel(), rtol=1e-4)


def test_a_residual_block_equals_that_of_loops() -> None:
    twelve, fifty = ResNet12(1, rng=0), networks.ResNet50(1, rng=0)
    last = fifty.get_submodule("stages.0.1")
    for block, slope, channels in ((twelve.blocks[0], 0.1, 1), (last, 0.0, 256)):
        state = with_random_statistics(block.double().eval())
        x = np.random.default_rng(5).normal(size=(channels, 4, 4))

        def rectified(maps: NDArray[Any], slope: float = slope) -> NDArray[Any]:
            return np.where(maps > 0, maps, slope * maps)

        maps = x
        for i in (0, 2, 4):
            maps = slow_convolution(rectified(maps) if i else maps, state, f"path.{i}")
        has_shortcut = "shortcut.0.weight" in state
        maps = rectified(maps + (slow_convolution(x, state, "shortcut") if has_shortcut else x))
        expected = pooled(maps) if has_shortcut else maps
        found = block(torch.tensor(x)[None])[0].detach()
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_mlp_is_linear_layers_with_relu() -> None:
    backbone = MLP(16, rng=0)
    x = images(4, 1)
    slow = x.reshape(5, 16) / 255
    for i in (0, 3):
        state = backbone.layers[i].state_dict()
        slow = np.maximum(0, slow @ state["weight"].double().numpy().T + state["bias"].numpy())
    for kind in (x, x.reshape(5, 16) / 255):
        np.testing.assert_allclose(ProtoNet(backbone).embed(kind), slow, atol=1e-6)


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
@settings(max_examples=20)
def test_a_sentence_equals_that_of_loops_however_it_is_padded(seed: int) -> None:
    backbone, x = small_sentence_cnn(), sentences(seed, 3)
    slow = np.stack([slow_sentence(backbone, sentence) for sentence in x])
    np.testing.assert_allclose(ProtoNet(backbone).embed(x), slow, atol=1e-5)
    x[x[..., 0] == 0, 1:] = 3  # positions of padding tokens
    longer = np.concatenate([x, np.zeros((3, 9, 3), np.int64)], axis=1)
    np.testing.assert_allclose(ProtoNet(backbone).embed(longer), slow, atol=1e-5)
    rows, swap = WORDS.copy(), np.arange(11)
    swap[[0, 10]], rows[[0, 10]] = [10, 0], rows[[10, 0]]
    x[..., 0] = swap[x[..., 0]]
    other = ProtoNet(small_sentence_cnn(rows, padding=10)).embed(x)
    np.testing.assert_allclose(other, slow, atol=1e-5)


def test_frozen_word_vectors_get_no_gradient() -> None:
    backbone = small_sentence_cnn(frozen=True)
    backbone(torch.tensor(sentences(3))).sum().backward()
    assert backbone.words.weight.grad is None
    assert backbone.convolution.weight.grad is not None
    assert "words.weight" in backbone.state_dict()


def test_images_are_normalised_the_same_however_they_are_stored() -> None:
    pixels = Conv4(mean=networks.IMAGENET_MEAN, std=networks.IMAGENET_STD, size=16, rng=0).pixels
    x = images(16)
    by_hand = (x / 255 - np.array(networks.IMAGENET_MEAN)) / np.array(networks.IMAGENET_STD)
    for kind in (x, x.transpose(0, 3, 1, 2), (x / 255).astype(np.float32), x / 255):
        actual = pixels(torch.tensor(kind))
        assert actual.dtype == torch.float32
        np.testing.assert_allclose(actual, by_hand.transpose(0, 3, 1, 2), atol=1e-6)
    assert pixels(torch.tensor(x)).is_contiguous(memory_format=torch.channels_last)
    grey, pixels = images(28, 1), Conv4(1, 28, mean=0.5, std=0.25, rng=0).pixels
    by_hand = (grey.transpose(0, 3, 1, 2) / 255 - 0.5) / 0.25
    for kind in (grey, grey[..., 0], grey[..., 0] / 255):
        np.testing.assert_allclose(pixels(torch.tensor(kind)), by_hand, atol=1e-6)


def test_bad_arguments_and_examples_are_named() -> None:
    assert_refused("mean 3 (0.5,", Conv4, mean=(0.5, 0.5))
    for std in (0.0, math.nan, (1.0, 1.0, -1.0)):
        assert_refused("std positive", Conv4, std=std)
    assert_refused("size 16 15", Conv4, size=15)
    assert_refused("backbone 'conv4' 'vgg'", networks.build_backbone, "vgg")
    for scale in (0.0, -1.0, math.inf, math.nan):
        assert_refused("scale", Sphere, nn.Identity(), scale=scale)
    embed = ProtoNet(Conv4(rng=0)).embed
    assert_refused("3 channels (2, 28, 28)", embed, images(28, 1, 2)[..., 0])
    assert_refused("84 x 84 28 x 28", embed, images(28))
    assert_refused("uint8 float int64", embed, images(84).astype(np.int64))
    assert_refused("16 numbers (2, 5)", ProtoNet(MLP(16, rng=0)).embed, np.zeros((2, 5)))
    sentence = np.zeros((2, 6), np.int64)
    assert_refused("tokens, 3 int64 (2, 6)", ProtoNet(small_sentence_cnn()).embed, sentence)


def test_on_a_sphere_stored_vectors_of_length_1_are_compared_in_the_same_way() -> None:
    rng = np.random.default_rng(1)
    support, query = rng.normal(size=(9, 4)), rng.normal(size=(6, 4))
    y = np.repeat([0, 1, 2], 3)
    sphere = ProtoNet(Sphere(nn.Identity(), scale=7.0))
    unit, probe = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (support, query))

    def difference(learner: PrototypeLearner, shots: slice) -> float:
        expected = sphere.adapt(support[shots], y[shots]).predict_proba(query)
        found = learner.adapt(unit[shots], y[shots]).predict_proba(probe)
        return float(np.abs(found - expected).max())

    assert difference(PrototypeLearner(temperature=2 / 7.0), slice(None)) < 1e-5
    cosine = PrototypeLearner("cosine", temperature=1 / 7.0)
    assert difference(cosine, slice(None, None, 3)) < 1e-5  # one shot
    assert difference(cosine, slice(None)) > 0.01  # three shots: the mean is inside the sphere
    assert Sphere(nn.Identity())(torch.zeros(1, 3)).tolist() == [[0.0, 0.0, 0.0]]


def test_support_norm_on_the_support_set_is_batch_norm() -> None:
    norm = nn.BatchNorm2d(3, eps=0.1)
    generator = torch.Generator().manual_seed(0)
    norm.weight.data = torch.randn(3, generator=generator)
    norm.bias.data = torch.randn(3, generator=generator)
    module = networks.norm_by_support(nn.Sequential(nn.Identity(), nn.Sequential(norm, nn.ReLU())))
    assert not any(isinstance(part, nn.BatchNorm2d) for part in module.modules())
    (ours,) = [part for part in module.modules() if isinstance(part, networks.SupportNorm)]
    x = 5 + 2 * torch.randn(6, 3, 4, 4, generator=generator)
    for ours.support in (6, 2):
        first = norm(x[: ours.support])
        torch.testing.assert_close(ours(x)[: ours.support], first)
    alone = ours(torch.cat([x[:2], x[5:]]))[2]  # whatever the other queries are
    torch.testing.assert_close(ours(x)[5], alone)
    assert not torch.allclose(ours(x)[5], norm(x)[5])

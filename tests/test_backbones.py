"""Backbones: their widths, what they do to their input, and one sentence by Python loops."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from metapac.learners import MLP, Conv4, ProtoNet, ResNet12, ResNet50, SentenceCNN, backbones
from metapac.learners.backbones import IMAGENET_MEAN, IMAGENET_STD, Backbone

WORDS = np.random.default_rng(0).normal(size=(11, 4)).astype(np.float16)


def sentences(rng: np.random.Generator, count: int, tokens: int) -> NDArray[np.int64]:
    """Sentences of unequal lengths, padded at the end with word 0."""
    x = rng.integers(-tokens, tokens, size=(count, tokens, 3))
    x[..., 0] = rng.integers(1, len(WORDS), size=(count, tokens))
    for sentence in x[1:]:
        sentence[rng.integers(1, tokens + 1) :, 0] = 0
    return x


def small_sentence_cnn(**options: Any) -> SentenceCNN:
    return SentenceCNN(WORDS, **{"tokens": 6, "maps": 7, "rng": 0, **options})


def images(size: int, channels: int = 3, count: int = 5) -> NDArray[np.uint8]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (count, size, size, channels), dtype=np.uint8)


EXAMPLES: dict[str, tuple[Callable[[], Backbone], Any]] = {
    "Conv4": (lambda: Conv4(1, 28, rng=0), images(28, 1)),
    "ResNet12": (lambda: ResNet12(rng=0), images(16)),
    "ResNet50": (lambda: ResNet50(rng=0), images(16)),
    "MLP": (lambda: MLP(6, rng=0), np.random.default_rng(2).normal(size=(5, 6))),
    "SentenceCNN": (small_sentence_cnn, sentences(np.random.default_rng(3), 5, 6)),
}
EVERY = pytest.mark.parametrize("name", EXAMPLES)


@EVERY
def test_output_is_as_wide_as_said(name: str) -> None:
    build, x = EXAMPLES[name]
    backbone = build()
    assert ProtoNet(backbone).embed(x).shape == (5, backbone.features)


@EVERY
def test_an_example_has_one_embedding_whatever_its_batch(name: str) -> None:
    build, x = EXAMPLES[name]
    learner = ProtoNet(build().double())  # so that no rounding hides behind the tolerance
    whole = learner.embed(x)
    largest = whole.abs().max()
    for batch in (1, 2):
        assert (learner.embed(x, batch) - whole).abs().max() <= 1e-6 * largest


@EVERY
def test_every_weight_gets_a_gradient_in_training(name: str) -> None:
    build, x = EXAMPLES[name]
    backbone = build().train()
    if name == "SentenceCNN":
        backbone.get_submodule("dropout").eval()  # half of 7 maps is too few to see every weight
    z = backbone(torch.tensor(x))
    generator = torch.Generator().manual_seed(0)
    (z * torch.randn(z.shape, generator=generator)).sum().backward()
    for weight_name, weight in backbone.named_parameters():
        assert weight.grad is not None, weight_name
        assert torch.isfinite(weight.grad).all(), weight_name
        assert weight.grad.abs().sum() > 0, weight_name


@EVERY
def test_weights_come_from_rng_alone(name: str) -> None:
    build, _ = EXAMPLES[name]
    state = torch.get_rng_state()
    first = build().state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng(devices=[]):
        torch.rand(1)
        second = build().state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_other_rng_other_weights() -> None:
    one, two, three = (next(MLP(3, rng=rng).parameters()) for rng in (0, 1, None))
    assert not torch.equal(one, two)
    assert not torch.equal(one, three)
    generator = np.random.default_rng(0)
    assert torch.equal(next(MLP(3, rng=generator).parameters()), one)
    assert not torch.equal(next(MLP(3, rng=generator).parameters()), one)


@EVERY
def test_description_is_json_and_builds_the_same_architecture(name: str) -> None:
    built = EXAMPLES[name][0]()
    described = json.loads(json.dumps(built.describe()))
    assert described.pop("class") == name
    if name == "SentenceCNN":
        described["words"] = np.zeros(described["words"])
    again = getattr(backbones, name)(**described)
    assert again.describe() == built.describe()
    shapes = [{key: v.shape for key, v in net.state_dict().items()} for net in (built, again)]
    assert shapes[0] == shapes[1]


def weights(backbone: Backbone) -> int:
    return sum(weight.numel() for weight in backbone.parameters())


def test_conv4_gives_1600_features_of_84_pixels() -> None:
    backbone = Conv4(rng=0)
    assert backbone.features == 1600
    assert ProtoNet(backbone).embed(images(84, count=1)).shape == (1, 1600)
    assert weights(backbone) == 9 * 64 * (3 + 3 * 64) + 4 * 2 * 64


def test_conv4_is_four_times_convolve_normalise_cut_and_halve() -> None:
    backbone = Conv4(1, 16, 2, rng=0)
    rng = np.random.default_rng(4)
    for key, value in backbone.state_dict().items():
        if value.is_floating_point():  # running statistics too, so that none is a bystander
            value.copy_(torch.tensor(rng.uniform(0.5, 1.5, value.shape)) * (-1) ** len(key))
    for key, value in backbone.named_buffers():
        if key.endswith("running_var"):
            value.abs_()
    x = rng.random((1, 16, 16))
    maps = x
    state = {key: value.double().numpy() for key, value in backbone.state_dict().items()}
    for i in range(4):
        maps = slow_block(maps, {k: state[f"blocks.{i}.{k}"] for k in slow_keys})
    found = ProtoNet(backbone).embed(x[None])[0]
    np.testing.assert_allclose(found, maps.ravel(), rtol=1e-4)


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


def test_resnet12_has_the_usual_widths_and_weights() -> None:
    backbone = ResNet12(rng=0)
    assert backbone.features == 640
    blocks, inputs = 0, 3
    for width in (64, 160, 320, 640):
        blocks += 9 * width * (inputs + 2 * width) + inputs * width + 4 * 2 * width
        inputs = width
    assert weights(backbone) == blocks == 12_424_320
    assert ProtoNet(backbone).embed(images(84, count=1)).shape == (1, 640)


def test_resnet50_keeps_32_pixels_to_the_first_stage() -> None:
    backbone = ResNet50(rng=0).eval()
    # torchvision's ResNet-50 without its last layer, with a 3x3 stem in place of the 7x7 one.
    assert weights(backbone) == 23_508_032 - 3 * 64 * (49 - 9)
    assert backbone.features == 2048
    shapes = []
    for stage in backbone.stages:
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape)))
    ProtoNet(backbone).embed(images(32, count=1))
    assert shapes == [(1, 256, 32, 32), (1, 512, 16, 16), (1, 1024, 8, 8), (1, 2048, 4, 4)]


def test_pixels_are_normalised_alike_however_they_are_stored() -> None:
    pixels = Conv4(mean=IMAGENET_MEAN, std=IMAGENET_STD, size=16, rng=0).pixels
    x = images(16)
    by_hand = (x / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    stored = (x, x.transpose(0, 3, 1, 2), (x / 255).astype(np.float32), x / 255)
    for kind in stored:
        found = pixels(torch.tensor(kind))
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found, by_hand.transpose(0, 3, 1, 2), atol=1e-6)
    assert pixels(torch.tensor(x)).is_contiguous(memory_format=torch.channels_last)


def test_grey_images_need_no_channel_axis() -> None:
    learner = ProtoNet(Conv4(1, 28, mean=0.5, std=0.25, rng=0))
    x = images(28, 1)
    found = learner.embed(x)
    for kind in (x[..., 0], x.transpose(0, 3, 1, 2), x[..., 0] / 255):
        np.testing.assert_allclose(learner.embed(kind), found, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 28, 28), np.uint8), r"images of 3 channels, got shape \(2, 28, 28\)\. Build"),
        (np.zeros((2, 28, 28, 3), np.uint8), "images of 84 x 84, got 28 x 28. Build Conv4"),
        (np.zeros((2, 84, 84, 3), np.int64), "uint8 or float, got torch.int64. Convert pixels"),
    ],
)
def test_images_of_another_kind_are_refused(x: NDArray[Any], message: str) -> None:
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


def test_mlp_is_two_linear_layers_cut_at_zero() -> None:
    backbone = MLP(5, rng=0)
    assert weights(backbone) == 5 * 100 + 100 + 100 * 100 + 100
    x = np.random.default_rng(5).normal(size=(3, 5))
    slow = x
    for i in (0, 3):
        state = backbone.layers[i].state_dict()
        slow = np.maximum(0, slow @ state["weight"].double().numpy().T + state["bias"].numpy())
    np.testing.assert_allclose(ProtoNet(backbone).embed(x), slow, atol=1e-6)


def test_mlp_takes_images_and_refuses_rows_of_another_width() -> None:
    x = images(4, 1)
    learner = ProtoNet(MLP(16, rng=0))
    np.testing.assert_allclose(learner.embed(x), learner.embed(x.reshape(5, 16) / 255), atol=1e-6)
    with pytest.raises(ValueError, match=r"rows of 16 numbers, got shape \(2, 5\)\. Build MLP"):
        learner.embed(np.zeros((2, 5)))


@pytest.mark.parametrize("name", ["MLP", "SentenceCNN"])
def test_dropout_halves_at_random_in_training_only(name: str) -> None:
    build, x = EXAMPLES[name]
    backbone = build()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        noisy = torch.stack([backbone.train()(torch.tensor(x)) for _ in range(200)])
    quiet = backbone.eval()(torch.tensor(x))
    assert torch.equal(quiet, backbone(torch.tensor(x)))
    if name == "SentenceCNN":  # the last thing done: 0 or twice the value
        dropped = (noisy == 0) & (quiet > 0)
        assert torch.equal(noisy, torch.where(dropped, 0, 2 * quiet))
        kept = dropped[:, quiet > 0].double().mean()
        assert 0.4 < kept < 0.6  # 200 * 30 coins at least: 15 deviations away
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
def test_a_sentence_by_loops(seed: int) -> None:
    backbone = small_sentence_cnn()
    x = sentences(np.random.default_rng(seed), 3, 6)
    found = ProtoNet(backbone).embed(x)
    slow = np.stack([slow_sentence(backbone, sentence) for sentence in x])
    np.testing.assert_allclose(found, slow, atol=1e-5)


def test_padding_counts_for_nothing() -> None:
    learner = ProtoNet(small_sentence_cnn())
    x = sentences(np.random.default_rng(6), 4, 6)
    found = learner.embed(x)
    other = x.copy()
    other[x[..., 0] == 0, 1:] = 3  # positions of padding tokens
    longer = np.concatenate([other, np.zeros((4, 9, 3), np.int64)], axis=1)
    np.testing.assert_allclose(learner.embed(longer), found, atol=1e-6)
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


def test_the_paper_s_sentence_encoder_has_230_maps() -> None:
    backbone = SentenceCNN(WORDS, rng=0)
    assert backbone.features == 230
    assert weights(backbone) == WORDS.size + 2 * 255 * 5 + 230 * (4 + 10) * 3 + 230
    np.testing.assert_array_equal(backbone.words.weight.detach(), WORDS.astype(np.float32))


def test_frozen_words_stay() -> None:
    backbone = small_sentence_cnn(frozen=True)
    z: Tensor = backbone(torch.tensor(EXAMPLES["SentenceCNN"][1]))
    z.sum().backward()  # type: ignore[no-untyped-call]
    assert backbone.words.weight.grad is None
    assert backbone.convolution.weight.grad is not None
    assert "words.weight" in backbone.state_dict()


def test_sentences_of_another_shape_are_refused() -> None:
    message = r"\(n, tokens, 3\): word, .* got torch.int64 of shape \(2, 6\)"
    with pytest.raises(ValueError, match=message):
        ProtoNet(small_sentence_cnn()).embed(np.zeros((2, 6), np.int64))

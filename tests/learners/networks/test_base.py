"""Normalisation of images, seeded weights, and descriptions."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from metapac.fewshot import MLP, Conv4, ProtoNet
from metapac.fewshot.learners.networks import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    describe_module,
    per_channel,
    seeded_init,
)
from tests.helpers.backbones import images


def test_images_are_normalised_the_same_however_they_are_stored() -> None:
    pixels = Conv4(mean=IMAGENET_MEAN, std=IMAGENET_STD, size=16, rng=0).pixels
    x = images(16)
    by_hand = (x / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    stored = (x, x.transpose(0, 3, 1, 2), (x / 255).astype(np.float32), x / 255)
    for kind in stored:
        actual = pixels(torch.tensor(kind))
        assert actual.dtype == torch.float32
        np.testing.assert_allclose(actual, by_hand.transpose(0, 3, 1, 2), atol=1e-6)
    assert pixels(torch.tensor(x)).is_contiguous(memory_format=torch.channels_last)


def test_grey_images_need_no_channel_axis() -> None:
    learner = ProtoNet(Conv4(1, 28, mean=0.5, std=0.25, rng=0))
    x = images(28, 1)
    actual = learner.embed(x)
    for kind in (x[..., 0], x.transpose(0, 3, 1, 2), x[..., 0] / 255):
        np.testing.assert_allclose(learner.embed(kind), actual, atol=1e-5)


def test_another_rng_gives_other_weights() -> None:
    one, two, three = (next(MLP(3, rng=rng).parameters()) for rng in (0, 1, None))
    assert not torch.equal(one, two)
    assert not torch.equal(one, three)
    generator = np.random.default_rng(0)
    assert torch.equal(next(MLP(3, rng=generator).parameters()), one)
    assert not torch.equal(next(MLP(3, rng=generator).parameters()), one)


def test_seeded_init_does_not_touch_the_global_generator() -> None:
    before = torch.get_rng_state()
    with seeded_init(0):
        first = nn.Linear(3, 2).weight
    with seeded_init(0):
        second = nn.Linear(3, 2).weight
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_one_number_stands_for_all_channels() -> None:
    assert per_channel(0.5, 3) == [0.5, 0.5, 0.5]
    assert per_channel((0.1, 0.2), 2) == [0.1, 0.2]


def test_a_module_describes_itself_or_its_layers() -> None:
    assert describe_module(MLP(3, rng=0))["inputs"] == 3
    assert describe_module(nn.Identity()) == {"class": "Identity", "is": "Identity()"}

"""The backbones by name, and the contract that all of them satisfy."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from metapac.fewshot import ProtoNet
from metapac.fewshot.learners.networks import BACKBONES, build_backbone
from tests.helpers.backbones import EXAMPLES

EVERY = pytest.mark.parametrize("name", EXAMPLES)


@EVERY
def test_vectors_have_the_declared_length(name: str) -> None:
    build, x = EXAMPLES[name]
    backbone = build()
    assert ProtoNet(backbone).embed(x).shape == (5, backbone.features)


@EVERY
def test_embeddings_do_not_depend_on_the_batch(name: str) -> None:
    build, x = EXAMPLES[name]
    learner = ProtoNet(build().double())  # so that the tolerance hides no dependence
    whole = learner.embed(x)
    largest = whole.abs().max()
    for batch in (1, 2):
        assert (learner.embed(x, batch) - whole).abs().max() <= 1e-6 * largest


@EVERY
def test_every_weight_gets_a_gradient_in_training(name: str) -> None:
    build, x = EXAMPLES[name]
    backbone = build().train()
    if name == "SentenceCNN":
        backbone.get_submodule("dropout").eval()  # half of 7 maps may not reach every weight
    z = backbone(torch.tensor(x))
    generator = torch.Generator().manual_seed(0)
    (z * torch.randn(z.shape, generator=generator)).sum().backward()
    for weight_name, weight in backbone.named_parameters():
        assert weight.grad is not None, weight_name
        assert torch.isfinite(weight.grad).all(), weight_name
        assert weight.grad.abs().sum() > 0, weight_name


@EVERY
def test_weights_depend_on_rng_alone(name: str) -> None:
    build, _ = EXAMPLES[name]
    state = torch.get_rng_state()
    first = build().state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng(devices=[]):
        torch.rand(1)
        second = build().state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


@EVERY
def test_description_is_json_and_builds_the_same_architecture(name: str) -> None:
    built = EXAMPLES[name][0]()
    described = json.loads(json.dumps(built.describe()))
    assert described.pop("class") == name
    if name == "SentenceCNN":
        described["words"] = np.zeros(described["words"])
    (short,) = [short for short, kind in BACKBONES.items() if kind.__name__ == name]
    again = build_backbone(short, **described)
    assert again.describe() == built.describe()
    shapes = [{key: v.shape for key, v in net.state_dict().items()} for net in (built, again)]
    assert shapes[0] == shapes[1]


def test_every_backbone_has_an_example() -> None:
    assert {kind.__name__ for kind in BACKBONES.values()} == set(EXAMPLES)


def test_unknown_names_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"backbone must be 'conv4' or .*, got 'vgg'"):
        build_backbone("vgg")

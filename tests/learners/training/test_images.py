"""Batches of changed training images and their classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from metapac.fewshot import MLP, ClassPool, Conv4, ProtoNet, Sphere
from metapac.fewshot.training.episodes import EpisodeSampler
from metapac.fewshot.training.strong import Images, Recipe, learner_backbone

PLAIN: dict[str, Any] = {"crop": 1.0, "colour": 0.0, "flip": False}


def make(x: Any, y: Any, backbone: Any, **recipe: Any) -> Images:
    pool = ClassPool(x, y)
    sampler = EpisodeSampler(pool, "cpu", ways=2, shots=1, queries=1)
    return Images(pool, ProtoNet(Sphere(backbone)), Recipe(**recipe), sampler)


def coloured(per_class: int = 6, size: int = 16) -> tuple[Any, Any]:
    """Images whose first pixel says which image it is; the class is its number modulo 3."""
    number = np.arange(3 * per_class, dtype=np.uint8)
    x = np.zeros((len(number), size, size, 3), np.uint8)
    x[:, 0, 0, 0] = number
    return x, number % 3


def test_an_epoch_shows_every_image_once_with_its_class() -> None:
    x, y = coloured()
    images = make(x, y, Conv4(size=16, rng=0), batch=6, rotate=False, **PLAIN)
    batches = list(images.epoch(torch.Generator().manual_seed(0)))
    assert [len(batch) for batch, _ in batches] == [6, 6, 6]
    shown = torch.cat([batch[:, 0, 0, 0] for batch, _ in batches]) * 255
    labels = torch.cat([labels for _, labels in batches])
    assert sorted(shown.round().int().tolist()) == list(range(18))
    assert (shown.round().long() % 3).tolist() == labels.tolist()
    assert images.outputs == 3


def test_rotated_copies_are_classes_of_their_own() -> None:
    x, y = coloured()
    images = make(x, y, Conv4(size=16, rng=0), batch=6, **PLAIN)
    assert images.outputs == 12
    corners = {0: (0, 0), 1: (15, 0), 2: (15, 15), 3: (0, 15)}  # of the first pixel, by turn
    turns = set()
    for batch, labels in images.epoch(torch.Generator().manual_seed(1)):
        assert len(batch) == 12
        for image, label in zip(batch, labels.tolist(), strict=True):
            row, column = corners[label % 4]
            number = round(float(image[0, row, column]) * 255)
            assert number % 3 == label // 4
            assert float(image[0].sum()) * 255 == number or abs(image[0].sum() * 255 - number) < 1
            turns.add(label % 4)
    assert turns == {0, 1, 2, 3}


def test_images_that_are_not_square_are_not_rotated() -> None:
    class Wide(Conv4):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)

    x = np.zeros((8, 16, 20, 3), np.uint8)
    assert make(x, [0, 1] * 4, Wide(size=16, rng=0), batch=4).outputs == 2


def test_rows_of_numbers_are_not_changed() -> None:
    x = np.arange(16.0).reshape(8, 2)
    images = make(x, [0, 1] * 4, MLP(2, rng=0), batch=4)
    batches = torch.cat([batch for batch, _ in images.epoch(torch.Generator().manual_seed(0))])
    assert sorted(batches[:, 0].tolist()) == x[:, 0].tolist()
    assert images.outputs == 2


def test_colours_of_float_images_stay_as_they_are() -> None:
    x = np.full((8, 16, 16, 3), 40.0)  # not between 0 and 1
    images = make(x, [0, 1] * 4, Conv4(size=16, rng=0), batch=8, rotate=False)
    ((batch, _),) = images.epoch(torch.Generator().manual_seed(0))
    torch.testing.assert_close(batch, torch.full_like(batch, 40.0))


def test_plain_images_are_shown_once_and_unchanged() -> None:
    x, y = coloured()
    images = make(x, y, Conv4(size=16, rng=0), batch=6)
    shown = torch.cat(list(images.plain(torch.Generator().manual_seed(0))))
    assert sorted((shown[:, 0, 0, 0] * 255).round().int().tolist()) == list(range(18))


def test_a_batch_is_never_larger_than_the_data() -> None:
    x, y = coloured()
    assert make(x, y, Conv4(size=16, rng=0), batch=1000).batch == 18


def test_the_backbone_is_found_on_a_sphere_and_without_one() -> None:
    network = MLP(2, rng=0)
    assert learner_backbone(ProtoNet(network)) is network
    assert learner_backbone(ProtoNet(Sphere(network))) is network

"""Random changes of images against crops by hand."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from metapac.fewshot.training.episodes import change_colours, crop_and_flip


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ramp(n: int = 64, size: int = 8) -> Tensor:
    """Images whose value is the horizontal position of the centre of a pixel, from 0 to 1."""
    line = (torch.arange(size) + 0.5) / size
    return line.expand(n, 1, size, size).clone()


@given(seed=st.integers(0, 10**6), crop=st.floats(0.05, 1.0), flip=st.booleans())
def test_a_crop_of_a_ramp_is_a_ramp_inside_it(seed: int, crop: float, flip: bool) -> None:
    part = crop_and_flip(ramp(), generator(seed), crop=crop, flip=flip)
    line = part[:, 0, 0]  # (n, size)
    assert torch.allclose(part, part[:, :, :1].expand_as(part), atol=1e-5)  # rows stay alike
    assert line.min() >= 0
    assert line.max() <= 1
    rises = (line[:, 1:] >= line[:, :-1] - 1e-6).all(1)
    falls = (line[:, 1:] <= line[:, :-1] + 1e-6).all(1)
    assert bool((rises | falls).all())
    if not flip:
        assert bool(rises.all())


def test_the_width_of_a_crop_lies_in_its_range() -> None:
    line = crop_and_flip(ramp(4000, 16), generator(), crop=0.25, flip=True)[:, 0, 0]
    width = (line[:, 8] - line[:, 7]).abs() * 16  # slope of the ramp: share of the image
    low, high = (0.25 * 3 / 4) ** 0.5, 1.0
    assert float(width.min()) >= low - 1e-3
    assert float(width.max()) <= high + 1e-3
    # Both ends are reached, and half of the images are mirrored (5.1 standard deviations).
    assert float(width.min()) < low + 0.05
    assert float(width.max()) > 0.99
    mirrored = float((line[:, 8] < line[:, 7]).float().mean())
    assert abs(mirrored - 0.5) < 5.1 * 0.5 / 4000**0.5


def test_colours_change_within_their_strength() -> None:
    grey = torch.full((2000, 1, 2, 2), 0.5)
    changed = change_colours(grey, generator(), strength=0.4)
    assert float(changed.min()) >= 0.3 - 1e-6
    assert float(changed.max()) <= 0.7 + 1e-6
    assert float(changed.min()) < 0.31
    assert float(changed.max()) > 0.69
    torch.testing.assert_close(change_colours(grey, generator(), strength=0.0), grey)


def test_saturation_changes_only_colour_images() -> None:
    red = torch.zeros(500, 3, 2, 2)
    red[:, 0] = 0.5
    changed = change_colours(red, generator(), strength=0.4)
    assert float(changed[:, 1].max()) > 0.01  # drawn towards grey
    flat = torch.full((500, 3, 2, 2), 0.5)
    changed = change_colours(flat, generator(), strength=0.4)
    torch.testing.assert_close(changed[:, 0], changed[:, 2])  # grey stays grey


@given(seed=st.integers(0, 10**6))
def test_values_stay_between_0_and_1_and_depend_on_the_seed_alone(seed: int) -> None:
    images = torch.from_numpy(np.random.default_rng(seed).random((8, 3, 4, 4), np.float32))
    first = change_colours(images, generator(seed), strength=0.9)
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1
    assert torch.equal(first, change_colours(images, generator(seed), strength=0.9))

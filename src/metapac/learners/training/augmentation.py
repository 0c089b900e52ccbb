"""Data augmentation: random changes of images that keep their class, on the training device."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

_ASPECT = math.log(4 / 3)  # a crop is at most a third wider than high, or higher than wide
_LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)


def crop_and_flip(images: Tensor, generator: torch.Generator, *, crop: float, flip: bool) -> Tensor:
    """Return a random part of each image, enlarged to the size of the image.

    Parameters
    ----------
    images : Tensor, shape (n, channels, height, width)
        Images as floats.
    generator : torch.Generator
        Source of randomness, on the device of the images.
    crop : float
        Smallest share of the image that a part covers.
    flip : bool
        Whether half of the images are mirrored, left to right.

    Returns
    -------
    Tensor, shape (n, channels, height, width)
        The augmented images.
    """
    n = len(images)
    uniform = _Uniform(n, generator)
    area, stretch = uniform(crop, 1.0), torch.exp(uniform(-_ASPECT, _ASPECT) / 2)
    width = (area.sqrt() * stretch).clamp(max=1.0)
    height = (area.sqrt() / stretch).clamp(max=1.0)
    mirror = torch.where(uniform(0.0, 1.0) < (0.5 if flip else 0.0), -1.0, 1.0)
    zero = torch.zeros_like(width)
    rows = torch.stack(
        [
            torch.stack([mirror * width, zero, uniform(-1.0, 1.0) * (1 - width)], dim=1),
            torch.stack([zero, height, uniform(-1.0, 1.0) * (1 - height)], dim=1),
        ],
        dim=1,
    )  # (n, 2, 3)
    grid = affine_grid(rows, list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def change_colours(images: Tensor, generator: torch.Generator, *, strength: float) -> Tensor:
    """Return images with random brightness, contrast and, if they are in colour, saturation.

    Parameters
    ----------
    images : Tensor, shape (n, channels, height, width)
        Images with values from 0 to 1.
    generator : torch.Generator
        Source of randomness, on the device of the images.
    strength : float
        Largest change: each property is multiplied by 1 - strength to 1 + strength.

    Returns
    -------
    Tensor, shape (n, channels, height, width)
        The augmented images, with values from 0 to 1.
    """
    uniform = _Uniform(len(images), generator)

    def factor() -> Tensor:
        return uniform(1 - strength, 1 + strength).view(-1, 1, 1, 1)

    images = (images * factor()).clamp(0, 1)
    mean = _luminance(images).mean((2, 3), keepdim=True)
    images = torch.lerp(mean, images, factor()).clamp(0, 1)
    if images.shape[1] == 3:
        images = torch.lerp(_luminance(images), images, factor()).clamp(0, 1)
    return images


def _luminance(images: Tensor) -> Tensor:
    """Return the grey value of each pixel, (n, c, h, w) -> (n, 1, h, w)."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    weights = torch.tensor(_LUMINANCE, device=images.device, dtype=images.dtype)
    return (images * weights.view(1, 3, 1, 1)).sum(1, keepdim=True)


class _Uniform:
    """Draws one uniform number for each image."""

    def __init__(self, n: int, generator: torch.Generator) -> None:
        self._n, self._generator = n, generator

    def __call__(self, low: float, high: float) -> Tensor:
        numbers = torch.empty(self._n, device=self._generator.device)
        return numbers.uniform_(low, high, generator=self._generator)

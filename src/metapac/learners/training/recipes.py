"""Settings of the strong recipe: epochs, learning rates and augmentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from metapac._checks import as_whole_number
from metapac.exceptions import InvalidInput, Parameter
from metapac.learners.networks.backbones import Conv4

STEPS_PER_EPOCH = 100  # of tuning
TUNING_FLOOR = 0.05  # last learning rate of tuning, relative to the first

# Least value of each count, and largest value of each number.
_COUNTS = {"epochs": 1, "batch": 2, "warmup": 0, "tuning_steps": 0, "episodes_per_step": 1}
_NUMBERS = {
    "lr": math.inf,
    "weight_decay": math.inf,
    "averaged": 1.0,
    "crop": 1.0,
    "colour": 1.0,
    "tuning_lr": math.inf,
}


@dataclass(frozen=True)
class Recipe:
    """Settings of `train_strong`; the defaults suit a ResNet-12.

    Parameters
    ----------
    epochs : int, default 44
        Epochs of pre-training: passes over all training images.
    batch : int, default 128
        Images in a step of pre-training, not counting their rotated copies.
    lr : float, default 0.1
        Largest learning rate of pre-training (SGD with Nesterov momentum 0.9). It rises for
        ``warmup`` steps, then falls along a cosine to a fiftieth.
    warmup : int, default 500
        Number of steps over which the learning rate rises, at most a tenth of all steps.
    weight_decay : float, default 0.0005
        Weight decay.
    averaged : float, default 0.25
        Share of the last epochs of pre-training whose weights are averaged; 0 keeps the last.
    crop : float, default 0.35
        Smallest share of an image that is cut out and enlarged; 1 switches cropping off.
    colour : float, default 0.4
        Largest relative change of brightness, contrast and saturation. It applies to uint8 images.
    flip : bool, default True
        Whether half of the images are mirrored. Pass False for letters, digits and other images
        whose mirror image is of another class.
    rotate : bool, default True
        Whether each image is also shown rotated by 90, 180 or 270 degrees. Each rotation of a class
        is a class of its own, so there are four times as many. It applies to square images.
    tuning_steps : int, default 400
        Number of optimiser steps on episodes after pre-training.
    tuning_lr : float, default 0.001
        Learning rate of these steps (SGD with momentum 0.9), which falls linearly. The weights of
        the last half are averaged.
    episodes_per_step : int, default 4
        Number of episodes in a step of tuning.

    Examples
    --------
    >>> from metapac.learners import Recipe
    >>> Recipe(epochs=10, flip=False).tuning_epochs
    4
    """

    epochs: int = 44
    batch: int = 128
    lr: float = 0.1
    warmup: int = 500
    weight_decay: float = 5e-4
    averaged: float = 0.25
    crop: float = 0.35
    colour: float = 0.4
    flip: bool = True
    rotate: bool = True
    tuning_steps: int = 400
    tuning_lr: float = 1e-3
    episodes_per_step: int = 4

    def __post_init__(self) -> None:
        for name, least in _COUNTS.items():
            object.__setattr__(
                self, name, as_whole_number(name, getattr(self, name), minimum=least)
            )
        for name, high in _NUMBERS.items():
            value = float(getattr(self, name))
            if not 0 <= value <= high or math.isinf(value):
                bound = f"between 0 and {high:g}" if high < math.inf else "at least 0 and finite"
                raise InvalidInput("{} must be {}, got {!r}.", Parameter(name), bound, value)
            object.__setattr__(self, name, value)

    @property
    def tuning_epochs(self) -> int:
        """Number of epochs of tuning, each of up to 100 steps."""
        return -(-self.tuning_steps // STEPS_PER_EPOCH)

    def learning_rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step of pre-training.

        Parameters
        ----------
        step : int
            Number of the step, from 0.
        steps : int
            Number of all steps.

        Returns
        -------
        float
            The learning rate.
        """
        fall = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps))
        rise = max(1, min(self.warmup, steps // 10))
        return self.lr * fall * min(1.0, (step + 1) / rise)

    def tuning_rate(self, step: int) -> float:
        """Return the learning rate of a step of tuning.

        Parameters
        ----------
        step : int
            Number of the step, from 0.

        Returns
        -------
        float
            The learning rate.
        """
        done = step / max(1, self.tuning_steps)
        return self.tuning_lr * (TUNING_FLOOR + (1 - TUNING_FLOOR) * (1 - done))


def recipe_for(backbone: Any, **changes: Any) -> Recipe:
    """Return the recipe that suits a backbone.

    Parameters
    ----------
    backbone : torch.nn.Module
        The backbone.
    **changes : object
        Fields of `Recipe` to set; None leaves a field as it is.

    Returns
    -------
    Recipe
        For a `Conv4` larger batches, milder crops and longer tuning; the defaults otherwise.

    Examples
    --------
    >>> from metapac.learners import Conv4, recipe_for
    >>> recipe_for(Conv4(rng=0), epochs=10).batch
    256
    """
    recipe = Recipe()
    if isinstance(backbone, Conv4):
        recipe = replace(recipe, epochs=60, batch=256, crop=0.5, tuning_steps=3000, tuning_lr=0.01)
    given = {name: value for name, value in changes.items() if value is not None}
    unknown = sorted(given.keys() - {field.name for field in fields(Recipe)})
    if unknown:
        raise TypeError(f"Recipe has no field {unknown[0]!r}")
    return replace(recipe, **given)

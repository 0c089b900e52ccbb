"""Training examples in batches of augmented copies, for classification."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from metapac.learners.networks.base import ImageBackbone
from metapac.learners.networks.sphere import Sphere
from metapac.learners.protonet import ProtoNet
from metapac.learners.training.augmentation import change_colours, crop_and_flip
from metapac.learners.training.episodes import EpisodeSampler, take
from metapac.learners.training.recipes import Recipe
from metapac.tasks.pools import ClassPool

_TURNS = 4  # rotations by 0, 90, 180 and 270 degrees
_REFRESH, _REFRESH_BATCH = 30_000, 500  # examples that set the statistics of batch norms


class Images:
    """The training examples with the number of their class, in batches of augmented copies.

    Parameters
    ----------
    pool : ClassPool
        Pool to train on.
    learner : ProtoNet
        The learner; only the images of an `ImageBackbone` are augmented.
    recipe : Recipe
        How they are augmented.
    sampler : EpisodeSampler
        Sampler of the pool, which holds its data.
    """

    def __init__(
        self, pool: ClassPool, learner: ProtoNet, recipe: Recipe, sampler: EpisodeSampler
    ) -> None:
        self.recipe, self.sampler, self.device = recipe, sampler, sampler.device
        self.batch = min(recipe.batch, len(pool.y))
        self.batches = len(pool.y) // self.batch
        labels = np.empty(len(pool.y), np.int64)
        for number, positions in enumerate(pool.positions):
            labels[positions] = number
        self._labels = torch.from_numpy(labels).to(self.device)
        backbone = learner_backbone(learner)
        self._pixels = backbone.pixels if isinstance(backbone, ImageBackbone) else None
        self._bytes = str(pool.x.dtype).endswith("uint8")  # of NumPy or torch
        sample = self._take(torch.zeros(1, dtype=torch.int64))
        self._rotate = recipe.rotate and sample.ndim == 4 and sample.shape[2] == sample.shape[3]
        self.outputs = len(pool.names) * (_TURNS if self._rotate else 1)

    def __len__(self) -> int:
        return len(self._labels)

    def epoch(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all examples once, in random order, in batches of one size.

        Parameters
        ----------
        generator : torch.Generator
            Source of randomness.

        Yields
        ------
        x : Tensor, shape (n, ...)
            Augmented examples, followed by their rotated copies if images are rotated.
        y : Tensor of int, shape (n,)
            Their classes.
        """
        order = torch.randperm(len(self), generator=generator, device=generator.device)
        for i in range(self.batches):
            chosen = order[i * self.batch : (i + 1) * self.batch]
            x, y = self._change(self._take(chosen), generator), self._labels[chosen]
            if self._rotate:
                turn = 1 + i % (_TURNS - 1)
                x = torch.cat([x, torch.rot90(x, turn, (2, 3))])
                y = torch.cat([y * _TURNS, y * _TURNS + turn])
            yield _channels_last(x), y

    def plain(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield random examples without augmentation, to set the statistics of batch norms.

        Parameters
        ----------
        generator : torch.Generator
            Source of randomness.

        Yields
        ------
        Tensor, shape (n, ...)
            Examples.
        """
        order = torch.randperm(len(self), generator=generator, device=generator.device)
        for chosen in torch.split(order[:_REFRESH], _REFRESH_BATCH):
            yield _channels_last(self._take(chosen))

    def _take(self, positions: Tensor) -> Tensor:
        """Return examples; images as floats with channels first, of 0 to 1 if they were uint8."""
        x = take(self.sampler.data, positions, self.device)
        if self._pixels is None:
            return x
        unit = 255 if x.dtype == torch.uint8 else 1
        return self._pixels.channels_first(x).to(torch.get_default_dtype()) / unit

    def _change(self, x: Tensor, generator: torch.Generator) -> Tensor:
        recipe = self.recipe
        if self._pixels is None:
            return x
        if recipe.crop < 1 or recipe.flip:
            x = crop_and_flip(x, generator, crop=recipe.crop, flip=recipe.flip)
        if recipe.colour > 0 and self._bytes:
            x = change_colours(x, generator, strength=recipe.colour)
        return x


def learner_backbone(learner: ProtoNet) -> nn.Module:
    """Return the network of a learner without its sphere.

    Parameters
    ----------
    learner : ProtoNet
        The learner.

    Returns
    -------
    torch.nn.Module
        The network.
    """
    return learner.module.backbone if isinstance(learner.module, Sphere) else learner.module


def _channels_last(x: Tensor) -> Tensor:
    if x.device.type == "cuda" and x.ndim == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x

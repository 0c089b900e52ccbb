"""Networks from examples to vectors: images, rows of a table, sentences."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from metapac.learners._backbone import (
    Backbone,
    PerChannel,
    Pixels,
    Seed,
    listed,
    weights_from,
)
from metapac.learners.resnets import ResNet12, ResNet50

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "MLP",
    "Backbone",
    "Conv4",
    "ResNet12",
    "ResNet50",
    "SentenceCNN",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Conv4(Backbone):
    """4 x [3x3 convolution, batch norm, ReLU, 2x2 max-pool], flattened (Snell et al. 2017).

    Images are ``size`` x ``size``, stored and normalised as ``Pixels`` says; 84 x 84 give 1600
    features.
    """

    def __init__(
        self,
        channels: int = 3,
        size: int = 84,
        width: int = 64,
        *,
        mean: PerChannel = 0.0,
        std: PerChannel = 1.0,
        rng: Seed = None,
    ) -> None:
        super().__init__(
            channels=channels,
            size=size,
            width=width,
            mean=listed(mean, channels),
            std=listed(std, channels),
        )
        if size < 16:
            raise ValueError(
                f"size must be at least 16, for four halvings, got {size}. Enlarge the images."
            )
        self.size = size
        self.features = width * (size // 16) ** 2
        self.pixels = Pixels(channels, mean, std)
        with weights_from(rng):
            self.blocks = nn.Sequential(
                *(self._block(inputs, width) for inputs in (channels, width, width, width))
            )

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.pixels(x)  # (n, channels, size, size)
        if x.shape[2:] != (self.size, self.size):
            raise ValueError(
                f"x must hold images of {self.size} x {self.size}, got {x.shape[2]} x "
                f"{x.shape[3]}. Build Conv4(size=...) for the images."
            )
        x = self.blocks(x)  # (n, width, size // 16, size // 16)
        return x.flatten(1)  # (n, features)


class MLP(Backbone):
    """2 x [linear to 100, ReLU, dropout 0.5], for rows of a table with ``inputs`` columns.

    Longer shapes are flattened and uint8 is divided by 255; nothing else is normalised, so
    standardise the columns before.
    """

    def __init__(
        self,
        inputs: int,
        width: int = 100,
        depth: int = 2,
        *,
        dropout: float = 0.5,
        rng: Seed = None,
    ) -> None:
        super().__init__(inputs=inputs, width=width, depth=depth, dropout=dropout)
        self.inputs = inputs
        self.features = width
        with weights_from(rng):
            self.layers = nn.Sequential()
            for columns in [inputs] + [width] * (depth - 1):
                self.layers.extend([nn.Linear(columns, width), nn.ReLU(), nn.Dropout(dropout)])

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(1)  # (n, inputs)
        if rows.shape[1] != self.inputs:
            raise ValueError(
                f"x must hold rows of {self.inputs} numbers, got shape {tuple(x.shape)}. "
                "Build MLP(inputs=...) for the data."
            )
        if x.dtype == torch.uint8:
            rows = rows / 255
        weight: Tensor = self.layers[0].weight  # type: ignore[assignment]
        z: Tensor = self.layers(rows.to(weight.dtype))  # (n, width)
        return z


class SentenceCNN(Backbone):
    """The FewRel sentence encoder: word and position embeddings, convolution, max-pool.

    An example is (tokens, 3) whole numbers: the word's id, its position relative to the head
    entity and to the tail entity (0 at the entity, negative before it; beyond ``tokens`` - 1 counts
    as that far). Each token becomes its row of ``words`` and two position embeddings; a width-3
    convolution makes ``maps`` maps, then ReLU, the maximum over the tokens, and dropout. Tokens
    whose id is ``padding`` count for nothing: a sentence has one vector, however much it is padded.
    ``frozen`` keeps the word vectors as they were given.
    """

    def __init__(
        self,
        words: ArrayLike | Tensor,
        *,
        tokens: int = 128,
        positions: int = 5,
        maps: int = 230,
        dropout: float = 0.5,
        frozen: bool = False,
        padding: int = 0,
        rng: Seed = None,
    ) -> None:
        vectors = torch.as_tensor(words, dtype=torch.get_default_dtype())
        super().__init__(
            words=list(vectors.shape),
            tokens=tokens,
            positions=positions,
            maps=maps,
            dropout=dropout,
            frozen=frozen,
            padding=padding,
        )
        self.tokens = tokens
        self.padding = padding
        self.features = maps
        with weights_from(rng):
            self.words = nn.Embedding(*vectors.shape)
            self.to_head = nn.Embedding(2 * tokens - 1, positions)
            self.to_tail = nn.Embedding(2 * tokens - 1, positions)
            self.convolution = nn.Conv1d(vectors.shape[1] + 2 * positions, maps, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.words.weight.data.copy_(vectors)
        self.words.weight.requires_grad_(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        ids, head, tail = x.long().unbind(-1)  # (n, tokens) each
        real = (ids != self.padding).unsqueeze(-1)  # (n, tokens, 1)
        token = torch.cat(
            [self.words(ids), self.to_head(self._row(head)), self.to_tail(self._row(tail))], dim=-1
        )  # (n, tokens, d)
        maps = self.convolution((token * real).mT).relu()  # (n, maps, tokens)
        # After the ReLU no value is below 0, so a padded 0 is never the larger.
        z: Tensor = self.dropout((maps * real.mT).amax(-1))  # (n, maps)
        return z

    def _row(self, position: Tensor) -> Tensor:
        furthest = self.tokens - 1
        return position.clamp(-furthest, furthest) + furthest

    @staticmethod
    def _check(x: Tensor) -> None:
        if x.ndim != 3 or x.shape[2] != 3 or x.is_floating_point():
            raise ValueError(
                "x must hold whole numbers (n, tokens, 3): word, position to head, position to "
                f"tail; got {x.dtype} of shape {tuple(x.shape)}."
            )

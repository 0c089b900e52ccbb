"""Small backbones for images, rows of a table, and sentences."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from metapac._types import Seed
from metapac.exceptions import InvalidInput
from metapac.learners.networks.base import Backbone, ImageBackbone, PerChannel, seeded_init

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Conv4(ImageBackbone):
    """Four convolutional blocks, the usual small few-shot backbone (Snell et al. 2017).

    Each block is a 3x3 convolution, batch norm, ReLU and 2x2 max-pooling; the result is
    flattened. 84 x 84 images give 1600 features.

    Parameters
    ----------
    channels : int, default 3
        Number of channels of an image.
    size : int, default 84
        Height and width of an image, at least 16.
    width : int, default 64
        Number of channels of each block.
    mean : float or sequence of float, default 0.0
        Mean of each channel, to subtract; uint8 images are divided by 255 first.
    std : float or sequence of float, default 1.0
        Standard deviation of each channel, to divide by.
    rng : int, numpy.random.Generator or None, optional
        Seed of the weights.

    Attributes
    ----------
    features : int
        Length of a vector.

    Examples
    --------
    >>> import torch
    >>> from metapac.learners import Conv4
    >>> backbone = Conv4(channels=1, size=16, width=8, rng=0)
    >>> backbone(torch.zeros(2, 16, 16)).shape
    torch.Size([2, 8])
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
        features = width * (size // 16) ** 2
        super().__init__(features, channels, mean, std, size=size, width=width)
        if size < 16:
            raise InvalidInput(
                f"size must be at least 16, for four halvings, got {size}. Enlarge the images."
            )
        self.size = size
        with seeded_init(rng):
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
        """Return the vectors of images.

        Parameters
        ----------
        x : Tensor
            Images of ``size`` x ``size`` pixels, uint8 or float, channels first or last.

        Returns
        -------
        Tensor, shape (n, features)
            The vectors.
        """
        x = self.pixels(x)  # (n, channels, size, size)
        if x.shape[2:] != (self.size, self.size):
            raise InvalidInput(
                f"x must hold images of {self.size} x {self.size}, got {x.shape[2]} x "
                f"{x.shape[3]}. Build Conv4(size=...) for the images."
            )
        x = self.blocks(x)  # (n, width, size // 16, size // 16)
        return x.flatten(1)  # (n, features)


class MLP(Backbone):
    """Linear layers with ReLU and dropout, for rows of a table.

    Examples of more dimensions are flattened, and uint8 is divided by 255. Nothing is normalised
    beyond that: standardise the columns first.

    Parameters
    ----------
    inputs : int
        Number of columns.
    width : int, default 100
        Width of each layer, and length of a vector.
    depth : int, default 2
        Number of layers.
    dropout : float, default 0.5
        Probability of dropout after each layer.
    rng : int, numpy.random.Generator or None, optional
        Seed of the weights.

    Attributes
    ----------
    features : int
        Length of a vector.

    Examples
    --------
    >>> import torch
    >>> from metapac.learners import MLP
    >>> MLP(3, width=5, rng=0)(torch.zeros(2, 3)).shape
    torch.Size([2, 5])
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
        with seeded_init(rng):
            self.layers = nn.Sequential()
            for columns in [inputs] + [width] * (depth - 1):
                self.layers.extend([nn.Linear(columns, width), nn.ReLU(), nn.Dropout(dropout)])

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors of rows.

        Parameters
        ----------
        x : Tensor, shape (n, ...)
            Rows, ``inputs`` numbers each.

        Returns
        -------
        Tensor, shape (n, features)
            The vectors.
        """
        rows = x.flatten(1)  # (n, inputs)
        if rows.shape[1] != self.inputs:
            raise InvalidInput(
                f"x must hold rows of {self.inputs} numbers, got shape {tuple(x.shape)}. "
                "Build MLP(inputs=...) for the data."
            )
        if x.dtype == torch.uint8:
            rows = rows / 255
        weight: Tensor = self.layers[0].weight  # type: ignore[assignment]
        z: Tensor = self.layers(rows.to(weight.dtype))  # (n, width)
        return z


class SentenceCNN(Backbone):
    """The FewRel sentence encoder: word and position embeddings, a convolution, max-pooling.

    A token becomes its word vector and two position embeddings. A convolution of width 3 makes
    ``maps`` feature maps; then come ReLU, the maximum over the tokens, and dropout. Padding
    counts for nothing: the vector of a sentence does not depend on how much it is padded.

    Parameters
    ----------
    words : array_like, shape (v, d)
        Vector of each word of the vocabulary.
    tokens : int, default 128
        Number of tokens in a sentence; positions further away count as this far less 1.
    positions : int, default 5
        Length of a position embedding.
    maps : int, default 230
        Number of feature maps, and length of a vector.
    dropout : float, default 0.5
        Probability of dropout.
    frozen : bool, default False
        Whether the word vectors stay as given.
    padding : int, default 0
        Word id of the padding.
    rng : int, numpy.random.Generator or None, optional
        Seed of the weights.

    Attributes
    ----------
    features : int
        Length of a vector.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from metapac.learners import SentenceCNN
    >>> backbone = SentenceCNN(np.eye(7), tokens=4, maps=5, rng=0)
    >>> sentence = torch.tensor([[[3, 0, -1], [5, 1, 0], [0, 2, 1], [0, 3, 2]]])
    >>> backbone(sentence).shape
    torch.Size([1, 5])
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
        with seeded_init(rng):
            self.words = nn.Embedding(*vectors.shape)
            self.to_head = nn.Embedding(2 * tokens - 1, positions)
            self.to_tail = nn.Embedding(2 * tokens - 1, positions)
            self.convolution = nn.Conv1d(vectors.shape[1] + 2 * positions, maps, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.words.weight.data.copy_(vectors)
        self.words.weight.requires_grad_(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors of sentences.

        Parameters
        ----------
        x : Tensor of int, shape (n, t, 3)
            For each token its word id, and its position relative to the head entity and to the
            tail entity (0 at the entity, negative before it).

        Returns
        -------
        Tensor, shape (n, features)
            The vectors.
        """
        self._check(x)
        ids, head, tail = x.long().unbind(-1)  # (n, tokens) each
        real = (ids != self.padding).unsqueeze(-1)  # (n, tokens, 1)
        token = torch.cat(
            [self.words(ids), self.to_head(self._row(head)), self.to_tail(self._row(tail))], dim=-1
        )  # (n, tokens, d)
        maps = self.convolution((token * real).mT).relu()  # (n, maps, tokens)
        # After the ReLU no value is below 0, so the 0 of a padded token never decides the maximum.
        z: Tensor = self.dropout((maps * real.mT).amax(-1))  # (n, maps)
        return z

    def _row(self, position: Tensor) -> Tensor:
        furthest = self.tokens - 1
        return position.clamp(-furthest, furthest) + furthest

    @staticmethod
    def _check(x: Tensor) -> None:
        if x.ndim != 3 or x.shape[2] != 3 or x.is_floating_point():
            raise InvalidInput(
                "x must hold whole numbers (n, tokens, 3): word, position to head, position to "
                f"tail; got {x.dtype} of shape {tuple(x.shape)}."
            )

"""Backbones: the networks that embed examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import normalize

from metapac._common import Seed, as_whole_number, check_one_of
from metapac.errors import InvalidInput
from metapac.fewshot.adapters import as_positive_number

PerChannel = float | Sequence[float]


class Backbone(nn.Module):
    """A network from examples to vectors of length ``features``."""

    features: int

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments

    def describe(self) -> dict[str, Any]:
        """Return the name of the class and the arguments of its constructor.

        Returns
        -------
        dict
            What JSON can hold, with the name under ``"class"``.
        """
        return {"class": type(self).__name__, **self._arguments}

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors of examples.

        Parameters
        ----------
        x : Tensor, shape (n, ...)

        Returns
        -------
        Tensor, shape (n, features)
        """
        raise NotImplementedError


class ImageBackbone(Backbone):
    """A backbone for images, which it normalises by `Pixels`."""

    def __init__(
        self, features: int, channels: int, mean: PerChannel, std: PerChannel, **arguments: Any
    ) -> None:
        both = [list(x) if isinstance(x, Sequence) else [x] * channels for x in (mean, std)]
        if {*map(len, both)} != {channels} or not all(x > 0 for x in both[1]):
            rule = f"mean and std must be one number or {channels}, and std positive"
            raise InvalidInput(f"{rule}, got {mean!r} and {std!r}.", parameter=("mean", "std"))
        means, deviations = ([float(value) for value in values] for values in both)
        super().__init__(channels=channels, **arguments, mean=means, std=deviations)
        self.features, self.pixels = features, Pixels(means, deviations)


class Pixels(nn.Module):
    """Stored images made normalised floats (n, c, h, w)."""

    # Takes (n, c, h, w), (n, h, w, c) and, with one channel, (n, h, w); uint8 is divided by 255.
    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.channels = len(mean)
        # Constants of the architecture, not weights: describe() records them.
        for name, values in (("mean", mean), ("std", std)):
            tensor = torch.tensor(values, dtype=torch.get_default_dtype()).view(-1, 1, 1)
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.uint8 and not x.is_floating_point():
            raise InvalidInput(f"x must hold images as uint8 or float, got {x.dtype}.")
        unit = 255 if x.dtype == torch.uint8 else 1
        x = self.channels_first(x).to(self.mean.dtype)  # (n, c, h, w)
        return (x - unit * self.mean) / (unit * self.std)

    def channels_first(self, x: Tensor) -> Tensor:
        if x.ndim == 4 and x.shape[1] == self.channels:
            return x
        if x.ndim == 4 and x.shape[3] == self.channels:
            return x.permute(0, 3, 1, 2)
        if x.ndim == 3 and self.channels == 1:
            return x.unsqueeze(1)
        rule = f"x must hold images of {self.channels} channels, as the backbone was built for"
        raise InvalidInput(f"{rule}, got shape {tuple(x.shape)}.")


def describe_module(module: nn.Module) -> dict[str, Any]:
    method = getattr(module, "describe", None)
    if callable(method):
        return dict(method())
    return {"class": type(module).__name__, "is": repr(module)}


@contextmanager
def seeded_init(rng: Seed) -> Iterator[None]:
    """Draw the weights of modules made inside the context from ``rng`` alone."""
    seed = int(np.random.default_rng(rng).integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


_BATCH_NORMS = nn.modules.batchnorm._BatchNorm


class SupportNorm(nn.Module):
    """Batch norm by the support examples alone: with query statistics no guarantee would follow."""

    support: int

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        across = [0, *range(2, x.ndim)]
        support = x[: self.support].to(torch.promote_types(x.dtype, torch.float32))
        variance, mean = torch.var_mean(support, across, correction=0, keepdim=True)
        y = (x - mean) * torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            channels = mean.shape  # (1, channels, 1, ...)
            y = y * self.weight.view(channels) + self.bias.view(channels)
        return y.to(x.dtype)


def norm_by_support(module: nn.Module) -> nn.Module:
    """Replace every batch norm in a module by a `SupportNorm` with the same weights."""
    if isinstance(module, _BATCH_NORMS):
        return SupportNorm(module)
    for name, part in module.named_children():
        setattr(module, name, norm_by_support(part))
    return module


class Sphere(Backbone):
    """A backbone whose vectors are scaled to one length, which is learned.

    Distances to a prototype, the mean of vectors on the sphere, are Euclidean, as in SimpleShot.

    Parameters
    ----------
    backbone : torch.nn.Module
        Any module from examples to vectors.
    scale : float, default 10.0
        Twice the squared length of the vectors, at first. It is learned with the other weights.

    Notes
    -----
    With z of length 1 and m the mean of the support vectors of a label, scaled to length 1, the
    logit is ``-scale / 2 * |z - m|^2``: with one shot the cosine times the scale, up to a number
    that all labels share. ``PrototypeLearner(temperature=2 / scale)`` does the same on stored
    vectors of length 1; ``PrototypeLearner("cosine")`` uses the direction of the mean alone.

    Examples
    --------
    >>> import torch
    >>> from metapac.fewshot import MLP, ProtoNet, Sphere
    >>> learner = ProtoNet(Sphere(MLP(3, rng=0), scale=8.0))
    >>> learner.embed(torch.eye(3)).norm(dim=1).round(decimals=5).tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, backbone: nn.Module, *, scale: float = 10.0) -> None:
        super().__init__(backbone=describe_module(backbone))
        start = as_positive_number("scale", scale)
        self.backbone = backbone
        if isinstance(features := getattr(backbone, "features", None), int):
            self.features = features
        self.log_temperature = nn.Parameter(torch.tensor(math.log(start)))

    def forward(self, x: Tensor) -> Tensor:
        z = self.backbone(x)  # (n, d)
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        radius = (0.5 * self.log_temperature.exp()).sqrt()
        return radius * normalize(z, dim=-1)


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
    mean, std : float or sequence of float, optional
        Mean of each channel, to subtract, and standard deviation, to divide by: 0 and 1 by
        default. uint8 images are divided by 255 first.
    rng : int, numpy.random.Generator or None, optional
        Seed of the weights.

    Examples
    --------
    >>> import torch
    >>> from metapac.fewshot import Conv4
    >>> Conv4(channels=1, size=16, width=8, rng=0)(torch.zeros(2, 16, 16)).shape
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
        as_whole_number("size", size, minimum=16)  # four halvings
        features = width * (size // 16) ** 2
        super().__init__(features, channels, mean, std, size=size, width=width)
        self.size = size
        with seeded_init(rng):
            self.blocks = nn.Sequential()
            for inputs in (channels, width, width, width):
                layer = nn.Conv2d(inputs, width, 3, padding=1, bias=False)
                norm = nn.BatchNorm2d(width)
                self.blocks.append(nn.Sequential(layer, norm, nn.ReLU(), nn.MaxPool2d(2)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pixels(x)  # (n, channels, size, size)
        if x.shape[2:] != (self.size, self.size):
            rule = f"x must hold images of {self.size} x {self.size}, as Conv4 was built for"
            raise InvalidInput(f"{rule}, got {x.shape[2]} x {x.shape[3]}.")
        z: Tensor = self.blocks(x).flatten(1)
        return z  # (n, features)


class MLP(Backbone):
    """Linear layers with ReLU and dropout, for rows of a table with standardised columns.

    Examples of more dimensions are flattened, and uint8 is divided by 255.

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

    Examples
    --------
    >>> import torch
    >>> from metapac.fewshot import MLP
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
        self.inputs, self.features = inputs, width
        with seeded_init(rng):
            self.layers = nn.Sequential()
            for columns in [inputs] + [width] * (depth - 1):
                self.layers.extend([nn.Linear(columns, width), nn.ReLU(), nn.Dropout(dropout)])

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(1)  # (n, inputs)
        if rows.shape[1] != self.inputs:
            shape = tuple(x.shape)
            raise InvalidInput(f"x must hold rows of {self.inputs} numbers, got shape {shape}.")
        rows = rows / 255 if x.dtype == torch.uint8 else rows
        z: Tensor = self.layers(rows.to(next(self.layers.parameters()).dtype))
        return z  # (n, width)


class SentenceCNN(Backbone):
    """The FewRel sentence encoder: word and position embeddings, a convolution, max-pooling.

    A convolution of width 3 over word vectors and position embeddings, ReLU, the maximum over the
    tokens, and dropout. The vector of a sentence does not depend on how much it is padded.

    An example is an integer array (tokens, 3): for each token its word id, and its position
    relative to the head entity and to the tail entity (0 at the entity, negative before it).

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

    Examples
    --------
    >>> import numpy as np, torch
    >>> from metapac.fewshot import SentenceCNN
    >>> sentence = torch.tensor([[[3, 0, -1], [5, 1, 0], [0, 2, 1], [0, 3, 2]]])
    >>> SentenceCNN(np.eye(7), tokens=4, maps=5, rng=0)(sentence).shape
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
        options = {"tokens": tokens, "positions": positions, "maps": maps, "dropout": dropout}
        super().__init__(words=list(vectors.shape), **options, frozen=frozen, padding=padding)
        self.tokens, self.padding, self.features = tokens, padding, maps
        with seeded_init(rng):
            self.words = nn.Embedding(*vectors.shape)
            self.to_head = nn.Embedding(2 * tokens - 1, positions)
            self.to_tail = nn.Embedding(2 * tokens - 1, positions)
            self.convolution = nn.Conv1d(vectors.shape[1] + 2 * positions, maps, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.words.weight.data.copy_(vectors)
        self.words.weight.requires_grad_(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or x.shape[2] != 3 or x.is_floating_point():
            rule = "x must hold whole numbers (n, tokens, 3): word, and places to head and tail"
            raise InvalidInput(f"{rule}; got {x.dtype} of shape {tuple(x.shape)}.")
        furthest = self.tokens - 1
        ids, *places = x.long().unbind(-1)  # (n, tokens) each
        head, tail = (place.clamp(-furthest, furthest) + furthest for place in places)
        real = (ids != self.padding).unsqueeze(-1)  # (n, tokens, 1)
        token = torch.cat([self.words(ids), self.to_head(head), self.to_tail(tail)], dim=-1)
        maps = self.convolution((token * real).mT).relu()  # (n, maps, tokens)
        # After the ReLU no value is below 0, so the 0 of a padded token never decides the maximum.
        z: Tensor = self.dropout((maps * real.mT).amax(-1))
        return z  # (n, maps)


class ResNet12(ImageBackbone):
    """The usual large few-shot backbone: four residual blocks of three convolutions.

    Widths 64, 160, 320 and 640, leaky ReLU (0.1), 2x2 max-pooling after each block and global
    average pooling at the end; no dropout and no DropBlock. Images of any size from 16 x 16 give
    640 features.

    Parameters
    ----------
    channels, mean, std, rng : object, optional
        As in `Conv4`.

    Examples
    --------
    >>> import torch
    >>> from metapac.fewshot import ResNet12
    >>> ResNet12(rng=0)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 640])
    """

    def __init__(
        self, channels: int = 3, *, mean: PerChannel = 0.0, std: PerChannel = 1.0, rng: Seed = None
    ) -> None:
        super().__init__(640, channels, mean, std)
        with seeded_init(rng):
            self.blocks = nn.Sequential()
            for inputs, width in pairwise((channels, 64, 160, 320, 640)):
                layers = [(width, 3), (width, 3), (width, 3)]
                self.blocks.append(_Residual(inputs, layers, slope=0.1, pool=True))

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.blocks(self.pixels(x)).mean((2, 3))
        return z  # (n, 640)


class ResNet50(ImageBackbone):
    """ResNet-50 for 32 x 32 images: a 3x3 stem of stride 1, and no first max-pooling.

    3, 4, 6 and 3 bottlenecks, strided in their 3x3 convolution, and global average pooling give
    2048 features.

    Parameters
    ----------
    channels, mean, std, rng : object, optional
        As in `Conv4`.

    Examples
    --------
    >>> import torch
    >>> from metapac.fewshot import ResNet50
    >>> ResNet50(rng=0)(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 2048])
    """

    def __init__(
        self, channels: int = 3, *, mean: PerChannel = 0.0, std: PerChannel = 1.0, rng: Seed = None
    ) -> None:
        super().__init__(2048, channels, mean, std)
        with seeded_init(rng):
            self.stem = nn.Sequential(_convolution(channels, 64, 3), nn.ReLU())
            self.stages, inputs = nn.Sequential(), 64
            for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
                stage = nn.Sequential()
                for stride in [1 if width == 64 else 2] + [1] * (blocks - 1):
                    layers = [(width, 1), (width, 3), (4 * width, 1)]
                    stage.append(_Residual(inputs, layers, stride=stride))
                    inputs = 4 * width
                self.stages.append(stage)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(self.pixels(x))  # (n, 64, h, w)
        z: Tensor = self.stages(x).mean((2, 3))
        return z  # (n, 2048)


class _Residual(nn.Module):
    """Three convolutions of given widths and sizes, the second strided, beside a shortcut."""

    def __init__(
        self,
        inputs: int,
        layers: list[tuple[int, int]],
        stride: int = 1,
        slope: float = 0.0,
        pool: bool = False,
    ) -> None:
        super().__init__()
        rectifier = nn.LeakyReLU(slope) if slope else nn.ReLU()
        self.path, width = nn.Sequential(), inputs
        for i, (outputs, size) in enumerate(layers):
            self.path.extend([rectifier] if i else [])
            self.path.append(_convolution(width, outputs, size, stride if i == 1 else 1, slope))
            width = outputs
        self.shortcut: nn.Module = nn.Identity()
        if pool or stride > 1 or inputs != width:
            self.shortcut = _convolution(inputs, width, 1, stride, slope)
        self.end = nn.Sequential(rectifier, nn.MaxPool2d(2) if pool else nn.Identity())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.end(self.path(x) + self.shortcut(x))
        return y


def _convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, slope: float = 0.0
) -> nn.Module:
    """Return a convolution, initialised to preserve variance (He et al. 2015), and a batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, slope, mode="fan_out", nonlinearity="leaky_relu")
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


BACKBONES: dict[str, type[Backbone]] = {"conv4": Conv4, "mlp": MLP, "resnet12": ResNet12}
BACKBONES |= {"resnet50": ResNet50, "sentence_cnn": SentenceCNN}


def build_backbone(name: str, **options: Any) -> Backbone:
    check_one_of("backbone", name, tuple(BACKBONES))
    return BACKBONES[name](**options)

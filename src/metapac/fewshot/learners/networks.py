"""Backbones: the networks that embed examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import normalize

from metapac._common import Seed, check_one_of
from metapac.errors import InvalidInput
from metapac.fewshot.adapters import as_positive_number

PerChannel = float | Sequence[float]


class Backbone(nn.Module):
    """A network from examples to vectors.

    Parameters
    ----------
    **arguments : object
        Arguments of the constructor, as JSON can hold them; `describe` returns them.

    Attributes
    ----------
    features : int
        Length of a vector.
    """

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


class ImageBackbone(Backbone):
    """A backbone for images, which it normalises by `Pixels`.

    Parameters
    ----------
    features : int
        Length of a vector.
    channels : int
        Number of channels of an image.
    mean : float or sequence of float
        Mean of each channel, to subtract.
    std : float or sequence of float
        Standard deviation of each channel, to divide by.
    **arguments : object
        The other arguments of the constructor.
    """

    def __init__(
        self, features: int, channels: int, mean: PerChannel, std: PerChannel, **arguments: Any
    ) -> None:
        super().__init__(
            channels=channels,
            **arguments,
            mean=per_channel(mean, channels),
            std=per_channel(std, channels),
        )
        self.features = features
        self.pixels = Pixels(channels, mean, std)


class Pixels(nn.Module):
    """Images as they are stored, made normalised float images (n, channels, height, width).

    Takes (n, c, h, w), (n, h, w, c), and (n, h, w) if there is one channel. uint8 is divided by
    255 and floats are taken as they are; then ``(x - mean) / std`` for each channel. Data can
    therefore stay uint8 on the device.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, mean: PerChannel, std: PerChannel) -> None:
        super().__init__()
        self.channels = channels
        # Constants of the architecture, not weights: describe() records them.
        self.register_buffer("mean", _channel_tensor("mean", mean, channels), persistent=False)
        self.register_buffer("std", _channel_tensor("std", std, channels), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return normalised images."""
        if x.dtype != torch.uint8 and not x.is_floating_point():
            raise InvalidInput(
                f"x must hold images as uint8 or float, got {x.dtype}. Convert pixels of 0 .. 255 "
                "to uint8."
            )
        unit = 255 if x.dtype == torch.uint8 else 1
        x = self.channels_first(x).to(self.mean.dtype)  # (n, c, h, w)
        return (x - unit * self.mean) / (unit * self.std)

    def channels_first(self, x: Tensor) -> Tensor:
        """Return images with their channels before height and width."""
        if x.ndim == 4 and x.shape[1] == self.channels:
            return x
        if x.ndim == 4 and x.shape[3] == self.channels:
            return x.permute(0, 3, 1, 2)
        if x.ndim == 3 and self.channels == 1:
            return x.unsqueeze(1)
        kinds = {1: "1 channel (grey)", 3: "3 channels (RGB)"}
        raise InvalidInput(
            f"x must hold images of {kinds.get(self.channels, f'{self.channels} channels')}, like "
            f"those that the backbone was built for, got shape {tuple(x.shape)}. Convert the "
            "images, or build the backbone with their number of channels."
        )


def _channel_tensor(name: str, value: PerChannel, channels: int) -> Tensor:
    values = per_channel(value, channels)
    if len(values) != channels or (name == "std" and not all(each > 0 for each in values)):
        rule = "positive numbers" if name == "std" else "numbers"
        raise InvalidInput(
            f"{name} must be one number or {channels} {rule}, one for each channel, got {value!r}."
        )
    return torch.tensor(values, dtype=torch.get_default_dtype()).view(-1, 1, 1)


def per_channel(value: PerChannel, channels: int) -> list[float]:
    """Return one number for each channel."""
    return [float(v) for v in value] if isinstance(value, Sequence) else [float(value)] * channels


def describe_module(module: nn.Module) -> dict[str, Any]:
    """Return the description of a module, or its layers if it has no ``describe`` method."""
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
    """Batch norm whose mean and variance are those of the support examples, the first of a batch.

    The usual MAML code normalises queries by their batch. The score of an example then depends on
    the other examples of the batch, the scores of a task are not independent, and no guarantee
    follows from them. Here queries are normalised by the support set, in training and afterwards.
    There are no running statistics.
    """

    support: int

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Return normalised examples."""
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

    A prototype is the mean of vectors on the sphere, and lies inside it; the distance to it is
    Euclidean, as of the L2-normalised features of SimpleShot (Wang et al. 2019).

    Parameters
    ----------
    backbone : torch.nn.Module
        Any module from examples to vectors.
    scale : float, default 10.0
        Twice the squared length of the vectors, at first. It is learned with the other weights.

    Attributes
    ----------
    backbone : torch.nn.Module
        The backbone.
    features : int
        Number of dimensions of a vector; missing if the backbone does not have it.
    log_temperature : torch.nn.Parameter
        Logarithm of the scale, which is an inverse temperature; the name is that in files of
        weights.

    Notes
    -----
    With z of length 1 and m the mean of the support vectors of a label, scaled to length 1, the
    logit is ``-scale / 2 * |z - m|^2``, or ``scale * (z.m - |m|^2 / 2)`` up to a number that all
    labels share. With one shot that is the cosine times the scale. With more shots it is not: m is
    the shorter, the more its vectors differ.

    On stored vectors, ``PrototypeLearner(temperature=2 / scale)`` does the same after they are
    scaled to length 1. ``PrototypeLearner("cosine")`` does not: it averages the vectors as they
    are, and then looks at the direction of the mean alone.

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
        features = getattr(backbone, "features", None)
        if isinstance(features, int):
            self.features = features
        self.log_temperature = nn.Parameter(torch.tensor(math.log(start)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors of examples, all of the same length.

        Parameters
        ----------
        x : Tensor, shape (n, ...)
            Examples.

        Returns
        -------
        Tensor, shape (n, d)
            The vectors, in float32 at least.
        """
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
    >>> from metapac.fewshot import Conv4
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
    >>> from metapac.fewshot import SentenceCNN
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


_SLOPE = 0.1


class ResNet12(ImageBackbone):
    """The usual large few-shot backbone: four residual blocks of three convolutions.

    Widths 64, 160, 320 and 640, leaky ReLU (0.1), 2x2 max-pooling after each block and global
    average pooling at the end; no dropout and no DropBlock. Images of any size from 16 x 16 give
    640 features.

    Parameters
    ----------
    channels : int, default 3
        Number of channels of an image.
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
    >>> from metapac.fewshot import ResNet12
    >>> ResNet12(rng=0)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 640])
    """

    def __init__(
        self, channels: int = 3, *, mean: PerChannel = 0.0, std: PerChannel = 1.0, rng: Seed = None
    ) -> None:
        super().__init__(640, channels, mean, std)
        with seeded_init(rng):
            self.blocks = nn.Sequential(
                _Block12(channels, 64), _Block12(64, 160), _Block12(160, 320), _Block12(320, 640)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors of images.

        Parameters
        ----------
        x : Tensor
            Images, uint8 or float, channels first or last.

        Returns
        -------
        Tensor, shape (n, 640)
            The vectors.
        """
        x = self.blocks(self.pixels(x))  # (n, 640, h // 16, w // 16)
        return x.mean((2, 3))  # (n, 640)


class ResNet50(ImageBackbone):
    """ResNet-50 for 32 x 32 images: a 3x3 stem of stride 1, and no first max-pooling.

    3, 4, 6 and 3 bottlenecks, strided in their 3x3 convolution, and global average pooling give
    2048 features.

    Parameters
    ----------
    channels : int, default 3
        Number of channels of an image.
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
            self.stages = nn.Sequential(
                _stage(64, 64, blocks=3, stride=1),
                _stage(256, 128, blocks=4, stride=2),
                _stage(512, 256, blocks=6, stride=2),
                _stage(1024, 512, blocks=3, stride=2),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors of images.

        Parameters
        ----------
        x : Tensor
            Images, uint8 or float, channels first or last.

        Returns
        -------
        Tensor, shape (n, 2048)
            The vectors.
        """
        x = self.stem(self.pixels(x))  # (n, 64, h, w)
        x = self.stages(x)  # (n, 2048, h / 8, w / 8)
        return x.mean((2, 3))  # (n, 2048)


class _Block12(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            _convolution(inputs, outputs, 3, slope=_SLOPE),
            nn.LeakyReLU(_SLOPE),
            _convolution(outputs, outputs, 3, slope=_SLOPE),
            nn.LeakyReLU(_SLOPE),
            _convolution(outputs, outputs, 3, slope=_SLOPE),
        )
        self.shortcut = _convolution(inputs, outputs, 1, slope=_SLOPE)
        self.end = nn.Sequential(nn.LeakyReLU(_SLOPE), nn.MaxPool2d(2))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.end(self.path(x) + self.shortcut(x))  # (n, outputs, h // 2, w // 2)
        return y


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.path = nn.Sequential(
            _convolution(inputs, width, 1),
            nn.ReLU(),
            _convolution(width, width, 3, stride=stride),
            nn.ReLU(),
            _convolution(width, outputs, 1),
        )
        self.shortcut = (
            nn.Identity()
            if inputs == outputs and stride == 1
            else _convolution(inputs, outputs, 1, stride=stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.path(x) + self.shortcut(x)  # (n, 4 * width, h / stride, w / stride)
        return y.relu()


def _stage(inputs: int, width: int, *, blocks: int, stride: int) -> nn.Module:
    first = _Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(_Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))


def _convolution(
    inputs: int, outputs: int, size: int, *, stride: int = 1, slope: float = 0.0
) -> nn.Module:
    """Return a convolution, initialised to preserve variance (He et al. 2015), and a batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, slope, mode="fan_out", nonlinearity="leaky_relu")
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


BACKBONES: dict[str, type[Backbone]] = {
    "conv4": Conv4,
    "mlp": MLP,
    "resnet12": ResNet12,
    "resnet50": ResNet50,
    "sentence_cnn": SentenceCNN,
}


def build_backbone(name: str, **options: Any) -> Backbone:
    """Return an untrained backbone."""
    check_one_of("backbone", name, tuple(BACKBONES))
    return BACKBONES[name](**options)

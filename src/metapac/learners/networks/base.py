"""Base classes of the backbones, normalisation of images, and seeded initialisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metapac._types import Seed
from metapac.exceptions import InvalidInput

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

    Parameters
    ----------
    channels : int
        Number of channels of an image.
    mean : float or sequence of float
        Mean of each channel.
    std : float or sequence of float
        Standard deviation of each channel.
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
        """Return normalised images.

        Parameters
        ----------
        x : Tensor
            Images as uint8 or float.

        Returns
        -------
        Tensor, shape (n, channels, height, width)
            The images; channels that are last in memory stay last in memory.
        """
        if x.dtype != torch.uint8 and not x.is_floating_point():
            raise InvalidInput(
                f"x must hold images as uint8 or float, got {x.dtype}. Convert pixels of 0 .. 255 "
                "to uint8."
            )
        unit = 255 if x.dtype == torch.uint8 else 1
        x = self.channels_first(x).to(self.mean.dtype)  # (n, c, h, w)
        return (x - unit * self.mean) / (unit * self.std)

    def channels_first(self, x: Tensor) -> Tensor:
        """Return images with their channels before height and width.

        Parameters
        ----------
        x : Tensor
            Images as they are stored.

        Returns
        -------
        Tensor, shape (n, channels, height, width)
            The same numbers.
        """
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
    """Return one number for each channel.

    Parameters
    ----------
    value : float or sequence of float
        One number for all channels, or one for each.
    channels : int
        Number of channels.

    Returns
    -------
    list of float
        The numbers.
    """
    return [float(v) for v in value] if isinstance(value, Sequence) else [float(value)] * channels


def describe(module: nn.Module) -> dict[str, Any]:
    """Return the description of a module, or its layers if it has no ``describe`` method.

    Parameters
    ----------
    module : torch.nn.Module
        A backbone, ours or any other.

    Returns
    -------
    dict
        What JSON can hold, with the name of the class under ``"class"``.
    """
    method = getattr(module, "describe", None)
    if callable(method):
        return dict(method())
    return {"class": type(module).__name__, "is": repr(module)}


@contextmanager
def seeded_init(rng: Seed) -> Iterator[None]:
    """Draw the weights of modules made inside the context from ``rng`` alone.

    Parameters
    ----------
    rng : int, numpy.random.Generator or None
        Seed.

    Yields
    ------
    None
        torch's global generator is restored at the end.
    """
    seed = int(np.random.default_rng(rng).integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield

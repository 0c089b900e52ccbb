"""What the backbones share: weights drawn from ``rng``, a description, and how pixels come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Seed = int | np.random.Generator | None
PerChannel = float | Sequence[float]


class Backbone(nn.Module):
    """A network from examples to vectors, ``features`` numbers each."""

    features: int

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments

    def describe(self) -> dict[str, Any]:
        """Return class name and constructor arguments, as JSON can hold them."""
        return {"class": type(self).__name__, **self._arguments}


class Pixels(nn.Module):
    """Images as they are stored -> normalised float images (n, channels, height, width).

    Takes (n, c, h, w), (n, h, w, c), and (n, h, w) where there is one channel. uint8 is divided
    by 255 and floats are taken as they are; then ``(x - mean) / std`` channel by channel. Data can
    so stay uint8 on the device; channels last in memory stay last.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, mean: PerChannel, std: PerChannel) -> None:
        super().__init__()
        self.channels = channels
        # Constants of the architecture, not weights: describe() records them.
        self.register_buffer("mean", _per_channel("mean", mean, channels), persistent=False)
        self.register_buffer("std", _per_channel("std", std, channels), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.uint8 and not x.is_floating_point():
            raise ValueError(
                f"x must hold images as uint8 or float, got {x.dtype}. Convert pixels of 0 .. 255 "
                "to uint8."
            )
        unit = 255 if x.dtype == torch.uint8 else 1
        x = self._channels_first(x).to(self.mean.dtype)  # (n, c, h, w)
        return (x - unit * self.mean) / (unit * self.std)

    def _channels_first(self, x: Tensor) -> Tensor:
        if x.ndim == 4 and x.shape[1] == self.channels:
            return x
        if x.ndim == 4 and x.shape[3] == self.channels:
            return x.permute(0, 3, 1, 2)
        if x.ndim == 3 and self.channels == 1:
            return x.unsqueeze(1)
        raise ValueError(
            f"x must hold images of {self.channels} channel{'s' * (self.channels > 1)}, got shape "
            f"{tuple(x.shape)}. Build the backbone with channels= those of the images."
        )


def _per_channel(name: str, value: PerChannel, channels: int) -> Tensor:
    values = torch.tensor(listed(value, channels), dtype=torch.get_default_dtype())
    if len(values) != channels or (name == "std" and not bool((values > 0).all())):
        rule = "positive numbers" if name == "std" else "numbers"
        raise ValueError(
            f"{name} must be one number or {channels} {rule}, one for each channel, got {value!r}."
        )
    return values.view(-1, 1, 1)


def listed(value: PerChannel, channels: int) -> list[float]:
    """Return one number for each channel."""
    return [float(v) for v in value] if isinstance(value, Sequence) else [float(value)] * channels


def describe(module: nn.Module) -> dict[str, Any]:
    """Return how ``module`` describes itself; a foreign one is known by its layers."""
    own = getattr(module, "describe", None)
    return dict(own()) if callable(own) else {"class": type(module).__name__, "is": repr(module)}


@contextmanager
def weights_from(rng: Seed) -> Iterator[None]:
    """Draw the weights made inside from ``rng`` alone; torch's own generator stays as it was."""
    seed = int(np.random.default_rng(rng).integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield

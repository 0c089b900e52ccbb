"""Residual networks for small images: ResNet-12 and ResNet-50."""

from __future__ import annotations

from torch import Tensor, nn

from metapac._types import Seed
from metapac.learners.networks.base import ImageBackbone, PerChannel, seeded_init

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
    >>> from metapac.learners import ResNet12
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
    >>> from metapac.learners import ResNet50
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

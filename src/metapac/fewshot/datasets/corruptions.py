"""The corruptions of CIFAR10-C at severities 1 and 2; the same code runs on CPU and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage, stats
from torch import Generator, Tensor
from torch.nn.functional import grid_sample, pad

from metapac._common import Seed

KINDS = ("gaussian noise", "shot noise", "impulse noise", "elastic transform")
SEVERITIES = (0, 1, 2)

# By severity.
_DEVIATION = {1: 0.04, 2: 0.06}  # of Gaussian noise
_PHOTONS = {1: 500, 2: 250}  # at full brightness
_SHARE = {1: 0.01, 2: 0.02}  # of the values, which become black or white
# Elastic transform, relative to the side: strength and width of displacements, largest move.
_STRENGTH, _WIDTH, _MOVE = {1: 0.0, 2: 0.05}, {1: 0.0, 2: 0.2}, {1: 0.08, 2: 0.07}

_CHUNK = 1000  # images at a time, to limit the memory used
_FULL = 1 << 23  # number of units in a column of an alias table


@dataclass(frozen=True)
class Corruption:
    """A kind of corruption at a severity; at severity 0 every kind is the identity."""

    kind: str
    severity: int

    def __post_init__(self) -> None:
        if self.severity == 0 or self.kind == "identity":
            object.__setattr__(self, "kind", "identity")
            object.__setattr__(self, "severity", 0)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.severity}" if self.severity else self.kind


NINE = tuple(dict.fromkeys(Corruption(kind, level) for level in SEVERITIES for kind in KINDS))


@dataclass(frozen=True)
class Corruptions:
    """A sequence of corruptions: the transform of one task of CIFAR10-C."""

    sequence: tuple[Corruption, ...]

    @property
    def name(self) -> str:
        return ", ".join(corruption.name for corruption in self.sequence)

    def __call__(self, images: Any, rng: Seed) -> Any:
        return corrupt(images, self.sequence, rng)


def random_corruptions(rng: Seed) -> Corruptions:
    """Return one to three distinct corruptions out of nine; each length is equally likely."""
    generator = np.random.default_rng(rng)
    length = generator.integers(1, 4)
    chosen = generator.choice(len(NINE), length, replace=False)
    return Corruptions(tuple(NINE[i] for i in chosen))


def corrupt(images: Any, sequence: Sequence[Corruption], rng: Seed) -> Any:
    """Apply corruptions to images, one after the other."""
    is_tensor = isinstance(images, Tensor)
    result = torch.empty_like(images) if is_tensor else torch.from_numpy(np.empty_like(images))
    seed = int(np.random.default_rng(rng).integers(2**63))
    generator = Generator(result.device).manual_seed(seed)
    for start in range(0, len(images), _CHUNK):
        part = images[start : start + _CHUNK]
        x = part if is_tensor else torch.from_numpy(np.array(part))  # torch needs writable memory
        for corruption in sequence:
            x = _apply(corruption, x, generator)
        result[start : start + _CHUNK] = x
    return result if is_tensor else result.numpy()


def _apply(corruption: Corruption, x: Tensor, generator: Generator) -> Tensor:
    kind, severity = corruption.kind, corruption.severity
    if kind == "identity":
        return x
    if x.dtype != torch.uint8:
        return _EFFECTS[kind](x, severity, generator).clamp_(0, 1)
    if kind == "shot noise":
        return _shot_noise_by_level(x, severity, generator)
    return _apply(corruption, x / 255, generator).mul_(255).round_().to(torch.uint8)


def _gaussian_noise(x: Tensor, severity: int, generator: Generator) -> Tensor:
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
    return noise.mul_(_DEVIATION[severity]).add_(x)


def _shot_noise(x: Tensor, severity: int, generator: Generator) -> Tensor:
    return torch.poisson(x * _PHOTONS[severity], generator=generator) / _PHOTONS[severity]


def _impulse_noise(x: Tensor, severity: int, generator: Generator) -> Tensor:
    uniform = torch.rand(x.shape, generator=generator, device=x.device)
    half = _SHARE[severity] / 2
    return x.masked_fill(uniform < half, 0).masked_fill_(uniform >= 1 - half, 1)


def _elastic_transform(x: Tensor, severity: int, generator: Generator) -> Tensor:
    n, side = len(x), x.shape[-1]
    moves = x.new_empty(n, 3, 2).uniform_(-1, 1, generator=generator)
    x = move(x, moves * (side * _MOVE[severity]))
    if not _STRENGTH[severity]:
        return x
    noise = x.new_empty(n, 2, side, side).uniform_(-1, 1, generator=generator)
    return displace(x, smooth(noise, side * _WIDTH[severity]) * (side * _STRENGTH[severity]))


_FUNCTIONS = (_gaussian_noise, _shot_noise, _impulse_noise, _elastic_transform)
_EFFECTS = dict(zip(KINDS, _FUNCTIONS, strict=True))


def move(x: Tensor, moves: Tensor) -> Tensor:
    """Move three points around the centre; mirror at the centres of the outermost pixels."""
    side = x.shape[-1]
    points = _points(side, x.dtype, x.device)  # (3, 2)
    ends = pad(points + moves, (0, 1), value=1.0)  # (n, 3, 3)
    back, _ = torch.linalg.solve_ex(ends, points.expand_as(moves))  # (n, 3, 2)
    back = back[:, :, None, None] * (2 / (side - 1))  # in units of grid_sample, (n, 3, 1, 1, 2)
    axis = torch.arange(side, dtype=x.dtype, device=x.device)[:, None] - side // 2  # (side, 1)
    across, down = axis * back[:, 0], axis[:, None] * back[:, 1]  # (n, 1, side, 2), (n, side, 1, 2)
    source = across + (down + back[:, 2] + (2 * (side // 2) / (side - 1) - 1))
    return grid_sample(x, source, padding_mode="reflection", align_corners=True)


@cache  # copying to a GPU again would synchronise
def _points(side: int, kind: torch.dtype, device: torch.device) -> Tensor:
    """Return three corners of a square around the centre, as columns and rows."""
    return torch.tensor([[1, 1], [1, -1], [-1, -1]], dtype=kind, device=device) * (side // 3)


def displace(x: Tensor, field: Tensor) -> Tensor:
    """Take each pixel from a displaced position; mirror at the edges of the outermost pixels."""
    side = x.shape[-1]
    axis = (2 * torch.arange(side, dtype=x.dtype, device=x.device) + 1) / side - 1
    here = torch.stack(torch.meshgrid(axis, axis, indexing="xy"))  # (2, side, side)
    source = torch.add(here, field, alpha=2 / side).permute(0, 2, 3, 1)  # (n, side, side, 2)
    return grid_sample(x, source, padding_mode="reflection", align_corners=False)


def smooth(field: Tensor, width: float) -> Tensor:
    """Apply a Gaussian filter, truncated at three standard deviations, with mirrored borders."""
    blur = _blur(field.shape[-1], width, field.dtype, field.device)
    return blur @ field @ blur.T


@cache
def _blur(side: int, width: float, kind: torch.dtype, device: torch.device) -> Tensor:
    responses = ndimage.gaussian_filter1d(np.eye(side), width, axis=0, mode="reflect", truncate=3)
    return torch.tensor(responses, dtype=kind, device=device)


def _shot_noise_by_level(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Return ``_shot_noise`` of uint8, rounded, by Walker's fast alias method (1977)."""
    table = _alias_table(_PHOTONS[severity], x.device)
    options: Any = {"generator": generator, "dtype": torch.int32, "device": x.device}
    draw = torch.randint(2**31, x.shape, **options)  # 8 bits for the column, 23 for its choice
    column = draw & 255
    entry = table.index_select(0, ((x.to(torch.int32) << 8) + column).flatten()).view_as(draw)
    return torch.where(draw >> 8 < entry >> 8, column, entry & 255).to(torch.uint8)


@cache
def _alias_table(photons: int, device: torch.device) -> Tensor:
    """Return 256 columns for each level: the share of the column times 256, plus its alias."""
    rows = [_columns(units) for units in shot_units(photons).tolist()]
    return torch.tensor(rows).flatten().to(device, torch.int32)


def shot_units(photons: int) -> NDArray[np.int64]:
    """Return the distribution of shot noise over the 256 levels."""
    counts = np.arange(photons)  # from this many on, the pixel is white
    means = photons * np.arange(256)[:, None] / 255
    after = np.rint(255 * counts / photons).astype(int)
    starts = np.searchsorted(after, np.arange(256))  # smallest count that gives each level
    below = np.rint(2**31 * stats.poisson.cdf(starts - 1, means))  # (256, 256)
    units: NDArray[np.int64] = np.diff(below.astype(np.int64), append=2**31)
    return units


def _columns(units: list[int]) -> list[int]:
    """Distribute probabilities over 256 columns of 2**23 units, with two levels in each."""
    shares, alias = units[:], list(range(256))
    small = [level for level in alias if shares[level] < _FULL]
    large = [level for level in alias if shares[level] >= _FULL]
    while small:
        level, donor = small.pop(), large[-1]
        alias[level] = donor
        shares[donor] -= _FULL - shares[level]
        if shares[donor] < _FULL:
            small.append(large.pop())
    return [min(share, _FULL - 1) * 256 + level for share, level in zip(shares, alias, strict=True)]

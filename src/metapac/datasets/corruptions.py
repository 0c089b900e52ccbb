"""The stochastic corruptions of CIFAR10-C (Hendrycks and Dietterich 2019), a batch at a time.

One code for CPU and GPU; constants are those of severities 1 and 2 for 32 x 32 pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage, stats
from torch import Generator, Tensor
from torch.nn.functional import grid_sample, pad

Seed = int | np.random.Generator | None

KINDS = ("gaussian noise", "shot noise", "impulse noise", "elastic transform")
SEVERITIES = (0, 1, 2)
DEVIATION = {1: 0.04, 2: 0.06}  # of Gaussian noise
PHOTONS = {1: 500, 2: 250}  # at full brightness
SHARE = {1: 0.01, 2: 0.02}  # of the values, that turn black or white
# Elastic: strength and width of the displacements, farthest move of a point; 1 is the side.
STRENGTH, WIDTH, MOVE = {1: 0.0, 2: 0.05}, {1: 0.0, 2: 0.2}, {1: 0.08, 2: 0.07}

_CHUNK = 1000  # pictures at a time, so that work space stays small
_FULL = 1 << 23  # a column of an alias table is shared out in so many parts


@dataclass(frozen=True)
class Corruption:
    """A kind of corruption at a severity; at severity 0 every kind is the one identity."""

    kind: str
    severity: int

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, "identity") or self.severity not in SEVERITIES:
            raise ValueError(
                f"a corruption must be {', '.join(KINDS)} or identity at severity 0, 1 or 2, got "
                f"{self.kind!r} at {self.severity!r}. Pass one such as Corruption('shot noise', 2)."
            )
        if self.severity == 0 or self.kind == "identity":
            object.__setattr__(self, "kind", "identity")
            object.__setattr__(self, "severity", 0)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.severity}" if self.severity else self.kind


NINE = tuple(dict.fromkeys(Corruption(kind, level) for level in SEVERITIES for kind in KINDS))


@dataclass(frozen=True)
class Corruptions:
    """Corruptions one after the other: the change that makes a task of CIFAR10-C its own."""

    sequence: tuple[Corruption, ...]

    @property
    def name(self) -> str:
        return ", ".join(corruption.name for corruption in self.sequence)

    def __call__(self, images: Any, rng: Seed) -> Any:
        return corrupt(images, self.sequence, rng)


def random_corruptions(rng: np.random.Generator) -> Corruptions:
    """Return the change of a random task; see ``draw_sequence``."""
    return Corruptions(draw_sequence(rng))


def draw_sequence(rng: Seed) -> tuple[Corruption, ...]:
    """Return one, two or three different ones of the nine corruptions, in random order.

    Each length is equally likely, and so is each ordered choice of that length. The paper says
    no more than "a subsequence of the nine corruptions of size at most three".
    """
    generator = np.random.default_rng(rng)
    length = generator.integers(1, 4)
    return tuple(NINE[i] for i in generator.choice(len(NINE), length, replace=False))


def corrupt(images: Any, sequence: Sequence[Corruption], rng: Seed) -> Any:
    """Return pictures after each corruption of ``sequence`` in turn, in the type they came in.

    ``images`` is NumPy or torch, (n, channels, side, side): uint8, rounded after each corruption,
    or floats from 0 to 1. Every value has random numbers of its own, made on the device of the
    images from ``rng`` alone.
    """
    images = images if isinstance(images, Tensor) else np.asarray(images)
    _refuse_other_images(images)
    given = isinstance(images, Tensor)
    found = torch.empty_like(images) if given else torch.from_numpy(np.empty_like(images))
    seed = int(np.random.default_rng(rng).integers(2**63))
    generator = Generator(found.device).manual_seed(seed)
    for start in range(0, len(images), _CHUNK):
        part = images[start : start + _CHUNK]
        x = part if given else torch.from_numpy(np.array(part))  # torch wants to own its memory
        for corruption in sequence:
            x = _apply(corruption, x, generator)
        found[start : start + _CHUNK] = x
    return found if given else found.numpy()


def _refuse_other_images(images: Any) -> None:
    kind, shape = str(images.dtype).removeprefix("torch."), tuple(images.shape)
    if kind not in ("uint8", "float32", "float64"):
        raise ValueError(
            f"images must be uint8, float32 or float64, got {kind}. Convert pixels of 0 .. 255 to "
            "uint8."
        )
    if len(shape) != 4 or shape[1] not in (1, 3) or shape[2] != shape[3] or shape[2] < 8:
        raise ValueError(
            "images must have shape (n, channels, side, side), 1 or 3 channels and a side of at "
            f"least 8, got {shape}. Bring channels forward with images.transpose(0, 3, 1, 2)."
        )
    if kind != "uint8" and shape[0] and not (images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            f"images of floats must be from 0 to 1, got {float(images.min()):g} to "
            f"{float(images.max()):g}. Divide pixels of 0 .. 255 by 255."
        )


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
    return noise.mul_(DEVIATION[severity]).add_(x)


def _shot_noise(x: Tensor, severity: int, generator: Generator) -> Tensor:
    return torch.poisson(x * PHOTONS[severity], generator=generator) / PHOTONS[severity]


def _impulse_noise(x: Tensor, severity: int, generator: Generator) -> Tensor:
    chance = torch.rand(x.shape, generator=generator, device=x.device)
    half = SHARE[severity] / 2
    return x.masked_fill(chance < half, 0).masked_fill_(chance >= 1 - half, 1)


def _elastic_transform(x: Tensor, severity: int, generator: Generator) -> Tensor:
    n, side = len(x), x.shape[-1]
    moves = x.new_empty(n, 3, 2).uniform_(-1, 1, generator=generator)
    x = move(x, moves * (side * MOVE[severity]))
    if not STRENGTH[severity]:
        return x
    noise = x.new_empty(n, 2, side, side).uniform_(-1, 1, generator=generator)
    return displace(x, smooth(noise, side * WIDTH[severity]) * (side * STRENGTH[severity]))


_EFFECTS: dict[str, Callable[[Tensor, int, Generator], Tensor]] = dict(
    zip(KINDS, (_gaussian_noise, _shot_noise, _impulse_noise, _elastic_transform), strict=True)
)


def move(x: Tensor, moves: Tensor) -> Tensor:
    """Bend pictures by the affine map that moves three points about the centre, (n, 3, 2).

    Moves are columns and rows, in pixels. Beyond its border a picture goes on mirrored, about the
    middle of its outermost pixels.
    """
    side = x.shape[-1]
    points = _points(side, x.dtype, x.device)  # (3, 2)
    ends = pad(points + moves, (0, 1), value=1.0)  # (n, 3, 3)
    back, _ = torch.linalg.solve_ex(ends, points.expand_as(moves))  # (n, 3, 2)
    back = back[:, :, None, None] * (2 / (side - 1))  # as grid_sample counts, (n, 3, 1, 1, 2)
    axis = torch.arange(side, dtype=x.dtype, device=x.device)[:, None] - side // 2  # (side, 1)
    across, down = axis * back[:, 0], axis[:, None] * back[:, 1]  # (n, 1, side, 2), (n, side, 1, 2)
    source = across + (down + back[:, 2] + (2 * (side // 2) / (side - 1) - 1))
    return grid_sample(x, source, padding_mode="reflection", align_corners=True)


@cache  # a copy to a GPU would wait for it
def _points(side: int, kind: torch.dtype, device: torch.device) -> Tensor:
    """Return columns and rows from the centre: three corners of a square, a third of the side."""
    return torch.tensor([[1, 1], [1, -1], [-1, -1]], dtype=kind, device=device) * (side // 3)


def displace(x: Tensor, field: Tensor) -> Tensor:
    """Take each pixel from where ``field`` points, (n, 2, side, side): columns and rows away.

    Beyond its border a picture goes on mirrored, about the edge of its outermost pixels.
    """
    side = x.shape[-1]
    axis = (2 * torch.arange(side, dtype=x.dtype, device=x.device) + 1) / side - 1
    here = torch.stack(torch.meshgrid(axis, axis, indexing="xy"))  # (2, side, side)
    source = torch.add(here, field, alpha=2 / side).permute(0, 2, 3, 1)  # (n, side, side, 2)
    return grid_sample(x, source, padding_mode="reflection", align_corners=False)


def smooth(field: Tensor, width: float) -> Tensor:
    """Return the Gaussian filter of a field, cut off at three deviations, with mirrored borders."""
    blur = _blur(field.shape[-1], width, field.dtype, field.device)
    return blur @ field @ blur.T


@cache
def _blur(side: int, width: float, kind: torch.dtype, device: torch.device) -> Tensor:
    one_by_one = ndimage.gaussian_filter1d(np.eye(side), width, axis=0, mode="reflect", truncate=3)
    return torch.tensor(one_by_one, dtype=kind, device=device)


def _shot_noise_by_level(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Return ``_shot_noise`` of uint8, rounded, several times as fast.

    There are 256 levels before and 256 after, so that the chances of all of them make a table,
    which Walker's alias method (1977) looks up in once: a random column, then itself or its alias.
    """
    table = _alias_table(PHOTONS[severity], x.device)
    draw = torch.randint(
        2**31, x.shape, generator=generator, dtype=torch.int32, device=x.device
    )  # 8 bits for the column, 23 for the choice in it
    column = draw & 255
    entry = table.index_select(0, ((x.to(torch.int32) << 8) + column).flatten()).view_as(draw)
    return torch.where(draw >> 8 < entry >> 8, column, entry & 255).to(torch.uint8)


@cache
def _alias_table(photons: int, device: torch.device) -> Tensor:
    """Return for each level 256 columns: how much is their own, times 256, plus their alias."""
    units = shot_units(photons)
    return torch.tensor([entry for own in units.tolist() for entry in _columns(own)]).to(
        device, torch.int32
    )


def shot_units(photons: int) -> NDArray[np.int64]:
    """Return the chance of each level after each level before, in whole units of 2**-31."""
    counts = np.arange(photons)  # from this many on, the picture is white
    means = photons * np.arange(256)[:, None] / 255
    after = np.rint(255 * counts / photons).astype(int)
    starts = np.searchsorted(after, np.arange(256))  # the least count that gives each level
    below = np.rint(2**31 * stats.poisson.cdf(starts - 1, means))  # (256, 256)
    units: NDArray[np.int64] = np.diff(below.astype(np.int64), append=2**31)
    return units


def _columns(units: list[int]) -> list[int]:
    """Share out a distribution over 256 columns of 2**23 units, with two levels in each."""
    own, alias = units[:], list(range(256))
    poor = [level for level in alias if own[level] < _FULL]
    rich = [level for level in alias if own[level] >= _FULL]
    while poor:
        level, giver = poor.pop(), rich[-1]
        alias[level] = giver
        own[giver] -= _FULL - own[level]
        if own[giver] < _FULL:
            poor.append(rich.pop())
    return [min(part, _FULL - 1) * 256 + other for part, other in zip(own, alias, strict=True)]

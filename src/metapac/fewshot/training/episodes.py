"""Episodes: tasks as batches of tensors, and augmented images."""

from __future__ import annotations

import math
import zlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from metapac._common import Array
from metapac.fewshot.drawing import TransformSampler, apply_transform, transform_name
from metapac.fewshot.pools import ClassPool, GroupPool

_ASPECT = math.log(4 / 3)  # a crop is at most a third wider than high, or higher than wide
_LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)


def crop_and_flip(images: Tensor, generator: torch.Generator, *, crop: float, flip: bool) -> Tensor:
    """Return a random part of each image, enlarged to the size of the image."""
    n = len(images)
    uniform = _Uniform(n, generator)
    area, stretch = uniform(crop, 1.0), torch.exp(uniform(-_ASPECT, _ASPECT) / 2)
    width = (area.sqrt() * stretch).clamp(max=1.0)
    height = (area.sqrt() / stretch).clamp(max=1.0)
    mirror = torch.where(uniform(0.0, 1.0) < (0.5 if flip else 0.0), -1.0, 1.0)
    zero = torch.zeros_like(width)
    rows = torch.stack(
        [
            torch.stack([mirror * width, zero, uniform(-1.0, 1.0) * (1 - width)], dim=1),
            torch.stack([zero, height, uniform(-1.0, 1.0) * (1 - height)], dim=1),
        ],
        dim=1,
    )  # (n, 2, 3)
    grid = affine_grid(rows, list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def change_colours(images: Tensor, generator: torch.Generator, *, strength: float) -> Tensor:
    """Return images with random brightness, contrast and, if they are in colour, saturation."""
    uniform = _Uniform(len(images), generator)

    def factor() -> Tensor:
        return uniform(1 - strength, 1 + strength).view(-1, 1, 1, 1)

    images = (images * factor()).clamp(0, 1)
    mean = _luminance(images).mean((2, 3), keepdim=True)
    images = torch.lerp(mean, images, factor()).clamp(0, 1)
    if images.shape[1] == 3:
        images = torch.lerp(_luminance(images), images, factor()).clamp(0, 1)
    return images


def _luminance(images: Tensor) -> Tensor:
    """Return the grey value of each pixel, (n, c, h, w) -> (n, 1, h, w)."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    weights = torch.tensor(_LUMINANCE, device=images.device, dtype=images.dtype)
    return (images * weights.view(1, 3, 1, 1)).sum(1, keepdim=True)


class _Uniform:
    """Draws one uniform number for each image."""

    def __init__(self, n: int, generator: torch.Generator) -> None:
        self._n, self._generator = n, generator

    def __call__(self, low: float, high: float) -> Tensor:
        numbers = torch.empty(self._n, device=self._generator.device)
        return numbers.uniform_(low, high, generator=self._generator)


Pool = ClassPool | GroupPool
Drawn = tuple[Tensor, Tensor, Tensor, Tensor]

# To draw without replacement, each candidate gets a random key and the largest keys win. At most
# this many keys are in memory at a time.
_KEYS = 1 << 24
# Fraction of the free device memory that data may take; activations need the rest.
_SHARE = 0.5
_CHUNK = 1 << 28  # bytes copied to the device at a time


class Positions(NamedTuple):
    """Many episodes as positions in the data of a pool."""

    support: Tensor
    support_y: Tensor
    query: Tensor
    query_y: Tensor
    seeds: Tensor

    def part(self, start: int, stop: int) -> Positions:
        """Return some of the episodes."""
        return Positions(*(column[start:stop] for column in self))


class Episodes(NamedTuple):
    """A batch of episodes, with what `Trainable.logits` takes."""

    support_x: Tensor
    support_y: Tensor
    query_x: Tensor
    query_y: Tensor
    classes: int


class EpisodeSampler:
    """Draws episodes from a pool, vectorised on a device.

    Episodes are independent. The classes and the examples of an episode are drawn without
    replacement, as by the ``tasks`` method of the pool. Data stay on a GPU if they take at most
    half of its free memory; otherwise each batch is gathered on the host and copied.
    """

    def __init__(
        self, pool: Pool, device: str | torch.device, *, ways: int, shots: int, queries: int
    ) -> None:
        self.device = device = torch.empty(0, device=device).device  # with its number
        self.ways, self.shots, self.queries = ways, shots, queries
        self.by_class = isinstance(pool, ClassPool)
        self._transform = pool.transform if isinstance(pool, ClassPool) else None
        if isinstance(pool, ClassPool):
            pool.tasks(1, ways=ways, shots=shots, queries=queries, rng=0)  # checks its arguments
            self.classes = ways
        else:
            pool.tasks(1, shots=shots, queries=queries, rng=0)
            self.classes = pool.classes
            self._y = torch.tensor(np.asarray(pool.y), device=device)  # (n,)
        self.data = copy_to_device(pool.x, device) if fits_on_device(pool.x, device) else pool.x
        self._sizes = torch.tensor([len(group) for group in pool.positions], device=device)
        self._starts = self._sizes.cumsum(0) - self._sizes  # (groups,)
        self._order = torch.tensor(np.concatenate(pool.positions), device=device)  # (n,)

    def draw(self, episodes: int, seed: int) -> Positions:
        """Return random episodes."""
        generator = torch.Generator(self.device).manual_seed(seed)
        draw = self._draw_classes if self.by_class else self._draw_groups
        words = np.random.SeedSequence(seed).generate_state(episodes, np.uint64)
        seeds = torch.from_numpy((words >> np.uint64(1)).astype(np.int64))
        return Positions(*draw(episodes, generator), seeds)

    def gather(self, drawn: Positions) -> Episodes:
        """Return the examples of episodes, transformed if the pool has a transform."""
        support_x = take(self.data, drawn.support, self.device)
        query_x = take(self.data, drawn.query, self.device)
        if self._transform is not None:
            episodes = zip(support_x, query_x, drawn.seeds.tolist(), strict=True)
            transformed = [_transform_episode(self._transform, *episode) for episode in episodes]
            support_x, query_x = (torch.stack(part) for part in zip(*transformed, strict=True))
        return Episodes(support_x, drawn.support_y, query_x, drawn.query_y, self.classes)

    def _draw_classes(self, episodes: int, generator: torch.Generator) -> Drawn:
        available = torch.full((episodes,), len(self._sizes), device=self.device)
        classes = draw_distinct(available, self.ways, generator)  # (E, ways)
        drawn = self._draw_examples(classes.flatten(), generator)  # (E * ways, shots + queries)
        drawn = drawn.view(episodes, self.ways, -1)
        support, query = drawn[..., : self.shots].flatten(1), drawn[..., self.shots :].flatten(1)
        labels = torch.arange(self.ways, device=self.device)
        support_y = labels.repeat_interleave(self.shots).expand_as(support)
        query_y = labels.repeat_interleave(self.queries).expand_as(query)
        return support, support_y, query, query_y

    def _draw_groups(self, episodes: int, generator: torch.Generator) -> Drawn:
        groups = torch.randint(
            len(self._sizes), (episodes,), generator=generator, device=self.device
        )
        drawn = self._draw_examples(groups, generator)  # (E, shots + queries)
        support, query = drawn[:, : self.shots], drawn[:, self.shots :]
        return support, self._y[support], query, self._y[query]

    def _draw_examples(self, groups: Tensor, generator: torch.Generator) -> Tensor:
        """Return ``shots + queries`` distinct positions from each of ``groups``."""
        offsets = draw_distinct(self._sizes[groups], self.shots + self.queries, generator)
        return self._order[self._starts[groups].unsqueeze(1) + offsets]  # (rows, shots + queries)


def _transform_episode(
    sampler: TransformSampler, support: Tensor, query: Tensor, seed: int
) -> tuple[Tensor, Tensor]:
    """Return the support and query of one episode after a transform that ``seed`` determines."""
    rng = np.random.default_rng(seed)
    x = apply_transform(sampler(rng), torch.cat([support, query]), rng)
    return x[: len(support)], x[len(support) :]


def draw_distinct(sizes: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return, for each size, distinct numbers below it in random order."""
    largest = int(sizes.max())
    numbers = torch.arange(largest, device=sizes.device)
    rows = max(1, _KEYS // largest)
    drawn = [
        torch.rand(len(part), largest, generator=generator, device=sizes.device)
        .masked_fill(numbers >= part.unsqueeze(1), -1.0)
        .topk(count)
        .indices
        for part in torch.split(sizes, rows)
    ]
    return torch.cat(drawn)


def take(x: Array | Tensor, positions: Tensor, device: torch.device) -> Tensor:
    """Return rows of data on a device."""
    if isinstance(x, Tensor):
        rows = x[positions.to(x.device)]
    else:
        rows = torch.from_numpy(np.array(x[positions.cpu().numpy()]))
        rows = rows.pin_memory() if device.type == "cuda" else rows
    precision = torch.get_default_dtype() if rows.is_floating_point() else None
    return rows.to(device, precision, non_blocking=True)


def fits_on_device(x: Array | Tensor, device: torch.device) -> bool:
    """Return whether data take at most half of the free memory of a GPU."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return x.nbytes <= _SHARE * free


def copy_to_device(x: Array | Tensor, device: torch.device) -> Tensor:
    """Return data on a device, copied in chunks to save memory on the host."""
    if isinstance(x, Tensor):
        return x.to(device)
    rows = max(1, _CHUNK // max(1, x[:1].nbytes))
    dtype = torch.from_numpy(np.empty(0, x.dtype)).dtype
    copy = torch.empty(x.shape, dtype=dtype, device=device)
    for start in range(0, len(x), rows):
        copy[start : start + rows] = torch.from_numpy(np.array(x[start : start + rows]))
    return copy


def fingerprint(pool: Pool) -> str:
    """Return a text that identifies the data of a pool: sizes, types, a checksum of a sample."""
    rows = np.unique(np.linspace(0, len(pool.x) - 1, 64).astype(np.int64))
    sample = take(pool.x, torch.from_numpy(rows), torch.device("cpu"))
    checksum = zlib.crc32(sample.numpy().tobytes())
    for array in pool.positions if isinstance(pool, ClassPool) else [*pool.positions, pool.y]:
        checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), checksum)
    if isinstance(pool, ClassPool) and pool.transform is not None:
        drawn = (pool.transform(np.random.default_rng(seed)) for seed in range(64))
        names = [transform_name(transform) for transform in drawn]
        checksum = zlib.crc32("\n".join(names).encode(), checksum)
    return f"{pool!r} of shape {tuple(pool.x.shape[1:])}, {pool.x.dtype}, checksum {checksum:08x}"

"""Batches to train on: episodes as tensors, and augmented images of all training classes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample

from metapac._common import Array
from metapac.fewshot.learners.networks import ImageBackbone
from metapac.fewshot.pools import ClassPool, GroupPool, apply_transform, transform_name

if TYPE_CHECKING:
    from metapac.fewshot.training.loop import Recipe

Pool = ClassPool | GroupPool

# To draw without replacement, each candidate gets a random key and the largest keys win. At most
# this many keys are in memory at a time.
_KEYS = 1 << 24
_SHARE = 0.5  # of the free device memory that data may take; activations need the rest
_CHUNK = 1 << 28  # bytes copied to the device at a time


class Positions(NamedTuple):
    """Many episodes as positions in the data of a pool."""

    support: Tensor
    support_y: Tensor
    query: Tensor
    query_y: Tensor
    seeds: Tensor

    def part(self, start: int, stop: int) -> Positions:
        return Positions(*(column[start:stop] for column in self))


class EpisodeSampler:
    """Draws independent episodes from a pool, without replacement, vectorised on a device."""

    # Data stay on a GPU if they take at most half of its free memory; otherwise batches are copied.
    def __init__(self, pool: Pool, device: Any, *, ways: int, shots: int, queries: int) -> None:
        self.device = device = torch.empty(0, device=device).device  # with its number
        self.ways, self.shots, self.queries = ways, shots, queries
        if isinstance(pool, ClassPool):
            pool.tasks(1, ways=ways, shots=shots, queries=queries, rng=0)  # checks its arguments
            self.classes, self._transform, self._y = ways, pool.transform, None
        else:
            pool.tasks(1, shots=shots, queries=queries, rng=0)
            self.classes, self._transform = pool.classes, None
            self._y = torch.tensor(np.asarray(pool.y), device=device)  # (n,)
        self.data = copy_to_device(pool.x, device) if fits_on_device(pool.x, device) else pool.x
        self._sizes = torch.tensor([len(group) for group in pool.positions], device=device)
        self._starts = self._sizes.cumsum(0) - self._sizes  # (groups,)
        self._order = torch.tensor(np.concatenate(pool.positions), device=device)  # (n,)

    def draw(self, episodes: int, seed: int) -> Positions:
        generator = torch.Generator(self.device).manual_seed(seed)
        words = np.random.SeedSequence(seed).generate_state(episodes, np.uint64)
        seeds = torch.from_numpy((words >> np.uint64(1)).astype(np.int64))
        if self._y is not None:
            sizes = torch.Size([episodes])
            groups = torch.randint(len(self._sizes), sizes, generator=generator, device=self.device)
            drawn = self._draw_examples(groups, generator)  # (E, shots + queries)
            support, query = drawn[:, : self.shots], drawn[:, self.shots :]
            return Positions(support, self._y[support], query, self._y[query], seeds)
        available = torch.full((episodes,), len(self._sizes), device=self.device)
        classes = draw_distinct(available, self.ways, generator)  # (E, ways)
        drawn = self._draw_examples(classes.flatten(), generator)  # (E * ways, shots + queries)
        drawn = drawn.view(episodes, self.ways, -1)
        support, query = drawn[..., : self.shots].flatten(1), drawn[..., self.shots :].flatten(1)
        labels = torch.arange(self.ways, device=self.device)
        support_y = labels.repeat_interleave(self.shots).expand_as(support)
        query_y = labels.repeat_interleave(self.queries).expand_as(query)
        return Positions(support, support_y, query, query_y, seeds)

    def gather(self, drawn: Positions) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        """Return support_x, support_y, query_x, query_y, transformed if need be, and classes."""
        support_x = take(self.data, drawn.support, self.device)
        query_x = take(self.data, drawn.query, self.device)
        if self._transform is not None:
            both = torch.cat([support_x, query_x], dim=1)
            pairs = zip(both, map(np.random.default_rng, drawn.seeds.tolist()), strict=True)
            changed = [apply_transform(self._transform(rng), x, rng) for x, rng in pairs]
            support_x, query_x = torch.stack(changed).tensor_split([support_x.shape[1]], dim=1)
        return support_x, drawn.support_y, query_x, drawn.query_y, self.classes

    def _draw_examples(self, groups: Tensor, generator: torch.Generator) -> Tensor:
        """Return ``shots + queries`` distinct positions from each of ``groups``."""
        offsets = draw_distinct(self._sizes[groups], self.shots + self.queries, generator)
        return self._order[self._starts[groups].unsqueeze(1) + offsets]  # (rows, shots + queries)


def draw_distinct(sizes: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return, for each size, distinct numbers below it in random order."""
    largest = int(sizes.max())
    numbers, drawn = torch.arange(largest, device=sizes.device), []
    for part in torch.split(sizes, max(1, _KEYS // largest)):
        keys = torch.rand(len(part), largest, generator=generator, device=sizes.device)
        drawn.append(keys.masked_fill(numbers >= part.unsqueeze(1), -1.0).topk(count).indices)
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
    return device.type == "cuda" and x.nbytes <= _SHARE * torch.cuda.mem_get_info(device)[0]


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


_TURNS = 4  # rotations by 0, 90, 180 and 270 degrees
_REFRESH, _REFRESH_BATCH = 30_000, 500  # examples that set the statistics of batch norms


class Images:
    """The training examples with the number of their class, in batches of augmented copies."""

    def __init__(
        self, pool: ClassPool, sampler: EpisodeSampler, backbone: nn.Module, recipe: Recipe
    ) -> None:
        self.recipe, self.device, self._data = recipe, sampler.device, sampler.data
        self.batch = min(recipe.batch, len(pool.y))
        self.batches = len(pool.y) // self.batch
        labels = np.empty(len(pool.y), np.int64)
        for number, positions in enumerate(pool.positions):
            labels[positions] = number
        self._labels = torch.from_numpy(labels).to(self.device)
        self._pixels = backbone.pixels if isinstance(backbone, ImageBackbone) else None
        self._bytes = str(pool.x.dtype).endswith("uint8")  # of NumPy or torch
        sample = self._take(torch.zeros(1, dtype=torch.int64))
        self._rotate = recipe.rotate and sample.ndim == 4 and sample.shape[2] == sample.shape[3]
        self.outputs = len(pool.names) * (_TURNS if self._rotate else 1)

    def epoch(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self._labels), generator=generator, device=generator.device)
        for i in range(self.batches):
            chosen = order[i * self.batch : (i + 1) * self.batch]
            x, y = self._augment(self._take(chosen), generator), self._labels[chosen]
            if self._rotate:
                turn = 1 + i % (_TURNS - 1)
                x = torch.cat([x, torch.rot90(x, turn, (2, 3))])
                y = torch.cat([y * _TURNS, y * _TURNS + turn])
            yield _channels_last(x), y

    def plain(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield random examples without augmentation, to set the statistics of batch norms."""
        order = torch.randperm(len(self._labels), generator=generator, device=generator.device)
        for chosen in torch.split(order[:_REFRESH], _REFRESH_BATCH):
            yield _channels_last(self._take(chosen))

    def _take(self, positions: Tensor) -> Tensor:
        """Return examples; images as floats with channels first, of 0 to 1 if they were uint8."""
        x = take(self._data, positions, self.device)
        if self._pixels is None:
            return x
        unit = 255 if x.dtype == torch.uint8 else 1
        return self._pixels.channels_first(x).to(torch.get_default_dtype()) / unit

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        recipe, is_image = self.recipe, self._pixels is not None
        if is_image and (recipe.crop < 1 or recipe.flip):
            x = crop_and_flip(x, generator, crop=recipe.crop, flip=recipe.flip)
        if is_image and recipe.colour > 0 and self._bytes:
            x = change_colours(x, generator, strength=recipe.colour)
        return x


def _channels_last(x: Tensor) -> Tensor:
    on_gpu = x.device.type == "cuda" and x.ndim == 4
    return x.contiguous(memory_format=torch.channels_last) if on_gpu else x


_ASPECT = math.log(4 / 3)  # a crop is at most a third wider than high, or higher than wide
_LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)


def crop_and_flip(images: Tensor, generator: torch.Generator, *, crop: float, flip: bool) -> Tensor:
    """Return a random part of each image, enlarged to the size of the image."""
    uniform = _uniform(len(images), generator)
    area, stretch = uniform(crop, 1.0), torch.exp(uniform(-_ASPECT, _ASPECT) / 2)
    width = (area.sqrt() * stretch).clamp(max=1.0)
    height = (area.sqrt() / stretch).clamp(max=1.0)
    mirror = torch.where(uniform(0.0, 1.0) < (0.5 if flip else 0.0), -1.0, 1.0)
    affine = torch.zeros(len(images), 2, 3, device=generator.device)
    affine[:, 0, 0], affine[:, 0, 2] = mirror * width, uniform(-1.0, 1.0) * (1 - width)
    affine[:, 1, 1], affine[:, 1, 2] = height, uniform(-1.0, 1.0) * (1 - height)
    grid = affine_grid(affine, list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def change_colours(images: Tensor, generator: torch.Generator, *, strength: float) -> Tensor:
    """Return images with random brightness, contrast and, if they are in colour, saturation."""
    uniform = _uniform(len(images), generator)

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


def _uniform(n: int, generator: torch.Generator) -> Callable[[float, float], Tensor]:
    """Return a function that draws one uniform number for each of n images."""
    device = generator.device
    return lambda a, b: torch.empty(n, device=device).uniform_(a, b, generator=generator)

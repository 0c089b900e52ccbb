"""Episodes drawn and gathered on the device, many at a time."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from metapac._types import Array
from metapac.tasks.pools import ClassPool, GroupPool, TransformSampler, apply_transform
from metapac.tasks.transforms import transform_name

Pool = ClassPool | GroupPool
Drawn = tuple[Tensor, Tensor, Tensor, Tensor]

# To draw without replacement, each candidate gets a random key and the largest keys win. At most
# this many keys are in memory at a time.
_KEYS = 1 << 24
# Fraction of the free device memory that data may take; activations need the rest.
_SHARE = 0.5
_CHUNK = 1 << 28  # bytes copied to the device at a time


class Positions(NamedTuple):
    """Many episodes as positions in the data of a pool.

    Attributes
    ----------
    support : Tensor of int, shape (episodes, s)
        Positions of the support examples.
    support_y : Tensor of int, shape (episodes, s)
        Their labels, numbered from 0 in each episode.
    query : Tensor of int, shape (episodes, q)
        Positions of the query examples.
    query_y : Tensor of int, shape (episodes, q)
        Their labels.
    seeds : Tensor of int, shape (episodes,)
        Seed of the transform of each episode, on the host.
    """

    support: Tensor
    support_y: Tensor
    query: Tensor
    query_y: Tensor
    seeds: Tensor

    def part(self, start: int, stop: int) -> Positions:
        """Return some of the episodes.

        Parameters
        ----------
        start : int
            First episode.
        stop : int
            Episode after the last one.

        Returns
        -------
        Positions
            The episodes.
        """
        return Positions(*(column[start:stop] for column in self))


class Episodes(NamedTuple):
    """A batch of episodes, with what `Trainable.logits` takes.

    Attributes
    ----------
    support_x : Tensor, shape (episodes, s, ...)
        Support examples.
    support_y : Tensor of int, shape (episodes, s)
        Their labels, from 0 to ``classes - 1``.
    query_x : Tensor, shape (episodes, q, ...)
        Query examples.
    query_y : Tensor of int, shape (episodes, q)
        Their labels.
    classes : int
        Number of labels.

    Examples
    --------
    >>> import torch
    >>> from metapac.learners import Episodes
    >>> labels = torch.tensor([[0, 1]])
    >>> Episodes(torch.zeros(1, 2, 3), labels, torch.zeros(1, 2, 3), labels, classes=2).classes
    2
    """

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

    Parameters
    ----------
    pool : ClassPool or GroupPool
        Pool to draw from. If it has a transform, each episode draws one, applied on the device.
    device : str or torch.device
        Device of the episodes.
    ways : int
        Number of classes in an episode; ignored for a `GroupPool`.
    shots : int
        Number of support examples, for each class or for the group.
    queries : int
        Number of query examples, for each class or for the group.

    Raises
    ------
    InvalidInput
        If the pool has too few classes or examples.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import EpisodeSampler
    >>> from metapac.tasks import ClassPool
    >>> pool = ClassPool(np.zeros((12, 5)), [0, 1, 2] * 4)
    >>> sampler = EpisodeSampler(pool, "cpu", ways=2, shots=1, queries=2)
    >>> sampler.gather(sampler.draw(7, seed=0)).query_x.shape
    torch.Size([7, 4, 5])
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
        """Return random episodes.

        Parameters
        ----------
        episodes : int
            Number of episodes.
        seed : int
            Seed, on which alone the episodes depend.

        Returns
        -------
        Positions
            The episodes.
        """
        generator = torch.Generator(self.device).manual_seed(seed)
        draw = self._draw_classes if self.by_class else self._draw_groups
        words = np.random.SeedSequence(seed).generate_state(episodes, np.uint64)
        seeds = torch.from_numpy((words >> np.uint64(1)).astype(np.int64))
        return Positions(*draw(episodes, generator), seeds)

    def gather(self, drawn: Positions) -> Episodes:
        """Return the examples of episodes, transformed if the pool has a transform.

        Parameters
        ----------
        drawn : Positions
            The episodes.

        Returns
        -------
        Episodes
            The examples on the device.
        """
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
    """Return, for each size, distinct numbers below it in random order.

    Parameters
    ----------
    sizes : Tensor of int, shape (rows,)
        Sizes, at least ``count`` each.
    count : int
        How many numbers to draw for each size.
    generator : torch.Generator
        Source of randomness.

    Returns
    -------
    Tensor of int, shape (rows, count)
        The numbers; every ordered choice is equally likely.
    """
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
    """Return rows of data on a device.

    Parameters
    ----------
    x : ndarray or Tensor, shape (n, ...)
        Data, on the host or on any device.
    positions : Tensor of int
        Positions of the rows, of any shape.
    device : torch.device
        Device to copy them to.

    Returns
    -------
    Tensor
        ``x[positions]``, floats in torch's default precision.
    """
    if isinstance(x, Tensor):
        rows = x[positions.to(x.device)]
    else:
        rows = torch.from_numpy(np.array(x[positions.cpu().numpy()]))
        rows = rows.pin_memory() if device.type == "cuda" else rows
    precision = torch.get_default_dtype() if rows.is_floating_point() else None
    return rows.to(device, precision, non_blocking=True)


def fits_on_device(x: Array | Tensor, device: torch.device) -> bool:
    """Return whether data take at most half of the free memory of a GPU.

    Parameters
    ----------
    x : ndarray or Tensor
        Data.
    device : torch.device
        The device.

    Returns
    -------
    bool
        Whether they fit; False on a CPU.
    """
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return x.nbytes <= _SHARE * free


def copy_to_device(x: Array | Tensor, device: torch.device) -> Tensor:
    """Return data on a device, copied in chunks to save memory on the host.

    Parameters
    ----------
    x : ndarray or Tensor, shape (n, ...)
        Data.
    device : torch.device
        The device.

    Returns
    -------
    Tensor, shape (n, ...)
        The data, of the same type.
    """
    if isinstance(x, Tensor):
        return x.to(device)
    rows = max(1, _CHUNK // max(1, x[:1].nbytes))
    dtype = torch.from_numpy(np.empty(0, x.dtype)).dtype
    copy = torch.empty(x.shape, dtype=dtype, device=device)
    for start in range(0, len(x), rows):
        copy[start : start + rows] = torch.from_numpy(np.array(x[start : start + rows]))
    return copy


def fingerprint(pool: Pool) -> str:
    """Return a text that identifies the data of a pool: sizes, types, a checksum of a sample.

    Parameters
    ----------
    pool : ClassPool or GroupPool
        The pool. Its transform is identified by the names of the transforms that it draws.

    Returns
    -------
    str
        The fingerprint.
    """
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

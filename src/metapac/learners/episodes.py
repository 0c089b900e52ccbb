"""Episodes drawn and gathered on the device, many at a time, from data that stays there."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from metapac.tasks.pools import Change, ClassPool, GroupPool, altered

Array = NDArray[Any]
Pool = ClassPool | GroupPool
Drawn = tuple[Tensor, Tensor, Tensor, Tensor]

# Examples without replacement: each candidate gets a random key and the largest keys win. At most
# this many keys are in memory at a time.
_KEYS = 1 << 24
# The share of the free device memory that data may take; activations need the rest.
_SHARE = 0.5
_CHUNK = 1 << 28  # bytes copied to the device at a time


class Positions(NamedTuple):
    """Many episodes as positions in the pool's data, labels in each episode's own numbering."""

    support: Tensor  # (episodes, S)
    support_y: Tensor  # (episodes, S)
    query: Tensor  # (episodes, Q)
    query_y: Tensor  # (episodes, Q)
    seeds: Tensor  # (episodes,), on the host: what the change of each episode is drawn from

    def part(self, start: int, stop: int) -> Positions:
        """Return the episodes ``start`` .. ``stop`` - 1."""
        return Positions(*(column[start:stop] for column in self))


class Episodes(NamedTuple):
    """A batch of episodes as a learner takes it; labels 0 .. ``classes`` - 1."""

    support_x: Tensor  # (episodes, S, ...)
    support_y: Tensor  # (episodes, S)
    query_x: Tensor  # (episodes, Q, ...)
    query_y: Tensor  # (episodes, Q)
    classes: int


class EpisodeSampler:
    """Draws episodes from a pool as its ``tasks`` do, vectorised on ``device``.

    Episodes are independent; classes within one and examples within one are drawn without
    replacement. From a ClassPool: ``ways`` classes, ``shots`` and ``queries`` examples of each.
    From a GroupPool: one group, ``shots`` and ``queries`` of its examples in all. If the pool has
    a change, each episode has an alteration of its own, made on ``device``.

    The data are kept on a GPU, in their own type, when they take at most half of its free
    memory; else each batch is gathered on the host and copied.
    """

    def __init__(
        self,
        pool: Pool,
        device: str | torch.device,
        *,
        ways: int,
        shots: int,
        queries: int,
    ) -> None:
        self.device = device = torch.empty(0, device=device).device  # with its number
        self.ways, self.shots, self.queries = ways, shots, queries
        self.by_class = isinstance(pool, ClassPool)
        self._change = pool.change if isinstance(pool, ClassPool) else None
        if isinstance(pool, ClassPool):
            pool.tasks(1, ways=ways, shots=shots, queries=queries, rng=0)  # refuses what is too few
            self.classes = ways
        else:
            pool.tasks(1, shots=shots, queries=queries, rng=0)
            self.classes = pool.classes
            self._y = torch.tensor(np.asarray(pool.y), device=device)  # (n,)
        self._x = on_device(pool.x, device) if fits(pool.x, device) else pool.x
        self._sizes = torch.tensor([len(group) for group in pool.positions], device=device)
        self._starts = self._sizes.cumsum(0) - self._sizes  # (groups,)
        self._order = torch.tensor(np.concatenate(pool.positions), device=device)  # (n,)

    @property
    def resident(self) -> bool:
        """Whether the data lie on the device."""
        return isinstance(self._x, Tensor) and self._x.device == self.device

    def draw(self, episodes: int, seed: int) -> Positions:
        """Return ``episodes`` drawn by ``seed`` alone."""
        generator = torch.Generator(self.device).manual_seed(seed)
        draw = self._draw_classes if self.by_class else self._draw_groups
        words = np.random.SeedSequence(seed).generate_state(episodes, np.uint64)
        seeds = torch.from_numpy((words >> np.uint64(1)).astype(np.int64))
        return Positions(*draw(episodes, generator), seeds)

    def gather(self, drawn: Positions) -> Episodes:
        """Return the examples at the positions drawn, each episode's altered by its own change."""
        support_x = take(self._x, drawn.support, self.device)
        query_x = take(self._x, drawn.query, self.device)
        if self._change is not None:
            each = zip(support_x, query_x, drawn.seeds.tolist(), strict=True)
            found = [_changed(self._change, *episode) for episode in each]
            support_x, query_x = (torch.stack(part) for part in zip(*found, strict=True))
        return Episodes(support_x, drawn.support_y, query_x, drawn.query_y, self.classes)

    def _draw_classes(self, episodes: int, generator: torch.Generator) -> Drawn:
        pool = torch.full((episodes,), len(self._sizes), device=self.device)
        chosen = distinct(pool, self.ways, generator)  # (E, ways)
        own = self._examples(chosen.flatten(), generator)  # (E * ways, shots + queries)
        own = own.view(episodes, self.ways, -1)
        support, query = own[..., : self.shots].flatten(1), own[..., self.shots :].flatten(1)
        labels = torch.arange(self.ways, device=self.device)
        support_y = labels.repeat_interleave(self.shots).expand_as(support)
        query_y = labels.repeat_interleave(self.queries).expand_as(query)
        return support, support_y, query, query_y

    def _draw_groups(self, episodes: int, generator: torch.Generator) -> Drawn:
        groups = torch.randint(
            len(self._sizes), (episodes,), generator=generator, device=self.device
        )
        own = self._examples(groups, generator)  # (E, shots + queries)
        support, query = own[:, : self.shots], own[:, self.shots :]
        return support, self._y[support], query, self._y[query]

    def _examples(self, groups: Tensor, generator: torch.Generator) -> Tensor:
        """Return ``shots + queries`` positions from each of ``groups``, none twice in a row."""
        offsets = distinct(self._sizes[groups], self.shots + self.queries, generator)
        return self._order[self._starts[groups].unsqueeze(1) + offsets]  # (rows, shots + queries)


def _changed(change: Change, support: Tensor, query: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return the examples of one episode after one change, all of it drawn by ``seed``."""
    rng = np.random.default_rng(seed)
    found = altered(change(rng), torch.cat([support, query]), rng)
    return found[: len(support)], found[len(support) :]


def distinct(sizes: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return, for each size, ``count`` distinct numbers below it in random order.

    Every ordered choice is equally likely. Shapes: (rows,) -> (rows, count).
    """
    longest = int(sizes.max())
    numbers = torch.arange(longest, device=sizes.device)
    rows = max(1, _KEYS // longest)
    found = [
        torch.rand(len(part), longest, generator=generator, device=sizes.device)
        .masked_fill(numbers >= part.unsqueeze(1), -1.0)
        .topk(count)
        .indices
        for part in torch.split(sizes, rows)
    ]
    return torch.cat(found)


def take(x: Array | Tensor, positions: Tensor, device: torch.device) -> Tensor:
    """Return ``x[positions]`` on ``device``, wherever ``x`` is; floats in torch's default type."""
    if isinstance(x, Tensor):
        found = x[positions.to(x.device)]
    else:
        found = torch.from_numpy(np.array(x[positions.cpu().numpy()]))
        found = found.pin_memory() if device.type == "cuda" else found
    kind = torch.get_default_dtype() if found.is_floating_point() else None
    return found.to(device, kind, non_blocking=True)


def fits(x: Array | Tensor, device: torch.device) -> bool:
    """Whether ``x`` takes at most half of the memory that is free on a GPU."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return x.nbytes <= _SHARE * free


def on_device(x: Array | Tensor, device: torch.device) -> Tensor:
    """Return a copy of ``x`` on ``device`` in its own type, never all of it twice on the host."""
    if isinstance(x, Tensor):
        return x.to(device)
    rows = max(1, _CHUNK // max(1, x[:1].nbytes))
    kind = torch.from_numpy(np.empty(0, x.dtype)).dtype
    copy = torch.empty(x.shape, dtype=kind, device=device)
    for start in range(0, len(x), rows):
        copy[start : start + rows] = torch.from_numpy(np.array(x[start : start + rows]))
    return copy


def fingerprint(pool: Pool) -> str:
    """Return words that tell a pool's data from other data: sizes, types, a sampled checksum.

    A change is known by the names of the alterations that it draws.
    """
    rows = np.unique(np.linspace(0, len(pool.x) - 1, 64).astype(np.int64))
    sample = take(pool.x, torch.from_numpy(rows), torch.device("cpu"))
    checksum = zlib.crc32(sample.numpy().tobytes())
    for own in pool.positions if isinstance(pool, ClassPool) else [*pool.positions, pool.y]:
        checksum = zlib.crc32(np.ascontiguousarray(own).tobytes(), checksum)
    if isinstance(pool, ClassPool) and pool.change is not None:
        names = [pool.change(np.random.default_rng(seed)).name for seed in range(64)]
        checksum = zlib.crc32("\n".join(names).encode(), checksum)
    return f"{pool!r} of shape {tuple(pool.x.shape[1:])}, {pool.x.dtype}, checksum {checksum:08x}"

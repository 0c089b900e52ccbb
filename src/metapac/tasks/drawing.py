"""Shared by all pools: tasks drawn when accessed, examples by class, splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from metapac._checks import as_whole_number
from metapac._types import Array, Counts, Seed
from metapac.tasks import _checks
from metapac.tasks.batch import TaskBatch
from metapac.tasks.generators import spawn_rngs
from metapac.tasks.lazy import LazyArray
from metapac.tasks.seeds import spawn_rng
from metapac.tasks.task import Task

Ids = ArrayLike | Iterable[object]

_THREADS = 4
_ROWS = 64  # filled at a time; with fewer, threads wait for each other
_NUMBERS = 2**20  # that these rows may take, at most: 8 MiB


class DrawnTasks(Sequence[Task]):
    """Tasks that are drawn when they are accessed.

    Parameters
    ----------
    count : int
        Number of tasks.
    draw : callable
        Called as ``draw(i, rng)``; returns task i.
    seed : numpy.random.SeedSequence
        Seed; task i depends only on it and on ``i``.
    draw_batch : callable, optional
        Called as ``draw_batch(rngs)`` with the random generators of all tasks; returns the same
        tasks in arrays.
    """

    def __init__(
        self,
        count: int,
        draw: Callable[[int, np.random.Generator], Task],
        seed: np.random.SeedSequence,
        draw_batch: Callable[[Sequence[np.random.Generator]], TaskBatch] | None = None,
    ) -> None:
        self._count, self._draw, self._seed = count, draw, seed
        self._draw_batch = draw_batch

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<{count_noun(self, 'task')}, drawn when accessed>"

    @overload
    def __getitem__(self, i: int) -> Task: ...
    @overload
    def __getitem__(self, i: slice) -> list[Task]: ...
    def __getitem__(self, i: int | slice) -> Task | list[Task]:
        if isinstance(i, slice):
            return [self[j] for j in range(self._count)[i]]
        position = range(self._count)[i]
        return self._draw(position, spawn_rng(self._seed, position))

    def draw(self) -> Sequence[Task]:
        """Return all tasks, drawn now.

        Returns
        -------
        sequence of Task
            A `TaskBatch` if the pool draws tasks of one shape together, otherwise a list.
        """
        if self._draw_batch is None:
            return list(self)
        return self._draw_batch(spawn_rngs(self._seed, self._count))


def fill_in_threads(fill: Callable[[slice], object], count: int, width: int) -> None:
    """Fill the rows of arrays, parts of them at the same time if there are many.

    Parameters
    ----------
    fill : callable
        Called with consecutive rows, and with all of them once; shuffling releases the GIL.
    count : int
        Number of rows.
    width : int
        How many numbers a row takes while it is filled.
    """
    step = max(1, min(_ROWS, _NUMBERS // max(1, width)))
    parts = [slice(start, start + step) for start in range(0, count, step)]
    if len(parts) < 2:
        fill(slice(0, count))
        return
    with ThreadPoolExecutor(min(_THREADS, len(parts))) as pool:
        list(pool.map(fill, parts))  # raises what a part raised


def draw_all(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return tasks that are drawn once, however often they are accessed.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks of a pool, which may be drawn at each access.

    Returns
    -------
    sequence of Task
        The same tasks, in arrays if the pool draws them together.
    """
    return tasks.draw() if isinstance(tasks, DrawnTasks) else list(tasks)


def count_noun(some: Sized, noun: str, plural: str = "s") -> str:
    """Return how many there are, such as "1 task" or "3 tasks".

    Parameters
    ----------
    some : sized
        What is counted.
    noun : str
        What one of them is called.
    plural : str, default "s"
        Ending of the plural.

    Returns
    -------
    str
        The number and the noun.
    """
    return f"{len(some)} {noun}{plural * (len(some) != 1)}"


def positions_by_id(ids: Array) -> tuple[list[Any], list[Counts]]:
    """Return the distinct ids, sorted, and the positions of each.

    Parameters
    ----------
    ids : ndarray, shape (n,)
        Class, group or domain of each example.

    Returns
    -------
    names : list
        The distinct ids.
    positions : list of ndarray
        Positions of each, ascending.
    """
    names, codes, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    return names.tolist(), np.split(order, np.cumsum(sizes)[:-1])


def draw_positions(positions: Counts, count: int, rng: np.random.Generator) -> Counts:
    """Return ``count`` of the positions in random order.

    Parameters
    ----------
    positions : ndarray of int
        The positions.
    count : int
        How many to draw, without replacement.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (count,)
        Those drawn.
    """
    return positions[rng.choice(len(positions), count, replace=False)]


def assign(unit: str, ids: Array, parts: dict[str, int], rng: Seed) -> dict[str, Counts]:
    """Return, for each part that is not empty, the positions of its random classes or groups.

    Parameters
    ----------
    unit : str
        What messages call the ids, such as "classes".
    ids : ndarray, shape (n,)
        Class, group or domain of each example.
    parts : dict from str to int
        Number of ids in each part.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    dict from str to ndarray
        Positions of the examples of each part, ascending.
    """
    counts = {name: as_whole_number(name, count, minimum=0) for name, count in parts.items()}
    _, positions = positions_by_id(ids)
    _checks.check_pool_sizes(unit, counts, len(positions))
    order = iter(np.random.default_rng(rng).permutation(len(positions)))
    chosen = {
        name: [positions[next(order)] for _ in range(count)] for name, count in counts.items()
    }
    return {name: np.sort(np.concatenate(rows)) for name, rows in chosen.items() if rows}


def select_rows(x: Any, positions: Counts) -> Any:
    """Return some rows of data: a copy, or of a `LazyArray` one that reads them on demand.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        The data.
    positions : ndarray of int, shape (m,)
        Positions of the rows.

    Returns
    -------
    array_like, shape (m, ...)
        The rows.
    """
    return x.select(positions) if isinstance(x, LazyArray) else x[positions]

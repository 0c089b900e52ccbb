"""A pool of classes; a few-shot task has some of them, and a few examples of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from metapac._checks import as_whole_number
from metapac._types import Counts, Seed
from metapac.exceptions import Message, Parameter
from metapac.tasks import _checks
from metapac.tasks.batch import TaskBatch
from metapac.tasks.drawing import (
    DrawnTasks,
    Ids,
    count_noun,
    draw_positions,
    fill_in_threads,
    positions_by_id,
)
from metapac.tasks.seeds import spawn_seed
from metapac.tasks.settings import Choice, Settings
from metapac.tasks.task import Task
from metapac.tasks.transforms import TransformSampler, apply_transform, transform_name


class ClassPool:
    """Labelled examples from which few-shot tasks are drawn, each with a few of the classes.

    Tasks hold positions in ``x``, which is never copied. With ``transform``, a task holds a
    transformed copy of the rows that it needs.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples: a NumPy array, a memory-mapped array, a torch tensor or a `LazyArray`.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers.
    name : str, default "pool"
        Name of the pool; its tasks are called ``"pool-0"``, ``"pool-1"`` and so on.
    transform : callable, optional
        Called once per task with a random generator; returns a transform, a function of examples
        and a random generator that returns the same number of examples. Its ``name``, or else its
        ``__name__``, becomes part of the name of the task.

    Attributes
    ----------
    names : list
        The classes, sorted.
    positions : list of ndarray
        Positions of the examples of each class.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import ClassPool
    >>> pool = ClassPool(np.arange(12.0)[:, None], ["ant", "bee", "cat"] * 4)
    >>> pool
    <ClassPool 'pool': 3 classes, 12 examples>
    >>> task = pool.tasks(10, ways=2, shots=1, queries=2, rng=0)[3]
    >>> task.query_y.tolist()
    [0, 0, 1, 1]
    """

    unit = "class"

    def __init__(
        self, x: Any, y: Ids, *, name: str = "pool", transform: TransformSampler | None = None
    ) -> None:
        self.x = _checks.as_examples("x", x)
        self.y = _checks.as_ids("y", y)
        self.name = name
        self.transform = transform
        _checks.check_transform_sampler(transform)
        _checks.check_same_rows("y", self.y, "x", self.x)
        self.names, self.positions = positions_by_id(self.y)
        equal = len({len(members) for members in self.positions}) == 1
        self._matrix = np.stack(self.positions) if equal else None  # (classes, size)

    def tasks(
        self,
        count: int,
        *,
        ways: Choice,
        shots: Choice,
        queries: Choice,
        rng: Seed,
        name: str | None = None,
    ) -> DrawnTasks:
        """Return independent tasks, each drawn when it is accessed.

        Classes, and the examples of a class, are drawn without replacement. Task i does not
        depend on ``count``, nor on the order in which tasks are accessed.

        Parameters
        ----------
        count : int
            Number of tasks.
        ways : int or sequence of int
            Number of classes in a task. A sequence lists the choices, of which each task draws one
            with equal probability: ``range(5, 21)`` is 5 to 20, ``(5, 20)`` is 5 or 20.
        shots : int or sequence of int
            Number of support examples of each class, or the choices.
        queries : int or sequence of int
            Number of query examples of each class, or the choices.
        rng : int, numpy.random.Generator or None
            Seed.
        name : str, optional
            Name of these tasks, which are called ``"name-0"``, ``"name-1"`` and so on; by default
            that of the pool. Tasks of several calls need different names to be scored together.

        Returns
        -------
        sequence of Task
            The tasks; labels 0 to ``classes - 1``, examples ordered by label.

        Raises
        ------
        InvalidInput
            If the pool has fewer than ``ways`` classes, or a class too few examples.

        Examples
        --------
        >>> import numpy as np
        >>> from metapac.tasks import ClassPool
        >>> pool = ClassPool(np.arange(60.0), np.arange(60) % 6)
        >>> tasks = pool.tasks(5, ways=range(2, 5), shots=[1, 5], queries=3, rng=0, name="mixed")
        >>> [(task.name, task.classes, len(task.support)) for task in tasks][:2]
        [('mixed-0', 2, 10), ('mixed-1', 3, 3)]
        """
        count = as_whole_number("count", count, minimum=0)
        settings = Settings.read(ways, shots, queries)
        _checks.check_ways(max(settings.ways), self.names)
        needed = Message("{} + {}", Parameter("shots"), Parameter("queries"))
        _checks.check_sizes("class", self.names, self.positions, needed, settings.largest)
        prefix = self.name if name is None else name
        one_shape = all(len(choices) == 1 for choices in settings) and self.transform is None
        return DrawnTasks(
            count,
            partial(self._task, settings, prefix),
            spawn_seed(rng),
            partial(self._batch, settings, prefix) if one_shape else None,
        )

    def _task(self, settings: Settings, prefix: str, i: int, rng: np.random.Generator) -> Task:
        ways, shots, queries = settings.draw(rng)
        classes = rng.choice(len(self.names), ways, replace=False)
        (drawn,) = self._draw_examples(classes[None], shots + queries, [rng])  # (ways, examples)
        name, x = f"{prefix}-{i}", self.x
        if self.transform is not None:
            transform = self.transform(rng)
            x = apply_transform(transform, x[drawn.ravel()], rng)
            name = f"{name}: {transform_name(transform)}"
            drawn = np.arange(drawn.size).reshape(drawn.shape)
        return make_task(name, x, drawn, shots, [self.names[c] for c in classes])

    def _batch(
        self, settings: Settings, prefix: str, rngs: Sequence[np.random.Generator]
    ) -> TaskBatch:
        """Return what `_task` returns for each generator, for settings with one choice each."""
        (ways,), (shots,), (queries,) = settings
        count = len(rngs)
        classes = np.empty((count, ways), np.int64)
        support = np.empty((count, ways, shots), np.int64)
        query = np.empty((count, ways, queries), np.int64)

        for chosen, rng in zip(classes, rngs, strict=True):
            chosen[:] = rng.choice(len(self.names), ways, replace=False)

        def fill(rows: slice) -> None:
            drawn = self._draw_examples(classes[rows], shots + queries, rngs[rows])
            support[rows], query[rows] = drawn[:, :, :shots], drawn[:, :, shots:]

        fill_in_threads(fill, count, width=ways * max(map(len, self.positions)))
        labels, names = np.arange(ways), np.array(self.names, object)
        return TaskBatch(
            names=[f"{prefix}-{i}" for i in range(count)],
            x=self.x,
            support=support.reshape(count, ways * shots),
            support_y=np.broadcast_to(labels.repeat(shots), (count, ways * shots)),
            query=query.reshape(count, ways * queries),
            query_y=np.broadcast_to(labels.repeat(queries), (count, ways * queries)),
            classes=ways,
            class_names=names[classes],
        )

    def _draw_examples(
        self, classes: Counts, count: int, rngs: Sequence[np.random.Generator]
    ) -> Counts:
        """Return examples of the classes of each task, (tasks, ways) -> (tasks, ways, count)."""
        if self._matrix is None:
            drawn = [
                draw_positions(self.positions[c], count, rng)
                for row, rng in zip(classes, rngs, strict=True)
                for c in row
            ]
            return np.array(drawn, np.int64).reshape(*classes.shape, count)
        shuffled = self._matrix[classes]  # (tasks, ways, size)
        for rows, rng in zip(shuffled, rngs, strict=True):
            rng.permuted(rows, axis=1, out=rows)
        return shuffled[:, :, :count]

    def __repr__(self) -> str:
        classes = count_noun(self.names, "class", "es")
        return f"<ClassPool {self.name!r}: {classes}, {count_noun(self.y, 'example')}>"


def make_task(
    name: str | int,
    x: Any,
    drawn: Counts,
    shots: int,
    class_names: list[Any],
    domain: str | int | None = None,
) -> Task:
    """Return a task of classes with equally many examples each.

    Parameters
    ----------
    name : str or int
        Name of the task.
    x : array_like, shape (n, ...)
        Data of the pool.
    drawn : ndarray of int, shape (ways, examples)
        Positions of distinct examples of each class.
    shots : int
        How many of the examples of a class are for support; the rest are queries.
    class_names : list
        The classes.
    domain : str or int, optional
        Domain of the classes.

    Returns
    -------
    Task
        The task.
    """
    ways, size = drawn.shape
    labels = np.arange(ways)
    return Task.unchecked(
        name=name,
        x=x,
        support=drawn[:, :shots].ravel(),
        support_y=labels.repeat(shots),
        query=drawn[:, shots:].ravel(),
        query_y=labels.repeat(size - shots),
        classes=ways,
        class_names=tuple(class_names),
        domain=domain,
    )

"""Tasks of one shape in arrays, so that a learner scores them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, overload

import numpy as np

from metapac._types import Array, Counts
from metapac.tasks.task import Task


@dataclass(frozen=True, eq=False, repr=False)
class TaskBatch(Sequence[Task]):
    """Tasks with equally many examples: a row of positions and one of labels for each.

    As a sequence it holds the tasks themselves, each made when it is accessed.

    Parameters
    ----------
    names : sequence of str or int
        Name of each task.
    x : array_like, shape (n, ...)
        Data of the pool that all tasks come from.
    support : ndarray of int, shape (t, s)
        Positions in ``x`` of the support examples.
    support_y : ndarray of int, shape (t, s)
        Their labels.
    query : ndarray of int, shape (t, q)
        Positions in ``x`` of the query examples.
    query_y : ndarray of int, shape (t, q)
        Their labels.
    classes : int
        Number of labels.
    class_names : ndarray of object, shape (t, classes), optional
        Class of each label.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import ClassPool
    >>> pool = ClassPool(np.arange(60.0), np.arange(60) % 6)
    >>> batch = pool.tasks(5, ways=2, shots=1, queries=3, rng=0).draw()
    >>> batch.query.shape, batch[3].name
    ((5, 6), 'pool-3')
    """

    names: Sequence[str | int]
    x: Any
    support: Counts
    support_y: Counts
    query: Counts
    query_y: Counts
    classes: int
    class_names: Array | None = None

    def __len__(self) -> int:
        return len(self.support)

    @overload
    def __getitem__(self, i: int) -> Task: ...
    @overload
    def __getitem__(self, i: slice) -> TaskBatch: ...
    def __getitem__(self, i: int | slice) -> Task | TaskBatch:
        own = None if self.class_names is None else self.class_names[i]
        rows = {name: getattr(self, name)[i] for name in _ROWS}
        if isinstance(i, slice):
            return TaskBatch(self.names[i], self.x, **rows, classes=self.classes, class_names=own)
        return Task.unchecked(
            name=self.names[i],
            x=self.x,
            **{name: row.copy() for name, row in rows.items()},  # labels may be one read-only row
            classes=self.classes,
            class_names=None if own is None else tuple(own),
        )

    def split(self, size: int) -> Iterator[TaskBatch]:
        """Yield the tasks in batches of at most ``size``.

        Parameters
        ----------
        size : int
            Number of tasks.

        Yields
        ------
        TaskBatch
            The next tasks.
        """
        return (self[start : start + size] for start in range(0, len(self), size))


_ROWS = ("support", "support_y", "query", "query_y")


def batches(
    tasks: Iterable[Task], check: Callable[[Task], object], *, query: str = "query"
) -> Iterator[TaskBatch]:
    """Yield consecutive tasks of one shape, in order.

    Parameters
    ----------
    tasks : iterable of Task
        The tasks; a `TaskBatch` is yielded as it is, unless it is empty.
    check : callable
        Called with each task, or with one of a `TaskBatch`, whose tasks share their data.
    query : {"query", "support"}, default "query"
        With "support", the support examples are the query examples too.

    Yields
    ------
    TaskBatch
        Tasks with equally many support examples, query examples and labels.
    """
    if isinstance(tasks, TaskBatch):
        for task in tasks[:1]:
            check(task)
        again = replace(tasks, query=tasks.support, query_y=tasks.support_y)
        if len(tasks):
            yield tasks if query == "query" else again
        return

    def shape(task: Task) -> tuple[int, int, int]:
        check(task)
        return len(task.support), len(getattr(task, query)), task.classes

    for (_, _, classes), group in groupby(tasks, shape):
        same = list(group)
        yield TaskBatch(
            names=[task.name for task in same],
            x=same[0].x,
            support=_stack(same, "support"),
            support_y=_stack(same, "support_y"),
            query=_stack(same, query),
            query_y=_stack(same, f"{query}_y"),
            classes=classes,
        )


def _stack(tasks: Sequence[Task], name: str) -> Counts:
    return np.stack([getattr(task, name) for task in tasks])


def query_sizes(tasks: Sequence[Task]) -> Counts:
    """Return the number of query examples of each task.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks.

    Returns
    -------
    ndarray of int, shape (tasks,)
        The numbers.
    """
    if isinstance(tasks, TaskBatch):
        return np.full(len(tasks), tasks.query.shape[1])
    return np.array([len(task.query) for task in tasks])

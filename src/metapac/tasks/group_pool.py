"""A pool of groups, such as sites or state-years; each group is a task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac._checks import as_whole_number
from metapac._types import Seed
from metapac.exceptions import Message, Parameter
from metapac.tasks import _checks
from metapac.tasks.drawing import DrawnTasks, Ids, count_noun, draw_positions, positions_by_id
from metapac.tasks.seeds import spawn_seed
from metapac.tasks.settings import Choice, as_choices, draw_one
from metapac.tasks.task import Task


class GroupPool:
    """Labelled examples in groups, such as sites or state-years; each group is a task.

    Labels mean the same in all groups and keep their natural balance, so that some may be absent
    from a group.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples: a NumPy array, a memory-mapped array, a torch tensor, a `LazyArray` or a pandas
        frame. The tasks of a frame hold frames, so that a model that was fitted on named columns
        gets them.
    y : array_like of int, shape (n,)
        Label of each example, from 0.
    groups : array_like, shape (n,)
        Group of each example, all strings or all integers.
    name : str, default "pool"
        Name of the pool.
    classes : int, optional
        Number of labels; by default one more than the largest label.

    Attributes
    ----------
    names : list
        The groups, sorted.
    positions : list of ndarray
        Positions of the examples of each group.
    columns : sequence or None
        Names of the columns, if ``x`` is a pandas frame.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import GroupPool
    >>> pool = GroupPool(np.arange(8.0)[:, None], [0, 1] * 4, ["ohio"] * 4 + ["utah"] * 4)
    >>> [task.name for task in pool.tasks(shots=2, rng=0)]
    ['ohio', 'utah']
    """

    unit = "group"

    def __init__(
        self, x: Any, y: ArrayLike, groups: Ids, *, name: str = "pool", classes: int | None = None
    ) -> None:
        self.x = _checks.as_examples("x", x)
        self.columns: Sequence[Any] | None = (
            getattr(x, "columns", None) if self.x is not x else None
        )
        self.y = _checks.as_labels("y", y)
        self.groups = _checks.as_ids("groups", groups)
        self.name = name
        _checks.check_same_rows("y", self.y, "x", self.x)
        _checks.check_same_rows("groups", self.groups, "x", self.x)
        self.classes = _checks.as_class_count("y", self.y, classes)
        self.names, self.positions = positions_by_id(self.groups)

    def tasks(
        self,
        count: int | None = None,
        *,
        shots: Choice,
        queries: Choice | None = None,
        rng: Seed,
        name: str | None = None,
    ) -> Sequence[Task]:
        """Return every group once, or groups drawn independently with replacement.

        Task i does not depend on ``count``, nor on the order in which tasks are accessed.

        Parameters
        ----------
        count : int, optional
            Number of tasks to draw; by default every group is a task once.
        shots : int or sequence of int
            Number of support examples, drawn at random from the group. 0 for a model that does not
            adapt: all examples are then queries. A sequence lists the choices, of which each task
            draws one with equal probability.
        queries : int or sequence of int, optional
            Number of query examples, or the choices; by default all the rest of the group.
        rng : int, numpy.random.Generator or None
            Seed.
        name : str, optional
            Prefix of the names of these tasks, as in ``"name-ohio"``; none by default. Tasks of
            several calls need different prefixes to be scored together.

        Returns
        -------
        sequence of Task
            The tasks, each drawn when it is accessed. A task has the name of its group; with
            ``count``, a number is added, as in ``"ohio#3"``.

        Raises
        ------
        InvalidInput
            If a group has too few examples.
        """
        total = len(self.names) if count is None else as_whole_number("count", count, minimum=0)
        shot_choices = as_choices("shots", shots, minimum=0)
        query_choices = None if queries is None else as_choices("queries", queries)
        size = max(shot_choices) + (1 if query_choices is None else max(query_choices))
        needed = Message(
            "{} + {}", Parameter("shots"), 1 if queries is None else Parameter("queries")
        )
        _checks.check_sizes("group", self.names, self.positions, needed, size)
        draw = partial(self._task, count is None, shot_choices, query_choices, name)
        return DrawnTasks(total, draw, spawn_seed(rng))

    def _task(
        self,
        in_order: bool,
        shot_choices: Sequence[int],
        query_choices: Sequence[int] | None,
        prefix: str | None,
        i: int,
        rng: np.random.Generator,
    ) -> Task:
        shots = draw_one(shot_choices, rng)
        queries = None if query_choices is None else draw_one(query_choices, rng)
        group = i if in_order else int(rng.integers(len(self.names)))
        members = self.positions[group]
        drawn = draw_positions(members, len(members) if queries is None else shots + queries, rng)
        labels = self.y[drawn]
        return Task.unchecked(
            name=name_task(self.names[group], None if in_order else i, prefix),
            x=self.x,
            support=drawn[:shots],
            support_y=labels[:shots],
            query=drawn[shots:],
            query_y=labels[shots:],
            classes=self.classes,
            columns=self.columns,
        )

    def __repr__(self) -> str:
        groups = count_noun(self.names, "group")
        return f"<GroupPool {self.name!r}: {groups}, {count_noun(self.y, 'example')}>"


def name_task(group: str | int, number: int | None, prefix: str | None) -> str | int:
    """Return the name of a task that is drawn from a group or domain.

    Parameters
    ----------
    group : str or int
        The group.
    number : int or None
        Number of the task; None if each group is a task once.
    prefix : str or None
        Put before the name.

    Returns
    -------
    str or int
        The name.

    Examples
    --------
    >>> from metapac.tasks.group_pool import name_task
    >>> name_task("ohio", None, None), name_task("ohio", 3, None), name_task(7, 3, "test")
    ('ohio', 'ohio#3', 'test-7#3')
    """
    name = group if number is None else f"{group}#{number}"
    return name if prefix is None else f"{prefix}-{name}"

"""Pools of classes, groups or domains that tasks are drawn from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from metapac._common import Counts, Seed, as_whole_number
from metapac.errors import InvalidInput
from metapac.fewshot.drawing import (
    Choice,
    DrawnTasks,
    Ids,
    Settings,
    TransformSampler,
    apply_transform,
    as_choices,
    assign,
    count_noun,
    draw_one,
    draw_positions,
    fill_in_threads,
    positions_by_id,
    select_rows,
    spawn_seed,
    transform_name,
)
from metapac.fewshot.tasks import (
    Task,
    TaskBatch,
    as_class_count,
    as_examples,
    as_ids,
    as_labels,
    check_domains,
    check_joint_names,
    check_same_classes,
    check_same_rows,
    check_sizes,
    check_transform_sampler,
    check_unshared,
    check_ways,
)


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
    >>> from metapac.fewshot import ClassPool
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
        self.x = as_examples("x", x)
        self.y = as_ids("y", y)
        self.name = name
        self.transform = transform
        check_transform_sampler(transform)
        check_same_rows("y", self.y, "x", self.x)
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
        >>> from metapac.fewshot import ClassPool
        >>> pool = ClassPool(np.arange(60.0), np.arange(60) % 6)
        >>> tasks = pool.tasks(5, ways=range(2, 5), shots=[1, 5], queries=3, rng=0, name="mixed")
        >>> [(task.name, task.classes, len(task.support)) for task in tasks][:2]
        [('mixed-0', 2, 10), ('mixed-1', 3, 3)]
        """
        count = as_whole_number("count", count, minimum=0)
        settings = Settings.read(ways, shots, queries)
        check_ways(max(settings.ways), self.names)
        needed = "shots + queries"
        check_sizes("class", self.names, self.positions, needed, settings.largest)
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
    """Return a task of classes with equally many examples each."""
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
    >>> from metapac.fewshot import GroupPool
    >>> pool = GroupPool(np.arange(8.0)[:, None], [0, 1] * 4, ["ohio"] * 4 + ["utah"] * 4)
    >>> [task.name for task in pool.tasks(shots=2, rng=0)]
    ['ohio', 'utah']
    """

    unit = "group"

    def __init__(
        self, x: Any, y: ArrayLike, groups: Ids, *, name: str = "pool", classes: int | None = None
    ) -> None:
        self.x = as_examples("x", x)
        self.columns: Sequence[Any] | None = (
            getattr(x, "columns", None) if self.x is not x else None
        )
        self.y = as_labels("y", y)
        self.groups = as_ids("groups", groups)
        self.name = name
        check_same_rows("y", self.y, "x", self.x)
        check_same_rows("groups", self.groups, "x", self.x)
        self.classes = as_class_count("y", self.y, classes)
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
        needed = f"shots + {1 if queries is None else 'queries'}"
        check_sizes("group", self.names, self.positions, needed, size)
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
    """Return the name of a task that is drawn from a group or domain."""
    name = group if number is None else f"{group}#{number}"
    return name if prefix is None else f"{prefix}-{name}"


class DomainPool:
    """Classes within domains, such as letters within alphabets; a task stays in one domain.

    A task draws its domain first, then classes of that domain, then examples. Tasks of one domain
    depend on each other. For a guarantee on new domains, take one task of each domain, or pass the
    domains as ``clusters`` to `MetaPS.calibrate`.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples: a NumPy array, a memory-mapped array, a torch tensor or a `LazyArray`.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers. Classes of different domains are
        different, even if they have the same name.
    domains : array_like, shape (n,)
        Domain of each example, all strings or all integers.
    name : str, default "pool"
        Name of the pool.

    Attributes
    ----------
    names : list
        The domains, sorted.
    positions : list of ndarray
        Positions of the examples of each domain.
    classes : list of list
        The classes of each domain, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import DomainPool
    >>> letters = ["a", "b", "c"] * 8                                   # 4 of each in each alphabet
    >>> pool = DomainPool(np.arange(24.0), letters, np.repeat(["Greek", "Latin"], 12))
    >>> pool
    <DomainPool 'pool': 2 domains, 6 classes, 24 examples>
    >>> [(task.name, task.domain) for task in pool.tasks(ways=2, shots=1, queries=2, rng=0)]
    [('Greek', 'Greek'), ('Latin', 'Latin')]
    """

    unit = "domain"

    def __init__(self, x: Any, y: Ids, domains: Ids, *, name: str = "pool") -> None:
        self.x = as_examples("x", x)
        self.y = as_ids("y", y)
        self.domains = as_ids("domains", domains)
        self.name = name
        check_same_rows("y", self.y, "x", self.x)
        check_same_rows("domains", self.domains, "x", self.x)
        self.names, self.positions = positions_by_id(self.domains)
        by_class = [positions_by_id(self.y[members]) for members in self.positions]
        self.classes = [names for names, _ in by_class]
        self._members = [
            [members[inside] for inside in positions]
            for members, (_, positions) in zip(self.positions, by_class, strict=True)
        ]

    def tasks(
        self,
        count: int | None = None,
        *,
        ways: Choice,
        shots: Choice,
        queries: Choice,
        rng: Seed,
        name: str | None = None,
    ) -> Sequence[Task]:
        """Return one task of each domain, or tasks of domains drawn with replacement.

        Task i does not depend on ``count``, nor on the order in which tasks are accessed.

        Parameters
        ----------
        count : int, optional
            Number of tasks, each of a random domain; by default one task of each domain.
        ways : int or sequence of int
            Number of classes in a task. A sequence lists the choices, of which each task draws one
            with equal probability, as in `ClassPool.tasks`.
        shots : int or sequence of int
            Number of support examples of each class, or the choices.
        queries : int or sequence of int
            Number of query examples of each class, or the choices.
        rng : int, numpy.random.Generator or None
            Seed.
        name : str, optional
            Prefix of the names of these tasks, as in ``"name-Greek#3"``; none by default. Tasks of
            several calls need different prefixes to be scored together.

        Returns
        -------
        sequence of Task
            The tasks, each drawn when it is accessed. ``task.domain`` is its domain.

        Raises
        ------
        InvalidInput
            If a domain has fewer than ``ways`` classes, or a class too few examples.
        """
        total = len(self.names) if count is None else as_whole_number("count", count, minimum=0)
        settings = Settings.read(ways, shots, queries)
        check_domains(max(settings.ways), self.names, self.classes)
        needed = "shots + queries"
        for domain, names, members in zip(self.names, self.classes, self._members, strict=True):
            labelled = [f"{domain}/{name}" for name in names]
            check_sizes("class", labelled, members, needed, settings.largest)
        draw = partial(self._task, count is None, settings, name)
        return DrawnTasks(total, draw, spawn_seed(rng))

    def as_class_pool(self) -> ClassPool:
        """Return a pool of all classes whose tasks mix domains, for training.

        Returns
        -------
        ClassPool
            A pool on the same data, with classes such as ``"Greek/a"``.

        Examples
        --------
        >>> from metapac.fewshot import DomainPool
        >>> DomainPool([0.0, 1.0], ["a", "a"], ["Greek", "Latin"]).as_class_pool().names
        ['Greek/a', 'Latin/a']
        """
        pairs = zip(self.domains.tolist(), self.y.tolist(), strict=True)
        pool = ClassPool(self.x, [f"{domain}/{name}" for domain, name in pairs], name=self.name)
        check_joint_names(len(pool.names), sum(map(len, self.classes)))
        return pool

    def _task(
        self,
        in_order: bool,
        settings: Settings,
        prefix: str | None,
        i: int,
        rng: np.random.Generator,
    ) -> Task:
        domain = i if in_order else int(rng.integers(len(self.names)))
        ways, shots, queries = settings.draw(rng)
        classes = rng.choice(len(self.classes[domain]), ways, replace=False)
        members = self._members[domain]
        drawn = np.stack([draw_positions(members[c], shots + queries, rng) for c in classes])
        names = [self.classes[domain][c] for c in classes]
        task_name = name_task(self.names[domain], None if in_order else i, prefix)
        return make_task(task_name, self.x, drawn, shots, names, self.names[domain])

    def __repr__(self) -> str:
        classes = [name for names in self.classes for name in names]
        counts = count_noun(self.names, "domain"), count_noun(classes, "class", "es")
        return f"<DomainPool {self.name!r}: {', '.join(counts)}, {count_noun(self.y, 'example')}>"


P = TypeVar("P", ClassPool, GroupPool, DomainPool)

# Typed as Any, so that type checkers treat the pools that were passed as present.
_NO_POOL: Any = None


@dataclass(frozen=True)
class Pools(Generic[P]):
    """Pools that share no class, group or domain; a pool that is not needed is None.

    Pools with a transform may share classes, because their tasks differ by the transform. The
    caller must then make sure that they share no example.

    Attributes
    ----------
    train : ClassPool, GroupPool or DomainPool, optional
        Pool to train on.
    validation : ClassPool, GroupPool or DomainPool, optional
        Pool on which the best epoch is chosen.
    calibration : ClassPool, GroupPool or DomainPool, optional
        Pool to calibrate on.
    test : ClassPool, GroupPool or DomainPool, optional
        Pool to test on.
    """

    train: P = _NO_POOL
    validation: P = _NO_POOL
    calibration: P = _NO_POOL
    test: P = _NO_POOL

    def __post_init__(self) -> None:
        present = [(name, pool) for name, pool in vars(self).items() if pool is not None]
        for (first, a), (second, b) in combinations(present, 2):
            names = set() if _transforms(a) and _transforms(b) else set(a.names)
            check_unshared(a.unit, first, second, [n for n in b.names if n in names])
            if isinstance(a, GroupPool) and isinstance(b, GroupPool):
                check_same_classes(first, a.classes, second, b.classes)


def _transforms(pool: ClassPool | GroupPool | DomainPool) -> bool:
    return isinstance(pool, ClassPool) and pool.transform is not None


def split_classes(
    x: Any, y: Ids, *, train: int, validation: int, calibration: int, test: int, rng: Seed
) -> Pools[ClassPool]:
    """Split labelled examples into pools that share no class.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers.
    train : int
        Number of random classes in the training pool; 0 makes no pool.
    validation : int
        Number of classes in the validation pool.
    calibration : int
        Number of classes in the calibration pool.
    test : int
        Number of classes in the test pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, each with a copy of its rows of ``x`` (rows of a `LazyArray` stay unread).
        Classes beyond the four numbers are left out.

    Raises
    ------
    InvalidInput
        If the four numbers are all 0, or together exceed the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import split_classes
    >>> x, y = np.arange(30.0)[:, None], np.repeat(np.arange(10), 3)
    >>> pools = split_classes(x, y, train=5, validation=2, calibration=3, test=0, rng=0)
    >>> pools.calibration
    <ClassPool 'calibration': 3 classes, 9 examples>
    """
    x, y = as_examples("x", x), as_ids("y", y)
    check_same_rows("y", y, "x", x)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = assign("classes", y, parts, rng)
    return Pools(
        **{name: ClassPool(select_rows(x, i), y[i], name=name) for name, i in rows.items()}
    )


def split_groups(
    x: Any,
    y: ArrayLike,
    groups: Ids,
    *,
    train: int,
    validation: int,
    calibration: int,
    test: int,
    rng: Seed,
) -> Pools[GroupPool]:
    """Split examples in groups into pools that share no group.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples.
    y : array_like of int, shape (n,)
        Label of each example, from 0.
    groups : array_like, shape (n,)
        Group of each example, all strings or all integers.
    train : int
        Number of random groups in the training pool; 0 makes no pool.
    validation : int
        Number of groups in the validation pool.
    calibration : int
        Number of groups in the calibration pool.
    test : int
        Number of groups in the test pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, each with a copy of its rows of ``x`` and with every label of ``y``. Groups
        beyond the four numbers are left out.

    Raises
    ------
    InvalidInput
        If the four numbers are all 0, or together exceed the number of groups.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import split_groups
    >>> x, y, sites = np.arange(30.0)[:, None], np.arange(30) % 2, np.repeat(np.arange(10), 3)
    >>> pools = split_groups(x, y, sites, train=6, validation=0, calibration=2, test=2, rng=0)
    >>> pools.test
    <GroupPool 'test': 2 groups, 6 examples>
    """
    whole = GroupPool(x, y, groups)
    examples = whole.x if whole.columns is None else x.iloc
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = assign("groups", whole.groups, parts, rng)
    return Pools(
        **{
            name: GroupPool(
                select_rows(examples, i),
                whole.y[i],
                whole.groups[i],
                name=name,
                classes=whole.classes,
            )
            for name, i in rows.items()
        }
    )


def split_domains(
    x: Any,
    y: Ids,
    domains: Ids,
    *,
    train: int,
    validation: int,
    calibration: int,
    test: int,
    rng: Seed,
) -> Pools[DomainPool]:
    """Split classes within domains into pools that share no domain.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers.
    domains : array_like, shape (n,)
        Domain of each example, all strings or all integers.
    train : int
        Number of random domains in the training pool; 0 makes no pool.
    validation : int
        Number of domains in the validation pool.
    calibration : int
        Number of domains in the calibration pool.
    test : int
        Number of domains in the test pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, each with a copy of its rows of ``x`` (rows of a `LazyArray` stay unread).
        Domains beyond the four numbers are left out.

    Raises
    ------
    InvalidInput
        If the four numbers are all 0, or together exceed the number of domains.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import split_domains
    >>> alphabets, letters = np.repeat(np.arange(9), 20), np.tile(np.arange(5), 36)
    >>> x = np.arange(180.0)
    >>> pools = split_domains(
    ...     x, letters, alphabets, train=4, validation=0, calibration=3, test=2, rng=0
    ... )
    >>> pools.calibration
    <DomainPool 'calibration': 3 domains, 15 classes, 60 examples>
    """
    whole = DomainPool(x, y, domains)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = assign("domains", whole.domains, parts, rng)
    return Pools(
        **{
            name: DomainPool(select_rows(whole.x, i), whole.y[i], whole.domains[i], name=name)
            for name, i in rows.items()
        }
    )


def data_checksum(*arrays: ArrayLike) -> str:
    """Return the SHA-256 of arrays: of their types, shapes and bytes."""
    digest = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        if array.dtype.hasobject:  # their bytes are addresses, different in every process
            raise InvalidInput(
                f"arrays must hold numbers or text, got {array.dtype}. Convert it, for example "
                "with .astype(str)."
            )
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return "sha256:" + digest.hexdigest()

"""Pools of classes or groups that tasks are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from metapac._checks import as_whole_number
from metapac._types import Array, Counts, Seed
from metapac.exceptions import Message, Parameter
from metapac.tasks import _checks
from metapac.tasks.seeds import spawn_rng, spawn_seed
from metapac.tasks.task import Task

Ids = ArrayLike | Iterable[object]

_SHOTS, _QUERIES = Parameter("shots"), Parameter("queries")


class Transform(Protocol):
    """A change of examples that sets one task apart from others, such as a kind of noise."""

    @property
    def name(self) -> str:
        """Name of the transform, which becomes part of the name of the task."""

    def __call__(self, x: Any, rng: np.random.Generator, /) -> Any:
        """Return the transformed examples, as many as ``x`` has and in the same order.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples of one task.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array_like, shape (n, ...)
            The transformed examples.
        """


TransformSampler = Callable[[np.random.Generator], Transform]


class ClassPool:
    """Labelled examples from which few-shot tasks are drawn, each with a few of the classes.

    Tasks hold positions in ``x``, which is never copied. With ``transform``, a task holds a
    transformed copy of the rows that it needs.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples: a NumPy array, a memory-mapped array or a torch tensor.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers.
    name : str, optional
        Name of the pool; its tasks are called ``"pool-0"``, ``"pool-1"`` and so on.
    transform : callable, optional
        Takes a random generator and returns a `Transform`. Each task draws one.

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
        self.names, self.positions = _positions_by_id(self.y)
        equal = len({len(members) for members in self.positions}) == 1
        self._matrix = np.stack(self.positions) if equal else None  # (classes, size)

    def tasks(
        self, count: int, *, ways: int, shots: int, queries: int, rng: Seed
    ) -> Sequence[Task]:
        """Return independent tasks, each drawn when it is accessed.

        Classes, and the examples of a class, are drawn without replacement. Task i does not
        depend on ``count``, nor on the order in which tasks are accessed.

        Parameters
        ----------
        count : int
            Number of tasks.
        ways : int
            Number of classes in a task.
        shots : int
            Number of support examples of each class.
        queries : int
            Number of query examples of each class.
        rng : int, numpy.random.Generator or None
            Seed.

        Returns
        -------
        sequence of Task
            The tasks; labels 0 to ``ways - 1``, examples ordered by label.

        Raises
        ------
        InvalidInput
            If the pool has fewer than ``ways`` classes, or a class too few examples.
        """
        count = as_whole_number("count", count, minimum=0)
        ways = as_whole_number("ways", ways)
        shots = as_whole_number("shots", shots, minimum=0)
        queries = as_whole_number("queries", queries)
        _checks.check_ways(ways, self.names)
        needed = Message("{} + {}", _SHOTS, _QUERIES)
        _checks.check_sizes("class", self.names, self.positions, needed, shots + queries)
        return _Tasks(count, partial(self._task, ways, shots, queries), spawn_seed(rng))

    def _task(self, ways: int, shots: int, queries: int, i: int, rng: np.random.Generator) -> Task:
        classes = rng.choice(len(self.names), ways, replace=False)
        drawn = self._examples(classes, shots + queries, rng)  # (ways, shots + queries)
        name, x = f"{self.name}-{i}", self.x
        if self.transform is not None:
            transform = self.transform(rng)
            name, x = f"{name}: {transform.name}", apply_transform(transform, x[drawn.ravel()], rng)
            drawn = np.arange(drawn.size).reshape(drawn.shape)
        labels = np.arange(ways)
        return Task.unchecked(
            name=name,
            x=x,
            support=drawn[:, :shots].ravel(),
            support_y=labels.repeat(shots),
            query=drawn[:, shots:].ravel(),
            query_y=labels.repeat(queries),
            classes=ways,
        )

    def _examples(self, classes: Counts, count: int, rng: np.random.Generator) -> Counts:
        if self._matrix is not None:  # classes of equal size are shuffled together
            return rng.permuted(self._matrix[classes], axis=1)[:, :count]
        return np.stack([_draw(self.positions[c], count, rng) for c in classes])

    def __repr__(self) -> str:
        classes = f"{len(self.names)} class{'es' * (len(self.names) != 1)}"
        return f"<ClassPool {self.name!r}: {classes}, {_count(self.y, 'example')}>"


def apply_transform(transform: Transform, x: Any, rng: np.random.Generator) -> Any:
    """Return transformed examples, after checking that none was added or lost.

    Parameters
    ----------
    transform : Transform
        Transform of a task.
    x : array_like, shape (n, ...)
        Examples of the task.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    array_like, shape (n, ...)
        The transformed examples.
    """
    transformed = transform(x, rng)
    _checks.check_transformed(transform.name, transformed, x)
    return transformed


class GroupPool:
    """Labelled examples in groups, such as sites or state-years; each group is a task.

    Labels mean the same in all groups and keep their natural balance, so that some may be absent
    from a group.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples: a NumPy array, a memory-mapped array, a torch tensor or a pandas frame. The tasks
        of a frame hold frames, so that a model that was fitted on named columns gets them.
    y : array_like of int, shape (n,)
        Label of each example, from 0.
    groups : array_like, shape (n,)
        Group of each example, all strings or all integers.
    name : str, optional
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
        self.names, self.positions = _positions_by_id(self.groups)

    def tasks(
        self, count: int | None = None, *, shots: int, queries: int | None = None, rng: Seed
    ) -> Sequence[Task]:
        """Return every group once, or groups drawn independently with replacement.

        Task i does not depend on ``count``, nor on the order in which tasks are accessed.

        Parameters
        ----------
        count : int, optional
            Number of tasks to draw; by default every group is a task once.
        shots : int
            Number of support examples, drawn at random from the group. 0 for a model that does not
            adapt: all examples are then queries.
        queries : int, optional
            Number of query examples; by default all the rest of the group.
        rng : int, numpy.random.Generator or None
            Seed.

        Returns
        -------
        sequence of Task
            The tasks, each drawn when it is accessed.

        Raises
        ------
        InvalidInput
            If a group has too few examples.
        """
        total = len(self.names) if count is None else as_whole_number("count", count, minimum=0)
        shots = as_whole_number("shots", shots, minimum=0)
        size = shots + (1 if queries is None else as_whole_number("queries", queries))
        needed = Message("{} + {}", _SHOTS, 1 if queries is None else _QUERIES)
        _checks.check_sizes("group", self.names, self.positions, needed, size)
        drawn = None if queries is None else size
        return _Tasks(total, partial(self._task, count is None, shots, drawn), spawn_seed(rng))

    def _task(
        self, in_order: bool, shots: int, count: int | None, i: int, rng: np.random.Generator
    ) -> Task:
        group = i if in_order else int(rng.integers(len(self.names)))
        members = self.positions[group]
        drawn = _draw(members, len(members) if count is None else count, rng)
        labels = self.y[drawn]
        return Task.unchecked(
            name=self.names[group] if in_order else f"{self.names[group]}#{i}",
            x=self.x,
            support=drawn[:shots],
            support_y=labels[:shots],
            query=drawn[shots:],
            query_y=labels[shots:],
            classes=self.classes,
            columns=self.columns,
        )

    def __repr__(self) -> str:
        groups = _count(self.names, "group")
        return f"<GroupPool {self.name!r}: {groups}, {_count(self.y, 'example')}>"


P = TypeVar("P", ClassPool, GroupPool)

# Typed as Any, so that type checkers treat the pools that were passed as present.
_NO_POOL: Any = None


@dataclass(frozen=True)
class Pools(Generic[P]):
    """Pools that share no class and no group; a pool that is not needed is None.

    Pools with a transform may share classes, because their tasks differ by the transform. The
    caller must then make sure that they share no example.

    Parameters
    ----------
    train : ClassPool or GroupPool, optional
        Pool to train on.
    validation : ClassPool or GroupPool, optional
        Pool on which the best epoch is chosen.
    calibration : ClassPool or GroupPool, optional
        Pool to calibrate on.
    test : ClassPool or GroupPool, optional
        Pool to test on.

    Raises
    ------
    InvalidInput
        If two pools share a class or group, or differ in their number of labels.

    Examples
    --------
    >>> from metapac.tasks import ClassPool, Pools
    >>> pools = Pools(train=ClassPool([0.0, 1.0], ["a", "b"]), test=ClassPool([2.0], ["c"]))
    >>> pools.test.names
    ['c']
    """

    train: P = _NO_POOL
    validation: P = _NO_POOL
    calibration: P = _NO_POOL
    test: P = _NO_POOL

    def __post_init__(self) -> None:
        present = [(name, pool) for name, pool in vars(self).items() if pool is not None]
        for (first, a), (second, b) in combinations(present, 2):
            names = set() if _transforms(a) and _transforms(b) else set(a.names)
            _checks.check_unshared(a.unit, first, second, [n for n in b.names if n in names])
            if isinstance(a, GroupPool) and isinstance(b, GroupPool):
                _checks.check_same_classes(first, a.classes, second, b.classes)


def _transforms(pool: ClassPool | GroupPool) -> bool:
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
        The pools, each with a copy of its rows of ``x``. Classes beyond the four numbers are
        left out.

    Raises
    ------
    InvalidInput
        If the four numbers are all 0, or together exceed the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import split_classes
    >>> x, y = np.arange(30.0)[:, None], np.repeat(np.arange(10), 3)
    >>> pools = split_classes(x, y, train=5, validation=2, calibration=3, test=0, rng=0)
    >>> pools.calibration
    <ClassPool 'calibration': 3 classes, 9 examples>
    """
    x, y = _checks.as_examples("x", x), _checks.as_ids("y", y)
    _checks.check_same_rows("y", y, "x", x)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = _assign("classes", y, parts, rng)
    return Pools(**{name: ClassPool(x[i], y[i], name=name) for name, i in rows.items()})


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
    >>> from metapac.tasks import split_groups
    >>> x, y, sites = np.arange(30.0)[:, None], np.arange(30) % 2, np.repeat(np.arange(10), 3)
    >>> pools = split_groups(x, y, sites, train=6, validation=0, calibration=2, test=2, rng=0)
    >>> pools.test
    <GroupPool 'test': 2 groups, 6 examples>
    """
    whole = GroupPool(x, y, groups)
    examples = whole.x if whole.columns is None else x.iloc
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = _assign("groups", whole.groups, parts, rng)
    return Pools(
        **{
            name: GroupPool(
                examples[i], whole.y[i], whole.groups[i], name=name, classes=whole.classes
            )
            for name, i in rows.items()
        }
    )


class _Tasks(Sequence[Task]):
    """Tasks that are drawn when they are accessed."""

    def __init__(
        self,
        count: int,
        draw: Callable[[int, np.random.Generator], Task],
        seed: np.random.SeedSequence,
    ) -> None:
        self._count, self._draw, self._seed = count, draw, seed

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<{_count(self, 'task')}, drawn when accessed>"

    @overload
    def __getitem__(self, i: int) -> Task: ...
    @overload
    def __getitem__(self, i: slice) -> list[Task]: ...
    def __getitem__(self, i: int | slice) -> Task | list[Task]:
        if isinstance(i, slice):
            return [self[j] for j in range(self._count)[i]]
        position = range(self._count)[i]
        return self._draw(position, spawn_rng(self._seed, position))


def _count(some: Sized, noun: str) -> str:
    return f"{len(some)} {noun}{'s' * (len(some) != 1)}"


def _positions_by_id(ids: Array) -> tuple[list[Any], list[Counts]]:
    """Return the distinct ids, sorted, and the positions of each."""
    names, codes, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    return names.tolist(), np.split(order, np.cumsum(sizes)[:-1])


def _draw(positions: Counts, count: int, rng: np.random.Generator) -> Counts:
    """Return ``count`` of the positions in random order."""
    return positions[rng.choice(len(positions), count, replace=False)]


def _assign(unit: str, ids: Array, parts: dict[str, int], rng: Seed) -> dict[str, Counts]:
    """Return, for each part that is not empty, the positions of its random classes or groups."""
    counts = {name: as_whole_number(name, count, minimum=0) for name, count in parts.items()}
    _, positions = _positions_by_id(ids)
    _checks.check_pool_sizes(unit, counts, len(positions))
    order = iter(np.random.default_rng(rng).permutation(len(positions)))
    chosen = {
        name: [positions[next(order)] for _ in range(count)] for name, count in counts.items()
    }
    return {name: np.sort(np.concatenate(rows)) for name, rows in chosen.items() if rows}

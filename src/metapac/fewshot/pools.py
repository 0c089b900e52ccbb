"""Pools of classes, groups or domains that tasks are drawn from, each task by a seed of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from metapac import _common
from metapac._common import Array, Counts, Seed, as_whole_number, as_whole_numbers, brief, listed
from metapac.errors import InvalidInput
from metapac.fewshot import tasks
from metapac.fewshot.tasks import Choice, Ids, LazyArray, Task, TaskBatch, count_noun

_THREADS = 4
_ROWS = 64  # tasks drawn at a time by a thread; with fewer, threads wait for each other
_NUMBERS = 2**20  # that their examples may take, at most: 8 MiB


# Draws what one task does to its examples, such as a kind of noise; its name, or that of the
# function, becomes part of the name of the task.
Transform = Callable[[Any, np.random.Generator], Any]
_Rngs = Sequence[np.random.Generator]
TransformSampler = Callable[[np.random.Generator], Transform]


def transform_name(transform: Transform) -> str:
    """Return the name of a transform; that of the function if it is a plain one."""
    name = getattr(transform, "name", None) or getattr(transform, "__name__", "<none>")
    return "transform" if str(name).startswith("<") else str(name)


def apply_transform(transform: Transform, x: Any, rng: np.random.Generator) -> Any:
    """Return transformed examples, after checking that none was added or lost."""
    if not callable(transform):
        raise InvalidInput(f"transform must return a function, got {brief(transform)}.")
    transformed = transform(x, rng)
    if len(transformed) != len(x):
        rule = f"transform {transform_name(transform)!r} must return {len(x)} examples"
        raise InvalidInput(f"{rule}, got {len(transformed)}.")
    return transformed


class _Plan(NamedTuple):
    """What tasks draw: one each of the possible ways, shots and queries, independently."""

    ways: tuple[int, ...]
    shots: tuple[int, ...]
    queries: tuple[int, ...]  # empty: all the rest of a group, and drawn as 0
    prefix: str | None  # of the names of the tasks
    in_order: bool  # every group or domain once
    unlabelled: int = 0  # of a task, divided over its classes

    @property
    def largest(self) -> int:
        """Number of examples of a class or group that the largest task needs."""
        unlabelled = -(-self.unlabelled // min(self.ways))
        return max(self.shots) + max(self.queries, default=1) + unlabelled

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Return the ways, shots and queries of one task; one choice takes no random number."""
        drawn = (c[int(rng.integers(len(c)))] if len(c) > 1 else sum(c) for c in self[:3])
        return tuple(drawn)

    def draw_unit(self, i: int, names: list[Any], rng: np.random.Generator) -> tuple[int, Any]:
        """Return the number of the group or domain of task ``i``, and the name of the task."""
        number = i if self.in_order else int(rng.integers(len(names)))
        name = names[number] if self.in_order else f"{names[number]}#{i}"
        return number, name if self.prefix is None else f"{self.prefix}-{name}"


def _as_choices(name: str, value: Choice | None, *, minimum: int = 1) -> tuple[int, ...]:
    if not hasattr(value, "__len__") or isinstance(value, str) or getattr(value, "ndim", 1) == 0:
        return (as_whole_number(name, value, minimum=minimum),)
    choices = as_whole_numbers(name, value, minimum=minimum)
    if choices.ndim != 1 or not choices.size:
        raise InvalidInput(f"{name} must be whole numbers, got {value!r}.", parameter=name)
    return tuple(choices.tolist())


class DrawnTasks(Sequence[Task]):
    """Tasks that are drawn when they are accessed."""

    def __init__(self, pool: _Pool, plan: _Plan, count: int, seed: np.random.SeedSequence) -> None:
        self._pool, self._plan, self._count, self._seed = pool, plan, count, seed

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<{count_noun(self, 'task')}, drawn when accessed>"

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(self._count)[i]]
        position = range(self._count)[i]
        return self._pool._draw_task(self._plan, position, tasks.spawn_rng(self._seed, position))

    def draw(self) -> Sequence[Task]:
        return self._pool._draw_tasks(self._plan, tasks.spawn_rngs(self._seed, self._count))


def draw_all(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return tasks that are drawn once, however often they are accessed."""
    return tasks.draw() if isinstance(tasks, DrawnTasks) else list(tasks)


def _positions_by_id(ids: Array) -> tuple[list[Any], list[Counts]]:
    """Return the distinct ids, sorted, and the positions of each."""
    names, codes, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    return names.tolist(), np.split(order, np.cumsum(sizes)[:-1])


def _draw_positions(positions: Counts, count: int, rng: np.random.Generator) -> Counts:
    return positions[rng.choice(len(positions), count, replace=False)]


def _draw_others(
    members: Sequence[Counts], drawn: Sequence[Counts], count: int, rng: np.random.Generator
) -> Counts:
    """Return further examples of some classes, equally many of each, in random order."""
    # A generator of their own draws them, so that ``rng`` goes on as if there were none.
    (own,) = rng.spawn(1)
    sizes = np.bincount(np.arange(count) % len(members), minlength=len(members))
    others = []
    for some, known, n in zip(members, drawn, sizes.tolist(), strict=True):
        is_left = np.ones(len(some), dtype=bool)
        is_left[np.searchsorted(some, known)] = False
        others.append(_draw_positions(some[is_left], n, own))
    return np.asarray(own.permutation(np.concatenate(others)))


class _Classes(NamedTuple):
    """Classes that few-shot tasks are drawn from: those of a pool, or of one of its domains."""

    names: list[Any]
    positions: list[Counts]
    matrix: Counts | None = None  # the positions, (classes, size), if all rows are to be shuffled

    def draw(
        self, sizes: tuple[int, ...], rngs: _Rngs, unlabelled: int = 0, **fields: Any
    ) -> TaskBatch:
        """Return a task for each generator, all with these ways, shots and queries."""
        ways, shots, queries = sizes
        count, labels = len(rngs), np.arange(ways)
        others = np.empty((count, unlabelled), np.int64)
        drawn = np.empty((count, ways, shots + queries), np.int64)
        chosen = [rng.choice(len(self.names), ways, replace=False) for rng in rngs]
        classes = np.array(chosen, np.int64).reshape(count, ways)

        def fill(start: int) -> None:
            rows = slice(start, start + step)
            drawn[rows] = self._draw_examples(classes[rows], shots + queries, rngs[rows])
            for i in range(*rows.indices(count)) if unlabelled else ():
                members = [self.positions[c] for c in classes[i]]
                others[i] = _draw_others(members, drawn[i], unlabelled, rngs[i])

        step = max(1, min(_ROWS, _NUMBERS // (ways * max(map(len, self.positions)))))
        if count <= step:
            fill(0)
        else:
            with ThreadPoolExecutor(_THREADS) as threads:
                list(threads.map(fill, range(0, count, step)))  # raises what a thread raised
        return TaskBatch(
            support=drawn[:, :, :shots].reshape(count, ways * shots),
            support_y=np.broadcast_to(labels.repeat(shots), (count, ways * shots)),
            query=drawn[:, :, shots:].reshape(count, ways * queries),
            query_y=np.broadcast_to(labels.repeat(queries), (count, ways * queries)),
            classes=ways,
            class_names=np.array(self.names, object)[classes],
            unlabelled=others if unlabelled else None,
            **fields,
        )

    def _draw_examples(self, classes: Counts, count: int, rngs: _Rngs) -> Counts:
        """Return examples of the classes of each task, (tasks, ways) -> (tasks, ways, count)."""
        if self.matrix is None:
            pairs = zip(classes.tolist(), rngs, strict=True)
            members = [(self.positions[c], rng) for row, rng in pairs for c in row]
            drawn = [_draw_positions(positions, count, rng) for positions, rng in members]
            return np.array(drawn, np.int64).reshape(*classes.shape, count)
        shuffled = self.matrix[classes]  # (tasks, ways, size)
        for rows, rng in zip(shuffled, rngs, strict=True):
            rng.permuted(rows, axis=1, out=rows)
        return shuffled[:, :, :count]


class _Pool:
    """Examples by class, group or domain; a subclass says what one task draws."""

    unit: ClassVar[str]
    columns: Sequence[Any] | None = None

    def __init__(self, x: Any, name: str, ids: dict[str, Array], *options: str) -> None:
        self.x, self.name, self._ids, self._options = tasks.as_examples("x", x), name, ids, options
        for key, column in ids.items():
            _common.check_same_length(key, column, "x", self.x)
        self.names, self.positions = _positions_by_id(column)  # the last is that of the units

    def __repr__(self) -> str:
        counts = ", ".join(count_noun(number, noun) for noun, number in self._counts().items())
        return f"<{type(self).__name__} {self.name!r}: {counts}>"

    def _counts(self) -> dict[str, int]:
        return {self.unit: len(self.names), "example": self.x.shape[0]}

    def _tasks(
        self,
        count: int | None,
        sizes: Sequence[Choice | None],
        rng: Seed,
        name: str | None,
        unlabelled: int,
    ) -> DrawnTasks:
        """Return tasks after checking that all are possible; those of groups have no ways."""
        total = len(self.names) if count is None else as_whole_number("count", count, minimum=0)
        ways, shots, queries = sizes
        is_rest = ways is None and queries is None
        plan = _Plan(
            (1,) if ways is None else _as_choices("ways", ways),
            _as_choices("shots", shots, minimum=0),
            () if is_rest else _as_choices("queries", queries),
            prefix=name,
            in_order=count is None,
            unlabelled=as_whole_number("unlabelled", unlabelled, minimum=0),
        )
        if ways is not None and min(plan.shots) == 0 < max(plan.shots):
            raise InvalidInput(f"shots must not mix 0 and others: {shots}.", parameter="shots")
        self._check_plan(plan)
        return DrawnTasks(self, plan, total, tasks.spawn_seed(rng))

    def _check_plan(self, plan: _Plan) -> None:
        """Raise if a class or group is too small for the largest task."""
        _check_sizes(self.unit, zip(self.names, self.positions, strict=True), plan)

    _draw_task: Callable[[_Plan, int, np.random.Generator], Task]

    def _draw_tasks(self, plan: _Plan, rngs: Sequence[np.random.Generator]) -> Sequence[Task]:
        return [self._draw_task(plan, i, rng) for i, rng in enumerate(rngs)]

    def _take(self, rows: Counts, name: str) -> Any:
        """Return the pool of some examples: a copy, or of a `LazyArray` one that reads them."""
        x = self.x.select(rows) if isinstance(self.x, LazyArray) else self.x[rows]
        ids = [column[rows] for column in self._ids.values()]
        options = {option: getattr(self, option) for option in self._options}
        pool = type(self)(x, *ids, name=name, **options)  # type: ignore[arg-type, misc]
        pool.columns = self.columns
        return pool


def _check_sizes(unit: str, members: Iterable[tuple[Any, Counts]], plan: _Plan) -> None:
    small = [f"{name!r} with {len(rows)}" for name, rows in members if len(rows) < plan.largest]
    if small:
        names = f"shots + {'queries' if plan.queries else 1}"
        if plan.unlabelled:
            names += f" + unlabelled{' / ways' * (max(plan.ways) > 1)}"
        needed = f"{names} = {plan.largest} examples"
        message = f"each {unit} must have at least {needed}, got {listed(small)}. Leave those out."
        raise InvalidInput(message, parameter=("shots", "queries"))


class ClassPool(_Pool):
    """Labelled examples from which few-shot tasks are drawn, each with a few of the classes.

    Tasks hold positions in ``x``, which is never copied; with ``transform``, a transformed copy of
    the rows that they need.

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
    names, positions : list
        The classes, sorted, and the positions of the examples of each.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import ClassPool
    >>> pool = ClassPool(np.arange(60.0), np.arange(60) % 6)
    >>> tasks = pool.tasks(5, ways=range(2, 5), shots=[1, 5], queries=3, rng=0, name="mixed")
    >>> [(task.name, task.classes, len(task.support)) for task in tasks][:2]
    [('mixed-0', 2, 10), ('mixed-1', 3, 3)]
    """

    unit = "class"

    def __init__(
        self, x: Any, y: Ids, *, name: str = "pool", transform: TransformSampler | None = None
    ) -> None:
        self.y, self.transform = tasks.as_ids("y", y), transform
        super().__init__(x, name, {"y": self.y}, "transform")
        if transform is not None and not callable(transform):
            raise InvalidInput(f"transform must be a function of a generator, got {transform!r}.")
        equal = len({len(members) for members in self.positions}) == 1
        self._matrix = np.stack(self.positions) if equal else None  # (classes, size)

    @property
    def _classes(self) -> _Classes:  # names and positions may be replaced in a copy
        return _Classes(self.names, self.positions, self._matrix)

    def tasks(
        self,
        count: int,
        *,
        ways: Choice,
        shots: Choice,
        queries: Choice,
        rng: Seed,
        name: str | None = None,
        unlabelled: int = 0,
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
        shots, queries : int or sequence of int
            Number of support and of query examples of each class, or the choices.
        rng : int, numpy.random.Generator or None
            Seed.
        name : str, optional
            Prefix of their names, by default that of the pool. Tasks of several calls need
            different prefixes to be scored together.
        unlabelled : int, default 0
            Number of unlabelled examples of a task, divided evenly over its classes and in random
            order. They are drawn last: support and queries of a seed do not depend on the number.

        Returns
        -------
        sequence of Task
            Labels are 0 to ``classes - 1``; examples are ordered by label.
        """
        count = as_whole_number("count", count, minimum=0)
        name = self.name if name is None else name
        return self._tasks(count, (ways, shots, queries), rng, name, unlabelled)

    def _check_plan(self, plan: _Plan) -> None:
        if (ways := max(plan.ways)) > (most := len(self.names)):
            text = f"ways must be at most {most}, the number of classes in the pool, got {ways}."
            raise InvalidInput(text, parameter="ways")
        super()._check_plan(plan)

    def _draw_task(self, plan: _Plan, i: int, rng: np.random.Generator) -> Task:
        name, sizes = f"{plan.prefix}-{i}", plan.draw(rng)
        (task,) = self._classes.draw(sizes, [rng], plan.unlabelled, names=[name], x=self.x)
        if self.transform is None:
            return task
        (ways, shots, queries), transform = sizes, self.transform(rng)
        parts = task.support.reshape(ways, shots), task.query.reshape(ways, queries)
        rows = np.concatenate(parts, axis=1).ravel()  # (ways * (shots + queries),)
        places = np.arange(len(rows)).reshape(ways, shots + queries)
        changes: Any = {"support": places[:, :shots].ravel(), "query": places[:, shots:].ravel()}
        changes |= {"name": f"{name}: {transform_name(transform)}"}
        x = apply_transform(transform, self.x[rows], rng)
        if task.unlabelled is not None:
            x = np.concatenate([x, apply_transform(transform, task.unlabelled_x, rng)])
            changes["unlabelled"] = np.arange(len(rows), len(x))
        return tasks.unchecked_task(**vars(task) | changes | {"x": x})

    def _draw_tasks(self, plan: _Plan, rngs: Sequence[np.random.Generator]) -> Sequence[Task]:
        if self.transform is not None or any(len(choices) > 1 for choices in plan[:3]):
            return super()._draw_tasks(plan, rngs)
        names = [f"{plan.prefix}-{i}" for i in range(len(rngs))]
        sizes = tuple(size for (size,) in plan[:3])
        return self._classes.draw(sizes, rngs, plan.unlabelled, names=names, x=self.x)


class GroupPool(_Pool):
    """Labelled examples in groups, such as sites or state-years; each group is a task.

    Labels mean the same in all groups, and some may be absent from a group.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples, as in `ClassPool`, or a pandas frame, whose tasks hold frames with its columns.
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
    names, positions : list
        The groups, sorted, and the positions of the examples of each.
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
        self.y, self.groups = tasks.as_labels("y", y), tasks.as_ids("groups", groups)
        self.classes = tasks.as_class_count("y", self.y, classes)
        super().__init__(x, name, {"y": self.y, "groups": self.groups}, "classes")
        self.columns = None if self.x is x else getattr(x, "columns", None)

    def tasks(
        self,
        count: int | None = None,
        *,
        shots: Choice,
        queries: Choice | None = None,
        rng: Seed,
        name: str | None = None,
        unlabelled: int = 0,
    ) -> Sequence[Task]:
        """Return every group once, or groups drawn independently with replacement.

        Task i does not depend on ``count``, nor on the order in which tasks are accessed.

        Parameters
        ----------
        count : int, optional
            Number of tasks to draw; by default every group is a task once.
        shots : int or sequence of int
            Number of support examples, drawn at random from the group, or the choices. 0 for a
            model that does not adapt: all examples are then queries.
        queries : int or sequence of int, optional
            Number of query examples, or the choices; by default all the rest of the group.
        rng : int, numpy.random.Generator or None
            Seed.
        name, unlabelled : object, optional
            As in `ClassPool.tasks`; names have no prefix by default.

        Returns
        -------
        sequence of Task
            Each is drawn when it is accessed, and has the name of its group; with ``count``, a
            number is added, as in ``"ohio#3"``.
        """
        return self._tasks(count, (None, shots, queries), rng, name, unlabelled)

    def _draw_task(self, plan: _Plan, i: int, rng: np.random.Generator) -> Task:
        _, shots, queries = plan.draw(rng)
        group, name = plan.draw_unit(i, self.names, rng)
        members = self.positions[group]
        drawn = _draw_positions(members, shots + queries if queries else len(members), rng)
        if plan.unlabelled and queries:
            drawn = np.append(drawn, _draw_others([members], [drawn], plan.unlabelled, rng))
        support, query, others = np.split(drawn, [shots, len(drawn) - plan.unlabelled])
        parts: dict[str, Any] = {"support": support, "support_y": self.y[support]}
        parts |= {"query": query, "query_y": self.y[query]}
        parts |= {"unlabelled": others if len(others) else None}
        shared = {"x": self.x, "classes": self.classes, "columns": self.columns}
        return tasks.unchecked_task(name=name, **parts, **shared)


class DomainPool(_Pool):
    """Classes within domains, such as letters within alphabets; a task stays in one domain.

    A task draws its domain first, then classes of that domain, then examples. Tasks of one domain
    depend on each other. For a guarantee on new domains, take one task of each domain, or pass the
    domains as ``clusters`` to `MetaPS.calibrate`.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples, as in `ClassPool`.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers; one name in two domains is two classes.
    domains : array_like, shape (n,)
        Domain of each example, all strings or all integers.
    name : str, default "pool"
        Name of the pool.

    Attributes
    ----------
    names, positions : list
        The domains, sorted, and the positions of the examples of each.
    classes : list of list
        The classes of each domain, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import DomainPool
    >>> letters = ["a", "b", "c"] * 8                                   # 4 of each in each alphabet
    >>> pool = DomainPool(np.arange(24.0), letters, np.repeat(["Greek", "Latin"], 12))
    >>> [(task.name, task.domain) for task in pool.tasks(ways=2, shots=1, queries=2, rng=0)]
    [('Greek', 'Greek'), ('Latin', 'Latin')]
    """

    unit = "domain"

    def __init__(self, x: Any, y: Ids, domains: Ids, *, name: str = "pool") -> None:
        self.y, self.domains = tasks.as_ids("y", y), tasks.as_ids("domains", domains)
        super().__init__(x, name, {"y": self.y, "domains": self.domains})
        self._inside: list[_Classes] = []
        for members in self.positions:
            names, inside = _positions_by_id(self.y[members])
            self._inside.append(_Classes(names, [members[positions] for positions in inside]))
        self.classes = [inside.names for inside in self._inside]

    def tasks(
        self,
        count: int | None = None,
        *,
        ways: Choice,
        shots: Choice,
        queries: Choice,
        rng: Seed,
        name: str | None = None,
        unlabelled: int = 0,
    ) -> Sequence[Task]:
        """Return one task of each domain, or tasks of domains drawn with replacement.

        Parameters
        ----------
        count : int, optional
            Number of tasks, each of a random domain; by default one task of each domain.
        ways, shots, queries : int or sequence of int
            Number of classes, and of examples of each class, as in `ClassPool.tasks`.
        rng : int, numpy.random.Generator or None
            Seed.
        name, unlabelled : object, optional
            As in `ClassPool.tasks`; names have no prefix by default.

        Returns
        -------
        sequence of Task
            Each is drawn when it is accessed; ``task.domain`` is its domain.
        """
        return self._tasks(count, (ways, shots, queries), rng, name, unlabelled)

    def as_class_pool(self) -> ClassPool:
        """Return a pool of all classes whose tasks mix domains, for training.

        Returns
        -------
        ClassPool
            A pool on the same data, with classes such as ``"Greek/a"``.
        """
        pairs = zip(self.domains.tolist(), self.y.tolist(), strict=True)
        pool = ClassPool(self.x, [f"{domain}/{name}" for domain, name in pairs], name=self.name)
        if len(pool.names) < (classes := self._counts()["class"]):
            rule = f"domains and classes must make {classes} distinct names"
            raise InvalidInput(f"{rule}, got {len(pool.names)}.")
        return pool

    def _counts(self) -> dict[str, int]:
        domains, examples = super()._counts().values()
        return {"domain": domains, "class": sum(map(len, self.classes)), "example": examples}

    def _check_plan(self, plan: _Plan) -> None:
        ways, pairs = max(plan.ways), list(zip(self.names, self._inside, strict=True))
        small = [f"{name!r} with {len(c.names)}" for name, c in pairs if len(c.names) < ways]
        if small:
            text = f"each domain must have at least ways = {ways} classes, got {listed(small)}."
            raise InvalidInput(text, parameter="ways")
        for domain, (names, positions, _) in pairs:
            classes = [f"{domain}/{name}" for name in names]
            _check_sizes("class", zip(classes, positions, strict=True), plan)

    def _draw_task(self, plan: _Plan, i: int, rng: np.random.Generator) -> Task:
        number, name = plan.draw_unit(i, self.names, rng)
        fields = {"names": [name], "x": self.x, "domain": self.names[number]}
        (task,) = self._inside[number].draw(plan.draw(rng), [rng], plan.unlabelled, **fields)
        return task


P = TypeVar("P", ClassPool, GroupPool, DomainPool)

# Typed as Any, so that type checkers treat the pools that were passed as present.
_NO_POOL: Any = None


@dataclass(frozen=True)
class Pools(Generic[P]):
    """Pools that share no class, group or domain; a pool that is not needed is None.

    Pools with a transform may share classes; the caller makes sure that they share no example.

    Attributes
    ----------
    train, validation, calibration, test : ClassPool, GroupPool or DomainPool, optional
        Pools to train on, to choose the best epoch on, to calibrate on and to test on.
    """

    train: P = _NO_POOL
    validation: P = _NO_POOL
    calibration: P = _NO_POOL
    test: P = _NO_POOL

    def __post_init__(self) -> None:
        present: dict[str, Any] = {k: pool for k, pool in vars(self).items() if pool is not None}
        for (first, a), (second, b) in combinations(present.items(), 2):
            transformed = getattr(a, "transform", None) and getattr(b, "transform", None)
            shared = sorted(map(repr, set(a.names) & set(b.names)))
            both = f"{first} and {second} must"
            if shared and not transformed:
                raise InvalidInput(f"{both} not share a {a.unit}, got {listed(shared)} in both.")
            if a.unit == "group" and a.classes != b.classes:
                got = f"got {a.classes} and {b.classes}"
                raise InvalidInput(f"{both} have the same number of labels, as classes, {got}.")


def split_by_name(whole: P, members: Mapping[str, Iterable[Any]]) -> Pools[P]:
    """Return pools of the given classes, groups or domains; rows are copied, or stay unread."""
    positions = dict(zip(whole.names, whole.positions, strict=True))
    rows = {pool: [positions[name] for name in names] for pool, names in members.items()}
    chosen = {pool: np.sort(np.concatenate(parts)) for pool, parts in rows.items() if parts}
    return Pools(**{pool: whole._take(some, pool) for pool, some in chosen.items()})


def split_pool(whole: P, sizes: Mapping[str, int], rng: Seed) -> Pools[P]:
    """Return pools of so many random classes, groups or domains."""
    counts = {pool: as_whole_number(pool, sizes[pool], minimum=0) for pool in vars(Pools())}
    total = sum(counts.values())
    if not 0 < total <= len(whole.names):
        rule = f"the pools must hold from 1 to {count_noun(whole.names, whole.unit)} together"
        raise InvalidInput(f"{rule}, got {counts}, {total} in all.", parameter=tuple(counts))
    order = iter(np.random.default_rng(rng).permutation(len(whole.names)).tolist())
    chosen = {pool: [whole.names[next(order)] for _ in range(n)] for pool, n in counts.items()}
    return split_by_name(whole, chosen)


def split_classes(
    x: Any, y: Ids, *, train: int, validation: int, calibration: int, test: int, rng: Seed
) -> Pools[ClassPool]:
    """Split labelled examples into pools that share no class.

    Parameters
    ----------
    x, y : array_like, shape (n, ...)
        Examples and their classes, as in `ClassPool`.
    train, validation, calibration, test : int
        Number of random classes in each pool; 0 makes no pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, each with a copy of its rows of ``x`` (rows of a `LazyArray` stay unread).
        Classes beyond the four numbers are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import split_classes
    >>> x, y = np.arange(30.0)[:, None], np.repeat(np.arange(10), 3)
    >>> pools = split_classes(x, y, train=5, validation=2, calibration=3, test=0, rng=0)
    >>> pools.calibration
    <ClassPool 'calibration': 3 classes, 9 examples>
    """
    sizes = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    return split_pool(ClassPool(x, y), sizes, rng)


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
    x, y, groups : array_like, shape (n, ...)
        Examples, their labels and their groups, as in `GroupPool`.
    train, validation, calibration, test : int
        Number of random groups in each pool; 0 makes no pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, as of `split_classes`, each with every label of ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import split_groups
    >>> x, y, sites = np.arange(30.0)[:, None], np.arange(30) % 2, np.repeat(np.arange(10), 3)
    >>> pools = split_groups(x, y, sites, train=6, validation=0, calibration=2, test=2, rng=0)
    >>> pools.test
    <GroupPool 'test': 2 groups, 6 examples>
    """
    sizes = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    return split_pool(GroupPool(x, y, groups), sizes, rng)


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
    x, y, domains : array_like, shape (n, ...)
        Examples, their classes and their domains, as in `DomainPool`.
    train, validation, calibration, test : int
        Number of random domains in each pool; 0 makes no pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, as of `split_classes`.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import split_domains
    >>> x, letters, alphabets = np.arange(180.0), np.arange(180) % 5, np.repeat(np.arange(9), 20)
    >>> sizes = {"train": 4, "validation": 0, "calibration": 3, "test": 2}
    >>> split_domains(x, letters, alphabets, **sizes, rng=0).calibration
    <DomainPool 'calibration': 3 domains, 15 classes, 60 examples>
    """
    sizes = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    return split_pool(DomainPool(x, y, domains), sizes, rng)

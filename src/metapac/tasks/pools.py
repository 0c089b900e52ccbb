"""Where tasks are drawn from: pools of classes or of groups, kept apart from one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac._checks import whole_number
from metapac.tasks import _checks
from metapac.tasks._seeds import Seed, child, root
from metapac.tasks.task import Task

Positions = NDArray[np.int64]
Ids = ArrayLike | Iterable[object]


class Alteration(Protocol):
    """What sets one task apart from others of the same classes, such as a kind of noise."""

    @property
    def name(self) -> str: ...

    def __call__(self, images: Any, rng: np.random.Generator) -> Any:
        """Return the examples altered, as many and in the same order."""


Change = Callable[[np.random.Generator], Alteration]


class ClassPool:
    """Labelled examples from which few-shot tasks are drawn: ``ways`` classes in each.

    Only positions are drawn: ``x`` may be NumPy, memory-mapped or torch, and is never copied.
    With ``change``, a function that draws an alteration, each task has one of its own: its data
    are then a copy of the rows it needs, altered.
    """

    unit = "class"

    def __init__(self, x: Any, y: Ids, *, name: str = "pool", change: Change | None = None) -> None:
        self.x = _checks.examples("x", x)
        self.y = _checks.ids("y", y)
        self.name = name
        self.change = _checks.change(change)
        _checks.same_rows("y", self.y, "x", self.x)
        self.names, self.positions = _numbered(self.y)
        alike = len({len(own) for own in self.positions}) == 1
        self._square = np.stack(self.positions) if alike else None  # (classes, size)

    def tasks(
        self, count: int, *, ways: int, shots: int, queries: int, rng: Seed
    ) -> Sequence[Task]:
        """Return ``count`` independent tasks; task i is the same whatever the count and order.

        A task has ``ways`` random classes, and of each one ``shots`` examples to adapt to and
        ``queries`` others to score, class after class, drawn without replacement.
        """
        count = whole_number("count", count, least=0)
        ways = whole_number("ways", ways)
        shots = whole_number("shots", shots, least=0)
        queries = whole_number("queries", queries)
        _checks.enough_classes(ways, self.names)
        sizes = [len(own) for own in self.positions]
        _checks.enough("class", self.names, sizes, "shots + queries", shots + queries)
        return _Tasks(count, partial(self._task, ways, shots, queries), root(rng))

    def _task(self, ways: int, shots: int, queries: int, i: int, rng: np.random.Generator) -> Task:
        classes = rng.choice(len(self.names), ways, replace=False)
        drawn = self._examples(classes, shots + queries, rng)  # (ways, shots + queries)
        name, x = f"{self.name}-{i}", self.x
        if self.change is not None:
            alteration = self.change(rng)
            name, x = f"{name}: {alteration.name}", altered(alteration, x[drawn.ravel()], rng)
            drawn = np.arange(drawn.size).reshape(drawn.shape)
        labels = np.arange(ways)
        return Task._drawn(
            name=name,
            x=x,
            support=drawn[:, :shots].ravel(),
            support_y=labels.repeat(shots),
            query=drawn[:, shots:].ravel(),
            query_y=labels.repeat(queries),
            classes=ways,
        )

    def _examples(
        self, classes: NDArray[np.int64], count: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        if self._square is not None:  # classes of one size are shuffled together
            return rng.permuted(self._square[classes], axis=1)[:, :count]
        return np.stack([_some(self.positions[c], count, rng) for c in classes])

    def __repr__(self) -> str:
        return f"<ClassPool {self.name!r}: {len(self.names)} classes, {len(self.y)} examples>"


def altered(alteration: Alteration, x: Any, rng: np.random.Generator) -> Any:
    """Return the examples that ``alteration`` makes of ``x``, one for each."""
    found = alteration(x, rng)
    _checks.as_many(alteration.name, found, x)
    return found


class GroupPool:
    """Labelled examples in groups, such as sites or state-years: each group is a task.

    Labels are 0, 1, ... with one meaning in all groups, and keep their natural balance: some may
    be absent from a group. ``classes=None`` counts up to the largest label of the pool.
    """

    unit = "group"

    def __init__(
        self, x: Any, y: ArrayLike, groups: Ids, *, name: str = "pool", classes: int | None = None
    ) -> None:
        self.x = _checks.examples("x", x)
        self.y = _checks.labels("y", y)
        self.groups = _checks.ids("groups", groups)
        self.name = name
        _checks.same_rows("y", self.y, "x", self.x)
        _checks.same_rows("groups", self.groups, "x", self.x)
        self.classes = _checks.label_count("y", self.y, classes)
        self.names, self.positions = _numbered(self.groups)

    def tasks(
        self, count: int | None = None, *, shots: int, queries: int | None = None, rng: Seed
    ) -> Sequence[Task]:
        """Return every group once, or ``count`` groups drawn independently, with replacement.

        A task has ``shots`` random examples of the group to adapt to and ``queries`` others to
        score (``None``: all the rest). Task i is the same whatever the count and order.
        """
        total = len(self.names) if count is None else whole_number("count", count, least=0)
        shots = whole_number("shots", shots, least=0)
        size = shots + (1 if queries is None else whole_number("queries", queries))
        need = "shots + 1" if queries is None else "shots + queries"
        _checks.enough("group", self.names, [len(own) for own in self.positions], need, size)
        wanted = None if queries is None else size
        return _Tasks(total, partial(self._task, count is None, shots, wanted), root(rng))

    def _task(
        self, each: bool, shots: int, wanted: int | None, i: int, rng: np.random.Generator
    ) -> Task:
        group = i if each else int(rng.integers(len(self.names)))
        own = self.positions[group]
        drawn = _some(own, len(own) if wanted is None else wanted, rng)
        labels = self.y[drawn]
        return Task._drawn(
            name=self.names[group] if each else f"{self.names[group]}#{i}",
            x=self.x,
            support=drawn[:shots],
            support_y=labels[:shots],
            query=drawn[shots:],
            query_y=labels[shots:],
            classes=self.classes,
        )

    def __repr__(self) -> str:
        return f"<GroupPool {self.name!r}: {len(self.names)} groups, {len(self.y)} examples>"


P = TypeVar("P", ClassPool, GroupPool)


@dataclass(frozen=True)
class Pools(Generic[P]):
    """Pools that share no class or group; one that is not needed may be ``None``.

    Pools with a change may share classes, since their tasks differ by their alterations; whoever
    makes such pools keeps the examples apart.
    """

    # Typed as present: whoever gave a pool need not prove to a type checker that it is there.
    train: P = None  # type: ignore[assignment]
    validation: P = None  # type: ignore[assignment]
    calibration: P = None  # type: ignore[assignment]
    test: P = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        given = [(name, pool) for name, pool in vars(self).items() if pool is not None]
        for (first, a), (second, b) in combinations(given, 2):
            known = set() if _changes(a) and _changes(b) else set(a.names)
            _checks.unshared(a.unit, first, second, [name for name in b.names if name in known])
            if isinstance(a, GroupPool) and isinstance(b, GroupPool):
                _checks.known_labels(first, a.classes, second, b.classes)


def _changes(pool: ClassPool | GroupPool) -> bool:
    return isinstance(pool, ClassPool) and pool.change is not None


def split_classes(
    x: Any, y: Ids, *, train: int, validation: int, calibration: int, test: int, rng: Seed
) -> Pools[ClassPool]:
    """Return pools of so many random classes each; none has a class of another.

    Every pool has its own copy of its rows of ``x``. Classes beyond the four numbers are left
    out, and a number of 0 gives no pool.
    """
    x, y = _checks.examples("x", x), _checks.ids("y", y)
    _checks.same_rows("y", y, "x", x)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    chosen = _split("classes", y, parts, rng)
    return Pools(**{name: ClassPool(x[i], y[i], name=name) for name, i in chosen.items()})


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
    """Return pools of so many random groups each; none has a group of another.

    Every pool has its own copy of its rows of ``x``. Groups beyond the four numbers are left
    out, and a number of 0 gives no pool. All pools know every label of ``y``.
    """
    whole = GroupPool(x, y, groups)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    chosen = _split("groups", whole.groups, parts, rng)
    return Pools(
        **{
            name: GroupPool(
                whole.x[i], whole.y[i], whole.groups[i], name=name, classes=whole.classes
            )
            for name, i in chosen.items()
        }
    )


class _Tasks(Sequence[Task]):
    """Tasks that are drawn when they are asked for."""

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
        return f"<{self._count} tasks, drawn when they are asked for>"

    @overload
    def __getitem__(self, i: int) -> Task: ...
    @overload
    def __getitem__(self, i: slice) -> list[Task]: ...
    def __getitem__(self, i: int | slice) -> Task | list[Task]:
        if isinstance(i, slice):
            return [self[j] for j in range(self._count)[i]]
        position = range(self._count)[i]
        return self._draw(position, child(self._seed, position))


def _numbered(ids: NDArray[Any]) -> tuple[list[Any], list[Positions]]:
    """Return the distinct ids, sorted, and the positions of each."""
    names, codes, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    return names.tolist(), np.split(order, np.cumsum(sizes)[:-1])


def _some(positions: Positions, count: int, rng: np.random.Generator) -> Positions:
    """Return ``count`` of the positions in random order."""
    return positions[rng.choice(len(positions), count, replace=False)]


def _split(unit: str, ids: NDArray[Any], parts: dict[str, int], rng: Seed) -> dict[str, Positions]:
    """Return for each part that is not empty the positions of its random classes or groups."""
    counts = {name: whole_number(name, count, least=0) for name, count in parts.items()}
    _, positions = _numbered(ids)
    _checks.sum_of_parts(unit, counts, len(positions))
    order = iter(np.random.default_rng(rng).permutation(len(positions)))
    chosen = {
        name: [positions[next(order)] for _ in range(count)] for name, count in counts.items()
    }
    return {name: np.sort(np.concatenate(own)) for name, own in chosen.items() if own}

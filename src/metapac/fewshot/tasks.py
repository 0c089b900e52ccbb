"""Few-shot tasks: a support set to adapt to, and queries to score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from metapac._common import Array, Counts, as_whole_number, brief, listed, on_host
from metapac.errors import InvalidInput, keyword
from metapac.inputs import kind_of


def as_examples(name: str, x: Any) -> Any:
    """Return ``x`` as it is if it can be indexed by position, or as a NumPy array."""
    _check_not_dataset(name, x)
    array = x if hasattr(x, "shape") and not hasattr(x, "iloc") else np.asarray(x)
    if not len(array.shape):
        raise InvalidInput(f"{name} must hold one row for each example, got {x!r}.")
    return array


def as_positions(name: str, values: ArrayLike, x: Any) -> Counts:
    """Return ``values`` as int64 positions of rows of ``x``."""
    array = _flat(name, values)
    if len(array) and array.dtype.kind not in "iu":
        raise InvalidInput(
            f"{name} must hold positions in x, got {array.dtype}. "
            "Turn a mask into positions with np.flatnonzero(mask)."
        )
    if len(array) and not 0 <= array.min() <= array.max() < x.shape[0]:
        raise InvalidInput(
            f"{name} must hold positions from 0 to {x.shape[0] - 1}, the rows of x, got "
            f"{array.min()} to {array.max()}."
        )
    if len(np.unique(array)) < len(array):
        raise InvalidInput(
            f"{name} must hold each position once: an example counts only once. "
            "Drop the repeats with np.unique."
        )
    return array.astype(np.int64, copy=False)


def as_labels(name: str, values: ArrayLike) -> Counts:
    """Return ``values`` as int64 labels, none of them negative."""
    array = _flat(name, values)
    if array.dtype == object:  # integers in a column of objects, as pandas may hold them
        array = np.asarray(array.tolist())
    if len(array) and (array.dtype.kind not in "iub" or array.min() < 0):
        got = f"{array.min()}" if array.dtype.kind == "i" else f"{array.dtype}"
        raise InvalidInput(
            f"{name} must hold labels 0, 1, ..., got {got}. Number them once, the same way in "
            "all pools, for example with np.unique(y, return_inverse=True)[1]."
        )
    return array.astype(np.int64, copy=False)


def as_class_count(name: str, labels: Counts, classes: int | None) -> int:
    """Return ``classes``, or one more than the largest label if it is not given."""
    minimum = int(labels.max()) + 1 if len(labels) else 0
    if classes is None:
        return minimum
    if as_whole_number("classes", classes) < minimum:
        raise InvalidInput(
            f"{name} must hold labels below {keyword('classes', classes)}, got {minimum - 1}. Pass "
            f"{keyword('classes', minimum)} or more."
        )
    return int(classes)


def check_no_gap(name: str, labels: Counts) -> None:
    """Raise if a label below the largest one does not occur: labels may not count from 0."""
    total = int(labels.max()) + 1 if len(labels) else 0
    absent = np.setdiff1d(np.arange(total), labels)
    if len(absent):
        raise InvalidInput(
            f"{name} must hold every label from 0 to {total - 1}, but {absent[0]} does not occur. "
            f"Number labels from 0, or pass {keyword('classes', total)} if that label has no "
            "example."
        )


def as_ids(name: str, values: ArrayLike | Iterable[object]) -> Array:
    """Return the class or group of each example as a one-dimensional array that NumPy can sort."""
    array = _flat(name, _as_objects(values))
    if array.dtype.kind in "iuU" and len(array):
        return array
    kinds: dict[str, object] = {}
    for value in array.tolist():
        kinds.setdefault(kind_of(value), value)
    if not kinds:
        raise InvalidInput(f"{name} is empty; pass at least one example.")
    if kinds.keys() not in ({"str"}, {"int"}):
        got = " and ".join(f"{kind} ({value!r})" for kind, value in kinds.items())
        raise InvalidInput(
            f"{name} must be all strings or all integers, got {got}. Drop examples where it is "
            f"missing and convert the rest, for example with [str(value) for value in {name}]."
        )
    return array.astype(np.str_ if "str" in kinds else np.int64)


def check_same_rows(name: str, array: Any, other: str, reference: Any) -> None:
    """Raise if two arrays differ in length."""
    if array.shape[0] != reference.shape[0]:
        raise InvalidInput(
            f"{name} and {other} must have the same length, got {array.shape[0]} and "
            f"{reference.shape[0]}. Pass one of each for every example."
        )


def check_transform_sampler(value: Any) -> None:
    """Raise unless ``value`` is callable or None."""
    if value is not None and not callable(value):
        raise InvalidInput(
            "transform must be a function that draws a transform from a random generator, got "
            f"{value!r}. Leave it out if tasks differ by their classes alone."
        )


def check_transform(value: Any) -> None:
    """Raise unless what a sampler of transforms returned is a function."""
    if not callable(value):
        raise InvalidInput(
            "transform must return a function of examples and a random generator, got "
            f"{brief(value)}. Pass lambda rng: change, where change(x, rng) returns the "
            "changed examples."
        )


def check_transformed(name: str, transformed: Any, x: Any) -> None:
    """Raise if a transform has changed the number of examples."""
    if len(transformed) != len(x):
        raise InvalidInput(
            f"transform {name!r} must return as many examples as it is given, got "
            f"{len(transformed)} for {len(x)}."
        )


def check_disjoint(support: Counts, query: Counts) -> None:
    """Raise if an example is in both the support set and the query set."""
    shared = support[np.isin(support, query)]
    if len(shared):
        raise InvalidInput(
            f"support and query must not share examples, got position {shared[0]} in both. "
            "Score only examples that the learner was not adapted to."
        )


def check_sizes(
    unit: str, names: Sequence[Any], positions: Sequence[Counts], needed: str, minimum: int
) -> None:
    """Raise if a class or group has fewer than ``minimum`` examples."""
    too_small = [
        f"{name!r} with {len(members)}"
        for name, members in zip(names, positions, strict=True)
        if len(members) < minimum
    ]
    if too_small:
        raise InvalidInput(
            f"each {unit} must have at least {needed} = {minimum} examples, got "
            f"{listed(too_small)}. Lower shots or queries, or leave out each {unit} that is too "
            "small.",
            parameter=("shots", "queries"),
        )


def check_ways(ways: int, names: Sequence[Any]) -> None:
    """Raise if a pool has fewer classes than a task needs."""
    if ways > len(names):
        raise InvalidInput(
            f"ways must be at most {len(names)}, the number of classes in the pool, got {ways}.",
            parameter="ways",
        )


def check_domains(ways: int, names: Sequence[Any], classes: Sequence[Sequence[Any]]) -> None:
    """Raise if a domain has fewer classes than a task needs."""
    too_small = [
        f"{name!r} with {len(inside)}"
        for name, inside in zip(names, classes, strict=True)
        if len(inside) < ways
    ]
    if too_small:
        raise InvalidInput(
            f"each domain must have at least ways = {ways} classes, got {listed(too_small)}. Lower "
            "ways, or leave out each domain that is too small.",
            parameter="ways",
        )


def check_joint_names(distinct: int, classes: int) -> None:
    """Raise if two classes have the same name once that of their domain is put before it."""
    if distinct < classes:
        raise InvalidInput(
            f"domains and classes must have distinct names when joined as 'domain/class', got "
            f"{distinct} names for {classes} classes. Rename those that contain a slash."
        )


def check_class_names(class_names: Sequence[Any] | None, classes: int) -> None:
    """Raise unless there is one name for each label, or none at all."""
    if class_names is not None and len(class_names) != classes:
        raise InvalidInput(
            f"class_names must have one name for each of {classes} labels, got {len(class_names)}."
        )


def check_unshared(unit: str, first: str, second: str, shared: Sequence[Any]) -> None:
    """Raise if two pools share a class or group."""
    if shared:
        raise InvalidInput(
            f"{first} and {second} must not share a {unit}, got "
            f"{listed([*map(repr, shared)])} in both. Leave it out of one of them; if "
            "it is not the same one in both, give them different names."
        )


def check_same_classes(first: str, classes: int, second: str, others: int) -> None:
    """Raise if two pools of groups differ in their number of labels."""
    if classes != others:
        raise InvalidInput(
            f"{first} and {second} must have the same labels, got {classes} and {others} classes. "
            f"Pass {keyword('classes', max(classes, others))} to both pools."
        )


def check_pool_sizes(unit: str, parts: dict[str, int], available: int) -> None:
    """Raise if the pools together need more classes or groups than there are, or none."""
    total = sum(parts.values())
    if total > available or not total:
        terms = " + ".join(f"{name}={count}" for name, count in parts.items())
        raise InvalidInput(
            f"the pools must together hold from 1 to {available} {unit}, as many as there are, "
            f"got {terms} = {total}."
        )


def check_pool_of_task(task: Task, x: Any, rows: int) -> None:
    """Raise if a task holds positions in other data, or has no support examples."""
    if (x is not None and task.x is not x) or len(task.x) != rows:
        raise InvalidInput(
            f"task {task.name!r} belongs to another pool than these embeddings. "
            "Embed its pool with learner.bank(pool.x)."
        )
    if not len(task.support):
        raise InvalidInput(f"task {task.name!r} has no support examples. Draw it with shots >= 1.")


def check_one_support_size(tasks: Sequence[Task]) -> None:
    """Raise unless all tasks have equally many support examples."""
    sizes = sorted({len(task.support) for task in tasks})
    if len(sizes) != 1:
        got = f"sizes {sizes[0]} and {sizes[1]}" if sizes else "no task"
        raise InvalidInput(
            f"tasks must have support sets of one size, got {got}. "
            "Pass the tasks of each size in a separate call."
        )


def _check_not_dataset(name: str, x: Any) -> None:
    """Raise for an object that gives examples one by one, which NumPy would read whole or not."""
    of_library = any(
        cls.__module__.startswith(("torch.utils.data", "datasets.")) for cls in type(x).__mro__
    )
    is_array = hasattr(x, "shape") or hasattr(x, "__array__")
    is_rows = isinstance(x, Sequence | Mapping) or not hasattr(x, "__getitem__")
    if not of_library and (is_array or is_rows):
        return
    inner = "" if hasattr(x, "__getitem__") else ".dataset"
    raise InvalidInput(
        f"{name} must be an array, got a {type(x).__name__}, which gives examples one by one. Pass "
        f"LazyArray.from_dataset(data{inner}), with data for the {type(x).__name__}; it is in "
        "metapac.fewshot and reads rows when tasks need them."
    )


def _flat(name: str, values: Any) -> Array:
    array = np.asarray(on_host(values))
    if array.ndim != 1:
        raise InvalidInput(
            f"{name} must be one-dimensional, one value for each example, got shape {array.shape}."
        )
    return array


def _as_objects(values: Any) -> Any:
    # NumPy turns [1, "a"] into two strings; an array of objects keeps both types.
    if hasattr(values, "__array__") or isinstance(values, str) or not isinstance(values, Iterable):
        return values
    return np.fromiter(values, object)


@dataclass(frozen=True, eq=False)
class Task:
    """Support and query examples of one task, as positions in the data of its pool.

    The data are shared by all tasks of a pool and are never copied. No example is in both the
    support set and the query set.

    Parameters
    ----------
    name : str or int
        Name of the task.
    x : array_like, shape (n, ...)
        Data of the whole pool: a NumPy array, a memory-mapped array or a torch tensor.
    support : ndarray of int
        Positions in ``x`` of the support examples.
    support_y : ndarray of int
        Labels of the support examples, from 0 to ``classes - 1``. Some labels may be absent.
    query : ndarray of int
        Positions in ``x`` of the query examples.
    query_y : ndarray of int
        Labels of the query examples.
    classes : int
        Number of labels.
    columns : sequence, optional
        Names of the columns of ``x``. Support and query examples are then pandas frames.
    class_names : sequence, optional
        Class of each label, such as ("cat", "owl"): what label 0 means in this task, what 1 means.
    domain : str or int, optional
        Domain that the classes come from, such as an alphabet. Tasks of one domain depend on each
        other: calibrate with ``clusters``.

    Raises
    ------
    InvalidInput
        If positions repeat, overlap or lie outside ``x``, or if a label is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import Task
    >>> x = np.array([[0.0], [1.0], [0.1], [0.9]])
    >>> task = Task("ohio", x, support=[0, 1], support_y=[0, 1], query=[2, 3], query_y=[0, 1],
    ...             classes=2)
    >>> task.query_x.ravel().tolist()
    [0.1, 0.9]
    """

    name: str | int
    x: Any = field(repr=False)
    support: Counts = field(repr=False)
    support_y: Counts = field(repr=False)
    query: Counts = field(repr=False)
    query_y: Counts = field(repr=False)
    classes: int
    columns: Sequence[Any] | None = field(default=None, repr=False)
    class_names: Sequence[Any] | None = field(default=None, repr=False)
    domain: str | int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for part in ("support", "query"):
            positions = as_positions(part, getattr(self, part), self.x)
            labels = as_labels(f"{part}_y", getattr(self, f"{part}_y"))
            check_same_rows(f"{part}_y", labels, part, positions)
            as_class_count(f"{part}_y", labels, self.classes)
            object.__setattr__(self, part, positions)
            object.__setattr__(self, f"{part}_y", labels)
        check_disjoint(self.support, self.query)
        check_class_names(self.class_names, self.classes)

    @classmethod
    def unchecked(cls, **fields: Any) -> Task:
        """Return a task whose fields are valid by construction; none is checked.

        Parameters
        ----------
        **fields : object
            Every field of `Task`.

        Returns
        -------
        Task
            The task.
        """
        task = object.__new__(cls)
        task.__dict__.update(fields)
        return task

    @property
    def support_x(self) -> Any:
        """Support examples, a copy of their rows of ``x``."""
        return self.take(self.support)

    @property
    def query_x(self) -> Any:
        """Query examples, a copy of their rows of ``x``."""
        return self.take(self.query)

    def take(self, positions: Counts) -> Any:
        """Return some examples, as a pandas frame if ``columns`` names their columns.

        Parameters
        ----------
        positions : ndarray of int
            Positions in ``x``.

        Returns
        -------
        array_like or pandas.DataFrame
            A copy of their rows of ``x``.
        """
        if self.columns is None:
            return self.x[positions]
        import pandas as pd  # a caller who passes a frame has it installed

        return pd.DataFrame(self.x[positions], columns=self.columns).infer_objects()

    @classmethod
    def from_arrays(
        cls,
        support_x: Any,
        support_y: ArrayLike,
        query_x: Any,
        query_y: ArrayLike,
        *,
        name: str | int,
        classes: int | None = None,
    ) -> Task:
        """Return a task made of four arrays.

        Parameters
        ----------
        support_x : array_like, shape (s, ...)
            Support examples.
        support_y : array_like of int, shape (s,)
            Labels of the support examples, from 0.
        query_x : array_like, shape (q, ...)
            Query examples.
        query_y : array_like of int, shape (q,)
            Labels of the query examples.
        name : str or int
            Name of the task. Tasks that are scored together need distinct names.
        classes : int, optional
            Number of labels; by default one more than the largest label, if every label occurs.

        Returns
        -------
        Task
            The task, with a copy of the examples.

        Raises
        ------
        InvalidInput
            If lengths differ, or if a label is out of range or, without ``classes``, skipped.

        Examples
        --------
        >>> from metapac.fewshot import Task
        >>> Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2]], [0], name="ohio")
        Task(name='ohio', classes=2)
        """
        support_x = as_examples("support_x", support_x)
        query_x = as_examples("query_x", query_x)
        ys = as_labels("support_y", support_y), as_labels("query_y", query_y)
        check_same_rows("support_y", ys[0], "support_x", support_x)
        check_same_rows("query_y", ys[1], "query_x", query_x)
        labels = np.concatenate(ys)
        if classes is None:
            check_no_gap("support_y and query_y", labels)
        border, end = len(ys[0]), len(labels)
        return cls(
            name,
            x=_concatenate(support_x, query_x),
            support=np.arange(border),
            support_y=ys[0],
            query=np.arange(border, end),
            query_y=ys[1],
            classes=as_class_count("support_y or query_y", labels, classes),
        )


def _concatenate(first: Any, second: Any) -> Any:
    if hasattr(first, "detach") or hasattr(second, "detach"):
        import torch  # a caller who passes a tensor has it installed

        return torch.cat([torch.as_tensor(first), torch.as_tensor(second)])
    return np.concatenate([first, second])


@dataclass(frozen=True, eq=False, repr=False)
class TaskBatch(Sequence[Task]):
    """Tasks with equally many examples: a row of positions and one of labels for each.

    As a sequence it holds the tasks themselves, each made when it is accessed.
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
        """Yield the tasks in batches of at most ``size``."""
        return (self[start : start + size] for start in range(0, len(self), size))


_ROWS = ("support", "support_y", "query", "query_y")


def batches(
    tasks: Iterable[Task], check: Callable[[Task], object], *, query: str = "query"
) -> Iterator[TaskBatch]:
    """Yield consecutive tasks of one shape, in order."""
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
    """Return the number of query examples of each task."""
    if isinstance(tasks, TaskBatch):
        return np.full(len(tasks), tasks.query.shape[1])
    return np.array([len(task.query) for task in tasks])


@dataclass(frozen=True)
class ClassReuse:
    """How often tasks use the same classes.

    Tasks drawn from a pool are independent given its classes. A guarantee calibrated on them is for
    new tasks of *these* classes. For tasks of new classes, the sample size is at most the number of
    classes, and a few classes do not support a small ``delta``, however many tasks are drawn.

    Attributes
    ----------
    tasks : int
        Number of tasks.
    classes : int
        Number of distinct classes in them.
    per_class : float
        Number of tasks that a class is in, on average.
    shared : float
        Number of classes that two of the tasks share, on average.
    """

    tasks: int
    classes: int
    per_class: float
    shared: float

    def describe(self) -> str:
        """Return the counts in words, and what follows from them.

        Returns
        -------
        str
            Three sentences; one if no class is in two tasks.
        """
        counts = f"{self.tasks} tasks from {self.classes} classes"
        if self.per_class == 1:
            return f"{counts}: no class is in two tasks."
        sample = f"the sample is {self.classes} classes, not {self.tasks} tasks"
        if self.classes >= self.tasks:
            sample = f"the sample is smaller than {self.tasks} tasks, since some share classes"
        return (
            f"{counts}: a class is in {self.per_class:.3g} tasks on average, and two tasks share "
            f"{self.shared:.2g} classes. A guarantee calibrated on them is for new tasks of these "
            f"{self.classes} classes. For tasks of new classes, {sample}."
        )


def class_reuse(tasks: Iterable[Task]) -> ClassReuse:
    """Count how often tasks use the same classes.

    Parameters
    ----------
    tasks : iterable of Task
        Tasks of a `ClassPool` or a `DomainPool`, or any with ``class_names``.

    Returns
    -------
    ClassReuse
        The counts.

    Raises
    ------
    InvalidInput
        If there is no task, or one does not name its classes.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import ClassPool, class_reuse
    >>> pool = ClassPool(np.arange(160.0), np.arange(160) % 16)
    >>> reuse = class_reuse(pool.tasks(500, ways=5, shots=1, queries=4, rng=0))
    >>> reuse.per_class, round(reuse.shared, 1)
    (156.25, 1.6)
    >>> reuse.describe()[:80]
    '500 tasks from 16 classes: a class is in 156 tasks on average, and two tasks sha'
    """
    uses: Counter[object] = Counter()
    count = 0
    for task in tasks:
        if task.class_names is None:
            raise InvalidInput(
                f"task {task.name!r} does not name its classes, so that their reuse cannot be "
                "counted. Pass class_names to Task, or draw the tasks from a ClassPool."
            )
        uses.update((task.domain, name) for name in task.class_names)
        count += 1
    if not count:
        raise InvalidInput("tasks is empty; pass at least one task.")
    pairs = sum(n * (n - 1) for n in uses.values())
    shared = pairs / (count * (count - 1)) if count > 1 else 0.0
    return ClassReuse(count, len(uses), uses.total() / len(uses), shared)

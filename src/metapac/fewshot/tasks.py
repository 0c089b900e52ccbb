"""Few-shot tasks: a support set to adapt to, queries to score, and the examples they refer to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from metapac import _common, artefact
from metapac._common import Array, Counts, PathLike, Progress, Seed, as_whole_number, brief, on_host
from metapac._text import inflect
from metapac.errors import InvalidInput
from metapac.inputs import kind_of

Choice = int | Sequence[int]  # of ways, shots or queries
Ids = ArrayLike | Iterable[object]


def spawn_seed(rng: Seed) -> np.random.SeedSequence:
    (generator,) = np.random.default_rng(rng).spawn(1)
    return cast(np.random.SeedSequence, generator.bit_generator.seed_seq)


def spawn_rng(seed: np.random.SeedSequence, i: int) -> np.random.Generator:
    """Return the random generator of item ``i`` of a sequence, as ``seed.spawn`` numbers them."""
    key = (*seed.spawn_key, i)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))


def spawn_rngs(seed: np.random.SeedSequence, count: int) -> list[np.random.Generator]:
    """Return the generators of the first items, three times as fast by hashing all keys at once."""
    entropy, key = seed.entropy, seed.spawn_key
    if not isinstance(entropy, int):  # a sequence of integers
        return [spawn_rng(seed, i) for i in range(count)]
    size = max(4, -(-entropy.bit_length() // 32))
    words = np.empty((count, size + len(key) + 1), np.uint32)
    words[:, :size] = np.frombuffer(entropy.to_bytes(4 * size, "little"), "<u4")
    words[:, size:-1], words[:, -1] = key, np.arange(count)
    return [np.random.Generator(np.random.PCG64(np.random.SeedSequence(row))) for row in words]


def count_noun(some: int | Sized, noun: str) -> str:
    """Return how many there are, such as "1 task" or "3 classes"."""
    number = some if isinstance(some, int) else len(some)
    return f"{number} {noun if number == 1 else inflect(noun)[1]}"


def as_examples(name: str, x: Any) -> Any:
    """Return ``x``, or a NumPy array of it; refuse objects that give examples one by one."""
    modules = ("torch.utils.data", "datasets.")
    of_library = any(cls.__module__.startswith(modules) for cls in type(x).__mro__)
    is_array = hasattr(x, "shape") or hasattr(x, "__array__")
    is_rows = isinstance(x, Sequence | Mapping) or not hasattr(x, "__getitem__")
    if of_library or not (is_array or is_rows):
        data = "data" if hasattr(x, "__getitem__") else "data.dataset"
        rule = f"{name} must be an array, got a {type(x).__name__}, which gives examples one by one"
        raise InvalidInput(f"{rule}. Pass LazyArray.from_dataset({data}).")
    array = x if hasattr(x, "shape") and not hasattr(x, "iloc") else np.asarray(x)
    if not array.shape:
        raise InvalidInput(f"{name} must hold one row for each example, got {x!r}.")
    return array


def as_labels(name: str, values: ArrayLike) -> Counts:
    """Return ``values`` as int64 labels, none of them negative."""
    array = _flat(name, values)
    if array.dtype == object:  # integers in a column of objects, as pandas may hold them
        array = np.asarray(array.tolist())
    if len(array) and (array.dtype.kind not in "iub" or array.min() < 0):
        got = array.min() if array.dtype.kind == "i" else array.dtype
        raise InvalidInput(f"{name} must hold labels 0, 1, ..., alike in all pools, got {got}.")
    return array.astype(np.int64, copy=False)


def as_class_count(name: str, labels: Counts, classes: int | None) -> int:
    """Return ``classes``, or one more than the largest label if it is not given."""
    minimum = int(labels.max()) + 1 if len(labels) else 0
    if classes is None:
        return minimum
    if as_whole_number("classes", classes) < minimum:
        raise InvalidInput(f"{name} must hold labels below classes={classes}, got {minimum - 1}.")
    return int(classes)


def as_ids(name: str, values: Ids) -> Array:
    """Return the class or group of each example as a one-dimensional array that NumPy can sort."""
    is_array = isinstance(values, str) or hasattr(values, "shape")
    if isinstance(values, Iterable) and not is_array:
        values = np.fromiter(values, object)  # NumPy would turn [1, "a"] into two strings
    array = _flat(name, values)
    if array.dtype.kind in "iuU" and len(array):
        return array
    kinds = {kind_of(value): value for value in reversed(array.tolist())}
    if not kinds:
        raise InvalidInput(f"{name} is empty; pass at least one example.")
    if kinds.keys() not in ({"str"}, {"int"}):
        got = " and ".join(f"{kind} ({value!r})" for kind, value in reversed(kinds.items()))
        raise InvalidInput(f"{name} must be all strings or all integers, got {got}.")
    return array.astype(np.str_ if "str" in kinds else np.int64)


def _flat(name: str, values: Any) -> Array:
    array = np.asarray(on_host(values))
    if array.ndim != 1:
        raise InvalidInput(f"{name} must hold one value for each example, got shape {array.shape}.")
    return array


_BLOCK = 256  # rows read at a time when all are wanted
_Reader = Callable[[Counts], Any]  # of the rows at some positions


class LazyArray:
    """Examples that are read when they are indexed, for data larger than memory.

    It takes the place of a NumPy array: ``x[positions]`` reads each row asked for once, and keeps
    nothing.

    Parameters
    ----------
    read : callable
        Called as ``read(positions)`` with distinct positions, ascending; returns their rows. It
        must return the same row each time.
    shape : tuple of int
        Shape of the whole array, the number of examples first.
    dtype : dtype_like
        Type of the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import LazyArray
    >>> x = LazyArray(lambda rows: np.outer(rows, [1.0, 10.0]), shape=(6, 2), dtype=float)
    >>> x[[4, 1]].tolist()
    [[4.0, 40.0], [1.0, 10.0]]
    """

    def __init__(self, read: _Reader, *, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._read = read
        self.shape = tuple(as_whole_number("shape", size, minimum=0) for size in shape)
        self.dtype = np.dtype(dtype)

    @classmethod
    def from_dataset(cls, dataset: Any, *, item: Any = None) -> LazyArray:
        """Return the examples of a map-style dataset, such as a torch ``Dataset``.

        Parameters
        ----------
        dataset : object
            Dataset with ``len(dataset)`` and ``dataset[i]``. All examples must have the same shape.
        item : int, str or None, optional
            Key of the example in an entry, such as "image" in a dict; by default the first item of
            a tuple, or else the entry itself.

        Returns
        -------
        LazyArray
            The examples; only the first one has been read.

        Warns
        -----
        UserWarning
            If the first example is not the same when it is read again, as with random crops.
        """
        first = _as_example(dataset, item, 0)
        if not np.array_equal(first, _as_example(dataset, item, 0)):
            rule = "dataset[0] is not the same when it is read again, and scores then differ too"
            _common.warn(f"{rule}: take random transforms out of a dataset that is scored.")
        read = partial(_read_entries, dataset, item)
        return cls(read, shape=(len(dataset), *first.shape), dtype=first.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<LazyArray of shape {self.shape}, {self.dtype}, read when indexed>"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __getitem__(self, index: Any) -> Array:
        """Return rows: of a position, a slice, positions of any shape, or a mask."""
        positions = self._positions(index)
        distinct, place = np.unique(positions, return_inverse=True)
        rows = self._rows(distinct) if distinct.size else np.empty((0, *self.shape[1:]), self.dtype)
        return rows[place.reshape(positions.shape)]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return all rows; they have to fit in memory."""
        if copy is False:
            raise ValueError("a LazyArray can only be converted by reading a copy of its rows.")
        return self[:].astype(dtype or self.dtype, copy=False)

    def select(self, positions: Any) -> LazyArray:
        """Return some of the rows, without reading them.

        Parameters
        ----------
        positions : array_like of int, shape (m,)
            Positions of the rows, in the order wanted.

        Returns
        -------
        LazyArray
        """
        chosen = self._positions(positions)
        read = partial(_read_chosen, self, chosen)
        return LazyArray(read, shape=(len(chosen), *self.shape[1:]), dtype=self.dtype)

    def save(self, path: PathLike, *, progress: Progress | None = None) -> Array:
        """Write all rows to a ``.npy`` file, block by block, and return it memory-mapped.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` with the number of rows written.

        Returns
        -------
        numpy.memmap
            The rows, read-only.
        """
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        report = progress or _common.ignore_progress
        with artefact.replacing(path, binary=True) as file:
            np.lib.format.write_array_header_2_0(file, header)
            for start in range(0, len(self), _BLOCK):
                file.write(np.ascontiguousarray(self[start : start + _BLOCK]).data)
                report("writing rows", min(start + _BLOCK, len(self)), len(self))
        return np.asanyarray(np.load(path, mmap_mode="r"))

    def _positions(self, index: Any) -> Counts:
        """Return an index as positions from 0; NumPy refuses what is not one."""
        index = index if isinstance(index, slice) else np.asarray(on_host(index))
        if getattr(index, "size", 1) == 0 and index.dtype != bool:
            index = index.astype(np.int64)  # an empty list is one of floats
        return np.asarray(np.arange(len(self))[index])

    def _rows(self, positions: Counts) -> Array:
        """Return the rows that ``read`` gives, after checking their shape and type."""
        rows = np.asarray(on_host(self._read(positions)))
        shape = (len(positions), *self.shape[1:])
        if rows.shape != shape or rows.dtype != self.dtype:
            rule = f"read must return shape {shape} of {self.dtype}"
            raise InvalidInput(f"{rule}, got {rows.shape} of {rows.dtype}.")
        return rows


def _as_example(dataset: Any, item: Any, i: int) -> Array:
    """Return one example as an array of numbers."""
    entry = dataset[i]
    if item is not None or (isinstance(entry, tuple | list) and len(entry)):
        entry = entry[0 if item is None else item]
    array = np.asarray(on_host(entry))
    if array.dtype.kind not in "biuf":
        rule = f"dataset[{i}] must be an array of numbers, or its item"
        raise InvalidInput(f"{rule}, got {brief(entry)}.", parameter="item")
    return array


def _read_chosen(x: LazyArray, chosen: Counts, positions: Counts) -> Array:
    return x[chosen[positions]]


def _read_entries(dataset: Any, item: Any, positions: Counts) -> Array:
    return np.stack([_as_example(dataset, item, i) for i in positions.tolist()])


@dataclass(frozen=True, eq=False)
class Task:
    """Support and query examples of one task, as positions in the data of its pool.

    The data are shared by all tasks of a pool. No example is in two of support set, query set and
    unlabelled examples.

    Parameters
    ----------
    name : str or int
        Name of the task.
    x : array_like, shape (n, ...)
        Data of the whole pool: a NumPy array, a memory-mapped array or a torch tensor.
    support, support_y, query, query_y : ndarray of int
        Positions in ``x`` of the support examples and of the query examples, and their labels, from
        0 to ``classes - 1``. Some labels may be absent.
    classes : int
        Number of labels.
    columns : sequence, optional
        Names of the columns of ``x``. Support and query examples are then pandas frames.
    class_names : sequence, optional
        Class of each label, such as ("cat", "owl").
    domain : str or int, optional
        Domain of the classes, such as an alphabet. Tasks of one domain depend on each other:
        calibrate with ``clusters``.
    unlabelled : ndarray of int, optional
        Positions in ``x`` of examples without labels, to which a learner may adapt too. None of
        them is scored.

    Examples
    --------
    >>> from metapac.fewshot import Task
    >>> Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2]], [0], name="ohio")
    Task(name='ohio', classes=2)
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
    unlabelled: Counts | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for part in ("support", "query"):
            positions = _as_positions(part, getattr(self, part), self.x)
            labels = as_labels(f"{part}_y", getattr(self, f"{part}_y"))
            _common.check_same_length(f"{part}_y", labels, part, positions)
            as_class_count(f"{part}_y", labels, self.classes)
            object.__setattr__(self, part, positions)
            object.__setattr__(self, f"{part}_y", labels)
        if self.unlabelled is not None:
            unlabelled = _as_positions("unlabelled", self.unlabelled, self.x)
            object.__setattr__(self, "unlabelled", unlabelled if len(unlabelled) else None)
        distinct, counts = np.unique(self.positions, return_counts=True)
        if len(shared := distinct[counts > 1]):
            rule = "support, query and unlabelled must not share a position"
            raise InvalidInput(f"{rule}, got {shared[0]} twice.")
        named = self.classes if self.class_names is None else len(self.class_names)
        if named != self.classes:
            raise InvalidInput(f"class_names must name {self.classes} labels, got {named}.")

    @property
    def support_x(self) -> Any:
        """Support examples, a copy of their rows of ``x``."""
        return self.take(self.support)

    @property
    def query_x(self) -> Any:
        """Query examples, a copy of their rows of ``x``."""
        return self.take(self.query)

    @property
    def unlabelled_x(self) -> Any:
        """Unlabelled examples, a copy of their rows of ``x``; None if there are none."""
        return None if self.unlabelled is None else self.take(self.unlabelled)

    @property
    def positions(self) -> Counts:
        """Positions in ``x`` of all examples."""
        unlabelled = np.empty(0, np.int64) if self.unlabelled is None else self.unlabelled
        return np.concatenate([self.support, self.query, unlabelled])

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
        unlabelled_x: Any = None,
    ) -> Task:
        """Return a task made of arrays.

        Parameters
        ----------
        support_x, support_y, query_x, query_y : array_like
            Support examples and their labels, from 0; query examples and their labels.
        name : str or int
            Name of the task. Tasks that are scored together need distinct names.
        classes : int, optional
            Number of labels; by default one more than the largest label, if every label occurs.
        unlabelled_x : array_like, optional
            Examples without labels, other ones than those above; shared ones are warned of.

        Returns
        -------
        Task
            The task, with a copy of the examples.
        """
        given = {"support_x": support_x, "query_x": query_x}
        given |= {} if unlabelled_x is None else {"unlabelled_x": unlabelled_x}
        parts = {part: as_examples(part, x) for part, x in given.items()}
        ys = [as_labels("support_y", support_y), as_labels("query_y", query_y)]
        for y, part in zip(ys, parts, strict=False):
            _common.check_same_length(part.replace("x", "y"), y, part, parts[part])
        labels = np.concatenate(ys)
        total = as_class_count("support_y or query_y", labels, classes)
        absent = np.setdiff1d(np.arange(total), labels)
        if classes is None and len(absent):
            rule = f"support_y and query_y must hold every label from 0 to {total - 1}"
            raise InvalidInput(f"{rule}, but {absent[0]} is absent. Pass classes={total}.")
        if unlabelled_x is not None:
            warn_if_shared(parts["query_x"], parts["unlabelled_x"])
        x = reduce(_concatenate, parts.values())
        support, query, rest = np.split(np.arange(len(x)), [len(ys[0]), len(labels)])
        return cls(name, x, support, ys[0], query, ys[1], total, unlabelled=rest)


def unchecked_task(**fields: Any) -> Task:
    """Return a task whose fields are valid by construction; none is checked."""
    task = object.__new__(Task)
    task.__dict__.update(fields)
    return task


def _as_positions(name: str, values: ArrayLike, x: Any) -> Counts:
    """Return ``values`` as int64 positions of rows of ``x``, each there once."""
    array, rows = _flat(name, values), x.shape[0]
    if len(array) and array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must hold positions in x, got {array.dtype}.")
    if len(array) and not 0 <= array.min() <= array.max() < rows:
        got = f"{array.min()} to {array.max()}"
        raise InvalidInput(f"{name} must hold positions of rows of x, 0 to {rows - 1}, got {got}.")
    if len(np.unique(array)) < len(array):
        raise InvalidInput(f"{name} must hold each position once: an example counts only once.")
    return array.astype(np.int64, copy=False)


def warn_if_shared(x: Any, unlabelled: Any) -> None:
    """Warn if examples are among the unlabelled ones, for which nothing is promised."""
    new, known = (np.ascontiguousarray(on_host(some)) for some in (x, unlabelled))
    shared = {row.tobytes() for row in known} & {row.tobytes() for row in new}
    if shared:
        text = f"{len(shared)} of the examples in x are also in unlabelled"
        _common.warn(f"{text}. The guarantee is for others than those that were adapted to.")


def _concatenate(first: Any, second: Any) -> Any:
    if hasattr(first, "detach") or hasattr(second, "detach"):
        import torch  # a caller who passes a tensor has it installed

        return torch.cat([torch.as_tensor(first), torch.as_tensor(second)])
    return np.concatenate([first, second])


@dataclass(frozen=True, eq=False, repr=False)
class TaskBatch(Sequence[Task]):
    """Tasks with equally many examples, as arrays; a sequence of tasks, made when accessed."""

    names: Sequence[str | int]
    x: Any
    support: Counts
    support_y: Counts
    query: Counts
    query_y: Counts
    classes: int
    class_names: Array | None = None
    domain: str | int | None = None
    unlabelled: Counts | None = None

    def __len__(self) -> int:
        return len(self.support)

    def __getitem__(self, i: Any) -> Any:
        names = (*_ROWS, "unlabelled", "class_names")
        rows = {name: x[i] for name in names if (x := getattr(self, name)) is not None}
        if isinstance(i, slice):
            return replace(self, names=self.names[i], **rows)
        rows = {name: row.copy() for name, row in rows.items()}  # some may be read-only
        if "class_names" in rows:
            rows["class_names"] = tuple(rows["class_names"])
        shared = {"x": self.x, "classes": self.classes, "domain": self.domain}
        return unchecked_task(name=self.names[i], **shared, **rows)

    def split(self, size: int) -> Iterator[TaskBatch]:
        return (self[start : start + size] for start in range(0, len(self), size))


_ROWS = ("support", "support_y", "query", "query_y")


def batches(
    tasks: Iterable[Task], check: Callable[[Task], object], *, query: str = "query"
) -> Iterator[TaskBatch]:
    """Yield consecutive tasks of one shape, in order; with ``query="support"`` as their queries."""
    if isinstance(tasks, TaskBatch):
        for task in tasks[:1]:
            check(task)
            again = replace(tasks, query=tasks.support, query_y=tasks.support_y)
            yield tasks if query == "query" else again
        return

    def shape(task: Task) -> tuple[int, int, int]:
        check(task)
        return len(task.support), len(getattr(task, query)), task.classes

    sources = ("support", "support_y", query, f"{query}_y")
    for (_, _, classes), group in groupby(tasks, shape):
        same = list(group)
        stacks = (np.stack([getattr(task, source) for task in same]) for source in sources)
        rows: dict[str, Any] = dict(zip(_ROWS, stacks, strict=True))
        yield TaskBatch([task.name for task in same], same[0].x, **rows, classes=classes)


def query_sizes(tasks: Sequence[Task]) -> Counts:
    if isinstance(tasks, TaskBatch):
        return np.full(len(tasks), tasks.query.shape[1])
    return np.array([len(task.query) for task in tasks])


def check_pool_of_task(task: Task, x: Any, rows: int) -> None:
    """Raise if a task holds positions in other data, or has no support examples."""
    if (x is not None and task.x is not x) or len(task.x) != rows:
        text = f"task {task.name!r} is of another pool than these embeddings."
        raise InvalidInput(f"{text} Embed its pool with learner.bank(pool.x).")
    if task.unlabelled is not None:
        text = f"task {task.name!r} has unlabelled examples, which a bank does not adapt to"
        raise InvalidInput(f"{text}. Score it with score_tasks.")
    if not len(task.support):
        raise InvalidInput(f"task {task.name!r} has no support examples. Draw it with shots >= 1.")


def check_one_support_size(tasks: Sequence[Task]) -> None:
    """Raise unless all tasks have equally many support examples."""
    sizes = sorted({len(task.support) for task in tasks})
    if len(sizes) != 1:
        raise InvalidInput(f"tasks must have support sets of one size, got sizes {sizes[:2]}.")


@dataclass(frozen=True)
class ClassReuse:
    """How often tasks use the same classes.

    A guarantee calibrated on tasks of a pool is for new tasks of *these* classes. For new classes,
    the sample size is at most the number of classes, however many tasks are drawn.

    Attributes
    ----------
    tasks, classes : int
        Number of tasks, and of distinct classes in them.
    per_class, shared : float
        Number of tasks that a class is in, and of classes that two tasks share, on average.
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

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import ClassPool, class_reuse
    >>> pool = ClassPool(np.arange(160.0), np.arange(160) % 16)
    >>> class_reuse(pool.tasks(500, ways=5, shots=1, queries=4, rng=0)).per_class
    156.25
    """
    uses, count = Counter[object](), 0
    for task in tasks:
        if task.class_names is None:
            raise InvalidInput(f"task {task.name!r} must name its classes, as class_names.")
        uses.update((task.domain, name) for name in task.class_names)
        count += 1
    if not count:
        raise InvalidInput("tasks is empty; pass at least one task.")
    pairs = sum(n * (n - 1) for n in uses.values())
    shared = pairs / (count * (count - 1)) if count > 1 else 0.0
    return ClassReuse(count, len(uses), uses.total() / len(uses), shared)

"""Drawing tasks: one seed for each, the same alone or in a batch.

NumPy hashes a seed and the number of an item to the state of a generator, one item at a time. Its
`SeedSequence` fixes the hash for good; here the same steps are taken for all items together.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import ArrayLike, DTypeLike, NDArray

from metapac import artefact
from metapac._common import (
    Array,
    Counts,
    PathLike,
    Progress,
    Seed,
    as_whole_number,
    as_whole_numbers,
    brief,
    ignore_progress,
    on_host,
    warn,
)
from metapac.errors import InvalidInput
from metapac.fewshot import tasks
from metapac.fewshot.tasks import Task, TaskBatch


def spawn_seed(rng: Seed) -> np.random.SeedSequence:
    """Return the seed of a new random sequence."""
    spawned = np.random.default_rng(rng).spawn(1)[0].bit_generator.seed_seq
    assert isinstance(spawned, np.random.SeedSequence)
    return spawned


def spawn_rng(seed: np.random.SeedSequence, i: int) -> np.random.Generator:
    """Return the random generator of item ``i`` of a sequence."""
    key = (*seed.spawn_key, i)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))


Words = NDArray[np.uint32]

_POOL = 4  # words that all others are mixed into
_WORD = 2**32
_SHIFT = np.uint32(16)
# Start and factor of the constants that words are multiplied by, when hashing and when reading.
_HASH, _READ = (0x43B0D7E5, 0x931E8875), (0x8B51F9DD, 0x58F38DED)
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)


def spawn_rngs(seed: np.random.SeedSequence, count: int) -> list[np.random.Generator]:
    """Return the random generators of the first items of a sequence."""
    entropy: Any = seed.entropy  # NumPy also takes sequences, which are not worth the trouble
    if count and isinstance(entropy, int):
        states = _hash_states([entropy, *seed.spawn_key], count)
        rngs = [_from_state(words) for words in states]
        if rngs[-1].bit_generator.state == spawn_rng(seed, count - 1).bit_generator.state:
            return rngs
    return [spawn_rng(seed, i) for i in range(count)]


class _State(ISeedSequence):
    """A seed that is hashed already."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(
        self, n_words: int, dtype: DTypeLike = np.uint32
    ) -> NDArray[np.uint32 | np.uint64]:
        """Return the words."""
        return self._words


def _from_state(words: NDArray[np.uint64]) -> np.random.Generator:
    seed: Any = _State(words)  # NumPy's stubs know no other seeds than its own
    return np.random.Generator(np.random.PCG64(seed))


def _hash_states(numbers: list[int], count: int) -> NDArray[np.uint64]:
    """Return the state of each item of a seed with this entropy and key, (count, 4)."""
    entropy = _as_words(numbers[0])
    entropy += [0] * (_POOL - len(entropy)) + [w for key in numbers[1:] for w in _as_words(key)]
    words = [np.array([word], np.uint32) for word in entropy] + [np.arange(count, dtype=np.uint32)]
    constants = _constants(*_HASH)
    pool = [_scramble(word, constants) for word in words[:_POOL]]
    for i in range(_POOL):
        for j in range(_POOL):
            if i != j:
                pool[j] = _mix(pool[j], _scramble(pool[i], constants))
    for word in words[_POOL:]:
        pool = [_mix(mixed, _scramble(word, constants)) for mixed in pool]
    constants = _constants(*_READ)
    halves = [_scramble(word, constants) for word in pool * 2]
    return np.stack(halves, axis=1).astype("<u4").view("<u8").astype(np.uint64)


def _as_words(number: int) -> list[int]:
    """Return the digits of a number in base 2**32, the lowest first."""
    words = [number % _WORD]
    while number := number // _WORD:
        words.append(number % _WORD)
    return words


def _constants(start: int, factor: int) -> Iterator[tuple[np.uint32, np.uint32]]:
    """Yield neighbours in a sequence of powers."""
    while True:
        following = start * factor % _WORD
        yield np.uint32(start), np.uint32(following)
        start = following


def _scramble(word: Words, constants: Iterator[tuple[np.uint32, np.uint32]]) -> Words:
    """Return a word hashed by the next constants."""
    before, after = next(constants)
    hashed: Words = (word ^ before) * after
    return hashed ^ (hashed >> _SHIFT)


def _mix(one: Words, other: Words) -> Words:
    """Return one word made of two."""
    mixed: Words = one * _LEFT - other * _RIGHT
    return mixed ^ (mixed >> _SHIFT)


Choice = int | Sequence[int]


class Settings(NamedTuple):
    """Possible ways, shots and queries; a task draws one of each, independently."""

    ways: tuple[int, ...]
    shots: tuple[int, ...]
    queries: tuple[int, ...]

    @classmethod
    def read(cls, ways: Choice, shots: Choice, queries: Choice) -> Settings:
        """Return checked settings."""
        chosen = cls(
            as_choices("ways", ways),
            as_choices("shots", shots, minimum=0),
            as_choices("queries", queries),
        )
        if 0 in chosen.shots and max(chosen.shots) > 0:
            raise InvalidInput(
                f"shots must not mix 0 with other numbers, got {shots!r}: without support "
                "examples, no learner can adapt. Leave 0 out, or pass 0 alone for a FixedModel.",
                parameter="shots",
            )
        return chosen

    @property
    def largest(self) -> int:
        """Number of examples of a class that the largest task needs."""
        return max(self.shots) + max(self.queries)

    def draw(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """Return the ways, shots and queries of one task."""
        ways, shots, queries = (draw_one(choices, rng) for choices in self)
        return ways, shots, queries


def as_choices(name: str, value: Choice, *, minimum: int = 1) -> tuple[int, ...]:
    """Return the choices of a setting."""
    if not hasattr(value, "__len__") or isinstance(value, str) or getattr(value, "ndim", 1) == 0:
        return (as_whole_number(name, value, minimum=minimum),)
    choices = as_whole_numbers(name, value, minimum=minimum)
    if choices.ndim != 1 or not choices.size:
        raise InvalidInput(
            f"{name} must be a whole number, or a sequence of those to choose from such as "
            f"range(5, 21) or [5, 20], got {value!r}.",
            parameter=name,
        )
    return tuple(choices.tolist())


def draw_one(choices: Sequence[int], rng: np.random.Generator) -> int:
    """Return one of the choices, each equally likely."""
    return choices[0] if len(choices) == 1 else choices[int(rng.integers(len(choices)))]


class Transform(Protocol):
    """A change of the examples of one task, such as a kind of noise."""

    @property
    def name(self) -> str:
        """Name of the transform, which becomes part of the name of the task."""

    def __call__(self, x: Any, rng: np.random.Generator, /) -> Any:
        """Return the transformed examples, as many as ``x`` has and in the same order."""


# A plain function may stand in for a transform; its own name is then the name.
TransformSampler = (
    Callable[[np.random.Generator], Transform]
    | Callable[[np.random.Generator], Callable[[Any, np.random.Generator], Any]]
)


def transform_name(transform: Transform | Callable[..., Any]) -> str:
    """Return the name of a transform; that of the function if it is a plain one."""
    name = getattr(transform, "name", None) or getattr(transform, "__name__", "<none>")
    return "transform" if str(name).startswith("<") else str(name)


def apply_transform(
    transform: Transform | Callable[..., Any], x: Any, rng: np.random.Generator
) -> Any:
    """Return transformed examples, after checking that none was added or lost."""
    tasks.check_transform(transform)
    transformed = transform(x, rng)
    tasks.check_transformed(transform_name(transform), transformed, x)
    return transformed


_BLOCK = 256  # rows read at a time when all are wanted


class LazyArray:
    """Examples that are read when they are indexed, for data larger than memory.

    Pools, learners and training use it in place of a NumPy array: ``x[positions]`` reads the rows
    asked for, each once, and nothing is kept.

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
    >>> from metapac.fewshot import ClassPool, LazyArray
    >>> x = LazyArray(lambda rows: np.outer(rows, [1.0, 10.0]), shape=(6, 2), dtype=float)
    >>> x
    <LazyArray of shape (6, 2), float64, read when indexed>
    >>> x[[4, 1]].tolist()
    [[4.0, 40.0], [1.0, 10.0]]
    >>> ClassPool(x, [0, 1] * 3)
    <ClassPool 'pool': 2 classes, 6 examples>
    """

    def __init__(
        self, read: Callable[[Counts], Any], *, shape: tuple[int, ...], dtype: DTypeLike
    ) -> None:
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

        Raises
        ------
        InvalidInput
            If it has no length, or its entries cannot be indexed or are not numbers.

        Warns
        -----
        UserWarning
            If the first example is not the same when it is read again, as with random crops.

        Examples
        --------
        >>> import numpy as np
        >>> from metapac.fewshot import LazyArray
        >>> images = [(np.full((2, 2), i), i % 3) for i in range(9)]   # pairs of example and class
        >>> x = LazyArray.from_dataset(images)
        >>> x.shape, x[7].tolist()
        ((9, 2, 2), [[7, 7], [7, 7]])
        """
        count = _count_entries(dataset)
        first = _as_example(dataset, 0, item)
        if not np.array_equal(first, _as_example(dataset, 0, item)):
            warn(
                "dataset[0] is not the same when it is read again. Scores then differ from call to "
                "call: take random transforms out of the dataset unless it is for training alone."
            )
        read = partial(_read_entries, dataset, item, first.shape, first.dtype)
        return cls(read, shape=(count, *first.shape), dtype=first.dtype)

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
            Their rows.
        """
        chosen = self._positions(positions)
        read = partial(_read_chosen, self, chosen)
        return LazyArray(read, shape=(len(chosen), *self.shape[1:]), dtype=self.dtype)

    def save(self, path: PathLike, *, progress: Progress | None = None) -> Array:
        """Write all rows to a ``.npy`` file, block by block, and return it memory-mapped.

        Reading from it is much faster than decoding images again in every epoch.

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
        report = progress or ignore_progress
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        with artefact.replacing(path, binary=True) as file:
            np.lib.format.write_array_header_2_0(file, header)
            for start in range(0, len(self), _BLOCK):
                file.write(np.ascontiguousarray(self[start : start + _BLOCK]).data)
                report("writing rows", min(start + _BLOCK, len(self)), len(self))
        mapped: Array = np.load(path, mmap_mode="r")
        return mapped

    def _positions(self, index: Any) -> Counts:
        """Return an index as positions from 0."""
        if isinstance(index, slice):
            return np.arange(*index.indices(len(self)))
        array = np.asarray(on_host(index))
        if array.dtype == bool:
            if array.shape != (len(self),):
                raise IndexError(f"a mask must have shape ({len(self)},), got {array.shape}.")
            return np.flatnonzero(array)
        if array.size and array.dtype.kind not in "iu":
            raise IndexError(f"rows are indexed by whole numbers, got {brief(index)}.")
        positions = array.astype(np.int64)
        positions = np.where(positions < 0, positions + len(self), positions)
        if positions.size and not 0 <= positions.min() <= positions.max() < len(self):
            raise IndexError(f"positions must be below {len(self)}, got {brief(index)}.")
        return positions

    def _rows(self, positions: Counts) -> Array:
        """Return the rows that ``read`` gives, after checking their shape and type."""
        rows = np.asarray(on_host(self._read(positions)))
        if rows.shape != (len(positions), *self.shape[1:]) or rows.dtype != self.dtype:
            raise InvalidInput(
                f"read must return rows of shape {(len(positions), *self.shape[1:])} and type "
                f"{self.dtype}, got {rows.shape} and {rows.dtype}."
            )
        return rows


def _count_entries(dataset: Any) -> int:
    """Return the length of a dataset, or say why it has none."""
    if not hasattr(dataset, "__getitem__"):
        inner = getattr(dataset, "dataset", None)
        remedy = "Pass its .dataset." if inner is not None else "Copy it to an array."
        raise InvalidInput(
            f"dataset must give an example as dataset[i], and {type(dataset).__name__} does not. "
            f"{remedy}"
        )
    try:
        count = operator.index(len(dataset))
    except (TypeError, NotImplementedError):
        raise InvalidInput(
            f"dataset must have a length, and {type(dataset).__name__} has none. Define __len__."
        ) from None
    if not count:
        raise InvalidInput("dataset is empty; pass at least one example.")
    return count


def _as_example(dataset: Any, i: int, item: Any) -> Array:
    """Return one example as an array of numbers."""
    entry = dataset[i]
    if item is not None:
        try:
            entry = entry[item]
        except (LookupError, TypeError):
            raise InvalidInput(
                f"item must name a part of dataset[{i}], got {item!r}, which {brief(entry)} lacks."
            ) from None
    elif isinstance(entry, tuple | list) and len(entry):
        entry = entry[0]
    elif isinstance(entry, dict):
        raise InvalidInput(
            f"dataset[{i}] is a dict with the keys {', '.join(map(repr, entry))}. Pass the one of "
            "the example as item."
        )
    array = np.asarray(on_host(entry))
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"dataset[{i}] must be an array of numbers, a tensor or an image, got {brief(entry)}."
        )
    return array


def _read_entries(
    dataset: Any, item: Any, shape: tuple[int, ...], dtype: np.dtype[Any], positions: Counts
) -> Array:
    """Return entries of a dataset as rows, which must all be like the first one."""
    rows = np.empty((len(positions), *shape), dtype)
    for row, i in zip(rows, positions.tolist(), strict=True):
        example = _as_example(dataset, i, item)
        if example.shape != shape or example.dtype != dtype:
            raise InvalidInput(
                f"all examples of a dataset must have one shape and type, got {shape} and {dtype} "
                f"at 0, {example.shape} and {example.dtype} at {i}. Resize or pad them in the "
                "dataset."
            )
        row[...] = example
    return rows


def _read_chosen(x: LazyArray, chosen: Counts, positions: Counts) -> Array:
    return x[chosen[positions]]


Ids = ArrayLike | Iterable[object]

_THREADS = 4
_ROWS = 64  # filled at a time; with fewer, threads wait for each other
_NUMBERS = 2**20  # that these rows may take, at most: 8 MiB


class DrawnTasks(Sequence[Task]):
    """Tasks that are drawn when they are accessed."""

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
        """Return all tasks, drawn now."""
        if self._draw_batch is None:
            return list(self)
        return self._draw_batch(spawn_rngs(self._seed, self._count))


def fill_in_threads(fill: Callable[[slice], object], count: int, width: int) -> None:
    """Fill the rows of arrays, parts of them at the same time if there are many."""
    step = max(1, min(_ROWS, _NUMBERS // max(1, width)))
    parts = [slice(start, start + step) for start in range(0, count, step)]
    if len(parts) < 2:
        fill(slice(0, count))
        return
    with ThreadPoolExecutor(min(_THREADS, len(parts))) as pool:
        list(pool.map(fill, parts))  # raises what a part raised


def draw_all(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return tasks that are drawn once, however often they are accessed."""
    return tasks.draw() if isinstance(tasks, DrawnTasks) else list(tasks)


def count_noun(some: int | Sized, noun: str, plural: str = "s") -> str:
    """Return how many there are, such as "1 task" or "3 tasks"."""
    number = some if isinstance(some, int) else len(some)
    return f"{number} {noun}{plural * (number != 1)}"


def positions_by_id(ids: Array) -> tuple[list[Any], list[Counts]]:
    """Return the distinct ids, sorted, and the positions of each."""
    names, codes, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    return names.tolist(), np.split(order, np.cumsum(sizes)[:-1])


def draw_positions(positions: Counts, count: int, rng: np.random.Generator) -> Counts:
    """Return ``count`` of the positions in random order."""
    return positions[rng.choice(len(positions), count, replace=False)]


def assign(unit: str, ids: Array, parts: dict[str, int], rng: Seed) -> dict[str, Counts]:
    """Return, for each part that is not empty, the positions of its random classes or groups."""
    counts = {name: as_whole_number(name, count, minimum=0) for name, count in parts.items()}
    _, positions = positions_by_id(ids)
    tasks.check_pool_sizes(unit, counts, len(positions))
    order = iter(np.random.default_rng(rng).permutation(len(positions)))
    chosen = {
        name: [positions[next(order)] for _ in range(count)] for name, count in counts.items()
    }
    return {name: np.sort(np.concatenate(rows)) for name, rows in chosen.items() if rows}


def select_rows(x: Any, positions: Counts) -> Any:
    """Return some rows of data: a copy, or of a `LazyArray` one that reads them on demand."""
    return x.select(positions) if isinstance(x, LazyArray) else x[positions]

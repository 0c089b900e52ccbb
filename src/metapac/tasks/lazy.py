"""Data larger than memory: an array whose rows are read when they are indexed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from metapac import _files
from metapac._checks import as_whole_number, brief, on_host
from metapac._types import Array, Counts, PathLike, Progress, ignore_progress
from metapac._warnings import warn
from metapac.exceptions import InvalidInput

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
    >>> from metapac.tasks import ClassPool, LazyArray
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
        >>> from metapac.tasks import LazyArray
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
        with _files.replacing(path, binary=True) as file:
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

"""Every check of tasks and pools, and every message it can raise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks

_SHOWN = 5


def examples(name: str, x: Any) -> Any:
    """Return ``x`` as it is if rows can be taken from it by position, else as a NumPy array."""
    array = x if hasattr(x, "shape") and not hasattr(x, "iloc") else np.asarray(x)
    if not len(array.shape):
        raise ValueError(f"{name} must hold one row for each example, got {x!r}.")
    return array


def positions(name: str, values: ArrayLike, x: Any) -> NDArray[np.int64]:
    """Return ``values`` as int64 positions of rows of ``x``."""
    array = _flat(name, values)
    if len(array) and array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must hold positions in x, got {array.dtype}. "
            "Turn a mask into positions with np.flatnonzero(mask)."
        )
    if len(array) and not 0 <= array.min() <= array.max() < x.shape[0]:
        raise ValueError(
            f"{name} must hold positions from 0 to {x.shape[0] - 1}, the rows of x, got "
            f"{array.min()} to {array.max()}."
        )
    if len(np.unique(array)) < len(array):
        raise ValueError(
            f"{name} must hold each position once: an example counts only once. "
            "Drop the repeats with np.unique."
        )
    return array.astype(np.int64, copy=False)


def labels(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return ``values`` as int64 labels, none of them negative."""
    array = _flat(name, values)
    if array.dtype == object:  # integers in a column of objects, as pandas may hold them
        array = np.asarray(array.tolist())
    if len(array) and (array.dtype.kind not in "iub" or array.min() < 0):
        found = f"{array.min()}" if array.dtype.kind == "i" else f"{array.dtype}"
        raise ValueError(
            f"{name} must hold labels 0, 1, ..., got {found}. Number them once, the same way in "
            "all pools, for example with np.unique(y, return_inverse=True)[1]."
        )
    return array.astype(np.int64, copy=False)


def label_count(name: str, array: NDArray[np.int64], classes: int | None) -> int:
    """Return ``classes``, or one more than the largest label if it is not given."""
    least = int(array.max()) + 1 if len(array) else 0
    if classes is None:
        return least
    if _checks.whole_number("classes", classes) < least:
        raise ValueError(
            f"{name} must hold labels below classes={classes}, got {least - 1}. "
            f"Pass classes={least} or more."
        )
    return int(classes)


def ids(name: str, values: ArrayLike | Iterable[object]) -> _checks.Array:
    """Return the class or group of each example as a one-dimensional array that NumPy can sort."""
    array = _flat(name, _kept_apart(values))
    if array.dtype.kind in "iuU" and len(array):
        return array
    kinds: dict[str, object] = {}
    for value in array.tolist():
        kinds.setdefault(_checks._kind(value), value)
    if not kinds:
        raise ValueError(f"{name} is empty; pass at least one example.")
    if kinds.keys() not in ({"str"}, {"int"}):
        found = " and ".join(f"{kind} ({value!r})" for kind, value in kinds.items())
        raise ValueError(
            f"{name} must be all strings or all integers, got {found}. Drop examples where it is "
            f"missing and convert the rest, for example with [str(value) for value in {name}]."
        )
    return array.astype(np.str_ if "str" in kinds else np.int64)


def same_rows(name: str, array: Any, other: str, reference: Any) -> None:
    if array.shape[0] != reference.shape[0]:
        raise ValueError(
            f"{name} and {other} must have the same length, got {array.shape[0]} and "
            f"{reference.shape[0]}. Pass one of each for every example."
        )


def change(value: Any) -> Any:
    if value is not None and not callable(value):
        raise ValueError(
            "change must be a function that draws an alteration from a random generator, got "
            f"{value!r}. Leave it out if tasks differ by their classes alone."
        )
    return value


def as_many(name: str, found: Any, given: Any) -> None:
    if len(found) != len(given):
        raise ValueError(
            f"alteration {name!r} must return as many examples as it is given, got {len(found)} "
            f"for {len(given)}."
        )


def disjoint(support: NDArray[np.int64], query: NDArray[np.int64]) -> None:
    shared = support[np.isin(support, query)]
    if len(shared):
        raise ValueError(
            f"support and query must not share examples, got position {shared[0]} in both. "
            "Score only examples that the learner was not adapted to."
        )


def enough(unit: str, names: Sequence[Any], sizes: Sequence[int], need: str, least: int) -> None:
    """Refuse classes or groups of fewer than ``least`` examples, with their counts."""
    few = [(name, size) for name, size in zip(names, sizes, strict=True) if size < least]
    if few:
        counts = _listed([f"{name!r} with {size}" for name, size in few])
        raise ValueError(
            f"each {unit} must have at least {need} = {least} examples, got {counts}. "
            f"Lower shots or queries, or leave out each {unit} that is too small."
        )


def enough_classes(ways: int, names: Sequence[Any]) -> None:
    if ways > len(names):
        raise ValueError(
            f"ways must be at most {len(names)}, the number of classes in the pool, got {ways}."
        )


def unshared(unit: str, first: str, second: str, shared: Sequence[Any]) -> None:
    if shared:
        raise ValueError(
            f"{first} and {second} must not share a {unit}, got "
            f"{_listed([repr(name) for name in shared])} in both. Leave it out of one of them; if "
            "it is not the same one in both, give them different names."
        )


def known_labels(first: str, classes: int, second: str, others: int) -> None:
    if classes != others:
        raise ValueError(
            f"{first} and {second} must know the same labels, got {classes} and {others} classes. "
            f"Pass classes={max(classes, others)} to both pools."
        )


def sum_of_parts(unit: str, parts: dict[str, int], available: int) -> None:
    asked = sum(parts.values())
    if asked > available or not asked:
        terms = " + ".join(f"{name}={count}" for name, count in parts.items())
        raise ValueError(
            f"the pools must together hold from 1 to {available} {unit}, as many as there are, "
            f"got {terms} = {asked}."
        )


def _flat(name: str, values: Any) -> _checks.Array:
    array = np.asarray(_checks._on_host(values))
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one value for each example, got shape {array.shape}."
        )
    return array


def _kept_apart(values: Any) -> Any:
    # NumPy turns [1, "a"] into two strings; an array of objects keeps what was given.
    if hasattr(values, "__array__") or isinstance(values, str) or not isinstance(values, Iterable):
        return values
    return np.fromiter(values, object)


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more

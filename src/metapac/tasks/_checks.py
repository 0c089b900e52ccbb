"""Checks of tasks and pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac import _checks, _ids
from metapac._types import Array, Counts
from metapac.exceptions import InvalidInput, Message, Parameter


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
    if _checks.as_whole_number("classes", classes) < minimum:
        raise InvalidInput(
            "{} must hold labels below {}, got {}. Pass {} or more.",
            name,
            Parameter("classes", classes),
            minimum - 1,
            Parameter("classes", minimum),
        )
    return int(classes)


def check_no_gap(name: str, labels: Counts) -> None:
    """Raise if a label below the largest one does not occur: labels may not count from 0."""
    total = int(labels.max()) + 1 if len(labels) else 0
    absent = np.setdiff1d(np.arange(total), labels)
    if len(absent):
        raise InvalidInput(
            "{} must hold every label from 0 to {}, but {} does not occur. Number labels from 0, "
            "or pass {} if that label has no example.",
            name,
            total - 1,
            absent[0],
            Parameter("classes", total),
        )


def as_ids(name: str, values: ArrayLike | Iterable[object]) -> Array:
    """Return the class or group of each example as a one-dimensional array that NumPy can sort."""
    array = _flat(name, _as_objects(values))
    if array.dtype.kind in "iuU" and len(array):
        return array
    kinds: dict[str, object] = {}
    for value in array.tolist():
        kinds.setdefault(_ids.kind_of(value), value)
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
            f"{_checks.brief(value)}. Pass lambda rng: change, where change(x, rng) returns the "
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
    unit: str, names: Sequence[Any], positions: Sequence[Counts], needed: Message, minimum: int
) -> None:
    """Raise if a class or group has fewer than ``minimum`` examples."""
    too_small = [
        f"{name!r} with {len(members)}"
        for name, members in zip(names, positions, strict=True)
        if len(members) < minimum
    ]
    if too_small:
        raise InvalidInput(
            "each {} must have at least {} = {} examples, got {}. "
            "Lower {} or {}, or leave out each {} that is too small.",
            unit,
            needed,
            minimum,
            _checks.listed(too_small),
            Parameter("shots"),
            Parameter("queries"),
            unit,
        )


def check_ways(ways: int, names: Sequence[Any]) -> None:
    """Raise if a pool has fewer classes than a task needs."""
    if ways > len(names):
        raise InvalidInput(
            "{} must be at most {}, the number of classes in the pool, got {}.",
            Parameter("ways"),
            len(names),
            ways,
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
            "each domain must have at least {} = {} classes, got {}. Lower {}, or leave out each "
            "domain that is too small.",
            Parameter("ways"),
            ways,
            _checks.listed(too_small),
            Parameter("ways"),
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
            f"{_checks.listed([*map(repr, shared)])} in both. Leave it out of one of them; if "
            "it is not the same one in both, give them different names."
        )


def check_same_classes(first: str, classes: int, second: str, others: int) -> None:
    """Raise if two pools of groups differ in their number of labels."""
    if classes != others:
        raise InvalidInput(
            "{} and {} must have the same labels, got {} and {} classes. Pass {} to both pools.",
            first,
            second,
            classes,
            others,
            Parameter("classes", max(classes, others)),
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
        "metapac.tasks and reads rows when tasks need them."
    )


def _flat(name: str, values: Any) -> Array:
    array = np.asarray(_checks.on_host(values))
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

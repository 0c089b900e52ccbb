"""Expressions that every engine evaluates alike, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from metapac._common import Array, Counts, Table


def previous_float(values: Array) -> Array:
    """Return the largest number of the same precision below each value."""
    with np.errstate(over="ignore", under="ignore"):  # to infinity, and to subnormal numbers
        return np.asarray(np.nextafter(values, values.dtype.type(-np.inf)))


def next_float(values: Array) -> Array:
    """Return the smallest number of the same precision above each value."""
    return -previous_float(-values)


def float_to_ordinal(values: Array) -> Counts:
    """Return integers in the order of the values: neighbours differ by 1, and both zeros are 0."""
    width = np.dtype(f"i{values.dtype.itemsize}")
    bits = np.ascontiguousarray(values).view(width).astype(np.int64)
    magnitude = bits & np.int64(np.iinfo(width).max)
    return np.where(bits < 0, -magnitude, magnitude)


def ordinal_to_float(ordinals: Counts, dtype: np.dtype[Any]) -> Array:
    """Return the numbers that ``float_to_ordinal`` maps to some ordinals."""
    width = np.dtype(f"i{dtype.itemsize}")
    magnitude = np.abs(ordinals).astype(width).view(dtype)
    return np.where(ordinals < 0, -magnitude, magnitude)


def exact(value: float) -> Any:
    """Return a finite number as an expression of integers and powers of two.

    An engine may round a decimal fraction in a query, but not these.
    """
    fraction, exponent = math.frexp(value)
    expression = ibis.literal(int(fraction * 2**53)).cast("float64")
    for power in _split_exponent(exponent - 53):
        factor = ibis.literal(2 ** abs(power)).cast("float64")
        expression = expression * factor if power > 0 else expression / factor
    return expression


def upload(task_type: Any = None, **columns: Array) -> Table:
    """Return a small table to join to a large one.

    A number in a query may be rounded, a number in a table is not.
    """
    arrays = {name: pa.array(column) for name, column in columns.items() if name != "task"}
    if task_type is not None:
        arrays["task"] = pa.array(columns["task"].tolist(), type=task_type.to_pyarrow())
    return ibis.memtable(pa.table(arrays))


def as_int(condition: Any) -> Any:
    """Return 1 or 0; not every engine converts booleans to numbers."""
    return condition.ifelse(1, 0)


def add_up(terms: list[Any]) -> Any:
    """Return the sum of expressions, nested as little as possible."""
    while len(terms) > 1:
        terms = [reduce(lambda a, b: a + b, terms[i : i + 8]) for i in range(0, len(terms), 8)]
    return terms[0]


def constant_list(texts: Sequence[str]) -> Any:
    """Return a list of texts as one constant, however long it is."""
    used = {*"".join(texts)}
    separator = next(mark for mark in map(chr, range(0x1F, 0, -1)) if mark not in used)
    return ibis.literal(separator.join(texts)).split(separator)


def constant_floats(values: Sequence[float]) -> Any:
    """Return a list of numbers as one constant; text is converted without rounding."""
    texts = [repr(float(value)).replace("inf", "Infinity") for value in values]
    return constant_list(texts).map(lambda text: text.cast("float64"))


def pick(lists: Any, position: Any) -> Any:
    """Return the entry of a list at a position; null if the position is null or negative."""
    # Spark takes positions of 32 bits only.
    return (position >= 0).ifelse(lists[position.cast("int32")], ibis.null())


def _split_exponent(exponent: int) -> list[int]:
    """Split an exponent into parts whose power of two fits into an integer of 64 bits."""
    sign = 1 if exponent > 0 else -1
    full, rest = divmod(abs(exponent), 60)
    return [sign * 60] * full + ([sign * rest] if rest else [])

"""Building blocks of queries; every number reaches the engine without rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import ibis
import pyarrow as pa

from metapac._types import Array, Table


def exact(value: float) -> Any:
    """Return a finite number as an expression of integers and powers of two.

    An engine may round a decimal fraction in a query, but not these.

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    Ibis expression
        The same number, to the last bit.
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

    Parameters
    ----------
    task_type : Ibis type, optional
        Type of the column ``task``, if there is one.
    **columns : ndarray
        The columns.

    Returns
    -------
    ibis.Table
        The table.
    """
    arrays = {name: pa.array(column) for name, column in columns.items() if name != "task"}
    if task_type is not None:
        arrays["task"] = pa.array(columns["task"].tolist(), type=task_type.to_pyarrow())
    return ibis.memtable(pa.table(arrays))


def as_int(condition: Any) -> Any:
    """Return 1 or 0; not every engine converts booleans to numbers.

    Parameters
    ----------
    condition : Ibis expression
        Booleans.

    Returns
    -------
    Ibis expression
        Integers.
    """
    return condition.ifelse(1, 0)


def add_up(terms: list[Any]) -> Any:
    """Return the sum of expressions, nested as little as possible.

    Parameters
    ----------
    terms : list of Ibis expressions
        Numbers, or texts to concatenate.

    Returns
    -------
    Ibis expression
        Their sum.
    """
    while len(terms) > 1:
        terms = [reduce(lambda a, b: a + b, terms[i : i + 8]) for i in range(0, len(terms), 8)]
    return terms[0]


def constant_list(texts: Sequence[str]) -> Any:
    """Return a list of texts as one constant, however long it is.

    Parameters
    ----------
    texts : sequence of str
        The texts, at least one.

    Returns
    -------
    Ibis expression
        The list, the same in every row.
    """
    used = {*"".join(texts)}
    separator = next(mark for mark in map(chr, range(0x1F, 0, -1)) if mark not in used)
    return ibis.literal(separator.join(texts)).split(separator)


def constant_floats(values: Sequence[float]) -> Any:
    """Return a list of numbers as one constant; text is converted without rounding.

    Parameters
    ----------
    values : sequence of float
        The numbers, possibly infinite; at least one.

    Returns
    -------
    Ibis expression
        The list, the same in every row.
    """
    texts = [repr(float(value)).replace("inf", "Infinity") for value in values]
    return constant_list(texts).map(lambda text: text.cast("float64"))


def pick(lists: Any, position: Any) -> Any:
    """Return the entry of a list at a position; null if the position is null or negative.

    Parameters
    ----------
    lists : Ibis expression
        Lists.
    position : Ibis expression
        Positions, counted from 0.

    Returns
    -------
    Ibis expression
        The entries.
    """
    # Spark takes positions of 32 bits only.
    return (position >= 0).ifelse(lists[position.cast("int32")], ibis.null())


def _split_exponent(exponent: int) -> list[int]:
    """Split an exponent into parts whose power of two fits into an integer of 64 bits."""
    sign = 1 if exponent > 0 else -1
    full, rest = divmod(abs(exponent), 60)
    return [sign * 60] * full + ([sign * rest] if rest else [])

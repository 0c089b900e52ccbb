"""The classes or groups of a pool that are large enough for a task, for ``metapac score``."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from metapac._checks import listed
from metapac._warnings import warn
from metapac.cli.console import format_count
from metapac.exceptions import InvalidInput, Message, Parameter


def leave_out_small(pool: Any, shape: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Leave out classes or groups with too few examples for a task, with a warning.

    Parameters
    ----------
    pool : ClassPool or GroupPool
        The pool.
    shape : mapping
        Ways, shots and queries, as `choose_shape` returns them.

    Returns
    -------
    pool : ClassPool or GroupPool
        The pool of the larger ones; its examples keep their positions.
    left_out : list
        The others.

    Raises
    ------
    InvalidInput
        If too few are left for a task.
    """
    needed = int(np.max(shape["shots"])) + int(np.max(shape["queries"] or 1))
    sizes = dict(zip(pool.names, map(len, pool.positions), strict=True))
    small = [name for name, size in sizes.items() if size < needed]
    if not small:
        return pool, []
    _check_enough(pool, shape, needed)
    noun = ("class", "classes") if pool.unit == "class" else ("group",)
    found = listed([f"{name!r} with {sizes[name]}" for name in small])
    warn(
        f"left out {format_count(len(small), *noun)} of {pool.name} with fewer than {needed} "
        f"examples, the shots + queries of a task: {found}."
    )
    large = copy.copy(pool)
    large.names = [name for name, size in sizes.items() if size >= needed]
    large.positions = [members for members in pool.positions if len(members) >= needed]
    return large, small


def _check_enough(pool: Any, shape: Mapping[str, Any], needed: int) -> None:
    """Raise InvalidInput if a task needs more classes or groups than have enough examples."""
    ways = int(np.max(shape.get("ways", 1)))
    large = sum(len(members) >= needed for members in pool.positions)
    if large >= ways or len(pool.names) < ways:  # the latter is for the pool to say
        return
    spare = most_queries(pool, ways, int(np.max(shape["shots"])))
    lower = Message("Lower {}", Parameter("shots"))
    if shape["queries"] and spare > 0:
        lower = Message("Pass {} or fewer", Parameter("queries", spare))
    elif large > 1:
        lower = Message("Pass {} or fewer", Parameter("ways", large))
    raise InvalidInput(
        "a task needs {} with at least {} + {} = {} examples, got {} in {}. {}.",
        format_count(ways, pool.unit, "classes" if pool.unit == "class" else None),
        Parameter("shots"),
        Parameter("queries") if shape["queries"] else 1,
        needed,
        large,
        pool.name,
        lower,
    )


def most_queries(pool: Any, ways: int, shots: int) -> int:
    """Return the largest number of queries for which a pool has enough classes.

    Parameters
    ----------
    pool : ClassPool or GroupPool
        The pool.
    ways : int
        Classes per task, no more than the pool has; 1 if tasks are groups.
    shots : int
        Support examples per class.

    Returns
    -------
    int
        The number; it is not positive if the classes are too small for any query.
    """
    return sorted(map(len, pool.positions))[-ways] - shots

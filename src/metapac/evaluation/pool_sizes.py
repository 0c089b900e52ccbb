"""How many examples of its tasks a study uses, and the checks of its pools."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import _checks
from metapac.exceptions import InvalidInput, Parameter
from metapac.tasks.pools import GroupPool, Pools
from metapac.tasks.settings import Choice

_TEST_QUERIES, _LABELLED = 100, 20  # of each class, as in the paper


def check_pools(calibration: Any, test: Any, distinct: bool, needed: int) -> None:
    """Raise InvalidInput if two pools cannot be studied together.

    Parameters
    ----------
    calibration : object
        What was passed as the calibration pool.
    test : object
        What was passed as the test pool.
    distinct : bool
        Whether every group is used at most once in a draw.
    needed : int
        Number of tasks in a draw.
    """
    for name, pool in (("calibration", calibration), ("test", test)):
        if not (hasattr(pool, "tasks") and hasattr(pool, "positions")):
            raise InvalidInput(
                f"{name} must be a pool that tasks are drawn from, such as ClassPool(x, y), got "
                f"{type(pool).__name__}."
            )
    if calibration.unit != test.unit:
        raise InvalidInput(
            "calibration and test must be pools of one kind, got "
            f"{type(calibration).__name__} and {type(test).__name__}."
        )
    if test is not calibration:
        Pools(calibration=calibration, test=test)  # raises if they share a class
    if not distinct:
        return
    if test is not calibration or test.unit != "group":
        raise InvalidInput(
            "distinct=True divides the groups of one GroupPool into calibration and new tasks. "
            "Pass the same GroupPool as calibration and test."
        )
    if needed > len(test.names):
        raise InvalidInput(
            "{} + {} must be at most the {} groups of the pool, since none is used twice, got {}.",
            Parameter("tasks"),
            Parameter("tests"),
            len(test.names),
            needed,
        )


def check_unshared(predictor: Any, *pools: Any) -> None:
    """Raise InvalidInput if the pool of the quantile predictor shares a class with others.

    Parameters
    ----------
    predictor : ClassPool or GroupPool
        The pool that the quantile predictor is trained on.
    *pools : ClassPool or GroupPool
        The others.
    """
    if not hasattr(predictor, "positions"):
        raise InvalidInput(
            "predictor must be a QuantilePredictor, or a pool to train one on, got "
            f"{type(predictor).__name__}."
        )
    for pool in pools:
        Pools(train=predictor, calibration=pool)


def join_groups(one: GroupPool, other: GroupPool) -> GroupPool:
    """Return one pool with the groups of two, to be divided anew in each draw.

    Parameters
    ----------
    one : GroupPool
        The first pool.
    other : GroupPool
        The second; it shares no group with the first.

    Returns
    -------
    GroupPool
        The groups of both.
    """
    return GroupPool(
        np.concatenate([one.x, other.x]),
        np.concatenate([one.y, other.y]),
        np.concatenate([one.groups, other.groups]),
        classes=one.classes,
    )


def count_queries(pool: Any, shots: Choice, queries: int | None) -> int | None:
    """Return how many examples a calibration task has, of each class or in all.

    Parameters
    ----------
    pool : ClassPool, GroupPool or DomainPool
        The calibration pool.
    shots : int or sequence of int
        Number of support examples.
    queries : int or None
        The number, if it was given.

    Returns
    -------
    int or None
        By default what the smallest class has to spare; None, for all the rest, of a group.
    """
    if queries is not None or pool.unit == "group":
        return queries
    return largest_queries(_classes_only("queries", pool), shots, max(map(len, pool.positions)))


def count_test_queries(
    pool: Any, shots: Choice, labelled: int | None, queries: int | None
) -> tuple[int, int]:
    """Return how many examples of a new task are for PS-Test, and how many for testing.

    Parameters
    ----------
    pool : ClassPool, GroupPool or DomainPool
        The test pool.
    shots : int or sequence of int
        Number of support examples.
    labelled, queries : int or None
        The numbers, if they were given.

    Returns
    -------
    labelled, queries : int
        By default 20 and 100, or what the smallest class or group has to spare.
    """
    if queries is None or labelled is None:
        pool = _classes_only("test_queries and labelled", pool)
        spare = largest_queries(pool, shots, max(map(len, pool.positions)))
        if labelled is None:
            beside = spare // 4 if queries is None else spare - queries
            labelled = max(1, min(_LABELLED, beside))
        queries = max(1, min(_TEST_QUERIES, spare - labelled)) if queries is None else queries
    return (
        _checks.as_whole_number("labelled", labelled),
        _checks.as_whole_number("test_queries", queries),
    )


def _classes_only(name: str, pool: Any) -> Any:
    if pool.unit == "domain":
        raise InvalidInput(f"{name} must be given for a DomainPool.")
    return pool


def largest_queries(pool: Any, shots: Any, wanted: int) -> int:
    """Return how many queries a pool has, per class or per group, up to a number.

    Parameters
    ----------
    pool : ClassPool or GroupPool
        The pool.
    shots : int or sequence of int
        Number of support examples.
    wanted : int
        The number.

    Returns
    -------
    int
        The number of queries.

    Raises
    ------
    InvalidInput
        If the smallest class or group has no example to spare.
    """
    smallest = min(len(members) for members in pool.positions)
    spare = smallest - int(np.max(shots))
    if spare < 1:
        raise InvalidInput(
            "the smallest {} of the pool {!r} has {} examples, which leaves no query beside {} "
            "shots. Lower {}.",
            pool.unit,
            pool.name,
            smallest,
            int(np.max(shots)),
            Parameter("shots"),
        )
    return min(wanted, spare)

"""How many tasks and examples of its pools a study uses, and the checks of the pools."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import _checks
from metapac.exceptions import InvalidInput, Message, Parameter
from metapac.tasks.pools import GroupPool, Pools
from metapac.tasks.settings import Choice

TASKS, TESTS = 500, 50
_TEST_QUERIES, _LABELLED = 100, 20  # of each class, as in the paper


def check_pools(calibration: Any, test: Any, distinct: bool) -> None:
    """Raise InvalidInput if two pools cannot be studied together.

    Parameters
    ----------
    calibration : object
        What was passed as the calibration pool.
    test : object
        What was passed as the test pool.
    distinct : bool
        Whether every group is used at most once in a draw.
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
    if distinct and test.unit != "group":
        raise InvalidInput(
            f"distinct=True is for groups, and a {type(test).__name__} has none. Leave it out, or "
            "pass a GroupPool."
        )


def count_tasks(
    calibration: Any, test: Any, distinct: bool, tasks: int | None, tests: int | None
) -> tuple[int, int]:
    """Return how many calibration tasks and how many new tasks a draw has.

    Parameters
    ----------
    calibration : ClassPool, GroupPool or DomainPool
        The calibration pool.
    test : ClassPool, GroupPool or DomainPool
        The test pool; may be the calibration pool.
    distinct : bool
        Whether every group is used at most once in a draw.
    tasks, tests : int or None
        The numbers, if they were given.

    Returns
    -------
    tasks, tests : int
        By default 500 and 50. If every group is used once: as many as each pool has groups, or
        about half of one pool each; beside a number that was given, no more than are left.

    Raises
    ------
    InvalidInput
        If a number is not positive, or there are fewer groups than tasks that use each once.
    """
    tasks = None if tasks is None else _checks.as_whole_number("tasks", tasks)
    tests = None if tests is None else _checks.as_whole_number("tests", tests)
    if not distinct:
        return tasks or TASKS, tests or TESTS
    known, new = len(calibration.names), len(test.names)
    total = known if test is calibration else known + new
    if tasks is None:
        half = total // 2 if test is calibration else new
        tasks = max(1, min(known, total - (tests or half)))
    tests = tests or max(1, min(new, total - tasks))
    if tasks + tests > total:
        raise InvalidInput(
            "{} + {} must be at most the {} groups, since none is used twice, got {}.",
            Parameter("tasks"),
            Parameter("tests"),
            total,
            tasks + tests,
        )
    return tasks, tests


def describe_group_reuse(groups: int, tasks: int) -> str:
    """Return what follows if calibration tasks are groups that were drawn with replacement.

    Parameters
    ----------
    groups : int
        Number of groups.
    tasks : int
        Number of tasks.

    Returns
    -------
    str
        Three sentences.

    Examples
    --------
    >>> from metapac.evaluation.pool_sizes import describe_group_reuse
    >>> describe_group_reuse(3, 500)[:80]
    '500 calibration tasks from 3 groups: a group is in 167 tasks on average. A guara'
    """
    reuse = "a group may be in several tasks"
    if tasks > groups:
        reuse = f"a group is in {tasks / groups:.3g} tasks on average"
    return (
        f"{tasks} calibration tasks from {groups} groups: {reuse}. A guarantee calibrated on them "
        f"is for these {groups} groups, not for new ones. Pass distinct=True to use each group "
        "once."
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
    joined = GroupPool(
        np.concatenate([one.x, other.x]),
        np.concatenate([one.y, other.y]),
        np.concatenate([one.groups, other.groups]),
        classes=one.classes,
    )
    joined.columns = one.columns
    return joined


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
        spare = largest_queries(pool, shots, max(map(len, pool.positions)), least=2)
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


def largest_queries(pool: Any, shots: Any, wanted: int, least: int = 1) -> int:
    """Return how many queries a pool has, per class or per group, up to a number.

    Parameters
    ----------
    pool : ClassPool or GroupPool
        The pool.
    shots : int or sequence of int
        Number of support examples.
    wanted : int
        The number.
    least : int, default 1
        Number of queries that a task needs.

    Returns
    -------
    int
        The number of queries.

    Raises
    ------
    InvalidInput
        If the smallest class or group has fewer than the least number to spare.
    """
    spare = min(map(len, pool.positions)) - int(np.max(shots))
    if spare < least:
        raise InvalidInput("{}", _describe_small(pool, int(np.max(shots)), least))
    return min(wanted, spare)


def _describe_small(pool: Any, shots: int, queries: int) -> Message:
    """Return which classes or groups are too small for a task, and what helps."""
    sizes = [len(members) for members in pool.positions]
    smallest, needed = min(sizes), shots + queries
    small = sum(size < needed for size in sizes)
    units = "classes" if pool.unit == "class" else f"{pool.unit}s"
    lower = Message(", or pass {}", Parameter("shots", smallest - queries))
    return Message(
        "{} of {} {} {} fewer than {} examples ({} and {}); the smallest, {!r}, has {}. Leave {} "
        "with fewer than {} examples out of the data{}.",
        small,
        len(sizes),
        units,
        "has" if small == 1 else "have",
        needed,
        "1 shot" if shots == 1 else f"{shots} shots",
        "1 query" if queries == 1 else f"{queries} queries",
        pool.names[sizes.index(smallest)],
        smallest,
        units,
        needed,
        lower if smallest > queries else "",
    )

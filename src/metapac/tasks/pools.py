"""Pools that share no class, group or domain, and random splits of data into them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic, TypeVar

from numpy.typing import ArrayLike

from metapac._types import Seed
from metapac.tasks import _checks
from metapac.tasks.class_pool import ClassPool
from metapac.tasks.domain_pool import DomainPool
from metapac.tasks.drawing import Ids, assign, select_rows
from metapac.tasks.group_pool import GroupPool
from metapac.tasks.transforms import Transform, TransformSampler, apply_transform

__all__ = [
    "ClassPool",
    "DomainPool",
    "GroupPool",
    "Pools",
    "Transform",
    "TransformSampler",
    "apply_transform",
    "split_classes",
    "split_domains",
    "split_groups",
]

P = TypeVar("P", ClassPool, GroupPool, DomainPool)

# Typed as Any, so that type checkers treat the pools that were passed as present.
_NO_POOL: Any = None


@dataclass(frozen=True)
class Pools(Generic[P]):
    """Pools that share no class, group or domain; a pool that is not needed is None.

    Pools with a transform may share classes, because their tasks differ by the transform. The
    caller must then make sure that they share no example.

    Parameters
    ----------
    train : ClassPool, GroupPool or DomainPool, optional
        Pool to train on.
    validation : ClassPool, GroupPool or DomainPool, optional
        Pool on which the best epoch is chosen.
    calibration : ClassPool, GroupPool or DomainPool, optional
        Pool to calibrate on.
    test : ClassPool, GroupPool or DomainPool, optional
        Pool to test on.

    Raises
    ------
    InvalidInput
        If two pools share a class, group or domain, or differ in their number of labels.

    Examples
    --------
    >>> from metapac.tasks import ClassPool, Pools
    >>> pools = Pools(train=ClassPool([0.0, 1.0], ["a", "b"]), test=ClassPool([2.0], ["c"]))
    >>> pools.test.names
    ['c']
    """

    train: P = _NO_POOL
    validation: P = _NO_POOL
    calibration: P = _NO_POOL
    test: P = _NO_POOL

    def __post_init__(self) -> None:
        present = [(name, pool) for name, pool in vars(self).items() if pool is not None]
        for (first, a), (second, b) in combinations(present, 2):
            names = set() if _transforms(a) and _transforms(b) else set(a.names)
            _checks.check_unshared(a.unit, first, second, [n for n in b.names if n in names])
            if isinstance(a, GroupPool) and isinstance(b, GroupPool):
                _checks.check_same_classes(first, a.classes, second, b.classes)


def _transforms(pool: ClassPool | GroupPool | DomainPool) -> bool:
    return isinstance(pool, ClassPool) and pool.transform is not None


def split_classes(
    x: Any, y: Ids, *, train: int, validation: int, calibration: int, test: int, rng: Seed
) -> Pools[ClassPool]:
    """Split labelled examples into pools that share no class.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers.
    train : int
        Number of random classes in the training pool; 0 makes no pool.
    validation : int
        Number of classes in the validation pool.
    calibration : int
        Number of classes in the calibration pool.
    test : int
        Number of classes in the test pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, each with a copy of its rows of ``x`` (rows of a `LazyArray` stay unread).
        Classes beyond the four numbers are left out.

    Raises
    ------
    InvalidInput
        If the four numbers are all 0, or together exceed the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import split_classes
    >>> x, y = np.arange(30.0)[:, None], np.repeat(np.arange(10), 3)
    >>> pools = split_classes(x, y, train=5, validation=2, calibration=3, test=0, rng=0)
    >>> pools.calibration
    <ClassPool 'calibration': 3 classes, 9 examples>
    """
    x, y = _checks.as_examples("x", x), _checks.as_ids("y", y)
    _checks.check_same_rows("y", y, "x", x)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = assign("classes", y, parts, rng)
    return Pools(
        **{name: ClassPool(select_rows(x, i), y[i], name=name) for name, i in rows.items()}
    )


def split_groups(
    x: Any,
    y: ArrayLike,
    groups: Ids,
    *,
    train: int,
    validation: int,
    calibration: int,
    test: int,
    rng: Seed,
) -> Pools[GroupPool]:
    """Split examples in groups into pools that share no group.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples.
    y : array_like of int, shape (n,)
        Label of each example, from 0.
    groups : array_like, shape (n,)
        Group of each example, all strings or all integers.
    train : int
        Number of random groups in the training pool; 0 makes no pool.
    validation : int
        Number of groups in the validation pool.
    calibration : int
        Number of groups in the calibration pool.
    test : int
        Number of groups in the test pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, each with a copy of its rows of ``x`` and with every label of ``y``. Groups
        beyond the four numbers are left out.

    Raises
    ------
    InvalidInput
        If the four numbers are all 0, or together exceed the number of groups.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import split_groups
    >>> x, y, sites = np.arange(30.0)[:, None], np.arange(30) % 2, np.repeat(np.arange(10), 3)
    >>> pools = split_groups(x, y, sites, train=6, validation=0, calibration=2, test=2, rng=0)
    >>> pools.test
    <GroupPool 'test': 2 groups, 6 examples>
    """
    whole = GroupPool(x, y, groups)
    examples = whole.x if whole.columns is None else x.iloc
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = assign("groups", whole.groups, parts, rng)
    return Pools(
        **{
            name: GroupPool(
                select_rows(examples, i),
                whole.y[i],
                whole.groups[i],
                name=name,
                classes=whole.classes,
            )
            for name, i in rows.items()
        }
    )


def split_domains(
    x: Any,
    y: Ids,
    domains: Ids,
    *,
    train: int,
    validation: int,
    calibration: int,
    test: int,
    rng: Seed,
) -> Pools[DomainPool]:
    """Split classes within domains into pools that share no domain.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers.
    domains : array_like, shape (n,)
        Domain of each example, all strings or all integers.
    train : int
        Number of random domains in the training pool; 0 makes no pool.
    validation : int
        Number of domains in the validation pool.
    calibration : int
        Number of domains in the calibration pool.
    test : int
        Number of domains in the test pool.
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    Pools
        The pools, each with a copy of its rows of ``x`` (rows of a `LazyArray` stay unread).
        Domains beyond the four numbers are left out.

    Raises
    ------
    InvalidInput
        If the four numbers are all 0, or together exceed the number of domains.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import split_domains
    >>> alphabets, letters = np.repeat(np.arange(9), 20), np.tile(np.arange(5), 36)
    >>> x = np.arange(180.0)
    >>> pools = split_domains(
    ...     x, letters, alphabets, train=4, validation=0, calibration=3, test=2, rng=0
    ... )
    >>> pools.calibration
    <DomainPool 'calibration': 3 domains, 15 classes, 60 examples>
    """
    whole = DomainPool(x, y, domains)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = assign("domains", whole.domains, parts, rng)
    return Pools(
        **{
            name: DomainPool(select_rows(whole.x, i), whole.y[i], whole.domains[i], name=name)
            for name, i in rows.items()
        }
    )

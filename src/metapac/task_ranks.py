"""Ranks within tasks: which score of a task is its threshold, at each level."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from metapac._types import Counts
from metapac.binomial import allowed_errors_in_task
from metapac.guarantee import Guarantee


def ranks_within(sizes: Counts, guarantee: Guarantee) -> Counts:
    """Return the rank of the threshold among the scores of a task, at each level.

    Parameters
    ----------
    sizes : ndarray, shape (tasks,)
        Number of examples of each task.
    guarantee : Guarantee
        The guarantee, with one ``epsilon``.

    Returns
    -------
    ndarray of int, shape (tasks, levels)
        Rank from 0 in ascending order; -1 if the task is too small for the level.
    """
    distinct, place = np.unique(sizes, return_inverse=True)
    levels = tuple(level.alpha_within for level in guarantee.levels)
    table = _rank_table if len(distinct) > _FEW else _cached_rank_table
    return table(tuple(distinct.tolist()), guarantee.miss_rate, levels)[place]


def _rank_table(sizes: tuple[int, ...], epsilon: float, levels: tuple[float, ...]) -> Counts:
    counts = np.array(sizes, dtype=np.int64)
    return np.stack([allowed_errors_in_task(counts, epsilon, level) for level in levels], axis=1)


# Studies calibrate many times on tasks of the same few sizes; their ranks are cached.
_FEW = 64
_cached_rank_table = functools.lru_cache(maxsize=256)(_rank_table)


def ranks_by_class(
    sizes: Counts, label: Counts, classes: tuple[Any, ...], guarantee: Guarantee
) -> Counts:
    """Return `ranks_within` for groups, each with the examples of one class in one task.

    Parameters
    ----------
    sizes : ndarray, shape (groups,)
        Number of examples of each group.
    label : ndarray, shape (groups,)
        Index of its class.
    classes : tuple
        The classes.
    guarantee : Guarantee
        The guarantee of all classes.

    Returns
    -------
    ndarray of int, shape (groups, levels)
        The ranks.
    """
    ranks = np.empty((len(sizes), len(guarantee.levels)), dtype=np.int64)
    for index, name in enumerate(classes):
        of_class = label == index
        ranks[of_class] = ranks_within(sizes[of_class], guarantee.for_class(name, classes))
    return ranks

"""The calibration scores of a draw, sorted once within each task for all methods."""

from __future__ import annotations

import numpy as np

from metapac._types import Array, Counts, Floats
from metapac.evidence import Evidence
from metapac.exceptions import InvalidInput, Parameter
from metapac.grouping import Grouped, group
from metapac.guarantee import Guarantee
from metapac.task_ranks import ranks_within


def order_scores(scores: Array, tasks: Array) -> Grouped:
    """Return scores grouped by task, ascending within each.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Scores of the true labels.
    tasks : ndarray, shape (n,)
        Task of each example.

    Returns
    -------
    Grouped
        Tasks in the order in which they first appear.

    Raises
    ------
    InvalidInput
        If a score is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.evaluation.ordered import order_scores
    >>> order_scores(np.array([0.9, 0.4, 0.1]), np.array(["b", "a", "b"])).scores
    array([0.1, 0.9, 0.4])
    """
    grouped = group(scores, tasks)
    grouped.check_no_nan()
    ascending = grouped.scores.copy()
    for part in np.split(ascending, np.cumsum(grouped.sizes)[:-1]):
        part.sort()
    return grouped._replace(scores=ascending)


def select_ranks(ordered: Grouped, ranks: Counts) -> Floats:
    """Return the scores of given ranks in each task.

    Parameters
    ----------
    ordered : Grouped
        Scores that are ascending within each task.
    ranks : ndarray of int, shape (tasks, levels)
        Ranks from 0 in ascending order; -1 gives ``-inf``.

    Returns
    -------
    ndarray of float64, shape (tasks, levels)
        The scores.
    """
    starts = np.cumsum(ordered.sizes) - ordered.sizes
    chosen = ordered.scores[starts[:, None] + np.maximum(ranks, 0)].astype(np.float64)
    return np.where(ranks < 0, -np.inf, chosen)


def ordered_evidence(ordered: Grouped, guarantee: Guarantee) -> Evidence:
    """Return what `metapac.evidence.collect_evidence` does, from scores that are sorted already.

    Parameters
    ----------
    ordered : Grouped
        Scores that are ascending within each task.
    guarantee : Guarantee
        What is to be guaranteed.

    Returns
    -------
    Evidence
        The threshold of each task at each level.

    Raises
    ------
    InvalidInput
        If the guarantee is for each class.
    """
    if guarantee.per_class:
        raise InvalidInput(
            "a draw has no labels for a guarantee with {}; errors are counted over all classes. "
            "Evaluate each class as a study of its own.",
            Parameter("per_class", True),
        )
    sizes = ordered.sizes
    starts = np.cumsum(sizes) - sizes
    return Evidence(
        ordered.names,
        sizes[:, None],
        select_ranks(ordered, ranks_within(sizes, guarantee))[:, None],
        ordered.scores[starts].min(keepdims=True).astype(np.float64),
        ordered.scores.dtype,
        highest=ordered.scores[starts + sizes - 1].max(keepdims=True).astype(np.float64),
    )

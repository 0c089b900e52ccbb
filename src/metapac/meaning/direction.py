"""Scores whose sign is wrong, or whose columns are swapped: true labels score lower than others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from metapac._types import Counts, Floats
from metapac.exceptions import Message
from metapac.meaning.findings import (
    FALSE_ALARM,
    Finding,
)


def judge_direction(wins: Counts, losses: Counts, columns: Sequence[str] = ()) -> Finding | None:
    """Object if true labels score lower than other labels.

    Two examples of a task with labels a and b are won if the scores of their own labels sum to
    more than the scores of each other's labels. If the scores say nothing about labels, an example
    pair is won or lost with equal probability, however common each class is and however the
    scores favour one class. So do tasks. Both counts are tested by a sign test.

    Parameters
    ----------
    wins, losses : ndarray of int, shape (tasks,)
        Number of pairs that are won and lost in each task.
    columns : sequence of str, default ()
        Columns with the scores of the classes, if they are known.

    Returns
    -------
    Finding or None
        An error if most tasks agree, otherwise a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning.direction import judge_direction
    >>> poor = np.full(30, 10)  # pairs won in each of 30 tasks, of 20
    >>> judge_direction(poor, 20 - poor) is None
    True
    >>> judge_direction(poor - 8, 28 - poor).is_error
    True
    """
    won, lost = int(np.sum(wins)), int(np.sum(losses))
    right, reversed_ = int(np.sum(wins > losses)), int(np.sum(losses > wins))
    if reversed_ <= right or _sign_test(lost, won) > FALSE_ALARM:
        return None
    text = Message(
        f"the true label scores lower than other labels: in {lost} of {won + lost} pairs of "
        f"examples, and in {reversed_} of {right + reversed_} tasks. Higher scores must mean more "
        f"plausible; with these, the sets keep the wrong labels. {_ask_about(columns)} If lower "
        "scores mean more plausible, pass negated scores."
    )
    return Finding("direction", _sign_test(reversed_, right) <= 1e-3, text)


def count_swaps(tasks: Counts, labels: Counts, scores: Floats) -> tuple[Counts, Counts]:
    """Return how many pairs of examples of each task are won and lost, as in `judge_direction`.

    Pairs are disjoint, and drawn by task and label alone: in a table sorted by a score, neighbours
    would be won or lost together.

    Parameters
    ----------
    tasks : ndarray of int, shape (n,)
        Index of the task of each row.
    labels : ndarray of int, shape (n,)
        Index of the true label.
    scores : ndarray, shape (n, classes)
        Scores of all classes.

    Returns
    -------
    wins, losses : ndarray of int, shape (tasks,)
        The numbers of pairs; ties are not counted.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning.direction import count_swaps
    >>> scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> count_swaps(np.array([0, 0]), np.array([0, 1]), scores)
    (array([1]), array([0]))
    """
    shuffled = np.random.default_rng(0).permutation(len(tasks))
    order = np.lexsort((shuffled, labels, tasks))
    sizes = np.bincount(tasks)
    place = np.arange(len(tasks)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = np.flatnonzero(place < np.repeat(sizes // 2, sizes))
    apart = np.repeat((sizes + 1) // 2, sizes)[first]  # so that labels differ as often as they can
    i, j = order[first], order[first + apart]
    a, b = labels[i], labels[j]
    with np.errstate(invalid="ignore"):
        gain = (scores[i, a] - scores[j, a]) + (scores[j, b] - scores[i, b])  # 0 if a == b
    wins = np.bincount(tasks[i], weights=gain > 0, minlength=len(sizes))
    losses = np.bincount(tasks[i], weights=gain < 0, minlength=len(sizes))
    return wins.astype(np.int64), losses.astype(np.int64)


def _ask_about(columns: Sequence[str]) -> str:
    if len(columns) == 2:
        return f"Are columns {columns[0]} and {columns[1]} swapped?"
    return "Are the columns of the classes swapped?"


def _sign_test(count: int, other: int) -> float:
    """Return the probability of at least this count if both are equally likely."""
    return float(special.bdtrc(count - 1, count + other, 0.5))

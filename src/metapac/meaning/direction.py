"""Scores that do not fit the true labels: reversed, swapped, of other rows, or their source."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from metapac._types import Counts, Floats
from metapac.exceptions import Message
from metapac.meaning.findings import FALSE_ALARM, Finding
from metapac.meaning.sets import Sample

_WEAK = 0.55  # share of pairs that a weak model wins; one that wins less may be chance
_FAIR = 0.6  # share of pairs that a fair model wins, and that swapped columns lose
_RARE = 0.015  # share of rows; rarer classes may be mixed up by the model itself
_MAX_PAIRED = 20_000  # rows in which classes are compared in pairs
_MANY_ROWS = 1_000  # in so many rows, a model errs at least once


def judge_labels(sample: Sample, columns: Sequence[str] = ()) -> list[Finding | None]:
    """Judge whether the scores fit the labels.

    Parameters
    ----------
    sample : Sample
        The rows.
    columns : sequence of str, default ()
        Columns with the scores, if they are known.

    Returns
    -------
    list of Finding or None
        What `judge_direction` and the other judges of labels return.
    """
    tasks, labels, scores, classes, _is_part = sample
    if not len(labels):
        return []
    wins, losses = count_swaps(tasks, labels, scores)
    swapped = judge_columns(tasks, labels, scores, classes) if len(classes) else None
    chance = judge_chance(int(wins.sum()), int(losses.sum()))
    fits = judge_direction(wins, losses, columns) or swapped or chance
    return [fits, judge_best(labels, scores)]


def judge_columns(
    tasks: Counts, labels: Counts, scores: Floats, classes: Sequence[Any]
) -> Finding | None:
    """Point out two classes whose columns fit the labels better when they are exchanged.

    Of each two classes, examples of the same task are paired as in `count_swaps`. If the columns
    are exchanged, every pair that was won is lost. Only classes of more than 1.5% of the rows are
    compared, in whole tasks of about 20,000 rows together.

    Parameters
    ----------
    tasks, labels, scores : ndarray
        As in `count_swaps`.
    classes : sequence
        Names of the columns.

    Returns
    -------
    Finding or None
        A warning, or None.
    """
    few = tasks <= np.searchsorted(np.cumsum(np.bincount(tasks)), _MAX_PAIRED)  # whole tasks
    tasks, labels, scores = tasks[few], labels[few], scores[few]
    order = np.lexsort((np.random.default_rng(0).permutation(len(tasks)), labels, tasks))
    starts = np.flatnonzero(np.diff(tasks[order] * scores.shape[1] + labels[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    key = tasks[order] * len(tasks) + place  # equal for the k-th example of each class in a task
    common = np.flatnonzero(np.bincount(labels) > _RARE * len(labels)).tolist()
    slots = np.unique(key, return_inverse=True)[1]
    row = np.full((scores.shape[1], slots.max() + 1), -1)  # of each class and slot; -1 if none
    row[labels[order], slots] = order
    found = []
    for a, b in combinations(common, 2):
        both = np.flatnonzero((row[a] >= 0) & (row[b] >= 0))
        gain = _gain(scores, row[a, both], row[b, both], a, b)
        lost, won = int(np.count_nonzero(gain < 0)), int(np.count_nonzero(gain > 0))
        is_sure = _sign_test(lost, won) * len(common) ** 2 <= FALSE_ALARM
        if is_sure and lost > _FAIR * (lost + won) > _FAIR * _RARE * len(labels):
            exchanged = scores.copy()
            exchanged[:, [a, b]] = scores[:, [b, a]]
            wins, losses = map(np.sum, count_swaps(tasks, labels, exchanged))
            if wins >= _FAIR * (wins + losses):  # otherwise the model is poor in either order
                found.append((wins, lost, lost + won, a, b))
    if not found:
        return None
    _, lost, pairs, a, b = max(found)
    text = Message(
        f"the scores of {classes[a]!r} and {classes[b]!r} look swapped: in {lost} of {pairs} pairs "
        "of examples, one of each class, they fit better if exchanged. Check which column is which."
    )
    return Finding("direction", False, text)


def judge_best(labels: Counts, scores: Floats) -> Finding | None:
    """Point out that the true label scores highest in every row.

    Parameters
    ----------
    labels, scores : ndarray
        As in `count_swaps`.

    Returns
    -------
    Finding or None
        A warning, or None.
    """
    if len(labels) < _MANY_ROWS or np.all(labels == labels[0]):
        return None
    true = scores[np.arange(len(labels)), labels]
    if np.any(np.count_nonzero(scores >= true[:, None], axis=1) > 1):
        return None
    text = Message(
        f"the true label scores highest in all {len(labels)} rows looked at. Are the labels the "
        "model's own predictions, or was it trained on these rows? No guarantee holds then."
    )
    return Finding("labels", False, text)


def judge_chance(won: int, lost: int) -> Finding | None:
    """Point out scores that tell true labels from others no better than chance.

    Parameters
    ----------
    won, lost : int
        Number of pairs of examples that are won and lost, as in `judge_direction`.

    Returns
    -------
    Finding or None
        A warning if a weak model would have won more pairs, and chance as many; otherwise None.

    Examples
    --------
    >>> from metapac.meaning.direction import judge_chance
    >>> judge_chance(1120, 880) is None  # a weak model
    True
    >>> judge_chance(1010, 990) is None
    False
    """
    if special.bdtr(won, won + lost, _WEAK) > 1e-3 or _sign_test(won, lost) < 0.01:
        return None
    text = Message(
        "the scores fit the labels no better than chance. In about half of the pairs "
        f"({lost} of {won + lost}), exchanging the two labels fits better. Were scores and labels "
        "joined by the wrong key, or one of them shuffled?"
    )
    return Finding("labels", False, text)


def judge_direction(wins: Counts, losses: Counts, columns: Sequence[str] = ()) -> Finding | None:
    """Object if true labels score lower than other labels.

    Two examples of a task with labels a and b are won if the scores of their own labels sum to
    more than the scores of each other's labels; scores that are not negative, such as
    probabilities, are multiplied instead. If the scores say nothing about labels, an example
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
    gain = _gain(scores, i, j, labels[i], labels[j])
    wins = np.bincount(tasks[i], weights=gain > 0, minlength=len(sizes))
    losses = np.bincount(tasks[i], weights=gain < 0, minlength=len(sizes))
    return wins.astype(np.int64), losses.astype(np.int64)


def _gain(scores: Floats, i: Any, j: Any, a: Any, b: Any) -> Floats:
    """Return by how much examples i of class a and j of class b fit better than exchanged."""
    own, other = np.array([[scores[i, a], scores[j, b]], [scores[j, a], scores[i, b]]], np.float64)
    with np.errstate(invalid="ignore"):
        if min(own.min(initial=0), other.min(initial=0)) >= 0:  # odds: a class may be rare
            return np.asarray(own.prod(axis=0) - other.prod(axis=0))
        return np.asarray((own - other).sum(axis=0))  # 0 if a == b


def _ask_about(columns: Sequence[str]) -> str:
    if len(columns) == 2:
        return f"Are columns {columns[0]} and {columns[1]} swapped?"
    return "Are the columns of the classes swapped?"


def _sign_test(count: int, other: int) -> float:
    """Return the probability of at least this count if both are equally likely."""
    return float(special.bdtrc(count - 1, count + other, 0.5))

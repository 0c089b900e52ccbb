"""Sets unlike those of calibration: another model, another scale, or columns in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac._checks import listed
from metapac._types import Counts, Floats
from metapac._warnings import warn
from metapac.exceptions import Message
from metapac.meaning.findings import MIN_ROWS, CheckWarning, Finding

_ENOUGH = 200  # fewer sets are not compared
_FIRST_ROWS = 1_000  # of an array, the sets looked at
_TASKS = 10  # fewer do not show how much tasks differ
_LEAST = 0.2  # change of a share, or relative change of the mean size, that is far
_FACTOR = 3  # by which the share of a rare class changes if it is far
_DEVIATIONS = 5  # between tasks, of a figure that is far from that of calibration


def draw_rows(rows: int, most: int) -> Any:
    """Return which rows of an array to look at: all, or as many drawn at random, in order.

    Parameters
    ----------
    rows : int
        Number of rows.
    most : int
        How many to look at.

    Returns
    -------
    slice or ndarray of int
        The rows, the same ones every time.
    """
    if rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False, shuffle=False))


class Sample(NamedTuple):
    """Rows that a check looked at.

    Attributes
    ----------
    tasks, labels : ndarray of int, shape (n,)
        Index of the task and of the true label of each row.
    scores : ndarray, shape (n, classes)
        Scores of all classes.
    classes : sequence
        Names of the columns; empty if classes differ from row to row.
    is_part : bool
        Whether there are more rows.
    """

    tasks: Counts
    labels: Counts
    scores: Floats
    classes: Sequence[Any]
    is_part: bool


class SetCounts(NamedTuple):
    """What the sets of the calibration rows hold, as a promise file keeps it.

    Attributes
    ----------
    rows : int
        Number of rows.
    sampled : bool
        Whether they are a sample.
    sizes : list of int
        Number of sets with 0, 1, ... labels.
    classes : list of int
        Number of sets that contain each class; empty if classes differ from row to row.
    spread : list of float or None
        Standard deviation between tasks of the mean size and of the share of each class; None with
        few tasks.
    """

    rows: int
    sampled: bool
    sizes: list[int]
    classes: list[int]
    spread: list[float] | None = None

    @property
    def mean_size(self) -> float:
        """Mean number of labels."""
        return float(np.dot(self.sizes, np.arange(len(self.sizes)))) / self.rows


def count_sets(sample: Sample, thresholds: Any) -> SetCounts:
    """Return what the sets of some rows hold, and how much that differs between tasks.

    Parameters
    ----------
    sample : Sample
        The rows.
    thresholds : float or ndarray, shape (classes,)
        The calibrated thresholds.

    Returns
    -------
    SetCounts
        The counts.
    """
    order = np.argsort(sample.tasks, kind="stable")
    sets = (sample.scores >= np.asarray(thresholds))[order]
    sizes = np.count_nonzero(sets, axis=1)
    starts = np.flatnonzero(np.diff(sample.tasks[order], prepend=-1))
    n = np.diff(starts, append=len(order))[:, None]
    by_class = np.add.reduceat(sets, starts, axis=0, dtype=np.int64)
    by_class = by_class[:, : len(sample.classes)]  # none, if they differ from row to row
    means = np.column_stack([np.add.reduceat(sizes, starts), by_class]) / n
    squares = np.column_stack([np.add.reduceat(sizes**2, starts), by_class]) / n
    within = (squares - means**2) / np.maximum(n - 1, 1)  # variance of the mean of a task
    spread = np.sqrt(np.maximum(means.var(axis=0) - within.mean(axis=0), 0)).round(6).tolist()
    counts = np.bincount(sizes).tolist(), by_class.sum(axis=0).tolist()
    return SetCounts(len(order), sample.is_part, *counts, spread if len(n) >= _TASKS else None)


def judge_sets(
    then: SetCounts, rows: int, mean_size: float, by_class: Mapping[Any, int]
) -> Finding | None:
    """Point out sets whose mean size, or share of a class, is far from that of calibration.

    Far is more than 5 standard deviations between calibration tasks, which leaves room for sites
    that differ, and more than 20% (of the size), or 20 percentage points or a factor of 3 (of a
    share; the factor only if at least 200 sets of calibration held the class). Where the deviation
    is not known, it is 50% and 50 points.

    Parameters
    ----------
    then : SetCounts
        The sets of calibration.
    rows : int
        Number of new sets.
    mean_size : float
        Their mean size.
    by_class : mapping from class to int
        Number of new sets that contain each class, in the order of calibration.

    Returns
    -------
    Finding or None
        A warning, or None.

    Examples
    --------
    >>> from metapac.meaning.sets import SetCounts, judge_sets
    >>> then = SetCounts(1000, False, [0, 900, 100], [800, 300])
    >>> judge_sets(then, 500, 1.05, {"no": 375, "yes": 150}) is None
    True
    >>> print(judge_sets(then, 500, 1.05, {"no": 25, "yes": 500}).text)
    the sets are unlike those of calibration: 'no' in 5.0% instead of 80.0%, 'yes' in 100.0% \
instead of 30.0%. Is it the same model, on the same scale, with its columns in the same order?
    """
    if min(rows, then.rows) < _ENOUGH or len(by_class) != len(then.classes):
        return None
    was = np.array([then.mean_size, *np.array(then.classes) / then.rows])
    now = np.array([mean_size, *np.array([*by_class.values()]) / rows])
    spread = then.spread or []
    is_known = len(spread) == len(was)
    least = np.full(len(was), _LEAST if is_known else 0.5)
    least[0] *= max(was[0], 1)
    squares = np.array([np.dot(then.sizes, np.arange(len(then.sizes)) ** 2) / then.rows, *was[1:]])
    variance = np.maximum(squares - was**2, 0) / rows + np.square(spread if is_known else [0.0])
    deviations = _DEVIATIONS * np.sqrt(variance)
    far = np.abs(now - was) > np.maximum(deviations, least)
    if is_known:
        far |= (np.abs(now - was) > deviations) & _is_multiple(now, was, rows, then.rows, variance)
    if not far.any():
        return None
    named = [f"mean size {mean_size:.3g} instead of {then.mean_size:.3g}"]
    for name, x, y in zip(by_class, now[1:], was[1:], strict=True):
        named.append(f"{name!r} in {x:.1%} instead of {y:.1%}")
    named = [named[i] for i in np.flatnonzero(far)]
    text = Message(
        f"the sets are unlike those of calibration: {listed(named, shown=3)}. Is it the same "
        "model, on the same scale, with its columns in the same order?"
    )
    return Finding("sets", False, text)


def _is_multiple(now: Floats, was: Floats, rows: int, rows_then: int, variance: Floats) -> Floats:
    """Return which shares changed by a factor beyond chance, also in logarithms: tails are long."""
    common = was * rows_then >= _ENOUGH
    was = np.where(common, was, 1)
    ratio = np.maximum(now, 1 / rows) / was
    deviation = np.sqrt(np.log1p(variance / was**2))
    limits = np.maximum(np.log(_FACTOR), _DEVIATIONS * deviation)
    return np.asarray(common & (np.abs(np.log(ratio)) > limits))


def warn_of_sets(
    sets: NDArray[np.bool_], then: SetCounts | None, classes: Sequence[Any] | None
) -> None:
    """Warn of sets that are all empty, or unlike those of calibration; only some are looked at.

    Parameters
    ----------
    sets : ndarray of bool, shape (n, classes)
        The sets.
    then : SetCounts or None
        The sets of calibration, if they were counted.
    classes : sequence or None
        Names of the columns; 0, 1, ... by default.
    """
    if len(sets) >= MIN_ROWS and not sets[:_FIRST_ROWS].any():
        text = f"the first {min(len(sets), _FIRST_ROWS)} sets are all empty. Is it the same model?"
        warn(CheckWarning(Message(f"{text} Are the scores on the same scale, not logarithms?")))
    elif then is not None and len(sets) >= _ENOUGH and sets.shape[1] == len(then.classes):
        some = sets[draw_rows(len(sets), _FIRST_ROWS)]
        counts = np.add.reduce(some, axis=0, dtype=np.int64)
        now, was = counts / len(some), np.array(then.classes) / then.rows
        low, high = np.minimum(now, was), np.maximum(now, was)
        few = _DEVIATIONS**2 / len(some)  # of fewer sets, 5 deviations are more than all
        if (high - low).sum() <= _LEAST and (high <= np.maximum(_FACTOR * low, few)).all():
            return  # no figure is far
        by_class = dict(zip(classes or range(len(counts)), counts.tolist(), strict=True))
        finding = judge_sets(then, len(some), float(counts.sum()) / len(some), by_class)
        if finding:
            warn(CheckWarning(finding.text))

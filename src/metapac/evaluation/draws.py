"""Calibration draws: scores to calibrate on, and new tasks to evaluate the sets on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from metapac import _scores
from metapac._types import Array
from metapac.evaluation.ordered import order_scores
from metapac.exceptions import InvalidInput
from metapac.grouping import Grouped


class NewTask(Protocol):
    """A new task on which prediction sets are evaluated.

    Examples
    --------
    `ScoredTask` and `KnownTask` are new tasks:

    >>> from metapac.evaluation import NewTask, ScoredTask
    >>> task: NewTask = ScoredTask([0.6], [0.7], [[0.7, 0.3]])
    """

    @property
    def labelled_scores(self) -> Array:
        """Scores of the true labels of some labelled examples of this task, for PS-Test."""

    @property
    def quantile(self) -> float | None:
        """Predicted quantile of the task, for Meta-CP; None if nothing predicts it."""

    @property
    def examples(self) -> int:
        """Number of test examples that errors are counted on; 0 if they are exact."""

    @property
    def labels(self) -> int:
        """Number of labels; 0 if it is not known."""

    def error(self, thresholds: ArrayLike) -> Array:
        """Return the miss rate of each threshold on this task.

        Parameters
        ----------
        thresholds : array_like, shape (n,)
            Thresholds.

        Returns
        -------
        ndarray, shape (n,)
            How often the true label's score is below each threshold.
        """

    def size(self, thresholds: ArrayLike) -> Array:
        """Return the mean set size of each threshold on this task.

        Parameters
        ----------
        thresholds : array_like, shape (n,)
            Thresholds.

        Returns
        -------
        ndarray, shape (n,)
            Mean number of labels in a set.
        """

    def largest_threshold(self, epsilon: float) -> float:
        """Return the largest threshold whose error on this task is at most ``epsilon``.

        Parameters
        ----------
        epsilon : float
            Miss rate allowed.

        Returns
        -------
        float
            The threshold.
        """


@dataclass(frozen=True, eq=False)
class ScoredTask:
    """A new task given by its scores; error and size are counted on its test examples.

    A set is decided in the precision of the task's scores.

    Parameters
    ----------
    labelled_scores : array_like, shape (labelled,)
        Scores of the true labels of the examples that PS-Test may use.
    true_scores : array_like, shape (n,)
        Scores of the true labels of the test examples.
    scores : array_like, shape (n, classes)
        Scores of all labels of the test examples.
    quantile : float, optional
        Predicted quantile of the task, for Meta-CP.

    Examples
    --------
    >>> from metapac.evaluation import ScoredTask
    >>> task = ScoredTask([0.6, 0.9], [0.7, 0.2], [[0.7, 0.3], [0.8, 0.2]])
    >>> task.error([0.1, 0.5]), task.size([0.1, 0.5])
    (array([0. , 0.5]), array([2., 1.]))
    """

    labelled_scores: Array
    true_scores: Array
    scores: Array
    quantile: float | None = None

    def __post_init__(self) -> None:
        for name in ("labelled_scores", "true_scores", "scores"):
            array = _scores.as_score_array(name, getattr(self, name))
            _scores.check_no_nan(name, array)
            object.__setattr__(self, name, array)
        _scores.check_one_dimensional("labelled_scores", self.labelled_scores)
        _scores.check_one_dimensional("true_scores", self.true_scores)
        n = len(self.true_scores)
        if self.scores.ndim != 2 or len(self.scores) != n:
            raise InvalidInput(
                f"scores must have a row for each of the {n} test examples and a column for each "
                f"label, got shape {self.scores.shape}."
            )
        if not (self.scores == self.true_scores[:, None]).any(axis=1).all():
            raise InvalidInput(
                "true_scores must hold one of the scores of the same row of scores, and does not. "
                "Pass scores[np.arange(len(labels)), labels]."
            )
        if self.quantile is not None and not math.isfinite(self.quantile):
            raise InvalidInput(
                f"quantile must be a finite number or None, got {self.quantile!r}. "
                "Pass the output of the quantile predictor for this task."
            )

    @classmethod
    def from_predictions(
        cls, scores: ArrayLike, labels: ArrayLike, *, labelled: Array, quantile: float | None = None
    ) -> Self:
        """Return a task from the scores and true labels of its examples.

        Parameters
        ----------
        scores : array_like, shape (n, classes)
            Scores of all labels of all examples.
        labels : array_like of int, shape (n,)
            True label of each example.
        labelled : ndarray of bool, shape (n,)
            The examples that PS-Test may use; the others are test examples.
        quantile : float, optional
            Predicted quantile of the task, for Meta-CP.

        Returns
        -------
        ScoredTask
            The task.
        """
        table, y = np.asarray(scores), np.asarray(labels)
        true = table[np.arange(len(y)), y]
        return cls(true[labelled], true[~labelled], table[~labelled], quantile)

    @property
    def examples(self) -> int:
        """Number of test examples."""
        return len(self.true_scores)

    @property
    def labels(self) -> int:
        """Number of labels."""
        return int(self.scores.shape[1])

    @cached_property
    def _sorted_true(self) -> Array:
        return np.sort(self.true_scores)

    @cached_property
    def _sorted_all(self) -> Array:
        return np.sort(self.scores, axis=None)

    def error(self, thresholds: ArrayLike) -> Array:
        """Return the miss rate of each threshold on the test examples.

        Parameters
        ----------
        thresholds : array_like, shape (n,)
            Thresholds.

        Returns
        -------
        ndarray, shape (n,)
            How often the true label's score is below each threshold.
        """
        return _count_below(self._sorted_true, thresholds) / len(self.true_scores)

    def size(self, thresholds: ArrayLike) -> Array:
        """Return the mean set size of each threshold on the test examples.

        Parameters
        ----------
        thresholds : array_like, shape (n,)
            Thresholds.

        Returns
        -------
        ndarray, shape (n,)
            Mean number of labels in a set.
        """
        below = _count_below(self._sorted_all, thresholds)
        return (self.scores.size - below) / len(self.true_scores)

    def largest_threshold(self, epsilon: float) -> float:
        """Return the largest threshold whose error on the test examples is at most ``epsilon``.

        Parameters
        ----------
        epsilon : float
            Miss rate allowed.

        Returns
        -------
        float
            The threshold.
        """
        # The same floats that error() returns are compared with epsilon.
        rates = np.arange(len(self.true_scores)) / len(self.true_scores)
        return float(self._sorted_true[np.searchsorted(rates, epsilon, side="right") - 1])


def _count_below(ascending: Array, thresholds: ArrayLike) -> Array:
    with np.errstate(over="ignore"):  # overflow to inf is intended; it preserves order
        cuts = np.asarray(thresholds).astype(ascending.dtype)
    return np.asarray(np.searchsorted(ascending, cuts, side="left"))


@dataclass(frozen=True, eq=False)
class Draw:
    """One calibration draw and its new tasks.

    Parameters
    ----------
    scores : ndarray, shape (examples,)
        Scores of the true labels of the calibration examples.
    tasks : ndarray, shape (examples,)
        Task of each calibration example.
    tests : sequence of NewTask
        New tasks to evaluate on.
    quantiles : ndarray, shape (calibration tasks,), optional
        Predicted quantile of each calibration task, in order of first appearance, for Meta-CP.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.evaluation import Draw, ScoredTask
    >>> new_task = ScoredTask([0.6], [0.7], [[0.7, 0.3]])
    >>> draw = Draw(np.array([0.9, 0.4]), np.array(["a", "b"]), [new_task])
    """

    scores: Array
    tasks: Array
    tests: Sequence[NewTask]
    quantiles: Array | None = None

    def __post_init__(self) -> None:
        if not self.tests:
            raise InvalidInput("tests is empty; a draw needs at least one new task.")
        missing = [i for i, test in enumerate(self.tests) if test.quantile is None]
        if self.quantiles is not None and missing:
            raise InvalidInput(
                f"quantiles are given for the calibration tasks, but test task {missing[0]} has "
                "none. Predict them for all tasks, or for none."
            )

    @cached_property
    def ordered(self) -> Grouped:
        """Calibration scores by task, ascending within each; sorted once for all methods."""
        return order_scores(self.scores, self.tasks)


class Study(Protocol):
    """A source of calibration draws: a scored data set, or a family of synthetic tasks.

    Examples
    --------
    >>> from metapac.evaluation import Study, SyntheticStudy
    >>> study: Study = SyntheticStudy(tasks=20)
    """

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return calibration scores and new tasks.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        Draw
            The draw.
        """

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on, with a checksum of the data.

        Returns
        -------
        dict
            Values that JSON can hold.
        """

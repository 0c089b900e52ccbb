"""Draws: calibration scores and new tasks, as a study yields them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from metapac._common import Array, Counts, Floats
from metapac.errors import InvalidInput
from metapac.evidence import Evidence, ranks_within
from metapac.fewshot.synthetic import NormalFamily
from metapac.grouping import Grouped, group
from metapac.guarantee import Guarantee
from metapac.inputs import as_score_array, check_no_nan, check_one_dimensional


def order_scores(scores: Array, tasks: Array) -> Grouped:
    """Return scores grouped by task, ascending within each."""
    grouped = group(scores, tasks)
    grouped.check_no_nan()
    ascending = grouped.scores.copy()
    for part in np.split(ascending, np.cumsum(grouped.sizes)[:-1]):
        part.sort()
    return grouped._replace(scores=ascending)


def select_ranks(ordered: Grouped, ranks: Counts) -> Floats:
    """Return the scores of given ranks in each task."""
    starts = np.cumsum(ordered.sizes) - ordered.sizes
    chosen = ordered.scores[starts[:, None] + np.maximum(ranks, 0)].astype(np.float64)
    return np.where(ranks < 0, -np.inf, chosen)


def ordered_evidence(ordered: Grouped, guarantee: Guarantee) -> Evidence:
    """Return what `metapac.evidence.first_step` does, from scores that are sorted already."""
    if guarantee.per_class:
        raise InvalidInput("per_class must be False in a study, whose draws have no labels.")
    sizes = ordered.sizes
    starts = np.cumsum(sizes) - sizes
    first = select_ranks(ordered, ranks_within(sizes, guarantee))[:, None]
    lowest = ordered.scores[starts].min(keepdims=True).astype(np.float64)
    highest = ordered.scores[starts + sizes - 1].max(keepdims=True).astype(np.float64)
    dtype = ordered.scores.dtype
    return Evidence(ordered.names, sizes[:, None], first, lowest, dtype, highest=highest)


NewTask = Any  # a new task: an object with the attributes and methods of ScoredTask


@dataclass(frozen=True, eq=False)
class ScoredTask:
    """A new task given by its scores; error and size are counted on its test examples.

    A set is decided in the precision of the task's scores.

    Attributes
    ----------
    labelled_scores : array_like, shape (labelled,)
        Scores of the true labels of the examples that PS-Test may use; empty if there are none.
    true_scores : array_like, shape (n,)
        Scores of the true labels of the test examples.
    scores : array_like, shape (n, classes)
        Scores of all labels of the test examples.
    quantile : float, optional
        Predicted quantile of the task, for Meta-CP.
    """

    labelled_scores: Array
    true_scores: Array
    scores: Array
    quantile: float | None = None

    def __post_init__(self) -> None:
        for name in ("labelled_scores", "true_scores", "scores"):
            array = as_score_array(name, getattr(self, name))
            check_no_nan(name, array)
            object.__setattr__(self, name, array)
        check_one_dimensional("true_scores", self.true_scores)
        if self.labelled_scores.size:
            check_one_dimensional("labelled_scores", self.labelled_scores)
        n = len(self.true_scores)
        if self.scores.ndim != 2 or len(self.scores) != n:
            raise InvalidInput(f"scores must have shape ({n}, classes), got {self.scores.shape}.")
        if not (self.scores == self.true_scores[:, None]).any(axis=1).all():
            raise InvalidInput("true_scores must be scores[np.arange(len(labels)), labels].")
        if self.quantile is not None and not math.isfinite(self.quantile):
            raise InvalidInput(f"quantile must be a finite number or None, got {self.quantile!r}.")

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

    Attributes
    ----------
    scores, tasks : ndarray, shape (examples,)
        Score of the true label, and task, of each calibration example.
    tests : sequence of NewTask
        New tasks to evaluate on.
    quantiles : ndarray, shape (calibration tasks,), optional
        Predicted quantile of each calibration task, in order of first appearance, for Meta-CP.
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
            lack = f"got none for test task {missing[0]}"
            raise InvalidInput(f"quantiles must be predicted for all tasks or for none, {lack}.")

    @cached_property
    def ordered(self) -> Grouped:
        """Calibration scores by task, ascending within each; sorted once for all methods."""
        return order_scores(self.scores, self.tasks)


class Study(Protocol):
    """A source of calibration draws: a scored data set, or a family of synthetic tasks."""

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return calibration scores and new tasks.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        Draw
        """

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on, with a checksum of the data.

        Returns
        -------
        dict
            Values that JSON can hold.
        """


@dataclass(frozen=True, eq=False)
class KnownTask:
    """A new task of a normal family; its error and set size are computed, not estimated."""

    family: NormalFamily
    signal: float
    labelled_scores: Array
    quantile: float | None = None
    examples: ClassVar[int] = 0  # errors are computed, not counted

    @property
    def labels(self) -> int:
        return self.family.classes

    def error(self, thresholds: ArrayLike) -> Array:
        return _map(partial(self.family.error, np.array(self.signal)), thresholds)

    def size(self, thresholds: ArrayLike) -> Array:
        return _map(partial(self.family.size, np.array(self.signal)), thresholds)

    def largest_threshold(self, epsilon: float) -> float:
        cut = self.signal + float(special.ndtri(epsilon))
        while self.error([cut])[0] > epsilon:  # off by rounding in the last digit
            cut = math.nextafter(cut, -math.inf)
        return cut


def _map(function: Callable[[float], Array], thresholds: ArrayLike) -> Array:
    return np.array([function(cut) for cut in np.asarray(thresholds).tolist()])


@dataclass(frozen=True)
class SyntheticStudy(Study):
    """Calibration tasks and new tasks from one family of synthetic tasks.

    Parameters
    ----------
    family : NormalFamily, optional
    tasks : int, default 500
        Number of calibration tasks in a draw.
    examples : int, default 1000
        Number of examples of each calibration task.
    tests : int, default 50
        Number of new tasks in a draw.
    labelled : int, default 100
        Number of labelled examples of each new task, for PS-Test.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import SyntheticStudy
    >>> SyntheticStudy(tasks=20, examples=50).draw(np.random.default_rng(0)).scores.shape
    (1000,)
    """

    family: NormalFamily = field(default_factory=NormalFamily)
    tasks: int = 500
    examples: int = 1000
    tests: int = 50
    labelled: int = 100

    def draw(self, rng: np.random.Generator) -> Draw:
        family = self.family
        scores = family.draw_scores(family.draw_tasks(self.tasks, rng), self.examples, rng)
        signals = family.draw_tasks(self.tests, rng)
        labelled = family.draw_scores(signals, self.labelled, rng)
        tasks = np.repeat(np.arange(self.tasks), self.examples)
        pairs = zip(signals.tolist(), labelled, strict=True)
        return Draw(scores.ravel(), tasks, [KnownTask(family, *pair) for pair in pairs])

    def describe(self) -> dict[str, Any]:
        return {"study": "synthetic", **asdict(self)}

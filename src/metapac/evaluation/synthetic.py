"""A study on synthetic tasks: the error of every threshold on every task is known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from metapac._types import Array
from metapac.evaluation.draws import Draw
from metapac.tasks.synthetic import NormalFamily


@dataclass(frozen=True, eq=False)
class KnownTask:
    """A new task of a normal family; its error and set size are computed, not estimated.

    Parameters
    ----------
    family : NormalFamily
        The family.
    signal : float
        Mean score of the true label on this task.
    labelled_scores : ndarray
        Scores of the true labels of the examples that PS-Test may use.
    quantile : float, optional
        Predicted quantile of the task, for Meta-CP.
    """

    family: NormalFamily
    signal: float
    labelled_scores: Array
    quantile: float | None = None
    examples: ClassVar[int] = 0  # errors are computed, not counted

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.family.classes

    def error(self, thresholds: ArrayLike) -> Array:
        """Return the miss rate of each threshold.

        Parameters
        ----------
        thresholds : array_like, shape (n,)
            Thresholds.

        Returns
        -------
        ndarray, shape (n,)
            Probability that the true label's score is below each threshold.
        """
        return _map(partial(self.family.error, np.array(self.signal)), thresholds)

    def size(self, thresholds: ArrayLike) -> Array:
        """Return the expected set size of each threshold.

        Parameters
        ----------
        thresholds : array_like, shape (n,)
            Thresholds.

        Returns
        -------
        ndarray, shape (n,)
            Expected number of labels in a set.
        """
        return _map(partial(self.family.size, np.array(self.signal)), thresholds)

    def largest_threshold(self, epsilon: float) -> float:
        """Return the largest threshold whose error is at most ``epsilon``.

        Parameters
        ----------
        epsilon : float
            Miss rate allowed.

        Returns
        -------
        float
            The threshold.
        """
        cut = self.signal + float(special.ndtri(epsilon))
        while self.error([cut])[0] > epsilon:  # off by rounding in the last digit
            cut = math.nextafter(cut, -math.inf)
        return cut


def _map(function: Callable[[float], Array], thresholds: ArrayLike) -> Array:
    return np.array([function(cut) for cut in np.asarray(thresholds).tolist()])


@dataclass(frozen=True)
class SyntheticStudy:
    """Calibration tasks and new tasks from one family of synthetic tasks.

    Parameters
    ----------
    family : NormalFamily, optional
        The family.
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
    >>> from metapac.evaluation import SyntheticStudy
    >>> draw = SyntheticStudy(tasks=20, examples=50, tests=3).draw(np.random.default_rng(0))
    >>> draw.scores.shape, len(draw.tests)
    ((1000,), 3)
    """

    family: NormalFamily = field(default_factory=NormalFamily)
    tasks: int = 500
    examples: int = 1000
    tests: int = 50
    labelled: int = 100

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
        family = self.family
        scores = family.draw_scores(family.draw_tasks(self.tasks, rng), self.examples, rng)
        signals = family.draw_tasks(self.tests, rng)
        labelled = family.draw_scores(signals, self.labelled, rng)
        tasks = np.repeat(np.arange(self.tasks), self.examples)
        pairs = zip(signals.tolist(), labelled, strict=True)
        return Draw(scores.ravel(), tasks, [KnownTask(family, *pair) for pair in pairs])

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on.

        Returns
        -------
        dict
            The parameters.
        """
        return {"study": "synthetic", **asdict(self)}

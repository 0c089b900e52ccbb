"""Synthetic tasks: families of score distributions whose true error is known in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from metapac._common import Array, Seed


class Family(Protocol):
    """A distribution over tasks; a task is a number, and an array of numbers is many tasks."""

    def draw_tasks(self, count: int, rng: Seed = None) -> Array:
        """Return independent tasks.

        Parameters
        ----------
        count : int
        rng : int, numpy.random.Generator or None, optional

        Returns
        -------
        ndarray, shape (count,)
        """

    def draw_scores(self, tasks: Array, examples: int, rng: Seed = None) -> Array:
        """Return scores of the true labels of independent examples.

        Parameters
        ----------
        tasks : ndarray, shape (t,)
        examples : int
        rng : int, numpy.random.Generator or None, optional

        Returns
        -------
        ndarray, shape (t, examples)
        """

    def error(self, tasks: Array, threshold: float) -> Array:
        """Return the probability, on each task, that the true label's score is below a threshold.

        Parameters
        ----------
        tasks : ndarray, shape (t,)
        threshold : float

        Returns
        -------
        ndarray, shape (t,)
        """

    def violation_rate(self, threshold: float, epsilon: float) -> float:
        """Return the fraction of all tasks whose error at a threshold exceeds ``epsilon``.

        Parameters
        ----------
        threshold, epsilon : float

        Returns
        -------
        float
        """


@dataclass(frozen=True)
class NormalFamily(Family):
    """Classification tasks with normally distributed scores.

    A task is its signal, normal with mean ``signal`` and standard deviation ``spread``. The score
    of the true label is normal around that signal and the scores of the other labels around 0,
    all with standard deviation 1.

    Parameters
    ----------
    classes : int, optional
        Number of labels.
    signal, spread : float, optional
        Mean and standard deviation of the signal over tasks; a task with a high signal is easy.

    Examples
    --------
    >>> from metapac.fewshot import NormalFamily
    >>> round(NormalFamily().violation_rate(threshold=1.0, epsilon=0.1), 3)
    0.075
    """

    classes: int = 5
    signal: float = 3.0
    spread: float = 0.5

    def draw_tasks(self, count: int, rng: Seed = None) -> Array:
        return np.random.default_rng(rng).normal(self.signal, self.spread, count)

    def draw_scores(self, tasks: Array, examples: int, rng: Seed = None) -> Array:
        noise = np.random.default_rng(rng).standard_normal((len(tasks), examples))
        return np.asarray(noise + np.asarray(tasks)[:, None])

    def error(self, tasks: Array, threshold: float) -> Array:
        return np.asarray(special.ndtr(threshold - np.asarray(tasks)))

    def size(self, tasks: Array, threshold: float) -> Array:
        """Return the expected number of labels in a prediction set, on each task.

        Parameters
        ----------
        tasks : ndarray, shape (t,)
        threshold : float

        Returns
        -------
        ndarray, shape (t,)
        """
        others = (self.classes - 1) * special.ndtr(-threshold)
        return np.asarray(1 - self.error(tasks, threshold) + others)

    def violation_rate(self, threshold: float, epsilon: float) -> float:
        # Phi(threshold - signal) > epsilon where signal < threshold - Phi^-1(epsilon).
        lowest = threshold - special.ndtri(epsilon)
        return float(special.ndtr((lowest - self.signal) / self.spread))


@dataclass(frozen=True)
class TwoPointFamily(Family):
    """The hardest tasks: here a guarantee fails with probability close to delta.

    On a fraction ``bad`` of the tasks a score is 0 with probability ``miss`` and 1 otherwise; on
    the other tasks every score is 1. With ``miss`` just above epsilon and ``bad`` just above
    alpha, every threshold above 0 violates the guarantee. See docs/theory/guarantee.md.

    Parameters
    ----------
    bad, miss : float
        Fraction of tasks with scores of 0, and probability of such a score there.

    Examples
    --------
    >>> from metapac.fewshot import TwoPointFamily
    >>> TwoPointFamily(bad=0.2, miss=0.3).violation_rate(threshold=1.0, epsilon=0.1)
    0.2
    """

    bad: float
    miss: float

    def draw_tasks(self, count: int, rng: Seed = None) -> Array:
        return np.random.default_rng(rng).random(count) < self.bad

    def draw_scores(self, tasks: Array, examples: int, rng: Seed = None) -> Array:
        draws = np.random.default_rng(rng).random((len(tasks), examples))
        return np.where(np.asarray(tasks)[:, None] & (draws < self.miss), 0.0, 1.0)

    def error(self, tasks: Array, threshold: float) -> Array:
        if threshold <= 0 or threshold > 1:
            return np.full(np.shape(tasks), float(threshold > 1))
        return np.where(tasks, self.miss, 0.0)

    def violation_rate(self, threshold: float, epsilon: float) -> float:
        if threshold <= 0 or threshold > 1:
            return float(threshold > 1)
        return self.bad if self.miss > epsilon else 0.0

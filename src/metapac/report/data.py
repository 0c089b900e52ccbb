"""Labelled scores that a report is made from, wherever they are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from metapac.assessment.evaluation import Evaluation
from metapac.base import ThresholdSets
from metapac.calibration import MetaPS


class Example(NamedTuple):
    """One example with its prediction set.

    Attributes
    ----------
    task : object
        Its task.
    truth : object
        Its true label, or true number.
    labels : tuple of str or None
        The labels in its set; None for an interval.
    interval : tuple of float or None
        The ends of its interval; None for a set.
    full : bool
        Whether the set holds every label.
    """

    task: Any
    truth: Any
    labels: tuple[str, ...] | None
    interval: tuple[float, float] | None = None
    full: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether the set lacks the true label, or the interval the true number."""
        if self.interval is not None:
            return not self.interval[0] <= self.truth <= self.interval[1]
        return str(self.truth) not in (self.labels or ())

    @property
    def kind(self) -> str:
        """What the set is like, for choosing examples of every kind."""
        if self.interval is not None:
            return "missed" if self.is_missed else "hit"
        size = len(self.labels or ())
        if size == 0:
            return "empty"
        if self.is_missed:
            return "missed"
        if self.full:
            return "full"
        return "single" if size == 1 else "several"


class Data(ABC):
    """Labelled scores, wherever they are kept."""

    @abstractmethod
    def calibrate(self, promise: MetaPS, epsilon: float) -> MetaPS:
        """Return the same guarantee at another miss rate, calibrated on these scores.

        Parameters
        ----------
        promise : MetaPS
            The guarantee.
        epsilon : float
            The miss rate.

        Returns
        -------
        MetaPS
            The calibrated predictor.
        """

    @abstractmethod
    def evaluate(
        self, promise: ThresholdSets, *, false_alarm: float, allow: Iterable[str]
    ) -> Evaluation:
        """Compare a guarantee with these scores.

        Parameters
        ----------
        promise : MetaPS or PS
            The guarantee.
        false_alarm : float
            Probability that the verdict is wrong.
        allow : iterable of str
            Checks of the data to skip.

        Returns
        -------
        Evaluation
            The comparison.
        """

    @abstractmethod
    def examples(self, promise: ThresholdSets, tasks: Collection[Any]) -> list[Example]:
        """Return the examples of some tasks, with their sets.

        Parameters
        ----------
        promise : MetaPS or PS
            The guarantee.
        tasks : collection
            The tasks.

        Returns
        -------
        list of Example
            The examples; none if only true labels have scores.
        """


def change_epsilon(promise: MetaPS, epsilon: float) -> dict[str, Any]:
    """Return the parameters of a guarantee with another miss rate.

    Parameters
    ----------
    promise : MetaPS
        The guarantee.
    epsilon : float
        The miss rate.

    Returns
    -------
    dict
        What `MetaPS` and ``calibrate_table`` take.
    """
    return asdict(replace(promise.guarantee_, epsilon=epsilon))


def find_cluster_seed(promise: MetaPS) -> int | None:
    """Return the seed that drew one task from each cluster.

    Parameters
    ----------
    promise : MetaPS
        The guarantee.

    Returns
    -------
    int or None
        The seed; None if every task counts.
    """
    clusters = promise._evidence.clusters
    return None if clusters is None else clusters.rng

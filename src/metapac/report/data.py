"""What a report reads: scored examples, by one interface for arrays and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from metapac.errors import InvalidInput
from metapac.evaluation import Evaluation, evaluate
from metapac.evidence import ClusterIds
from metapac.findings import CHECKS
from metapac.inputs import as_task_ids, read_class_matrix
from metapac.predictors import MetaPS, ThresholdSets
from metapac.sets import label_lists


class Example(NamedTuple):
    """One example with its prediction set."""

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
    """Return the parameters of a guarantee with another miss rate."""
    return asdict(replace(promise.guarantee_, epsilon=epsilon))


def find_cluster_seed(promise: MetaPS) -> int | None:
    """Return the seed that drew one task from each cluster."""
    clusters = promise._evidence.clusters
    return None if clusters is None else clusters.rng


def count_within(evaluation: Evaluation) -> int:
    """Return the number of tasks whose share missed is at most what is allowed."""
    return int(np.count_nonzero(evaluation.errors <= evaluation.epsilon))


def format_size(size: float) -> str:
    """Return a mean number of labels, with as many digits everywhere."""
    return f"{size:,.2f}"


def format_width(width: float) -> str:
    """Return a width of intervals, with as many digits everywhere."""
    return f"{width:,.4g}"


@dataclass(frozen=True, eq=False)
class Scored(Data):
    """Labelled scores in arrays, to make a report from.

    Parameters
    ----------
    scores : array_like, shape (n,) or (n, classes)
        Scores of the true labels; or of every class, which gives set sizes and examples too.
    tasks : array_like, shape (n,)
        Task of each example.
    labels : array_like, shape (n,), optional
        True label of each example. Needed with scores of every class.
    classes : sequence, optional
        Class of each column of ``scores``; by default those of the calibration, or 0, 1, ...
    clusters : array_like, shape (n,), or mapping from task, optional
        Cluster of each example or task. Needed if the promise was calibrated with clusters.

    Examples
    --------
    >>> from metapac.report import Scored
    >>> Scored([[0.9, 0.1], [0.4, 0.6]], ["ohio", "utah"], ["no", "yes"], ["no", "yes"]).classes
    ['no', 'yes']
    """

    scores: Any
    tasks: Any
    labels: Any = None
    classes: Sequence[Any] | None = None
    clusters: ClusterIds | None = None

    def calibrate(self, promise: MetaPS, epsilon: float) -> MetaPS:
        is_matrix, seed = np.ndim(self.scores) == 2, find_cluster_seed(promise)
        if seed is not None and self.clusters is None:
            raise InvalidInput(
                "clusters must be passed with the calibration scores, since the promise was "
                "calibrated on one task of each cluster.",
                parameter="clusters",
            )
        return MetaPS(**change_epsilon(promise, epsilon)).calibrate(
            self.scores,
            self.tasks,
            self.labels if is_matrix or promise.per_class else None,
            classes=self._classes(promise) if is_matrix else None,
            clusters=None if seed is None else self.clusters,
            rng=seed or 0,
            context=promise.context_,
            allow=CHECKS,
        )

    def evaluate(
        self, promise: ThresholdSets, *, false_alarm: float, allow: Iterable[str]
    ) -> Evaluation:
        return evaluate(
            promise,
            self.scores,
            self.tasks,
            self.labels,
            classes=self.classes,
            clusters=self.clusters,
            false_alarm=false_alarm,
            allow=allow,
        )

    def examples(self, promise: ThresholdSets, tasks: Collection[Any]) -> list[Example]:
        if np.ndim(self.scores) != 2:
            return []
        matrix = read_class_matrix(self.scores, self.labels, self._classes(promise))
        assert matrix is not None
        ids = as_task_ids(self.tasks).tolist()
        rows = [i for i, task in enumerate(ids) if task in tasks]
        kept = promise.predict_set(matrix.scores[rows])
        return [
            Example(ids[i], matrix.labels[i], tuple(map(str, labels)), full=bool(row.all()))
            for i, row, labels in zip(rows, kept, label_lists(kept, matrix.classes), strict=True)
        ]

    def _classes(self, promise: ThresholdSets) -> Sequence[Any] | None:
        """Return the class of each column: those given, or those of the calibration."""
        return promise._known_classes if self.classes is None else self.classes

"""Labelled scores in arrays that a report is made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metapac import _ids
from metapac.assessment.arrays import evaluate
from metapac.assessment.evaluation import Evaluation
from metapac.base import ThresholdSets
from metapac.calibration import MetaPS
from metapac.class_matrix import read_class_matrix
from metapac.clusters import ClusterIds
from metapac.exceptions import InvalidInput, Parameter
from metapac.meaning.findings import CHECKS
from metapac.report.data import Data, Example, change_epsilon, find_cluster_seed
from metapac.sets import label_lists


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
                "{} must be passed with the calibration scores, since the promise was calibrated "
                "on one task of each cluster.",
                Parameter("clusters"),
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
        ids = _ids.as_task_ids(self.tasks).tolist()
        rows = [i for i, task in enumerate(ids) if task in tasks]
        kept = promise.predict_set(matrix.scores[rows])
        return [
            Example(ids[i], matrix.labels[i], tuple(map(str, labels)), full=bool(row.all()))
            for i, row, labels in zip(rows, kept, label_lists(kept, matrix.classes), strict=True)
        ]

    def _classes(self, promise: ThresholdSets) -> Sequence[Any] | None:
        """Return the class of each column: those given, or those of the calibration."""
        return promise._known_classes if self.classes is None else self.classes

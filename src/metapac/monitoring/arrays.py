"""New tasks in arrays: their misses and their clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from metapac import _ids
from metapac.assessment.arrays import evaluate
from metapac.assessment.evaluation import Evaluation
from metapac.base import ThresholdSets
from metapac.clusters import ClusterIds, match_clusters
from metapac.monitoring.intake import Clusters


def judge_tasks(
    promise: ThresholdSets,
    scores: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    labels: ArrayLike | None,
    *,
    classes: Sequence[Any] | None,
    clusters: ClusterIds | None,
    min_examples: int,
    model: str | None,
    allow: Iterable[str],
) -> tuple[Evaluation, Clusters | None]:
    """Return what ``Monitor.add_evaluation`` takes: the misses and clusters of the tasks.

    Parameters
    ----------
    promise : MetaPS
        The calibrated predictor.
    scores : array_like, shape (n,) or (n, classes)
        Scores of the true labels; or scores of every class, which needs ``labels``.
    tasks : array_like, shape (n,)
        Task of each example.
    labels : array_like, shape (n,), or None
        True label of each example.
    classes : sequence or None
        Names of the columns of ``scores``.
    clusters : array_like, shape (n,), or mapping from task, or None
        Cluster of each example or task.
    min_examples : int
        Leave out tasks with fewer examples.
    model : str or None
        Name of the model that gave the scores.
    allow : iterable of str
        Checks of the data to skip.

    Returns
    -------
    evaluation : Evaluation
        The misses.
    clusters : mapping from task to cluster, or None
        Cluster of each task.
    """
    evaluation = evaluate(
        promise,
        scores,
        tasks,
        labels,
        classes=classes,
        clusters=clusters,
        min_examples=min_examples,
        model=model,
        allow=allow,
    )
    if clusters is None:
        return evaluation, None
    names, ids = evaluation.tasks.tolist(), _ids.as_task_ids(tasks)
    return evaluation, dict(zip(names, match_clusters(names, ids, clusters), strict=True))

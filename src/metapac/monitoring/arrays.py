"""New tasks in arrays: their misses, and what recognises them when they come again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from metapac import _ids, _scores
from metapac.assessment.arrays import evaluate
from metapac.assessment.evaluation import Evaluation
from metapac.base import ThresholdSets
from metapac.class_matrix import read_class_matrix
from metapac.clusters import ClusterIds, match_clusters
from metapac.monitoring.intake import Clusters, Ranges


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
) -> tuple[Evaluation, Ranges, Clusters | None]:
    """Return what ``Monitor.add_evaluation`` takes: the misses of each task, and its scores.

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
    ranges : mapping from task to a pair of float
        Lowest and highest score of the true labels of each task.
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
    ids = _ids.as_task_ids(tasks)
    ranges = find_ranges(_true_scores(promise, scores, labels, classes), ids.tolist())
    if clusters is None:
        return evaluation, ranges, None
    names = evaluation.tasks.tolist()
    return evaluation, ranges, dict(zip(names, match_clusters(names, ids, clusters), strict=True))


def _true_scores(
    promise: ThresholdSets, scores: Any, labels: Any, classes: Sequence[Any] | None
) -> Any:
    """Return the scores of the true labels, which may be given among those of all classes."""
    array = _scores.as_calibration_scores("scores", scores)
    if array.ndim == 1:
        return array
    matrix = read_class_matrix(scores, labels, classes or promise._known_classes)
    assert matrix is not None
    return matrix.true_scores


def find_ranges(scores: Any, tasks: list[Any]) -> dict[Any, tuple[float, float]]:
    """Return the lowest and the highest score of each task.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Scores of the true labels.
    tasks : list
        Task of each of them.

    Returns
    -------
    dict from task to a pair of float
        The two scores.
    """
    ranges: dict[Any, tuple[float, float]] = {}
    for task, score in zip(tasks, scores.tolist(), strict=True):
        low, high = ranges.get(task, (score, score))
        ranges[task] = min(low, score), max(high, score)
    return ranges

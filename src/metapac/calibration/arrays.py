"""The first step on arrays: labelled examples are read, checked, and become evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from metapac import _checks, _ids, _scores
from metapac.class_matrix import ClassMatrix, read_class_matrix
from metapac.clusters import ClusterIds, match_clusters
from metapac.context import Context, as_context
from metapac.evidence import Evidence, collect_evidence
from metapac.evidence.joining import with_classes
from metapac.guarantee import Guarantee
from metapac.meaning.checks import check_examples, check_levels
from metapac.meaning.findings import check_allowed
from metapac.meaning.sets import Sample


def collect_from_arrays(
    guarantee: Guarantee,
    scores: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    labels: ArrayLike | None,
    classes: Sequence[Any] | None,
    allow: Iterable[str],
) -> Evidence:
    """Return the evidence of the scores of true labels, or of all classes.

    Parameters
    ----------
    guarantee : Guarantee
        What is to be guaranteed.
    scores : array_like, shape (n,) or (n, classes)
        Scores of the true labels, or with ``labels`` those of all classes.
    tasks : array_like, shape (n,)
        Task of each example.
    labels : array_like, shape (n,), or None
        True label of each example.
    classes : sequence or None
        Class of each column of ``scores``.
    allow : iterable of str
        Checks of the data to skip.

    Returns
    -------
    Evidence
        The threshold of each task, at each level.
    """
    check_guarantee_levels(guarantee, allow)
    ids = _ids.as_task_ids(tasks)
    matrix = read_class_matrix(scores, labels, classes)
    if matrix is None:
        evidence = collect_evidence(guarantee, scores, tasks, labels)
    else:
        _checks.check_same_length("scores", matrix.scores, "tasks", ids)
        evidence = _collect_from_matrix(guarantee, matrix, tasks)
    skipped = check_allowed(allow) | ({"duplicates"} if not evidence.may_repeat else set())
    sample = check_meaning(evidence.names.tolist(), ids, scores, matrix, skipped)
    return evidence._replace(sample=sample)


def _collect_from_matrix(guarantee: Guarantee, matrix: ClassMatrix, tasks: Any) -> Evidence:
    """Return the evidence of a matrix; with ``per_class``, in the order of its columns."""
    columns = {"classes": _ids.as_json_labels(matrix.classes)}
    if not guarantee.per_class:
        evidence = collect_evidence(guarantee, matrix.true_scores, tasks)
    else:
        evidence = collect_evidence(guarantee, matrix.true_scores, tasks, matrix.labels)
        evidence = with_classes(evidence, matrix.classes)
    return evidence._replace(columns=columns)


def draw_from_clusters(
    evidence: Evidence,
    tasks: ArrayLike | Iterable[object],
    clusters: ClusterIds,
    rng: int,
    context: Context | None,
    allow: Iterable[str],
) -> Evidence:
    """Return the evidence of one random task of each cluster.

    Parameters
    ----------
    evidence : Evidence
        The evidence of all tasks.
    tasks : array_like, shape (n,)
        Task of each example.
    clusters : array_like, shape (n,), or mapping from task
        Cluster of each example or task.
    rng : int
        Seed of the draw.
    context : Context or None
        What the guarantee is about; none of the tasks, drawn or not, may have been trained on.
    allow : iterable of str
        Checks of the data to skip.

    Returns
    -------
    Evidence
        That of the tasks drawn.
    """
    names = evidence.names.tolist()
    as_context(context, names, allow)
    return evidence.draw_from(match_clusters(names, _ids.as_task_ids(tasks), clusters), rng)


def check_guarantee_levels(guarantee: Guarantee, allow: Iterable[str]) -> None:
    """Check that the levels of a guarantee are failure rates, not confidences.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    allow : iterable of str
        Checks to skip.
    """
    check_levels(guarantee.epsilon, guarantee.alpha, guarantee.delta, allow=allow)


def check_meaning(
    names: Iterable[Any],
    ids: Any,
    scores: ArrayLike,
    matrix: ClassMatrix | None,
    allow: Iterable[str],
) -> Sample | None:
    """Check that the data mean what they should, once their form is known to be right.

    Parameters
    ----------
    names : iterable
        The tasks.
    ids : ndarray, shape (n,)
        Task of each example.
    scores : array_like
        The scores, as they were passed.
    matrix : ClassMatrix or None
        The scores of all classes; None if only true labels have scores.
    allow : iterable of str
        Checks to skip.

    Returns
    -------
    Sample or None
        What `check_examples` returns.
    """
    if matrix is None:
        array = _scores.as_calibration_scores("scores", scores)
        return check_examples(names, ids, array, allow=allow)
    of_classes = matrix.scores, matrix.codes
    return check_examples(names, ids, *of_classes, classes=matrix.classes, allow=allow)

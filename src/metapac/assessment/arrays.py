"""A guarantee compared with labelled new tasks in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac import _checks, _ids, _scores
from metapac._types import Array, Counts
from metapac.assessment.comparison import assess
from metapac.assessment.counts import SetCounts, Tally, sum_by
from metapac.assessment.evaluation import Evaluation
from metapac.base import ThresholdSets
from metapac.class_matrix import ClassMatrix, read_class_matrix
from metapac.clusters import ClusterIds, match_clusters
from metapac.exceptions import InvalidInput, Parameter
from metapac.meaning.checks import check_examples
from metapac.meaning.duplicates import find_ranges
from metapac.meaning.findings import check_allowed


def evaluate(
    promise: ThresholdSets,
    scores: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    labels: ArrayLike | None = None,
    *,
    classes: Sequence[Any] | None = None,
    clusters: ClusterIds | None = None,
    min_examples: int = 0,
    false_alarm: float = 0.05,
    model: str | None = None,
    allow: Iterable[str] = (),
) -> Evaluation:
    """Compare a guarantee with labelled new tasks: misses, set sizes, and the verdict.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    scores : array_like, shape (n,) or (n, classes)
        Scores of the true labels; or scores of every class, which needs ``labels`` and gives set
        sizes too.
    tasks : array_like, shape (n,)
        Task of each example.
    labels : array_like, shape (n,), optional
        True label of each example, for misses per class.
    classes : sequence, optional
        Names of the columns of ``scores``; by default those of the calibration, or 0, 1, ...
    clusters : array_like, shape (n,), or mapping from task, optional
        Clusters, as in ``MetaPS.calibrate``: one random task of each new cluster is judged. Needed
        if it was calibrated with clusters.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with a guarantee per class, of the class). The
        verdict is then about tasks with at least this many.
    false_alarm : float, default 0.05
        Probability that the verdict is wrong.
    model : str, optional
        Name of the model that gave the scores, to be compared with the calibrated one.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.
        "overlap" takes tasks with the name of a calibration, training or pilot task for new ones.

    Returns
    -------
    Evaluation
        The comparison.

    Raises
    ------
    InvalidInput
        If the arrays do not match, if a check objects, or if no new task is left.

    Examples
    --------
    >>> from metapac import PS, evaluate
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> scores = [[0.9, 0.1], [0.6, 0.0]]
    >>> result = evaluate(promise, scores, ["a", "b"], ["cat", "dog"], classes=["cat", "dog"])
    >>> [(part.label, part.missed, part.examples) for part in result.classes]
    [('cat', 0, 1), ('dog', 1, 1)]
    >>> result.sizes
    array([2., 1.])
    """
    promise.check_calibrated()
    promise.context_.check_model(model)
    allowed = sorted(check_allowed(allow))
    ids = _ids.as_task_ids(tasks)
    matrix = _read_matrix(promise, scores, labels, classes)
    array = _scores.as_calibration_scores("scores", scores)
    _checks.check_same_length("scores", array, "tasks", ids)
    names, task = _number(ids)
    if matrix is not None:
        tally = _count_sets(_keep(promise, scores), matrix, names, task)
        codes, columns, true = matrix.codes, matrix.classes, matrix.true_scores
    else:
        known, label = _match_labels(promise, labels, array)
        tally = _count(names, task, known, label, _find_missed(promise, scores, label))
        codes, columns, true = None, None, array
    check_examples(
        names.tolist(),
        ids,
        array,
        codes,
        classes=columns,
        calibration=promise._score_range,
        allow=allowed,
    )
    tally = tally._replace(ranges=find_ranges(task, true, true, len(names)))
    if clusters is not None:
        tally = tally._replace(clusters=match_clusters(names.tolist(), ids, clusters))
    return assess(promise, tally, min_examples=min_examples, false_alarm=false_alarm, allow=allowed)


def _keep(promise: ThresholdSets, scores: Any) -> Array:
    """Return the sets of ``predict_set``, without its warning: the scale is checked anyway."""
    promise._check_order(scores, None)
    return promise._at_least(scores, promise._result()[1])


def _read_matrix(
    promise: ThresholdSets, scores: Any, labels: Any, classes: Sequence[Any] | None
) -> ClassMatrix | None:
    """Return the scores of all classes; None if scores are those of true labels."""
    array = _scores.as_calibration_scores("scores", scores)
    if array.ndim == 1:
        if classes is not None:
            text = "{} names the columns of a matrix, got scores of shape {}. Leave it out."
            raise InvalidInput(text, Parameter("classes"), array.shape)
        return None
    if labels is None:
        text = "{} must hold the true label of each example, since scores has shape {}."
        raise InvalidInput(text, Parameter("labels"), array.shape)
    return read_class_matrix(scores, labels, promise._known_classes if classes is None else classes)


def _number(ids: Array) -> tuple[Array, Counts]:
    """Return the distinct ids in ascending order, and the index of each id in them."""
    listed = ids.tolist()
    names = _ids.as_task_names([*dict.fromkeys(listed)])
    names = names[np.argsort(names, kind="stable")]
    place = {name: i for i, name in enumerate(names.tolist())}
    return names, np.array([place[name] for name in listed], dtype=np.int64)


def _match_labels(
    promise: ThresholdSets, labels: Any, scores: Array
) -> tuple[Sequence[Any] | None, Counts | None]:
    """Return the classes, and for each example the index of its class; None without labels."""
    if labels is None:
        return None, None
    present, codes = _ids.as_class_codes(labels)
    _checks.check_same_length("labels", codes, "scores", scores)
    classes = promise.classes_ or present
    place = {str(name): i for i, name in enumerate(classes)}
    unknown = [name for name in present if str(name) not in place]
    if unknown:
        text = "{} must be among the calibrated classes {}, got {}."
        names = (_checks.listed([*map(repr, some)]) for some in (classes, unknown))
        raise InvalidInput(text, Parameter("labels"), *names)
    return classes, np.array([place[str(name)] for name in present])[codes]


def _find_missed(promise: ThresholdSets, scores: Any, label: Counts | None) -> Array:
    """Return which examples are missed, by the scores of their true labels."""
    if promise.classes_ is None:
        return ~_keep(promise, scores)
    if label is None:
        text = "{} must hold the true label of each example, since each class has its guarantee."
        raise InvalidInput(text, Parameter("labels"))
    return ~promise._at_least(scores, promise.thresholds_[label])


def _count_sets(sets: Array, matrix: ClassMatrix, names: Array, task: Counts) -> Tally:
    """Count the examples, misses and set sizes of each task and class."""
    missed = ~sets[np.arange(len(sets)), matrix.codes]
    size = np.count_nonzero(sets, axis=1)
    kinds = SetCounts(*map(np.asarray, (size, size == 0, size == 1, size == sets.shape[1])))
    return _count(names, task, matrix.classes, matrix.codes, missed, kinds)


def _count(
    names: Array,
    task: Counts,
    classes: Sequence[Any] | None,
    label: Counts | None,
    missed: Array,
    sets: SetCounts | None = None,
) -> Tally:
    """Sum over the examples of each task and class that occur together."""
    width = 1 if classes is None else len(classes)
    key = task * width + (0 if label is None else label)
    groups, place = np.unique(key, return_inverse=True)
    length = len(groups)
    return Tally(
        names,
        groups // width,
        sum_by(np.ones(len(task), np.int64), place, length),
        sum_by(missed, place, length),
        None if sets is None else sets.sum_by(place, length),
        classes,
        None if label is None else groups % width,
    )

"""The first step on arrays: evidence from the scores of the true labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac.evidence.evidence import Evidence
from metapac.exceptions import InvalidInput
from metapac.grouping import group, group_by_class, task_thresholds
from metapac.guarantee import Guarantee
from metapac.task_ranks import ranks_by_class, ranks_within


def collect_evidence(
    guarantee: Guarantee,
    scores: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    labels: ArrayLike | None = None,
) -> Evidence:
    """Take the first step on arrays: find a threshold for each task, at each level.

    Parameters
    ----------
    guarantee : Guarantee
        What is to be guaranteed.
    scores : array_like, shape (n,)
        Scores of the true labels; higher means more plausible.
    tasks : array_like, shape (n,)
        Task of each example.
    labels : array_like, shape (n,), optional
        True label of each example. Needed with ``per_class``, and only then.

    Returns
    -------
    Evidence
        What `MetaPS.from_evidence` takes.
    """
    if guarantee.per_class:
        return _by_class(guarantee, scores, tasks, labels)
    if labels is not None:
        raise InvalidInput(
            "labels must not be passed unless per_class=True: the scores must already be those of "
            "the true labels."
        )
    grouped = group(scores, tasks)
    ranks = ranks_within(grouped.sizes, guarantee)
    thresholds, lowest, highest, may_repeat = task_thresholds(grouped, ranks)
    return Evidence(
        grouped.names,
        grouped.sizes[:, None],
        thresholds[:, None],
        lowest.min(keepdims=True),
        grouped.scores.dtype,
        highest=highest.max(keepdims=True),
        ranges=np.stack([lowest, highest], axis=1),
        may_repeat=may_repeat,
    )


def _by_class(
    guarantee: Guarantee, scores: ArrayLike, tasks: ArrayLike | Iterable[object], labels: Any
) -> Evidence:
    if labels is None:
        raise InvalidInput("labels must hold the true label of each example if per_class=True.")
    names, classes, task, label, groups = group_by_class(scores, tasks, labels)
    ranks = ranks_by_class(groups.sizes, label, classes, guarantee)
    thresholds, lowest, highest, _may_repeat = task_thresholds(groups, ranks)
    return Evidence.from_groups(
        names,
        classes,
        task,
        label,
        sizes=groups.sizes,
        thresholds=thresholds,
        lowest=lowest,
        highest=highest,
        precision=groups.scores.dtype,
    )

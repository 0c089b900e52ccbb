"""Both ends of a federated calibration: the numbers that a site sends, and the evidence in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, _ids, _scores
from metapac.calibration.arrays import check_guarantee_levels
from metapac.evidence import Evidence, collect_evidence
from metapac.exceptions import InvalidInput
from metapac.guarantee import Guarantee
from metapac.meaning.checks import check_examples, check_sites
from metapac.outcome import UNKNOWN


def find_task_thresholds(
    guarantee: Guarantee, scores: ArrayLike, allow: Iterable[str]
) -> NDArray[Any]:
    """Return what the site of one task sends.

    Parameters
    ----------
    guarantee : Guarantee
        What is to be guaranteed.
    scores : array_like, shape (n,)
        Scores of the true labels of the task.
    allow : iterable of str
        Checks of the data to skip.

    Returns
    -------
    ndarray, shape (levels,)
        The threshold at each level, in the precision of the scores.
    """
    array = _scores.as_calibration_scores("scores", scores)
    one_task = np.zeros(array.shape, np.int64)
    evidence = collect_evidence(guarantee, array, one_task)
    check_guarantee_levels(guarantee, allow)
    check_examples([0], one_task, array, allow=allow)
    return np.asarray(evidence.thresholds[0, 0].astype(array.dtype))


def read_task_thresholds(
    guarantee: Guarantee,
    task_thresholds: ArrayLike | Mapping[Any, Any],
    tasks: ArrayLike | Iterable[object] | None,
    sizes: ArrayLike | Mapping[Any, int] | None,
    allow: Iterable[str],
) -> Evidence:
    """Return the evidence in what `find_task_thresholds` returned at each site.

    Parameters
    ----------
    guarantee : Guarantee
        What is to be guaranteed.
    task_thresholds : array_like or mapping from task
        What each task sent.
    tasks : array_like or None
        Names of the tasks; None with a mapping, and for 0, 1, and so on.
    sizes : array_like or mapping from task, or None
        Number of examples of each task.
    allow : iterable of str
        Checks of the data to skip.

    Returns
    -------
    Evidence
        The threshold of each task, at each level. The lowest score is not known.
    """
    if isinstance(task_thresholds, Mapping):
        if tasks is not None:
            raise InvalidInput("tasks must not be passed when task_thresholds is a mapping.")
        tasks = list(task_thresholds)
        task_thresholds = list(task_thresholds.values())
    precision = _scores.coarsest_precision(_scores.get_precisions(task_thresholds))
    array = _scores.as_score_array("task_thresholds", task_thresholds)
    matrix = _scores.as_threshold_matrix(array, levels=len(guarantee.levels))
    names = _name_tasks(tasks, matrix)
    check_guarantee_levels(guarantee, allow)
    check_sites(names.tolist(), allow=allow)
    unknown = np.full(len(matrix), UNKNOWN)
    sent = Evidence(
        _ids.as_task_names(names.tolist()),
        (unknown if sizes is None else _ids.as_task_sizes(sizes, names))[:, None],
        matrix.astype(np.float64)[:, None],
        np.array([-np.inf]),  # sites do not send their lowest score
        precision,
    )
    sent.check_certified(guarantee)
    return sent


def _name_tasks(tasks: Any, matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the names of the tasks, which are distinct; by default 0, 1, and so on."""
    names = np.arange(len(matrix)) if tasks is None else _ids.as_task_ids(tasks)
    _checks.check_same_length("task_thresholds", matrix, "tasks", names)
    _ids.check_distinct(names.tolist())
    return names

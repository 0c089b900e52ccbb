"""The two steps on arrays: evidence from scores or from sites, and whether it suffices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import planning
from metapac._common import (
    Floats,
    check_one_of,
    check_same_index,
    check_same_length,
    check_same_shape,
    warn,
)
from metapac.context import Context, as_context
from metapac.data_checks import Sample, check_examples, check_levels, check_sites
from metapac.errors import InfeasibleGuarantee, InvalidInput
from metapac.evidence import (
    UNKNOWN,
    ClusterIds,
    Evidence,
    collect_evidence,
    match_clusters,
    with_classes,
)
from metapac.findings import MIN_ROWS, CheckWarning, check_allowed
from metapac.guarantee import Guarantee
from metapac.inputs import (
    ClassMatrix,
    as_calibration_scores,
    as_json_labels,
    as_number_array,
    as_score_array,
    as_task_ids,
    as_task_names,
    as_task_sizes,
    as_threshold_matrix,
    check_distinct,
    coarsest_precision,
    find_names,
    get_precisions,
    read_class_matrix,
)
from metapac.sets import residual_scores

ON_INFEASIBLE = ("raise", "trivial")


def check_on_infeasible(value: str) -> None:
    """Raise InvalidInput unless ``value`` is one of ``ON_INFEASIBLE``."""
    check_one_of("on_infeasible", value, ON_INFEASIBLE)


def check_feasible(guarantee: Guarantee, evidence: Evidence, on_infeasible: str) -> list[bool]:
    """Return what the tasks are enough for: each class, or all of them together."""
    demands = [part.demand() for part in evidence.parts(guarantee)]
    feasible = [demand.is_feasible() for demand in demands]
    if on_infeasible == "raise" and not all(feasible):
        is_interval = "prediction" in (evidence.columns or {})
        message = planning.explain_too_few_tasks(demands, is_interval=is_interval)
        if evidence.clusters is not None:
            message = planning.add_clusters(message, evidence.clusters)
        raise InfeasibleGuarantee(message)
    return feasible


def collect_from_arrays(
    guarantee: Guarantee,
    scores: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    labels: ArrayLike | None,
    classes: Sequence[Any] | None,
    allow: Iterable[str],
) -> Evidence:
    """Return the evidence of the scores of true labels, or of all classes."""
    check_guarantee_levels(guarantee, allow)
    ids = as_task_ids(tasks)
    matrix = read_class_matrix(scores, labels, classes)
    if matrix is None:
        evidence = collect_evidence(guarantee, scores, tasks, labels)
    else:
        check_same_length("scores", matrix.scores, "tasks", ids)
        evidence = _collect_from_matrix(guarantee, matrix, tasks)
    skipped = check_allowed(allow) | ({"duplicates"} if not evidence.may_repeat else set())
    sample = check_meaning(evidence.names.tolist(), ids, scores, matrix, skipped)
    return evidence._replace(sample=sample)


def _collect_from_matrix(guarantee: Guarantee, matrix: ClassMatrix, tasks: Any) -> Evidence:
    """Return the evidence of a matrix; with ``per_class``, in the order of its columns."""
    columns = {"classes": as_json_labels(matrix.classes)}
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
    """Return the evidence of one random task of each cluster."""
    names = evidence.names.tolist()
    as_context(context, names, allow)
    return evidence.draw_from(match_clusters(names, as_task_ids(tasks), clusters), rng)


def check_guarantee_levels(guarantee: Guarantee, allow: Iterable[str]) -> None:
    """Check that the levels of a guarantee are failure rates, not confidences."""
    check_levels(guarantee.epsilon, guarantee.alpha, guarantee.delta, allow=allow)


def check_meaning(
    names: Iterable[Any],
    ids: Any,
    scores: ArrayLike,
    matrix: ClassMatrix | None,
    allow: Iterable[str],
) -> Sample | None:
    """Check that the data mean what they should, once their form is known to be right."""
    if matrix is None:
        array = as_calibration_scores("scores", scores)
        return check_examples(names, ids, array, allow=allow)
    of_classes = matrix.scores, matrix.codes
    return check_examples(names, ids, *of_classes, classes=matrix.classes, allow=allow)


def score_numbers(
    y: ArrayLike,
    prediction: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    scale: ArrayLike | None,
) -> Floats:
    """Return the residual scores of numbers that were predicted, one for each example."""
    scales = 1.0 if scale is None else scale
    target = as_number_array("y", y, beside_tasks=True)
    if target.ndim != 1:
        raise InvalidInput(
            f"y must be one-dimensional, got shape {target.shape}. Pass one number for each "
            "example.",
            parameter="y",
        )
    if not len(target):
        raise InvalidInput("y is empty; pass at least one labelled example.", parameter="y")
    for name, values in (("prediction", prediction), ("scale", scales)):
        array = as_number_array(name, values, beside_tasks=True)
        if array.ndim or name == "prediction":
            check_same_shape("y", target, name, array)
        check_same_index("y", y, name, values)
    check_same_index("y", y, "tasks", tasks)
    check_same_length("y", target, "tasks", as_task_ids(tasks))
    return residual_scores(y, prediction, scales)


def name_columns(
    y: ArrayLike,
    prediction: ArrayLike,
    tasks: ArrayLike | Iterable[object],
    scale: ArrayLike | None,
) -> dict[str, str]:
    """Return the columns that a table of these numbers has; they mark sets as intervals."""
    numbers = {"prediction": prediction, "y": y} | ({} if scale is None else {"scale": scale})
    return {name: name for name in numbers} | find_names(task=tasks, **numbers)


def warn_if_exact(evidence: Evidence) -> None:
    """Warn if every prediction equals its true value, as a copied column does."""
    if evidence.lowest.min() == 0 and evidence.sizes.sum() >= MIN_ROWS:
        text = (
            "every prediction equals its true value. Is it a copy of the true value, or has the "
            "model been trained on these examples? Pass predictions for examples that it has not "
            "seen."
        )
        warn(CheckWarning(text))


def find_task_thresholds(
    guarantee: Guarantee, scores: ArrayLike, allow: Iterable[str]
) -> NDArray[Any]:
    """Return what the site of one task sends."""
    array = as_calibration_scores("scores", scores)
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
    """Return the evidence in what `find_task_thresholds` returned at each site."""
    if isinstance(task_thresholds, Mapping):
        if tasks is not None:
            raise InvalidInput("tasks must not be passed when task_thresholds is a mapping.")
        tasks = list(task_thresholds)
        task_thresholds = list(task_thresholds.values())
    precision = coarsest_precision(get_precisions(task_thresholds))
    array = as_score_array("task_thresholds", task_thresholds)
    matrix = as_threshold_matrix(array, levels=len(guarantee.levels))
    names = _name_tasks(tasks, matrix)
    check_guarantee_levels(guarantee, allow)
    check_sites(names.tolist(), allow=allow)
    unknown = np.full(len(matrix), UNKNOWN)
    sent = Evidence(
        as_task_names(names.tolist()),
        (unknown if sizes is None else as_task_sizes(sizes, names))[:, None],
        matrix.astype(np.float64)[:, None],
        np.array([-np.inf]),  # sites do not send their lowest score
        precision,
    )
    sent.check_certified(guarantee)
    return sent


def _name_tasks(tasks: Any, matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the names of the tasks, which are distinct; by default 0, 1, and so on."""
    names = np.arange(len(matrix)) if tasks is None else as_task_ids(tasks)
    check_same_length("task_thresholds", matrix, "tasks", names)
    check_distinct(names.tolist())
    return names

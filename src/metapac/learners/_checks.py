"""Checks of the input and output of learners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metapac._checks import as_whole_number, brief, on_host
from metapac._types import Array, Counts, Floats
from metapac.exceptions import InvalidInput


def as_support_set(support_x: Any, support_y: Any, classes: int | None) -> tuple[Counts, int]:
    """Return the support labels as int64, and the number of labels of the task."""
    labels = np.asarray(on_host(support_y))
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise InvalidInput(
            "support_y must hold one whole number for each example, 0 .. classes - 1, got "
            f"{labels.dtype} of shape {labels.shape}. Number the labels of a task with "
            "np.unique(y, return_inverse=True)."
        )
    if len(labels) != count_examples(support_x):
        raise InvalidInput(
            f"support_x and support_y must have the same length, got {count_examples(support_x)} "
            f"and {len(labels)}. Pass one label for every example."
        )
    if not len(labels):
        raise InvalidInput(
            "support_y is empty; a learner needs at least one labelled example to adapt to. "
            "For a model that is not adapted use FixedModel."
        )
    total = int(labels.max()) + 1 if classes is None else as_whole_number("classes", classes)
    if labels.min() < 0 or labels.max() >= total:
        outside = labels[(labels < 0) | (labels >= total)][0]
        raise InvalidInput(
            f"support_y must hold labels 0 .. {max(total, 1) - 1}, got {outside}. "
            "Number the labels of a task from 0, and pass classes= the number of them."
        )
    return labels.astype(np.int64), total


def as_probabilities(
    source: str, values: Any, *, rows: int, min_columns: int, max_columns: int | None
) -> Floats:
    """Return the output of ``source`` as a matrix of probabilities, checked."""
    array = np.asarray(on_host(values))
    fits = array.ndim == 2 and min_columns <= array.shape[1] <= (max_columns or array.shape[1])
    if not fits or len(array) != rows:
        columns = f"{min_columns} to {max_columns}"
        if max_columns is None:
            columns = f"at least {min_columns}"
        elif min_columns == max_columns:
            columns = f"{max_columns}"
        raise InvalidInput(
            f"{source} must return a row for each example and a column for each label, "
            f"({rows}, {columns}), got shape {array.shape}. "
            "Column j is the probability of label j."
        )
    array = array if array.dtype.kind == "f" else array.astype(np.float64)
    if array.size and not array.min() >= 0:  # a NaN fails this too
        raise InvalidInput(
            f"{source} must return probabilities, none negative and none NaN, got "
            f"{array[~(array >= 0)][0]}. Pass logits through a softmax first."
        )
    return array


def check_classifier(estimator: Any) -> None:
    """Raise unless ``estimator`` can be cloned and fitted, and predicts probabilities."""
    for method in ("get_params", "fit", "predict_proba"):
        if isinstance(estimator, type) or not hasattr(estimator, method):
            raise InvalidInput(
                f"estimator must be a scikit-learn classifier with {method}, got "
                f"{brief(estimator)}. Pass an instance that predicts probabilities, for example "
                "LogisticRegression(), or wrap yours in CalibratedClassifierCV."
            )


def check_fixed_model(model: Any) -> None:
    """Raise unless ``model`` is a fitted classifier or a function."""
    if isinstance(model, type) or not (hasattr(model, "predict_proba") or callable(model)):
        raise InvalidInput(
            "predict_proba must be a fitted classifier or a function from examples to "
            f"probabilities, got {brief(model)}. Pass the method itself if it has another name."
        )


def check_function(function: Any) -> None:
    """Raise unless ``function`` is callable."""
    if not callable(function):
        raise InvalidInput(
            "function must be callable as function(support_x, support_y, x), got "
            f"{brief(function)}."
        )


def count_known_labels(labels: Array, classes: int | None) -> int:
    """Return the number of labels of a task, checked against those a model was fitted on."""
    numbered = labels.dtype.kind in "iub" and labels.min() >= 0
    if numbered and (classes is None or labels.max() < classes):
        return int(labels.max()) + 1 if classes is None else classes
    last = "classes - 1" if classes is None else classes - 1
    raise InvalidInput(
        f"the model was fitted on labels {brief(labels.tolist())}, but the task has labels 0 .. "
        f"{last}. Fit it on labels numbered from 0, and pass classes= the number of them."
    )


def count_examples(x: Any) -> int:
    """Return the number of examples in an array, tensor, table, sparse matrix or list."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def check_finite_embeddings(z: Any) -> None:
    """Raise if an embedding is not finite; the mean over the pool would spread it to all."""
    bad = (~z.isfinite()).any(-1).nonzero().flatten().tolist()
    if bad:
        raise InvalidInput(
            f"{len(bad)} of {len(z)} examples of the pool have embeddings that are not finite "
            f"(first at position {bad[0]}). Check x for NaN, and that training did not diverge."
        )


def check_pool_of_task(task: Any, x: Any, rows: int) -> None:
    """Raise if a task holds positions in other data, or has no support examples."""
    if (x is not None and task.x is not x) or len(task.x) != rows:
        raise InvalidInput(
            f"task {task.name!r} belongs to another pool than these embeddings. "
            "Embed its pool with learner.bank(pool.x)."
        )
    if not len(task.support):
        raise InvalidInput(f"task {task.name!r} has no support examples. Draw it with shots >= 1.")


def check_one_support_size(tasks: Sequence[Any]) -> None:
    """Raise unless all tasks have equally many support examples."""
    sizes = sorted({len(task.support) for task in tasks})
    if len(sizes) != 1:
        got = f"sizes {sizes[0]} and {sizes[1]}" if sizes else "no task"
        raise InvalidInput(
            f"tasks must have support sets of one size, got {got}. "
            "Pass the tasks of each size in a separate call."
        )

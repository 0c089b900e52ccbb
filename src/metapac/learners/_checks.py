"""Checks of the input and output of learners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac._checks import as_whole_number, brief, on_host
from metapac._types import Array, Counts, Floats
from metapac._warnings import warn
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


def as_outputs(
    source: str, values: Any, *, kind: str, rows: int, min_columns: int, max_columns: int | None
) -> Floats:
    """Return the output of ``source`` as a matrix of probabilities, logits or scores, checked."""
    array = np.asarray(on_host(values))
    fits = array.ndim == 2 and min_columns <= array.shape[1] <= (max_columns or array.shape[1])
    if not fits or len(array) != rows:
        columns = f"{min_columns} to {max_columns}"
        if max_columns is None:
            columns = f"at least {min_columns}"
        elif min_columns == max_columns:
            columns = f"{max_columns}"
        what = "probability" if kind == "probabilities" else kind.removesuffix("s")
        raise InvalidInput(
            f"{source} must return a row for each example and a column for each label, "
            f"({rows}, {columns}), got shape {array.shape}. "
            f"Column j is the {what} of label j."
        )
    array = array if array.dtype.kind == "f" else array.astype(np.float64)
    if kind == "probabilities":
        _check_probabilities(source, array)
    else:
        _check_scores(source, array, kind)
    return array


def _check_scores(source: str, array: Floats, kind: str) -> None:
    """Raise if logits or scores cannot be compared; warn if logits look like probabilities."""
    if np.isnan(array).any() or (kind == "logits" and np.isposinf(array).any()):
        found = "NaN" if np.isnan(array).any() else "infinity"
        raise InvalidInput(
            f"{source} must return {kind} that can be compared, got {found}. Give labels that are "
            "impossible -inf."
        )
    if kind == "logits" and _look_like_probabilities(array):
        warn(
            f"{source} returns numbers that add up to 1 for each example, as probabilities do, and "
            "they are taken for logits. If they are probabilities, say outputs='probabilities'."
        )


def _look_like_probabilities(array: Floats) -> bool:
    """Return whether all numbers are at least 0, and every row adds up to 1.

    Whole numbers, such as counts of words, and fewer than eight rows can do so by coincidence.
    """
    if len(array) < 8 or array.shape[1] < 2 or not array.min() >= 0:
        return False
    if np.array_equal(array, np.floor(array)):
        return False
    return bool(np.allclose(array.sum(1, dtype=np.float64), 1, atol=1e-3))


def _check_probabilities(source: str, array: Floats) -> None:
    """Raise unless all numbers are at least 0, and none of the rows adds up to more than 1."""
    if not array.size:
        return
    remedy = (
        "If they are logits, log-probabilities or minus distances, say outputs='logits'; if they "
        "are any other scores, outputs='scores'."
    )
    if not array.min() >= 0:  # a NaN fails this too
        raise InvalidInput(
            f"{source} must return probabilities, none negative and none NaN, got "
            f"{array[~(array >= 0)][0]}. {remedy}"
        )
    most = float(array.sum(1, dtype=np.float64).max())
    if most > 1 + max(1e-3, 4 * float(np.finfo(array.dtype).eps)):
        raise InvalidInput(
            f"{source} must return probabilities, which add up to at most 1 for each example, got "
            f"a row that adds up to {most:.6g}. {remedy}"
        )


def as_vectors(name: str, x: Any, *, columns: int | None = None) -> NDArray[np.float64]:
    """Return vectors in float64, one in a row, all finite and of one length."""
    width = count_columns(name, x)
    if columns is not None and width != columns:
        raise InvalidInput(
            f"{name} must hold vectors of length {columns}, as the support set does, got {width}. "
            "Embed all examples with one encoder."
        )
    vectors = np.asarray(on_host(x)).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(bad):
        raise InvalidInput(
            f"{name} must hold finite numbers, got {len(bad)} of {len(vectors)} vectors with NaN "
            f"or infinity (first at position {bad[0]}). Drop those examples, or embed them again."
        )
    return vectors


def count_columns(name: str, x: Any) -> int:
    """Return the length of the vectors in a matrix of numbers."""
    array = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(on_host(x))
    kind = getattr(array.dtype, "kind", "f")
    if len(array.shape) != 2 or kind not in "fiub" or not array.shape[1]:
        raise InvalidInput(
            f"{name} must hold one vector for each example, as numbers of shape (n, d), got "
            f"{array.dtype} of shape {tuple(array.shape)}. Pass the embeddings of an encoder, or "
            "x.reshape(len(x), -1)."
        )
    return int(array.shape[1])


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


def name_function(function: Any, fallback: str) -> str:
    """Return what a user calls their function, or ``fallback`` if it has no name."""
    inner = getattr(function, "func", function)  # of functools.partial
    name = getattr(inner, "__name__", type(inner).__name__)
    return fallback if name == "<lambda>" else str(name)


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

"""Every check of what a learner is given, and every message it can raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks

Array = NDArray[Any]
Labels = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


def support_set(support_x: Any, support_y: Any, classes: int | None) -> tuple[Labels, int]:
    """Return the support labels as int64 and the number of labels the task knows."""
    labels = np.asarray(on_host(support_y))
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise ValueError(
            "support_y must hold one whole number for each example, 0 .. classes - 1, got "
            f"{labels.dtype} of shape {labels.shape}. Number the labels of a task with "
            "np.unique(y, return_inverse=True)."
        )
    if len(labels) != length(support_x):
        raise ValueError(
            f"support_x and support_y must have the same length, got {length(support_x)} and "
            f"{len(labels)}. Pass one label for every example."
        )
    if not len(labels):
        raise ValueError(
            "support_y is empty; a task is adapted to with at least one labelled example. "
            "For a model that is not adapted use FixedModel."
        )
    known = int(labels.max()) + 1 if classes is None else _checks.whole_number("classes", classes)
    if labels.min() < 0 or labels.max() >= known:
        outside = labels[(labels < 0) | (labels >= known)][0]
        raise ValueError(
            f"support_y must hold labels 0 .. {max(known, 1) - 1}, got {outside}. "
            "Number the labels of a task from 0, and pass classes= the number of them."
        )
    return labels.astype(np.int64), known


def probabilities(source: str, found: Any, *, rows: int, least: int, most: int | None) -> Floats:
    """Return what ``source`` answered as a matrix of ``rows`` and ``least`` .. ``most`` columns."""
    array = np.asarray(on_host(found))
    wide = array.ndim == 2 and least <= array.shape[1] <= (most or array.shape[1])
    if not wide or len(array) != rows:
        columns = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(
            f"{source} must return a row for each example and a column for each label, "
            f"({rows}, {most if least == most else columns}), got shape {array.shape}. "
            "Column j is the probability of label j."
        )
    array = array if array.dtype.kind == "f" else array.astype(np.float64)
    if array.size and not array.min() >= 0:  # a NaN fails this too
        raise ValueError(
            f"{source} must return probabilities, none negative and none NaN, got "
            f"{array[~(array >= 0)][0]}. Pass logits through a softmax first."
        )
    return array


def classifier(estimator: Any) -> None:
    """Refuse what cannot be cloned, fitted and asked for probabilities."""
    for needed in ("get_params", "fit", "predict_proba"):
        if isinstance(estimator, type) or not hasattr(estimator, needed):
            raise ValueError(
                f"estimator must be a scikit-learn classifier with {needed}, got "
                f"{_brief(estimator)}. Pass an instance that gives probabilities, for example "
                "LogisticRegression(), or wrap yours in CalibratedClassifierCV."
            )


def fixed_model(model: Any) -> Any:
    if isinstance(model, type) or not (hasattr(model, "predict_proba") or callable(model)):
        raise ValueError(
            "predict_proba must be a fitted classifier or a function from examples to "
            f"probabilities, got {_brief(model)}. Pass model.predict_proba if it has another name."
        )
    return model


def function(value: Any) -> Any:
    if not callable(value):
        raise ValueError(
            f"function must be callable as function(support_x, support_y, x), got {_brief(value)}."
        )
    return value


def known_labels(labels: Array, classes: int | None) -> int:
    """Return how many labels a task has, checked against those a model was fitted on."""
    numbered = labels.dtype.kind in "iub" and labels.min() >= 0
    if numbered and (classes is None or labels.max() < classes):
        return int(labels.max()) + 1 if classes is None else classes
    last = "classes - 1" if classes is None else classes - 1
    raise ValueError(
        f"the model was fitted on labels {_brief(labels.tolist())}, but the task's are 0 .. "
        f"{last}. Fit it on labels numbered from 0, and pass classes= the number of them."
    )


def on_host(value: Any) -> Any:
    """Bring a torch tensor to NumPy's memory, without importing torch."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def length(x: Any) -> int:
    """Return the number of examples in an array, tensor, table, sparse matrix or list."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _brief(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def finite_embeddings(z: Any) -> None:
    """Refuse embeddings that cannot be compared; a mean over the pool would spread one to all."""
    bad = (~z.isfinite()).any(-1).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"{len(bad)} of {len(z)} examples of the pool have embeddings that are not finite "
            f"(first at position {bad[0]}). Look for NaN in x, or for a training that diverged."
        )


def task_of_pool(task: Any, x: Any, rows: int) -> None:
    """Refuse a task whose positions mean rows of other data, or that has nothing to adapt to."""
    if (x is not None and task.x is not x) or len(task.x) != rows:
        raise ValueError(
            f"task {task.name!r} belongs to another pool than these embeddings. "
            "Make a bank of its own pool with learner.bank(pool.x)."
        )
    if not len(task.support):
        raise ValueError(f"task {task.name!r} has no support examples. Draw it with shots >= 1.")


def one_support_size(tasks: Sequence[Any]) -> None:
    sizes = sorted({len(task.support) for task in tasks})
    if len(sizes) != 1:
        found = f"sizes {sizes[0]} and {sizes[1]}" if sizes else "no task"
        raise ValueError(
            f"tasks must have support sets of one size, a row each, got {found}. "
            "Pass the tasks of each size by themselves."
        )


def own_batch_norm(part_name: str) -> ValueError:
    return ValueError(
        f"backbone normalises each batch by itself ({part_name} keeps no running statistics), so "
        "that scores would depend on each other. Use track_running_stats=True."
    )

"""Scores of all classes, from a fitted classifier or from a learner adapted to a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metapac import _ids, _scores
from metapac._checks import listed, on_host
from metapac._types import Array, Counts, Floats
from metapac._warnings import warn
from metapac.estimators._rows import count_rows
from metapac.estimators._scikit_learn import check_estimator
from metapac.exceptions import InvalidInput, Parameter
from metapac.learners.protocols import adapt_learner


def as_labels(y: Any) -> Array:
    """Return class labels as strings, integers or booleans; whole floats become integers."""
    values = np.asarray(on_host(y)) if hasattr(y, "__array__") else np.fromiter(y, dtype=object)
    if values.ndim == 1 and len(values) and all(isinstance(v, float) for v in values.tolist()):
        values = _as_integers(values.astype(np.float64))
    try:
        names, codes = _ids.as_class_codes(values)
    except InvalidInput as error:
        raise InvalidInput("{} holds the labels: {}", Parameter("y"), error.message) from error
    return np.array(names)[codes]


def find_classes(model: Any, labels: Array) -> Array:
    """Return the classes of a fitted classifier and of the labels; warn of those it lacks."""
    check_estimator(model, "predict_proba", "decision_function")
    known = _known_classes(model)
    if (known.dtype.kind == "U") != (labels.dtype.kind == "U"):
        raise InvalidInput(
            "{} must hold the estimator's classes {}, got {}.",
            Parameter("y"),
            listed([*map(repr, known.tolist())]),
            listed([*map(repr, np.unique(labels).tolist())]),
        )
    classes = np.union1d(known, labels)
    unseen = [repr(name) for name in classes.tolist() if name not in known.tolist()]
    if unseen:
        kind, them = ("class", "it") if len(unseen) == 1 else ("classes", "them")
        warn(
            f"The estimator was not fitted on the {kind} {listed(unseen)}: sets miss {them} unless "
            f"they keep every label. Train on groups that have {them}."
        )
    return classes


def score_classes(model: Any, x: Any, classes: Array) -> Floats:
    """Return the score of each class for each row: its probability, or the decision function.

    A class that the model was not fitted on gets the lowest score: 0, or ``-inf``.
    """
    columns = find_codes(_known_classes(model), classes)
    if hasattr(model, "predict_proba"):
        known = _read_probabilities(model, x, len(columns))
        scores = np.zeros((len(known), len(classes)), dtype=known.dtype)
    else:
        known = _read_decisions(model, x, len(columns))
        scores = np.full((len(known), len(classes)), -np.inf, dtype=known.dtype)
    scores[:, columns] = known
    return scores


def adapt(learner: Any, x: Any, labels: Array, classes: Array) -> Callable[[Any], Floats]:
    """Return a function from rows to probabilities, adapted to the support of one group."""
    codes = find_codes(labels, classes)
    if (codes < 0).any():
        raise InvalidInput(
            "the labels of {} must be among the classes {}, got {!r}.",
            Parameter("support"),
            listed([*map(repr, classes.tolist())]),
            labels[codes < 0].tolist()[0],
        )
    scorer = adapt_learner(learner, x, codes, classes=len(classes))
    return lambda queries: _read_probabilities(scorer, queries, len(classes))


def find_codes(labels: Array, classes: Array) -> Counts:
    """Return the position of each label in the sorted ``classes``; -1 if it is none of them."""
    place = {name: i for i, name in enumerate(classes.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def check_known(labels: Array, classes: Array) -> None:
    """Raise InvalidInput for labels that were not among the classes in ``fit``."""
    unknown = labels[find_codes(labels, classes) < 0]
    if len(unknown):
        raise InvalidInput(
            "{} holds {} of {} rows with classes that fit has not seen ({}; it knows {}). Every "
            "set misses them: leave them out, or fit again with rows of all classes.",
            Parameter("y"),
            len(unknown),
            len(labels),
            listed([*map(repr, np.unique(unknown).tolist())]),
            listed([*map(repr, classes.tolist())]),
        )


def _known_classes(model: Any) -> Array:
    if not hasattr(model, "classes_"):
        raise InvalidInput(
            "{} must have classes_ once it is fitted: the class of each column of its scores.",
            Parameter("estimator"),
        )
    try:
        return as_labels(model.classes_)
    except InvalidInput as error:
        raise InvalidInput(
            "classes_ of {} are not usable: {}", Parameter("estimator"), error.message
        ) from error


def _as_integers(values: Array) -> Array:
    """Return whole floats, which scikit-learn accepts as classes, as integers."""
    if np.isnan(values).any():
        raise InvalidInput("{} holds NaN. Drop the rows without a label.", Parameter("y"))
    is_whole = np.isfinite(values) & (values == np.floor(values))
    if not is_whole.all():
        raise InvalidInput(
            "{} must hold classes, got continuous numbers such as {:g}. For numbers use "
            "MetaPSRegressor.",
            Parameter("y"),
            values[~is_whole][0],
        )
    return values.astype(np.int64)


def _read_probabilities(model: Any, x: Any, columns: int) -> Floats:
    name = f"{type(model).__name__}.predict_proba"
    return _as_matrix(name, _scores.as_score_array(name, model.predict_proba(x)), x, columns)


def _read_decisions(model: Any, x: Any, columns: int) -> Floats:
    """Return the decision function, which has a single column for two classes, with both."""
    name = f"{type(model).__name__}.decision_function"
    values = _scores.as_score_array(name, model.decision_function(x))
    if values.ndim == 1 and columns == 2:
        values = np.stack([-values, values], axis=1)
    return _as_matrix(name, values, x, columns)


def _as_matrix(name: str, values: Floats, x: Any, columns: int) -> Floats:
    """Return scores, once there is one for each row and class, and none is NaN."""
    expected = count_rows("X", x), columns
    if values.shape != expected:
        raise InvalidInput(
            f"{name} must return a row for each example and a column for each class, {expected}, "
            f"got shape {values.shape}."
        )
    _scores.check_no_nan(
        name, values, lambda i: f"in row {i // columns}", "Mend the model, or drop such rows."
    )
    return values

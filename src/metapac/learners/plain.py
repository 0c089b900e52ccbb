"""Learners without torch: scikit-learn estimators, fixed models, any function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac.learners import _checks

Array = NDArray[Any]
Floats = NDArray[np.floating[Any]]


class SklearnLearner:
    """A scikit-learn classifier, cloned and fitted on each support set.

    A support set of one label leaves nothing to fit: that label gets probability 1. Examples of
    more than two dimensions, such as images, are flattened to rows. Give a randomised estimator a
    ``random_state``, or each adaptation differs.
    """

    def __init__(self, estimator: Any) -> None:
        _checks.classifier(estimator)
        self.estimator = estimator

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> EstimatorScorer:
        """Return a fresh clone fitted on the support set."""
        labels, known = _checks.support_set(support_x, support_y, classes)
        if labels.min() == labels.max():
            return EstimatorScorer(None, labels[:1], known)
        from sklearn.base import clone

        fitted = clone(self.estimator).fit(_rows(support_x), labels)
        return EstimatorScorer(fitted, np.asarray(fitted.classes_), known)


@dataclass(frozen=True, eq=False)
class EstimatorScorer:
    """A fitted estimator whose columns are put where the task's labels are."""

    estimator: Any  # None where there is one label and nothing was fitted
    labels: Array  # the label of each column
    classes: int

    def predict_proba(self, x: Any) -> Floats:
        """Return the estimator's probabilities, (n, classes); absent labels exactly 0."""
        n, columns = _checks.length(x), len(self.labels)
        if self.estimator is None or n == 0:
            return _placed(np.ones((n, columns)), self.labels, self.classes)
        found = self.estimator.predict_proba(_rows(x))
        source = f"{type(self.estimator).__name__}.predict_proba"
        found = _checks.probabilities(source, found, rows=n, least=columns, most=columns)
        return _placed(found, self.labels, self.classes)


class FixedModel:
    """A model that is not adapted: the support set is not looked at, and may be left out.

    ``predict_proba`` is a fitted classifier, or a function from examples to probabilities
    (n, classes). It knew its labels before the task, so none is absent; a classifier must have
    been fitted on labels 0 .. classes - 1, and one that it never saw gets probability 0.
    """

    def __init__(self, predict_proba: Any) -> None:
        self.predict_proba = _checks.fixed_model(predict_proba)

    def adapt(
        self, support_x: Any = None, support_y: Any = None, *, classes: int | None = None
    ) -> EstimatorScorer | FunctionScorer:
        """Return the model itself; without ``classes``, with the labels that it knows."""
        if not hasattr(self.predict_proba, "classes_"):
            model = getattr(self.predict_proba, "predict_proba", self.predict_proba)
            return FunctionScorer(model, None, classes)
        labels = np.asarray(self.predict_proba.classes_)
        known = _checks.known_labels(labels, classes)
        return EstimatorScorer(self.predict_proba, labels.astype(np.int64), known)


class CallableLearner:
    """Any function (support_x, support_y, x) -> probabilities (n, classes).

    It is handed the support set and the examples as they came, the labels as int64. Columns that
    it leaves out at the end, and labels absent from the support set, get probability 0.
    """

    def __init__(self, function: Callable[[Any, Any, Any], Any]) -> None:
        self.function = _checks.function(function)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> FunctionScorer:
        """Return the function with its support set put in."""
        labels, known = _checks.support_set(support_x, support_y, classes)
        return FunctionScorer(
            lambda x: self.function(support_x, labels, x), np.unique(labels), known
        )


@dataclass(frozen=True, eq=False)
class FunctionScorer:
    """A function of examples alone, checked and cut to the labels that may have a chance."""

    function: Callable[[Any], Any]
    present: Array | None  # None: every label
    classes: int | None  # None: as many as the function answers with

    def predict_proba(self, x: Any) -> Floats:
        """Return what the function answers, (n, classes); absent labels exactly 0."""
        least = 1 if self.present is None else int(self.present.max()) + 1
        found = _checks.probabilities(
            getattr(self.function, "__qualname__", "predict_proba"),
            self.function(x),
            rows=_checks.length(x),
            least=least,
            most=self.classes,
        )
        labels = np.arange(found.shape[1]) if self.present is None else self.present
        return _placed(found[:, labels], labels, self.classes or found.shape[1])


def _placed(found: Floats, labels: Array, classes: int) -> Floats:
    """Put the column of each label in its place among ``classes`` columns of zeros."""
    placed = np.zeros((len(found), classes), dtype=found.dtype)
    placed[:, labels] = found
    return placed


def _rows(x: Any) -> Any:
    """Return arrays and tensors with one row for each example; anything else as it came."""
    host = _checks.on_host(x)
    return host.reshape(len(host), -1) if isinstance(host, np.ndarray) and host.ndim > 2 else host

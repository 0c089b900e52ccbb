"""Learners without torch: scikit-learn estimators, fixed models, any function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metapac._checks import check_one_of, on_host
from metapac._types import Array, Floats
from metapac.learners import _checks
from metapac.scoring.functions import KINDS, as_score_function


class SklearnLearner:
    """A scikit-learn classifier, cloned and fitted on each support set.

    Examples of more than two dimensions, such as images, are flattened to rows. If the support
    set has a single label, nothing is fitted and that label gets probability 1.

    Parameters
    ----------
    estimator : object
        Classifier with ``fit`` and ``predict_proba``. Give a randomised one a ``random_state``,
        or each adaptation differs.

    Raises
    ------
    InvalidInput
        If the estimator cannot be cloned or does not predict probabilities.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from metapac.learners import SklearnLearner
    >>> learner = SklearnLearner(KNeighborsClassifier(1))
    >>> learner.adapt([[0.0], [1.0]], [0, 2], classes=4).predict_proba([[0.9]]).tolist()
    [[0.0, 0.0, 1.0, 0.0]]
    """

    def __init__(self, estimator: Any) -> None:
        _checks.check_classifier(estimator)
        self.estimator = estimator

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> EstimatorScorer:
        """Return a clone of the estimator, fitted on the support set.

        Parameters
        ----------
        support_x : array_like, shape (s, ...)
            Support examples.
        support_y : array_like of int, shape (s,)
            Their labels, from 0 to ``classes - 1``.
        classes : int, optional
            Number of labels; by default one more than the largest label.

        Returns
        -------
        EstimatorScorer
            The adapted model.
        """
        labels, total = _checks.as_support_set(support_x, support_y, classes)
        if labels.min() == labels.max():
            return EstimatorScorer(None, labels[:1], total)
        from sklearn.base import clone

        fitted = clone(self.estimator).fit(_rows(support_x), labels)
        return EstimatorScorer(fitted, np.asarray(fitted.classes_), total)


@dataclass(frozen=True, eq=False)
class EstimatorScorer:
    """A fitted estimator, whose columns are moved to the labels of the task.

    Parameters
    ----------
    estimator : object or None
        Fitted classifier; None if there is a single label.
    labels : ndarray of int
        Label of each column of the estimator.
    classes : int
        Number of labels of the task.
    """

    estimator: Any
    labels: Array
    classes: int

    def predict_proba(self, x: Any) -> Floats:
        """Return the probability of each label for each example.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples.

        Returns
        -------
        ndarray, shape (n, classes)
            The probabilities; exactly 0 for labels that the estimator was not fitted on.
        """
        n, columns = _checks.count_examples(x), len(self.labels)
        if self.estimator is None or n == 0:
            return _spread(np.ones((n, columns)), self.labels, self.classes)
        probabilities = _checks.as_outputs(
            f"{type(self.estimator).__name__}.predict_proba",
            self.estimator.predict_proba(_rows(x)),
            kind="probabilities",
            rows=n,
            min_columns=columns,
            max_columns=columns,
        )
        return _spread(probabilities, self.labels, self.classes)


class FixedModel:
    """A model that is not adapted: the support set is ignored and may be left out.

    Parameters
    ----------
    predict_proba : object
        Classifier fitted on labels 0 .. classes - 1, or a function from examples to
        probabilities of shape (n, classes). A label that the classifier was not fitted on gets
        probability 0.
    outputs : {"probabilities", "logits", "scores"}, default "probabilities"
        What the function returns; see `CallableLearner`. A classifier returns probabilities.

    Raises
    ------
    InvalidInput
        If it is neither a fitted classifier nor a function.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import FixedModel
    >>> model = FixedModel(lambda x: np.full((len(x), 2), 0.5))
    >>> model.adapt().predict_proba([[0.0]]).tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, predict_proba: Any, *, outputs: str = "probabilities") -> None:
        _checks.check_fixed_model(predict_proba)
        check_one_of("outputs", outputs, KINDS)
        self.predict_proba = predict_proba
        self.outputs = outputs

    def adapt(
        self, support_x: Any = None, support_y: Any = None, *, classes: int | None = None
    ) -> EstimatorScorer | FunctionScorer:
        """Return the model itself as a scorer.

        Parameters
        ----------
        support_x : object, optional
            Ignored.
        support_y : object, optional
            Ignored.
        classes : int, optional
            Number of labels; by default that of the model.

        Returns
        -------
        EstimatorScorer or FunctionScorer
            The model.
        """
        if not hasattr(self.predict_proba, "classes_"):
            model = getattr(self.predict_proba, "predict_proba", self.predict_proba)
            name = _checks.name_function(model, "the function of FixedModel")
            return FunctionScorer(model, None, classes, self.outputs, name)
        labels = np.asarray(self.predict_proba.classes_)
        total = _checks.count_known_labels(labels, classes)
        return EstimatorScorer(self.predict_proba, labels.astype(np.int64), total)


class CallableLearner:
    """Any function from a support set and examples to a number for each label.

    Parameters
    ----------
    function : callable
        Called as ``function(support_x, support_y, x)``, with examples as they were passed and
        labels as int64. Returns numbers of shape (n, classes), higher for more plausible labels,
        or of fewer columns if the last labels are absent from the support set.
    outputs : {"probabilities", "logits", "scores"}, default "probabilities"
        What the numbers are. Logits, log-probabilities and minus distances are "logits": a
        softmax makes them probabilities. Any other numbers are "scores": they are calibrated as
        they are.

    Raises
    ------
    InvalidInput
        If it is not callable, or the outputs are of an unknown kind.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import CallableLearner
    >>> def frequencies(support_x, support_y, x):
    ...     return np.tile(np.bincount(support_y) / len(support_y), (len(x), 1))
    >>> scorer = CallableLearner(frequencies).adapt([[0], [1], [2], [3]], [0, 1, 1, 1], classes=3)
    >>> scorer.predict_proba([[4]]).tolist()
    [[0.25, 0.75, 0.0]]
    """

    def __init__(
        self, function: Callable[[Any, Any, Any], Any], *, outputs: str = "probabilities"
    ) -> None:
        _checks.check_function(function)
        check_one_of("outputs", outputs, KINDS)
        self.function = function
        self.outputs = outputs

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> FunctionScorer:
        """Return the function with the support set filled in.

        Parameters
        ----------
        support_x : array_like, shape (s, ...)
            Support examples.
        support_y : array_like of int, shape (s,)
            Their labels, from 0 to ``classes - 1``.
        classes : int, optional
            Number of labels; by default one more than the largest label.

        Returns
        -------
        FunctionScorer
            The adapted model.
        """
        labels, total = _checks.as_support_set(support_x, support_y, classes)
        return FunctionScorer(
            lambda x: self.function(support_x, labels, x),
            np.unique(labels),
            total,
            self.outputs,
            _checks.name_function(self.function, "the function of CallableLearner"),
        )

    def __repr__(self) -> str:
        name = _checks.name_function(self.function, "lambda")
        return f"CallableLearner({name}, outputs={self.outputs!r})"


@dataclass(frozen=True, eq=False)
class FunctionScorer:
    """A function from examples to a number for each label, whose output is checked.

    Parameters
    ----------
    function : callable
        Takes examples and returns numbers.
    present : ndarray of int or None
        Labels in the support set; the others get probability 0. None: every label.
    classes : int or None
        Number of labels. None: that of the function's output.
    outputs : {"probabilities", "logits", "scores"}, default "probabilities"
        What the numbers are.
    name : str, default "predict_proba"
        Name of the function in messages.
    """

    function: Callable[[Any], Any]
    present: Array | None
    classes: int | None
    outputs: str = "probabilities"
    name: str = "predict_proba"

    def predict_proba(self, x: Any) -> Floats:
        """Return the probability of each label for each example.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples.

        Returns
        -------
        ndarray, shape (n, classes)
            The probabilities, by a softmax if the function returns logits; exactly 0 for labels
            absent from the support set. If it returns scores, these, as they are.
        """
        raw = self.raw_outputs(x)
        return as_score_function(None, self.outputs)(raw, self.outputs)

    def raw_outputs(self, x: Any) -> Floats:
        """Return what the function returns, checked.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples.

        Returns
        -------
        ndarray, shape (n, classes)
            The numbers. Labels absent from the support set have probability 0, or ``-inf`` if the
            numbers are not probabilities.
        """
        values = _checks.as_outputs(
            self.name,
            self.function(x),
            kind=self.outputs,
            rows=_checks.count_examples(x),
            min_columns=1 if self.present is None else int(self.present.max()) + 1,
            max_columns=self.classes,
        )
        labels = np.arange(values.shape[1]) if self.present is None else self.present
        absent = 0.0 if self.outputs == "probabilities" else -np.inf
        return _spread(values[:, labels], labels, self.classes or values.shape[1], absent)


def _spread(values: Floats, labels: Array, classes: int, absent: float = 0.0) -> Floats:
    """Return a matrix of ``classes`` columns: those of ``labels``, and ``absent`` elsewhere."""
    matrix = np.full((len(values), classes), absent, dtype=values.dtype)
    matrix[:, labels] = values
    return matrix


def _rows(x: Any) -> Any:
    """Return arrays and tensors with one row for each example; anything else as it is."""
    host = on_host(x)
    return host.reshape(len(host), -1) if isinstance(host, np.ndarray) and host.ndim > 2 else host

"""Learners: the contract of adapting to a task, and scikit-learn classifiers that satisfy it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from metapac._common import Array, Counts, Floats, as_whole_number, brief, on_host
from metapac.errors import InvalidInput


class Scorer(Protocol):
    """A model adapted to one task.

    Rounding may change a probability in its last digits, for example from one batch size to
    another. A scorer that knows by how much may have one or both of the further methods of
    `metapac.fewshot.adapters.BoundedScorer`. Without them, `metapac.fewshot.score_tasks` assumes
    a bound that suits the precision.
    """

    def predict_proba(self, x: Any) -> Floats:
        """Return the probability of each label for each example.

        The row of an example must depend on that example and the support set alone. If it
        depended on the other rows of ``x``, the scores of a task would not be independent and no
        guarantee would hold.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples.

        Returns
        -------
        ndarray, shape (n, classes)
            The probabilities; exactly 0 for labels absent from the support set.
        """


class Learner(Protocol):
    """Anything that adapts to a task with a few labelled examples.

    A learner whose scorers do not return probabilities says so by an attribute ``outputs``:
    "logits" for logits, log-probabilities or minus distances, which a softmax makes
    probabilities, or "scores" for any other numbers, higher for more plausible labels.

    Examples
    --------
    >>> from metapac.fewshot import CallableLearner, Learner
    >>> learner: Learner = CallableLearner(lambda support_x, support_y, x: [[0.9, 0.1]] * len(x))
    >>> learner.adapt([[0.0], [1.0]], [0, 1]).predict_proba([[0.2]]).tolist()
    [[0.9, 0.1]]
    """

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Scorer:
        """Return a model adapted to a task; the learner itself does not change.

        Parameters
        ----------
        support_x : array_like, shape (s, ...)
            Support examples.
        support_y : array_like of int, shape (s,)
            Their labels, from 0 to ``classes - 1``. Some labels may be absent.
        classes : int, optional
            Number of labels; by default one more than the largest label. A learner of your own may
            leave this parameter out; it then returns a column for every label of the task.

        Returns
        -------
        Scorer
            The adapted model.
        """


def adapt_learner(
    learner: Learner, support_x: Any, support_y: Any, *, classes: int | None = None
) -> Scorer:
    """Adapt a learner to a task, with the number of labels if its ``adapt`` takes it."""
    adapt = getattr(learner, "adapt", None)
    if isinstance(learner, type) or not callable(adapt):
        raise InvalidInput(f"the learner must have a method adapt(x, y), got {brief(learner)}.")
    options = {"classes": classes} if _takes_classes(adapt) else {}
    scorer: Scorer = adapt(support_x, support_y, **options)
    if not hasattr(scorer, "predict_proba"):
        name = f"{type(learner).__name__}.adapt"
        raise InvalidInput(f"{name} must return what has predict_proba(x), got {brief(scorer)}.")
    return scorer


def _takes_classes(adapt: Any) -> bool:
    """Return whether a method takes the number of labels, by its signature."""
    try:
        parameters = inspect.signature(adapt).parameters
    except (TypeError, ValueError):  # compiled code, which may not tell
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return "classes" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def as_support_set(support_x: Any, support_y: Any, classes: int | None) -> tuple[Counts, int]:
    """Return the support labels as int64, and the number of labels of the task."""
    labels, examples = np.asarray(on_host(support_y)), count_examples(support_x)
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        got = f"{labels.dtype} of shape {labels.shape}"
        raise InvalidInput(f"support_y must hold one whole number for each example, got {got}.")
    if not len(labels) == examples > 0:
        rule = "support_x and support_y must have the same length, at least 1"
        raise InvalidInput(f"{rule}, got {examples} and {len(labels)}.")
    total = int(labels.max()) + 1 if classes is None else as_whole_number("classes", classes)
    outside = labels[(labels < 0) | (labels >= total)]
    if len(outside):
        last = max(total, 1) - 1
        raise InvalidInput(f"support_y must hold labels 0 .. {last}, got {outside[0]}.")
    return labels.astype(np.int64), total


def count_examples(x: Any) -> int:
    """Return the number of examples in an array, tensor, table, sparse matrix or list."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def as_output_matrix(
    source: str, values: Any, *, rows: int, least: int, most: int | None
) -> Floats:
    """Return what ``source`` returned as floats, with ``least`` to ``most`` columns."""
    array = np.asarray(on_host(values))
    fits = array.ndim == 2 and least <= array.shape[1] <= (most or array.shape[1])
    if not fits or len(array) != rows:
        columns = f"{least}" if least == most else f"{least} to {most or 'any'}"
        shape = f"a row for each example and a column for each label, ({rows}, {columns})"
        raise InvalidInput(f"{source} must return {shape}, got shape {array.shape}.")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_probabilities(source: str, array: Floats) -> None:
    """Raise unless all numbers are at least 0, and none of the rows adds up to more than 1."""
    negative = array[~(array >= 0)]  # a NaN is among them
    most = array.sum(1, dtype=np.float64).max(initial=0.0)
    if len(negative) or most > 1 + max(1e-3, 4 * float(np.finfo(array.dtype).eps)):
        got = negative[0] if len(negative) else f"a row that adds up to {most:.6g}"
        text = "must return probabilities, none negative or NaN, and at most 1 together"
        remedy = "If they are none, say outputs='logits' or outputs='scores'."
        raise InvalidInput(f"{source} {text}, got {got}. {remedy}")


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
    >>> from metapac.fewshot import SklearnLearner
    >>> learner = SklearnLearner(KNeighborsClassifier(1))
    >>> learner.adapt([[0.0], [1.0]], [0, 2], classes=4).predict_proba([[0.9]]).tolist()
    [[0.0, 0.0, 1.0, 0.0]]
    """

    def __init__(self, estimator: Any) -> None:
        methods = ("get_params", "fit", "predict_proba")
        if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in methods):
            rule = "estimator must be an instance of a classifier with fit and predict_proba"
            raise InvalidInput(f"{rule}, got {brief(estimator)}.")
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
        labels, total = as_support_set(support_x, support_y, classes)
        if labels.min() == labels.max():
            return EstimatorScorer(None, labels[:1], total)
        from sklearn.base import clone

        fitted = clone(self.estimator).fit(_rows(support_x), labels)
        return EstimatorScorer(fitted, np.asarray(fitted.classes_), total)


@dataclass(frozen=True, eq=False)
class EstimatorScorer:
    """A fitted estimator, whose columns are moved to the labels of the task."""

    estimator: Any
    labels: Array
    classes: int

    def predict_proba(self, x: Any) -> Floats:
        """Return the probability of each label for each example."""
        n, columns = count_examples(x), len(self.labels)
        values: Floats = np.ones((n, columns))
        if self.estimator is not None and n:
            source = f"{type(self.estimator).__name__}.predict_proba"
            found = self.estimator.predict_proba(_rows(x))
            values = as_output_matrix(source, found, rows=n, least=columns, most=columns)
            check_probabilities(source, values)
        return spread(values, self.labels, self.classes)


def spread(values: Floats, labels: Array, classes: int, absent: float = 0.0) -> Floats:
    """Return a matrix of ``classes`` columns: those of ``labels``, and ``absent`` elsewhere."""
    matrix = np.full((len(values), classes), absent, dtype=values.dtype)
    matrix[:, labels] = values
    return matrix


def _rows(x: Any) -> Any:
    """Return arrays and tensors with one row for each example; anything else as it is."""
    host = on_host(x)
    return host.reshape(len(host), -1) if isinstance(host, np.ndarray) and host.ndim > 2 else host

"""Learners: the contract of adapting to a task, and learners around any classifier or function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from metapac._common import (
    Array,
    Counts,
    Floats,
    as_whole_number,
    brief,
    check_one_of,
    on_host,
    warn,
)
from metapac.errors import InvalidInput
from metapac.score_functions import KINDS, as_score_function

if TYPE_CHECKING:
    from torch import Tensor, nn


class Scorer(Protocol):
    """A model adapted to one task.

    Rounding may change a probability in its last digits, for example from one batch size to
    another. A scorer that knows by how much may have one or both of the further methods of
    `metapac.adaptation.BoundedScorer`. Without them, `metapac.fewshot.score_tasks` assumes
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


class BoundedScorer(Scorer, Protocol):
    """A scorer that knows how far rounding may move its scores."""

    def lowered_scores(self, x: Any, y: Any) -> Floats:
        """Return scores to calibrate on: lower bounds that allow for any rounding."""

    def bounded_logits(self, x: Any) -> tuple[Floats, Floats]:
        """Return the logits of each label, and a bound on their rounding error."""


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
        raise InvalidInput(
            f"the learner must be an object with a method adapt(x, y), got {brief(learner)}. Wrap "
            "a function by CallableLearner, a scikit-learn classifier by SklearnLearner."
        )
    options = {"classes": classes} if _takes_classes(adapt) else {}
    scorer: Scorer = adapt(support_x, support_y, **options)
    if not hasattr(scorer, "predict_proba"):
        raise InvalidInput(
            f"{type(learner).__name__}.adapt must return an object with a method predict_proba(x), "
            f"got {brief(scorer)}."
        )
    return scorer


def _takes_classes(adapt: Any) -> bool:
    """Return whether a method takes the number of labels, by its signature."""
    try:
        parameters = inspect.signature(adapt).parameters
    except (TypeError, ValueError):  # compiled code, which may not tell
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return "classes" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


class Trainable(Protocol):
    """A torch learner that `train` can train on batches of episodes."""

    module: nn.Module

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes."""


def lower_scores(
    scores: Floats, slack: ArrayLike = 0.0, *, precision: DTypeLike | None = None, steps: int = 1
) -> Floats:
    """Return lower bounds on scores that hold for any rounding in deployment.

    Proof of the bound: p = 1 / (1 + sum of exp(l_c - l_y) over c != y); if no l_c - l_y grows by
    more than ``slack``, the sum grows at most exp(slack)-fold, so that the deployed probability
    is at least p / (1 + (1 - p) (exp(slack) - 1)).

    Proof that it suffices: a threshold counts the scores below it, so lower scores never raise
    it, and a lower threshold keeps every label that a higher one keeps.
    """
    kind = np.dtype(scores.dtype if precision is None else precision)
    wide = scores.astype(np.result_type(scores, np.float64))
    # A value above 1 is not a probability and has no odds; it is only rounded down.
    lowered = wide / (1 + np.maximum(1 - wide, 0) * np.expm1(slack))
    lowered = lowered.astype(kind)
    for _ in range(steps):
        lowered = np.nextafter(lowered, kind.type(0))
    return np.asarray(lowered)


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
        check_classifier(estimator)
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
        if self.estimator is None or n == 0:
            return _spread(np.ones((n, columns)), self.labels, self.classes)
        probabilities = as_outputs(
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
    >>> from metapac.fewshot import FixedModel
    >>> model = FixedModel(lambda x: np.full((len(x), 2), 0.5))
    >>> model.adapt().predict_proba([[0.0]]).tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, predict_proba: Any, *, outputs: str = "probabilities") -> None:
        check_fixed_model(predict_proba)
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
            name = name_function(model, "the function of FixedModel")
            return FunctionScorer(model, None, classes, self.outputs, name)
        labels = np.asarray(self.predict_proba.classes_)
        total = count_known_labels(labels, classes)
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
    >>> from metapac.fewshot import CallableLearner
    >>> def frequencies(support_x, support_y, x):
    ...     return np.tile(np.bincount(support_y) / len(support_y), (len(x), 1))
    >>> scorer = CallableLearner(frequencies).adapt([[0], [1], [2], [3]], [0, 1, 1, 1], classes=3)
    >>> scorer.predict_proba([[4]]).tolist()
    [[0.25, 0.75, 0.0]]
    """

    def __init__(
        self, function: Callable[[Any, Any, Any], Any], *, outputs: str = "probabilities"
    ) -> None:
        check_function(function)
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
        labels, total = as_support_set(support_x, support_y, classes)
        return FunctionScorer(
            lambda x: self.function(support_x, labels, x),
            np.unique(labels),
            total,
            self.outputs,
            name_function(self.function, "the function of CallableLearner"),
        )

    def __repr__(self) -> str:
        name = name_function(self.function, "lambda")
        return f"CallableLearner({name}, outputs={self.outputs!r})"


@dataclass(frozen=True, eq=False)
class FunctionScorer:
    """A function from examples to a number for each label, whose output is checked."""

    function: Callable[[Any], Any]
    present: Array | None
    classes: int | None
    outputs: str = "probabilities"
    name: str = "predict_proba"

    def predict_proba(self, x: Any) -> Floats:
        """Return the probability of each label for each example."""
        raw = self.raw_outputs(x)
        return as_score_function(None, self.outputs)(raw, self.outputs)

    def raw_outputs(self, x: Any) -> Floats:
        """Return what the function returns, checked."""
        values = as_outputs(
            self.name,
            self.function(x),
            kind=self.outputs,
            rows=count_examples(x),
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

"""Learners: the contract of adapting to a task, models and functions that satisfy it, rounding."""

from __future__ import annotations

import inspect
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from metapac._common import (
    Array,
    Counts,
    Doubles,
    Floats,
    as_whole_number,
    brief,
    check_one_of,
    on_host,
    warn,
)
from metapac._text import FITTED_ON
from metapac.errors import InvalidInput
from metapac.score_functions import KINDS, ScoreFunction, finite, log_sum, total

if TYPE_CHECKING:
    from torch import Tensor, nn


class Scorer(Protocol):
    """A model adapted to one task.

    Rounding may change a probability in its last digits, for example from one batch size to
    another. A scorer that knows by how much may have one or both of the further methods of
    `BoundedScorer`. Without them, `metapac.fewshot.score_tasks` assumes
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


class BoundedScorer(Scorer, Protocol):
    """A scorer that knows how far rounding may move its scores."""

    def lowered_scores(self, x: Any, y: Any) -> Floats:
        """Return scores to calibrate on: lower bounds that allow for any rounding."""

    def bounded_logits(self, x: Any) -> tuple[Floats, Floats]:
        """Return the logits of each label, and a bound on their rounding error."""


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


def as_score_function(
    score: str | ScoreFunction | None, kind: str = "probabilities"
) -> ScoreFunction:
    """Return a score function by its name."""
    if score is None:
        score = "raw" if kind == "scores" else "probability"
    function = score if isinstance(score, ScoreFunction) else _parse(score)
    function.check_kind(kind)
    return function


def _parse(text: Any) -> ScoreFunction:
    """Return the score function that ``str`` wrote."""
    if not isinstance(text, str):
        return ScoreFunction(text)
    computed, _, tasks = text.partition(FITTED_ON)
    fitted_on = frozenset(tasks.split("+")) - {""}
    found = _TEXT.fullmatch(computed)
    if found is None:
        return ScoreFunction(computed, fitted_on=fitted_on)
    try:
        return ScoreFunction(found[1], float(found[2]), fitted_on)
    except ValueError:
        rule = f"score must have a positive temperature, got {text!r}."
        raise InvalidInput(rule, parameter="score") from None


def as_positive_number(name: str, value: object) -> float:
    """Return ``value`` as a float, if it is a finite number above 0."""
    number = 0.0 if isinstance(value, bool) or not isinstance(value, numbers.Real) else float(value)
    if not 0 < number < np.inf:
        raise InvalidInput(f"{name} must be a positive number, got {brief(value)}.", parameter=name)
    return number


_TEXT = re.compile(r"(\w+)\(temperature=([^()]+)\)")
# Eight units of rounding. A softmax over k labels is off by less than k + 800 of them, relatively:
# an exponential by its argument, which is below 746 unless the result is 0, and the sum by k.
_UNIT = 2.0**-50
_EXPONENT = 800
# Rounding error of a probability, in floats of its precision, beyond that of its logits.
_FLOATS = 8
# A larger slack bounds nothing; the exponential of this one does not overflow.
_LARGEST_SLACK = 300.0
# Steps between the smallest numbers, whose rounding error is not relative.
_TINY = 2.0**-1060


def lower_true_scores(
    function: ScoreFunction,
    outputs: ArrayLike,
    labels: ArrayLike,
    *,
    kind: str = "probabilities",
    slack: ArrayLike = 0.0,
    spread: ArrayLike = 0.0,
) -> Floats:
    """Return lower bounds on the scores of the true labels, for any rounding in deployment.

    Rounding moves the difference of the logits of any label and of the true one, or a raw output,
    by at most ``slack``, and the probability of another label by at most ``spread`` beyond that.

    Let a be the probability of the true label and q that of another, so that q / a is the
    exponential of a difference of logits. Rounding leaves each q / a between a lowest and a
    highest value, and

    - the probability is 1 / (1 + sum of q / a): least if each q / a is highest;
    - the margin is (1 - max of q / a) / (1 + sum of q / a): its numerator is least if each is
      highest. Its denominator is then taken with the highest values if the numerator is
      positive, and with the lowest if it is negative;
    - the cumulative score is B / (B + A) with B the mass that is no more probable than the
      label and A the rest. It rises with B and falls with A. So labels that rounding could
      lift above the true one count in A at their highest, the others in B at their lowest.
    """
    values, y, reach = np.asarray(outputs), np.asarray(labels), np.asarray(slack)
    function.check_kind(kind)
    true = _take(values, y)
    if function.name == "raw":
        return np.asarray((true - reach).astype(values.dtype))
    rounding = (values.shape[1] + _EXPONENT) * _UNIT
    possible = true > -np.inf  # that its probability is above 0, and rounding cannot erase it
    if kind == "probabilities":
        rounding += _FLOATS * float(np.finfo(values.dtype).eps)
        possible = true >= np.finfo(values.dtype).tiny  # below it, digits are lost
    odds = _bound_odds(function, values, y, kind, reach, np.asarray(spread))
    lowered = LOWER[function.name](*odds, rounding)
    lowest: Any = -np.inf if function.name == "log_probability" else 0.0
    if function.name == "margin":  # minus the highest probability, which rises exp(slack)-fold
        reach = np.minimum(reach / function.temperature, _LARGEST_SLACK)
        highest = function._probabilities(values, kind).max(1) * np.exp(2 * reach)
        lowest = -np.minimum(highest * (1 + rounding), 1.0)
    return np.where(possible, lowered, lowest)


def _bound_odds(
    function: ScoreFunction, values: Floats, y: Counts, kind: str, slack: Doubles, spread: Doubles
) -> tuple[Doubles, Doubles]:
    """Return the highest and lowest log-odds of each label against the true one.

    Shapes: (n, classes + 1), where the last column is the mass of labels without a column.
    The true label's own entry is -inf.
    """
    wide = values.astype(np.float64)
    if kind == "probabilities":
        wide = wide / total(values)
        around = np.maximum(spread, float(np.finfo(values.dtype).tiny))
        around = np.broadcast_to(around, y.shape)[:, None]
        rest = np.maximum(1 - wide.sum(1, keepdims=True), 0) * (function.temperature == 1)
        with np.errstate(divide="ignore"):
            high = np.log(np.hstack([wide + around, rest]))
            low = np.log(np.hstack([np.maximum(wide - around, 0), rest]))
            true = finite(np.log(_take(wide, y)))
    else:
        high = low = np.hstack([wide, np.full((len(y), 1), -np.inf)])
        true = finite(_take(wide, y))
    reach = np.broadcast_to(np.minimum(slack, _LARGEST_SLACK), y.shape)
    highest = (high - (true - reach)[:, None]) / function.temperature
    lowest = (low - (true + reach)[:, None]) / function.temperature
    for odds in (highest, lowest):
        np.put_along_axis(odds, y[:, None], -np.inf, 1)
    return np.asarray(highest), np.asarray(lowest)


def _take(matrix: Array, labels: Counts) -> Array:
    """Return the entry of each row at its label, (n,)."""
    return np.asarray(np.take_along_axis(matrix, labels[:, None], 1)[:, 0])


def _lower_log(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a log-probability, (n,)."""
    lowered = -np.logaddexp(0.0, log_sum(highest)[:, 0])
    return np.asarray(lowered - rounding * (1 - lowered))


def _lower_probability(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a probability, (n,)."""
    lowered = np.exp(-np.logaddexp(0.0, log_sum(highest)[:, 0])) * (1 - rounding)
    return np.asarray(np.maximum(lowered - _TINY, 0.0))


def _lower_margin(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a margin, (n,)."""
    top = np.maximum(highest.max(1), 0.0)  # all weights are divided by exp(top)
    true = np.exp(-top)
    ahead = true - np.exp(highest[:, :-1].max(1) - top)
    others = np.where((ahead >= 0)[:, None], highest, lowest)
    total = true + np.exp(others - top[:, None]).sum(1)
    return np.asarray(np.maximum(ahead / np.maximum(total, 1e-300), -1.0) - rounding)


def _lower_cumulative(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a cumulative score, (n,)."""
    top = np.maximum(highest.max(1), 0.0)
    is_below = highest <= -rounding
    is_below[:, -1] = False  # labels without a column may be more probable
    below = np.exp(-top) + np.where(is_below, np.exp(lowest - top[:, None]), 0.0).sum(1)
    above = np.where(is_below, 0.0, np.exp(highest - top[:, None])).sum(1)
    return np.asarray(np.maximum(below / (below + above) * (1 - rounding) - _TINY, 0.0))


LOWER = {
    "probability": _lower_probability,
    "log_probability": _lower_log,
    "margin": _lower_margin,
    "cumulative": _lower_cumulative,
}


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
        fits = hasattr(predict_proba, "predict_proba") or callable(predict_proba)
        if isinstance(predict_proba, type) or not fits:
            raise InvalidInput(
                "predict_proba must be a fitted classifier or a function from examples to "
                f"probabilities, got {brief(predict_proba)}."
            )
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
        is_numbered = labels.dtype.kind in "iub" and labels.min() >= 0
        total = int(labels.max()) + 1 if is_numbered and classes is None else classes
        if not is_numbered or total is None or labels.max() >= total:
            last = "classes - 1" if classes is None else classes - 1
            raise InvalidInput(
                f"the model was fitted on labels {brief(labels.tolist())}, but the task has labels "
                f"0 .. {last}. Fit it on labels numbered from 0."
            )
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
        least = 1 if self.present is None else int(self.present.max()) + 1
        shape = {"rows": count_examples(x), "least": least, "most": self.classes}
        values = as_outputs(self.name, self.function(x), kind=self.outputs, **shape)
        labels = np.arange(values.shape[1]) if self.present is None else self.present
        absent = 0.0 if self.outputs == "probabilities" else -np.inf
        return spread(values[:, labels], labels, self.classes or values.shape[1], absent)


def check_function(function: Any) -> None:
    """Raise unless ``function`` is callable."""
    if not callable(function):
        text = "function must be callable as function(support_x, support_y, x)"
        raise InvalidInput(f"{text}, got {brief(function)}.")


def name_function(function: Any, fallback: str) -> str:
    """Return what a user calls their function, or ``fallback`` if it has no name."""
    inner = getattr(function, "func", function)  # of functools.partial
    name = getattr(inner, "__name__", type(inner).__name__)
    return fallback if name == "<lambda>" else str(name)


def as_outputs(source: str, values: Any, *, kind: str, **shape: Any) -> Floats:
    """Return the output of ``source`` as a matrix of probabilities, logits or scores, checked."""
    array = as_output_matrix(source, values, **shape)
    if kind == "probabilities":
        check_probabilities(source, array)
    elif np.isnan(array).any() or (kind == "logits" and np.isposinf(array).any()):
        found = "NaN" if np.isnan(array).any() else "infinity"
        text = f"{source} must return {kind} that can be compared, got {found}"
        raise InvalidInput(f"{text}. Give labels that are impossible -inf.")
    elif kind == "logits" and _look_like_probabilities(array):
        text = f"{source} returns numbers that add up to 1 for each example, taken for logits"
        warn(f"{text}. If they are probabilities, say outputs='probabilities'.")
    return array


def _look_like_probabilities(array: Floats) -> bool:
    """Return whether all numbers are at least 0, and every row adds up to 1.

    Whole numbers, such as counts of words, and fewer than eight rows can do so by coincidence.
    """
    if len(array) < 8 or array.shape[1] < 2 or not array.min() >= 0:
        return False
    if np.array_equal(array, np.floor(array)):
        return False
    return bool(np.allclose(array.sum(1, dtype=np.float64), 1, atol=1e-3))

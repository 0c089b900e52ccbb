"""Learners around any model or function: what it returns, checked and made probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from metapac._common import Array, Floats, brief, check_one_of, warn
from metapac.adaptation import (
    EstimatorScorer,
    Scorer,
    as_output_matrix,
    as_support_set,
    check_probabilities,
    count_examples,
    spread,
)
from metapac.errors import InvalidInput
from metapac.score_functions import KINDS, as_score_function

if TYPE_CHECKING:
    from torch import Tensor, nn


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

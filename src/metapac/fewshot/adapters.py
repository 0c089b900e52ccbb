"""Learners: the contract of adapting to a task, models and functions that satisfy it, scores."""

from __future__ import annotations

import inspect
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from metapac import _common
from metapac._common import Array, Counts, Floats, as_whole_number, brief, check_one_of, on_host
from metapac._text import FITTED_ON, name_score
from metapac.errors import InvalidInput
from metapac.score_functions import KINDS, NAMES, ScoreFunction

if TYPE_CHECKING:
    from torch import Tensor, nn

# Heads of our learners compute batches of this size, the last one filled up: kernels are chosen by
# batch size and differ in the last digits, but at one size the numbers of an example depend on
# nothing beside it. Widths from 1 to 1600 were tried.
BATCH = 16

# Refinement of prototypes by unlabelled examples: rounds of soft k-means (Ren et al. 2018), and the
# temperature of its guesses in units of the mean squared distance between two prototypes. Both were
# chosen on calibration classes of mini-ImageNet and FewRel, and do as well on validation classes.
ROUNDS, SOFTNESS = 3, 0.4


class Scorer(Protocol):
    """A model adapted to one task."""

    def predict_proba(self, x: Any) -> Floats:
        """Return the probability of each label for each example.

        A row must depend on its example and the support set alone: if it depended on other rows of
        ``x``, the scores of a task would not be independent and no guarantee would hold.

        Parameters
        ----------
        x : array_like, shape (n, ...)

        Returns
        -------
        ndarray, shape (n, classes)
            The probabilities; exactly 0 for labels absent from the support set.
        """


class Learner(Protocol):
    """Anything that adapts to a task with a few labelled examples.

    A learner whose scorers do not return probabilities says so by an attribute ``outputs``:
    "logits" or "scores", as in `CallableLearner`. One that can use unlabelled examples of the task
    says so by a parameter of ``adapt`` of the name ``unlabelled``, None by default, or by
    ``**options``; no other learner is given any.

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
        """


def adapt_learner(
    learner: Learner,
    support_x: Any,
    support_y: Any,
    *,
    classes: int | None = None,
    unlabelled: Any = None,
) -> Scorer:
    """Adapt a learner to a task; what its ``adapt`` does not take beside x and y is left out."""
    adapt: Any = getattr(learner, "adapt", None)
    if isinstance(learner, type) or not callable(adapt):
        raise InvalidInput(f"the learner must have a method adapt(x, y), got {brief(learner)}.")
    given = {"classes": classes} | ({} if unlabelled is None else {"unlabelled": unlabelled})
    taken = accepted_options(learner) & given.keys()
    scorer: Scorer = adapt(support_x, support_y, **{name: given[name] for name in taken})
    if not hasattr(scorer, "predict_proba"):
        raise InvalidInput(f"adapt must return what has predict_proba(x), got {brief(scorer)}.")
    return scorer


def accepted_options(learner: Learner) -> set[str]:
    """Return which of ``classes`` and ``unlabelled`` the ``adapt`` of a learner takes."""
    try:
        takes = inspect.signature(learner.adapt).parameters
    except (TypeError, ValueError):  # compiled code, which may not tell
        return {"classes"}
    options = {"classes", "unlabelled"}
    return options if any(p.kind is p.VAR_KEYWORD for p in takes.values()) else options & {*takes}


def check_uses_unlabelled(learner: Learner) -> None:
    """Raise if a learner ignores unlabelled examples, for those who ask for them."""
    if "unlabelled" not in accepted_options(learner):
        text = f"unlabelled does not apply to {type(learner).__name__}. Leave it out."
        raise InvalidInput(text, parameter="unlabelled")


def guess_temperature(prototypes: Any) -> float:
    """Return the temperature at which soft k-means guesses labels, from prototypes (labels, d)."""
    # A learner may be far too sure of examples of new classes, the more the fewer shots it has, and
    # would keep its wrong guesses. Noisy prototypes lie farther apart, and soften the guesses.
    squares = float(((prototypes - prototypes.mean(0)) ** 2).sum())
    return SOFTNESS * 2 * squares / max(1, len(prototypes) - 1) or 1.0


def as_support_set(support_x: Any, support_y: Any, classes: int | None) -> tuple[Counts, int]:
    """Return the support labels as int64, and the number of labels of the task."""
    labels, examples = np.asarray(on_host(support_y)), count_examples(support_x)
    if labels.shape != (examples,) or not examples or labels.dtype.kind not in "iub":
        rule = f"must hold one whole number for each of the {examples} (at least 1) examples"
        raise InvalidInput(f"support_y {rule}, got {labels.dtype} of shape {labels.shape}.")
    total = int(labels.max()) + 1 if classes is None else as_whole_number("classes", classes)
    outside = labels[(labels < 0) | (labels >= total)]
    if len(outside):
        raise InvalidInput(f"support_y must hold labels 0 .. {total - 1}, got {outside[0]}.")
    return labels.astype(np.int64), total


def count_examples(x: Any) -> int:
    """Return the number of examples in an array, tensor, table, sparse matrix or list."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def as_outputs(
    source: str, values: Any, *, rows: int, least: int, most: int | None, kind: str
) -> Floats:
    """Return the output of ``source`` as a matrix of probabilities, logits or scores, checked."""
    array = np.asarray(on_host(values))
    fits = array.ndim == 2 and least <= array.shape[1] <= (most or array.shape[1])
    if not fits or len(array) != rows:
        columns = f"{least}" if least == most else f"{least} to {most or 'any'}"
        shape = f"a row for each example and a column for each label, ({rows}, {columns})"
        raise InvalidInput(f"{source} must return {shape}, got shape {array.shape}.")
    array = array if array.dtype.kind == "f" else array.astype(np.float64)
    if kind == "probabilities":
        _check_probabilities(source, array)
    elif np.isnan(array).any() or (kind == "logits" and np.isposinf(array).any()):
        got = "NaN" if np.isnan(array).any() else "infinity, not -inf for impossible labels"
        raise InvalidInput(f"{source} must return {kind} that can be compared, got {got}.")
    elif kind == "logits" and _look_like_probabilities(array):
        text = f"{source} returns numbers that add up to 1 for each example, taken for logits"
        _common.warn(f"{text}. If they are probabilities, say outputs='probabilities'.")
    return array


def _check_probabilities(source: str, array: Floats) -> None:
    """Raise unless all numbers are at least 0, and none of the rows adds up to more than 1."""
    negative = array[~(array >= 0)]  # a NaN is among them
    most = array.sum(1, dtype=np.float64).max(initial=0.0)
    if len(negative) or most > 1 + max(1e-3, 4 * float(np.finfo(array.dtype).eps)):
        got = negative[0] if len(negative) else f"a row that adds up to {most:.6g}"
        rule = f"{source} must return probabilities, none negative or NaN, and at most 1 together"
        raise InvalidInput(f"{rule}, got {got}. Or say outputs='logits' or outputs='scores'.")


def _look_like_probabilities(array: Floats) -> bool:
    """Whether eight rows or more, not of whole numbers, are at least 0 and add up to 1."""
    if len(array) < 8 or array.shape[1] < 2 or not array.min() >= 0:
        return False
    sums = array.sum(1, dtype=np.float64)
    return not np.array_equal(array, np.floor(array)) and np.allclose(sums, 1, atol=1e-3)


class Trainable(Protocol):
    """A torch learner that `train` can train on batches of episodes."""

    module: nn.Module

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes."""


_TEXT = re.compile(r"(\w+)(?:\(temperature=([^()]+)\))?")
Score = str | ScoreFunction | Callable[[Any], Any] | None


def as_score_function(score: Score, kind: str = "probabilities") -> ScoreFunction:
    """Return a score function by its name, or a user's own."""
    if score is None:
        score = "raw" if kind == "scores" else "probability"
    function = score if isinstance(score, ScoreFunction) else _parse(score)
    function.check_kind(kind)
    return function


def _parse(score: Any) -> ScoreFunction:
    """Return the score function that ``str`` wrote, or that computes with a user's function."""
    if callable(score):
        return OwnScore.of(score)
    computed, _, tasks = str(score).partition(FITTED_ON)
    found = _TEXT.fullmatch(computed)
    if not isinstance(score, str) or found is None or found[1] not in NAMES:
        names = ", ".join(map(repr, NAMES))
        text = f"score must be one of {names}, or a function of the probabilities, got {score!r}."
        raise InvalidInput(text, parameter="score")
    fitted_on = frozenset(tasks.split("+")) - {""}
    try:
        return ScoreFunction(found[1], float(found[2] or 1), fitted_on)
    except ValueError:
        raise InvalidInput(f"{score!r} needs a positive temperature.", parameter="score") from None


@dataclass(frozen=True)
class OwnScore(ScoreFunction):
    """A score that a user's function computes from probabilities."""

    function: Callable[[Any], Any] = np.asarray

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> OwnScore:
        """Return the score of a function, under the name that a context records."""
        name = getattr(function, "__qualname__", "<lambda>")
        if isinstance(function, type) or "<lambda>" in name:
            rule = f"score must be a function with a name; use def, got {brief(function)}."
            raise InvalidInput(rule, parameter="score")
        return cls(name_score(function), function=function)

    def __post_init__(self) -> None:
        """Take any name."""

    def __call__(self, outputs: ArrayLike, kind: str = "probabilities") -> Floats:
        """Return the score of each label for each example, checked."""
        self.check_kind(kind)
        p = self._probabilities(np.asarray(outputs), kind)
        scores = self._compute(p)
        for order in (slice(0, 1), slice(None, None, -1)):  # a row alone, and all rows reversed
            again = self._compute(p[order])
            with np.errstate(invalid="ignore"):
                moved = np.abs(again - scores[order]) > 1e-9 * row_sizes(again)[:, None]
            if moved.any():
                got = f"{scores[order][moved][0]} and {again[moved][0]} among other rows"
                rule = f"{self.name} must score each row by itself, and the same each time"
                raise InvalidInput(f"{rule}, got {got}.", parameter="score")
        return scores

    def _compute(self, p: Floats) -> Floats:
        """Return what the function makes of probabilities, with a score for each of them."""
        scores = np.asarray(on_host(self.function(p)))
        fits = scores.shape == p.shape and scores.dtype.kind in "fiu"
        if not fits or np.isnan(scores).any() or np.isposinf(scores).any():
            rule = f"{self.name} must return a score for each probability, of shape {p.shape}"
            raise InvalidInput(f"{rule}, not NaN, got {brief(scores)}.", parameter="score")
        return scores.astype(np.float64)


def row_sizes(values: Floats) -> Floats:
    """Return the largest absolute value of each row, infinite ones left out, (n,)."""
    return np.asarray(np.where(np.isfinite(values), np.abs(values), 0.0).max(1))


def as_positive_number(name: str, value: object) -> float:
    """Return ``value`` as a float, if it is a finite number above 0."""
    number = 0.0 if isinstance(value, bool) or not isinstance(value, numbers.Real) else float(value)
    if not 0 < number < np.inf:
        raise InvalidInput(f"{name} must be a positive number, got {brief(value)}.", parameter=name)
    return number


class SklearnLearner(Learner):
    """A scikit-learn classifier, cloned and fitted on each support set.

    Examples of more than two dimensions, such as images, are flattened to rows. If the support
    set has a single label, nothing is fitted and that label gets probability 1.

    Parameters
    ----------
    estimator : object
        Classifier with ``fit`` and ``predict_proba``. Give a randomised one a ``random_state``,
        or each adaptation differs.

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
    ) -> FunctionScorer:
        labels, total = as_support_set(support_x, support_y, classes)
        if labels.min() == labels.max():
            sure = np.arange(total) == labels[0]
            return FunctionScorer(lambda x: np.tile(sure, (count_examples(x), 1)), None, total)
        from sklearn.base import clone

        return _score_estimator(clone(self.estimator).fit(_rows(support_x), labels), total)


def _score_estimator(estimator: Any, classes: int) -> FunctionScorer:
    """Return a fitted estimator, whose columns are moved to the labels of the task."""
    labels = np.asarray(estimator.classes_).astype(np.int64)
    source, columns = f"{type(estimator).__name__}.predict_proba", len(labels)

    def predict(x: Any) -> Floats:
        n = count_examples(x)
        found = estimator.predict_proba(_rows(x)) if n else np.ones((0, columns))
        shape = {"rows": n, "least": columns, "most": columns}
        return spread(as_outputs(source, found, kind="probabilities", **shape), labels, classes)

    return FunctionScorer(predict, None, classes, name=source)


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
        Classifier fitted on labels 0 .. classes - 1 (others get probability 0), or a function
        from examples to numbers of shape (n, classes).
    outputs : {"probabilities", "logits", "scores"}, default "probabilities"
        What the function returns; see `CallableLearner`. A classifier returns probabilities.

    Examples
    --------
    >>> from metapac.fewshot import FixedModel
    >>> FixedModel(lambda x: [[0.5, 0.5]] * len(x)).adapt().predict_proba([[0.0]]).tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, predict_proba: Any, *, outputs: str = "probabilities") -> None:
        fits = hasattr(predict_proba, "predict_proba") or callable(predict_proba)
        if isinstance(predict_proba, type) or not fits:
            rule = "predict_proba must be a fitted classifier or a function to probabilities"
            raise InvalidInput(f"{rule}, got {brief(predict_proba)}.")
        check_one_of("outputs", outputs, KINDS)
        self.predict_proba = predict_proba
        self.outputs = outputs

    def adapt(
        self, support_x: Any = None, support_y: Any = None, *, classes: int | None = None
    ) -> FunctionScorer:
        """Return the model itself as a scorer.

        Parameters
        ----------
        support_x, support_y : object, optional
            Ignored.
        classes : int, optional
            Number of labels; by default that of the model.

        Returns
        -------
        FunctionScorer
        """
        if not hasattr(self.predict_proba, "classes_"):
            model = getattr(self.predict_proba, "predict_proba", self.predict_proba)
            name = name_function(model, "the function of FixedModel")
            return FunctionScorer(model, None, classes, self.outputs, name)
        labels = np.asarray(self.predict_proba.classes_)
        is_numbered = labels.dtype.kind in "iub" and labels.min() >= 0
        if not is_numbered or labels.max() >= (classes or np.inf):
            text = f"the model was fitted on labels {brief(labels.tolist())}"
            raise InvalidInput(f"{text}, but the task has {classes or 'numbered'} labels, from 0.")
        return _score_estimator(self.predict_proba, classes or int(labels.max()) + 1)


class CallableLearner(Learner):
    """Any function from a support set and examples to a number for each label.

    Parameters
    ----------
    function : callable
        Called as ``function(support_x, support_y, x)``, with examples as they were passed and
        labels as int64. Returns numbers of shape (n, classes), higher for more plausible labels,
        or of fewer columns if the last labels are absent from the support set.
    outputs : {"probabilities", "logits", "scores"}, default "probabilities"
        What the numbers are. Logits, log-probabilities and minus distances are "logits": a
        softmax makes them probabilities. Any other numbers are "scores", calibrated as they are.

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
        labels, total = as_support_set(support_x, support_y, classes)
        name = name_function(self.function, "the function of CallableLearner")
        function = partial(self.function, support_x, labels)
        return FunctionScorer(function, np.unique(labels), total, self.outputs, name)

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
        raw = self.raw_outputs(x)
        return as_score_function(None, self.outputs)(raw, self.outputs)

    def raw_outputs(self, x: Any) -> Floats:
        """Return what the function returns, checked."""
        least = 1 if self.present is None else int(self.present.max()) + 1
        shape: Any = {"rows": count_examples(x), "least": least, "most": self.classes}
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

"""Protocols that learners satisfy without inheriting, and the bound on their rounding error."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from metapac._checks import brief
from metapac._types import Floats
from metapac.exceptions import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor, nn


class Scorer(Protocol):
    """A model adapted to one task.

    Rounding may change a probability in its last digits, for example from one batch size to
    another. A scorer that knows by how much may have one or both of the further methods of
    `metapac.learners.protocols.BoundedScorer`. Without them, `metapac.scoring.score_tasks` assumes
    a bound that suits the precision.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import Scorer
    >>> class Uniform:
    ...     def predict_proba(self, x):
    ...         return np.full((len(x), 4), 0.25)
    >>> scorer: Scorer = Uniform()
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
        """Return scores to calibrate on: lower bounds that allow for any rounding.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples.
        y : array_like of int, shape (n,)
            Their true labels.

        Returns
        -------
        ndarray, shape (n,)
            Lower bounds on every probability that ``predict_proba`` may return for these labels;
            see `lower_scores`.
        """

    def bounded_logits(self, x: Any) -> tuple[Floats, Floats]:
        """Return the logits of each label, and a bound on their rounding error.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples.

        Returns
        -------
        logits : ndarray, shape (n, classes)
            The logits; ``-inf`` for labels absent from the support set.
        error : ndarray, shape (n,)
            Bound on the error of a logit, apart from a number that all labels share.
        """


class Learner(Protocol):
    """Anything that adapts to a task with a few labelled examples.

    A learner whose scorers do not return probabilities says so by an attribute ``outputs``:
    "logits" for logits, log-probabilities or minus distances, which a softmax makes
    probabilities, or "scores" for any other numbers, higher for more plausible labels.

    Examples
    --------
    >>> from metapac.learners import CallableLearner, Learner
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
    """Adapt a learner to a task, with the number of labels if its ``adapt`` takes it.

    Parameters
    ----------
    learner : Learner
        The learner. Its method may be ``adapt(x, y)`` or ``adapt(x, y, classes=...)``.
    support_x : array_like, shape (s, ...)
        Support examples.
    support_y : array_like of int, shape (s,)
        Their labels.
    classes : int, optional
        Number of labels.

    Returns
    -------
    Scorer
        The adapted model.

    Raises
    ------
    InvalidInput
        If there is no method ``adapt``, or what it returns has no method ``predict_proba``.
    """
    adapt = getattr(learner, "adapt", None)
    if isinstance(learner, type) or not callable(adapt):
        raise InvalidInput(
            "the learner must be an object with a method adapt(x, y), got {}. Wrap a function by "
            "CallableLearner, a scikit-learn classifier by SklearnLearner.",
            brief(learner),
        )
    options = {"classes": classes} if _takes_classes(adapt) else {}
    scorer: Scorer = adapt(support_x, support_y, **options)
    if not hasattr(scorer, "predict_proba"):
        raise InvalidInput(
            "{}.adapt must return an object with a method predict_proba(x), got {}.",
            type(learner).__name__,
            brief(scorer),
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
    """A torch learner that `train` can train on batches of episodes.

    Attributes
    ----------
    module : torch.nn.Module
        The weights to train.

    Examples
    --------
    >>> from metapac.learners import MLP, ProtoNet, Trainable
    >>> learner: Trainable = ProtoNet(MLP(3, rng=0))
    """

    module: nn.Module

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes.

        Parameters
        ----------
        support_x : Tensor, shape (episodes, s, ...)
            Support examples.
        support_y : Tensor of int, shape (episodes, s)
            Their labels.
        query_x : Tensor, shape (episodes, q, ...)
            Query examples.
        classes : int
            Number of labels.

        Returns
        -------
        Tensor, shape (episodes, q, classes)
            The logits; ``-inf`` for labels absent from the support set of an episode.
        """


def lower_scores(
    scores: Floats, slack: ArrayLike = 0.0, *, precision: DTypeLike | None = None, steps: int = 1
) -> Floats:
    """Return lower bounds on scores that hold for any rounding in deployment.

    Parameters
    ----------
    scores : ndarray
        Probabilities of the true labels.
    slack : array_like, default 0.0
        Bound on how far rounding raises any logit relative to that of the true label.
    precision : dtype, optional
        Precision in which the deployed probabilities are rounded; by default that of ``scores``.
    steps : int, default 1
        Number of floats of that precision to go down, for the arithmetic of the softmax itself.

    Returns
    -------
    ndarray
        The lowered scores, in ``precision``. A score of 0 stays 0: no probability is below it.

    Notes
    -----
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

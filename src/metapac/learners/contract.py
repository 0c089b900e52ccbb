"""What a learner is: it adapts to a task and returns something that scores. Nothing to inherit.

Also what its scores are worth after rounding: see ``lower_scores``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

if TYPE_CHECKING:
    from torch import Tensor, nn


class Scorer(Protocol):
    """A model adapted to one task."""

    def predict_proba(self, x: Any) -> NDArray[np.floating[Any]]:
        """Return one probability for each example and label, shape (n, classes).

        A label absent from the support set gets exactly 0. The row of an example depends on that
        example and on the support set alone, never on the other rows of ``x``: were it otherwise,
        the scores of a task would not be independent and nothing could be promised of them.

        Rounding may move a row in its last digits, from one batch size to another for example.
        A scorer that knows by how much offers ``lowered_scores(x, y)``: for each example, a lower
        bound on every probability that ``predict_proba`` may give to its label, from
        ``lower_scores``. Without it, ``score_tasks`` assumes a bound that suits the precision.
        """


class Learner(Protocol):
    """Anything that adapts to a task with a few labelled examples."""

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Scorer:
        """Return the model adapted to the support set; the learner itself stays as it was.

        Labels are 0 .. ``classes`` - 1 in the task's own numbering, some perhaps absent from the
        support set; without ``classes`` they are 0 .. max(support_y).
        """


class Trainable(Protocol):
    """A torch learner that ``train`` can train, many episodes at a time."""

    module: nn.Module

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes, -inf for labels absent from its support.

        Shapes: (episodes, S, ...), (episodes, S), (episodes, Q, ...) -> (episodes, Q, classes).
        """


def lower_scores(
    scores: NDArray[np.floating[Any]],
    slack: ArrayLike = 0.0,
    *,
    precision: DTypeLike | None = None,
    steps: int = 1,
) -> NDArray[np.floating[Any]]:
    """Return scores to calibrate on that no rounding in deployment falls below.

    Parameters
    ----------
    scores : ndarray
        Probabilities of the true labels.
    slack : array_like
        Bound on how far rounding raises any logit against that of the true label.
    precision : dtype, optional
        Precision in which the deployed probabilities are rounded; that of ``scores`` by default.
    steps : int
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
    # What exceeds 1 is no probability and has no odds; it is only rounded down.
    lowered = wide / (1 + np.maximum(1 - wide, 0) * np.expm1(slack))
    lowered = lowered.astype(kind)
    for _ in range(steps):
        lowered = np.nextafter(lowered, kind.type(0))
    return np.asarray(lowered)

"""Outputs of an adapted model, with bounds on their rounding errors in deployment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from metapac._types import Counts, Floats
from metapac.learners import _checks
from metapac.learners.protocols import Learner, Scorer, lower_scores
from metapac.scoring.functions import ScoreFunction
from metapac.tasks.task import Task

# Assumed for a learner without bounds of its own: rounding changes differences of logits by up to
# 2**8 epsilons of its precision (3.1e-5 in float32, 5.7e-14 in float64), and a probability by 8
# further floats. Outputs of float32 networks were measured to move by 8.0e-7 of
# their length, so this suits logits up to about 40; for larger ones it grows in proportion.
LOGIT_ERROR = 2.0**8
STEPS = 8
_ORDINARY = 32.0


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model returns for the queries of a task.

    Parameters
    ----------
    values : ndarray, shape (n, classes)
        The outputs.
    kind : {"probabilities", "logits", "scores"}
        What they are.
    error : ndarray, shape (n,), optional
        Bound on the rounding error of a logit, if it is known.
    lowered : callable, optional
        Takes a label for each query and returns a lower bound on its probability.
    """

    values: Floats
    kind: str
    error: Floats | None = None
    lowered: Callable[[Counts], Floats] | None = None

    def scores(self, function: ScoreFunction) -> Floats:
        """Return the score of each label for each query.

        Parameters
        ----------
        function : ScoreFunction
            The score function.

        Returns
        -------
        ndarray, shape (n, classes)
            The scores.
        """
        return function(self.values, self.kind)

    def lowered_scores(self, function: ScoreFunction, labels: Counts) -> Floats:
        """Return lower bounds, for any rounding, on the scores of the true labels.

        Parameters
        ----------
        function : ScoreFunction
            The score function.
        labels : ndarray of int, shape (n,)
            True labels.

        Returns
        -------
        ndarray, shape (n,)
            The bounds.
        """
        is_plain = function == ScoreFunction()
        if is_plain and self.lowered is not None:
            return np.asarray(self.lowered(labels))
        if is_plain and self.kind == "probabilities":
            true = np.take_along_axis(self.values, labels[:, None], 1)[:, 0]
            return lower_scores(true, self._assumed_slack(), steps=STEPS)
        slack, spread = self._bound(labels)
        return function.lower(self.values, labels, kind=self.kind, slack=slack, spread=spread)

    def _bound(self, labels: Counts) -> tuple[Any, Any]:
        """Return slack and spread, as `ScoreFunction.lower` takes them."""
        if self.error is not None:
            return 2 * self.error, 0.0
        if self.lowered is None:
            return self._assumed_slack(), 0.0
        return _bound_by_labels(self.values, self.lowered, labels)

    def _assumed_slack(self) -> Any:
        """Return how far rounding is assumed to move a difference of logits, or a score."""
        unit = LOGIT_ERROR * float(np.finfo(self.values.dtype).eps)
        if self.kind == "probabilities":
            return unit
        sizes = np.where(np.isfinite(self.values), np.abs(self.values), 0.0).max(1)
        return unit * (np.maximum(sizes / _ORDINARY, 1.0) if self.kind == "logits" else sizes)


def adapted_outputs(
    learner: Learner, scorer: Scorer, x: Any, *, classes: int | None, name: str | int
) -> Outputs:
    """Return the outputs of an adapted model.

    Parameters
    ----------
    learner : Learner
        The learner.
    scorer : Scorer
        What it adapted to a task.
    x : array_like, shape (n, ...)
        Examples.
    classes : int or None
        Number of labels; None if any will do.
    name : str or int
        Name of the task, for messages.

    Returns
    -------
    Outputs
        The outputs.
    """
    kind, lowered = output_kind(learner), None
    if hasattr(scorer, "lowered_scores"):
        lowered = partial(scorer.lowered_scores, x)
    if hasattr(scorer, "bounded_logits"):
        logits, error = scorer.bounded_logits(x)
        return Outputs(np.asarray(logits), "logits", np.asarray(error), lowered)
    if hasattr(scorer, "raw_outputs"):
        return Outputs(scorer.raw_outputs(x), kind)
    values = _checks.as_outputs(
        f"predict_proba on task {name!r}",
        scorer.predict_proba(x),
        kind=kind,
        rows=_checks.count_examples(x),
        min_columns=classes or 1,
        max_columns=classes,
    )
    return Outputs(values, kind, lowered=lowered)


def bank_outputs(learner: Learner, bank: Any, task: Task) -> Outputs:
    """Return the outputs for the queries of a task whose pool is embedded.

    Parameters
    ----------
    learner : Learner
        The learner.
    bank : object
        What ``learner.bank(task.x)`` returned.
    task : Task
        The task.

    Returns
    -------
    Outputs
        The outputs.
    """

    def lowered(labels: Counts) -> Floats:
        return np.asarray(bank.scores([replace(task, query_y=labels)]))

    if hasattr(bank, "bounded_logits"):
        logits, error = bank.bounded_logits([task])[0]
        return Outputs(np.asarray(logits), "logits", np.asarray(error), lowered)
    return Outputs(np.asarray(bank.predict_proba(task)), output_kind(learner), lowered=lowered)


def output_kind(learner: Learner) -> str:
    """Return what the scorers of a learner return.

    Parameters
    ----------
    learner : Learner
        The learner.

    Returns
    -------
    str
        Its attribute ``outputs``; by default "probabilities".
    """
    return str(getattr(learner, "outputs", "probabilities"))


def _bound_by_labels(
    p: Floats, lowered: Callable[[Counts], Floats], labels: Counts
) -> tuple[Floats, Floats]:
    """Return slack and spread from lower bounds on the probability of every label.

    With L the bounds and g = 1 - sum of L, no probability is above L + g. So another label gains
    at most g, and loses at most g; the true one is at least L and at most its p + g.
    """
    n, classes = p.shape
    bounds = np.stack([lowered(np.full(n, c)) for c in range(classes)], axis=1).astype(np.float64)
    gap = np.maximum(1 - bounds.sum(1), 0) + classes * float(np.finfo(p.dtype).eps)  # (n,)
    true = np.take_along_axis(p.astype(np.float64), labels[:, None], 1)[:, 0]
    least = np.take_along_axis(bounds, labels[:, None], 1)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        slack = np.log(np.maximum(true / least, (true + gap) / true))
    return np.where(least > 0, slack, np.inf), gap

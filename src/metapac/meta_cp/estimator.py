"""Meta-CP, the baseline of Fisch et al. (2021): a guarantee on average over tasks, not for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, _ids, _scores, sentences
from metapac._checks import reject_foreign_keywords
from metapac._selection import kth_smallest
from metapac.base import Calibrated
from metapac.calibration import check_on_infeasible
from metapac.context import Context, as_context
from metapac.exceptions import InfeasibleGuarantee, InvalidInput
from metapac.explanation.paragraphs import explain_average
from metapac.explanation.rules import Rule
from metapac.explanation.words import Words
from metapac.grouping import Grouped, group
from metapac.meta_cp import wording
from metapac.meta_cp.corrections import OVER, Correction, Split, find_correction


class MetaCP(Calibrated):
    """Prediction sets whose miss rate is bounded on average over tasks, not for each task.

    A quantile predictor guesses, from each task's adaptation examples, the (1 - epsilon) quantile
    of nonconformity, which is minus the score of the true label. ``calibrate`` finds the smallest
    lambda with

        sum over the N tasks of F_i(quantile_i + lambda) / (N + 1) - correction >= 1 - epsilon,

    where F_i is the fraction of task i's examples with at most that nonconformity.

    Parameters
    ----------
    epsilon : float
        Miss rate allowed on average over tasks.
    delta : float
        Failure probability of the guarantee.
    over : {"tasks", "examples"}, default "tasks"
        What ``delta`` covers. "tasks": the draw of the calibration tasks and their examples.
        "examples": the draw of the examples alone, and ``epsilon`` is an average over the draw of
        the calibration tasks too; this is the calibration-conditional variant of Fisch et al. and
        the baseline of the paper.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the tasks are too few: raise ``InfeasibleGuarantee``, or keep every label.

    Attributes
    ----------
    lambda_ : float
        What is added to the predicted quantile of each task.
    correction_ : float
        What is subtracted from the average coverage.
    split_ : Split
        How ``delta`` is divided between the average and intervals for the tasks.
    tasks_ : ndarray
        Calibration tasks.
    task_sizes_ : ndarray
        Number of examples of each.
    quantiles_ : ndarray
        Predicted quantile of each.
    promise_ : str
        The guarantee in one sentence.

    Notes
    -----
    Both guarantees are proved in docs/guarantee.md.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaCP
    >>> rng = np.random.default_rng(0)
    >>> scores, tasks = rng.random(60 * 50), np.repeat(np.arange(60), 50)
    >>> method = MetaCP(epsilon=0.2, delta=0.1).calibrate(scores, tasks, np.full(60, -0.2))
    >>> method.predict_set([[0.9, 0.5, 0.001]], quantile=-0.2)
    array([[ True,  True, False]])
    """

    _kind = "MetaCP"
    lambda_: float
    correction_: float
    split_: Split
    tasks_: NDArray[Any]
    task_sizes_: NDArray[np.int64]
    quantiles_: NDArray[np.float64]

    @reject_foreign_keywords
    def __init__(
        self, *, epsilon: float, delta: float, over: str = "tasks", on_infeasible: str = "raise"
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.over = over
        self.on_infeasible = on_infeasible

    def calibrate(
        self,
        scores: ArrayLike,
        tasks: ArrayLike | Iterable[object],
        quantiles: ArrayLike | Mapping[Any, float],
        *,
        context: Context | None = None,
    ) -> Self:
        """Find lambda from labelled examples of the calibration tasks.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels; higher means more plausible.
        tasks : array_like, shape (n,)
            Task of each example: strings, integers, or anything hashable.
        quantiles : array_like or mapping from task
            Predicted quantile of nonconformity of each task; an array is in the order in which
            the tasks first appear.
        context : Context, optional
            What the guarantee is about.

        Returns
        -------
        MetaCP
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few; the message says what would work.
        """
        grouped = group(scores, tasks)
        grouped.check_no_nan()
        return self.calibrate_grouped(grouped, quantiles, context=context)

    def calibrate_grouped(
        self,
        grouped: Grouped,
        quantiles: ArrayLike | Mapping[Any, float],
        *,
        context: Context | None = None,
    ) -> Self:
        """Find lambda from scores that are grouped by task already, and hold no NaN.

        Parameters
        ----------
        grouped : Grouped
            What `metapac.grouping.group` returns; the order within a task does not matter.
        quantiles : array_like or mapping from task
            Predicted quantile of nonconformity of each task, as in ``calibrate``.
        context : Context, optional
            What the guarantee is about.

        Returns
        -------
        MetaCP
            The object itself, calibrated.
        """
        check_on_infeasible(self.on_infeasible)
        levels = self._checked_levels()
        about = as_context(context, grouped.names.tolist())
        predicted = _ids.as_task_quantiles(quantiles, grouped.names.tolist())
        correction = _correction(levels, grouped.sizes)
        (_, epsilon, _), count = levels, len(grouped.sizes)
        offset = math.inf
        if correction.leaves_room(epsilon, count):
            need = (count + 1) * (1 - epsilon + correction.amount)
            offset = _smallest_offset(grouped, predicted, need)
        elif self.on_infeasible == "raise":
            smallest = int(grouped.sizes.min())
            raise InfeasibleGuarantee(wording.explain_shortage(*levels, count, smallest))
        self.tasks_, self.task_sizes_, self.quantiles_ = grouped.names, grouped.sizes, predicted
        self.correction_, self.split_ = correction
        self.lambda_ = offset
        self.context_ = about
        return self._mark_calibrated(grouped.scores.dtype)

    def threshold(self, quantile: float) -> float:
        """Return the smallest score that is kept on a task: -(quantile + ``lambda_``).

        ``lambda_`` is rounded up by its last digit, so that no example that was counted as covered
        is lost to rounding.

        Parameters
        ----------
        quantile : float
            Predicted quantile of nonconformity of the task.

        Returns
        -------
        float
            The threshold.
        """
        self.check_calibrated()
        predicted = _scores.as_finite_number("quantile", quantile)
        with np.errstate(over="ignore"):
            return -float(predicted + np.nextafter(self.lambda_, np.inf))

    def predict_set(self, scores: ArrayLike, quantile: float) -> NDArray[np.bool_]:
        """Return which labels are kept on a task.

        Parameters
        ----------
        scores : array_like
            Scores of labels, usually of shape (n, classes).
        quantile : float
            Predicted quantile of nonconformity of the task.

        Returns
        -------
        ndarray of bool
            Whether each label is kept, in the shape of ``scores``.
        """
        return self._at_least(scores, self.threshold(quantile))

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""
        self.check_calibrated()
        sentence = wording.describe_guarantee(
            *self._checked_levels(), tasks=len(self.tasks_), offset=self.lambda_
        )
        return sentence if self.lambda_ < math.inf else f"{sentence} {sentences.TRIVIAL}"

    def explain(self) -> str:
        """Return the guarantee in plain words, for people who are not statisticians.

        Returns
        -------
        str
            What was checked, what holds, how sure one can be, and what it does not say.
        """
        self.check_calibrated()
        rule = Rule(
            None,
            self.epsilon,
            -self.lambda_,
            len(self.tasks_),
            int(self.task_sizes_.sum()),
            keeps_all=self.lambda_ == math.inf,
        )
        return explain_average(*self._checked_levels(), rule, self._about())

    def _state(self) -> str:
        count = Words.from_context(self._about()).count_units(len(self.tasks_))
        return f"calibrated on {count}, lambda {self.lambda_:.3g}"

    def _checked_levels(self) -> tuple[str, float, float]:
        """Return ``over``, ``epsilon`` and ``delta``, checked."""
        _checks.check_one_of("over", self.over, OVER)
        epsilon = _checks.as_probability("epsilon", self.epsilon)
        return self.over, epsilon, _checks.as_probability("delta", self.delta)

    def _result(self) -> tuple[str, Any]:
        return "lambda", self.lambda_

    def _body(self) -> dict[str, Any]:
        return {
            "evidence": {
                "tasks": _ids.as_json_names(self.tasks_),
                "sizes": self.task_sizes_.tolist(),
                "quantiles": self.quantiles_.tolist(),
            }
        }

    def _restore(self, body: dict[str, Any]) -> None:
        check_on_infeasible(self.on_infeasible)
        evidence, levels = body["evidence"], self._checked_levels()
        self.tasks_ = _ids.as_task_names(evidence["tasks"])
        self.task_sizes_ = _checks.as_whole_numbers("sizes", evidence["sizes"], minimum=1)
        _checks.check_same_shape("sizes", self.task_sizes_, "tasks", self.tasks_)
        self.quantiles_ = _ids.as_task_quantiles(evidence["quantiles"], self.tasks_.tolist())
        correction = _correction(levels, self.task_sizes_)
        offset, count = float(body["lambda"]), len(self.tasks_)
        if offset < math.inf and not correction.leaves_room(levels[1], count):
            raise InvalidInput(f"lambda is {offset:g}, but {count} tasks are too few for any.")
        self.correction_, self.split_ = correction
        self.lambda_ = offset
        self._mark_calibrated(_scores.as_precision(body["precision"]))


def _correction(levels: tuple[str, float, float], sizes: NDArray[np.int64]) -> Correction:
    distinct, counts = np.unique(sizes, return_counts=True)
    return find_correction(*levels, distinct, counts)


def _smallest_offset(grouped: Grouped, quantiles: NDArray[np.float64], need: float) -> float:
    """Return the smallest lambda at which the tasks' covered fractions add up to ``need``."""
    # An example is covered if lambda is at least its nonconformity minus its task's quantile, so
    # lambda is one of these differences. ``need`` is known to be reached if all are covered.
    sizes, offsets = grouped.sizes, -grouped.scores.astype(np.float64)
    equal = bool((sizes == sizes[0]).all())
    with np.errstate(over="ignore"):  # overflow to inf is intended; it preserves order
        if equal:
            offsets.reshape(len(sizes), -1)[...] -= quantiles[:, None]
        else:
            offsets -= np.repeat(quantiles, sizes)
    # A sum of m fractions may be off by m roundings. Requiring that much more can cost one example
    # but never the guarantee.
    rounded = need * (1 + len(offsets) * np.finfo(np.float64).eps)
    if equal:  # all examples have the same weight: select
        rank = min(math.ceil(rounded * int(sizes[0])), len(offsets)) - 1
        return kth_smallest(offsets, rank) + 0.0  # no negative zero
    order = np.argsort(offsets)
    sums = np.cumsum(np.repeat(1 / sizes, sizes)[order])
    first = np.searchsorted(sums, rounded)
    return float(offsets[order[min(int(first), len(order) - 1)]]) + 0.0  # no negative zero

"""Meta-CP, the baseline of Fisch et al. (2021): a promise on average over tasks, not for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, corrections, sentences
from metapac._checks import own_words
from metapac._estimator import Calibrated
from metapac.calibration import ON_INFEASIBLE
from metapac.corrections import Correction, Split
from metapac.grouping import Grouped, group
from metapac.guarantee import InfeasibleGuarantee


class MetaCP(Calibrated):
    """Covers on average over tasks with confidence: the baseline, whose promise is not per task.

    A quantile predictor guesses from each task's adaptation examples the (1 - epsilon) quantile
    of nonconformity, minus the score of the true label. ``calibrate`` finds the least lambda with

        sum over the N tasks of F_i(quantile_i + lambda) / (N + 1) - correction >= 1 - epsilon,

    F_i being the share of task i's examples of at most that nonconformity.

    ``over="tasks"``: with probability at least ``1 - delta`` over the calibration tasks and their
    examples, sets miss the true label at most a fraction ``epsilon`` of the time on average over
    new tasks. ``over="examples"`` is the calibration-conditional variant of Fisch et al., the
    baseline of the paper: ``delta`` covers the examples alone, and ``epsilon`` is an average over
    the draw of the calibration tasks too. Both are proved in docs/guarantee.md.

    ``on_infeasible="trivial"`` keeps every label where the tasks are too few, instead of raising
    ``InfeasibleGuarantee``.
    """

    lambda_: float
    correction_: float
    split_: Split
    tasks_: NDArray[Any]
    task_sizes_: NDArray[np.int64]
    quantiles_: NDArray[np.float64]

    @property
    def _found(self) -> str:
        return "lambda"

    @own_words
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
    ) -> Self:
        """Find lambda from the true labels' scores, the task of each, and a quantile per task.

        ``quantiles`` are the predicted quantiles of nonconformity: a mapping from task to number,
        or an array in the order in which the tasks first appear.
        """
        _checks.one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        over, epsilon, delta = self._promise()
        grouped = group(scores, tasks)
        grouped.refuse_nan()
        predicted = _checks.task_quantiles(quantiles, grouped.names.tolist())
        correction, count = self._correction(grouped.sizes), len(grouped.sizes)
        found = math.inf
        if correction.leaves_room(epsilon, count):
            need = (count + 1) * (1 - epsilon + correction.amount)
            found = _least_offset(grouped, predicted, need)
        elif self.on_infeasible == "raise":
            least = int(grouped.sizes.min())
            raise InfeasibleGuarantee(corrections.shortage(over, epsilon, delta, count, least))
        self.tasks_, self.task_sizes_, self.quantiles_ = grouped.names, grouped.sizes, predicted
        self.correction_, self.split_ = correction
        self.lambda_ = found
        return self._calibrated(grouped.scores.dtype)

    def threshold(self, quantile: float) -> float:
        """Return the cut-off for scores on a task of this predicted quantile.

        It is -(quantile + lambda_), with lambda_ raised by its last digit: no example that was
        counted as covered is lost to rounding.
        """
        self._check_calibrated()
        predicted = _checks.one_finite("quantile", quantile)
        with np.errstate(over="ignore"):
            return -float(predicted + np.nextafter(self.lambda_, np.inf))

    def predict_set(self, scores: ArrayLike, quantile: float) -> NDArray[np.bool_]:
        """Return which labels are kept on a task of this predicted quantile, shaped as scores."""
        return self._kept(scores, self.threshold(quantile))

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""
        self._check_calibrated()
        count = len(self.tasks_)
        sentence = sentences.of_average(*self._promise(), tasks=count, offset=self.lambda_)
        return sentence if self.lambda_ < math.inf else f"{sentence} {sentences.TRIVIAL}"

    def _promise(self) -> tuple[str, float, float]:
        """Return over what, epsilon and delta, checked."""
        _checks.one_of("over", self.over, corrections.OVER)
        epsilon = _checks.probability("epsilon", self.epsilon)
        return self.over, epsilon, _checks.probability("delta", self.delta)

    def _correction(self, sizes: NDArray[np.int64]) -> Correction:
        kinds = np.unique(sizes, return_counts=True)
        return corrections.correction(*self._promise(), *kinds)

    def _body(self) -> dict[str, Any]:
        return {
            "evidence": {
                "tasks": _checks.json_names(self.tasks_),
                "sizes": self.task_sizes_.tolist(),
                "quantiles": self.quantiles_.tolist(),
            }
        }

    def _restore(self, body: dict[str, Any]) -> None:
        evidence = body["evidence"]
        self.tasks_ = _checks.task_names(evidence["tasks"])
        self.task_sizes_ = _checks.whole_numbers("sizes", evidence["sizes"], least=1)
        _checks.same_shape("sizes", self.task_sizes_, "tasks", self.tasks_)
        self.quantiles_ = _checks.task_quantiles(evidence["quantiles"], self.tasks_.tolist())
        self.correction_, self.split_ = self._correction(self.task_sizes_)
        self.lambda_ = float(body["lambda"])
        self._calibrated(np.dtype(body["precision"]))


def _least_offset(grouped: Grouped, quantiles: NDArray[np.float64], need: float) -> float:
    """Return the least lambda at which the tasks' shares of covered examples add up to ``need``.

    An example is covered from its nonconformity minus its task's quantile on, so that lambda is
    one of these numbers. They are known to be enough when all are covered. A sum of m shares may
    be wrong by m roundings, and that much more is asked for: it can cost one example and never the
    promise.
    """
    with np.errstate(over="ignore"):  # beyond the range of doubles lies infinity, in order
        offsets = -grouped.scores.astype(np.float64) - np.repeat(quantiles, grouped.sizes)
    rounded = need * (1 + len(offsets) * np.finfo(np.float64).eps)
    if len(set(grouped.sizes.tolist())) == 1:  # every example counts alike: a plain selection
        rank = min(math.ceil(rounded * int(grouped.sizes[0])), len(offsets)) - 1
        return float(np.partition(offsets, rank)[rank]) + 0.0  # never minus zero
    order = np.argsort(offsets)
    sums = np.cumsum(np.repeat(1 / grouped.sizes, grouped.sizes)[order])
    first = np.searchsorted(sums, rounded)
    return float(offsets[order[min(int(first), len(order) - 1)]]) + 0.0  # never minus zero

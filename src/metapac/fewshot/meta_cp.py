"""Meta-CP, the baseline of Fisch et al. (2021): sets that are valid on average over tasks.

Both corrections depend on the numbers of tasks and examples alone, never on scores: the proofs,
in docs/theory/meta-cp.md, bound the average at one fixed lambda.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _common, inputs, planning, words
from metapac._common import Counts, as_probability, check_one_of
from metapac.binomial import clopper_pearson_upper, min_integer, min_value
from metapac.context import Context, as_context
from metapac.errors import InfeasibleGuarantee, InvalidInput
from metapac.grouping import Grouped, group
from metapac.guarantee import BALANCED, SAMPLED, TRIVIAL, percent
from metapac.inputs import as_score_array
from metapac.predictors import ON_INFEASIBLE, Calibrated
from metapac.words import Rule, Words

OVER = ("tasks", "examples")
# Shares of delta tried for the intervals. Any division is valid and the correction is flat around
# the best one, so a finer list gains nothing.
_SHARES = tuple(i / 20 for i in range(1, 20))


class Split(NamedTuple):
    """How delta is divided between the average over tasks and the intervals within them."""

    across: float
    within: float


class Correction(NamedTuple):
    """The amount to subtract from the average coverage."""

    amount: float
    split: Split

    def leaves_room(self, epsilon: float, tasks: int) -> bool:
        """Return whether tasks that cover all of their examples would support the guarantee."""
        # At best N of N + 1 are covered, so 1 / (N + 1) of epsilon is spent before any error.
        return (epsilon - self.amount) * (tasks + 1) >= 1


def find_correction(
    over: str, epsilon: float, delta: float, sizes: Counts, counts: Counts
) -> Correction:
    """Return the correction for a guarantee over tasks and examples, or over examples alone."""
    if over == "tasks":
        return _over_tasks(epsilon, delta, int(counts.sum()))
    return _over_examples(epsilon, delta, tuple(sizes.tolist()), tuple(counts.tolist()))


def _over_tasks(epsilon: float, delta: float, tasks: int) -> Correction:
    """Return the smallest c with exp(-N KL(1 - epsilon + c, 1 - epsilon)) <= delta."""

    # Hoeffding's inequality (1963, Theorem 1) for N independent numbers in [0, 1]: the covered
    # fraction of a task's examples is such a number, with the task's true coverage as its mean.
    def is_enough(share: float) -> bool:
        miss = epsilon * (1 - share)
        gain = math.log1p(epsilon * share / (1 - epsilon))  # log of (1 - miss) / (1 - epsilon)
        divergence = (1 - miss) * gain + miss * math.log1p(-share)
        return tasks * divergence >= -math.log(delta)

    share = min_value(is_enough)
    return Correction(math.inf if share is None else epsilon * share, Split(delta, 0.0))


@functools.lru_cache(maxsize=256)  # studies calibrate many times on tasks of the same sizes
def _over_examples(
    epsilon: float, delta: float, sizes: tuple[int, ...], counts: tuple[int, ...]
) -> Correction:
    """Return Hoeffding's bound for tasks whose coverages lie in intervals, as in Fisch et al."""
    # With w_i the width of an interval for task i at level delta_within / N, the bound is
    # sqrt(sum w_i^2 log(1 / delta_across) / 2) / N.
    tasks, best = sum(counts), Correction(math.inf, Split(delta, 0.0))
    for share in _SHARES:
        split = Split(delta * (1 - share), delta * share)
        widths = _interval_widths(epsilon, split.within / tasks, np.array(sizes))
        squares = float(np.array(counts) @ widths**2)
        amount = math.sqrt(squares * -math.log(split.across) / 2) / tasks
        best = min(best, Correction(amount, split))
    return best


def _interval_widths(epsilon: float, level: float, sizes: Counts) -> NDArray[np.float64]:
    """Return the width of the Clopper-Pearson interval for a task of each size."""
    errors = np.floor(epsilon * sizes).astype(np.int64)
    upper = clopper_pearson_upper(errors, sizes, level / 2)
    lower = 1 - clopper_pearson_upper(sizes - errors, sizes, level / 2)
    return np.maximum(upper - lower, 1 / np.sqrt(sizes))


def describe_guarantee(
    over: str, epsilon: float, delta: float, *, tasks: int, offset: float
) -> str:
    """Return the guarantee of `MetaCP`, which covers the average over tasks but no single task."""
    sets = f"the sets {{label: score >= -(quantile + {offset!r})}}"
    rate = f"miss the true label at most {percent(epsilon)} of the time on average over"
    claim = f"the {tasks} calibration tasks and their examples, {sets} {rate} new tasks"
    if over == "examples":
        larger = f"are at least as large as sets that {rate} the draw of the calibration tasks"
        claim = f"the examples of the {tasks} calibration tasks, {sets} {larger} and of a new one"
    return (
        f"With confidence {percent(delta, complement=True)} over the draw of {claim}; this is no "
        "guarantee for each task; it holds provided that tasks are drawn i.i.d. from one "
        f"distribution, {SAMPLED}{BALANCED}, that no calibration task was seen in training, and "
        "that the same fixed score function and quantile predictor are used for all tasks."
    )


def explain_shortage(over: str, epsilon: float, delta: float, tasks: int, min_size: int) -> str:
    """Return what infeasible tasks lack, and which guarantees they support."""

    def works(epsilon: float, delta: float, tasks: int) -> bool:
        sizes, counts = np.array([min_size]), np.array([tasks])
        return find_correction(over, epsilon, delta, sizes, counts).leaves_room(epsilon, tasks)

    plural = "s" if min_size > 1 else ""
    condition = "" if over == "tasks" else f" with at least {min_size} example{plural}"
    high = tasks + 1
    while not works(epsilon, delta, high):
        high *= 2
        if high > _common.LARGEST_COUNT:
            raise planning.sample_size_overflow(epsilon, delta)
    needed = min_integer(lambda count: works(epsilon, delta, count), tasks, high)
    takes = f" on average over tasks: this takes {planning.count_tasks(needed)}{condition}"
    lack = f"{takes}, but {planning.there_are(tasks)}"
    add = f"add {planning.count_tasks(needed - tasks)}{condition}"
    return planning.explain_too_few(epsilon, delta, lambda e, d: works(e, d, tasks), lack, add)


def explain_average(over: str, epsilon: float, delta: float, rule: Rule, about: Context) -> str:
    """Return the guarantee of `MetaCP` in plain words, and what it does not say."""
    terms, tasks = Words.from_context(about), rule.tasks
    averaged, drawn = f"new {terms.units} of the same kind", terms.count_units(tasks)
    own = f"those whose score reaches the threshold of the {terms.unit}"
    worse = f"it is an average, and sets may miss far more often at some {terms.units}"
    share = f"{percent(epsilon)} is a share of all {terms.examples}"
    if over == "examples":
        averaged += f" and over many such calibrations, each with other {terms.units}"
        drawn = f"{terms.examples} of the {drawn}"
    return words.join_paragraphs(
        f"{words.describe_basis(terms, tasks, [rule])} "
        f"{words.describe_sets(terms, rule, {}, kept=own)}",
        f"Averaged over {averaged}, at most {percent(epsilon)} of the {terms.examples} get a set "
        "without the true label.",
        f"{words.describe_confidence(delta, drawn, terms.units)} "
        f"{words.describe_pool(about, tasks)}",
        words.describe_conditions(about, terms.units),
        words.list_limits(terms, f"for any one {terms.unit}: {worse}", share),
        words.USE,
    )


class MetaCP(Calibrated):
    """Prediction sets whose miss rate is bounded on average over tasks, not for each task.

    A quantile predictor guesses, from each task's adaptation examples, the (1 - epsilon) quantile
    of nonconformity, which is minus the score of the true label. ``calibrate`` finds the smallest
    lambda with

        sum over the N tasks of F_i(quantile_i + lambda) / (N + 1) - correction >= 1 - epsilon,

    where F_i is the fraction of task i's examples with at most that nonconformity. The guarantee is
    proved in docs/theory/meta-cp.md.

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
    tasks_, task_sizes_, quantiles_ : ndarray
        Calibration tasks, the number of examples of each, and its predicted quantile.
    promise_ : str
        The guarantee in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import MetaCP
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

    @_common.reject_foreign_keywords
    def __init__(
        self, *, epsilon: float, delta: float, over: str = "tasks", on_infeasible: str = "raise"
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.over, self.on_infeasible = over, on_infeasible

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
        return self._calibrate_grouped(grouped, quantiles, context=context)

    def _calibrate_grouped(
        self,
        grouped: Grouped,
        quantiles: ArrayLike | Mapping[Any, float],
        *,
        context: Context | None = None,
    ) -> Self:
        """Find lambda from scores that are grouped by task already, and hold no NaN."""
        check_one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        levels, names = self._checked_levels(), grouped.names.tolist()
        about, predicted = as_context(context, names), as_task_quantiles(quantiles, names)
        correction, (_, epsilon, _) = _correction(levels, grouped.sizes), levels
        count, offset = len(names), math.inf
        if correction.leaves_room(epsilon, count):
            need = (count + 1) * (1 - epsilon + correction.amount)
            offset = _smallest_offset(grouped, predicted, need)
        elif self.on_infeasible == "raise":
            lack = explain_shortage(*levels, count, int(grouped.sizes.min()))
            raise InfeasibleGuarantee(lack)
        self.tasks_, self.task_sizes_, self.quantiles_ = grouped.names, grouped.sizes, predicted
        (self.correction_, self.split_), self.lambda_, self.context_ = correction, offset, about
        return self._mark_calibrated(grouped.scores.dtype)

    def threshold(self, quantile: float) -> float:
        """Return the smallest score that is kept on a task: -(quantile + ``lambda_``).

        ``lambda_`` is rounded up by its last digit, so that rounding loses no covered example.

        Parameters
        ----------
        quantile : float
            Predicted quantile of nonconformity of the task.

        Returns
        -------
        float
        """
        self.check_calibrated()
        predicted = as_score_array("quantile", quantile)
        if predicted.ndim or not np.isfinite(predicted):
            given = _common.brief(quantile)
            raise InvalidInput(f"quantile must be one finite number, got {given}.")
        with np.errstate(over="ignore"):
            return -float(float(predicted) + np.nextafter(self.lambda_, np.inf))

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
        return inputs.is_at_least(scores, self.threshold(quantile), self.precision_)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""
        self.check_calibrated()
        levels, tasks = self._checked_levels(), len(self.tasks_)
        sentence = describe_guarantee(*levels, tasks=tasks, offset=self.lambda_)
        return sentence if self.lambda_ < math.inf else f"{sentence} {TRIVIAL}"

    def explain(self) -> str:
        """Return the guarantee in plain words, for people who are not statisticians.

        Returns
        -------
        str
            What was checked, what holds, how sure one can be, and what it does not say.
        """
        self.check_calibrated()
        counts = len(self.tasks_), int(self.task_sizes_.sum())
        keeps_all = self.lambda_ == math.inf
        rule = Rule(None, self.epsilon, -self.lambda_, *counts, keeps_all=keeps_all)
        return explain_average(*self._checked_levels(), rule, self._about())

    def _state(self) -> str:
        count = Words.from_context(self._about()).count_units(len(self.tasks_))
        return f"calibrated on {count}, lambda {self.lambda_:.3g}"

    def _checked_levels(self) -> tuple[str, float, float]:
        """Return ``over``, ``epsilon`` and ``delta``, checked."""
        check_one_of("over", self.over, OVER)
        epsilon = as_probability("epsilon", self.epsilon)
        return self.over, epsilon, as_probability("delta", self.delta)

    def _result(self) -> tuple[str, Any]:
        return "lambda", self.lambda_

    def _body(self) -> dict[str, Any]:
        evidence = {"tasks": inputs.as_json_names(self.tasks_), "sizes": self.task_sizes_.tolist()}
        return {"evidence": evidence | {"quantiles": self.quantiles_.tolist()}}

    def _restore(self, body: dict[str, Any]) -> None:
        check_one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        evidence, levels = body["evidence"], self._checked_levels()
        inputs.check_distinct(evidence["tasks"])
        self.tasks_ = inputs.as_task_names(evidence["tasks"])
        self.task_sizes_ = _common.as_whole_numbers("sizes", evidence["sizes"], minimum=1)
        _common.check_same_shape("sizes", self.task_sizes_, "tasks", self.tasks_)
        self.quantiles_ = as_task_quantiles(evidence["quantiles"], self.tasks_.tolist())
        correction = _correction(levels, self.task_sizes_)
        offset, count = float(body["lambda"]), len(self.tasks_)
        if offset < math.inf and not correction.leaves_room(levels[1], count):
            raise InvalidInput(f"lambda is {offset:g}, but {count} tasks are too few for any.")
        (self.correction_, self.split_), self.lambda_ = correction, offset
        self._mark_calibrated(inputs.as_precision(body["precision"]))


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
        return float(np.partition(offsets, rank)[rank]) + 0.0  # no negative zero
    order = np.argsort(offsets)
    first = np.searchsorted(np.cumsum(np.repeat(1 / sizes, sizes)[order]), rounded)
    return float(offsets[order[min(int(first), len(order) - 1)]]) + 0.0  # no negative zero


def as_task_quantiles(quantiles: Any, tasks: list[Any]) -> NDArray[np.float64]:
    """Return one finite number for each task, from an array or a mapping from task to number."""
    if isinstance(quantiles, Mapping):
        quantiles = inputs.reorder_by_task("quantiles", quantiles, "scores", tasks)
    array = as_score_array("quantiles", quantiles)
    if array.shape != (len(tasks),):
        rule = f"quantiles must be a mapping from task or have shape ({len(tasks)},)"
        raise InvalidInput(f"{rule}, got shape {array.shape}.")
    inputs.check_finite("quantiles", array)
    return array.astype(np.float64)

"""Meta-CP, the baseline of Fisch et al. (2021): sets that are valid on average over tasks.

Both corrections depend on the numbers of tasks and examples alone, never on scores: the proofs,
in docs/guarantee.md, bound the average at one fixed lambda. Tasks are given by their distinct
sizes and the number of tasks of each size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import planning, words
from metapac._common import (
    LARGEST_COUNT,
    Counts,
    Floats,
    as_probability,
    as_whole_numbers,
    brief,
    check_one_of,
    check_same_shape,
    reject_foreign_keywords,
)
from metapac.binomial import clopper_pearson_upper, min_integer, min_value
from metapac.context import Context, as_context
from metapac.errors import InfeasibleGuarantee, InvalidInput
from metapac.grouping import Grouped, group
from metapac.guarantee import BALANCED, SAMPLED, TRIVIAL, percent
from metapac.inputs import (
    as_json_names,
    as_precision,
    as_score_array,
    as_task_names,
    check_distinct,
    check_finite,
    is_at_least,
    reorder_by_task,
)
from metapac.planning import sample_size_overflow
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
        return over_tasks(epsilon, delta, int(counts.sum()))
    if len(sizes) > _FEW:
        return over_examples(epsilon, delta, sizes, counts)
    return _cached_over_examples(epsilon, delta, tuple(sizes.tolist()), tuple(counts.tolist()))


# Studies calibrate many times on tasks of the same few sizes; their corrections are cached.
_FEW = 64


@functools.lru_cache(maxsize=256)
def _cached_over_examples(
    epsilon: float, delta: float, sizes: tuple[int, ...], counts: tuple[int, ...]
) -> Correction:
    return over_examples(epsilon, delta, np.array(sizes), np.array(counts))


def over_tasks(epsilon: float, delta: float, tasks: int) -> Correction:
    """Return the smallest c with exp(-N KL(1 - epsilon + c, 1 - epsilon)) <= delta.

    Hoeffding's inequality (1963, Theorem 1): N independent numbers in [0, 1] with mean at most
    1 - epsilon average 1 - epsilon + c or more with at most that probability. The fraction of a
    task's examples that is covered is such a number, with the task's true coverage as its mean. An
    interval for each task would only cost more.
    """

    def is_enough(share: float) -> bool:
        miss = epsilon * (1 - share)
        gain = math.log1p(epsilon * share / (1 - epsilon))  # log of (1 - miss) / (1 - epsilon)
        divergence = (1 - miss) * gain + miss * math.log1p(-share)
        return tasks * divergence >= -math.log(delta)

    share = min_value(is_enough)
    return Correction(math.inf if share is None else epsilon * share, Split(delta, 0.0))


def over_examples(epsilon: float, delta: float, sizes: Counts, counts: Counts) -> Correction:
    """Return Hoeffding's bound for tasks whose coverages lie in intervals, as in Fisch et al.

    With w_i the width of an interval for task i at level delta_within / N, the bound is
    sqrt(sum w_i^2 log(1 / delta_across) / 2) / N.
    """
    tasks = int(counts.sum())
    best = Correction(math.inf, Split(delta, 0.0))
    for share in _SHARES:
        split = Split(delta * (1 - share), delta * share)
        widths = interval_widths(epsilon, split.within / tasks, sizes)
        squares = float(counts @ widths**2)
        amount = math.sqrt(squares * -math.log(split.across) / 2) / tasks
        best = min(best, Correction(amount, split))
    return best


def interval_widths(epsilon: float, level: float, sizes: Counts) -> NDArray[np.float64]:
    """Return the width of the Clopper-Pearson interval for a task of each size.

    The Dvoretzky-Kiefer-Wolfowitz interval is never narrower: by Hoeffding's inequality no end of
    this one is further than sqrt(log(2 / level) / 2n) from the middle.
    """
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
    if over == "tasks":
        claim = f"the {tasks} calibration tasks and their examples, {sets} {rate} new tasks"
    else:
        claim = (
            f"the examples of the {tasks} calibration tasks, {sets} are at least as large as sets "
            f"that {rate} the draw of the calibration tasks and of a new one"
        )
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
        if high > LARGEST_COUNT:
            raise sample_size_overflow(epsilon, delta)
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
    worse = f"it is an average, and lists may miss far more often at some {terms.units}"
    share = f"{percent(epsilon)} is a share of all {terms.examples}"
    if over == "examples":
        averaged += f" and over many such calibrations, each with other {terms.units}"
        drawn = f"{terms.examples} of the {drawn}"
    return words.join_paragraphs(
        f"{words.describe_basis(terms, tasks, [rule])} "
        f"{words.describe_sets(terms, rule, {}, kept=own)}",
        f"Averaged over {averaged}, at most {percent(epsilon)} of the {terms.examples} get a list "
        "without the right label.",
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
        check_one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        levels = self._checked_levels()
        about = as_context(context, grouped.names.tolist())
        predicted = as_task_quantiles(quantiles, grouped.names.tolist())
        correction = _correction(levels, grouped.sizes)
        (_, epsilon, _), count = levels, len(grouped.sizes)
        offset = math.inf
        if correction.leaves_room(epsilon, count):
            need = (count + 1) * (1 - epsilon + correction.amount)
            offset = _smallest_offset(grouped, predicted, need)
        elif self.on_infeasible == "raise":
            smallest = int(grouped.sizes.min())
            raise InfeasibleGuarantee(explain_shortage(*levels, count, smallest))
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
        predicted = as_finite_number("quantile", quantile)
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
        return is_at_least(scores, self.threshold(quantile), self.precision_)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""
        self.check_calibrated()
        sentence = describe_guarantee(
            *self._checked_levels(), tasks=len(self.tasks_), offset=self.lambda_
        )
        return sentence if self.lambda_ < math.inf else f"{sentence} {TRIVIAL}"

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
        check_one_of("over", self.over, OVER)
        epsilon = as_probability("epsilon", self.epsilon)
        return self.over, epsilon, as_probability("delta", self.delta)

    def _result(self) -> tuple[str, Any]:
        return "lambda", self.lambda_

    def _body(self) -> dict[str, Any]:
        return {
            "evidence": {
                "tasks": as_json_names(self.tasks_),
                "sizes": self.task_sizes_.tolist(),
                "quantiles": self.quantiles_.tolist(),
            }
        }

    def _restore(self, body: dict[str, Any]) -> None:
        check_one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        evidence, levels = body["evidence"], self._checked_levels()
        check_distinct(evidence["tasks"])
        self.tasks_ = as_task_names(evidence["tasks"])
        self.task_sizes_ = as_whole_numbers("sizes", evidence["sizes"], minimum=1)
        check_same_shape("sizes", self.task_sizes_, "tasks", self.tasks_)
        self.quantiles_ = as_task_quantiles(evidence["quantiles"], self.tasks_.tolist())
        correction = _correction(levels, self.task_sizes_)
        offset, count = float(body["lambda"]), len(self.tasks_)
        if offset < math.inf and not correction.leaves_room(levels[1], count):
            raise InvalidInput(f"lambda is {offset:g}, but {count} tasks are too few for any.")
        self.correction_, self.split_ = correction
        self.lambda_ = offset
        self._mark_calibrated(as_precision(body["precision"]))


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


def as_finite_number(name: str, value: Any) -> float:
    """Return ``value`` as one float that is neither infinite nor NaN."""
    array = as_score_array(name, value)
    if array.ndim or not np.isfinite(array):
        raise InvalidInput(f"{name} must be one finite number, got {brief(value)}.")
    return float(array)


def as_task_quantiles(quantiles: Any, tasks: list[Any]) -> NDArray[np.float64]:
    """Return one finite number for each task, from an array or a mapping from task to number."""
    if isinstance(quantiles, Mapping):
        quantiles = reorder_by_task("quantiles", quantiles, "scores", tasks)
    array = as_score_array("quantiles", quantiles)
    if array.shape != (len(tasks),):
        raise InvalidInput(
            f"quantiles must hold one number for each of the {len(tasks)} tasks, got shape "
            f"{array.shape}. Pass a mapping from task to number, or an array in the order in which "
            "the tasks first appear."
        )
    check_finite("quantiles", array)
    return array.astype(np.float64)


_PROBES = 4096


def kth_smallest(values: Floats, rank: int) -> float:
    """Return ``np.partition(values, rank)[rank]``, from few of the values.

    A regular sample says between which two values the answer lies, in most cases: its ranks are
    off by four standard deviations of a random sample at most. Where that is wrong, or nearly all
    values are equal, all of them are partitioned. (Floyd and Rivest 1975.)
    """
    probes = np.sort(values[:: max(1, len(values) // _PROBES)])
    expected, margin = rank / len(values) * len(probes), 2 * math.sqrt(len(probes))
    low = probes[max(0, math.floor(expected - margin))]
    high = probes[min(len(probes) - 1, math.ceil(expected + margin))]
    between = values[(values >= low) & (values <= high)]
    below = int(np.count_nonzero(values < low))
    if not below <= rank < below + len(between):
        between, below = values, 0
    return float(np.partition(between, rank - below)[rank - below])

"""The verdict on a guarantee, from labelled new tasks. The proof is in docs/verdict.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac._common import Counts, as_probability, as_whole_numbers, check_same_shape, listed
from metapac.binomial import allowed_errors_in_task
from metapac.errors import InvalidInput, keyword
from metapac.guarantee import JOINT_LEVELS, Epsilon, percent
from metapac.ranks import equal_share
from metapac.words import inflect


def clopper_pearson_interval(
    missed: ArrayLike, examples: ArrayLike, *, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the exact two-sided interval of a miss rate (Clopper and Pearson)."""
    k, n = np.asarray(missed, dtype=float), np.asarray(examples, dtype=float)
    tail = (1 - as_probability("confidence", confidence)) / 2
    low = special.betaincinv(np.maximum(k, 1), n - k + 1, tail)
    high = special.betainccinv(k + 1, np.maximum(n - k, 1), tail)
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)


# The level at which a single task counts as within or above epsilon, for people to read.
SHOWN_LEVEL = 0.05
# Relative error reserved for rounding; probabilities are accurate to 1e-10.
SLACK = 1e-9
# Above this many tasks, each level gets an equal share of the error instead: also valid.
_MAX_TASKS = 2_000


class TaskCounts(NamedTuple):
    """How many tasks are not shown to be within epsilon, and not shown to exceed it, by level."""

    tasks: int
    not_within: tuple[int, ...]
    not_above: tuple[int, ...]
    within: int
    flagged: int
    largest: int = 0  # number of examples of the largest task

    def p_holds(self, alpha: float) -> float:
        return _p_value(self.tasks, alpha, self.not_within)

    def p_violated(self, alpha: float) -> float:
        return _p_value(self.tasks, 1 - alpha, self.not_above)

    def rejects_breach(self, alpha: float, limit: float) -> bool:
        return _rejects(self.tasks, alpha, self.not_within, limit)

    def rejects_truth(self, alpha: float, limit: float) -> bool:
        return _rejects(self.tasks, 1 - alpha, self.not_above, limit)

    def interval(self, limit: float) -> tuple[float, float]:
        """Move inwards from 0 and 1 in steps of one percent, up to the first fraction possible."""
        low, high = 0, 100
        while low < 99 and self.rejects_truth((low + 1) / 100, limit):
            low += 1
        while high > 1 and self.rejects_breach((high - 1) / 100, limit):
            high -= 1
        return low / 100, high / 100

    def scaled(self, tasks: int) -> TaskCounts:
        """Return the counts of another number of tasks like these, rounded to prove less."""

        def scale(counts: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(-(-count * tasks // self.tasks) for count in counts)

        return TaskCounts(tasks, scale(self.not_within), scale(self.not_above), 0, 0)


class ExampleCounts(NamedTuple):
    """Examples and misses of all tasks together, for a guarantee for single examples."""

    tasks: int
    examples: int
    missed: int
    epsilon: float
    within: int
    flagged: int

    @property
    def largest(self) -> int:
        return self.examples

    def p_holds(self, _alpha: float) -> float:
        return _lower_tail(self.missed, self.examples, self.epsilon)

    def p_violated(self, _alpha: float) -> float:
        hits = self.examples - self.missed
        return _lower_tail(hits, self.examples, _complement(self.epsilon))

    def rejects_breach(self, alpha: float, limit: float) -> bool:
        return self.p_holds(alpha) <= limit

    def rejects_truth(self, alpha: float, limit: float) -> bool:
        return self.p_violated(alpha) <= limit

    def interval(self, limit: float) -> tuple[float, float]:
        low, high = clopper_pearson_interval(self.missed, self.examples, confidence=1 - 2 * limit)
        return float(low), float(high)

    def scaled(self, tasks: int) -> ExampleCounts:
        examples, missed = (count * tasks // self.tasks for count in (self.examples, self.missed))
        return self._replace(tasks=tasks, examples=examples, missed=missed)


Evidence = TaskCounts | ExampleCounts


def collect(
    sizes: Counts,
    misses: Counts,
    epsilon: float,
    label: Counts,
    classes: int,
    alpha: float | None,
) -> list[Any]:
    """Count, for each class and level, the tasks that are not shown to be within or above."""
    hits, complement = sizes - misses, _complement(epsilon)

    def count(some: Counts, rate: float, level: float) -> Counts:
        open_ = some > allowed_errors_in_task(sizes, rate, level)
        return np.bincount(label[open_], minlength=classes)

    not_within = np.array([count(misses, epsilon, level) for level in JOINT_LEVELS])
    not_above = np.array([count(hits, complement, level) for level in JOINT_LEVELS])
    tasks = np.bincount(label, minlength=classes)
    shown = JOINT_LEVELS.index(SHOWN_LEVEL)
    within, flagged = (tasks - open_[shown] for open_ in (not_within, not_above))
    if alpha is None:
        total = int(sizes.sum()), int(misses.sum())
        return [ExampleCounts(len(sizes), *total, epsilon, int(within[0]), int(flagged[0]))]
    largest = np.zeros(classes, np.int64)
    np.maximum.at(largest, label, sizes)
    return [
        TaskCounts(
            int(tasks[i]),
            tuple(not_within[:, i].tolist()),
            tuple(not_above[:, i].tolist()),
            int(within[i]),
            int(flagged[i]),
            int(largest[i]),
        )
        for i in range(classes)
    ]


def are_above(sizes: Counts, misses: Counts, epsilon: float) -> NDArray[np.bool_]:
    """Return which tasks are shown to have a miss rate above epsilon, each one alone."""
    hits = sizes - misses
    return np.asarray(hits <= allowed_errors_in_task(sizes, _complement(epsilon), SHOWN_LEVEL))


def _complement(epsilon: float) -> float:
    """Return 1 - epsilon for the decimal number that epsilon prints as, below 1."""
    return min(float(1 - Decimal(repr(epsilon))), math.nextafter(1.0, 0.0))


def _lower_tail(count: int, examples: int, rate: float) -> float:
    return float(special.bdtr(count, examples, rate)) if examples else 1.0


def _rejects(tasks: int, share: float, counts: tuple[int, ...], limit: float) -> bool:
    """Return whether the p-value is at most ``limit``; bounds often decide without computing it."""
    smallest = _smallest_tail(tasks, share, counts)
    if smallest > limit:
        return False
    return len(counts) * smallest <= limit or _p_value(tasks, share, counts) <= limit


def _p_value(tasks: int, share: float, counts: tuple[int, ...]) -> float:
    """Return the probability that the smallest tail of all levels is as small as observed.

    In the worst case, the number of tasks counted at level t is Binomial(tasks, share (1 - t)),
    and the tasks counted at the next level are some of them.
    """
    smallest = _smallest_tail(tasks, share, counts)
    if smallest == 1 or tasks > _MAX_TASKS:
        return min(1.0, len(counts) * smallest)
    shares = _shares(share)
    below = special.bdtr(np.arange(tasks + 1), tasks, shares[:, None])  # (levels, tasks + 1)
    limits = np.count_nonzero(below <= smallest * (1 + SLACK), axis=1) - 1
    return min(1.0, _probability_of_any(tasks, shares, limits) * (1 + SLACK))


def _smallest_tail(tasks: int, share: float, counts: tuple[int, ...]) -> float:
    if not tasks:
        return 1.0
    return float(special.bdtr(np.array(counts), tasks, _shares(share)).min())


def _shares(share: float) -> NDArray[np.float64]:
    return share * (1 - np.array(JOINT_LEVELS))


def _probability_of_any(tasks: int, shares: NDArray[np.float64], limits: Counts) -> float:
    """Return P(M_j <= limits_j for some j), summed over the first j where that happens.

    M_1 is Binomial(tasks, shares_1); M_(j+1), given M_j, is Binomial(M_j, shares_(j+1) / shares_j).
    The tasks lost between levels are multinomial: Poisson counts, given that all of them make
    ``tasks``. All terms are positive, so nothing cancels.
    """
    counts = np.arange(tasks + 1)
    lost = _poisson(counts, tasks * (1 - shares[0]))  # weight of having lost 0, 1, ... tasks
    thinned = tasks * -np.diff(shares, append=0.0)
    total = 0.0
    for share, limit, mean in zip(shares, limits.tolist(), thinned, strict=True):
        too_many = tasks - limit  # so many lost leave at most ``limit``
        kept = _poisson(tasks - counts[too_many:], tasks * share)
        total += float(lost[too_many:] @ kept)
        lost[too_many:] = 0
        lost = np.convolve(lost, np.trim_zeros(_poisson(counts, mean), "b"))[: tasks + 1]
    return total / float(_poisson(np.array([tasks]), tasks)[0])


def _poisson(counts: Counts, mean: float) -> NDArray[np.float64]:
    return np.asarray(np.exp(special.xlogy(counts, mean) - special.gammaln(counts + 1) - mean))


HOLDS, UNDECIDED, VIOLATED = "holds", "cannot tell yet", "violated"
_ORDER = (VIOLATED, UNDECIDED, HOLDS)


class _Words(NamedTuple):
    """What tasks and examples are called, and the class that the sentence is about."""

    unit: str
    plural: str
    examples: str
    of_class: str = ""

    def tasks(self, number: int) -> str:
        return f"{number:,} {self.plural if number != 1 else self.unit}"


def describe(verdict: Verdict, unit: str, example: str) -> str:
    """Return a verdict in words, for one guarantee or for each class."""
    if verdict.trivial:
        return f"Nothing to check: {verdict.trivial}"
    words = _Words(*inflect(unit), inflect(example)[1])
    if verdict.by_class is not None:
        return _describe_classes(verdict, verdict.by_class, words)
    return f"{verdict.status.capitalize()}: {_describe(verdict, words)}"


def _describe(verdict: Verdict, words: _Words) -> str:
    """Return the verdict of one guarantee, without its status."""
    if verdict.trivial:
        return f"there is nothing to check{words.of_class}, because {verdict.trivial}"
    claims = {HOLDS: _claim_holds, VIOLATED: _claim_violated, UNDECIDED: _claim_undecided}
    return claims[verdict.status](verdict, words)


def _goal(verdict: Verdict, words: _Words) -> str:
    rate = f"a miss rate of at most {percent(_rate(verdict))}{words.of_class}"
    if verdict.alpha is None:
        return f"the sets have {rate}"
    return f"at least {percent(verdict.alpha, complement=True)} of new {words.plural} have {rate}"


def _breach(verdict: Verdict, words: _Words) -> str:
    rate = f"a miss rate above {percent(_rate(verdict))}{words.of_class}"
    if verdict.alpha is None:
        return f"the sets have {rate}"
    return f"more than {percent(verdict.alpha)} of new {words.plural} have {rate}"


def _rate(verdict: Verdict) -> float:
    return float(verdict.epsilon)  # type: ignore[arg-type]  # a mapping only for all classes


def _source(verdict: Verdict, words: _Words, p_value: float) -> str:
    shown = "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"
    if verdict.alpha is None:
        total = f"{verdict.evidence.examples:,} {words.examples}"  # type: ignore[union-attr]
        return f"judged by {total} ({shown})"
    return f"judged by {words.tasks(verdict.tasks)} ({shown})"


def _claim_holds(verdict: Verdict, words: _Words) -> str:
    return (
        f"{_goal(verdict, words)}, {_source(verdict, words, verdict.p_holds)}. If this were "
        f"false, the verdict would be 'holds' with probability at most "
        f"{_at_most(verdict.holds_at or verdict.false_alarm)}."
    )


def _claim_violated(verdict: Verdict, words: _Words) -> str:
    false_alarm = _at_most(verdict.false_alarm)
    start = (
        f"{_breach(verdict, words)}, {_source(verdict, words, verdict.p_violated)}. If this were "
        f"false, the verdict would be 'violated' with probability at most {false_alarm}."
    )
    if verdict.delta is None:
        return f"{start} {_in_expectation(verdict)}"
    return (
        f"{start} An unlucky calibration (probability at most {percent(verdict.delta)}) explains "
        f"it too; otherwise these {words.plural} or the scores are not like those of calibration."
    )


def _at_most(probability: float) -> str:
    return percent(_round_up(probability))


def _round_up(probability: float) -> float:
    """Return a probability with three significant digits, rounded up unless it has no more."""
    shown = float(f"{probability:.3g}")
    if shown >= probability * (1 - SLACK):
        return shown
    return float(f"{probability + 10.0 ** (math.floor(math.log10(probability)) - 2):.3g}")


def _in_expectation(verdict: Verdict) -> str:
    low, _high = verdict.interval or (0.0, 1.0)
    alpha = verdict.alpha or 0.0
    chance = "some" if low <= alpha else f"at most {_at_most(alpha / low)}"
    return (
        "A guarantee in expectation (delta=None) is an average over calibrations: under its "
        f"assumptions, {chance} of all calibrations come out this badly."
    )


def _claim_undecided(verdict: Verdict, words: _Words) -> str:
    low, high = verdict.interval or (0.0, 1.0)
    if verdict.alpha is None:
        what = f"the miss rate may be anything from {low:.2%} to {high:.2%}"
    else:
        what = (
            f"the share of new {words.plural} above {percent(_rate(verdict))} may be anything "
            f"from {percent(low)} to {percent(high)}"
        )
    data = words.tasks(verdict.tasks)
    need = "does" if verdict.tasks == 1 else "do"
    confidence = percent(_round_up(verdict.false_alarm), complement=True)
    return (
        f"{data} {need} not settle whether {_goal(verdict, words)}; {what} (each end "
        f"with confidence {confidence}). {_outlook(verdict, words)}"
    )


def _outlook(verdict: Verdict, words: _Words) -> str:
    if verdict.more_tasks:
        these = "this" if verdict.tasks == 1 else "these"
        return f"About {verdict.more_tasks:,} more {words.plural} like {these} would settle it."
    if not verdict.tasks:
        return f"Collect labelled {words.examples} of new {words.plural}."
    least = math.ceil(math.log(0.5) / math.log1p(-_rate(verdict)))
    if verdict.evidence.largest >= least:
        return (
            f"No feasible number of {words.plural} like these would: too many have a miss rate "
            f"close to {percent(_rate(verdict))}, or too few labelled {words.examples} to tell. "
            f"Label more {words.examples}."
        )
    return (
        f"No feasible number of {words.plural} like these would: use {words.plural} with more "
        f"labelled {words.examples} ({least} at the very least, all without a miss)."
    )


def _describe_classes(verdict: Verdict, parts: Mapping[Any, Verdict], words: _Words) -> str:
    by_status = {status: [n for n in parts if parts[n].status == status] for status in _ORDER}
    alone = ""
    if verdict.status == HOLDS:  # for all classes, and for some of them perhaps not alone
        by_status[HOLDS], alone = [*parts], " alone, at a share of the error"
    start = f"{verdict.status.capitalize()} for " + _name_classes(by_status[verdict.status])
    if len(by_status[verdict.status]) == len(parts):
        every = ", for any class" if verdict.status == UNDECIDED else " for every class"
        start = f"{verdict.status.capitalize()}{every}"
    shown, kind = _choose_class({name: parts[name] for name in by_status[verdict.status]})
    if len(by_status[verdict.status]) > 1:
        start += f"; the {kind} evidence is for class {shown}"
    words = words._replace(of_class=f" on class {shown}")
    text = f"{start}: {_describe(verdict.together[shown], words)}"
    others = [
        f"{status.capitalize()} for {_name_classes(names)}{alone}."
        for status, names in by_status.items()
        if names and status != verdict.status
    ]
    return " ".join([text, *others])


def _choose_class(parts: Mapping[Any, Verdict]) -> tuple[Any, str]:
    """Return which class of one status to describe, and how strong its evidence is."""
    if next(iter(parts.values())).status == VIOLATED:
        return min(parts, key=lambda name: parts[name].p_violated), "strongest"
    return max(parts, key=lambda name: parts[name].p_holds), "weakest"


def _name_classes(names: Sequence[Any]) -> str:
    word = "class" if len(names) == 1 else "classes"
    return f"{word} {listed([*map(str, names)])}"


# Largest number of tasks, old and new, for which ``more_tasks`` looks.
_MAX_MORE = 10_000


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a guarantee holds on new tasks, from ``judge``.

    Whatever the truth is, the status is wrong with probability at most ``false_alarm``.

    Attributes
    ----------
    status : {"holds", "cannot tell yet", "violated"}
        "holds" rejects that the guarantee is broken, "violated" rejects that it is true.
    tasks : int
        Number of tasks judged.
    within : int
        Tasks shown to have a miss rate of at most ``epsilon``, each alone, at the level 0.05.
    flagged : int
        Tasks shown to have a miss rate above ``epsilon``, each alone, at the level 0.05.
    p_holds : float
        p-value against "the guarantee is broken"; small if it holds.
    p_violated : float
        p-value against "the guarantee is true"; small if it is violated.
    epsilon : float or mapping from class to float
        Miss rate that the guarantee allows.
    alpha : float or None
        Fraction of new tasks that may exceed it; None if the guarantee is for single examples.
    delta : float or None
        Failure probability of the guarantee; None if it is in expectation.
    false_alarm : float
        Probability that the status is wrong.
    evidence : object
        Counts of tasks, or of examples, that the verdict rests on.
    by_class : mapping from class to Verdict, or None
        With a guarantee per class, the verdict of each class, at its share of ``false_alarm``.
    holds_at : float or None
        Level of "holds" if it is not ``false_alarm``.
    unit, example : str
        What a task and an example are called in ``sentence``.
    trivial : str
        Why there is nothing to check, if the guarantee holds trivially; otherwise empty.

    Examples
    --------
    >>> from metapac import judge
    >>> judge([100] * 30, missed=[1] * 30, epsilon=0.1, alpha=0.2, delta=0.05).status
    'holds'
    """

    epsilon: Epsilon
    alpha: float | None
    delta: float | None
    false_alarm: float
    evidence: Evidence
    by_class: Mapping[Any, Verdict] | None = None
    holds_at: float | None = None
    unit: str = "task"
    example: str = "example"
    trivial: str = ""

    @property
    def tasks(self) -> int:
        """Number of tasks judged."""
        return self.evidence.tasks

    @property
    def within(self) -> int:
        """Number of tasks shown to be within epsilon, each alone with confidence 95%."""
        return self.evidence.within

    @property
    def flagged(self) -> int:
        """Number of tasks shown to be above epsilon, each alone with confidence 95%."""
        return self.evidence.flagged

    @cached_property
    def together(self) -> Mapping[Any, Verdict]:
        """What each class adds to the verdict on all: "holds" at ``false_alarm``, not at a share.

        If the guarantee is broken, it is broken for one class, and "holds" needs all of them.
        """
        parts = (self.by_class or {}).items()
        return {name: replace(part, holds_at=self.false_alarm) for name, part in parts}

    @cached_property
    def status(self) -> str:
        """The verdict in a word."""
        if self.by_class is not None:
            found = {part.status for part in self.together.values()}
            return next((s for s in (VIOLATED, UNDECIDED) if s in found), HOLDS)
        if self.evidence.rejects_truth(self._share, self.false_alarm):
            return VIOLATED
        level = self.holds_at or self.false_alarm
        return HOLDS if self.evidence.rejects_breach(self._share, level) else UNDECIDED

    @cached_property
    def p_holds(self) -> float:
        """p-value against "the guarantee is broken"; of all classes, the largest."""
        if self.by_class is None:
            return self.evidence.p_holds(self._share)
        return max(part.p_holds for part in self.by_class.values())

    @cached_property
    def p_violated(self) -> float:
        """p-value against "the guarantee is true"; of all classes, the smallest times them."""
        if self.by_class is None:
            return self.evidence.p_violated(self._share)
        parts = [part.p_violated for part in self.by_class.values()]
        return min(1.0, len(parts) * min(parts))

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Bounds of the fraction of new tasks above epsilon, in whole percent.

        Each bound holds with confidence ``1 - false_alarm``. If the guarantee is for single
        examples, they are bounds of the miss rate. None for all classes together.
        """
        if self.by_class is not None:
            return None
        return self.evidence.interval(self.false_alarm)

    @cached_property
    def more_tasks(self) -> int | None:
        """Number of further tasks like these that would settle it: 0 if it is settled.

        The further tasks have the sizes and the miss rates of these. None if no number up to
        10,000 tasks in total would do. For all classes together, the largest number of any class.
        """
        if self.by_class is not None:
            needs = [part.more_tasks for part in self.together.values()]
            known = [need for need in needs if need is not None]
            return max(known, default=0) if len(known) == len(needs) else None
        if self.status != UNDECIDED:
            return 0
        return self._search_more_tasks()

    def _search_more_tasks(self) -> int | None:
        """Double the number until it settles the matter, then bisect."""
        low, step = self.tasks, 1
        while not self._settles(low + step):
            low, step = low + step, 2 * step
            if self.tasks == 0 or low + step > _MAX_MORE:
                return None
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._settles(middle) else (middle, high)
        return high - self.tasks

    def _settles(self, tasks: int) -> bool:
        if not self.tasks:
            return False
        more, level = self.evidence.scaled(tasks), self.holds_at or self.false_alarm
        return more.rejects_breach(self._share, level) or more.rejects_truth(
            self._share, self.false_alarm
        )

    @property
    def _share(self) -> float:
        return self.alpha or 0.0

    def named(self, *, unit: str, example: str) -> Verdict:
        """Return the same verdict, in other words for tasks and examples.

        Parameters
        ----------
        unit : str
            What a task is called; an irregular plural is given as "person/people".
        example : str
            What an example is called.

        Returns
        -------
        Verdict
            The verdict; those of the classes are in these words too.
        """
        parts = self.by_class and {
            name: part.named(unit=unit, example=example) for name, part in self.by_class.items()
        }
        return replace(self, by_class=parts, unit=unit, example=example)

    def sentence(self, *, unit: str | None = None, example: str | None = None) -> str:
        """Return the verdict in words, with its probability of being wrong.

        Parameters
        ----------
        unit : str, optional
            What a task is called, by default ``unit`` of the verdict; an irregular plural is given
            as "person/people".
        example : str, optional
            What an example is called, by default ``example`` of the verdict.

        Returns
        -------
        str
            One or more sentences.
        """
        return describe(self, unit or self.unit, example or self.example)

    def __str__(self) -> str:
        return self.sentence()


def judge(
    examples: ArrayLike,
    missed: ArrayLike,
    *,
    epsilon: float,
    alpha: float | None,
    delta: float | None,
    false_alarm: float = 0.05,
) -> Verdict:
    """Judge from labelled new tasks whether a guarantee holds, each task's sample size included.

    The guarantee is that at most a fraction ``alpha`` of new tasks have a miss rate above
    ``epsilon``. Few tasks, and tasks with few examples, give "cannot tell yet".

    Parameters
    ----------
    examples : array_like of int, shape (tasks,)
        Number of labelled examples of each task.
    missed : array_like of int, shape (tasks,)
        Number of them whose set misses the true label.
    epsilon : float
        Miss rate that the guarantee allows.
    alpha : float or None
        Fraction of new tasks that may exceed it. None for a guarantee for single examples, that
        of ``PS``: the miss rate of all examples together is then judged.
    delta : float or None
        Failure probability of the guarantee, or None for a guarantee in expectation. It changes
        the words, never the status.
    false_alarm : float, default 0.05
        Probability that the status is wrong, below 1/2.

    Returns
    -------
    Verdict
        The status, the evidence, and how many more tasks would settle an open question.

    Raises
    ------
    InvalidInput
        If a number is out of its range, or more examples are missed than there are.

    Notes
    -----
    Tasks are assumed to be drawn i.i.d., and their examples independently. The number of tasks
    must not depend on earlier verdicts. docs/verdict.md has the theorem and its proof.

    Examples
    --------
    >>> from metapac import judge
    >>> verdict = judge([200] * 60, [4] * 60, epsilon=0.05, alpha=0.1, delta=0.05)
    >>> verdict.status
    'holds'
    >>> judge([200] * 10, [4] * 10, epsilon=0.05, alpha=0.1, delta=0.05).more_tasks
    20
    >>> judge([5] * 20, [0] * 20, epsilon=0.05, alpha=0.1, delta=0.05).status
    'cannot tell yet'
    """
    sizes, misses = check_counts(examples, missed)
    rates = _checked_rates(alpha, delta, false_alarm)
    epsilon = as_probability("epsilon", epsilon)
    evidence = collect(sizes, misses, epsilon, np.zeros(len(sizes), np.int64), 1, rates[0])[0]
    return Verdict(
        epsilon=epsilon, alpha=rates[0], delta=delta, false_alarm=rates[1], evidence=evidence
    )


def judge_classes(
    counts: Mapping[Any, tuple[ArrayLike, ArrayLike]],
    *,
    epsilon: Epsilon,
    alpha: float,
    delta: float | None,
    false_alarm: float = 0.05,
) -> Verdict:
    """Judge a guarantee for each class: one verdict per class, and one for all of them.

    It holds if it holds for every class, and is violated if it is violated for one.
    """
    checked, false_alarm = _checked_rates(alpha, delta, false_alarm)
    pairs = [check_counts(*pair) for pair in counts.values()]
    rates = [float(epsilon[name] if isinstance(epsilon, Mapping) else epsilon) for name in counts]
    label = np.repeat(np.arange(len(pairs)), [len(sizes) for sizes, _misses in pairs])
    sizes, misses = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    found = {rate: collect(sizes, misses, rate, label, len(pairs), checked) for rate in {*rates}}
    share = equal_share(false_alarm, len(pairs))
    options: dict[str, Any] = {"alpha": checked, "delta": delta}
    parts = {
        name: Verdict(epsilon=rate, false_alarm=share, evidence=found[rate][i], **options)
        for i, (name, rate) in enumerate(zip(counts, rates, strict=True))
    }
    together = TaskCounts(
        max(part.tasks for part in parts.values()),
        (),
        (),
        min(part.within for part in parts.values()),
        max(part.flagged for part in parts.values()),
    )
    return Verdict(
        epsilon=epsilon, false_alarm=false_alarm, evidence=together, by_class=parts, **options
    )


def check_counts(examples: ArrayLike, missed: ArrayLike) -> tuple[Counts, Counts]:
    """Return checked numbers of examples and misses."""
    sizes = as_whole_numbers("examples", examples, minimum=0)
    misses = as_whole_numbers("missed", missed, minimum=0)
    check_same_shape("examples", sizes, "missed", misses)
    if sizes.ndim != 1:
        raise InvalidInput(
            f"examples must be one-dimensional, a number for each task, got shape {sizes.shape}.",
            parameter="examples",
        )
    wrong = misses > sizes
    if wrong.any():
        raise InvalidInput(
            f"missed must be at most examples, got {misses[wrong][0]} misses among "
            f"{sizes[wrong][0]} examples. Were they swapped?",
            parameter=("missed", "examples"),
        )
    return sizes, misses


def _checked_rates(
    alpha: float | None, delta: float | None, false_alarm: float
) -> tuple[float | None, float]:
    if alpha is not None:
        alpha = as_probability("alpha", alpha)
    if delta is not None:
        as_probability("delta", delta)
    false_alarm = as_probability("false_alarm", false_alarm)
    if false_alarm >= 0.5:
        name, remedy = "false_alarm", keyword("false_alarm", 0.05)
        raise InvalidInput(
            f"{name} must be below 0.5, got {false_alarm!r}. Pass a small one such as {remedy}."
        )
    return alpha, false_alarm

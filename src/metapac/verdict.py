"""The verdict on a guarantee, from labelled new tasks. The proof is in docs/theory/verdict.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac import _common
from metapac._common import Counts, as_probability, listed
from metapac._text import inflect
from metapac.binomial import allowed_errors_in_task, min_integer, round_up
from metapac.errors import InvalidInput
from metapac.guarantee import JOINT_LEVELS, Epsilon, percent
from metapac.ranks import NewTasks, equal_share
from metapac.words import Words


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
# A few tasks decide on a list: further levels let each of them count if it is clearly above.
_LIST_LEVELS = (0.0001, 0.001, *JOINT_LEVELS)
_ALL_LEVELS = ((0.0,), JOINT_LEVELS, _LIST_LEVELS)
# Relative error reserved for rounding; probabilities are accurate to 1e-10.
SLACK = 1e-9
# Above this many tasks, each level gets an equal share of the error instead: also valid.
_MAX_TASKS = 2_000


class Trials(NamedTuple):
    """Tasks or examples counted at each level, and their share in the worst case."""

    number: int
    share: float
    counts: tuple[int, ...]


def count_trials(
    sizes: Counts,
    misses: Counts,
    epsilon: float,
    label: Counts,
    classes: int,
    alpha: float | None,
    of_list: NewTasks | None = None,
    missing: int = 0,
) -> list[dict[str, Any]]:
    """Return what the verdict on each class rests on; for single examples there is only one.

    Sizes and misses have shape (tasks, columns). The classes of one guarantee for all together are
    columns: a task is within epsilon if each of them is, and above if one is, at a share of the
    level.
    """

    def count_open(errors: Counts, rate: float, parts: int, some: Any) -> list[list[int]]:
        limits = [allowed_errors_in_task(sizes, rate, level / parts) for level in levels]
        counts = [np.bincount(label[some(errors > k, axis=1)], minlength=classes) for k in limits]
        return np.transpose(counts).tolist()  # type: ignore[no-any-return]  # (classes, levels)

    levels = JOINT_LEVELS if of_list is None else _LIST_LEVELS
    hits, rest, found = sizes - misses, complement(epsilon), []
    shown = levels.index(SHOWN_LEVEL)
    tasks = np.bincount(label, minlength=classes).tolist()
    open_counts = (
        count_open(misses, epsilon, 1, np.any),
        count_open(hits, rest, sizes.shape[1], np.all),
    )
    for n, not_within, not_above in zip(tasks, *open_counts, strict=True):
        if alpha is None:
            broken = Trials(int(sizes.sum()), epsilon, (int(misses.sum()),))
            true = Trials(int(sizes.sum()), rest, (int(hits.sum()),))
        elif of_list is not None:
            # So many tasks, at least, are above epsilon, or within; the counts are of all tasks.
            above, within = of_list.may_break + 1, n + missing - of_list.may_break
            broken = Trials(above, 1.0, tuple(count + missing for count in not_within))
            true = Trials(max(within, 0), 1.0, tuple(count + missing for count in not_above))
        else:
            broken = Trials(n, alpha, tuple(not_within))
            true = Trials(n, 1 - alpha, tuple(not_above))
        counts = {"within": n - not_within[shown], "flagged": n - not_above[shown]}
        counts |= {"tasks": n, "missing": missing}
        found.append({"if_broken": broken, "if_true": true} | counts)
    return found


def are_above(sizes: Counts, misses: Counts, epsilon: float) -> NDArray[np.bool_]:
    """Return which tasks are shown to have a miss rate above epsilon, each one alone."""
    hits = sizes - misses
    return np.asarray(hits <= allowed_errors_in_task(sizes, complement(epsilon), SHOWN_LEVEL))


def complement(epsilon: float) -> float:
    """Return 1 - epsilon for the decimal number that epsilon prints as, below 1."""
    return min(float(1 - Decimal(repr(epsilon))), math.nextafter(1.0, 0.0))


def _rejects(trials: Trials, limit: float) -> bool:
    """Return whether the p-value is at most ``limit``; bounds often decide without computing it."""
    smallest = _smallest_tail(trials)
    if smallest > limit:
        return False
    return len(trials.counts) * smallest <= limit or p_value(trials) <= limit


def p_value(trials: Trials) -> float:
    """Return the probability that the smallest tail of all levels is as small as observed.

    In the worst case, the number of tasks counted at level t is Binomial(tasks, share (1 - t)),
    and the tasks counted at the next level are some of them. Examples have a single level.
    """
    smallest = _smallest_tail(trials)
    if smallest == 1 or len(trials.counts) == 1 or trials.number > _MAX_TASKS:
        return min(1.0, len(trials.counts) * smallest)
    number, shares = trials.number, _shares(trials)
    below = special.bdtr(np.arange(number + 1), number, shares[:, None])  # (levels, tasks + 1)
    limits = np.count_nonzero(below <= smallest * (1 + SLACK), axis=1) - 1
    return min(1.0, probability_of_any(number, shares, limits.tolist()) * (1 + SLACK))


def _smallest_tail(trials: Trials) -> float:
    if not trials.number:
        return 1.0
    counts = np.minimum(trials.counts, trials.number)  # those of a list are of all its tasks
    return float(special.bdtr(counts, trials.number, _shares(trials)).min())


def _shares(trials: Trials) -> NDArray[np.float64]:
    levels = next(found for found in _ALL_LEVELS if len(found) == len(trials.counts))
    return trials.share * (1 - np.array(levels))


def probability_of_any(tasks: int, shares: NDArray[np.float64], limits: Sequence[int]) -> float:
    """Return P(M_j <= limits_j for some j), summed over the first j where that happens.

    M_1 is Binomial(tasks, shares_1); M_(j+1), given M_j, is Binomial(M_j, shares_(j+1) / shares_j).
    The tasks lost between levels are multinomial: Poisson counts, given that all of them make
    ``tasks``. All terms are positive, so nothing cancels.
    """
    counts = np.arange(tasks + 1)
    lost = _poisson(counts, tasks * (1 - shares[0]))  # weight of having lost 0, 1, ... tasks
    thinned = tasks * -np.diff(shares, append=0.0)
    total = 0.0
    for share, limit, mean in zip(shares, limits, thinned, strict=True):
        too_many = max(tasks - limit, 0)  # so many lost leave at most ``limit``
        kept = _poisson(tasks - counts[too_many:], tasks * share)
        total += float(lost[too_many:] @ kept)
        lost[too_many:] = 0
        lost = np.convolve(lost, np.trim_zeros(_poisson(counts, mean), "b"))[: tasks + 1]
    return total / float(_poisson(np.array([tasks]), tasks)[0])


def _poisson(counts: Counts, mean: float) -> NDArray[np.float64]:
    return np.asarray(np.exp(special.xlogy(counts, mean) - special.gammaln(counts + 1) - mean))


HOLDS, UNDECIDED, VIOLATED = "holds", "cannot tell yet", "violated"


def _describe(verdict: Verdict, words: Words, of_class: str = "") -> str:
    """Return the verdict of one guarantee, without its status."""
    if verdict.trivial:
        return f"there is nothing to check{of_class}, because {verdict.trivial}"
    is_breach, rate = verdict.status == VIOLATED, percent(_rate(verdict))
    share = "the sets"
    if (of_list := verdict.of_list) is not None:
        share = of_list.describe(words.units)
        if is_breach:
            share = f"more than {of_list.may_break:,} of the {of_list.number:,} other {words.units}"
    elif verdict.alpha is not None:
        most, least = percent(verdict.alpha), percent(verdict.alpha, complement=True)
        share = f"{f'more than {most}' if is_breach else f'at least {least}'} of new {words.units}"
    limit = f"{'above' if is_breach else 'of at most'} {rate}"
    if verdict.classes > 1:
        of_class = f" on {'some' if is_breach else 'every'} class"
    claim = f"{share} have a {words.rate} {limit}{of_class}"
    describe_claim = _describe_open if verdict.status == UNDECIDED else _describe_settled
    return describe_claim(verdict, words, claim)


def _rate(verdict: Verdict) -> float:
    return float(verdict.epsilon)  # type: ignore[arg-type]  # a mapping only for all classes


def _describe_settled(verdict: Verdict, words: Words, claim: str) -> str:
    p_value, level = verdict.p_holds, verdict._holds_at
    causes = ""
    if verdict.status == VIOLATED:
        p_value, level = verdict.p_violated, verdict.false_alarm
        low = (verdict.interval or (0.0, 1.0))[0]
        causes = f" {describe_causes(verdict.alpha, verdict.delta, low, words)}"
        if verdict.of_list is not None:
            unlikely = "" if verdict.delta is None else f" ({percent(verdict.delta)} at most)"
            causes = f" An unlucky draw{unlikely} explains it too; otherwise the {words.units} of "
            causes += "the calibration were not drawn at random, or the scores are not like theirs."
    number = words.count_units(verdict.tasks)
    if verdict.alpha is None:
        number = words.count_examples(verdict.if_broken.number)
    shown = "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"
    text = f"{claim}, judged by {number} ({shown}). If this were false, the verdict would be"
    return f"{text} {verdict.status!r} with probability at most {percent(round_up(level))}.{causes}"


def describe_causes(alpha: float | None, delta: float | None, low: float, words: Words) -> str:
    """Return what may have broken a guarantee if a fraction above ``low`` of tasks breaks it."""
    if delta is not None:
        luck = f"An unlucky calibration (probability at most {percent(delta)}) explains it too;"
        units = f"otherwise these {words.units}"
        return f"{luck} {units} or the scores are not like those of calibration."
    chance = "some"
    if alpha is not None and low > alpha:  # Markov's inequality
        chance = f"at most {percent(round_up(alpha / low))}"
    text = "A guarantee in expectation (delta=None) is an average over calibrations: under its"
    return f"{text} assumptions, {chance} of all calibrations come out this badly."


def _describe_open(verdict: Verdict, words: Words, claim: str) -> str:
    """Return what is not settled, and which data would settle it."""
    if (of_list := verdict.of_list) is not None and verdict.missing:
        there = of_list.number - verdict.missing
        return (
            f"{there:,} of the {of_list.number:,} other {words.units} evaluated; "
            f"{verdict.missing:,} {'is' if verdict.missing == 1 else 'are'} missing: no verdict on "
            "the list."
        )
    low, high = verdict.interval or (0.0, 1.0)
    rate = percent(_rate(verdict))
    what, ends = f"the {words.rate}", f"{low:.2%} to {high:.2%}"
    if verdict.alpha is not None:
        what, ends = f"the share of new {words.units} above {rate}", f"{low:.0%} to {high:.0%}"
    if of_list is not None:
        most = of_list.number
        what = f"the number of these {words.units} above {rate}"
        ends = f"{round(low * most):,} to {round(high * most):,} of {most:,}"
    confidence = percent(round_up(verdict.false_alarm), complement=True)
    do, these = ("does", "this") if verdict.tasks == 1 else ("do", "these")
    if of_list is not None:
        outlook = f"Label more {words.examples} of these {words.units}: there are no others."
    elif verdict.more_tasks:
        more = f"{verdict.more_tasks:,} more {words.units} like {these}"
        outlook = f"About {more} would settle it."
    elif not verdict.tasks:
        outlook = f"Collect labelled {words.examples} of new {words.units}."
    else:
        least = math.ceil(math.log(0.5) / math.log1p(-_rate(verdict)))
        outlook = (
            f"No feasible number of {words.units} like these would: too many have too few labelled "
            f"{words.examples} to tell (it takes at least {least}), or a {words.rate} close to "
            f"{rate}. Label more {words.examples}."
        )
    text = f"{words.count_units(verdict.tasks)} {do} not settle whether {claim}; {what} may be"
    return f"{text} anything from {ends} (each end with confidence {confidence}). {outlook}"


def _describe_classes(verdict: Verdict, parts: Mapping[Any, Verdict], words: Words) -> str:
    """Return the verdict of the class that decides, and the status of the others."""
    status, alone = verdict.status, ""
    by_status: dict[str, list[Any]] = {VIOLATED: [], UNDECIDED: [], HOLDS: []}
    for name, part in parts.items():
        by_status[part.status].append(name)
    if status == HOLDS:  # for all classes, and for some of them perhaps not alone
        by_status[HOLDS], alone = [*parts], " alone, at a share of the error"
    names = by_status.pop(status)
    which = f" for {_name_classes(names)}"
    if len(names) == len(parts):
        which = f"{', for any' if status == UNDECIDED else ' for every'} class"
    shown, kind = max(names, key=lambda name: parts[name].p_holds), "weakest"
    if status == VIOLATED:
        shown, kind = min(names, key=lambda name: parts[name].p_violated), "strongest"
    if len(names) > 1:
        which += f"; the {kind} evidence is for class {shown}"
    detail = _describe(verdict.together[shown], words, f" on class {shown}")
    rest = {other: some for other, some in by_status.items() if some}
    others = [f" {x.capitalize()} for {_name_classes(some)}{alone}." for x, some in rest.items()]
    return f"{status.capitalize()}{which}: {detail}{''.join(others)}"


def _name_classes(names: Sequence[Any]) -> str:
    return f"{'class' if len(names) == 1 else 'classes'} {listed([*map(str, names)])}"


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
    within, flagged : int
        Tasks shown to have a miss rate of at most ``epsilon``, or above it, each at level 0.05.
    p_holds, p_violated : float
        p-values against "the guarantee is broken" and "the guarantee is true".
    epsilon, alpha, delta, false_alarm : float, mapping from class to float, or None
        As in ``judge``.
    if_broken, if_true : Trials
        Tasks not shown to be within epsilon, or above it, at each level: if they are few, the
        guarantee is not broken, or not true. If it is for single examples, misses and hits.
    by_class : mapping from class to Verdict, or None
        With a guarantee per class, the verdict of each class, at its share of ``false_alarm``.
    holds_at : float or None
        Level of "holds" if it is not ``false_alarm``.
    unit, example : str
        What a task and an example are called in ``sentence``.
    trivial, rate : str
        Why there is nothing to check, if the guarantee holds trivially; otherwise empty. And what
        ``epsilon`` bounds: "miss rate", or "risk" for `MetaRisk`.
    of_list, missing : NewTasks or None, and int
        The finite list that is judged: how many tasks it has, and how many may exceed epsilon; and
        how many were not evaluated, so that there is no verdict.
    classes : int
        Number of classes that one guarantee is for, with ``per_class="together"``; otherwise 1.

    Examples
    --------
    >>> from metapac import judge
    >>> judge([100] * 30, missed=[1] * 30, epsilon=0.1, alpha=0.2, delta=0.05).status
    'holds'
    """

    tasks: int
    within: int
    flagged: int
    epsilon: Epsilon
    alpha: float | None
    delta: float | None
    false_alarm: float
    if_broken: Trials
    if_true: Trials
    by_class: Mapping[Any, Verdict] | None = None
    holds_at: float | None = None
    unit: str = "task"
    example: str = "example"
    trivial: str = ""
    rate: str = "miss rate"
    of_list: NewTasks | None = None
    missing: int = 0
    classes: int = 1

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
        if self.missing:
            return UNDECIDED
        if _rejects(self.if_true, self.false_alarm):
            return VIOLATED
        return HOLDS if _rejects(self.if_broken, self._holds_at) else UNDECIDED

    @property
    def words(self) -> Words:
        """What a task and an example are called."""
        return Words(*inflect(self.unit), *inflect(self.example), "the model", self.rate)

    @property
    def _holds_at(self) -> float:
        return self.holds_at or self.false_alarm

    @cached_property
    def p_holds(self) -> float:
        """p-value against "the guarantee is broken"; of all classes, the largest."""
        if self.by_class is None:
            return p_value(self.if_broken)
        return max(part.p_holds for part in self.by_class.values())

    @cached_property
    def p_violated(self) -> float:
        """p-value against "the guarantee is true"; of all classes, the smallest times them."""
        if self.by_class is None:
            return p_value(self.if_true)
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
        limit, broken, true = self.false_alarm, self.if_broken, self.if_true
        if self.alpha is None:
            missed, confidence = broken.counts[0], 1 - 2 * limit
            ends = clopper_pearson_interval(missed, broken.number, confidence=confidence)
            return float(ends[0]), float(ends[1])
        if self.of_list is not None:
            return self._bounds_of_list()
        low, high = 0, 100  # moved inwards, up to the first fraction that is possible
        while low < 99 and _rejects(true._replace(share=1 - (low + 1) / 100), limit):
            low += 1
        while high > 1 and _rejects(broken._replace(share=(high - 1) / 100), limit):
            high -= 1
        return low / 100, high / 100

    def _bounds_of_list(self) -> tuple[float, float]:
        """Return bounds of the fraction of the list above epsilon, missing tasks included."""
        assert self.of_list is not None
        total, limit = self.tasks + self.missing, self.false_alarm
        low, high = 0, total
        while low < high and _rejects(self.if_true._replace(number=total - low), limit):
            low += 1
        while high > low and _rejects(self.if_broken._replace(number=high), limit):
            high -= 1
        return low / self.of_list.number, high / self.of_list.number

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
        if not self.tasks or self.of_list is not None:
            return None

        def is_settled(tasks: int) -> bool:
            return self._scale(tasks).status != UNDECIDED

        low, step = self.tasks, 1
        while not is_settled(low + step):
            low, step = low + step, 2 * step
            if low + step > _MAX_MORE:
                return None
        return min_integer(is_settled, low, low + step) - self.tasks

    def _scale(self, tasks: int) -> Verdict:
        """Return the verdict on another number of tasks like these, rounded to prove less."""
        broken, true = self.if_broken, self.if_true
        number = broken.number * tasks // self.tasks
        low, high = ([-(-n * tasks // self.tasks) for n in x.counts] for x in (broken, true))
        if self.alpha is None:
            missed = broken.counts[0] * tasks // self.tasks
            low, high = [missed], [number - missed]
        broken = Trials(number, broken.share, tuple(low))
        true = Trials(number, true.share, tuple(high))
        return replace(self, tasks=tasks, if_broken=broken, if_true=true)

    def sentence(self, *, unit: str | None = None, example: str | None = None) -> str:
        """Return the verdict in words, with its probability of being wrong.

        Parameters
        ----------
        unit, example : str, optional
            What a task and an example are called; an irregular plural is given as
            "person/people". By default as in the verdict.

        Returns
        -------
        str
            One or more sentences.
        """
        if self.trivial:
            return f"Nothing to check: {self.trivial}"
        words = name_units(self, unit or self.unit, example or self.example).words
        if self.by_class is not None:
            return _describe_classes(self, self.by_class, words)
        return f"{self.status.capitalize()}: {_describe(self, words)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON can hold it.

        Returns
        -------
        dict
            Status, sentence, p-values, interval and counts.
        """
        names = "p_holds p_violated interval tasks within flagged more_tasks false_alarm"
        values = {name: getattr(self, name) for name in [*names.split(), "alpha", "delta"]}
        if self.of_list is not None:
            new_tasks, may_exceed = self.of_list
            values |= {"new_tasks": new_tasks, "may_exceed": may_exceed, "missing": self.missing}
        return {"status": self.status, "sentence": self.sentence()} | values

    def __str__(self) -> str:
        return self.sentence()


def name_units(verdict: Verdict, unit: str, example: str) -> Verdict:
    """Return the same verdict, and those of its classes, in other words for tasks and examples."""
    parts = verdict.by_class and {
        name: name_units(part, unit, example) for name, part in verdict.by_class.items()
    }
    return replace(verdict, by_class=parts, unit=unit, example=example)


def judge(
    examples: ArrayLike,
    missed: ArrayLike,
    *,
    epsilon: float,
    alpha: float | None,
    delta: float | None,
    new_tasks: int | None = None,
    false_alarm: float = 0.05,
) -> Verdict:
    """Judge from labelled new tasks whether a guarantee holds, each task's sample size included.

    The guarantee is that at most a fraction ``alpha`` of new tasks have a miss rate above
    ``epsilon``. Few tasks, and tasks with few examples, give "cannot tell yet".

    Parameters
    ----------
    examples, missed : array_like of int, shape (tasks,)
        Number of labelled examples of each task, and of those whose set misses the true label.
    epsilon : float
        Miss rate that the guarantee allows.
    alpha : float or None
        Fraction of new tasks that may exceed it. None for a guarantee for single examples, that
        of ``PS``: the miss rate of all examples together is then judged.
    delta : float or None
        Failure probability of the guarantee, or None for a guarantee in expectation. It changes
        the words, never the status.
    new_tasks : int, optional
        Number of tasks in a finite list, as in `Guarantee`: the list itself is judged, once all of
        its tasks are there.
    false_alarm : float, default 0.05
        Probability that the status is wrong, below 1/2.

    Returns
    -------
    Verdict
        The status, the evidence, and how many more tasks would settle an open question.

    Notes
    -----
    Tasks are assumed to be drawn i.i.d., and their examples independently. The number of tasks
    must not depend on earlier verdicts. docs/theory/verdict.md has the theorem and its proof.

    Examples
    --------
    >>> from metapac import judge
    >>> judge([200] * 60, [4] * 60, epsilon=0.05, alpha=0.1, delta=0.05).status
    'holds'
    >>> judge([200] * 10, [4] * 10, epsilon=0.05, alpha=0.1, delta=0.05).more_tasks
    20
    """
    if np.ndim(examples) != 1:
        raise InvalidInput(f"examples must be one-dimensional, got shape {np.shape(examples)}.")
    counts = [(examples, missed)]
    (verdict,) = judge_each(counts, [epsilon], alpha, delta, false_alarm, new_tasks)
    return verdict


def judge_classes(
    counts: Mapping[Any, tuple[ArrayLike, ArrayLike]],
    *,
    epsilon: Epsilon,
    false_alarm: float = 0.05,
    **levels: Any,
) -> Verdict:
    """Judge each class, and all together: held if all hold, violated if one is violated."""
    rates = [epsilon[name] if isinstance(epsilon, Mapping) else epsilon for name in counts]
    found = judge_each([*counts.values()], rates, false_alarm=false_alarm, **levels)
    whole = replace(found[0], epsilon=epsilon, false_alarm=float(false_alarm))
    none, by_class = Trials(0, 0.0, ()), dict(zip(counts, found, strict=True))
    tasks, flagged = (max(getattr(part, x) for part in found) for x in ("tasks", "flagged"))
    numbers: Any = {"tasks": tasks, "flagged": flagged, "within": min(x.within for x in found)}
    return replace(whole, if_broken=none, if_true=none, by_class=by_class, **numbers)


def judge_each(
    counts: Sequence[tuple[ArrayLike, ArrayLike]],
    rates: Sequence[float],
    alpha: float | None,
    delta: float | None,
    false_alarm: float,
    new_tasks: int | None = None,
    there: int | None = None,
) -> list[Verdict]:
    """Return the verdict on each class, at an equal share of the error.

    Of a finite list, so many tasks are there, with those that are left out: if they are too small
    for the guarantee, they cannot break it.
    """
    rates = [as_probability("epsilon", rate) for rate in rates]
    alpha = None if alpha is None else as_probability("alpha", alpha)
    if delta is not None:
        as_probability("delta", delta)
    if as_probability("false_alarm", false_alarm) >= 0.5:
        raise InvalidInput(f"false_alarm must be below 0.5, got {false_alarm!r}.")
    pairs = [_checked_counts(*pair) for pair in counts]
    columns = max(sizes.shape[1] for sizes, _misses in pairs)
    label = np.repeat(np.arange(len(pairs)), [len(sizes) for sizes, _misses in pairs])
    sizes, misses = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    there = len(pairs[0][0]) if there is None else there
    of_list = _as_list(new_tasks, alpha, there)
    missing = 0 if of_list is None else of_list.number - there
    given = label, len(pairs), alpha, of_list, missing
    found = {rate: count_trials(sizes, misses, rate, *given) for rate in {*rates}}
    share = equal_share(float(false_alarm), len(pairs))
    judged = partial(
        Verdict, alpha=alpha, delta=delta, false_alarm=share, of_list=of_list, classes=columns
    )
    return [judged(epsilon=rate, **found[rate][i]) for i, rate in enumerate(rates)]


def _as_list(new_tasks: Any, alpha: float | None, tasks: int) -> NewTasks | None:
    """Return the finite list to judge, which may not have fewer tasks than there are."""
    if new_tasks is None:
        return None
    number = _common.as_whole_number("new_tasks", new_tasks)
    if alpha is None:
        raise InvalidInput("new_tasks needs alpha, got alpha=None.", parameter="new_tasks")
    if tasks > number:
        rule = f"new_tasks must be at least the number of tasks, {tasks}, got {number}"
        raise InvalidInput(f"{rule}. Leave out tasks that are not on the list.")
    return NewTasks.at_most(alpha, number)


def _checked_counts(examples: ArrayLike, missed: ArrayLike) -> tuple[Counts, Counts]:
    sizes = _common.as_whole_numbers("examples", examples, minimum=0)
    misses = _common.as_whole_numbers("missed", missed, minimum=0)
    _common.check_same_shape("examples", sizes, "missed", misses)
    if (wrong := misses > sizes).any():
        pair = f"{misses[wrong][0]} misses among {sizes[wrong][0]} examples"
        text = f"missed must be at most examples, got {pair}."
        raise InvalidInput(text, parameter=("missed", "examples"))
    columns = (-1, 1) if sizes.ndim == 1 else sizes.shape
    return sizes.reshape(columns), misses.reshape(columns)

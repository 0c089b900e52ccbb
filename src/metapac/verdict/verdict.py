"""The verdict on a guarantee, and the functions that judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac import _checks
from metapac._types import Counts
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Epsilon
from metapac.ranks import equal_share
from metapac.verdict._evidence import Evidence, TaskCounts, collect
from metapac.verdict.wording import HOLDS, UNDECIDED, VIOLATED, describe

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
    epsilon = _checks.as_probability("epsilon", epsilon)
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

    Parameters
    ----------
    counts : mapping from class to a pair of array_like of int
        For each class, the number of labelled examples of each task and the number of misses. A
        task without examples of the class counts: it may be within epsilon or above.
    epsilon : float or mapping from class to float
        Miss rate that the guarantee allows.
    alpha : float
        Fraction of new tasks that may exceed it.
    delta : float or None
        Failure probability of the guarantee, or None for a guarantee in expectation.
    false_alarm : float, default 0.05
        Probability that the verdict on all classes is wrong; and that any verdict on a class is,
        each of which gets an equal share.

    Returns
    -------
    Verdict
        The verdict, with that of each class in ``by_class``.

    Raises
    ------
    InvalidInput
        If a number is out of its range, or more examples are missed than there are.

    Examples
    --------
    >>> from metapac.verdict import judge_classes
    >>> counts = {"no": ([400] * 60, [8] * 60), "yes": ([40] * 60, [40] * 60)}
    >>> verdict = judge_classes(counts, epsilon=0.05, alpha=0.1, delta=0.05)
    >>> verdict.status
    'violated'
    >>> {label: part.status for label, part in verdict.by_class.items()}
    {'no': 'holds', 'yes': 'violated'}
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
    """Return checked numbers of examples and misses.

    Parameters
    ----------
    examples : array_like of int, shape (tasks,)
        Number of examples of each task.
    missed : array_like of int, shape (tasks,)
        Number of misses.

    Returns
    -------
    examples, missed : ndarray of int64
        The numbers.

    Raises
    ------
    InvalidInput
        If they are not counts of that shape, or a task has more misses than examples.
    """
    sizes = _checks.as_whole_numbers("examples", examples, minimum=0)
    misses = _checks.as_whole_numbers("missed", missed, minimum=0)
    _checks.check_same_shape("examples", sizes, "missed", misses)
    if sizes.ndim != 1:
        text = "{} must be one-dimensional, a number for each task, got shape {}."
        raise InvalidInput(text, Parameter("examples"), sizes.shape)
    wrong = misses > sizes
    if wrong.any():
        first = misses[wrong][0], sizes[wrong][0]
        text = "{} must be at most {}, got {} misses among {} examples. Were they swapped?"
        raise InvalidInput(text, Parameter("missed"), Parameter("examples"), *first)
    return sizes, misses


def _checked_rates(
    alpha: float | None, delta: float | None, false_alarm: float
) -> tuple[float | None, float]:
    if alpha is not None:
        alpha = _checks.as_probability("alpha", alpha)
    if delta is not None:
        _checks.as_probability("delta", delta)
    false_alarm = _checks.as_probability("false_alarm", false_alarm)
    if false_alarm >= 0.5:
        text = "{} must be below 0.5, got {!r}. Pass a small one such as {}."
        name, remedy = Parameter("false_alarm"), Parameter("false_alarm", 0.05)
        raise InvalidInput(text, name, false_alarm, remedy)
    return alpha, false_alarm

"""What the sets keep, and what that rests on, in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from metapac._visible import visible
from metapac.explanation.words import Words, round_down
from metapac.outcome import UNKNOWN, Outcome, Part
from metapac.sentences import percent

KEEPS_ALL = "all of them, whatever their scores, so the lists rule nothing out"


class Rule(NamedTuple):
    """Which labels the lists keep, and what that rests on; for one class, or for all together.

    Attributes
    ----------
    label : object
        The class, or None for all of them together.
    epsilon : float
        Miss rate allowed.
    threshold : float
        The smallest score that is kept.
    tasks : int
        Number of calibration tasks.
    examples : int or None
        Number of calibration examples; None if it is not known.
    left_out : int
        Number of tasks that ``min_examples`` leaves out.
    keeps_all : bool
        Whether the label, or every label, may be kept whatever its score; for intervals, whether
        they are wide enough for every true number in calibration tasks.
    """

    label: Any
    epsilon: float
    threshold: float
    tasks: int
    examples: int | None
    left_out: int = 0
    keeps_all: bool = False

    @classmethod
    def from_outcome(cls, part: Part, outcome: Outcome, *, is_interval: bool = False) -> Self:
        """Return the rule that follows from the second step.

        Parameters
        ----------
        part : Part
            The evidence for one class, or for all of them together.
        outcome : Outcome
            The result of the second step on it.
        is_interval : bool, default False
            Whether sets are intervals.

        Returns
        -------
        Rule
            The rule.
        """
        sizes = part.sizes[outcome.used]
        return cls(
            part.label,
            part.guarantee.miss_rate,
            outcome.threshold,
            tasks=len(sizes),
            examples=None if np.any(sizes == UNKNOWN) else int(sizes.sum()),
            left_out=int(np.count_nonzero(~outcome.used)),
            keeps_all=bool(outcome.remark(is_interval=is_interval)),
        )


def describe_lists(words: Words, rules: Sequence[Rule]) -> str:
    """Return which labels the lists hold.

    Parameters
    ----------
    words : Words
        The user's words.
    rules : sequence of Rule
        What the lists keep, for each class or for all together.

    Returns
    -------
    str
        A sentence.
    """
    start = f"For each new {words.example} it gives a list of labels:"
    if rules[0].label is not None or len(rules) > 1:
        return f"{start} those whose score reaches the threshold of their class, rounded down here."
    return f"{start} {_describe_kept(rules[0])}."


def _describe_kept(rule: Rule) -> str:
    """Return which of all labels are kept, as part of a sentence."""
    if rule.threshold == -math.inf:
        return KEEPS_ALL
    if rule.threshold == math.inf:
        return "only those with an infinite score"
    text = f"those with a score of at least {round_down(rule.threshold)} (rounded down)"
    if rule.keeps_all:
        text += "; hardly any score is lower, so the lists rule out little"
    return text


def describe_class(words: Words, rule: Rule) -> str:
    """Return the guarantee of one class, its threshold, and what it rests on.

    Parameters
    ----------
    words : Words
        The user's words.
    rule : Rule
        What the lists keep of the class.

    Returns
    -------
    str
        The item of a list.
    """
    if rule.threshold == -math.inf:
        kept = "always listed"
    elif rule.threshold == math.inf:
        kept = "listed if its score is infinite"
    else:
        kept = f"listed if its score is at least {round_down(rule.threshold)}"
    if rule.keeps_all and rule.threshold > -math.inf:
        kept += ", and hardly any is lower"
    examples = "" if rule.examples is None else f", {words.count_examples(rule.examples)}"
    label = f"'{visible(str(rule.label))}'"
    return (
        f"- Of the {words.examples} whose right label is {label}, at most {percent(rule.epsilon)} "
        f"get a list without it. {label} is {kept} ({words.count_units(rule.tasks)}{examples})."
    )


def describe_intervals(words: Words, rule: Rule, columns: Mapping[str, Any]) -> str:
    """Return how wide the intervals are.

    Parameters
    ----------
    words : Words
        The user's words.
    rule : Rule
        What the intervals hold.
    columns : mapping
        Columns of the table calibrated on.

    Returns
    -------
    str
        A sentence.
    """
    start = f"For each new {words.example} it gives an interval:"
    if rule.threshold == -math.inf:
        return f"{start} all numbers, because there are too few data."
    little = "; hardly any true number is farther off, so the intervals rule out little"
    return f"{start} {describe_interval(rule.threshold, columns)}{little * rule.keeps_all}."


def describe_interval(threshold: float, columns: Mapping[str, Any]) -> str:
    """Return how far an interval reaches, as part of a sentence.

    Parameters
    ----------
    threshold : float
        The threshold, a finite one.
    columns : mapping
        Columns of the table calibrated on, with the scale of each prediction if it has one.

    Returns
    -------
    str
        Such as "the predicted number plus and minus 2.5 (rounded up)".
    """
    times = " times its scale" if "scale" in columns else ""
    radius = round_down(threshold).removeprefix("-")
    return f"the predicted number plus and minus {radius}{times} (rounded up)"

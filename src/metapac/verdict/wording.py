"""A verdict in words, with its probability of being wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from metapac import _checks
from metapac.explanation.words import inflect
from metapac.sentences import percent
from metapac.verdict._evidence import SLACK

if TYPE_CHECKING:
    from metapac.verdict.verdict import Verdict

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
    """Return a verdict in words, for one guarantee or for each class.

    Parameters
    ----------
    verdict : Verdict
        The verdict.
    unit : str
        What a task is called; an irregular plural is given as "person/people".
    example : str
        What an example is called.

    Returns
    -------
    str
        One or more sentences.
    """
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
    return f"{word} {_checks.listed([*map(str, names)])}"

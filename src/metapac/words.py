"""Guarantees explained to people who are not statisticians, in the words of their field.

Every number is a bound that holds as it is read: percentages are exact, and thresholds are rounded
down, so that whoever applies the rounded number keeps at least as many labels.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from metapac._text import visible
from metapac.evidence import UNKNOWN, Outcome, Part
from metapac.guarantee import BALANCED, percent

if TYPE_CHECKING:
    from metapac import context
    from metapac.guarantee import Guarantee

_DIGITS = 3


class Words(NamedTuple):
    """What tasks and examples are called, in singular and plural."""

    unit: str
    units: str
    example: str
    examples: str
    model: str

    @classmethod
    def from_context(cls, about: context.Context) -> Words:
        """Return the words of a context."""
        model = "the model" if about.model is None else f"the model {visible(about.model)}"
        return cls(*inflect(visible(about.unit)), *inflect(visible(about.example)), model)

    def count_units(self, number: int) -> str:
        """Return a number of tasks, such as "1 hospital" or "60 hospitals"."""
        return f"{number:,} {self.unit if number == 1 else self.units}"

    def count_examples(self, number: int) -> str:
        """Return a number of examples, such as "1 patient" or "60 patients"."""
        return f"{number:,} {self.example if number == 1 else self.examples}"


def inflect(noun: str) -> tuple[str, str]:
    """Return the singular and the plural of a noun."""
    singular, _, plural = (part.strip() for part in noun.partition("/"))
    if plural:
        return singular, plural
    if singular.endswith("y") and singular[-2:-1] not in ("a", "e", "i", "o", "u"):
        return singular, f"{singular[:-1]}ies"
    return singular, f"{singular}{'es' if singular.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def round_down(threshold: float) -> str:
    """Return a threshold in three significant digits, never higher than it is."""
    if not math.isfinite(threshold):
        return str(threshold)
    shown = Context(prec=_DIGITS, rounding=ROUND_FLOOR).create_decimal(Decimal(repr(threshold)))
    if -7 < shown.adjusted() < 16:
        text = f"{shown:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{shown.normalize():e}"


KEEPS_ALL = "all of them, whatever their scores, so the lists rule nothing out"


class Rule(NamedTuple):
    """Which labels the lists keep, and what that rests on; for one class, or for all together."""

    label: Any
    epsilon: float
    threshold: float
    tasks: int
    examples: int | None
    left_out: int = 0
    keeps_all: bool = False

    @classmethod
    def from_outcome(cls, part: Part, outcome: Outcome, *, is_interval: bool = False) -> Self:
        """Return the rule that follows from the second step."""
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
    """Return which labels the lists hold."""
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
    """Return the guarantee of one class, its threshold, and what it rests on."""
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
    """Return how wide the intervals are."""
    start = f"For each new {words.example} it gives an interval:"
    if rule.threshold == -math.inf:
        return f"{start} all numbers, because there are too few data."
    little = "; hardly any true number is farther off, so the intervals rule out little"
    return f"{start} {describe_interval(rule.threshold, columns)}{little * rule.keeps_all}."


def describe_interval(threshold: float, columns: Mapping[str, Any]) -> str:
    """Return how far an interval reaches, as part of a sentence."""
    times = " times its scale" if "scale" in columns else ""
    radius = round_down(threshold).removeprefix("-")
    return f"the predicted number plus and minus {radius}{times} (rounded up)"


_CLASS_LIMITS = (
    "for one class alone: a rare class may be missed far more often, even always",
    "for another mix of classes, such as the natural one after a calibration balanced by class",
)


def list_limits(words: Words, limits: Sequence[str]) -> str:
    """Return a list of limits, with those that every guarantee has."""
    always = [
        f"for {words.units} unlike these, or once their {words.examples} change",
        "for another model, or once the model or its scores change",
    ]
    return "\n".join(["It does not hold", *(f"- {limit}" for limit in [*limits, *always])])


def find_limits(
    words: Words, g: Guarantee, rules: Sequence[Rule], *, is_interval: bool = False
) -> list[str]:
    """Return for which tasks, classes and examples the guarantee of `MetaPS` says nothing."""
    worse = f"up to {percent(g.alpha)} of them may be worse"
    limits = [f"for each single {words.unit}: {worse}, and nobody knows which"]
    if g.per_class:
        each = f"for each class {worse}, not necessarily the same ones"
        limits = [f"for each single {words.unit}: {each}"]
        share = f"the shares are those of all {words.examples} of one class and {words.unit}"
    else:
        limits += () if is_interval else _CLASS_LIMITS
        share = f"{percent(g.miss_rate)} is a share of all {words.examples} of one {words.unit}"
    limits.append(_describe_part_limit(words, share))
    return limits + _find_size_limits(words, g, rules[0].left_out)


def _find_size_limits(words: Words, g: Guarantee, left_out: int) -> list[str]:
    """Return that nothing is said of small tasks, if ``min_examples`` leaves them out."""
    if not g.min_examples:
        return []
    small = f"for {words.units} with fewer than {words.count_examples(g.min_examples)}"
    if g.per_class:
        return [f"{small} of the class"]
    return [f"{small} ({left_out} left out of the calibration)" if left_out else small]


def find_pooled_limits(words: Words, epsilon: float, worse: str) -> list[str]:
    """Return for which tasks, classes and examples a bound over all examples says nothing."""
    share = f"{percent(epsilon)} is a share of all {words.examples}"
    part = _describe_part_limit(words, share)
    return [f"for any one {words.unit}: {worse}", *_CLASS_LIMITS, part]


def _describe_part_limit(words: Words, share: str) -> str:
    """Return that nothing is said of a part of the examples."""
    return (
        f"for a part of the {words.examples}, such as one age group, or for one {words.example}: "
        f"{share}"
    )


def summarise_limits(
    g: Guarantee, about: context.Context, columns: Mapping[str, Any] | None = None
) -> str:
    """Return in one sentence what the guarantee of `MetaPS` does not say."""
    words = Words.from_context(about)
    has_classes = "prediction" not in (columns or {})
    rare = (
        ""
        if g.per_class or not has_classes
        else "for one class alone (a rare one may always be missed), "
    )
    return (
        f"It does not hold {rare}for {words.units} unlike these, or once the model or its scores "
        "change."
    )


_SHOWN = 20  # classes listed in an explanation

_USE = (
    "A list with several labels leaves the choice to a person. An empty list is no all-clear: no "
    "label scored high enough, which for probabilities means that the model is torn between "
    "labels. Treat it like a list of all labels."
)

_USE_INTERVAL = (
    "An interval says where the true number may lie, not where in it the number is likely to be."
)


def explain_guarantee(
    g: Guarantee,
    rules: Sequence[Rule],
    tasks: int,
    about: context.Context,
    columns: Mapping[str, Any] | None = None,
    cluster: tuple[str, str] | None = None,
) -> str:
    """Return the guarantee of `MetaPS` in plain words, and what it does not say."""
    words, columns = Words.from_context(about), columns or {}
    is_interval = "prediction" in columns
    sets = (
        describe_intervals(words, rules[0], columns)
        if is_interval
        else describe_lists(words, rules)
    )
    limits = find_limits(words, g, rules, is_interval=is_interval)
    drawn, pool = words, describe_pool(about, tasks)
    if cluster is not None:
        pool = ""  # one task of each cluster: no two are drawn from the same one
        one, several = map(visible, cluster)
        drawn = words._replace(unit=one, units=several)
        sets = f"They are one {words.unit} from each of {drawn.count_units(tasks)}. {sets}"
        limits.append(f"for more {words.units} of these {several}: it is for new {several}")
    these = _these(drawn.count_units(tasks), tasks)
    return _join(
        f"{_basis(words, tasks, rules)} {sets}",
        _claim(words, g, rules, is_interval=is_interval, cluster=cluster),
        f"{_confidence(g.delta, these, drawn.units)} {pool}".rstrip(),
        _conditions(words, tasks, about, drawn, is_average=not (g.per_class or is_interval)),
        list_limits(words, limits),
        _USE_INTERVAL if is_interval else _USE,
    )


def explain_examples(epsilon: float, delta: float, rule: Rule, about: context.Context) -> str:
    """Return the guarantee of `PS` in plain words, and what it does not say."""
    words = Words.from_context(about)
    drawn = words.count_examples(rule.examples or 0)
    worse = "lists may miss far more often there"
    return _join(
        f"{_capital(words.model)} was calibrated on {drawn}. {describe_lists(words, [rule])}",
        f"Of new {words.examples} of the same kind, at most {percent(epsilon)} get a list without "
        "the right label.",
        _confidence(delta, _these(drawn, rule.examples or 0), words.examples),
        f"It holds only if these and the new {words.examples} are drawn at random from the same "
        "kind, if the model was not trained on any of them, and if its scores were fixed before.",
        list_limits(words, find_pooled_limits(words, epsilon, worse)),
        _USE,
    )


def explain_average(
    over: str, epsilon: float, delta: float, rule: Rule, about: context.Context
) -> str:
    """Return the guarantee of `MetaCP` in plain words, and what it does not say."""
    words = Words.from_context(about)
    units, drawn = words.units, _these(words.count_units(rule.tasks), rule.tasks)
    kept = f"those whose score reaches the threshold of the {words.unit}"
    if rule.threshold == -math.inf:
        kept = KEEPS_ALL
    worse = f"it is an average, and lists may miss far more often at some {units}"
    averaged = f"new {units} of the same kind"
    if over == "examples":
        averaged += f" and over many such calibrations, each with other {units}"
        drawn = f"the {words.examples} of {drawn}"
    return _join(
        f"{_basis(words, rule.tasks, [rule])} For each new {words.example} it gives a list of "
        f"labels: {kept}.",
        f"Averaged over {averaged}, at most {percent(epsilon)} of the {words.examples} get a list "
        "without the right label.",
        f"{_confidence(delta, drawn, units)} {describe_pool(about, rule.tasks)}".rstrip(),
        _conditions(words, rule.tasks, about),
        list_limits(words, find_pooled_limits(words, epsilon, worse)),
        _USE,
    )


def _join(*paragraphs: str) -> str:
    return "\n\n".join(paragraphs)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _basis(words: Words, tasks: int, rules: Sequence[Rule]) -> str:
    """Return what the guarantee rests on."""
    sizes = [rule.examples for rule in rules]
    known = [size for size in sizes if size is not None]
    examples = ""
    if len(known) == len(sizes) and rules:
        examples = f" with {words.count_examples(sum(known))}"
    return f"{_capital(words.model)} was calibrated on {words.count_units(tasks)}{examples}."


def _claim(
    words: Words,
    g: Guarantee,
    rules: Sequence[Rule],
    *,
    is_interval: bool = False,
    cluster: tuple[str, str] | None = None,
) -> str:
    """Return what holds, and on how many new tasks."""
    units = words.units if cluster is None else f"{words.units} of new {visible(cluster[1])}"
    share = f"at least {percent(g.alpha, complement=True)} of new {units} of the same kind"
    if g.min_examples:
        of_class = " of that class" if g.per_class else ""
        share += f" with at least {words.count_examples(g.min_examples)}{of_class}"
    if not g.per_class:
        without = (
            "an interval without the true number"
            if is_interval
            else "a list without the right label"
        )
        return f"For {share}, at most {percent(g.miss_rate)} of the {words.examples} get {without}."
    start = (
        f"For each class separately, the following holds on {share}; these need not be the same "
        f"{words.units} for each class:"
    )
    return "\n".join([start, *_class_lines(words, rules)])


def _class_lines(words: Words, rules: Sequence[Rule]) -> list[str]:
    """Return the guarantee of each class, of the first ones if there are many."""
    lines = [describe_class(words, rule) for rule in rules[:_SHOWN]]
    if len(rules) > _SHOWN:
        more = len(rules) - _SHOWN
        lines.append(f"- and {more} more {'class' if more == 1 else 'classes'}, see thresholds_")
    return lines


def describe_pool(about: context.Context, tasks: int) -> str:
    """Return what follows if the tasks were drawn from the same few classes."""
    if about.drawn_from is None:
        return ""
    words, pool = Words.from_context(about), visible(about.drawn_from)
    return (
        f"The {words.count_units(tasks)} of the calibration were drawn from {pool}: the guarantee "
        f"is for new {words.units} of these. It extends to others only as far as these {pool} "
        f"represent them, and drawing more {words.units} does not change that."
    )


def _these(counted: str, number: int) -> str:
    return f"{'this' if number == 1 else 'these'} {counted}"


def _confidence(delta: float | None, drawn: str, plural: str) -> str:
    """Return how sure one can be, and of what."""
    if delta is None:
        return (
            f"This holds on average over many such calibrations, each with other {plural}. This "
            "one may be better or worse, and how sure we can be of it is not known (delta=None)."
        )
    return (
        f"We are {percent(delta, complement=True)} sure of it: the risk that the choice of {drawn} "
        f"misled us is at most {percent(delta)}."
    )


def _conditions(
    words: Words,
    tasks: int,
    about: context.Context,
    drawn: Words | None = None,
    *,
    is_average: bool = True,
) -> str:
    """Return what the guarantee assumes of what was drawn: tasks, or clusters of them."""
    drawn = drawn or words
    these = _these(drawn.unit if tasks == 1 else drawn.units, tasks)
    text = (
        f"It holds only if {these} and the new ones are drawn at random from the same kind, if "
        f"their {words.examples} are sampled in the same way{BALANCED * is_average}, if the model "
        f"was not trained on any of them, and if the scores and the number of {drawn.units} were "
        "fixed before anyone looked at results."
    )
    if about.trained_on is None:
        if about.training is not None:
            return f"{text} The model was trained on {visible(about.training)}."
        return f"{text} Where the model was trained is not on record, so nobody has checked that."
    number = len(tuple(about.trained_on))
    trained = f"{number} other {words.unit if number == 1 else words.units}"
    return f"{text} The model was trained on {trained} (compared by name)."


def render_card(title: str, text: str, sentence: str) -> str:
    """Return an explanation as HTML for a notebook: no scripts, no external resources."""
    style = "border:1px solid;border-radius:6px;padding:.5em 1em;max-width:60em"
    parts = [_render_paragraph(paragraph) for paragraph in text.split("\n\n")]
    return (
        f'<div style="{style}"><strong>{_escape(title)}</strong>{"".join(parts)}'
        f"<details><summary>Technical sentence</summary><p>{_escape(sentence)}</p></details></div>"
    )


def render_text(text: str) -> str:
    """Return text as HTML, in the font of code."""
    return f"<pre>{_escape(text)}</pre>"


def _render_paragraph(paragraph: str) -> str:
    first, *items = paragraph.split("\n- ")
    listed = "".join(f"<li>{_escape(item)}</li>" for item in items)
    return f"<p>{_escape(first)}</p>{f'<ul>{listed}</ul>' if items else ''}"


def _escape(text: str) -> str:
    return html.escape(visible(text))

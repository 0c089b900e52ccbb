"""Guarantees explained to people who are not statisticians, in the words of their field.

Every number is a bound that holds as it is read: percentages are exact, and thresholds are rounded
down, so that whoever applies the rounded number keeps at least as many labels.
"""

from __future__ import annotations

import decimal
import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from metapac import guarantee
from metapac._text import inflect, visible
from metapac.columns import hold_losses, hold_numbers
from metapac.evidence import UNKNOWN, Outcome, Part
from metapac.guarantee import BALANCED, percent

if TYPE_CHECKING:
    from metapac.context import Context
    from metapac.grouping import DrawnRows
    from metapac.guarantee import Guarantee

_SHOWN = 20  # classes listed in an explanation

USE = (
    "A set with several labels leaves the choice to a person. An empty set does not mean that all "
    "is well: no label scored high enough, which for probabilities means that the model is torn "
    "between labels. Treat it as a set of all labels."
)
_USE_INTERVAL = "An interval says where the true number may lie, not where in it the number is "
_USE_INTERVAL += "likely to be."
_EMPTY_INTERVAL = " In an empty interval the two quantiles are too close together. Treat it as one "
_EMPTY_INTERVAL += "of all numbers."
_USE_LOSS = "The guarantee is for this threshold and lower ones, at which no more is lost."


class Words(NamedTuple):
    """What tasks and examples are called, in singular and plural."""

    unit: str
    units: str
    example: str
    examples: str
    model: str
    rate: str = "miss rate"

    @classmethod
    def from_context(cls, about: Context) -> Words:
        """Return the words of a context."""
        model = "the model" if about.model is None else f"the model {visible(about.model)}"
        return cls(*inflect(visible(about.unit)), *inflect(visible(about.example)), model)

    def missed(self, share: str) -> str:
        """Return that a task has a miss rate, or a risk."""
        return f"missed {share}" if self.rate == "miss rate" else f"had a {self.rate} of {share}"

    def count_units(self, number: int) -> str:
        """Return a number of tasks, such as "1 hospital" or "60 hospitals"."""
        return f"{number:,} {self.unit if number == 1 else self.units}"

    def count_examples(self, number: int) -> str:
        """Return a number of examples, such as "1 patient" or "60 patients"."""
        return f"{number:,} {self.example if number == 1 else self.examples}"


def round_down(threshold: float, digits: int = 3) -> str:
    """Return a threshold in some significant digits, never higher than it is."""
    if not math.isfinite(threshold):
        return str(threshold)
    floor = decimal.Context(prec=digits, rounding=decimal.ROUND_FLOOR)
    shown = floor.create_decimal(repr(threshold)).normalize()
    return f"{shown:f}" if -7 < shown.adjusted() < 16 else f"{shown:e}"


class Rule(NamedTuple):
    """Which labels the sets keep, and what that rests on; for one class, or for all together."""

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
        sizes, left_out = part.sizes[outcome.used], int(np.count_nonzero(~outcome.used))
        examples = None if np.any(sizes == UNKNOWN) else int(sizes.sum())
        levels = part.label, part.guarantee.miss_rate, outcome.threshold
        keeps_all = bool(outcome.remark(is_interval=is_interval))
        return cls(*levels, len(sizes), examples, left_out, keeps_all)


# What every explanation says, in this order: what the guarantee rests on, what holds, how sure one
# can be, what it assumes, for what it does not hold, and how to use the sets.


def explain_guarantee(
    g: Guarantee,
    rules: Sequence[Rule],
    tasks: int,
    about: Context,
    columns: Mapping[str, Any] | None = None,
    cluster: tuple[str, str] | None = None,
    drawn_rows: str = "",
    *,
    absent: int = 0,
    free_shift: float | None = None,
) -> str:
    """Return the guarantee of `MetaPS` in plain words, and what it does not say."""
    words, columns = Words.from_context(about), columns or {}
    is_interval = hold_numbers(columns)
    is_average = guarantee.averages_classes(g, columns)
    miss, use = "a set without the true label", USE
    if hold_losses(columns):
        miss, use = "", _USE_LOSS
    elif is_interval:
        miss, use = "an interval without the true number", _USE_INTERVAL
        use += _EMPTY_INTERVAL * ("lower" in columns)
    drawn, pool, several = words, describe_pool(about, tasks), None
    basis, limits = describe_basis(words, tasks, rules), []
    if g.min_examples:
        small = f"for {words.units} with fewer than {words.count_examples(g.min_examples)}"
        left_out = f" ({rules[0].left_out} left out of the calibration)" * bool(rules[0].left_out)
        limits.append(small + (_of_class(g, "the") or left_out))
    if cluster is not None:
        one, several = map(visible, cluster)
        drawn = words._replace(unit=one, units=several)
        other = "new" if g.new_tasks is None else "other"
        pool = ""  # one task of each cluster: no two are drawn from the same one
        basis += f" They are one {words.unit} from each of {drawn.count_units(tasks)}."
        limits.append(f"for more {words.units} of these {several}: it is for {other} {several}")
    basis += f" {drawn_rows}" if drawn_rows else ""
    sure = describe_confidence(g.delta, drawn.count_units(tasks + absent), drawn.units)
    sure += describe_dishonest(g, drawn, absent)
    share, beyond, draw = guarantee.describe_share(g, words.unit, words.units, several), "", ""
    if (of_list := g.list_of_new_tasks) is not None:
        beyond = f"{drawn.units} that are not on the list"
        draw = guarantee.describe_list_draw(
            of_list, drawn.units, (tasks + absent) * (not g.min_examples)
        )
    conditions = describe_conditions(about, drawn.units, g, draw, is_average)
    conditions += describe_shift(g, drawn.units, free_shift)
    single, whole = _describe_rates(words, g, is_risk=hold_losses(columns))
    return join_paragraphs(
        f"{basis} {describe_sets(words, rules[0], columns)}",
        _describe_claim(words, g, rules, share, miss),
        f"{sure} {pool}",
        conditions,
        list_limits(words, single, whole, *limits, beyond=beyond, is_average=is_average),
        use,
    )


def _describe_rates(words: Words, g: Guarantee, *, is_risk: bool) -> tuple[str, str]:
    """Return what holds for no single task, and what the miss rate is a share of."""
    single, of_list = f"for each single {words.unit}:", g.list_of_new_tasks
    worse = f"up to {percent(g.alpha)} of them may be worse"
    if of_list is not None:
        worse = f"up to {of_list.may_break:,} of the {of_list.number:,} may be worse"
    exempt = of_list is None or of_list.may_break > 0
    if g.per_class:
        share = f"the shares are those of all {words.examples} of one class and {words.unit}"
        if not g.is_together:
            single, worse = f"{single} for each class", f"{worse}, not necessarily the same ones"
        return f"{single} {worse}" * exempt, share
    share = f"{percent(g.miss_rate)} is {'the mean over' if is_risk else 'a share of'} all "
    share += f"{words.examples} of one {words.unit}"
    return f"{single} {worse}, and nobody knows which" * exempt, share


def explain_examples(epsilon: float, delta: float, rule: Rule, about: Context) -> str:
    """Return the guarantee of `PS` in plain words, and what it does not say."""
    words, rate = Words.from_context(about), percent(epsilon)
    drawn = words.count_examples(rule.examples or 0)
    single = f"for any one {words.unit}: sets may miss far more often there"
    return join_paragraphs(
        f"{_capital(words.model)} was calibrated on {drawn}. {describe_sets(words, rule, {})}",
        f"Of new {words.examples} of the same kind, at most {rate} get a set without the true "
        "label.",
        describe_confidence(delta, drawn, words.examples),
        f"It holds only if these and the new {words.examples} are drawn at random from the same "
        "kind, if the model was not trained on any of them, and if its scores were fixed before.",
        list_limits(words, single, f"{rate} is a share of all {words.examples}"),
        USE,
    )


def join_paragraphs(*paragraphs: str) -> str:
    """Return an explanation, which callers divide at the empty lines."""
    return "\n\n".join(paragraph.rstrip() for paragraph in paragraphs)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def describe_basis(words: Words, tasks: int, rules: Sequence[Rule]) -> str:
    """Return what the guarantee rests on."""
    known = [rule.examples for rule in rules if rule.examples is not None]
    examples = f" with {words.count_examples(sum(known))}" if len(known) == len(rules) else ""
    return f"{_capital(words.model)} was calibrated on {words.count_units(tasks)}{examples}."


def describe_draw(words: Words, drawn: DrawnRows, unit: str, units: str) -> str:
    """Return which rows of a unit count, what that assumes, and of what the guarantee speaks."""
    unit, units = visible(unit), visible(units)
    counted = drawn.describe(unit, words.example, words.examples)
    return (
        f"Within each {words.unit}, {counted}. The {units} of one {words.unit} must be "
        f"independent, and the guarantee is for a random {words.example} of a random {unit}."
    )


def describe_sets(words: Words, rule: Rule, columns: Mapping[str, Any], kept: str = "") -> str:
    """Return which labels the sets hold, or how wide the intervals are."""
    if hold_losses(columns):
        shown = f"{round_down(rule.threshold)} (rounded down)"
        return f"For each new {words.example} it keeps what scores at least {shown}."
    kind, little = "a set of labels", ""
    if hold_numbers(columns):
        kind, kept = "an interval", describe_interval(rule.threshold, columns)
        little = "; hardly any true number is farther off, so the intervals rule out little"
    elif rule.label is not None:
        kept = "those whose score reaches the threshold of their class, rounded down here"
    elif rule.threshold == -math.inf:
        kept = "all of them, whatever their scores, so the sets rule nothing out"
    elif not kept:
        kept = f"those with a score of at least {round_down(rule.threshold)} (rounded down)"
        little = "; hardly any score is lower, so the sets rule out little"
    if rule.keeps_all and rule.threshold > -math.inf:
        kept += little
    return f"For each new {words.example} it gives {kind}: {kept}."


def describe_interval(threshold: float, columns: Mapping[str, Any]) -> str:
    """Return how far an interval reaches, as part of a sentence."""
    if threshold == -math.inf:
        return "all numbers, because there are too few data"
    radius = round_down(threshold).removeprefix("-")
    if "lower" in columns:
        if threshold == 0:
            return "the numbers from the lower to the upper quantile"
        words = ("plus", "minus", "down") if threshold > 0 else ("minus", "plus", "up")
        ends = "the numbers from the lower quantile {0} {3} to the upper quantile {1} {3}"
        return f"{ends} (rounded {{2}})".format(*words, radius)
    times = " times its scale" if "scale" in columns else ""
    return f"the predicted number plus and minus {radius}{times} (rounded up)"


def _describe_claim(
    words: Words, g: Guarantee, rules: Sequence[Rule], share: str, miss: str
) -> str:
    """Return what holds, and on how many new tasks."""
    share += " of the same kind" * (g.new_tasks is None)
    if g.min_examples:
        share += f" with at least {words.count_examples(g.min_examples)}{_of_class(g)}"
    if not miss:
        return f"For {share}, the mean loss is at most {percent(g.miss_rate)}."
    if not g.per_class:
        return f"For {share}, at most {percent(g.miss_rate)} of the {words.examples} get {miss}."
    start = (
        f"For each class separately, the following holds on {share}; these need not be the same "
        f"{words.units} for each class:"
    )
    if g.is_together:
        start = f"The following holds on {share}, for all classes at once (a class that a "
        start += f"{words.unit} lacks is not missed there):"
    lines = [start, *(_describe_class(words, rule) for rule in rules[:_SHOWN])]
    if (more := len(rules) - _SHOWN) > 0:
        lines.append(f"- and {more} more {'class' if more == 1 else 'classes'}, see thresholds_")
    return "\n".join(lines)


def _of_class(g: Guarantee, which: str = "that") -> str:
    """Return which examples are counted, if each class counts."""
    return f" of {'each' if g.is_together else which} class" if g.per_class else ""


def _describe_class(words: Words, rule: Rule) -> str:
    """Return the guarantee of one class, its threshold, and what it rests on."""
    kept, lower = "always in the set", ", and hardly any is lower" * rule.keeps_all
    if rule.threshold > -math.inf:
        kept = f"in the set if its score is at least {round_down(rule.threshold)}{lower}"
    examples = "" if rule.examples is None else f", {words.count_examples(rule.examples)}"
    label = f"'{visible(str(rule.label))}'"
    return (
        f"- Of the {words.examples} whose true label is {label}, at most {percent(rule.epsilon)} "
        f"get a set without it. {label} is {kept} ({words.count_units(rule.tasks)}{examples})."
    )


def describe_confidence(delta: float | None, drawn: str, plural: str) -> str:
    """Return how sure one can be, given what was drawn."""
    if delta is None:
        mean = f"This holds on average over many such calibrations, each with other {plural}."
        doubt = "This one may be better or worse, and how sure we can be of it is not known"
        return f"{mean} {doubt} (delta=None)."
    sure, risk = percent(delta, complement=True), percent(delta)
    misled = f"the risk that the choice of the {drawn} misled us is at most {risk}"
    return f"We are {sure} sure of it: {misled}."


def describe_pool(about: Context, tasks: int) -> str:
    """Return what follows if the tasks were drawn from the same few classes."""
    if about.drawn_from is None:
        return ""
    words, pool = Words.from_context(about), visible(about.drawn_from)
    return (
        f"The {words.count_units(tasks)} of the calibration were drawn from {pool}: the guarantee "
        f"is for new {words.units} of these. It extends to others only as far as these {pool} "
        f"represent them, and drawing more {words.units} does not change that."
    )


def describe_dishonest(g: Guarantee, words: Words, absent: int) -> str:
    """Return how many tasks may have sent anything, or nothing."""
    if not g.dishonest:
        return ""
    text = f" This holds whatever up to {g.dishonest} of them sent, but not if one of these"
    text += f" {words.units} took part under several names."
    silent = f" Among the {g.dishonest}: {words.count_units(absent)} that sent nothing."
    return text + silent * bool(absent)


def describe_shift(g: Guarantee, units: str, free: float | None) -> str:
    """Return how many new tasks may come from elsewhere; nothing for a list, or if not known."""
    if free is None or g.new_tasks is not None:
        return ""
    if free < _LEAST_SHIFT:
        lack = f"There is no room for new {units} from elsewhere"
        return f" {lack}: if some are, calibrate with shift."
    return f" It would still hold if up to {percent(free)} of new {units} came from elsewhere."


_LEAST_SHIFT = 0.001  # less is not worth a sentence


def describe_conditions(
    about: Context, units: str, g: Guarantee | None = None, draw: str = "", is_average: bool = True
) -> str:
    """Return what the guarantee assumes of what was drawn: tasks, or clusters of them."""
    words = Words.from_context(about)
    alike = f"the {units} of the calibration and the new ones are drawn at random from the same"
    training = "Where the model was trained is not on record, so nobody has checked that."
    if about.trained_on is not None:
        number = len(tuple(about.trained_on))
        other = words.unit if number == 1 else words.units
        training = f"The model was trained on {number} other {other} (compared by name)."
    elif about.training is not None:
        training = f"The model was trained on {visible(about.training)}."
    mix, randomised = BALANCED * is_average, ""
    if g is not None and g.sampling == "iid":
        mode = "class by class" if g.per_class else "not balanced by class"
        mix = f" (one by one, at random from far more of them, {mode})"
    offsets = ", the offsets of classes" * (g is not None and g.is_together)
    if g is not None and g.randomise is not None:
        randomised = f" Ranks were randomised by the seed {g.randomise}, which was fixed beforehand"
        randomised += f" like the names of the {words.units}: other ones now are a second look."
    return (
        f"It holds only if {draw or f'{alike} kind'}, if their {words.examples} are sampled in the "
        f"same way{mix}, if the model was not trained on any of them, and if the scores{offsets} "
        f"and the number of {units} were fixed before anyone looked at results. "
        f"{training}{randomised}"
    )


def list_limits(
    words: Words, single: str, share: str, *more: str, beyond: str = "", is_average: bool = True
) -> str:
    """Return for which tasks, classes and examples a guarantee says nothing."""
    classes = [
        "for one class alone: a rare class may be missed far more often, even always",
        "for another mix of classes, such as the natural one after a calibration balanced by class",
    ]
    part = f"for a part of the {words.examples}, such as one age group, or for one {words.example}"
    limits = [single, *(classes if is_average else ()), f"{part}: {share}", *more]
    beyond = beyond or f"{words.units} unlike these"
    limits.append(f"for {beyond}, or once their {words.examples} change")
    limits.append("for another model, or once the model or its scores change")
    return "\n- ".join(["It does not hold", *filter(None, limits)])


def summarise_guarantee(
    g: Guarantee,
    about: Context,
    columns: Mapping[str, Any] | None = None,
    cluster: tuple[str, str] | None = None,
) -> str:
    """Return the guarantee of `MetaPS` in one plain sentence."""
    words = Words.from_context(about)
    clusters = None if cluster is None else visible(cluster[1])
    share = f"In {guarantee.describe_share(g, words.unit, words.units, clusters)}"
    share += " of the same kind" * (cluster is None and g.new_tasks is None)
    share = f"For each class separately: in{share[2:]}" if g.per_class is True else share
    if g.min_examples:
        share += f" with at least {words.count_examples(g.min_examples)}{_of_class(g, 'the')}"
    kind, truth = ("an interval", "number") if hold_numbers(columns) else ("a set", "label")
    rates = g.epsilon if isinstance(g.epsilon, Mapping) else {None: g.epsilon}
    which = f"the {words.examples}{_of_class(g, 'the')}"
    claims = [
        f"{percent(rate)} of {which if label is None else f'class {visible(str(label))}'}"
        for label, rate in rates.items()
    ]
    sure = "on average over calibrations"
    if g.delta is not None:
        sure = f"confidence {percent(g.delta, complement=True)}"
    if hold_losses(columns):
        return f"{share}, the mean loss is at most {percent(g.miss_rate)} ({sure})."
    return f"{share}, at most {', '.join(claims)} get {kind} without the true {truth} ({sure})."


def render_card(title: str, text: str, sentence: str) -> str:
    """Return an explanation as HTML for a notebook: no scripts, no external resources."""
    style = "border:1px solid;border-radius:6px;padding:.5em 1em;max-width:60em"
    body = f"<strong>{_escape(title)}</strong>"
    for paragraph in text.split("\n\n"):
        first, *items = map(_escape, paragraph.split("\n- "))
        listed = "".join(f"<li>{item}</li>" for item in items)
        body += f"<p>{first}</p>{f'<ul>{listed}</ul>' if items else ''}"
    technical = f"<summary>Technical sentence</summary><p>{_escape(sentence)}</p>"
    return f'<div style="{style}">{body}<details>{technical}</details></div>'


def render_text(text: str) -> str:
    """Return lines of text as HTML, in the font of code."""
    return "<pre>{}</pre>".format("\n".join(map(_escape, text.split("\n"))))


def _escape(text: str) -> str:
    return html.escape(visible(text))

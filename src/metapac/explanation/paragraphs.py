"""A guarantee in plain words: what it rests on, what it says, and what it does not say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from metapac._visible import visible
from metapac.explanation.limits import find_limits, find_pooled_limits, list_limits
from metapac.explanation.rules import (
    KEEPS_ALL,
    Rule,
    describe_class,
    describe_intervals,
    describe_lists,
)
from metapac.explanation.words import Words
from metapac.sentences import BALANCED, percent

if TYPE_CHECKING:
    from metapac import context
    from metapac.guarantee import Guarantee

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
    """Return the guarantee of `MetaPS` in plain words, and what it does not say.

    Parameters
    ----------
    g : Guarantee
        The guarantee.
    rules : sequence of Rule
        What the lists keep; with ``per_class``, for each class.
    tasks : int
        Number of calibration tasks.
    about : Context
        What the guarantee is about.
    columns : mapping, optional
        Columns of the table calibrated on, which tell intervals from lists of labels.
    cluster : tuple of str, optional
        What clusters are called, in singular and plural, if one task of each was calibrated on.

    Returns
    -------
    str
        Paragraphs separated by empty lines; items of a list start with "- ".
    """
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
    """Return the guarantee of `PS` in plain words, and what it does not say.

    Parameters
    ----------
    epsilon : float
        Miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    rule : Rule
        What the lists keep.
    about : Context
        What the guarantee is about.

    Returns
    -------
    str
        Paragraphs separated by empty lines; items of a list start with "- ".
    """
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
    """Return the guarantee of `MetaCP` in plain words, and what it does not say.

    Parameters
    ----------
    over : {"tasks", "examples"}
        Whether ``delta`` covers the draw of tasks and examples, or of examples alone.
    epsilon : float
        Average miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    rule : Rule
        What the lists keep; a threshold of ``-inf`` stands for all labels.
    about : Context
        What the guarantee is about.

    Returns
    -------
    str
        Paragraphs separated by empty lines; items of a list start with "- ".
    """
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
    """Return what follows if the tasks were drawn from the same few classes.

    Parameters
    ----------
    about : Context
        What the guarantee is about.
    tasks : int
        Number of calibration tasks.

    Returns
    -------
    str
        Two sentences; empty if the tasks are not known to share anything.
    """
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

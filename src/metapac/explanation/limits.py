"""What a guarantee does not say, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from metapac.explanation.rules import Rule
from metapac.explanation.words import Words
from metapac.sentences import percent

if TYPE_CHECKING:
    from metapac import context
    from metapac.guarantee import Guarantee

_CLASS_LIMITS = (
    "for one class alone: a rare class may be missed far more often, even always",
    "for another mix of classes, such as the natural one after a calibration balanced by class",
)


def list_limits(words: Words, limits: Sequence[str]) -> str:
    """Return a list of limits, with those that every guarantee has.

    Parameters
    ----------
    words : Words
        The user's words.
    limits : sequence of str
        The limits of one guarantee, each as the rest of "It does not hold".

    Returns
    -------
    str
        A line for each.
    """
    always = [
        f"for {words.units} unlike these, or once their {words.examples} change",
        "for another model, or once the model or its scores change",
    ]
    return "\n".join(["It does not hold", *(f"- {limit}" for limit in [*limits, *always])])


def find_limits(
    words: Words, g: Guarantee, rules: Sequence[Rule], *, is_interval: bool = False
) -> list[str]:
    """Return for which tasks, classes and examples the guarantee of `MetaPS` says nothing.

    Parameters
    ----------
    words : Words
        The user's words.
    g : Guarantee
        The guarantee.
    rules : sequence of Rule
        What the lists keep; with ``per_class``, for each class.
    is_interval : bool, default False
        Whether sets are intervals.

    Returns
    -------
    list of str
        What `list_limits` takes.
    """
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
    """Return for which tasks, classes and examples a bound over all examples says nothing.

    Parameters
    ----------
    words : Words
        The user's words.
    epsilon : float
        Miss rate allowed.
    worse : str
        How much worse a single task may be, as a clause.

    Returns
    -------
    list of str
        What `list_limits` takes.
    """
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
    """Return in one sentence what the guarantee of `MetaPS` does not say.

    Parameters
    ----------
    g : Guarantee
        The guarantee.
    about : Context
        What the guarantee is about.
    columns : mapping, optional
        Columns of the table calibrated on, which tell intervals from lists of labels.

    Returns
    -------
    str
        The sentence.
    """
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

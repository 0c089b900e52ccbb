"""Guarantees in words: one sentence each, with numbers, assumptions and what it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metapac.guarantee import Guarantee

TRIVIAL = "Every label is kept, so it holds trivially."
_SHOWN = 20  # classes, of very many
_FIXED = (
    "that no calibration task was seen in training, and that the score function and the number of "
    "tasks were fixed before looking at results"
)


Thresholds = float | Mapping[Any, float] | None


def of_guarantee(g: Guarantee, *, tasks: int | None, threshold: Thresholds) -> str:
    """Return the guarantee of ``MetaPS``, which covers all but a fraction alpha of new tasks."""
    least = f"at least {g.min_examples} examples{' of that class' * g.per_class}"
    with_least, like_them = "", ""
    if g.min_examples:
        with_least, like_them = f" with {least}", f" like these, with {least}"
    over = (
        f"over the draw of the {'' if tasks is None else f'{tasks} '}calibration tasks{with_least}"
    )
    held = (
        f"{'for each class, ' * g.per_class}{_sets(g, threshold)} miss {_rate(g)} on at least "
        f"{percent(g.alpha, but=True)} of new tasks{like_them}"
    )
    if g.delta is None:
        return (
            f"On average {over}, {held}; being an average (delta=None), it states no confidence "
            "about this one calibration; it holds provided that calibration tasks and new tasks "
            f"are exchangeable, {_FIXED}."
        )
    return (
        f"With confidence {percent(g.delta, but=True)} {over}, {held}, provided that calibration "
        f"tasks and new tasks are drawn i.i.d. from one distribution, {_FIXED}."
    )


def _rate(g: Guarantee) -> str:
    if not g.per_class:
        return f"the true label at most {percent(g.miss_rate)} of the time"
    if isinstance(g.epsilon, float):
        return f"at most {percent(g.epsilon)} of the examples of that class"
    shares = _listed({label: percent(value) for label, value in g.epsilon.items()})
    return f"at most its share of the examples of that class ({shares})"


def _sets(g: Guarantee, threshold: Thresholds) -> str:
    if not isinstance(threshold, Mapping):
        return "the sets {label: score >= its threshold}" if g.per_class else _cut(threshold)
    return f"the sets {{label: score >= its threshold}} ({_listed(threshold)})"


def _listed(by_class: Mapping[Any, Any]) -> str:
    some = [f"{label}: {value}" for label, value in list(by_class.items())[:_SHOWN]]
    more = f" and {len(by_class) - _SHOWN} more" if len(by_class) > _SHOWN else ""
    return ", ".join(some) + more


def of_examples(
    epsilon: float, delta: float, *, examples: int | None = None, threshold: float | None = None
) -> str:
    """Return the guarantee of ``PS``, which covers examples and no task in particular."""
    count = "" if examples is None else f"{examples} "
    return (
        f"With confidence {percent(delta, but=True)} over the draw of the {count}calibration "
        f"examples, {_cut(threshold)} miss the true label at most {percent(epsilon)} of the time "
        "on new examples, provided that these are drawn i.i.d. from the same distribution, that no "
        "calibration example was seen in training, and that the score function is fixed; nothing "
        "is said of any one task inside that distribution."
    )


def of_average(over: str, epsilon: float, delta: float, *, tasks: int, offset: float) -> str:
    """Return the guarantee of ``MetaCP``, which covers an average over tasks and none of them.

    ``offset`` is its lambda.
    """
    sets = f"the sets {{label: score >= -(quantile + {offset!r})}}"
    rate = f"miss the true label at most {percent(epsilon)} of the time on average over"
    if over == "tasks":
        who = f"the {tasks} calibration tasks and their examples, {sets} {rate} new tasks"
    else:
        who = (
            f"the examples of the {tasks} calibration tasks, {sets} are at least as large as sets "
            f"that {rate} the draw of the calibration tasks and of a new one"
        )
    return (
        f"With confidence {percent(delta, but=True)} over the draw of {who}, not on each of them, "
        "provided that tasks are drawn i.i.d. from one distribution, that no calibration task was "
        "seen in training, and that one fixed score function and one fixed quantile predictor "
        "serve them all."
    )


def trivial(label: object = None) -> str:
    """Return the remark on a threshold of ``-inf``."""
    return TRIVIAL if label is None else f"Class {label!r} is always kept, so it holds trivially."


def vacuous(threshold: float, at_bottom: int, tasks: int, label: object = None) -> str:
    """Return the remark on a threshold that no calibration score is below."""
    kept = "every label" if label is None else f"class {label!r}"
    return (
        f"The threshold {threshold!r} is the lowest score there is, so {kept} may be kept whatever "
        f"its score, and the guarantee says little: in {at_bottom} of {tasks} tasks "
        f"({at_bottom / tasks:.0%}) more true labels score that low than may be missed."
    )


def percent(fraction: float, *, but: bool = False) -> str:
    """Return ``fraction``, or all but it, in percent and to its last digit: no claim is rounded."""
    with localcontext(prec=400):  # enough for every digit of the smallest float
        exact = Decimal(repr(fraction)) * 100
        shown = f"{100 - exact if but else exact:f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}%"


def _cut(threshold: float | None) -> str:
    return "the sets" if threshold is None else f"the sets {{label: score >= {threshold!r}}}"

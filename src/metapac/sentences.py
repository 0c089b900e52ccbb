"""Guarantees in words: one sentence each, with its numbers, assumptions and limits."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metapac.guarantee import Guarantee

TRIVIAL = "Every label is kept, so the guarantee holds trivially."
_SHOWN = 20  # classes listed in a sentence
_FIXED = (
    "that no calibration task was seen in training, and that the score function and the number of "
    "tasks were fixed before looking at results"
)


Thresholds = float | Mapping[Any, float] | None


def of_guarantee(g: Guarantee, *, tasks: int | None, threshold: Thresholds) -> str:
    """Return the guarantee of ``MetaPS``, which covers all but a fraction alpha of new tasks."""
    least = f"at least {g.min_examples} examples{' of that class' * g.per_class}"
    with_least = ""
    if g.min_examples:
        with_least = f" with {least}"
    over = (
        f"over the draw of the {'' if tasks is None else f'{tasks} '}calibration tasks{with_least}"
    )
    held = (
        f"{'for each class, ' * g.per_class}{_sets(g, threshold)} miss {_rate(g)} on at least "
        f"{percent(g.alpha, but=True)} of new tasks{with_least}"
    )
    if g.delta is None:
        return (
            f"On average {over}, {held}; this is an average over calibrations (delta=None) and "
            "gives no confidence for this one; it holds provided that calibration tasks and new "
            f"tasks are exchangeable, {_FIXED}."
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
    return f"at most the following share of the examples of that class ({shares})"


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
    """Return the guarantee of ``PS``, which covers new examples but no single task."""
    count = "" if examples is None else f"{examples} "
    return (
        f"With confidence {percent(delta, but=True)} over the draw of the {count}calibration "
        f"examples, {_cut(threshold)} miss the true label at most {percent(epsilon)} of the time "
        "on new examples, provided that these are drawn i.i.d. from the same distribution, that no "
        "calibration example was seen in training, and that the score function is fixed; this says "
        "nothing about any one task within that distribution."
    )


def of_average(over: str, epsilon: float, delta: float, *, tasks: int, offset: float) -> str:
    """Return the guarantee of ``MetaCP``, which covers the average over tasks but no single task.

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
        f"With confidence {percent(delta, but=True)} over the draw of {who}; this is no "
        "guarantee for each task; it holds provided that tasks are drawn i.i.d. from one "
        "distribution, that no calibration task was seen in training, and that the same fixed "
        "score function and quantile predictor are used for all tasks."
    )


def trivial(label: object = None) -> str:
    """Return the remark on a threshold of ``-inf``."""
    if label is None:
        return TRIVIAL
    return f"Class {label!r} is always kept, so its guarantee holds trivially."


def vacuous(threshold: float, at_bottom: int, tasks: int, label: object = None) -> str:
    """Return the remark on a threshold that equals the lowest calibration score."""
    kept = "every label" if label is None else f"class {label!r}"
    start = f"The threshold {threshold!r} is the lowest calibration score, so {kept} may be kept"
    if threshold == 0:
        start = f"The threshold is 0.0, so, if scores are probabilities, {kept} is kept"
    return (
        f"{start} whatever its score, and the guarantee says little: in {at_bottom} of {tasks} "
        f"tasks ({at_bottom / tasks:.0%}) more true labels score that low than may be missed."
    )


def percent(fraction: float, *, but: bool = False) -> str:
    """Return ``fraction``, or with ``but`` 1 - ``fraction``, in percent, to the last digit."""
    with localcontext(prec=400):  # enough for every digit of the smallest float
        exact = Decimal(repr(fraction)) * 100
        shown = f"{100 - exact if but else exact:f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}%"


def _cut(threshold: float | None) -> str:
    return "the sets" if threshold is None else f"the sets {{label: score >= {threshold!r}}}"

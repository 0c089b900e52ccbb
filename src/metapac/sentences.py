"""Guarantees in words: one sentence each, with its numbers, assumptions and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

from metapac._checks import listed

if TYPE_CHECKING:
    from metapac.guarantee import Guarantee

TRIVIAL = "Every label is kept, so the guarantee holds trivially."
_TRIVIAL_INTERVAL = "Every interval is infinite, so the guarantee holds trivially."
_SHOWN = 20  # classes whose miss rates are listed in a sentence
_SHOWN_THRESHOLDS = 3
SAMPLED = "that calibration and new examples are sampled in the same way"
BALANCED = " (all balanced by class, or none)"
_FIXED = (
    "that no calibration {} was seen in training, and that the score function and the number of "
    "{} were fixed before looking at results"
)


Thresholds = float | Mapping[Any, float] | None


def describe_guarantee(
    g: Guarantee,
    *,
    tasks: int | None,
    threshold: Thresholds,
    columns: Mapping[str, Any] | None = None,
    cluster: tuple[str, str] | None = None,
) -> str:
    """Return the guarantee of ``MetaPS``, which covers all but a fraction alpha of new tasks.

    Parameters
    ----------
    g : Guarantee
        The guarantee.
    tasks : int or None
        Number of calibration tasks, if known.
    threshold : float, mapping from class to float, or None
        Calibrated threshold or thresholds, if known.
    columns : mapping, optional
        Columns of the table calibrated on, which tell intervals from sets of labels.
    cluster : tuple of str, optional
        What clusters are called, in singular and plural, if one task of each was calibrated on.

    Returns
    -------
    str
        The sentence.
    """
    columns = columns or {}
    size = ""
    if g.min_examples:
        size = f" with at least {g.min_examples} examples{' of that class' * g.per_class}"
    count = "" if tasks is None else f"{tasks} "
    draw = f"over the draw of the {count}calibration tasks{size}"
    unit, units = cluster or ("task", "tasks")
    if cluster is not None:
        draw = f"over the draw of the {count}calibration {units} and of one task in each{size}"
    misses = f"{'for each class, ' * g.per_class}{_sets(g, threshold)} miss {_rate(g)}"
    if "prediction" in columns:
        rate = f"at most {percent(g.miss_rate)} of the time"
        misses = f"{_intervals(threshold, columns)} miss the true number {rate}"
    new = "new tasks" if cluster is None else f"new tasks of new {units}"
    share = f"at least {percent(g.alpha, complement=True)} of {new}{size}"
    claim = f"{misses} on {share}"
    is_average = not g.per_class and "prediction" not in columns  # over the classes of a task
    fixed = f"{SAMPLED}{BALANCED * is_average}, {_FIXED.format(unit, units)}"
    if g.delta is None:
        return (
            f"On average {draw}, {claim}; this is an average over calibrations (delta=None) and "
            f"gives no confidence for this one; it holds provided that calibration {units} and new "
            f"{units} are exchangeable, {fixed}."
        )
    return (
        f"With confidence {percent(g.delta, complement=True)} {draw}, {claim}, provided that "
        f"calibration {units} and new {units} are drawn i.i.d. from one distribution, {fixed}."
    )


def _rate(g: Guarantee) -> str:
    if not g.per_class:
        return f"the true label at most {percent(g.miss_rate)} of the time"
    if isinstance(g.epsilon, float):
        return f"at most {percent(g.epsilon)} of the examples of that class"
    shares = _by_class({label: percent(value) for label, value in g.epsilon.items()})
    return f"at most the following share of the examples of that class ({shares})"


def _sets(g: Guarantee, threshold: Thresholds) -> str:
    if isinstance(threshold, Mapping):
        more = ", see thresholds_" if len(threshold) > _SHOWN_THRESHOLDS else ""
        values = _by_class(threshold, shown=_SHOWN_THRESHOLDS)
        return f"the sets {{label: score >= its threshold}} ({values}{more})"
    return "the sets {label: score >= its threshold}" if g.per_class else _cut_at(threshold)


def _intervals(threshold: Thresholds, columns: Mapping[str, Any]) -> str:
    if not isinstance(threshold, float) or threshold == -math.inf:
        return "the intervals"
    times = " times scale" if "scale" in columns else ""
    return f"the intervals prediction plus and minus {0.0 - threshold!r}{times}"


def _by_class(values: Mapping[Any, Any], *, shown: int = _SHOWN) -> str:
    return listed([f"{label}: {value}" for label, value in values.items()], shown=shown)


def _cut_at(threshold: float | None) -> str:
    return "the sets" if threshold is None else f"the sets {{label: score >= {threshold!r}}}"


def describe_example_guarantee(
    epsilon: float, delta: float, *, examples: int, threshold: float
) -> str:
    """Return the guarantee of ``PS``, which covers new examples but no single task.

    Parameters
    ----------
    epsilon : float
        Miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    examples : int
        Number of calibration examples.
    threshold : float
        Calibrated threshold.

    Returns
    -------
    str
        The sentence.
    """
    return (
        f"With confidence {percent(delta, complement=True)} over the draw of the {examples} "
        f"calibration examples, {_cut_at(threshold)} miss the true label at most "
        f"{percent(epsilon)} of the time on new examples, provided that these are drawn i.i.d. "
        "from the same distribution, that no calibration example was seen in training, and that "
        "the score function is fixed; this says nothing about any one task within that "
        "distribution."
    )


def describe_trivial(label: object = None, *, is_interval: bool = False) -> str:
    """Return the remark on a threshold of ``-inf``.

    Parameters
    ----------
    label : object, optional
        The class whose threshold it is; by default, that of all classes.
    is_interval : bool, default False
        Whether sets are intervals.

    Returns
    -------
    str
        The remark.
    """
    if label is None:
        return _TRIVIAL_INTERVAL if is_interval else TRIVIAL
    return f"Class {label!r} is always kept, so its guarantee holds trivially."


def describe_uninformative(
    threshold: float,
    at_bottom: int,
    tasks: int,
    label: object = None,
    *,
    is_interval: bool = False,
) -> str:
    """Return the remark on a threshold that equals the lowest calibration score.

    Parameters
    ----------
    threshold : float
        The threshold.
    at_bottom : int
        Number of tasks where more true labels have the lowest score than may be missed.
    tasks : int
        Number of calibration tasks.
    label : object, optional
        The class whose threshold it is; by default, that of all classes.
    is_interval : bool, default False
        Whether sets are intervals.

    Returns
    -------
    str
        The remark.
    """
    what = "every label" if label is None else f"class {label!r}"
    lowest = f"The threshold {threshold!r} is the lowest calibration score"
    start = f"{lowest}, so {what} may be kept whatever its score"
    excess = "more true labels score that low"
    if is_interval:
        wide = "intervals are wide enough for every true number in the calibration tasks"
        start = f"{lowest}, so {wide}"
        excess = "more true numbers lie that far from their prediction"
    elif threshold == 0:
        start = (
            f"The threshold is 0.0, so, if scores are probabilities, {what} is kept whatever its "
            "score"
        )
    return (
        f"{start}, and the guarantee says little: in {at_bottom} of {tasks} tasks "
        f"({at_bottom / tasks:.0%}) {excess} than may be missed."
    )


def percent(fraction: float, *, complement: bool = False) -> str:
    """Return a fraction in percent, to the last digit.

    Parameters
    ----------
    fraction : float
        Number between 0 and 1.
    complement : bool, default False
        Whether to show 1 - ``fraction`` instead.

    Returns
    -------
    str
        The percentage, such as "99.999%".
    """
    with localcontext(prec=400):  # enough for every digit of the smallest float
        exact = Decimal(repr(fraction)) * 100
        shown = f"{100 - exact if complement else exact:f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}%"


def format_share(fraction: float) -> str:
    """Return a measured fraction in percent; only an exact 0 or 1 is shown as 0% or 100%.

    Parameters
    ----------
    fraction : float
        Number between 0 and 1.

    Returns
    -------
    str
        The percentage, such as "5.9%" or "99.97%".
    """
    if fraction in (0, 1):
        return f"{fraction:.0%}"
    for digits in range(1, 6):
        shown = f"{fraction:.{digits}%}"
        if 0 < float(shown[:-1]) < 100:
            return shown
    return "<0.001%" if fraction < 0.5 else ">99.999%"

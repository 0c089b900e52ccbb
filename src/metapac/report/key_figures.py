"""The numbers of a report to see first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from metapac.assessment.evaluation import Evaluation
from metapac.calibration import PS, MetaPS
from metapac.explanation.words import Words, round_down
from metapac.report.course import Course
from metapac.report.numbers import count_within, format_size, format_width
from metapac.sentences import format_share, percent

_ALL_LABELS = ("all labels", "are in every list")


class Figure(NamedTuple):
    """A number to see first, and what it is.

    Attributes
    ----------
    value : str
        The number.
    caption : str
        What it is.
    """

    value: str
    caption: str


def find_figures(
    promise: Any, words: Words, evaluation: Evaluation | None, course: Course | None
) -> list[Figure]:
    """Return the numbers to see first.

    Parameters
    ----------
    promise : MetaPS, PS or MetaCP
        The guarantee.
    words : Words
        What tasks and examples are called.
    evaluation : Evaluation or None
        Labelled new tasks, compared with the guarantee.
    course : Course or None
        The course of a monitor.

    Returns
    -------
    list of Figure
        What it was calibrated on, what is kept and, if known, how it fares.
    """
    figures = [_basis(promise, words)]
    if isinstance(promise, MetaPS | PS) and promise.classes_ is None:
        figures.append(_cut(promise.threshold_, promise.columns_ or {}))
    elif isinstance(promise, MetaPS):
        figures.append(Figure(f"{len(promise.classes_ or ()):,}", "classes, each with a threshold"))
    if evaluation is not None:
        figures += _measured(evaluation, words)
    if course is not None and course.alert is None:
        count = words.count_units(course.tasks)
        figures.append(Figure("no alarm", f"from the monitor, after {count}"))
    return figures


def _cut(threshold: float, columns: Mapping[str, Any]) -> Figure:
    """Return the score that a label needs, or how far an interval reaches."""
    is_interval = "prediction" in columns
    if threshold == -math.inf:
        return Figure(*(("all numbers", "are in every interval") if is_interval else _ALL_LABELS))
    if not is_interval:
        return Figure(round_down(threshold), "score that a label needs (rounded down)")
    times = "times its scale, " if "scale" in columns else ""
    radius = round_down(threshold).removeprefix("-")
    return Figure(f"± {radius}", f"{times}around the predicted number (rounded up)")


def _basis(promise: Any, words: Words) -> Figure:
    """Return what was calibrated on."""
    if isinstance(promise, PS):
        return Figure(f"{promise.n_examples_:,}", f"{words.examples} calibrated on")
    number = len(promise.tasks_)
    return Figure(f"{number:,}", f"{words.unit if number == 1 else words.units} calibrated on")


def _measured(evaluation: Evaluation, words: Words) -> list[Figure]:
    """Return how the guarantee fares on new tasks."""
    figures = [_find_share_within(evaluation, words)]
    if evaluation.sizes is not None:
        size = format_size(float(np.mean(evaluation.sizes)))
        figures.append(Figure(size, f"labels in a list, mean over {words.units}"))
    if evaluation.set_shares is not None:
        empty, full = (format_share(evaluation.set_shares[kind]) for kind in ("empty", "full"))
        figures.append(Figure(empty, "lists without a label"))
        figures.append(Figure(full, "lists with every label: a person decides"))
    if evaluation.widths is not None:
        width = format_width(float(np.mean(evaluation.widths)))
        figures.append(Figure(width, f"mean width of the intervals over {words.units}"))
    return figures


def _find_share_within(evaluation: Evaluation, words: Words) -> Figure:
    """Return on how many new tasks the miss rate is at most what is allowed."""
    if evaluation.by_class is None:
        return Figure(
            f"{count_within(evaluation):,} of {len(evaluation.tasks):,}",
            f"new {words.units} with at most {percent(evaluation.epsilon)} missed",
        )
    return Figure(
        format_share(evaluation.within),
        f"of the new {words.units} within the limit, in the worst class",
    )

"""The course of a monitor: what it saw, batch by batch, and whether it raised an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metapac.explanation.words import Words
from metapac.monitoring import Monitor, Step
from metapac.report.curves import draw_course
from metapac.report.drawing import Chart
from metapac.sentences import format_share

_BATCHES = 24  # the latest ones are listed


class Course(NamedTuple):
    """What a monitor saw.

    Attributes
    ----------
    status : {"holds", "cannot tell yet", "violated"}
        What it says; "violated" after an alarm.
    alert : str or None
        After an alarm, when that was and what it means, in short.
    tasks : int
        Number of tasks counted.
    sentence : str
        What that means.
    chart : Chart
        Evidence after each task, and bounds on the share of bad tasks.
    rows : list of list of str
        The latest batches: name, tasks, misses, share, tasks above epsilon, evidence at the end.
    left_out : int
        Number of earlier batches.
    """

    status: str
    alert: str | None
    tasks: int
    sentence: str
    chart: Chart
    rows: list[list[str]]
    left_out: int


def read_course(monitor: Monitor, words: Words) -> Course | None:
    """Return the course of a monitor.

    Parameters
    ----------
    monitor : Monitor
        The monitor.
    words : Words
        What tasks and examples are called.

    Returns
    -------
    Course or None
        What it saw; None if it has seen nothing yet.
    """
    steps, terms = monitor.course, monitor.terms
    if not steps:
        return None
    wealth, low, high = (
        np.array([getattr(step, name) for step in steps], dtype=np.float64)
        for name in ("wealth", "lower", "upper")
    )
    sentence = monitor.sentence()
    chart = draw_course(
        wealth, low, high, alarm=terms.limit, alpha=terms.alpha, unit=words.units, label=sentence
    )
    batches = _group(steps)
    rows = [_row(name, part) for name, part in batches[-_BATCHES:]]
    left_out = max(0, len(batches) - _BATCHES)
    alert = _describe_alarm(monitor, words)
    return Course(monitor.status, alert, len(steps), sentence, chart, rows, left_out)


def _describe_alarm(monitor: Monitor, words: Words) -> str | None:
    alarm = monitor.alarm
    if alarm is None:
        return None
    count = words.count_units(monitor.course.index(alarm) + 1)
    batch = "" if alarm.batch is None else f" ({alarm.batch})"
    return f"Monitor: alarm after {count}{batch}. This guarantee can no longer be relied on."


def _group(steps: Sequence[Step]) -> list[tuple[str, list[Step]]]:
    """Return the steps of each batch, in the order of the monitor."""
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(step.batch or "-", []).append(step)
    return [*groups.items()]


def _row(name: str, steps: Sequence[Step]) -> list[str]:
    missed, examples = (sum(getattr(s, key) for s in steps) for key in ("missed", "examples"))
    return [
        name,
        f"{len(steps):,}",
        f"{missed:,} of {examples:,}",
        format_share(missed / examples) if examples else "-",
        f"{sum(bool(step.violated) for step in steps):,}",
        f"{steps[-1].wealth:.3g}",
    ]

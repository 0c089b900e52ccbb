"""The course of a monitor, batch by batch."""

from __future__ import annotations

import numpy as np

from metapac import Context, MetaPS, Monitor
from metapac.report.findings import read_course
from metapac.words import Words


def watch(power: float, batches: int = 3) -> tuple[Monitor, Words]:
    rng = np.random.default_rng(0)
    about = Context(unit="hospital", example="patient")
    promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1).calibrate(
        rng.random(4000), np.repeat(np.arange(40), 100), context=about
    )
    monitor = Monitor(promise)
    for batch in range(batches):
        tasks = np.repeat([f"{batch} {i}" for i in range(6)], 100)
        monitor.add(rng.random(600) ** power, tasks, batch=f"2026-{batch + 1:02d}")
    return monitor, Words.from_context(about)


def test_batches_add_up_to_the_course() -> None:
    monitor, words = watch(1.0)
    course = read_course(monitor, words)
    assert course is not None
    assert course.status == monitor.status != "violated"
    assert course.alert is None
    assert course.tasks == 18
    assert course.sentence == monitor.sentence()
    assert [row[0] for row in course.rows] == ["2026-01", "2026-02", "2026-03"]
    assert [row[1] for row in course.rows] == ["6"] * 3
    missed = sum(int(row[2].split(" of ")[0]) for row in course.rows)
    assert missed == sum(step.missed for step in monitor.course)
    assert course.rows[-1][5] == f"{monitor.wealth:.3g}"
    assert course.left_out == 0


def test_an_alarm_is_shown() -> None:
    monitor, words = watch(4.0)
    course = read_course(monitor, words)
    assert course is not None
    assert course.status == "violated"
    assert monitor.alarm is not None
    after, batch = monitor.course.index(monitor.alarm) + 1, monitor.alarm.batch
    assert course.alert == (
        f"Monitor: alarm after {after} hospitals ({batch}). This guarantee can no longer be relied "
        "on."
    )
    assert course.sentence.startswith("Alarm after")
    violated = sum(int(row[4]) for row in course.rows)
    assert violated == sum(step.violated for step in monitor.course) > 0


def test_only_the_latest_batches_are_listed() -> None:
    monitor, words = watch(1.0, batches=26)
    course = read_course(monitor, words)
    assert course is not None
    assert len(course.rows) == 24
    assert course.left_out == 2
    assert course.rows[-1][0] == "2026-26"


def test_a_monitor_that_saw_nothing_has_no_course() -> None:
    monitor, words = watch(1.0, batches=0)
    assert read_course(monitor, words) is None

"""Sentences of monitors, word by word."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import MetaPS, Monitor
from metapac.betting import Watch, exceeds, is_within
from metapac.monitoring import format_wealth
from tests.monitoring.conftest import LEVELS, draw

SHARE = "If it has been the same throughout, the share of new clinics above 10% is"
QUIET = "That does not show that the guarantee holds: even if every clinic missed nearly"
ENDS = "(each end with confidence 99%, at all times at once)."


def test_no_tasks(promise: MetaPS) -> None:
    assert Monitor(promise).sentence() == (
        "No alarm yet. After 0 clinics, the wealth of the bets against the guarantee is 1; it "
        "began at 1, falls unless clinics are shown to be above 10%, and raises an alarm at 100. "
        f"{SHARE} between 0% and 100% {ENDS}"
    )


def test_a_bad_month_leads(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    monitor.add(np.full(3000, 0.9), np.repeat([f"a{i}" for i in range(30)], 100), batch="january")
    scores = np.where(np.arange(1000) < 300, 0.0, 0.9)
    monitor.add(scores, np.repeat([f"b{i}" for i in range(10)], 100), batch="february")
    assert sum(step.violated for step in monitor.course[30:]) == 3
    assert monitor.sentence().startswith(
        f"No alarm yet. {QUIET} 13%, an alarm within 1,000 clinics would be unlikely. In february "
        "3 of 10 clinics are above 10% (95% confidence, each clinic alone); the guarantee allows "
        "about 2. After 40 clinics, the wealth of the bets against the guarantee is 0."
    )


@pytest.mark.parametrize(("tasks", "allowed"), [(1, "less than 1"), (3, "about 1"), (8, "about 2")])
def test_what_is_allowed_is_a_number(promise: MetaPS, tasks: int, allowed: str) -> None:
    monitor = Monitor(promise)
    scores = np.concatenate([np.zeros(100), np.full(100 * (tasks - 1), 0.9)])
    monitor.add(scores, np.repeat([f"new {i}" for i in range(tasks)], 100))
    assert f"; the guarantee allows {allowed}. After {tasks} " in monitor.sentence()


def test_small_tasks_that_are_all_broken_are_not_good_news() -> None:
    promise = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1)
    promise.calibrate(*draw(np.random.default_rng(0), [f"old {i}" for i in range(80)], 25))
    monitor = Monitor(promise)
    scores = np.random.default_rng(1).uniform(0.5, 1, 25 * 400)
    scores[np.arange(25 * 400) % 25 < 6] /= 100  # every task misses 24%
    monitor.add(scores, np.repeat([f"new {i}" for i in range(400)], 25))
    assert monitor.wealth < 0.01
    assert monitor.status == "cannot tell yet"
    assert monitor.sentence().startswith(
        "No alarm yet. That does not show that the guarantee holds: even if every task missed "
        "nearly 28%, an alarm within 1,000 tasks would be unlikely. So far 0 of 400"
    )
    tiny = Monitor(promise)
    tiny.add(scores[np.arange(25 * 400) % 25 > 22], np.repeat(np.arange(400), 2))
    assert tiny.sentence().startswith(
        "No alarm yet, but tasks this small cannot tell: even if every one missed 40%, there would "
        "be no alarm within 1,000. That takes about 5 examples in each. So far 0 of 400 tasks are "
    )


def test_holds(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    names = [f"new {i}" for i in range(60)]
    monitor.add(np.full(6000, 0.9), np.repeat(names, 100))
    assert is_within(100, 0, 0.1, (0.01,))[0]
    assert monitor.sentence() == (
        "Holds, by 60 clinics: less than 20% of new clinics have a miss rate above 10%. If this "
        "were false, it would ever be said with probability at most 1%. So far 0 of 60 clinics are "
        "above 10% (95% confidence, each clinic alone); the guarantee allows about 12. "
        f"{SHARE} between 0% and 12% {ENDS}"
    )


def test_alarm(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    monitor.add(np.zeros(1000), np.repeat([f"new {i}" for i in range(10)], 100), batch="2026-01")
    alarm = monitor.alarm
    assert alarm is not None
    assert exceeds(100, 100, 0.1, (0.01,))[0]
    assert monitor.sentence() == (
        f"Alarm after 5 clinics (at {alarm.task}, batch 2026-01): more than 20% of new clinics "
        "have a miss rate above 10%. Stop relying on these sets, look at the clinics above 10%, "
        "and recalibrate on new clinics; then start a new state file. The wealth of the bets "
        "against the guarantee has grown from 1 to 199. If it were true, this would ever reach 100 "
        "with probability at most 1%, however often one looks. An unlucky calibration (probability "
        "at most 10%) explains it too; otherwise these clinics or the scores are not like those of "
        "calibration. At some time, the share of new clinics above 10% was more than 49% "
        "(confidence 99%, at all times at once)."
    )


@pytest.mark.parametrize(
    ("wealth", "text"),
    [
        (0.0, "less than 0.001"),
        (0.00104, "0.00104"),
        (99.99, "100"),
        (100.9, "100"),
        (999_999.9, "999,999"),
        (1e6, "1,000,000"),
        (1.1e6, "more than a million"),
        (1e250, "more than a million"),
    ],
)
def test_wealth_has_no_exponent(wealth: float, text: str) -> None:
    assert format_wealth(wealth) == text


def test_classes(by_class: MetaPS) -> None:
    monitor = Monitor(by_class)
    labels = np.tile(["no", "yes"], 500)
    scores = np.where(labels == "yes", 0.0, 0.9)
    monitor.add(scores, np.repeat([f"new {i}" for i in range(10)], 100), labels)
    text = monitor.sentence()
    assert (
        "for some class, more than 20% of new tasks have a miss rate above its limit, most likely "
        "class yes."
    ) in text
    assert "look at the tasks above the limit of a class" in text
    assert "the share of new tasks above its limit, for the worst class, was more than" in text
    quiet = Monitor(by_class)
    quiet.add(np.full(16000, 0.9), np.repeat(np.arange(80), 200), np.tile(["no", "yes"], 8000))
    assert quiet.sentence().startswith("Holds, by 80 tasks: for each class, less than 20% of new")
    small = Monitor(by_class)
    small.add(np.full(80, 0.9), np.repeat(np.arange(10), 8), np.tile(["no"] * 7 + ["yes"], 10))
    assert small.sentence().startswith(
        "No alarm yet, but tasks this small cannot tell: even if every one missed 40% of a class, "
    )
    assert small.power() == Watch(0.2, 0.2, 0.005).find_power([1])  # of the rarer class


def test_a_guarantee_in_expectation_is_not_refuted_by_one_calibration() -> None:
    promise = MetaPS(**LEVELS | {"delta": None})
    promise.calibrate(*draw(np.random.default_rng(0), [f"old {i}" for i in range(40)]))
    monitor = Monitor(promise)
    monitor.add(np.zeros(1000), np.repeat([f"new {i}" for i in range(10)], 100))
    lower = monitor.interval[0]
    assert lower == 0.49
    assert (
        "A guarantee in expectation (delta=None) is an average over calibrations: under its "
        "assumptions, at most 41% of all calibrations come out this badly."
    ) in monitor.sentence()


def test_a_share_that_changed(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    monitor.add(np.full(6000, 0.9), np.repeat([f"good {i}" for i in range(60)], 100))
    monitor.add(np.zeros(4000), np.repeat([f"bad {i}" for i in range(40)], 100))
    assert monitor.sentence().endswith(
        "The share of new clinics above 10% has changed: it was below 12% at one time, and above "
        "69% at another."
    )


def test_invisible_characters_become_visible(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    monitor.add(np.zeros(1000), np.repeat([f"\x1b[31m{i}" for i in range(10)], 100), batch="\x07")
    assert "\\x1b[31m" in monitor.sentence()
    assert "batch \\x07" in monitor.sentence()

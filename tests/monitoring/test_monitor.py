"""Monitors: what counts, what an alarm means, per class, in expectation, from file to file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import PS, InvalidInput, MetaPS, Monitor, NotCalibrated, evaluate
from metapac.betting import Watch
from metapac.fewshot import MetaCP
from tests.monitoring.conftest import LEVELS, draw, names

GOOD, BAD = 1.0, 2.0  # powers of scores: about 5% and 22% are missed


def test_good_tasks_raise_no_alarm(promise: MetaPS, rng: Any) -> None:
    monitor = Monitor(promise)
    assert (monitor.status, monitor.wealth, monitor.interval) == ("cannot tell yet", 1.0, (0, 1))
    added = monitor.add(*draw(rng, names("new", 30), power=GOOD))
    assert (len(added.steps), added.known, added.overlap, added.left_out) == (30, [], (), 0)
    assert added.steps == monitor.course
    assert monitor.alarm is None
    assert monitor.wealth == monitor.course[-1].wealth < 1


def test_very_good_tasks_confirm_the_guarantee(promise: MetaPS, rng: Any) -> None:
    monitor = Monitor(promise)
    seen = set()
    for name in names("new", 60):
        monitor.add(*draw(rng, [name], power=0.5))
        assert monitor.status == ("holds" if monitor.interval[1] <= 0.2 else "cannot tell yet")
        seen.add(monitor.status)
    assert seen == {"holds", "cannot tell yet"}


def test_bad_tasks_raise_an_alarm_that_stays(promise: MetaPS, rng: Any) -> None:
    monitor = Monitor(promise)
    monitor.add(*draw(rng, names("bad", 12), power=BAD))
    alarm = monitor.alarm
    assert alarm is not None
    assert alarm.wealth >= 100
    assert alarm == next(step for step in monitor.course if step.wealth >= 100)
    monitor.add(*draw(rng, names("good", 60), power=GOOD))
    assert monitor.wealth < 100
    assert monitor.alarm == alarm
    assert monitor.status == "violated"
    assert monitor.interval[0] >= 0.2


def test_the_level_of_the_alarm_is_kept(promise: MetaPS, rng: Any) -> None:
    scores = draw(rng, names("bad", 40), power=BAD)
    alarms = []
    for false_alarm in (0.1, 1e-3, 1e-6):
        monitor = Monitor(promise, false_alarm=false_alarm)
        monitor.add(*scores)
        assert monitor.alarm is not None
        assert monitor.alarm.wealth >= 1 / false_alarm
        alarms.append(monitor.course.index(monitor.alarm))
    assert alarms == sorted(alarms)
    assert alarms[0] < alarms[-1]


def test_batches_in_any_split_give_the_same_course(promise: MetaPS, rng: Any) -> None:
    scores, tasks = draw(rng, names("new", 20), power=1.5)
    whole = Monitor(promise)
    whole.add(scores, tasks)
    order = [step.task for step in whole.course]
    for cuts in ([5], [1, 2, 19], [*range(1, 20)]):
        parts = Monitor(promise)
        for some in np.split(np.array(order), cuts):
            rows = np.isin(tasks, some)
            parts.add(scores[rows], tasks[rows])
        assert parts.course == whole.course
    shuffled, mixed = Monitor(promise), rng.permutation(len(scores))
    shuffled.add(scores[mixed], tasks[mixed])
    assert shuffled.course == whole.course


def test_classes_are_watched_together_and_one_by_one(by_class: MetaPS, rng: Any) -> None:
    scores, tasks = draw(rng, names("new", 12), 200)
    labels = np.tile(["no", "yes"], len(scores) // 2)
    scores[labels == "yes"] **= 3  # one class alone becomes worse
    monitor = Monitor(by_class)
    monitor.add(scores, tasks, labels)
    assert monitor.by_class is not None
    assert monitor.status == "violated"
    steps = {label: course[-1] for label, course in monitor.by_class.items()}
    assert steps["yes"].wealth > 200 > 1 > steps["no"].wealth
    for i, step in enumerate(monitor.course):
        parts = [course[i] for course in monitor.by_class.values()]
        assert step.wealth == pytest.approx(np.mean([part.wealth for part in parts]))
        assert step.lower == max(part.lower for part in parts)
        assert step.upper == max(part.upper for part in parts)
        assert step.examples == sum(part.examples for part in parts) == 200
        assert step.violated == any(part.violated for part in parts)
    # Each class has its epsilon, and half of the false-alarm probability.
    for label, epsilon in (("no", 0.1), ("yes", 0.2)):
        alone = Watch(epsilon, 0.2, 0.005)
        for step in monitor.by_class[label]:
            alone.add(examples=step.examples, missed=step.missed)
        assert (alone.wealth, alone.lower, alone.upper) == steps[label][-3:]


def test_a_task_without_examples_of_a_class_counts_for_it(by_class: MetaPS, rng: Any) -> None:
    scores, tasks = draw(rng, names("new", 3))
    monitor = Monitor(by_class)
    monitor.add(scores, tasks, ["no"] * 200 + ["yes"] * 100)
    assert monitor.by_class is not None
    sizes = {k: sorted(s.examples for s in steps) for k, steps in monitor.by_class.items()}
    assert sizes == {"no": [0, 100, 100], "yes": [0, 0, 100]}
    at_least = Monitor(by_class, min_examples=1)
    at_least.add(scores, tasks, ["no"] * 200 + ["yes"] * 100)
    assert at_least.by_class is not None
    assert [len(steps) for steps in at_least.by_class.values()] == [2, 1]
    assert len(at_least.course) == 3


def test_small_tasks_are_left_out(rng: Any) -> None:
    promise = MetaPS(**LEVELS, min_examples=50)
    promise.calibrate(*draw(rng, names("old", 40)))
    for monitor, expected in ((Monitor(promise), 1), (Monitor(promise, min_examples=101), 0)):
        scores = np.concatenate([rng.random(49), rng.random(100), rng.random(120)])
        tasks = np.repeat(["a", "b", "c"], [49, 100, 120])
        added = monitor.add(scores, tasks)
        assert added.left_out == 2 - expected
        assert {step.task for step in added.steps} == {"b", "c"} if expected else {"c"}


def test_tasks_that_are_not_new_do_not_count(promise: MetaPS, rng: Any) -> None:
    monitor = Monitor(promise)
    added = monitor.add(*draw(rng, ["old 3", "new", "trained", "pilot"]))
    assert [step.task for step in added.steps] == ["new"]
    assert set(added.overlap) == {"old 3", "trained", "pilot"}
    with pytest.raises(InvalidInput, match="every task has the name of a calibration"):
        monitor.add(*draw(rng, ["old 4"]))
    assert len(monitor.course) == 1


def test_only_a_guarantee_about_tasks_can_be_watched(rng: Any) -> None:
    scores, tasks = draw(rng, names("old", 40))
    others: list[Any] = [
        PS(epsilon=0.1, delta=0.1).calibrate(scores),
        MetaCP(epsilon=0.4, delta=0.2).calibrate(scores, tasks, np.zeros(40)),
    ]
    for other in others:
        with pytest.raises(InvalidInput, match="promise must be a guarantee about tasks, that of"):
            Monitor(other)
    with pytest.raises(NotCalibrated):
        Monitor(MetaPS(**LEVELS))


@pytest.mark.parametrize("value", [0, 1, -0.1, "much", None])
def test_bad_numbers_are_refused(promise: MetaPS, value: Any) -> None:
    with pytest.raises(InvalidInput, match="false_alarm must be a number"):
        Monitor(promise, false_alarm=value)
    with pytest.raises(InvalidInput, match="min_examples must be a whole number"):
        Monitor(promise, min_examples=-1)


def test_state_files_hold_everything(promise: MetaPS, rng: Any, tmp_path: Path) -> None:
    monitor = Monitor(promise, false_alarm=0.002, min_examples=5)
    monitor.add(*draw(rng, names("a", 4), power=BAD), batch="2026-01")
    monitor.add(*draw(rng, [7, 8]), batch="2026-02")
    monitor.save(tmp_path / "monitor.json")
    loaded = Monitor.load(tmp_path / "monitor.json")
    assert (loaded.course, loaded.terms) == (monitor.course, monitor.terms)
    assert loaded.batches == ["2026-01", "2026-02"]
    assert str(loaded) == str(monitor)
    with pytest.raises(InvalidInput, match=r"promise must be passed to count tasks"):
        loaded.add(*draw(rng, ["c"]))
    again = Monitor.load(tmp_path / "monitor.json", promise)
    assert again.add(*draw(rng, ["c"])).steps[0].task == "c"


def test_an_evaluation_of_other_sizes_is_refused(promise: MetaPS, rng: Any) -> None:
    """Another process may have begun the state file since the table was read."""
    scores, tasks = draw(rng, names("new", 3))
    monitor = Monitor(promise, min_examples=20)
    message = "leaves out tasks with fewer than 1 examples, the monitor those with fewer than 20."
    with pytest.raises(InvalidInput, match=message):
        monitor.add_evaluation(evaluate(promise, scores, tasks))
    assert monitor.course == []
    monitor.add_evaluation(evaluate(promise, scores, tasks, min_examples=20))
    assert len(monitor.course) == 3


def test_another_promise_is_refused(
    promise: MetaPS, by_class: MetaPS, rng: Any, tmp_path: Path
) -> None:
    Monitor(promise).save(tmp_path / "monitor.json")
    other = MetaPS(**LEVELS).calibrate(*draw(rng, names("old", 40)))
    for wrong in (other, by_class):
        with pytest.raises(InvalidInput, match=r"monitor.json watches another guarantee: With"):
            Monitor.load(tmp_path / "monitor.json", wrong)


def test_frames_and_short_forms(promise: MetaPS, by_class: MetaPS, rng: Any) -> None:
    monitor = Monitor(promise)
    monitor.add(*draw(rng, names("a", 3)), batch="x")
    frame = monitor.to_pandas()
    assert frame.task.tolist() == [step.task for step in monitor.course]
    assert frame.columns.tolist() == [*monitor.course[0]._fields]
    assert repr(monitor).startswith("<Monitor of 3 tasks: cannot tell yet, wealth 0.")
    classes = Monitor(by_class)
    classes.add(*draw(rng, names("a", 3)), labels=np.tile(["no", "yes"], 150))
    assert classes.to_pandas().groupby("class").size().to_dict() == {"no": 3, "yes": 3}
    assert isinstance(Monitor(promise).to_pandas(), pd.DataFrame)


def test_one_task_of_each_cluster_counts(rng: Any) -> None:
    scores, tasks = draw(rng, names("old", 60))
    owners = {name: f"owner {i}" for i, name in enumerate(names("old", 60))}
    promise = MetaPS(**LEVELS).calibrate(scores, tasks, clusters=owners)
    monitor = Monitor(promise)
    with pytest.raises(InvalidInput, match="clusters must be passed"):
        monitor.add(*draw(rng, ["a", "b"]))
    january = draw(rng, ["a", "b", "c", "d"])
    owned = {"a": "x", "b": "x", "c": "y", "d": "owner 7"}  # the last was calibrated on
    added = monitor.add(*january, clusters=owned, batch="2026-01")
    assert {owned[str(step.task)] for step in added.steps} == {"x", "y"}
    assert added.overlap == ("d",)
    assert sorted(monitor.add(*january, clusters=owned).known) == sorted(
        str(step.task) for step in added.steps
    )
    later = monitor.add(*draw(rng, ["e", "f"]), clusters={"e": "x", "f": "z"})
    assert [step.task for step in later.steps] == ["f"]
    assert later.overlap == ("e",)

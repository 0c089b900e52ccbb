"""The guarantee at other miss rates: the numbers of calibrating and evaluating there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import PS, InvalidInput, MetaPS, Scored, evaluate
from metapac._common import ignore_progress
from metapac.report.levels import Trial, explain_why_not, try_epsilons
from tests.report.conftest import CLASSES, calibrate, draw_scores


def attempt(promise: MetaPS, calibration: Scored, labelled: Scored | None, *rates: float) -> Any:
    return try_epsilons(
        promise,
        calibration,
        labelled,
        rates,
        false_alarm=0.05,
        allow=(),
        progress=ignore_progress,
    )


@pytest.mark.parametrize("changes", [{}, {"per_class": True, "alpha": 0.3}, {"split": "tight"}])
def test_numbers_are_exactly_those_of_calibrating_at_that_rate(
    calibration: Scored, labelled: Scored, changes: dict[str, Any]
) -> None:
    promise = calibrate(calibration, **changes)
    trials = attempt(promise, calibration, labelled, 0.3, 0.15)
    assert [trial.epsilon for trial in trials] == [0.15, 0.2, 0.3]
    assert [trial.is_promised for trial in trials] == [False, True, False]
    for trial in trials:
        direct = calibrate(calibration, **changes | {"epsilon": trial.epsilon})
        assert trial.thresholds == np.atleast_1d(direct._result()[1]).tolist()
        found = evaluate(direct, labelled.scores, labelled.tasks, labelled.labels, classes=CLASSES)
        assert trial.evaluation is not None
        assert trial.evaluation.missed.tolist() == found.missed.tolist()
        assert trial.evaluation.sets is not None
        assert found.sets is not None
        assert trial.evaluation.sets.labels.tolist() == found.sets.labels.tolist()
        assert trial.evaluation.verdict == found.verdict


def test_a_rate_that_the_data_do_not_support_has_no_guarantee(
    calibration: Scored, labelled: Scored, promise: MetaPS
) -> None:
    trial = attempt(promise, calibration, labelled, 0.001)[0]
    assert trial == Trial(0.001, False, None, None)
    assert trial.thresholds == []


def test_new_tasks_that_were_calibrated_on_are_left_out_at_every_rate(
    calibration: Scored, promise: MetaPS
) -> None:
    both = draw_scores(["old 1", "new 1", "new 2"], 3)
    for trial in attempt(promise, calibration, both, 0.3):
        assert trial.evaluation.tasks.tolist() == ["new 1", "new 2"]


def test_progress_is_told(calibration: Scored, promise: MetaPS) -> None:
    told: list[tuple[str, int, int | None]] = []
    try_epsilons(
        promise,
        calibration,
        None,
        [0.3],
        false_alarm=0.05,
        allow=(),
        progress=lambda *stage: told.append(stage),
    )
    assert told == [
        ("trying other miss rates, 0.2", 0, 2),
        ("trying other miss rates, 0.3", 1, 2),
    ]


def test_other_scores_are_noticed(calibration: Scored, promise: MetaPS) -> None:
    raised = np.where(calibration.scores > promise.threshold_, calibration.scores, 0.9)
    other = Scored(raised, calibration.tasks, calibration.labels, CLASSES)
    with pytest.raises(InvalidInput, match="scores that were calibrated on: they give the thresh"):
        attempt(promise, other, None)
    renamed = Scored(calibration.scores, "x" + calibration.tasks, calibration.labels, CLASSES)
    with pytest.raises(InvalidInput, match="the task 'old 0' is in only one of them"):
        attempt(promise, renamed, None)
    few = Scored(*(c[:500] for c in (calibration.scores, calibration.tasks, calibration.labels)))
    with pytest.raises(InvalidInput, match="holds too few for this guarantee"):
        attempt(promise, few, None)


def test_why_there_is_no_control(calibration: Scored, promise: MetaPS) -> None:
    assert explain_why_not(promise, calibration) is None
    assert "without the calibration scores" in str(explain_why_not(promise, None))
    rates = dict.fromkeys(CLASSES, 0.2)
    each = calibrate(calibration, per_class=True, alpha=0.3, epsilon=rates)
    assert "Each class has a value of its own" in str(explain_why_not(each, calibration))
    pooled = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99))
    assert "that of MetaPS" in str(explain_why_not(pooled, calibration))


def test_a_rate_out_of_range_is_refused(calibration: Scored, promise: MetaPS) -> None:
    with pytest.raises(InvalidInput, match="epsilons must be a number strictly between 0 and 1"):
        attempt(promise, calibration, None, 1.5)

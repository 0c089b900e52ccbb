"""The verdict of an evaluation, and which tasks it rests on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, evaluate, judge
from metapac.context import Context
from tests.helpers.labelled_sites import CLASSES, calibrate, get_true_scores, run


def test_each_class_has_its_verdict(frame: pd.DataFrame) -> None:
    epsilon = {"cat": 0.3, "dog": 0.4, "owl": 0.5}
    promise = calibrate(epsilon=epsilon, per_class=True)
    result = run(promise, frame, false_alarm=0.15)
    assert result.by_class is not None
    assert result.verdict is not None
    assert result.verdict.by_class is not None
    for label, part in result.by_class.items():
        alone = judge(
            part.examples,
            part.missed,
            epsilon=epsilon[label],
            alpha=0.4,
            delta=0.1,
            false_alarm=0.05,
        )
        assert result.verdict.by_class[label].p_holds == alone.p_holds
        assert part.verdict is None
    assert result.classes is not None
    assert [part.label for part in result.classes] == CLASSES
    assert result.neglected == []
    by_score = evaluate(promise, get_true_scores(frame), frame.site, frame.y)
    assert by_score.missed.tolist() == result.missed.tolist()


def test_a_task_without_a_class_counts_against_holds() -> None:
    promise = calibrate(per_class=True)
    sites, labels = np.repeat([f"s{i}" for i in range(30)], 60), np.tile(CLASSES, 600)
    few = ~((sites < "s2") & (labels == "owl"))  # s0, s1 and s10 to s19 lack owls
    scores = np.random.default_rng(2).uniform(0.9, 1, few.sum())
    result = evaluate(promise, scores, sites[few], labels[few])
    assert result.verdict is not None
    assert result.verdict.by_class is not None
    tasks = {label: part.tasks for label, part in result.verdict.by_class.items()}
    assert tasks == {"cat": 30, "dog": 30, "owl": 30}
    assert result.verdict.by_class["cat"].status == "holds"
    assert result.verdict.by_class["owl"].within == 18
    assert result.by_class is not None
    assert len(result.by_class["owl"].tasks) == 18


def test_small_tasks_can_be_left_out(frame: pd.DataFrame) -> None:
    sizes = frame.groupby("site").size().drop("known 3")
    result = run(calibrate(), frame, min_examples=int(sizes.max()))
    assert (len(result.tasks), result.left_out, result.min_examples) == (1, 2, sizes.max())
    assert result.classes is not None
    assert sum(part.examples for part in result.classes) == sizes.max()
    assert repr(result).startswith("<Evaluation of 1 task (2 left out): ")
    with pytest.raises(InvalidInput, match="no task to evaluate: tasks need at least 999 examples"):
        run(calibrate(), frame, min_examples=999)


def test_calibration_tasks_are_not_new(frame: pd.DataFrame) -> None:
    old = frame.assign(site="known 1")
    message = r"every task has the name of a calibration task \('known 1'\).*allow=\('overlap',"
    with pytest.raises(InvalidInput, match=message):
        run(calibrate(), old)
    result = run(calibrate(), old, allow=["overlap"])
    assert (result.tasks.tolist(), result.overlap) == (["known 1"], ())


def test_the_verdict_is_in_the_words_of_the_promise(frame: pd.DataFrame) -> None:
    promise = calibrate()
    promise.context_ = Context(unit="hospital", example="patient")
    evaluation = run(promise, frame)
    assert "hospitals" in str(evaluation.verdict)
    assert "hospital" in repr(evaluation)
    assert "task" not in repr(evaluation)

"""New tasks in arrays: their misses and their clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import MetaPS, Monitor, Scored, evaluate
from metapac.monitoring import judge_tasks
from tests.monitoring.conftest import LEVELS, draw, names


def test_scores_of_all_classes(rng: Any) -> None:
    scores, tasks = draw(rng, names("old", 40))
    labels = (rng.random(len(scores)) < 0.5).astype(int)
    matrix = np.where(labels[:, None] == [0, 1], scores[:, None], 1 - scores[:, None])
    promise = MetaPS(**LEVELS).calibrate(matrix, tasks, labels, allow=["labels"])
    some, new = scores[:500] ** 2, np.repeat(names("new", 5), 100)
    monitors = Monitor(promise), Monitor(promise)
    for monitor, data in zip(monitors, (matrix[:500] ** 2, some), strict=True):
        monitor.add(data, new, labels[:500])
    assert monitors[0].course == monitors[1].course
    assert monitors[0]._counted == monitors[1]._counted  # the same checksums


def test_tasks_are_judged_as_evaluate_does(promise: MetaPS, rng: Any) -> None:
    scores, tasks = draw(rng, names("new", 4))
    evaluation, clusters = judge_tasks(promise, Scored(scores, tasks), min_examples=5)
    expected = evaluate(promise, scores, tasks, min_examples=5)
    assert evaluation.missed.tolist() == expected.missed.tolist()
    assert evaluation.min_examples == 5
    assert evaluation.ranges is not None
    assert evaluation.ranges[2].tolist() == [scores[200:300].min(), scores[200:300].max()]
    assert clusters is None

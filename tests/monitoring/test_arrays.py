"""New tasks in arrays: their misses and their clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import MetaPS, Monitor, evaluate
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
    options: dict[str, Any] = {"classes": None, "min_examples": 5, "model": None, "allow": ()}
    evaluation, clusters = judge_tasks(promise, scores, tasks, None, clusters=None, **options)
    expected = evaluate(promise, scores, tasks, min_examples=5)
    assert evaluation.missed.tolist() == expected.missed.tolist()
    assert evaluation.min_examples == 5
    assert evaluation.ranges is not None
    assert evaluation.ranges[2].tolist() == [scores[200:300].min(), scores[200:300].max()]
    assert clusters is None


def test_the_clusters_are_those_of_the_tasks_judged(rng: Any) -> None:
    owners = {name: f"owner {i}" for i, name in enumerate(names("old", 60))}
    promise = MetaPS(**LEVELS).calibrate(*draw(rng, names("old", 60)), clusters=owners)
    scores, tasks = draw(rng, ["a", "b", "old 3"])
    given = ["x"] * 100 + ["y"] * 100 + ["owner 3"] * 100  # for each example
    _evaluation, clusters = judge_tasks(
        promise,
        scores,
        tasks,
        None,
        classes=None,
        clusters=given,
        min_examples=0,
        model=None,
        allow=(),
    )
    assert clusters == {"a": "x", "b": "y"}

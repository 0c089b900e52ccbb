"""Studies of experiments; whole runs are in test_run.py."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from metapac.fewshot.reproduce.experiments import Experiment, Training
from metapac.fewshot.reproduce.seed import BankStudy, LazyStudy
from metapac.fewshot.study.draws import ScoredTask

EXPERIMENT = Experiment(
    name="sites",
    title="Sites",
    data="sites",
    backbone="mlp",
    training=Training(lr=1e-3, episodes_per_epoch=4),
    calibration_tasks=5,
    test_tasks=3,
    tasks_from="bank",
)


def test_a_bank_study_takes_no_task_twice() -> None:
    scores = np.arange(40, dtype=np.float64).reshape(8, 5)
    tests = [ScoredTask(np.ones(2), np.full(3, i), np.full((3, 2), i), 0.5) for i in range(1, 7)]
    study = BankStudy(EXPERIMENT, scores, np.arange(8.0), tests)
    draw = study.draw(np.random.default_rng(0))
    rows = draw.scores.reshape(5, 5)
    assert draw.quantiles is not None
    chosen = draw.quantiles.astype(int)
    assert len(set(chosen)) == 5
    np.testing.assert_array_equal(rows, scores[chosen])  # each task with its own quantile
    assert (
        len({int(test.true_scores[0]) for test in draw.tests if isinstance(test, ScoredTask)}) == 3
    )


def test_a_lazy_study_is_made_before_its_first_draw_and_once() -> None:
    scores = np.arange(40, dtype=np.float64).reshape(8, 5)
    tests = [ScoredTask(np.ones(2), np.full(3, i), np.full((3, 2), i), 0.5) for i in range(1, 7)]
    study = BankStudy(EXPERIMENT, scores, np.arange(8.0), tests)
    stages: list[str] = []

    def make(progress: Any) -> BankStudy:
        progress("making", 0, None)
        return study

    lazy = LazyStudy({"name": "sites"}, make)
    assert lazy.describe() == {"name": "sites"}
    assert stages == []
    for _ in range(2):
        lazy.prepare(lambda stage, done, total: stages.append(stage))
    assert stages == ["making"]
    assert lazy.preferred_backend == "loky"
    for each in (lazy, LazyStudy({}, make), pickle.loads(pickle.dumps(lazy))):
        drawn, expected = (one.draw(np.random.default_rng(0)) for one in (each, study))
        np.testing.assert_array_equal(drawn.scores, expected.scores)

"""Calibration draws of a trained learner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from metapac.evaluation.draws import ScoredTask
from metapac.learners.bank import PrototypeBank
from metapac.meta_cp.quantiles import QuantilePredictor
from metapac.reproduce.experiments import Experiment, Training
from metapac.reproduce.studies import (
    BankStudy,
    PoolStudy,
    WithoutReplacement,
    WithReplacement,
    score_test_tasks,
)
from metapac.tasks.pools import ClassPool, GroupPool

TINY = Training(
    lr=1e-3, episodes_per_epoch=4, epochs=1, episodes_per_step=2, validation_tasks=4, queries=2
)


def groups(count: int = 8, size: int = 40, rng: int = 0) -> GroupPool:
    generator = np.random.default_rng(rng)
    y = (generator.random(count * size) < 0.4).astype(int)
    x = generator.normal(size=(count * size, 4)).astype(np.float32)
    x[:, 0] += 2 * y
    names = np.repeat([f"site {rng}-{i}" for i in range(count)], size)
    return GroupPool(x, y, names, classes=2)


GROUPS = Experiment(
    name="sites",
    title="Sites",
    data="sites",
    backbone="mlp",
    training=TINY,
    ways=None,
    shots=6,
    calibration_examples=None,
    evaluation_examples=20,
    labelled_examples=5,
    calibration_tasks=5,
    test_tasks=3,
    tasks_from="distinct",
    draws=2,
)


def guess(size: int) -> QuantilePredictor:
    rng = np.random.default_rng(0)
    return QuantilePredictor(epsilon=0.1, rng=0).fit(
        -rng.uniform(size=(16, size)), -rng.uniform(size=16)
    )


def test_distinct_groups_are_used_once() -> None:
    pool = groups()
    dealt = []
    for seed in range(5):
        tasks, tests = WithoutReplacement(pool).sample(GROUPS, np.random.default_rng(seed))
        names = [task.name for task in (*tasks, *tests)]
        assert len(set(names)) == len(names) == 8
        assert {len(task.query) for task in tasks} == {34}  # all the rest of a group
        assert {len(task.query) for task in tests} == {25}
        dealt.append(tuple(names))
    assert len(set(dealt)) > 1  # dealt differently in each draw


def test_independent_tasks_come_from_their_pools() -> None:
    e = replace(GROUPS, calibration_examples=10, calibration_tasks=30, test_tasks=20)
    one, other = groups(rng=1), groups(rng=2)
    tasks, tests = WithReplacement(one, other).sample(e, np.random.default_rng(0))
    assert {str(task.name).split("#")[0] for task in tasks} == set(one.names)
    assert all(str(task.name).split("#")[0] in other.names for task in tests)


def test_a_pool_study_scores_as_its_bank_does() -> None:
    pool = groups()
    bank = PrototypeBank(torch.from_numpy(pool.x), pool.x)
    study = PoolStudy(GROUPS, WithoutReplacement(pool), bank, bank, guess(6), {"data": "made up"})
    draw = study.draw(np.random.default_rng(3))
    tasks, tests = WithoutReplacement(pool).sample(GROUPS, np.random.default_rng(3))
    np.testing.assert_array_equal(draw.scores, bank.scores(list(tasks)))
    np.testing.assert_array_equal(draw.tasks, np.arange(5).repeat(34))
    assert study.describe() == {"data": "made up"}
    whole = bank.predict_proba(tests[0])
    first = draw.tests[0]
    assert isinstance(first, ScoredTask)
    np.testing.assert_array_equal(first.scores, whole[5:])
    np.testing.assert_array_equal(first.labelled_scores, whole[np.arange(5), tests[0].query_y[:5]])


def test_labelled_examples_are_of_each_class() -> None:
    e = replace(GROUPS, ways=2, labelled_examples=2, evaluation_examples=3)
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    pool = ClassPool(x, np.repeat([0, 1], 20))
    (task,) = pool.tasks(1, ways=2, shots=3, queries=5, rng=0)
    bank = PrototypeBank(torch.from_numpy(x), x)
    (result,) = score_test_tasks(e, bank, [task], guess(6))
    true = bank.predict_proba(task)[np.arange(10), task.query_y]
    np.testing.assert_array_equal(result.labelled_scores, true[[0, 1, 5, 6]])
    np.testing.assert_array_equal(result.true_scores, true[[2, 3, 4, 7, 8, 9]])


def test_a_bank_study_takes_no_task_twice() -> None:
    scores = np.arange(40, dtype=np.float64).reshape(8, 5)
    tests = [ScoredTask(np.ones(2), np.full(3, i), np.full((3, 2), i), 0.5) for i in range(1, 7)]
    study = BankStudy(GROUPS, scores, np.arange(8.0), tests)
    draw = study.draw(np.random.default_rng(0))
    rows = draw.scores.reshape(5, 5)
    assert draw.quantiles is not None
    chosen = draw.quantiles.astype(int)
    assert len(set(chosen)) == 5
    np.testing.assert_array_equal(rows, scores[chosen])  # each task with its own quantile
    assert (
        len({int(test.true_scores[0]) for test in draw.tests if isinstance(test, ScoredTask)}) == 3
    )

"""Scores of a pool are the same from its embeddings and by adapting to each task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac.fewshot import CallableLearner, ClassPool, PrototypeLearner, score_tasks
from metapac.fewshot.study.pool_study import AdaptedScores, BankScores, has_bank, score_pool


@pytest.fixture
def pool() -> ClassPool:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(6), 20)
    return ClassPool(rng.normal(size=(6, 5))[y] + rng.normal(size=(120, 5)), y)


def test_both_routes_give_the_same_scores(pool: ClassPool) -> None:
    learner = PrototypeLearner()
    tasks = list(pool.tasks(4, ways=3, shots=2, queries=5, rng=0))
    bank, adapted = score_pool(learner, pool), AdaptedScores(learner)
    assert isinstance(bank, BankScores)
    np.testing.assert_array_equal(bank.true_scores(tasks), adapted.true_scores(tasks))
    tables = [bank.all_scores(tasks), adapted.all_scores(tasks)]
    assert [table.shape for table in tables[0]] == [(15, 3)] * 4
    for one, other in zip(*tables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_bank_that_is_given_is_not_computed(pool: ClassPool) -> None:
    bank = PrototypeLearner().bank(pool.x)
    scores = score_pool(PrototypeLearner(), pool, bank=bank)
    assert isinstance(scores, BankScores)
    assert scores.bank is bank


@pytest.mark.parametrize("score", ["margin", "log_probability", "cumulative"])
def test_a_score_function_is_the_same_on_both_routes(pool: ClassPool, score: str) -> None:
    learner = PrototypeLearner()
    tasks = list(pool.tasks(4, ways=3, shots=2, queries=5, rng=0))
    bank, adapted = score_pool(learner, pool, score=score), AdaptedScores(learner, score)
    true, _ = score_tasks(learner, tasks, score=score)
    np.testing.assert_array_equal(bank.true_scores(tasks), true)
    np.testing.assert_allclose(adapted.true_scores(tasks), true, rtol=1e-6)
    tables = bank.all_scores(tasks)
    for table, other in zip(tables, adapted.all_scores(tasks), strict=True):
        np.testing.assert_allclose(table, other, rtol=1e-6)
    pairs = zip(tables, tasks, strict=True)
    stacked = np.concatenate([table[np.arange(15), task.query_y] for table, task in pairs])
    assert (true <= stacked).all()  # what is calibrated on is lowered


def test_scores_that_are_not_probabilities(pool: ClassPool) -> None:
    def distances(support_x: Any, support_y: Any, x: Any) -> Any:
        means = np.stack([support_x[support_y == c].mean(axis=0) for c in range(3)])
        return -np.linalg.norm(x[:, None] - means, axis=2)

    learner = CallableLearner(distances, outputs="scores")
    tasks = list(pool.tasks(2, ways=3, shots=2, queries=5, rng=0))
    scores = score_pool(learner, pool)
    expected = distances(tasks[0].support_x, tasks[0].support_y, tasks[0].query_x)
    np.testing.assert_array_equal(scores.all_scores(tasks)[0], expected)
    assert (scores.true_scores(tasks) < 0).all()


class Doubled:
    name = "doubled"

    def __call__(self, x: Any, rng: np.random.Generator) -> Any:
        return 2 * x


def test_without_shared_data_there_is_no_bank(pool: ClassPool) -> None:
    changed = ClassPool(pool.x, pool.y, transform=lambda rng: Doubled())
    function = CallableLearner(lambda support_x, support_y, x: np.full((len(x), 3), 1 / 3))
    assert has_bank(PrototypeLearner(), pool)
    assert not has_bank(PrototypeLearner(), changed)
    assert not has_bank(function, pool)
    for learner, data in ((PrototypeLearner(), changed), (function, pool)):
        scores = score_pool(learner, data)
        assert isinstance(scores, AdaptedScores)
        tasks = list(data.tasks(2, ways=3, shots=2, queries=5, rng=0))
        assert len(scores.true_scores(tasks)) == 30

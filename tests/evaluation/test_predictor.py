"""Meta-CP's predictor in a study; tests/evaluation/test_pool_study.py checks it end to end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac.fewshot import ClassPool, PrototypeLearner
from metapac.fewshot.quantile_predictor import leave_one_out as slow_leave_one_out
from metapac.fewshot.study import pool_study
from metapac.fewshot.study.pool_study import (
    find_obstacle,
    fit_predictor,
    leave_one_out,
    predict_quantiles,
    score_pool,
)


@pytest.fixture
def pool() -> ClassPool:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(6), 20)
    return ClassPool(rng.normal(size=(6, 5))[y] + rng.normal(size=(120, 5)), y)


def test_nonconformity_is_minus_the_score_after_adapting_to_the_others(pool: ClassPool) -> None:
    learner, tasks = PrototypeLearner(), list(pool.tasks(3, ways=3, shots=2, queries=5, rng=0))
    inputs = leave_one_out(score_pool(learner, pool), tasks)
    assert inputs.shape == (3, 6)
    for row, task in zip(inputs, tasks, strict=True):
        np.testing.assert_allclose(-row, slow_leave_one_out(learner, task), rtol=1e-6)


def test_a_predictor_depends_on_the_scores_alone(
    pool: ClassPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_study, "PREDICTOR_TASKS", 10)
    scores = score_pool(PrototypeLearner(), pool)
    shape: dict[str, Any] = {"ways": 3, "shots": 2}
    tasks = list(pool.tasks(4, **shape, queries=5, rng=9))
    one, other = (
        predict_quantiles(fit_predictor(scores, pool, shape, queries=5, epsilon=0.1), scores, tasks)
        for _ in range(2)
    )
    assert one is not None
    np.testing.assert_array_equal(one, other)
    assert predict_quantiles(None, scores, tasks) is None


def test_nothing_stands_in_the_way_of_a_bank_and_two_shots(pool: ClassPool) -> None:
    assert find_obstacle(PrototypeLearner(), pool, {"shots": 2}) is None
    assert find_obstacle(PrototypeLearner(), pool, {"shots": [2], "ways": (5,)}) is None
    obstacle = find_obstacle(PrototypeLearner(), pool, {"shots": 1})
    assert obstacle is not None
    assert "one shot" in obstacle

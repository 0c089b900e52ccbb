"""Banks of vectors: many tasks at a time give what one task gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.fewshot import (
    ClassPool,
    GroupPool,
    LogisticLearner,
    PrototypeLearner,
    RidgeLearner,
    Task,
)
from metapac.fewshot.learners import vectors
from metapac.fewshot.learners.vectors import one_hot_labels, softmax

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(10), 12)
X = (RNG.normal(size=(10, 7))[Y] + RNG.normal(size=(120, 7))).astype(np.float32)
LEARNERS = [
    PrototypeLearner(),
    PrototypeLearner("cosine", 0.1),
    RidgeLearner(0.5, 0.2),
    LogisticLearner(0.3),
]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=repr)


def mixed_tasks() -> list[Task]:
    """Tasks of several shapes, in turns."""
    pool, options = ClassPool(X, Y), dict[str, Any](queries=3, rng=1)
    drawn = [
        ClassPool(X, Y, name=f"{ways}").tasks(3, ways=ways, shots=shots, **options)
        for ways, shots in ((2, 1), (5, 3), (4, 2))
    ]
    tasks = [task for group in zip(*drawn, strict=True) for task in group]
    return [Task(**{**vars(task), "x": pool.x}) for task in tasks]


@every_learner
@pytest.mark.parametrize("work", [1, 200, 2**22])
def test_a_bank_gives_what_adapting_gives(
    learner: Any, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_WORK", work)
    tasks = mixed_tasks()
    bank = learner.bank(tasks[0].x)
    scores = np.split(bank.scores(tasks), np.cumsum([len(t.query) for t in tasks])[:-1])
    for task, lowered, (logits, _) in zip(tasks, scores, bank.bounded_logits(tasks), strict=True):
        scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
        expected = scorer.predict_proba(task.query_x)
        np.testing.assert_allclose(bank.predict_proba(task), expected, rtol=1e-8)
        np.testing.assert_allclose(softmax(logits), expected, rtol=1e-8)
        direct = scorer.lowered_scores(task.query_x, task.query_y)
        np.testing.assert_allclose(lowered, direct, rtol=1e-7)
        assert (lowered <= expected[np.arange(len(expected)), task.query_y]).all()


@every_learner
def test_tasks_in_arrays_are_scored_like_tasks_one_by_one(learner: Any) -> None:
    pool = ClassPool(X, Y)
    tasks, bank = pool.tasks(4, ways=3, shots=2, queries=5, rng=0), learner.bank(pool.x)
    batch = tasks.draw()
    alone = np.concatenate([bank.scores([task]) for task in tasks])
    np.testing.assert_allclose(bank.scores(batch), alone, rtol=1e-7)
    for table, task in zip(bank.predict_tasks(batch), tasks, strict=True):
        np.testing.assert_allclose(table, bank.predict_proba(task), rtol=1e-8)
    left_out = np.concatenate([bank.leave_one_out([task]) for task in tasks])
    np.testing.assert_allclose(bank.leave_one_out(batch), left_out, rtol=1e-8)


@every_learner
@pytest.mark.parametrize("work", [1, 2**22])
def test_leaving_one_out_equals_a_plain_loop(
    learner: Any, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_WORK", work)
    groups = np.arange(120) % 4
    pool = GroupPool(X, Y % 3, groups)
    tasks = list(pool.tasks(5, shots=6, queries=2, rng=0))
    actual = learner.bank(pool.x).leave_one_out(tasks)
    for row, task in zip(actual, tasks, strict=True):
        for i, label in enumerate(task.support_y):
            kept = np.delete(np.arange(6), i)
            if label not in task.support_y[kept]:
                assert row[i] == 0
                continue
            scorer = learner.adapt(task.support_x[kept], task.support_y[kept], classes=3)
            expected = scorer.predict_proba(task.support_x[[i]])[0, label]
            assert row[i] == pytest.approx(expected, rel=1e-7)


def test_one_shot_leaves_nothing_over() -> None:
    tasks = ClassPool(X, Y).tasks(2, ways=3, shots=1, queries=1, rng=0)
    assert not PrototypeLearner().bank(tasks[0].x).leave_one_out(list(tasks)).any()


def test_bad_input_is_named() -> None:
    bank = PrototypeLearner().bank(X)
    other = ClassPool(X.copy(), Y).tasks(1, ways=2, shots=1, queries=1, rng=0)[0]
    with pytest.raises(InvalidInput, match="task 'pool-0' belongs to another pool"):
        bank.scores([other])
    with pytest.raises(InvalidInput, match=r"x must hold one vector for each example, .*\(120,\)"):
        PrototypeLearner().bank(X[:, 0])
    holes = X.copy()
    holes[:, 2] = np.inf
    task = ClassPool(holes, Y).tasks(1, ways=2, shots=1, queries=1, rng=0)[0]
    with pytest.raises(InvalidInput, match="x must hold finite numbers, got 2 of 2 vectors"):
        PrototypeLearner().bank(task.x).scores([task])
    shots = [ClassPool(X, Y).tasks(1, ways=2, shots=k, queries=1, rng=0)[0] for k in (1, 2)]
    with pytest.raises(InvalidInput, match="support sets of one size"):
        PrototypeLearner().bank(shots[0].x).leave_one_out(shots)


@every_learner
def test_no_tasks_have_no_scores(learner: Any) -> None:
    pool, bank = ClassPool(X, Y), learner.bank(X)
    batch = pool.tasks(4, ways=3, shots=2, queries=5, rng=0).draw()
    for none in ([], batch[:0]):
        assert bank.scores(none).shape == (0,)
        assert bank.scores(none).dtype == bank.scores(batch).dtype
        assert bank.predict_tasks(none) == bank.bounded_logits(none) == []
        with pytest.raises(InvalidInput, match="one size, got no task"):
            bank.leave_one_out(none)


def test_one_hot_labels() -> None:
    assert one_hot_labels(np.array([[2, 0]]), 3).tolist() == [[[0, 0, 1], [1, 0, 0]]]

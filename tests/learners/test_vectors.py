"""Learners on stored vectors, and their banks, against torch, scikit-learn and plain loops."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from sklearn.linear_model import Ridge
from torch import nn

from metapac import InvalidInput, fewshot
from metapac.fewshot import ClassPool, LogisticLearner, PrototypeLearner, RidgeLearner, Task
from metapac.fewshot.learners import vectors
from metapac.fewshot.learners.vectors import Objective

LEARNERS: dict[str, Any] = {
    "euclidean": PrototypeLearner(),
    "cosine": PrototypeLearner("cosine", temperature=0.1),
    "ridge": RidgeLearner(penalty=0.5, temperature=0.2),
    "logistic": LogisticLearner(penalty=0.3),
}
RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(10), 12)
X = (RNG.normal(size=(10, 7))[Y] + RNG.normal(size=(120, 7))).astype(np.float32)
every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())


def draw(kind: str, seed: int, width: int = 8) -> tuple[Any, Any]:
    """60 vectors of 4 classes in float32, and their classes."""
    rng, y = np.random.default_rng(seed), np.arange(60) % 4
    x: Any = rng.normal(size=(4, width))[y] + 0.5 * rng.normal(size=(60, width))
    if kind == "tied":
        x = rng.integers(0, 2, (60, width))
    scale, offset = {"small": (1e-3, 0), "large": (30, 0), "far": (1, 1e4)}.get(kind, (1, 0))
    return (scale * x + offset).astype(np.float32), y


def draw_task(x: Any, y: Any, seed: int) -> Task:
    """Three labels, of which the support set may lack one; unequal shots."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(y < 3))
    return Task("a", x, order[:8], y[order[:8]], order[8:28], y[order[8:28]], 3)


def predict(learner: Any, task: Task) -> Any:
    scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
    return scorer.predict_proba(task.query_x)


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["ordinary", "small", "large", "far", "tied"]),
    width=st.sampled_from([1, 8, 40]),
)
def test_prototypes_equal_a_protonet_on_the_identity(seed: int, kind: str, width: int) -> None:
    task = draw_task(*draw(kind, seed, width), seed)
    for expected in (
        fewshot.ProtoNet(nn.Identity()).bank(task.x).predict_proba(task),
        predict(fewshot.ProtoNet(nn.Identity()), task),
    ):
        actual = predict(PrototypeLearner(), task)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
)
def test_distances_lose_no_digits(seed: int, scale: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    support, query = offset + scale * rng.normal(size=(5, 6)), offset + scale * rng.normal(size=6)
    labels = np.array([0, 1, 1, 0, 3])
    scorer = PrototypeLearner(temperature=0.5).adapt(support, labels)
    logits = scorer.probabilities_and_logits(query[None])[1][0]
    assert logits[2] == -np.inf
    for label in (0, 1, 3):
        rows = [[Fraction(v) for v in row] for row in support[labels == label].tolist()]
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        gaps = zip(query.tolist(), mean, strict=True)
        exact = -2 * sum((Fraction(q) - m) ** 2 for q, m in gaps)
        assert logits[label] == pytest.approx(float(exact), rel=1e-6, abs=1e-20)


@pytest.mark.parametrize("seed", range(3))
def test_cosines_equal_a_plain_loop(seed: int) -> None:
    task = draw_task(*draw("ordinary", seed), seed)
    logits = np.full((20, 3), -np.inf)
    for label in set(task.support_y.tolist()):
        mean = task.support_x[task.support_y == label].astype(float).mean(0)
        for i, row in enumerate(task.query_x.astype(float)):
            logits[i, label] = row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)
    actual = predict(PrototypeLearner("cosine", temperature=0.7), task)
    np.testing.assert_allclose(actual, softmax(logits / 0.7), rtol=1e-9)


def test_a_vector_of_zeros_has_no_direction() -> None:
    scorer = PrototypeLearner("cosine").adapt([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]], [0, 0, 1])
    assert scorer.predict_proba([[0.0, 0.0]])[0] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("width", [3, 8, 40])  # of 8 support vectors: the primal, and the dual
def test_ridge_equals_scikit_learn(width: int) -> None:
    for seed, kind in ((0, "ordinary"), (1, "far")):
        task = draw_task(*draw(kind, seed, width), seed)
        present = np.unique(task.support_y)
        targets = (task.support_y[:, None] == present).astype(float)
        reference = Ridge(alpha=0.5).fit(task.support_x.astype(float), targets)
        logits = np.full((20, 3), -np.inf)
        logits[:, present] = reference.predict(task.query_x.astype(float)).reshape(20, -1) / 0.2
        np.testing.assert_allclose(
            predict(RidgeLearner(0.5, 0.2), task), softmax(logits), rtol=1e-7
        )


@pytest.mark.parametrize(("size", "width"), [(12, 5), (6, 40)])
def test_the_gradient_of_a_logistic_fit_vanishes(size: int, width: int) -> None:
    rng, labels = np.random.default_rng(1), np.arange(size) % 3
    support = rng.normal(size=(3, width))[labels] + rng.normal(size=(size, width))
    one_hot = (labels[:, None] == np.arange(4)).astype(float)
    for penalty in (1e-3, 1.0, 1e3):
        head = LogisticLearner(penalty).fit(support[None], one_hot[None])
        z = np.hstack([support - head.centre[0], np.ones((size, 1))])
        weights = np.hstack([head.weights[0], head.bias[0][:, None]])[:3]
        residuals = softmax(z @ weights.T) - one_hot[:, :3]
        assert np.abs(residuals.T @ z + penalty * weights).max() < 1e-9
    objective = Objective(support, one_hot[:, :3], 0.7)
    theta = rng.normal(size=width * 3)
    assert check_grad(lambda t: objective.loss(t)[0], objective.gradient, theta) < 1e-4


@every_learner
def test_absent_labels_single_labels_and_kinds_of_arrays(learner: Any) -> None:
    scorer = learner.adapt([[0.0, 1.0], [3.0, 1.0], [0.1, 1.0]], [0, 3, 0], classes=5)
    p = scorer.predict_proba([[0.2, 1.0], [9.0, 1.0]])
    assert p[:, [1, 2, 4]].tolist() == [[0.0] * 3] * 2
    np.testing.assert_allclose(p.sum(1), 1)
    assert p.argmax(1).tolist() == [0, 3]
    assert scorer.predict_proba(np.empty((0, 2))).shape == (0, 5)
    certain = learner.adapt([[0.0, 1.0], [3.0, 1.0]], [1, 1], classes=2)
    assert certain.predict_proba([[7.0, -2.0]]).tolist() == [[0.0, 1.0]]
    x = np.array([[0, 1], [3, 1], [1, 2], [5, 0]])
    expected = learner.adapt(x, [0, 1, 0, 1]).predict_proba(x)
    for same in (x.tolist(), x.astype(np.float16), torch.tensor(x), np.asfortranarray(x * 1.0)):
        actual = learner.adapt(same, [0, 1, 0, 1]).predict_proba(same)
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
        assert actual.dtype == np.float64
    described = json.loads(json.dumps(learner.describe()))
    assert described.pop("class") == type(learner).__name__
    assert repr(type(learner)(**described)) == repr(learner)


WORDS: dict[str, Any] = {"temperature": "warm"}
ONE = ClassPool(X, Y).tasks(1, ways=2, shots=1, queries=1, rng=0)[0]


def test_bad_input_is_named() -> None:
    adapt, numbers = PrototypeLearner().adapt, (float("nan"), float("inf"), True, -1)
    one = RidgeLearner().adapt([[0.0], [1.0]], [0, 1])
    cases: list[tuple[Any, str]] = [
        (lambda: PrototypeLearner("manhattan"), "metric must be 'euclidean' or 'cosine', got 'm"),
        (lambda: PrototypeLearner(temperature=0), "temperature must be a positive number, got 0"),
        (lambda: RidgeLearner(**WORDS), "temperature must be a positive number, got 'warm'"),
        *[(partial(LogisticLearner, x), f"penalty .* positive number, got {x}") for x in numbers],
        (lambda: adapt(np.zeros((2, 3, 3)), [0, 1]), r"support_x .*\(2, 3, 3\)"),
        (lambda: adapt(["a", "b"], [0, 1]), r"support_x .* got <U1"),
        (lambda: adapt([[0.0], [np.nan]], [0, 1]), "1 of 2 .*position 1"),
        (lambda: one.predict_proba([[1.0, 2.0]]), "x must hold vectors of length 1, got 2"),
        (lambda: LogisticLearner(1e-12).adapt(np.eye(4) * 100, [0, 1, 2, 3]), "penalty must be la"),
        (lambda: LogisticLearner(1e-10).adapt(1e6 * X[:9], Y[:9] % 2), "^penalty .* 1e-10"),
        (lambda: PrototypeLearner().bank(X.copy()).scores([ONE]), "is of another pool"),
        (lambda: PrototypeLearner().bank(X[:, 0]), r"x must hold vectors, .*\(120,\)"),
        (lambda: PrototypeLearner().bank(X).leave_one_out([]), "one size, got sizes"),
    ]
    for action, message in cases:
        with pytest.raises(InvalidInput, match=message):
            action()


# Banks, for studies.


@every_learner
@pytest.mark.parametrize("work", [1, 200, 2**22])
def test_a_bank_equals_adapting(learner: Any, work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_WORK", work)
    pool = ClassPool(X, Y)
    drawn = [
        pool.tasks(3, ways=ways, shots=shots, queries=3, rng=1)
        for ways, shots in ((2, 1), (5, 3), (4, 2))
    ]
    tasks = [task for group in zip(*drawn, strict=True) for task in group]  # shapes in turns
    bank = learner.bank(tasks[0].x)
    scores = np.split(bank.scores(tasks), np.cumsum([len(t.query) for t in tasks])[:-1])
    for task, lowered, table in zip(tasks, scores, bank.predict_tasks(tasks), strict=True):
        expected = predict(learner, task)
        np.testing.assert_allclose(bank.predict_proba(task), expected, rtol=1e-8)
        np.testing.assert_allclose(table, expected, rtol=1e-8)
        true = table[np.arange(len(table)), task.query_y]
        np.testing.assert_allclose(lowered, true, rtol=1e-9)
        assert (lowered <= true).all()
    batch = drawn[1].draw()
    alone = np.concatenate([bank.scores([task]) for task in drawn[1]])
    np.testing.assert_allclose(bank.scores(batch), alone, rtol=1e-7)
    assert bank.scores([]).shape == (0,)
    assert bank.predict_tasks(batch[:0]) == []


@every_learner
@pytest.mark.parametrize("work", [1, 2**22])
def test_leaving_one_out_is_a_loop(
    learner: Any, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_WORK", work)
    pool = fewshot.GroupPool(X, Y % 3, np.arange(120) % 4)
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

"""Learners on stored vectors against torch, scikit-learn and plain loops."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

from metapac import InvalidInput
from metapac.fewshot import (
    ClassPool,
    LogisticLearner,
    ProtoNet,
    PrototypeLearner,
    RidgeLearner,
    Task,
    score_tasks,
)

LEARNERS = [
    PrototypeLearner(),
    PrototypeLearner("cosine", temperature=0.1),
    RidgeLearner(penalty=0.5, temperature=0.2),
    LogisticLearner(penalty=0.3),
]
NAMES = ["euclidean", "cosine", "ridge", "logistic"]
WORDS: dict[str, Any] = {"temperature": "warm"}
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=NAMES)


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


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["ordinary", "small", "large", "far", "tied"]),
    width=st.sampled_from([1, 8, 40]),
)
def test_prototypes_equal_a_protonet_on_the_identity(seed: int, kind: str, width: int) -> None:
    x, y = draw(kind, seed, width)
    task = draw_task(x, y, seed)
    torch_bank, bank = ProtoNet(nn.Identity()).bank(x), PrototypeLearner().bank(x)
    expected = torch_bank.predict_proba(task)
    np.testing.assert_allclose(bank.predict_proba(task), expected, rtol=0, atol=1e-6)
    scorer = PrototypeLearner().adapt(task.support_x, task.support_y, classes=3)
    np.testing.assert_allclose(scorer.predict_proba(task.query_x), expected, rtol=0, atol=1e-6)


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def plain_prototypes(metric: str, task: Task, temperature: float) -> Any:
    logits = np.full((len(task.query), task.classes), -np.inf)
    for label in set(task.support_y.tolist()):
        members = [row for row, y in zip(task.support_x, task.support_y, strict=True) if y == label]
        mean = sum(np.asarray(row, float) for row in members) / len(members)
        for i, row in enumerate(np.asarray(task.query_x, float)):
            if metric == "cosine":
                logits[i, label] = row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)
            else:
                logits[i, label] = -((row - mean) ** 2).sum()
    return softmax(logits / temperature)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("seed", range(5))
def test_prototypes_equal_a_plain_loop(metric: str, seed: int) -> None:
    task = draw_task(*draw("ordinary", seed), seed)
    learner = PrototypeLearner(metric, temperature=0.7)
    expected = plain_prototypes(metric, task, 0.7)
    np.testing.assert_allclose(learner.bank(task.x).predict_proba(task), expected, rtol=1e-9)


@pytest.mark.parametrize("width", [3, 8, 40])  # of 8 support vectors: the primal, and the dual
@pytest.mark.parametrize("seed", range(3))
def test_ridge_equals_scikit_learn(width: int, seed: int) -> None:
    task = draw_task(*draw("ordinary", seed, width), seed)
    present = np.unique(task.support_y)
    targets = (task.support_y[:, None] == present).astype(float)
    reference = Ridge(alpha=0.5).fit(task.support_x.astype(float), targets)
    logits = np.full((20, 3), -np.inf)
    logits[:, present] = reference.predict(task.query_x.astype(float)).reshape(20, -1) / 0.2
    scorer = RidgeLearner(0.5, 0.2).adapt(task.support_x, task.support_y, classes=3)
    np.testing.assert_allclose(scorer.predict_proba(task.query_x), softmax(logits), rtol=1e-8)


@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_logistic_regression_equals_scikit_learn(penalty: float, seed: int) -> None:
    x, y = draw("ordinary", seed)
    rows = np.random.default_rng(seed).permutation(60)
    support, query = rows[:25], rows[25:]
    centre = x[support].astype(float).mean(0)

    def extend(part: Any) -> Any:
        return np.hstack([x[part] - centre, np.ones((len(part), 1))])

    reference = LogisticRegression(
        C=1 / penalty, fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(extend(support), y[support])
    scorer = LogisticLearner(penalty).adapt(x[support], y[support], classes=4)
    expected = reference.predict_proba(extend(query))
    np.testing.assert_allclose(scorer.predict_proba(x[query]), expected, atol=2e-6)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["ordinary", "small", "large", "far", "tied"]),
    width=st.sampled_from([1, 3, 8, 40]),
    which=st.sampled_from(range(4)),
    batch=st.sampled_from([1, 2, 7]),
)
def test_no_deployed_score_is_below_the_calibrated_one(
    seed: int, kind: str, width: int, which: int, batch: int
) -> None:
    x, y = draw(kind, seed, width)
    learner, task = LEARNERS[which], draw_task(x, y, seed)
    scorer = learner.adapt(task.support_x, task.support_y, classes=3)
    alone = Task.from_arrays(
        task.support_x, task.support_y, task.query_x, task.query_y, classes=3, name="b"
    )
    query = task.query_x
    parts = [scorer.predict_proba(query[i : i + batch]) for i in range(0, 20, batch)]
    for deployed in (np.concatenate(parts), learner.bank(x).predict_proba(task)):
        true = deployed[np.arange(20), task.query_y]
        for calibrated in (score_tasks(learner, [task])[0], score_tasks(learner, [alone])[0]):
            assert (calibrated <= true).all()
            if kind != "tied":  # where a prototype may be zero and have no direction
                np.testing.assert_allclose(calibrated, true, rtol=1e-4, atol=1e-7)


@every_learner
def test_absent_labels_get_probability_0(learner: Any) -> None:
    scorer = learner.adapt([[0.0, 1.0], [3.0, 1.0], [0.1, 1.0]], [0, 3, 0], classes=5)
    p = scorer.predict_proba([[0.2, 1.0], [9.0, 1.0]])
    assert p[:, [1, 2, 4]].tolist() == [[0.0] * 3] * 2
    np.testing.assert_allclose(p.sum(1), 1)
    assert p.argmax(1).tolist() == [0, 3]
    assert scorer.predict_proba(np.empty((0, 2))).shape == (0, 5)


@every_learner
def test_a_single_label_is_certain(learner: Any) -> None:
    scorer = learner.adapt([[0.0, 1.0], [3.0, 1.0]], [1, 1], classes=2)
    assert scorer.predict_proba([[7.0, -2.0]]).tolist() == [[0.0, 1.0]]


@every_learner
def test_vectors_may_be_of_any_kind(learner: Any) -> None:
    x = np.array([[0, 1], [3, 1], [1, 2], [5, 0]])
    expected = learner.adapt(x, [0, 1, 0, 1]).predict_proba(x)
    for same in (x.tolist(), x.astype(np.float32), torch.tensor(x), np.asfortranarray(x * 1.0)):
        actual = learner.adapt(same, [0, 1, 0, 1]).predict_proba(same)
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
    half = x.astype(np.float16)
    assert learner.adapt(half, [0, 1, 0, 1]).predict_proba(half).dtype == np.float64


@every_learner
def test_a_learner_describes_itself(learner: Any) -> None:
    described = json.loads(json.dumps(learner.describe()))
    assert described.pop("class") == type(learner).__name__
    assert repr(type(learner)(**described)) == repr(learner)


def test_a_vector_of_zeros_has_no_direction() -> None:
    scorer = PrototypeLearner("cosine").adapt([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]], [0, 0, 1])
    assert scorer.predict_proba([[0.0, 0.0]])[0] == pytest.approx([0.5, 0.5])
    # The mean of label 0 is zero, so that its direction is rounding: no score is counted on.
    lowered = scorer.lowered_scores([[1.0, 0.0]], [0])[0]
    assert lowered < 0.02 * scorer.predict_proba([[1.0, 0.0]])[0, 0] + 0.02


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: PrototypeLearner("manhattan"), "metric must be 'euclidean' or 'cosine', got 'm"),
        (lambda: PrototypeLearner(temperature=0), "temperature must be a positive number, got 0"),
        (lambda: RidgeLearner(penalty=-1), "penalty must be a positive number, got -1"),
        (lambda: RidgeLearner(**WORDS), "temperature must be a positive number, got 'warm'"),
        (lambda: LogisticLearner(float("nan")), "penalty must be a positive number, got nan"),
        (lambda: LogisticLearner(float("inf")), "penalty must be a positive number, got inf"),
        (lambda: LogisticLearner(True), "penalty must be a positive number, got True"),
        (
            lambda: PrototypeLearner().adapt(np.zeros((2, 3, 3)), [0, 1]),
            r"support_x must hold one vector for each example, .* of shape \(2, 3, 3\)\. Pass the",
        ),
        (
            lambda: PrototypeLearner().adapt(["a", "b"], [0, 1]),
            r"support_x must hold one vector for each example, .* got <U1 of shape \(2,\)",
        ),
        (
            lambda: PrototypeLearner().adapt([[0.0], [np.nan]], [0, 1]),
            r"support_x must hold finite numbers, got 1 of 2 vectors .*position 1\)",
        ),
        (
            lambda: RidgeLearner().adapt([[0.0], [1.0]], [0, 1]).predict_proba([[1.0, 2.0]]),
            r"x must hold vectors of length 1, as the support set does, got 2",
        ),
        (
            lambda: LogisticLearner(1e-12).adapt(np.eye(4) * 100, [0, 1, 2, 3]),
            r"penalty must be large enough for logistic regression to converge, got 1e-12: its l",
        ),
    ],
)
def test_bad_input_is_named(action: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        action()


def test_torch_is_not_imported() -> None:
    code = (
        "import sys, numpy as np; "
        "from metapac.fewshot import ClassPool, PrototypeLearner, accuracy, score_tasks; "
        "pool = ClassPool(np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 6); "
        "score_tasks(PrototypeLearner(), pool.tasks(3, ways=3, shots=2, queries=2, rng=0)); "
        "accuracy(PrototypeLearner(), pool, tasks=4); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_a_memory_map_is_read_by_rows(tmp_path: Any) -> None:
    x, y = draw("ordinary", 0)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    options: dict[str, Any] = {"ways": 3, "shots": 4, "queries": 5, "rng": 0}
    expected = score_tasks(PrototypeLearner(), ClassPool(x, y).tasks(6, **options))[0]
    actual = score_tasks(PrototypeLearner(), ClassPool(mapped, y).tasks(6, **options))[0]
    np.testing.assert_array_equal(actual, expected)

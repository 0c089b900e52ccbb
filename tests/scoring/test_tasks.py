"""Scores of tasks, ready to calibrate on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from metapac import Context, InvalidInput, MetaPS
from metapac.fewshot import (
    CallableLearner,
    ClassPool,
    FixedModel,
    GroupPool,
    ProtoNet,
    PrototypeLearner,
    SklearnLearner,
    Task,
    score_examples,
    score_tasks,
)
from metapac.fewshot.adapters import lower_scores
from metapac.fewshot.learners.protonet import PrototypeBank, PrototypeScorer
from metapac.fewshot.scoring import Stored, read_stored, score_matrix, store

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(12, 6)) * 2
Y = np.repeat(np.arange(12), 40)
X = (CENTRES[Y] + RNG.normal(size=(480, 6))).astype(np.float32)


def episodes(count: int = 10) -> Any:
    return ClassPool(X, Y).tasks(count, ways=3, shots=4, queries=20, rng=1)


def protonet() -> ProtoNet:
    torch.manual_seed(0)
    return ProtoNet(torch.nn.Linear(6, 5))


def test_both_paths_give_the_same_scores() -> None:
    class Plain:
        """A ProtoNet that hides its bank."""

        def adapt(self, x: Any, y: Any, *, classes: int | None = None) -> Any:
            return protonet().adapt(x, y, classes=classes)

    fast, tasks = score_tasks(protonet(), episodes())
    slow, same = score_tasks(Plain(), episodes())
    np.testing.assert_allclose(fast, slow, atol=1e-5)
    assert tasks.tolist() == same.tolist()
    assert len(set(tasks.tolist())) == 10
    assert [int((tasks == name).sum()) for name in dict.fromkeys(tasks.tolist())] == [60] * 10


def test_each_example_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    learner = protonet()
    embed = learner.embed
    monkeypatch.setattr(learner, "embed", lambda x: seen.append(len(x)) or embed(x))  # type: ignore[func-returns-value]
    score_tasks(learner, episodes(30))
    assert seen[0] == 480
    # One task again, its queries together and a few alone, to see that none depends on others.
    assert sum(seen[1:]) <= 12 + 60 + 8


def test_scores_are_those_of_the_true_label() -> None:
    table = np.arange(480 * 3, dtype=float).reshape(480, 3)
    fixed = FixedModel(lambda x: x, outputs="scores")
    task = Task.from_arrays(table[:2], [0, 1], table[2:6], [2, 0, 1, 1], name="a", classes=3)
    scores, tasks = score_tasks(fixed, [task])
    expected = np.array([table[2, 2], table[3, 0], table[4, 1], table[5, 1]])
    assert (scores < expected).all()  # by rounding alone
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    assert tasks.tolist() == ["a"] * 4


def test_from_learner_to_sets_without_torch() -> None:
    groups = np.array([f"site {i % 20}" for i in range(480)])
    tasks = GroupPool(X, Y % 2, groups).tasks(shots=8, rng=0)
    scores, names = score_tasks(SklearnLearner(LogisticRegression()), tasks)
    method = MetaPS(epsilon=0.4, alpha=0.4, delta=0.1).calibrate(scores, names)
    assert sorted(method.tasks_.tolist()) == sorted(set(groups.tolist()))
    assert set(method.task_sizes_) == {16}


def test_a_group_drawn_twice_is_two_tasks() -> None:
    groups = np.array(["north", "south"])[np.arange(480) % 2]
    tasks = GroupPool(X, Y % 2, groups).tasks(5, shots=8, queries=10, rng=0)
    names = score_tasks(protonet(), tasks)[1]
    assert len(set(names.tolist())) == 5
    assert all(name.split("#")[0] in ("north", "south") for name in names)


def test_pools_may_alternate() -> None:
    first, second = ClassPool(X, Y, name="a"), ClassPool(X[::-1].copy(), Y[::-1], name="b")
    options: dict[str, Any] = {"ways": 3, "shots": 4, "queries": 20, "rng": 1}
    pairs = zip(first.tasks(3, **options), second.tasks(3, **options), strict=True)
    mixed = [task for pair in pairs for task in pair]
    scores, names = score_tasks(protonet(), mixed)
    for task in mixed:
        alone, _ = score_tasks(protonet(), [task])
        np.testing.assert_allclose(scores[names == task.name], alone, atol=1e-5)


# One score function: what is calibrated is what is deployed.

BATCHES = (1, 2, 7, 64)


def points(kind: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """60 examples of 4 classes as (n, 16) float32, and their classes."""
    y = np.arange(60) % 4
    if kind == "saturated":  # probabilities of 1 - 1.2 * 2**-24: the next float32 below 1
        edge = np.sqrt((24 * np.log(2) - np.log(1.2)) / 2)
        return np.eye(16, dtype=np.float32)[y] * np.float32(edge), y
    if kind == "tied":
        return rng.integers(0, 2, (60, 16)).astype(np.float32), y
    x = rng.normal(size=(4, 16))[y] + 0.5 * rng.normal(size=(60, 16))
    scale, offset = {"ordinary": (1, 0), "small": (1e-3, 0), "large": (1e3, 0), "far": (1, 1e4)}[
        kind
    ]
    return (scale * x + offset).astype(np.float32), y


def network(kind: str, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if kind == "mlp":  # few outputs of wide layers: rounding shows
            return nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 2))
        if kind == "conv":
            image = nn.Unflatten(1, (1, 4, 4))
            layers = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten()
            return nn.Sequential(image, *layers, nn.Linear(512, 8))
        return nn.Identity()


def drawn_task(x: Any, y: Any, rng: np.random.Generator) -> Task:
    """Three labels, of which the support set may lack one; unequal shots."""
    order = rng.permutation(np.flatnonzero(y < 3))
    return Task("a", x, order[:8], y[order[:8]], order[8:28], y[order[8:28]], 3)


def deployed_scores(scorer: Any, task: Task, batch: int) -> Any:
    """The probabilities of the true labels, ``batch`` examples at a time."""
    parts = range(0, len(task.query), batch)
    x = task.query_x
    result = np.concatenate([scorer.predict_proba(x[i : i + batch]) for i in parts])
    return result[np.arange(len(x)), task.query_y]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["ordinary", "small", "large", "far", "saturated", "tied"]),
    backbone=st.sampled_from(["identity", "mlp", "conv"]),
    batch=st.sampled_from(BATCHES),
)
def test_no_deployed_score_is_below_the_calibrated_one(
    seed: int, kind: str, backbone: str, batch: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = points(kind, rng)
    learner, task = ProtoNet(network(backbone, seed)), drawn_task(x, y, rng)
    arrays = task.support_x, task.support_y, task.query_x, task.query_y
    alone = Task.from_arrays(*arrays, name="alone", classes=3)
    calibrated = [
        PrototypeBank(learner.embed(x, batch), x).scores([task]),  # by the Gram matrix
        PrototypeBank(learner.embed(x, batch), x, memory=0).scores([task]),
        score_tasks(learner, [task])[0],
        score_tasks(learner, [alone])[0],  # by adapting
    ]
    labels = torch.from_numpy(task.support_y)
    for size in BATCHES:
        support = learner.embed(task.support_x, size)
        for scorer in (
            PrototypeScorer(learner, support, labels, 3),
            learner.adapt(task.support_x, task.support_y, classes=3),
        ):
            deployed = deployed_scores(scorer, task, size)
            for scores in calibrated:
                assert (scores <= deployed).all()


def test_saturated_scores_are_not_missed() -> None:
    # All scores are the float32 next to 1: a digit lost in deployment would miss every example.
    edge = np.sqrt((24 * np.log(2) - np.log(1.2)) / 2)
    x = np.repeat(np.eye(10, dtype=np.float32) * np.float32(edge), 60, axis=0)
    learner, pool = ProtoNet(nn.Identity()), ClassPool(x, np.repeat(np.arange(10), 60))
    shape: dict[str, Any] = {"ways": 2, "shots": 5, "queries": 25}
    scores, _ = score_tasks(learner, pool.tasks(150, **shape, rng=0))
    assert scores.max() < 1
    for task in pool.tasks(50, **shape, rng=1):
        scorer = learner.adapt(task.support_x, task.support_y, classes=2)
        assert (deployed_scores(scorer, task, 50) >= scores.max()).all()


def test_lowering_ordinary_scores_costs_little() -> None:
    learner = protonet()
    for task in episodes():
        scorer = learner.adapt(task.support_x, task.support_y, classes=3)
        deployed = deployed_scores(scorer, task, 60).astype(np.float64)
        (calibrated, _), grain = score_tasks(learner, [task]), 2.0**-23
        assert (calibrated >= (1 - 1e-3) * deployed).all()
        assert (1 - calibrated <= (1 + 1e-3) * (1 - deployed) + grain).all()


def test_calibration_and_prediction_use_one_score_function() -> None:
    # From a pool, distances come from the Gram matrix; after adapting, from the embeddings. Each
    # calibrated score is below both, and far less than a thousandth below.
    learner = protonet()
    for score in ("probability", "log_probability", "margin", "cumulative"):
        scores, names = score_tasks(learner, episodes(4), score=score)
        for task in episodes(4):
            calibrated, labels = scores[names == task.name], task.query_y
            deployed = score_examples(
                learner, task.support_x, task.support_y, task.query_x, classes=3, score=score
            )
            np.testing.assert_array_equal(deployed, score_matrix(learner, task, score=score))
            by_bank = score_matrix(learner, task, score=score, bank=learner.bank(task.x))
            np.testing.assert_allclose(by_bank, deployed, rtol=1e-4, atol=1e-5)
            true = deployed[np.arange(60), labels]
            assert (calibrated <= true).all()
            np.testing.assert_allclose(calibrated, true, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("score", ["probability", "log_probability", "margin", "cumulative", "raw"])
def test_sets_of_new_tasks_keep_the_promise(score: str) -> None:
    # 60 tasks calibrate, 200 test. Each task breaks with probability at most alpha = 0.2, so 77
    # broken ones or more have probability below 1e-9.
    pool, options = ClassPool(X, Y), dict[str, Any](ways=3, shots=4, queries=20)
    learner = PrototypeLearner(temperature=3.0)
    scores, names = score_tasks(learner, pool.tasks(60, **options, rng=1), score=score)
    promise = MetaPS(epsilon=0.2, alpha=0.2, delta=0.05).calibrate(
        scores, names, context=Context(score=score)
    )
    broken = sizes = 0.0
    for task in pool.tasks(200, **options, rng=2):
        sets = promise.predict_set(score_matrix(learner, task, score=score), score=score)
        broken += float(np.mean(~sets[np.arange(60), task.query_y]) > 0.2)
        sizes += float(sets.sum(1).mean())
    assert broken < 77
    assert sizes / 200 < 2.6  # of 3 labels: the sets say something


def test_probability_and_its_logarithm_give_the_same_sets() -> None:
    learner, options = PrototypeLearner(), {"epsilon": 0.2, "alpha": 0.2, "delta": 0.05}
    sets = []
    for score in ("probability", "log_probability"):
        promise = MetaPS(**options).calibrate(*score_tasks(learner, episodes(60), score=score))  # type: ignore[arg-type]
        sets.append(promise.predict_set(score_matrix(learner, episodes(60)[7], score=score)))
    np.testing.assert_array_equal(sets[0], sets[1])


def test_outputs_that_are_scores_need_no_score_function() -> None:
    learner = FixedModel(lambda x: -np.abs(x[:, :2]), outputs="scores")
    task = Task.from_arrays(X[:4], [0, 1, 0, 1], X[4:9], [0, 1, 1, 0, 1], name="a")
    scores, _ = score_tasks(learner, [task])
    raw = -np.abs(X[4:9, :2])[np.arange(5), task.query_y]
    assert (scores < raw).all()
    np.testing.assert_allclose(scores, raw, rtol=1e-3)
    with pytest.raises(InvalidInput, match="score must be 'raw' for a learner whose outputs are"):
        score_tasks(learner, [task], score="margin")


def test_new_examples_of_any_learner_are_scored() -> None:
    fixed = FixedModel(LogisticRegression().fit(X, Y % 3))
    expected = fixed.adapt().predict_proba(X[:5])
    np.testing.assert_array_equal(score_examples(fixed, None, None, X[:5]), expected)
    scores = score_examples(fixed, None, None, X[:5], classes=4, score="margin")
    np.testing.assert_allclose(scores[:, 3], -expected.max(1), rtol=1e-6)
    for support_y in ([0, 2, 0], np.array([0, 2, 0]), torch.tensor([0, 2, 0])):
        learner = protonet()
        scores = score_examples(learner, X[:3], support_y, X[3:5], classes=4)
        assert scores[:, [1, 3]].tolist() == [[0, 0]] * 2


def test_the_score_function_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "scores.safetensors"
    store(path, PrototypeLearner(), episodes(3), score="margin")
    assert read_stored(path).provenance["score"] == "margin"
    assert read_stored(path).provenance["learner"]["class"] == "PrototypeLearner"


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    precision=st.sampled_from([np.float32, np.float64]),
    gain=st.sampled_from([0.1, 1.0, 5.0]),
    batch=st.sampled_from(BATCHES),
)
def test_other_learners_are_safe_at_any_batch_size(
    seed: int, precision: Any, gain: float, batch: int
) -> None:
    # A softmax in the learner's own precision, saturated where the gain is large.
    rng = np.random.default_rng(seed)
    x, y = points("ordinary", rng)
    weights = [rng.normal(size=shape) / np.sqrt(shape[0]) for shape in ((16, 300), (300, 3))]

    def function(support_x: Any, support_y: Any, new: Any) -> Any:
        first, second = (w.astype(precision) for w in weights)
        return softmax(np.maximum(new.astype(precision) @ first, 0) @ (gain * second))

    def same(support_x: Any, support_y: Any, new: Any) -> Any:
        return function(support_x, support_y, new).astype(precision)

    learner, task = CallableLearner(same), drawn_task(x, y, rng)
    calibrated = score_tasks(learner, [task])[0]
    assert calibrated.dtype == precision
    scorer = learner.adapt(task.support_x, task.support_y, classes=3)
    deployed = deployed_scores(scorer, task, batch)
    assert (calibrated <= deployed).all()
    np.testing.assert_allclose(calibrated, deployed, rtol=1e-4)


def test_votes_of_a_forest_are_hardly_lowered() -> None:
    groups = np.arange(480) % 4
    forest = SklearnLearner(RandomForestClassifier(10, max_depth=2, random_state=0))
    (task, *_) = GroupPool(X, Y % 2, groups).tasks(shots=8, rng=0)
    scorer = forest.adapt(task.support_x, task.support_y, classes=2)
    votes, scores = deployed_scores(scorer, task, 200), score_tasks(forest, [task])[0]
    assert (scores <= votes).all()
    np.testing.assert_allclose(scores, votes, rtol=1e-12)


@given(  # multiples of 2**-10, so that adding them rounds nothing
    logits=arrays.arrays(np.int64, 4, elements=st.integers(-60 * 1024, 60 * 1024)),
    move=arrays.arrays(np.int64, 4, elements=st.integers(-512, 512)),
    precision=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_lowered_scores_are_below_every_rounding(logits: Any, move: Any, precision: Any) -> None:
    slack = max(0.0, float((move[1:] - move[0]).max())) / 1024
    scores, moved = softmax(logits[None] / 1024)[0, :1], softmax((logits + move)[None] / 1024)[0, 0]
    result = lower_scores(scores, slack, precision=precision, steps=8)
    assert result.dtype == precision
    assert result[0] <= moved.astype(precision)
    wide = result.astype(np.float64)
    lowest = scores / (scores + (1 - scores) * np.exp(slack))
    np.testing.assert_allclose(wide, lowest, rtol=10 * np.finfo(precision).eps, atol=1e-6)


@given(arrays.arrays(np.float64, 5, elements=st.floats(0, 1)))
def test_scores_are_rounded_down(scores: Any) -> None:
    result = lower_scores(scores, precision=np.float32)
    assert (result.astype(np.float64) <= scores).all()
    assert (result[scores > 1e-44] < scores[scores > 1e-44]).all()
    assert (result >= 0).all()
    np.testing.assert_allclose(result, scores, rtol=2.0**-22, atol=1e-44)


def test_store_writes_scores_and_their_provenance(tmp_path: Path) -> None:
    stored = store(tmp_path / "scores.safetensors", protonet(), episodes(), rng=1)
    result = read_stored(tmp_path / "scores.safetensors")
    assert result.scores is not None
    assert result.embeddings is not None
    np.testing.assert_array_equal(result.scores, stored.scores)
    assert result.embeddings.shape == (480, 5)
    assert result.provenance["rng"] == 1
    assert result.provenance["learner"]["class"] == "ProtoNet"
    with pytest.raises(ValueError, match="tasks and scores must have the same length"):
        Stored(scores=np.zeros(3), tasks=np.zeros(2))


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    scores, tasks = score_tasks(protonet(), episodes())
    stored = Stored(
        embeddings=protonet().embed(X).numpy(),
        labels=Y,
        scores=scores,
        tasks=tasks,
        provenance={"learner": "ProtoNet", "rng": 1},
    )
    stored.save(tmp_path / "scores.safetensors")
    result = read_stored(tmp_path / "scores.safetensors")
    for name in ("embeddings", "labels", "scores", "tasks"):
        np.testing.assert_array_equal(getattr(result, name), getattr(stored, name))
    assert result.provenance == {"learner": "ProtoNet", "rng": 1}
    Stored(scores=scores).save(tmp_path / "scores.safetensors")
    assert read_stored(tmp_path / "scores.safetensors").embeddings is None


def test_progress_counts_tasks() -> None:
    calls: list[tuple[str, int, int | None]] = []
    score_tasks(protonet(), episodes(4), progress=lambda *call: calls.append(call))
    assert calls == [("scoring tasks", 4, 4)]  # one pool, scored at once
    calls.clear()
    forest = SklearnLearner(LogisticRegression())
    score_tasks(forest, episodes(3), progress=lambda *call: calls.append(call))
    assert calls == [("scoring tasks", done, 3) for done in (1, 2, 3)]
    calls.clear()
    score_tasks(forest, iter(episodes(2)), progress=lambda *call: calls.append(call))
    assert calls == [("scoring tasks", done, None) for done in (1, 2)]


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="tasks is empty; pass at least one task"):
        score_tasks(protonet(), [])
    twice = [Task.from_arrays(X[:3], [0, 1, 2], X[3:5], [0, 1], name="ohio")] * 2
    mixed = [Task.from_arrays(X[:3], [0, 1, 2], X[3:5], [0, 1], name=name) for name in (1, "1")]
    with pytest.raises(ValueError, match="tasks must hold ids of one type"):
        score_tasks(protonet(), mixed)
    with pytest.raises(ValueError, match="tasks holds 'ohio' more than once, and a task counts o"):
        score_tasks(protonet(), twice)

    class Narrow:
        def adapt(self, x: Any, y: Any, *, classes: int | None = None) -> Any:
            return self

        def predict_proba(self, x: Any) -> Any:
            return np.ones((len(x), 2))

    with pytest.raises(ValueError, match=r"predict_proba on task 'pool-0' must .* \(60, 3\), got"):
        score_tasks(Narrow(), episodes(1))
    logits = FixedModel(lambda x: x)
    logits.adapt = lambda *_, **__: type("Scorer", (), {"predict_proba": lambda _, x: x[:, :3]})()  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="predict_proba on task .* none negative or NaN"):
        score_tasks(logits, episodes(1))

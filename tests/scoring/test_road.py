"""One scoring road: what is calibrated is what is deployed, to the last bit, less an allowance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import nn

from metapac import Context, InvalidInput, fewshot
from metapac.fewshot import ClassPool, ProtoNet, PrototypeLearner, Task, score_tasks
from metapac.fewshot.scoring import Outputs, Stored, read_stored, score_matrix, tabulate
from metapac.score_functions import NAMES, ScoreFunction

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(12), 40)
X = (2 * RNG.normal(size=(12, 6))[Y] + RNG.normal(size=(480, 6))).astype(np.float32)
LABELS = np.array([f"class {i}" for i in range(12)])
BATCHES = (1, 2, 7, 64)
PROBABILISTIC = [name for name in NAMES if name != "raw"]
FUNCTIONS = [ScoreFunction(name, t) for name in PROBABILISTIC for t in (1.0, 2.0)]


def episodes(count: int = 10, rng: int = 1) -> Any:
    return ClassPool(X, LABELS[Y]).tasks(count, ways=3, shots=4, queries=20, rng=rng)


def protonet() -> ProtoNet:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ProtoNet(nn.Linear(6, 5))


def points(kind: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """60 examples of 4 classes as (n, 16) float32, and their classes."""
    y = np.arange(60) % 4
    if kind == "saturated":  # probabilities of 1 - 1.2 * 2**-24: the next float32 below 1
        edge = np.sqrt((24 * np.log(2) - np.log(1.2)) / 2)
        return np.eye(16, dtype=np.float32)[y] * np.float32(edge), y
    if kind == "tied":
        return rng.integers(0, 2, (60, 16)).astype(np.float32), y
    x = rng.normal(size=(4, 16))[y] + 0.5 * rng.normal(size=(60, 16))
    scale, offset = {"small": (1e-3, 0), "large": (1e3, 0), "far": (1, 1e4)}.get(kind, (1, 0))
    return (scale * x + offset).astype(np.float32), y


def network(kind: str, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if kind == "mlp":  # few outputs of wide layers: rounding shows
            return nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 2))
        if kind == "odd":  # rows that are not aligned in memory
            return nn.Sequential(nn.Linear(16, 13), nn.Tanh(), nn.Linear(13, 7), nn.Linear(7, 3))
        if kind == "conv":
            image = nn.Unflatten(1, (1, 4, 4))
            layers = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten()
            return nn.Sequential(image, *layers, nn.Linear(512, 8))
        return nn.Identity()


def drawn_task(x: Any, y: Any, rng: np.random.Generator) -> Task:
    """Three labels, of which the support set may lack one; unequal shots."""
    order = rng.permutation(np.flatnonzero(y < 3))
    return Task("a", x, order[:8], y[order[:8]], order[8:28], y[order[8:28]], 3)


def on_its_own(task: Task) -> Task:
    arrays = task.support_x, task.support_y, task.query_x, task.query_y
    return Task.from_arrays(*arrays, name="alone", classes=task.classes)


def in_parts(predict: Any, x: Any, batch: int) -> Any:
    """All rows, ``batch`` examples at a time."""
    return np.concatenate([predict(x[i : i + batch]) for i in range(0, len(x), batch)])


def true_scores(matrix: Any, task: Task) -> Any:
    return matrix[np.arange(len(matrix)), task.query_y]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["ordinary", "small", "large", "far", "saturated", "tied"]),
    backbone=st.sampled_from(["identity", "mlp", "odd", "conv"]),
)
@example(seed=4228, kind="far", backbone="mlp")
def test_no_deployed_score_is_below_the_calibrated_one(seed: int, kind: str, backbone: str) -> None:
    rng = np.random.default_rng(seed)
    x, y = points(kind, rng)
    learner, task = ProtoNet(network(backbone, seed)), drawn_task(x, y, rng)
    calibrated = [
        score_tasks(learner, [task])[0],  # from embeddings that tasks share
        score_tasks(learner, [on_its_own(task)])[0],  # by adapting
        tabulate(learner, [task])["score"],
    ]
    scorer = learner.adapt(task.support_x, task.support_y, classes=3)
    for size in BATCHES:
        deployed = true_scores(in_parts(scorer.predict_proba, task.query_x, size), task)
        for scores in calibrated:
            assert (scores <= deployed).all()


class Flattened(ProtoNet):
    """A subclass that adapts in its own way."""

    def adapt(self, support_x: Any, support_y: Any, **options: Any) -> Any:
        return super().adapt(np.zeros_like(support_x), support_y, **options)


def test_a_subclass_is_scored_as_it_adapts() -> None:
    learner, task = Flattened(protonet().module), episodes()[0]
    scorer = learner.adapt(task.support_x, task.support_y, classes=3)
    deployed = true_scores(scorer.predict_proba(task.query_x), task)
    assert (score_tasks(learner, [task])[0] <= deployed).all()


def test_nan_in_a_later_task_is_refused_for_every_score() -> None:
    x = X.copy()
    x[Y == 7] = np.nan
    tasks = ClassPool(x, Y).tasks(40, ways=3, shots=4, queries=20, rng=1)
    for learner in (protonet(), PrototypeLearner()):
        for score in NAMES:
            with pytest.raises(InvalidInput, match="finite|NaN"):
                score_tasks(learner, tasks, score=score)


def build(which: str, seed: int) -> Any:
    if which == "maml":
        return fewshot.MAML(fewshot.MLP(16, width=8, rng=seed), classes=3, steps=2, step_size=0.1)
    if which == "maml conv":
        backbone = network("conv", seed)
        backbone.features = 8  # type: ignore[assignment]
        return fewshot.MAML(backbone, classes=3, steps=2, step_size=0.1)
    vectors: Any = {
        "euclidean": PrototypeLearner(),
        "cosine": PrototypeLearner("cosine", 0.1),
    }
    vectors |= {"ridge": fewshot.RidgeLearner(0.5, 0.2), "logistic": fewshot.LogisticLearner(0.3)}
    return vectors[which] if which in vectors else ProtoNet(network(which, seed))


OWN = ["identity", "mlp", "odd", "conv", "maml", "maml conv"]
OWN += ["euclidean", "cosine", "ridge", "logistic"]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["ordinary", "small", "far", "tied"]),
    which=st.sampled_from(OWN),
    score=st.sampled_from([None, *NAMES]),
    batch=st.sampled_from([*BATCHES, 20]),
)
def test_a_score_depends_on_its_example_alone(
    seed: int, kind: str, which: str, score: str | None, batch: int
) -> None:
    # To the last bit: at any batch size, in any order, from a pool, and from arrays.
    rng = np.random.default_rng(seed)
    x, y = points(kind, rng)
    task, learner = drawn_task(x, y, rng), build(which, seed)

    def predict(part: Any) -> Any:
        support = task.support_x, task.support_y
        return fewshot.score_examples(learner, *support, part, classes=3, score=score)

    whole, order = predict(task.query_x), rng.permutation(20)
    np.testing.assert_array_equal(in_parts(predict, task.query_x, batch), whole)
    np.testing.assert_array_equal(predict(task.query_x[order]), whole[order])
    for same in (task, on_its_own(task)):
        np.testing.assert_array_equal(score_matrix(learner, same, score=score), whole)
    lowered = score_tasks(learner, [task], score=score)[0]
    np.testing.assert_array_equal(lowered, score_tasks(learner, [on_its_own(task)], score=score)[0])
    assert (lowered <= true_scores(whole, task)).all()
    if score is None:
        scorer = learner.adapt(task.support_x, task.support_y, classes=3)
        np.testing.assert_array_equal(scorer.predict_proba(task.query_x), whole)
        assert lowered.dtype == whole.dtype


def test_tasks_of_a_pool_share_embeddings_and_get_the_same_bits() -> None:
    seen: list[int] = []

    class Counting(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(len(x))
            return super().forward(x)

    learner, drawn = ProtoNet(Counting(6, 5)), episodes(30)
    scores, names = score_tasks(learner, drawn)
    assert set(seen) == {1}  # on a CPU
    used = {row for task in drawn for row in (*task.support, *task.query)}
    assert sum(seen) == len(used) + 12 + 60 + 1 + 1  # one task is scored again, as a check
    other = ClassPool(X[::-1].copy(), Y[::-1], name="other")
    for task in (*drawn, *other.tasks(2, ways=3, shots=4, queries=20, rng=1)):
        scorer = learner.adapt(task.support_x, task.support_y, classes=3)
        p, logits = scorer.probabilities_and_logits(task.query_x)
        np.testing.assert_array_equal(score_matrix(learner, task), p)
        np.testing.assert_array_equal(scorer.predict_proba(task.query_x), p)
        if task.name in names:
            outputs = Outputs(p, "probabilities", ScoreFunction(), logits)
            single = outputs.lowered_scores(task.query_y)
            np.testing.assert_array_equal(scores[names == task.name], single)
    mixed = [task for pair in zip(drawn, other.tasks(30, ways=3, shots=4, queries=20, rng=1),
                                  strict=True) for task in pair]  # fmt: skip
    both, ids = score_tasks(learner, mixed)
    np.testing.assert_array_equal(both[np.isin(ids, names)], scores)


# The allowance for what we cannot control.


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(1, 6),
    scale=st.sampled_from([0.1, 3.0, 30.0, 1e3]),
    precision=st.sampled_from([np.float16, np.float32, np.float64]),
    kind=st.sampled_from(["probabilities", "logits", "scores"]),
    function=st.sampled_from(FUNCTIONS),
    corner=st.booleans(),
)
@example(1, 2, 3.0, np.float16, "probabilities", ScoreFunction("log_probability"), False)
def test_no_movement_of_the_logits_falls_below_the_lowered_scores(
    seed: int, classes: int, scale: float, precision: Any, kind: str, function: Any, corner: bool
) -> None:
    # Each logit moves by up to s / 2; the rest of s, a hundredth, is for rounding to the precision.
    # Without their logits, probabilities are taken for those of logits of ordinary size.
    rng = np.random.default_rng(seed)
    scale = min(scale, 3.0) if kind == "probabilities" else scale
    logits = (scale * rng.normal(size=(20, classes))).astype(precision)
    if seed % 2:
        logits[:, rng.integers(classes)] = np.clip(logits.max(1), -60000, 60000)  # ties
        logits[:5, 0] = -np.inf if classes > 1 else 0
    labels = rng.integers(0, classes, 20)
    unit = 256 * float(np.finfo(precision).eps)
    sizes = np.where(np.isfinite(logits), np.abs(logits), 0).max(1, keepdims=True)
    growth = {"probabilities": 1.0, "scores": sizes, "logits": np.maximum(sizes / 32, 1)}[kind]
    moves = rng.uniform(-1, 1, logits.shape)
    moves = np.sign(moves) if corner else moves
    moved = logits.astype(np.float64) + 0.49 * unit * growth * moves
    first: Any = logits
    if kind == "probabilities":
        first, moved = softmax(logits.astype(np.float64)).astype(precision), softmax(moved)
        first, moved = first / max(1, 1.0 * first.sum(1).max()), moved.astype(precision)
        first = first.astype(precision)
    if kind == "scores":
        function = ScoreFunction("raw")
    lowered = Outputs(first, kind, function).lowered_scores(labels)
    assert not np.isnan(lowered).any()
    deployed = function(moved, kind)[np.arange(20), labels]
    if kind == "probabilities":  # beyond the slack, rows may add up to more than 1
        deployed = deployed * (1 + 0.02 * unit * np.sign(deployed))
    assert (lowered <= deployed).all()
    assert (lowered <= function(first, kind)[np.arange(20), labels]).all()


def test_lowering_costs_little() -> None:
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(0, 3, (200, 5)), rng.integers(0, 5, 200)
    for kind, outputs in (("logits", logits), ("probabilities", softmax(logits))):
        for precision, cost in ((np.float64, 1e-11), (np.float32, 2e-4)):
            values: Any = outputs.astype(precision)
            for function in FUNCTIONS:
                true = function(values, kind)[np.arange(200), labels]
                lowered = Outputs(values, kind, function).lowered_scores(labels)
                assert (lowered <= true).all()
                if function.name != "cumulative":  # which jumps where labels are level
                    np.testing.assert_allclose(lowered, true, rtol=cost, atol=cost)
    for name, expected in (("probability", 1), ("log_probability", 0), ("margin", 1)):
        certain = Outputs(np.array([[0.0, -1e4]]), "logits", ScoreFunction(name))
        lowered = certain.lowered_scores(np.array([0]))
        assert lowered[0] == pytest.approx(expected, abs=1e-9)
    below = Outputs(np.array([[0.0, -9.0, -9.5]]), "logits", ScoreFunction("cumulative"))
    assert below.lowered_scores(np.array([1])) == pytest.approx(below.scores[0, 1])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    precision=st.sampled_from([np.float32, np.float64]),
    gain=st.sampled_from([0.1, 1.0, 5.0]),
    batch=st.sampled_from(BATCHES),
    outputs=st.sampled_from(["probabilities", "logits"]),
)
def test_learners_of_others_are_safe_at_any_batch_size(
    seed: int, precision: Any, gain: float, batch: int, outputs: str
) -> None:
    # In the learner's own precision, saturated where the gain is large.
    rng = np.random.default_rng(seed)
    x, y = points("ordinary", rng)
    weights = [rng.normal(size=shape) / np.sqrt(shape[0]) for shape in ((16, 300), (300, 3))]

    def function(support_x: Any, support_y: Any, new: Any) -> Any:
        first, second = (w.astype(precision) for w in weights)
        logits = np.maximum(new.astype(precision) @ first, 0) @ (gain * second).astype(precision)
        return logits if outputs == "logits" else softmax(logits).astype(precision)

    learner, task = fewshot.CallableLearner(function, outputs=outputs), drawn_task(x, y, rng)
    calibrated = score_tasks(learner, [task])[0]
    scorer = learner.adapt(task.support_x, task.support_y, classes=3)
    deployed = true_scores(in_parts(scorer.predict_proba, task.query_x, batch), task)
    assert (calibrated <= deployed).all()
    np.testing.assert_allclose(calibrated, deployed, rtol=1e-4)


# Scores of tasks: their order, their names, their tables and files.


def odds_against(p: Any) -> Any:
    """Minus the odds against a label: a score of our own."""
    return -(1 - p) / np.maximum(p, 1e-12)


def shifted(p: Any) -> Any:
    return p - p.mean(0)


def test_a_score_of_your_own_is_calibrated_deployed_and_named(tmp_path: Path) -> None:
    learner = protonet()
    (task,) = episodes(1)
    scorer = learner.adapt(task.support_x, task.support_y)
    expected = odds_against(scorer.predict_proba(task.query_x).astype(float))
    support = task.support_x, task.support_y
    matrix = fewshot.score_examples(learner, *support, task.query_x, score=odds_against)
    np.testing.assert_allclose(matrix, expected, rtol=1e-4)
    lowered = score_tasks(learner, [task], score=odds_against)[0]
    true = true_scores(matrix, task)
    assert (lowered < true).all()
    assert (lowered >= true - 1e-4 * np.abs(matrix).max(1)).all()
    name = f"{__name__}.odds_against"
    assert Context(score=odds_against).score == name
    logits = fewshot.CallableLearner(lambda *parts: np.zeros((len(parts[2]), 3)), outputs="logits")
    np.testing.assert_allclose(score_tasks(logits, [task], score=odds_against)[0], -2, rtol=1e-9)


def bad_shape(p: Any) -> Any:
    return p[:, 0]


def running(p: Any) -> Any:
    return np.maximum.accumulate(p, axis=0)  # the first row is as it is alone


def not_a_number(p: Any) -> Any:
    return p * np.nan


def test_bad_scores_are_named() -> None:
    cases: list[tuple[Any, str]] = [
        ("aps", "'probability', 'log_probability', .*'raw', or a function of .* got 'aps'"),
        (7, "or a function of the probabilities, got 7"),
        ("margin(temperature=-1)", "positive temperature"),
        ("margin(temperature=x)", "positive temperature"),
        (lambda p: p, "with a name"),
        (int, "with a name"),
        (shifted, "must score each row by itself"),
        (running, "must score each row by itself"),
        (bad_shape, r"a score for each probability, of shape \(60, 3\)"),
        (not_a_number, r"not NaN, got array\(\[\[nan"),
    ]
    for score, message in cases:
        with pytest.raises(InvalidInput, match=message) as raised:
            score_tasks(PrototypeLearner(), episodes(2), score=score)
        assert raised.value.parameters == ("score",)


def test_outputs_that_are_scores_are_calibrated_as_they_are() -> None:
    learner = fewshot.FixedModel(lambda x: -np.abs(x[:, :2]), outputs="scores")
    task = Task.from_arrays(X[:4], [0, 1, 0, 1], X[4:9], [0, 1, 1, 0, 1], name="a")
    scores, names = score_tasks(learner, [task])
    raw = true_scores(-np.abs(X[4:9, :2]), task)
    assert (scores < raw).all()
    np.testing.assert_allclose(scores, raw, rtol=1e-3)
    assert names.tolist() == ["a"] * 5
    for score in ("margin", odds_against):
        with pytest.raises(InvalidInput, match="score must be 'raw' for a learner whose outputs"):
            score_tasks(learner, [task], score=score)


def test_tables_agree_with_a_slow_loop() -> None:
    tasks = ClassPool(X, LABELS[Y]).tasks(4, ways=[2, 3, 4], shots=4, queries=6, rng=1)
    for learner in (
        protonet(),
        PrototypeLearner(),
        fewshot.SklearnLearner(LogisticRegression()),
    ):
        table, row = tabulate(learner, tasks, score="margin"), 0
        scores, ids = score_tasks(learner, tasks, score="margin")
        np.testing.assert_array_equal(table["score"], scores)
        assert table["task"].tolist() == ids.tolist()
        for task in tasks:
            p: Any = learner.adapt(task.support_x, task.support_y).predict_proba(task.query_x)
            for query, label in enumerate(task.query_y):
                assert table["example"][row] == task.query[query]
                assert table["label"][row] == LABELS[Y[task.query[query]]]
                assert table["classes"][row][label] == table["label"][row]
                others = [max(np.delete(p[query], c)) for c in range(task.classes)]
                np.testing.assert_allclose(table["scores"][row], p[query] - others, atol=1e-5)
                row += 1
        assert row == len(scores)
    groups = fewshot.GroupPool(X, Y % 3, np.arange(480) % 4).tasks(shots=20, rng=0)
    table = tabulate(PrototypeLearner(), groups)
    assert "classes" not in table
    assert table["label"].tolist() == (Y % 3)[table["example"]].tolist()
    named = Task(**{**vars(groups[0]), "name": 9, "class_names": ("a", "b", "c")})
    with pytest.raises(InvalidInput, match="tasks must all have class_names, or none of them"):
        tabulate(PrototypeLearner(), [groups[0], named])


def test_progress_counts_tasks_and_groups_may_come_twice() -> None:
    calls: list[tuple[str, int, int | None]] = []
    tabulate(protonet(), iter(episodes(2)), progress=lambda *call: calls.append(call))
    assert calls == [("scoring tasks", 1, None), ("scoring tasks", 2, None)]
    groups = np.array(["north", "south"])[np.arange(480) % 2]
    tasks = fewshot.GroupPool(X, Y % 2, groups).tasks(5, shots=8, queries=10, rng=0)
    names = score_tasks(protonet(), tasks)[1]
    assert len(set(names.tolist())) == 5
    assert all(name.split("#")[0] in ("north", "south") for name in names)


class Narrow:
    outputs = "probabilities"

    def __init__(self, scale: float = 0.5) -> None:
        self.scale = scale

    def adapt(self, x: Any, y: Any) -> Any:
        return self

    def predict_proba(self, x: Any) -> Any:
        return np.full((len(x), 2 if self.scale == 0.5 else 3), self.scale)


def test_bad_tasks_and_learners_are_named() -> None:
    arrays = X[:3], [0, 1, 2], X[3:5], [0, 1]
    odd = Narrow()
    odd.outputs = "odds"
    cases: list[tuple[Any, Any, str]] = [
        (protonet(), [], "tasks is empty"),
        (protonet(), [Task.from_arrays(*arrays, name="ohio")] * 2, "'ohio' more than once"),
        (protonet(), [Task.from_arrays(*arrays, name=n) for n in (1, "1")], "ids of one type"),
        (Narrow(), episodes(1), r"predict_proba on task .* must .* \(60, 3\), got shape \(60, 2\)"),
        (Narrow(1.0), episodes(1), "predict_proba on task .* adds up to 3"),
        (Narrow(-1.0), episodes(1), "predict_proba on task .* none negative or NaN"),
        (odd, episodes(1), "outputs must be"),
    ]
    for learner, tasks, message in cases:
        with pytest.raises(InvalidInput, match=message):
            score_tasks(learner, tasks)


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "scores.safetensors"
    shots = {"shots": {2: (1, 5), 10: None}}
    Stored(X, labels=LABELS[Y], scores=np.ones(2), tasks=np.arange(2), provenance=shots).save(path)
    found = read_stored(path)
    for array, expected in zip(
        (found.embeddings, found.labels, found.scores, found.tasks),
        (X, LABELS[Y], [1, 1], [0, 1]),
        strict=True,
    ):
        np.testing.assert_array_equal(array, expected)
    assert found.provenance == {"shots": {"2": [1, 5], "10": None}}
    with pytest.raises(InvalidInput, match="provenance must hold only"):
        Stored(scores=np.zeros(1), provenance={"rng": np.random.default_rng(0)}).save(path)

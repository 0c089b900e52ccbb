"""Outputs of models, of every kind and by every route, and the bounds on their rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from metapac import InvalidInput
from metapac.fewshot import (
    MAML,
    MLP,
    CallableLearner,
    ClassPool,
    FixedModel,
    LogisticLearner,
    ProtoNet,
    PrototypeLearner,
    Task,
    score_tasks,
)
from metapac.fewshot.scoring import (
    Outputs,
    adapted_outputs,
    bank_outputs,
    output_kind,
    score_matrix,
)
from metapac.score_functions import ScoreFunction

ONE = np.array([1])
PROBABILISTIC = ["probability", "log_probability", "margin", "cumulative"]
FUNCTIONS = [ScoreFunction(name, t) for name in PROBABILISTIC for t in (1.0, 2.0)]


def points(kind: str, seed: int) -> tuple[Any, Any]:
    rng, y = np.random.default_rng(seed), np.arange(60) % 4
    x = rng.normal(size=(4, 6))[y] + 0.5 * rng.normal(size=(60, 6))
    scale, offset = {"ordinary": (1, 0), "large": (8, 0), "far": (1, 1e3)}[kind]
    return (scale * x + offset).astype(np.float32), y


def drawn_task(x: Any, y: Any, seed: int) -> Task:
    order = np.random.default_rng(seed).permutation(np.flatnonzero(y < 3))
    return Task("a", x, order[:8], y[order[:8]], order[8:28], y[order[8:28]], 3)


def network(seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))


def distances(support_x: Any, support_y: Any, x: Any) -> Any:
    """Minus squared distances to means, in float32, by a product that rounds."""
    result = np.full((len(x), 3), -np.inf, np.float32)
    for label in np.unique(support_y):
        mean = support_x[support_y == label].mean(0)
        result[:, label] = 2 * (x @ mean) - mean @ mean - (x * x).sum(1)
    return result


def softmax32(support_x: Any, support_y: Any, x: Any) -> Any:
    logits = distances(support_x, support_y, x)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def build(kind: str, seed: int) -> Any:
    learners: dict[str, Callable[[], Any]] = {
        "protonet": lambda: ProtoNet(network(seed)),
        "maml": lambda: MAML(MLP(6, width=8, rng=seed), classes=3, steps=1),
        "prototypes": PrototypeLearner,
        "logistic": LogisticLearner,
        "logits": lambda: CallableLearner(distances, outputs="logits"),
        "probabilities": lambda: CallableLearner(softmax32),
    }
    return learners[kind]()


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["ordinary", "large"]),
    which=st.sampled_from(
        ["protonet", "maml", "prototypes", "logistic", "logits", "probabilities"]
    ),
    function=st.sampled_from(FUNCTIONS),
    batch=st.sampled_from([1, 3, 20]),
)
def test_no_deployed_score_is_below_the_calibrated_one(
    seed: int, kind: str, which: str, function: ScoreFunction, batch: int
) -> None:
    # Rounding of float32 probabilities is assumed for logits up to 40, and larger ones are beyond.
    x, y = points("ordinary" if which == "probabilities" else kind, seed)
    learner, task = build(which, seed), drawn_task(x, y, seed)
    alone = Task.from_arrays(
        task.support_x, task.support_y, task.query_x, task.query_y, classes=3, name="b"
    )
    scorer = learner.adapt(task.support_x, task.support_y, classes=3)
    query = task.query_x
    parts = [
        adapted_outputs(learner, scorer, query[i : i + batch], classes=3, name="a").scores(function)
        for i in range(0, 20, batch)
    ]
    deployed = [np.concatenate(parts), score_matrix(learner, task, score=function)]
    if hasattr(learner, "bank"):
        deployed.append(score_matrix(learner, task, score=function, bank=learner.bank(x)))
    for calibrated in (
        score_tasks(learner, [task], score=function)[0],
        score_tasks(learner, [alone], score=function)[0],
    ):
        for scores in deployed:
            assert scores.shape == (20, 3)
            assert (calibrated <= scores[np.arange(20), task.query_y]).all()


@pytest.mark.parametrize("which", ["protonet", "maml", "prototypes", "logistic", "logits"])
@pytest.mark.parametrize("name", PROBABILISTIC)
def test_lowering_ordinary_scores_costs_little(which: str, name: str) -> None:
    x, y = points("ordinary", 3)
    learner, task = build(which, 3), drawn_task(x, y, 3)
    true = score_matrix(learner, task, score=name)[np.arange(20), task.query_y]
    calibrated = score_tasks(learner, [task], score=name)[0]
    if name == "log_probability":
        true, calibrated = np.exp(true), np.exp(calibrated)
    np.testing.assert_allclose(calibrated, true, rtol=2e-3, atol=2e-4)


def test_kinds_of_outputs() -> None:
    task = drawn_task(*points("ordinary", 0), 0)
    assert output_kind(PrototypeLearner()) == "probabilities"
    for learner, kind in (
        (PrototypeLearner(), "logits"),
        (CallableLearner(distances, outputs="logits"), "logits"),
        (CallableLearner(distances, outputs="scores"), "scores"),
        (CallableLearner(softmax32), "probabilities"),
    ):
        scorer = learner.adapt(task.support_x, task.support_y, classes=3)
        outputs = adapted_outputs(learner, scorer, task.query_x, classes=3, name="a")
        assert (outputs.kind, outputs.values.shape) == (kind, (20, 3))
    bank = PrototypeLearner().bank(task.x)
    assert bank_outputs(PrototypeLearner(), bank, task).kind == "logits"


def test_slack_grows_with_logits_and_scores() -> None:
    task = Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.0]], [0], name="a")

    def lowered(scale: float, kind: str, score: str) -> float:
        learner = FixedModel(lambda x: np.array([[0.0, -scale]] * len(x)), outputs=kind)
        outputs = adapted_outputs(learner, learner.adapt(), task.query_x, classes=2, name="a")
        return float(outputs.lowered_scores(ScoreFunction(score), np.array([1]))[0])

    eps = float(np.finfo(float).eps)
    assert lowered(1e6, "scores", "raw") == pytest.approx(-1e6 * (1 + 256 * eps), rel=1e-16)
    assert lowered(1e6, "logits", "log_probability") < -1e6 - 1e6 / 32 * 256 * eps
    single = float(np.finfo(np.float32).eps)
    values = np.array([[0.0, -3200.0]], np.float32)
    bound = Outputs(values, "logits").lowered_scores(ScoreFunction("log_probability"), ONE)
    assert bound[0] == pytest.approx(-3200 - 100 * 256 * single, abs=1e-6)


def test_a_known_error_is_that_of_two_logits() -> None:
    outputs = Outputs(np.array([[0.5, 0.3, 0.0]]), "logits", error=np.array([0.1]))
    for name in PROBABILISTIC:
        function = ScoreFunction(name)
        moved = function(np.array([[0.6, 0.2, 0.1]]), "logits")[0, 1]
        lowered = outputs.lowered_scores(function, ONE)[0]
        assert lowered <= moved
        assert name == "cumulative" or lowered >= moved - 0.05


class Distances:
    """A plain learner that returns minus distances from ``predict_proba``."""

    def __init__(self, outputs: str | None = None) -> None:
        if outputs is not None:
            self.outputs = outputs

    def adapt(self, x: Any, y: Any, *, classes: int | None = None) -> Any:
        outer = (x, y)

        class Scorer:
            def predict_proba(self, x: Any) -> Any:
                return distances(*outer, x)

        return Scorer()


def test_one_rule_for_functions_and_plain_learners() -> None:
    x, y = points("ordinary", 1)
    tasks = ClassPool(x, y).tasks(3, ways=3, shots=3, queries=5, rng=0)
    with pytest.raises(InvalidInput, match=r"predict_proba on task 'pool-0' must return prob.*-\d"):
        score_tasks(Distances(), tasks)
    with pytest.raises(InvalidInput, match=r"^distances must return probabilities, none neg"):
        score_tasks(CallableLearner(distances), tasks)
    for outputs in ("logits", "scores"):
        plain, _ = score_tasks(Distances(outputs), tasks)
        wrapped, _ = score_tasks(CallableLearner(distances, outputs=outputs), tasks)
        np.testing.assert_array_equal(plain, wrapped)
    with pytest.raises(InvalidInput, match="outputs must be 'probabilities' or 'logits' or 'score"):
        score_tasks(Distances("odds"), tasks)


def test_rows_that_add_up_to_3_are_refused() -> None:
    tasks = ClassPool(*points("ordinary", 1)).tasks(1, ways=3, shots=3, queries=5, rng=0)
    with pytest.raises(
        InvalidInput, match="the function of CallableLearner must return .* up to 3"
    ):
        score_tasks(CallableLearner(lambda *parts: np.ones((len(parts[2]), 3))), tasks)
    same, _ = score_tasks(
        CallableLearner(lambda *parts: np.ones((len(parts[2]), 3)), outputs="scores"), tasks
    )
    np.testing.assert_allclose(same, 1)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 10**6),
    cut=st.sampled_from([1e-4, 0.05, 0.5]),
    function=st.sampled_from(FUNCTIONS),
    corner=st.booleans(),
)
def test_lower_bounds_of_all_labels_bound_every_score(
    seed: int, cut: float, function: ScoreFunction, corner: bool
) -> None:
    # All that is known of deployment: no probability is below its bound, and they add up to 1.
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(4, 0.5), 6)
    bounds = p * (1 - cut * rng.random(p.shape))
    weights = np.eye(4)[rng.integers(0, 4, 6)] if corner else rng.dirichlet(np.ones(4), 6)
    deployed = bounds + (1 - bounds.sum(1, keepdims=True)) * weights
    labels = rng.integers(0, 4, 6)
    outputs = Outputs(p, "probabilities", lowered=lambda y: bounds[np.arange(6), y])
    lowered = outputs.lowered_scores(function, labels)
    assert (lowered <= function(deployed)[np.arange(6), labels]).all()

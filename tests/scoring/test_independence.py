"""Learners that look at other queries, or at chance, are caught; all others pass."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from metapac import InvalidInput, fewshot
from metapac.fewshot.scoring import check_independence

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(8), 15)
X = (RNG.normal(size=(8, 5))[Y] + RNG.normal(size=(120, 5))).astype(np.float32)
TASKS = fewshot.ClassPool(X, Y).tasks(4, ways=3, shots=4, queries=6, rng=0)


def score(function: Any, outputs: str = "probabilities", tasks: Any = TASKS) -> None:
    fewshot.score_tasks(fewshot.CallableLearner(function, outputs=outputs), tasks)


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def distances(support_x: Any, support_y: Any, x: Any) -> Any:
    means = np.stack([support_x[support_y == c].mean(0) for c in range(3)])
    return -((x[:, None] - means) ** 2).sum(2)


def sinkhorn(support_x: Any, support_y: Any, x: Any) -> Any:
    """Probabilities whose columns are made equally heavy over the queries."""
    p = softmax(distances(support_x, support_y, x))
    for _ in range(3):
        p = p / p.sum(0)
        p = p / p.sum(1, keepdims=True)
    return p


def standardised(support_x: Any, support_y: Any, x: Any) -> Any:
    """Examples are scaled by the statistics of the queries, as batch norm in training mode does."""
    centre, scale = x.mean(0), x.std(0) + 1e-5
    return softmax(distances((support_x - centre) / scale, support_y, (x - centre) / scale))


def refined(support_x: Any, support_y: Any, x: Any) -> Any:
    """Prototypes move towards the queries, as in soft k-means."""
    means = np.stack([support_x[support_y == c].mean(0) for c in range(3)])
    share = softmax(distances(support_x, support_y, x))
    moved = (means + share.T @ x) / (1 + share.sum(0)[:, None])
    return softmax(-((x[:, None] - moved) ** 2).sum(2))


def test_learners_that_look_at_other_queries_are_refused() -> None:
    def centred(support_x: Any, support_y: Any, x: Any) -> Any:
        logits = distances(support_x, support_y, x)
        return logits - logits.mean(0)

    kinds = [(function, "probabilities") for function in (sinkhorn, standardised, refined)]
    for function, outputs in (*kinds, (centred, "logits"), (centred, "scores")):
        with pytest.raises(InvalidInput, match="must score each query by itself, from the support"):
            score(function, outputs)
    for outputs in ("logits", "scores"):
        score(distances, outputs)


def test_a_learner_left_to_chance_is_refused() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(x: Any) -> Any:
        with torch.no_grad():
            return network(torch.as_tensor(x)).softmax(1).numpy()

    with pytest.raises(InvalidInput, match=r"the same each time, .* eval\(\)"):
        fewshot.score_tasks(fewshot.FixedModel(forward), TASKS)
    network.eval()
    fewshot.score_tasks(fewshot.FixedModel(forward), TASKS)


def test_independent_learners_pass_without_warning() -> None:
    learners: list[Any] = [
        fewshot.ProtoNet(fewshot.MLP(5, rng=0)),
        fewshot.ProtoNet(nn.Identity()),
        fewshot.MAML(fewshot.MLP(5, width=6, rng=0), classes=3, steps=2),
        fewshot.PrototypeLearner(),
        fewshot.PrototypeLearner("cosine", 0.05),
        fewshot.RidgeLearner(1e-3, 0.1),
        fewshot.LogisticLearner(),
        fewshot.SklearnLearner(LogisticRegression()),
        fewshot.SklearnLearner(KNeighborsClassifier(3)),
        fewshot.SklearnLearner(RandomForestClassifier(10)),  # another forest for each task
        fewshot.CallableLearner(lambda *parts: softmax(distances(*parts))),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for learner in learners:
            for seed in range(3):
                fewshot.score_tasks(
                    learner, fewshot.ClassPool(X, Y).tasks(1, ways=3, shots=4, queries=6, rng=seed)
                )


def test_a_precision_that_is_not_declared_is_named() -> None:
    def float32_inside(support_x: Any, support_y: Any, x: Any) -> Any:
        noise = 1e-6 * len(x)  # as batch sizes make in float32
        logits = distances(support_x, support_y, x) + noise * np.arange(3)
        return softmax(logits.astype(np.float64))

    with pytest.warns(UserWarning, match="more than the rounding of float64 explains. Return the"):
        score(float32_inside)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(lambda *parts: float32_inside(*parts).astype(np.float32))


def test_single_queries_and_single_labels_pass_without_warning() -> None:
    tasks = fewshot.ClassPool(X, Y).tasks(3, ways=1, shots=4, queries=1, rng=0)
    score(lambda *parts: np.ones((len(parts[2]), 1)), tasks=tasks)
    check_independence(fewshot.PrototypeLearner(), tasks[0])


def test_the_least_certain_query_is_tried() -> None:
    # Most queries are certain whatever the others are; one is not.
    def mostly_certain(support_x: Any, support_y: Any, x: Any) -> Any:
        p = np.tile([1.0, 0.0, 0.0], (len(x), 1))
        share = 0.5 + 0.01 * len(x)
        p[x[:, 0] == X[TASKS[0].query[-1], 0]] = [share, 1 - share, 0.0]
        return p

    with pytest.raises(InvalidInput, match="query 17 of task 'pool-0' got .0.68, 0.32, 0. among"):
        score(mostly_certain)


def test_queries_are_tried_in_batches_as_large_as_those_scored() -> None:
    def centred_if_many(support_x: Any, support_y: Any, x: Any) -> Any:
        x = x - x.mean(0) if len(x) == 18 else x
        return softmax(distances(support_x, support_y, x))

    with pytest.raises(InvalidInput, match="must score each query by itself"):
        score(centred_if_many)


def test_a_task_of_one_query_does_not_stand_for_the_others() -> None:
    first = fewshot.ClassPool(X, Y, name="small").tasks(1, ways=3, shots=4, queries=1, rng=0)[0]
    single = replace(first, query=first.query[:1], query_y=first.query_y[:1])
    with pytest.raises(InvalidInput, match="must score each query by itself"):
        score(sinkhorn, tasks=[single, TASKS[0]])


def test_raw_scores_that_only_rise_or_fall_are_noticed() -> None:
    for step in (0.1, -0.1):

        def crowded(support_x: Any, support_y: Any, x: Any, step: float = step) -> Any:
            return distances(support_x, support_y, x) + step * len(x)

        with pytest.raises(InvalidInput, match="must score each query by itself"):
            score(crowded, "scores")
        score(crowded, "logits")  # a softmax takes it away


def test_a_learner_that_cannot_score_one_query_is_refused() -> None:
    def normalised(support_x: Any, support_y: Any, x: Any) -> Any:
        if len(x) == 1:
            raise ValueError("Expected more than 1 value per channel when training.")
        return softmax(distances(support_x, support_y, x))

    message = r"cannot score query \d+ of task 'pool-0' alone \(Expected more"
    with pytest.raises(InvalidInput, match=message):
        score(normalised)

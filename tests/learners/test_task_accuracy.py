"""Accuracy on tasks: against plain loops, for every learner, with its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from metapac import InvalidInput
from metapac.fewshot import (
    MAML,
    MLP,
    CallableLearner,
    ClassPool,
    FixedModel,
    GroupPool,
    ProtoNet,
    PrototypeLearner,
    SklearnLearner,
    accuracy,
)
from metapac.fewshot.learners.accuracy import Accuracy

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(8), 12)
X = (RNG.normal(size=(8, 3))[Y] + 0.8 * RNG.normal(size=(96, 3))).astype(np.float32)
POOL = ClassPool(X, Y)
SHAPE: dict[str, Any] = {"ways": 4, "shots": 2, "queries": 3, "tasks": 25, "rng": 6}


def minus_distance(support_x: Any, support_y: Any, x: Any) -> Any:
    means = np.stack([support_x[support_y == c].mean(0) for c in np.unique(support_y)])
    return -((x[:, None] - means) ** 2).sum(2)


LEARNERS = {
    "protonet": ProtoNet(MLP(3, rng=0)),
    "identity": ProtoNet(nn.Identity()),
    "maml": MAML(MLP(3, width=4, rng=0), classes=4, steps=1),
    "prototypes": PrototypeLearner(),
    "sklearn": SklearnLearner(KNeighborsClassifier(1)),
    "callable": CallableLearner(minus_distance, outputs="logits"),
    "scores": CallableLearner(minus_distance, outputs="scores"),
}


def plain_accuracy(learner: Any, pool: Any, tasks: int, rng: int, **shape: Any) -> list[float]:
    shares = []
    for task in pool.tasks(tasks, **shape, rng=rng):
        scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
        guesses = scorer.predict_proba(task.query_x).argmax(1)
        shares.append(float(np.mean(guesses == task.query_y)))
    return shares


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())
def test_accuracy_equals_that_of_tasks_scored_one_by_one(learner: Any) -> None:
    actual = accuracy(learner, POOL, **SHAPE)
    shares = plain_accuracy(learner, POOL, **SHAPE)
    assert actual.value == pytest.approx(np.mean(shares))
    low, high = stats.t.interval(0.95, 24, np.mean(shares), stats.sem(shares))
    right = round(12 * sum(shares))  # of 25 tasks with 12 queries each
    exact = stats.binomtest(right, 300).proportion_ci(0.95, "exact")
    assert actual.low == pytest.approx(min(low, exact.low))
    assert actual.high == pytest.approx(max(high, exact.high))
    assert actual.tasks == 25


def test_groups_have_no_ways() -> None:
    pool = GroupPool(X, Y % 2, np.arange(96) % 6)
    actual = accuracy(PrototypeLearner(), pool, shots=4, queries=5, tasks=10, rng=1)
    expected = plain_accuracy(PrototypeLearner(), pool, 10, 1, shots=4, queries=5)
    assert actual.value == pytest.approx(np.mean(expected))


def test_a_model_that_is_not_adapted_needs_no_support_set() -> None:
    model = FixedModel(lambda x: np.tile([1.0, 0.0], (len(x), 1)))
    pool = GroupPool(X, Y % 2, np.arange(96) % 6, classes=2)
    actual = accuracy(model, pool, shots=0, queries=16, tasks=6)
    assert actual.value == pytest.approx(0.5, abs=0.2)


class Counting(ProtoNet):
    """A ProtoNet that counts the examples it embeds."""

    seen = 0

    def embed(self, x: Any, batch: int = 1024, *, fast: bool = False) -> Any:
        self.seen += len(x)
        return super().embed(x, batch, fast=fast)


@pytest.mark.parametrize(("tasks", "expected"), [(5, 96), (4, 80)])
def test_no_more_is_embedded_than_the_pool_or_the_tasks_hold(tasks: int, expected: int) -> None:
    learner = Counting(nn.Identity())
    accuracy(learner, POOL, **{**SHAPE, "tasks": tasks})  # 20 examples each, 96 in the pool
    assert learner.seen == expected


def test_tasks_with_data_of_their_own_are_adapted_to() -> None:
    class Shift:
        name = "shift"

        def __call__(self, x: Any, rng: np.random.Generator) -> Any:
            return x + rng.normal()

    pool = ClassPool(X, Y, transform=lambda rng: Shift())
    learner = PrototypeLearner()
    expected = plain_accuracy(learner, pool, **SHAPE)
    assert accuracy(learner, pool, **SHAPE).value == pytest.approx(np.mean(expected))


def test_the_interval_stays_within_0_and_1() -> None:
    certain = ClassPool(100.0 * Y[:, None], Y)
    sure = accuracy(PrototypeLearner(), certain, **SHAPE)
    assert (sure.value, sure.high) == (1, 1)
    assert sure.low == pytest.approx(0.025 ** (1 / 300))  # not one of 300 queries is wrong
    one = accuracy(PrototypeLearner(), POOL, **{**SHAPE, "tasks": 1})
    assert (one.low, one.high, one.tasks) == (0.0, 1.0, 1)
    two = accuracy(PrototypeLearner(), POOL, **{**SHAPE, "tasks": 2, "queries": 1})
    assert 0 <= two.low <= two.value <= two.high <= 1


def test_the_interval_covers_the_truth() -> None:
    # 200 intervals at 95 %: fewer than 165 cover with probability 2e-9 if each does so with 0.95.
    truth = accuracy(PrototypeLearner(), POOL, **{**SHAPE, "tasks": 4000, "rng": 99}).value
    covered = 0
    for rng in range(200):
        found = accuracy(PrototypeLearner(), POOL, **{**SHAPE, "tasks": 30, "rng": rng})
        covered += found.low <= truth <= found.high
    assert covered >= 165
    assert stats.binom.cdf(164, 200, 0.94) < 1e-6


def test_it_is_shown_in_one_line() -> None:
    assert str(Accuracy(0.5, 0.25, 0.75, 1)) == "50.0 % (25.0 to 75.0 %, 1 task)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": 0}, "tasks must be a whole number from 1"),
        ({"ways": 9}, "ways"),
        ({"shots": 11}, "at least shots . queries = 14 examples"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        accuracy(PrototypeLearner(), POOL, **{**SHAPE, **options})


def test_the_mode_of_a_network_is_not_changed() -> None:
    learner = ProtoNet(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
    learner.module.train()
    with torch.random.fork_rng():
        accuracy(learner, POOL, **SHAPE)
    assert learner.module.training


def test_the_ends_are_floats_of_python() -> None:
    found = accuracy(PrototypeLearner(), POOL, ways=2, tasks=5)
    assert [type(end) for end in (found.value, found.low, found.high)] == [float] * 3

"""Descriptions tell learners and pools apart, and are the same in another process."""

from __future__ import annotations

import json

import numpy as np
import pytest

from metapac.evaluation.descriptions import describe_learner, describe_pool
from metapac.learners import CallableLearner, PrototypeLearner, SklearnLearner
from metapac.tasks import ClassPool, GroupPool


def guess(support_x: object, support_y: object, x: object) -> object:
    return x


def test_learners_without_weights_are_described_by_their_parameters() -> None:
    from sklearn.linear_model import LogisticRegression

    function = describe_learner(CallableLearner(guess))
    assert (function["class"], function["function"]) == ("CallableLearner", "guess")
    sklearn = describe_learner(SklearnLearner(LogisticRegression(C=0.5)))
    assert sklearn == {"class": "SklearnLearner", "estimator": "LogisticRegression(C=0.5)"}
    one = describe_learner(PrototypeLearner(temperature=2.0))
    assert one != describe_learner(PrototypeLearner())
    assert json.loads(json.dumps(one)) == one


def test_weights_are_part_of_a_description() -> None:
    torch = pytest.importorskip("torch")
    from metapac.learners import MLP, ProtoNet

    learner, same, other = (ProtoNet(MLP(3, rng=seed)) for seed in (0, 0, 1))
    assert describe_learner(learner) == describe_learner(same)
    assert describe_learner(learner)["weights"] != describe_learner(other)["weights"]
    with torch.no_grad():
        next(same.module.parameters()).view(-1)[0] += 1
    assert describe_learner(learner) != describe_learner(same)


def test_pools_are_described_by_their_data() -> None:
    x, y = np.arange(12.0).reshape(6, 2), [0, 0, 1, 1, 0, 1]
    pool = describe_pool(ClassPool(x, y))
    assert {k: v for k, v in pool.items() if k != "checksum"} == {
        "unit": "class",
        "names": 2,
        "examples": 6,
    }
    assert describe_pool(ClassPool(x + 1, y)) != pool
    assert describe_pool(ClassPool(x, y[::-1])) != pool
    groups = [describe_pool(GroupPool(x, y, list(names))) for names in ("aabbcc", "abcabc")]
    assert groups[0] != groups[1]

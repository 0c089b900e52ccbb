"""Leave-one-out scores, and the quantiles predicted from them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot import CallableLearner, FixedModel, MetaCP, ProtoNet, SklearnLearner
from metapac.fewshot.pools import GroupPool
from metapac.fewshot.quantile_predictor import QuantilePredictor, _DeepSet, _train, leave_one_out
from metapac.fewshot.tasks import Task


def task_of(support_y: list[int], rng: int = 0, classes: int = 4) -> Task:
    x = np.random.default_rng(rng).normal(size=(len(support_y), 6)).astype(np.float32)
    return Task.from_arrays(x, support_y, x[:1] + 1, [0], name="task", classes=classes)


@pytest.mark.parametrize(
    "support_y", [[0, 0, 1, 1, 2, 2], [3, 3, 3, 1, 1, 2], [0, 0, 0], [1], [0, 1, 2, 3]], ids=str
)
def test_the_bank_agrees_with_adapting_to_the_other_examples(support_y: list[int]) -> None:
    torch.manual_seed(0)
    learner = ProtoNet(torch.nn.Linear(6, 4))
    task = task_of(support_y)
    result = leave_one_out(learner, task)
    assert result.shape == (len(support_y),)
    fast = learner.bank(task.x).leave_one_out([task])[0]
    np.testing.assert_allclose(fast, result, atol=1e-5)
    lonely = [support_y.count(label) == 1 for label in support_y]
    assert (result[lonely] == 0).all()
    assert (result[np.logical_not(lonely)] > 0).all()


def test_each_example_is_scored_by_the_others_alone() -> None:
    seen = []

    def remember(support_x: Any, support_y: Any, x: Any) -> Any:
        seen.append((support_x[:, 0].tolist(), support_y.tolist(), x[:, 0].tolist()))
        return np.tile([0.1, 0.2, 0.3, 0.4], (len(x), 1))

    task = task_of([3, 1, 3, 1, 0])
    result = leave_one_out(CallableLearner(remember), task)
    assert result.tolist() == [0.4, 0.2, 0.4, 0.2, 0.0]  # the only example of label 0 scores 0
    first = task.x[:5, 0].tolist()
    assert seen == [
        (
            first[:i] + first[i + 1 :],
            [y for j, y in enumerate([3, 1, 3, 1, 0]) if j != i],
            [first[i]],
        )
        for i in range(4)
    ]


def test_the_learner_receives_the_number_of_classes() -> None:
    asked = []

    class Recorder(CallableLearner):
        def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Any:
            asked.append(classes)
            return super().adapt(support_x, support_y, classes=classes)

    leave_one_out(
        Recorder(lambda x, y, new: np.full((len(new), 3), 1 / 3)), task_of([0, 0], classes=3)
    )
    assert asked == [3, 3]


def test_any_learner_can_leave_one_out() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    task = task_of([0, 0, 1, 1, 1])
    nearest = leave_one_out(SklearnLearner(KNeighborsClassifier(1)), task)
    x, y = task.support_x, task.support_y
    for i in range(5):
        distances = np.where(np.arange(5) == i, np.inf, ((x - x[i]) ** 2).sum(1))
        assert nearest[i] == float(y[distances.argmin()] == y[i])
    fixed = leave_one_out(
        FixedModel(lambda x: np.tile([0.7, 0.3], (len(x), 1))), task_of([0, 0], classes=2)
    )
    assert fixed.tolist() == [0.7, 0.7]


def test_a_learner_gets_named_columns_when_one_is_left_out() -> None:
    seen: list[list[str]] = []

    def look(support_x: Any, support_y: Any, x: Any) -> Any:
        seen.extend([list(support_x.columns), list(x.columns)])
        return np.full((len(x), 2), 0.5)

    table = pd.DataFrame({"age": [50, 60, 70], "sex": ["f", "m", "f"]})
    (task,) = GroupPool(table, [0, 0, 1], ["a"] * 3).tasks(shots=2, rng=0)
    leave_one_out(CallableLearner(look), replace(task, support_y=np.zeros(2, np.int64)))
    assert seen == [["age", "sex"]] * 4


@given(
    scores=st.lists(st.sampled_from([-math.inf, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=40),
    epsilon=st.sampled_from([0.05, 0.1, 0.25, 0.3, 0.5, 0.9]),
)
def test_targets_are_quantiles(scores: list[float], epsilon: float) -> None:
    (result,) = QuantilePredictor(epsilon=epsilon).targets(scores, ["a"] * len(scores))
    enough = [
        value
        for value in sorted(-score for score in scores)
        if Fraction(sum(-s <= value for s in scores), len(scores)) >= 1 - Fraction(str(epsilon))
    ]
    assert result == enough[0]


def test_targets_are_in_order_of_first_appearance() -> None:
    scores, tasks = [0.5, 0.1, 0.4, 0.2], ["b", "a", "b", "a"]
    assert QuantilePredictor(epsilon=0.5).targets(scores, tasks).tolist() == [-0.5, -0.2]
    with pytest.raises(ValueError, match="scores holds 1 NaN"):
        QuantilePredictor(epsilon=0.5).targets([math.nan], ["a"])


def made_up(tasks: int, rng: int, support: int = 25) -> tuple[Any, Any]:
    """Tasks of different difficulty: nonconformity minus Beta(a, 1), whose quantiles are known."""
    generator = np.random.default_rng(rng)
    ease = np.exp(generator.normal(1.5, 0.6, tasks))
    supports = -generator.beta(ease[:, None], 1.0, (tasks, support))
    return supports, -(0.1 ** (1 / ease))  # P(-score <= q) = 1 - (-q)^a = 0.9


def test_it_learns_how_hard_a_task_is() -> None:
    predictor = QuantilePredictor(epsilon=0.1, rng=0).fit(*made_up(400, rng=1), epochs=10)
    supports, quantiles = made_up(1000, rng=2)
    error = np.mean((predictor.predict(supports) - quantiles) ** 2)
    assert (
        error < 0.25 * quantiles.var()
    )  # a constant prediction has an error of the whole variance


def test_the_order_of_a_support_set_does_not_matter() -> None:
    supports, quantiles = made_up(50, rng=3)
    predictor = QuantilePredictor(epsilon=0.1, rng=0).fit(supports, quantiles, epochs=1)
    first = predictor.predict(supports)
    assert first.shape == (50,)
    assert np.ptp(first) > 0
    np.testing.assert_allclose(predictor.predict(supports[:, ::-1]), first, rtol=1e-12)
    np.testing.assert_allclose(predictor.predict(np.tile(supports, 2)), first, rtol=1e-12)
    alone = np.concatenate([predictor.predict(row[None]) for row in supports])
    np.testing.assert_allclose(alone, first, rtol=1e-12)


def test_the_result_depends_on_the_seed_alone() -> None:
    data = made_up(64, rng=4)

    def fitted(rng: Any) -> Any:
        return QuantilePredictor(epsilon=0.1, rng=rng).fit(*data, epochs=2).predict(data[0])

    first = fitted(7)
    torch.manual_seed(1)
    np.testing.assert_array_equal(fitted(7), first)
    np.testing.assert_array_equal(fitted(np.random.default_rng(7)), first)
    assert not np.array_equal(fitted(8), first)
    again = QuantilePredictor(epsilon=0.1, rng=7).fit(*made_up(9, rng=5), epochs=1)
    np.testing.assert_array_equal(again.fit(*data, epochs=2).predict(data[0]), first)
    before = torch.get_rng_state()
    fitted(7)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_epoch_uses_every_task_once_in_a_new_order() -> None:
    class Remember(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[float] = []
            self.weight = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

        def forward(self, sets: torch.Tensor) -> torch.Tensor:
            self.seen.extend(sets[:, 0].tolist())
            return sets[:, 0] * self.weight

    module, rows = Remember(), torch.arange(70.0, dtype=torch.float64)
    _train(module, rows[:, None], rows, 2, 0.01, np.random.default_rng(0))
    first, second = module.seen[:70], module.seen[70:]
    assert sorted(first) == sorted(second) == rows.tolist()
    assert first != rows.tolist()
    assert first != second


def test_the_number_of_threads_is_restored() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        QuantilePredictor(epsilon=0.1, rng=0).fit(*made_up(5, rng=0), epochs=1)
        assert torch.get_num_threads() == threads + 1
    finally:
        torch.set_num_threads(threads)


def test_units_do_not_matter() -> None:
    supports, quantiles = made_up(64, rng=6)
    plain = QuantilePredictor(epsilon=0.1, rng=0).fit(supports, quantiles, epochs=3)
    scaled = QuantilePredictor(epsilon=0.1, rng=0)
    scaled.fit(1000 * supports + 5, 1000 * quantiles - 3, epochs=3)
    expected = 1000 * plain.predict(supports) - 3
    np.testing.assert_allclose(scaled.predict(1000 * supports + 5), expected, rtol=1e-6)
    constant = plain.fit(np.full((5, 3), 0.5), np.full(5, -0.25), epochs=50, lr=0.01)
    np.testing.assert_allclose(constant.predict(np.full((1, 3), 0.5)), -0.25, atol=0.05)


def test_the_network_is_that_of_the_paper() -> None:
    sizes = [tuple(weights.shape) for weights in _DeepSet().parameters() if weights.ndim == 2]
    assert sizes == [(64, 1), (64, 64), (64, 64), (64, 64), (1, 64)]


@pytest.mark.parametrize(
    ("supports", "quantiles", "options", "message"),
    [
        (
            [0.5, 0.5],
            [0.1],
            {},
            r"supports must hold a row for each task .* got shape \(2,\). Pass",
        ),
        (np.empty((0, 3)), [], {}, "supports must hold a row for each task"),
        ([[0.5, math.inf]], [0.1], {}, "supports must be finite, got inf at position 1"),
        ([[0.5]], [math.nan], {}, "quantiles must be finite, got nan at position 0"),
        ([[0.5]], [0.1, 0.2], {}, "quantiles and rows of supports must have the same shape"),
        ([[0.5]], [0.1], {"epochs": 0}, "epochs must be a whole number from 1"),
        ([[0.5]], [0.1], {"lr": 0.0}, "lr must be positive, got 0.0. Pass for example lr=0.001"),
    ],
)
def test_bad_input_is_named(supports: Any, quantiles: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuantilePredictor(epsilon=0.1, rng=0).fit(supports, quantiles, **options)


def test_an_untrained_predictor_is_refused() -> None:
    with pytest.raises(ValueError, match="is not trained yet. Call .fit"):
        QuantilePredictor(epsilon=0.1).predict([[0.5]])
    with pytest.raises(ValueError, match="epsilon must be a number strictly between 0 and 1"):
        QuantilePredictor(epsilon=2)


def test_meta_cp_from_learner_to_sets() -> None:
    # Predicted quantiles make smaller sets at the same guarantee than one quantile for all tasks.
    predictor = QuantilePredictor(epsilon=0.1, rng=0).fit(*made_up(400, rng=7), epochs=10)
    generator = np.random.default_rng(8)
    ease = np.exp(generator.normal(1.5, 0.6, 300))
    quantiles = predictor.predict(-generator.beta(ease[:, None], 1.0, (300, 25)))
    scores = generator.beta(ease[:, None], 1.0, (300, 100))
    names = np.repeat(np.arange(300), 100)
    method = MetaCP(epsilon=0.1, delta=0.01).calibrate(scores.ravel(), names, quantiles)
    blind = MetaCP(epsilon=0.1, delta=0.01).calibrate(scores.ravel(), names, np.zeros(300))
    cuts = np.array([method.threshold(quantile) for quantile in quantiles])
    assert np.mean(scores < cuts[:, None]) < 0.1
    assert cuts.mean() > blind.threshold(0.0) + 0.05

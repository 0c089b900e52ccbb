"""Temperatures: against a closed form and a grid, and kept apart from calibration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from metapac import Context, InvalidInput
from metapac.fewshot import (
    CallableLearner,
    ClassPool,
    GroupPool,
    LogisticLearner,
    PrototypeLearner,
    Task,
    fit_temperature,
    score_tasks,
)
from metapac.fewshot.adapters import as_score_function
from metapac.fewshot.scoring import fingerprint, score_matrix
from metapac.score_functions import ScoreFunction

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(12), 15)
X = (RNG.normal(size=(12, 5))[Y] + RNG.normal(size=(180, 5))).astype(np.float32)
SHAPE: dict[str, Any] = {"ways": 3, "shots": 4, "queries": 6}


def tasks(rng: int, count: int = 10) -> Any:
    return ClassPool(X, Y).tasks(count, **SHAPE, rng=rng)


def cross_entropy(learner: Any, drawn: Any, temperature: float) -> float:
    """By a plain loop over queries."""
    losses = []
    for task in drawn:
        p = score_matrix(learner, task, score=ScoreFunction("probability", temperature))
        losses += [-math.log(row[y]) for row, y in zip(p, task.query_y, strict=True) if row[y] > 0]
    return math.fsum(losses) / len(losses)


@pytest.mark.parametrize("right", [0.6, 0.75, 0.9])
def test_the_temperature_of_two_labels_is_known(right: float) -> None:
    # Logits (8, 0) on every example, of which a share is right: softmax must equal the share.
    learner = CallableLearner(lambda *parts: [[8.0, 0.0]] * len(parts[2]), outputs="logits")
    labels = [0] * round(100 * right) + [1] * round(100 * (1 - right))
    task = Task.from_arrays([[0], [1]], [0, 1], [[0]] * 100, labels, name="a")
    expected = 8 / math.log(right / (1 - right))
    assert fit_temperature(learner, [task]).temperature == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("learner", [PrototypeLearner(), LogisticLearner(10.0)])
def test_no_other_temperature_is_better(learner: Any) -> None:
    fitted = fit_temperature(learner, tasks(1)).temperature
    best = cross_entropy(learner, tasks(1), fitted)
    for factor in (0.5, 0.99, 0.999, 1.001, 1.01, 2.0):
        assert cross_entropy(learner, tasks(1), fitted * factor) > best


def test_probabilities_have_a_temperature_too() -> None:
    def probabilities(*parts: Any) -> Any:
        return PrototypeLearner().adapt(*parts[:2]).predict_proba(parts[2])

    same = fit_temperature(CallableLearner(probabilities), tasks(1)).temperature
    expected = fit_temperature(PrototypeLearner(), tasks(1)).temperature
    assert same == pytest.approx(expected, rel=1e-5)


def test_labels_absent_from_the_support_set_are_left_out() -> None:
    pool = GroupPool(X + 3 * np.eye(5, dtype=np.float32)[Y % 3], Y % 3, np.arange(180) % 9)
    drawn = pool.tasks(20, shots=3, queries=10, rng=0)
    assert any(len(np.unique(task.support_y)) < 3 for task in drawn)
    fitted = fit_temperature(PrototypeLearner(), drawn).temperature
    best = cross_entropy(PrototypeLearner(), drawn, fitted)
    for factor in (0.9, 1.1):
        assert cross_entropy(PrototypeLearner(), drawn, fitted * factor) > best


def test_the_name_of_the_score_is_kept() -> None:
    fitted = fit_temperature(PrototypeLearner(), tasks(1), score="margin")
    assert str(fitted).startswith(f"margin(temperature={fitted.temperature!r}); fitted_on=")
    scores, _ = score_tasks(PrototypeLearner(), tasks(2), score=fitted)
    for task, part in zip(tasks(2), np.split(scores, 10), strict=True):
        matrix = score_matrix(PrototypeLearner(), task, score=fitted)
        true = matrix[np.arange(18), task.query_y]
        assert (part <= true).all()
        np.testing.assert_allclose(part, true, atol=1e-9)


def test_tasks_that_were_fitted_on_are_not_calibrated_on() -> None:
    fitted = fit_temperature(PrototypeLearner(), tasks(1))
    score_tasks(PrototypeLearner(), tasks(2), score=fitted)
    with pytest.raises(InvalidInput, match=r"temperature of score='prob.* fitted on task 'pool-3'"):
        score_tasks(PrototypeLearner(), [*tasks(2)[:3], tasks(1)[3]], score=fitted)
    # Nor after a round trip through text, such as the command line or a promise file.
    text = Context.from_json(Context(score=fitted).to_json()).score
    again = as_score_function(text)
    assert (again, again.fitted_on) == (fitted, fitted.fitted_on)
    with pytest.raises(InvalidInput, match=r"temperature of score='prob[^+]* fitted on task"):
        score_tasks(PrototypeLearner(), [tasks(1)[3]], score=text)
    # Positions and labels are those of other data: the pool is another one.
    other = ClassPool(X + 1, Y).tasks(10, **SHAPE, rng=1)
    score_tasks(PrototypeLearner(), other, score=fitted)


def test_texts_have_fingerprints() -> None:
    first, same, other = (
        Task.from_arrays(["a", "b"], [0, 1], [text], [0], name=name)
        for text, name in (("c", 0), ("c", 1), ("d", 2))
    )
    assert fingerprint(first) == fingerprint(same) != fingerprint(other)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0, 0], "tasks must be neither all right nor no better than chance .* beyond 0.001"),
        ([1, 1, 0], "tasks must be neither all right nor no better than chance .* beyond 1e\\+03"),
    ],
)
def test_a_temperature_without_bounds_is_refused(labels: list[int], message: str) -> None:
    learner = CallableLearner(lambda *parts: [[1.0, 0.0]] * len(parts[2]), outputs="logits")
    task = Task.from_arrays([[0], [1]], [0, 1], [[0]] * 3, labels, name="a")
    with pytest.raises(InvalidInput, match=message):
        fit_temperature(learner, [task])


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match="tasks must hold queries whose label is in the supp"):
        fit_temperature(PrototypeLearner(), [])
    with pytest.raises(InvalidInput, match="score must be 'probability' or"):
        fit_temperature(PrototypeLearner(), tasks(1), score="aps")
    raw = CallableLearner(lambda *parts: np.ones((len(parts[2]), 3)), outputs="scores")
    with pytest.raises(InvalidInput, match="must be 'raw' for a learner whose outputs are scores"):
        fit_temperature(raw, tasks(1))

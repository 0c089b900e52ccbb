"""Score functions against plain loops, their names, and temperatures fitted on validation tasks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import Context, InvalidInput, fewshot
from metapac.context import decode_context, encode_context
from metapac.fewshot.adapters import as_score_function
from metapac.fewshot.scoring import score_matrix
from metapac.score_functions import NAMES, ScoreFunction
from tests.helpers.refusals import assert_refused

PROBABILISTIC = [name for name in NAMES if name != "raw"]
SEVEN: Any = 7
RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(12), 15)
X = (RNG.normal(size=(12, 5))[Y] + RNG.normal(size=(180, 5))).astype(np.float32)


def tasks(rng: int, count: int = 10) -> Any:
    return fewshot.ClassPool(X, Y).tasks(count, ways=3, shots=4, queries=6, rng=rng)


def plain(name: str, p: list[float], label: int) -> float:
    """The definition, in Python floats."""
    others = [q for c, q in enumerate(p) if c != label]
    if name == "margin":
        return p[label] - max(others, default=0.0)
    if name == "cumulative":
        return math.fsum(q for q in p if q <= p[label])
    if name == "log_probability":
        return math.log(p[label]) if p[label] > 0 else -math.inf
    return p[label]


def softmax(logits: Any, temperature: float = 1.0) -> list[float]:
    top = max(logits)
    odds = [math.exp((logit - top) / temperature) for logit in logits]
    return [weight / math.fsum(odds) for weight in odds]


@given(
    logits=st.lists(st.floats(-30, 30), min_size=1, max_size=6),
    name=st.sampled_from(PROBABILISTIC),
    temperature=st.sampled_from([1.0, 0.3, 2.5]),
)
def test_scores_are_those_of_a_loop(logits: list[float], name: str, temperature: float) -> None:
    p = softmax(logits, temperature)
    near = [any(0 < abs(a - b) < 1e-9 * a for b in p) for a in p]
    is_kept = ~np.array(near) | (name != "cumulative")  # nearly tied labels may change places
    expected = np.array([plain(name, p, label) for label in range(len(p))])
    actual = ScoreFunction(name, temperature)([logits], "logits")[0]
    np.testing.assert_allclose(actual[is_kept], expected[is_kept], rtol=1e-9, atol=1e-12)
    by_probabilities = np.array([softmax(logits)])
    by_probabilities /= max(1.0, by_probabilities.sum())
    expected = np.array([plain(name, [*by_probabilities[0]], label) for label in range(len(p))])
    actual = ScoreFunction(name)(by_probabilities)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-15)


def test_names_round_trip() -> None:
    for name in NAMES:
        assert as_score_function(str(ScoreFunction(name))) == ScoreFunction(name)
    fitted = ScoreFunction("margin", 1.2345678901234567, frozenset({"a"}))
    again = as_score_function(str(fitted))
    assert (again, again.temperature) == (fitted, 1.2345678901234567)
    assert as_score_function(fitted) is fitted
    assert as_score_function(None).name == "probability"
    assert as_score_function(None, "scores").name == "raw"


def test_bad_input_is_named() -> None:
    bad: list[tuple[Any, ...]] = [("margin", value) for value in (0, math.nan, True)]
    for arguments in (*bad, ("raw", 2.0)):
        assert_refused("temperature", ScoreFunction, *arguments)
    assert_refused("score", ScoreFunction, "aps")
    assert_refused("outputs", ScoreFunction(), [[1.0]], "odds")


def cross_entropy(learner: Any, drawn: Any, temperature: float) -> float:
    """By a plain loop over queries."""
    losses = []
    for task in drawn:
        p = score_matrix(learner, task, score=ScoreFunction("probability", temperature))
        losses += [-math.log(row[y]) for row, y in zip(p, task.query_y, strict=True) if row[y] > 0]
    return math.fsum(losses) / len(losses)


def test_the_temperature_of_two_labels_is_known() -> None:
    # Logits (8, 0) on every example, of which a share is right: softmax must equal the share.
    learner = fewshot.CallableLearner(lambda *parts: [[8.0, 0.0]] * len(parts[2]), outputs="logits")
    for right in (60, 75, 90):
        labels = [0] * right + [1] * (100 - right)
        task = fewshot.Task.from_arrays([[0], [1]], [0, 1], [[0]] * 100, labels, name="a")
        expected = 8 / math.log(right / (100 - right))
        assert fewshot.fit_temperature(learner, [task]).temperature == pytest.approx(
            expected, rel=1e-6
        )


def test_no_other_temperature_is_better() -> None:
    pool = fewshot.GroupPool(X + 3 * np.eye(5, dtype=np.float32)[Y % 3], Y % 3, np.arange(180) % 9)
    groups = pool.tasks(20, shots=3, queries=10, rng=0)
    assert any(len(np.unique(task.support_y)) < 3 for task in groups)  # these are left out
    cases = [(fewshot.PrototypeLearner(), tasks(1)), (fewshot.LogisticLearner(10.0), tasks(1))]
    for learner, drawn in (*cases, (fewshot.PrototypeLearner(), groups)):
        fitted = fewshot.fit_temperature(learner, drawn).temperature
        best = cross_entropy(learner, drawn, fitted)
        for factor in (0.5, 0.99, 1.01, 2.0):
            assert cross_entropy(learner, drawn, fitted * factor) > best


def test_tasks_that_were_fitted_on_are_not_calibrated_on() -> None:
    fitted = fewshot.fit_temperature(fewshot.PrototypeLearner(), tasks(1), score="margin")
    assert str(fitted).startswith(f"margin(temperature={fitted.temperature!r}); fitted_on=")
    fewshot.score_tasks(fewshot.PrototypeLearner(), tasks(2), score=fitted)
    # Nor after a round trip through text, such as the command line or a promise file.
    text = decode_context(encode_context(Context(score=fitted))).score
    for score in (fitted, text):
        message = r"score='margin[^+]* was fitted on task 'pool-3'"
        with pytest.raises(InvalidInput, match=message):
            fewshot.score_tasks(
                fewshot.PrototypeLearner(), [*tasks(2)[:3], tasks(1)[3]], score=score
            )
    # Positions and labels are those of other data: the pool is another one.
    others = fewshot.ClassPool(X + 1, Y).tasks(10, ways=3, shots=4, queries=6, rng=1)
    fewshot.score_tasks(fewshot.PrototypeLearner(), others, score=fitted)
    texts = fewshot.CallableLearner(lambda *parts: [[8.0, 0.0]] * len(parts[2]), outputs="logits")
    first, same, other = (
        fewshot.Task.from_arrays(["a", "b"], [0, 1], [*text], [0, 0, 1], name=name)
        for text, name in (("ccc", 0), ("ccc", 1), ("dcc", 2))
    )
    on_texts = fewshot.fit_temperature(texts, [first])
    fewshot.score_tasks(texts, [other], score=on_texts)
    with pytest.raises(InvalidInput, match="was fitted on task 1"):
        fewshot.score_tasks(texts, [same], score=on_texts)


def test_a_temperature_that_cannot_be_fitted_is_refused() -> None:
    learner = fewshot.CallableLearner(lambda *parts: [[1.0, 0.0]] * len(parts[2]), outputs="logits")
    raw = fewshot.CallableLearner(lambda *parts: np.ones((len(parts[2]), 2)), outputs="scores")
    right, wrong = (
        fewshot.Task.from_arrays([[0], [1]], [0, 1], [[0]] * 3, labels, name="a")
        for labels in ([0, 0, 0], [1, 1, 0])
    )
    cases: list[tuple[Any, Any, Any, str]] = [
        (learner, [right], "margin", "beyond 0.001"),
        (learner, [wrong], "margin", r"beyond 1e\+03"),
        (learner, [], "margin", "tasks must hold queries whose label is in the support"),
        (learner, [wrong], "aps", "score must be 'probability' or"),
        (raw, [wrong], "margin", "must be 'raw' for a learner whose outputs are scores"),
    ]
    for model, drawn, score, message in cases:
        with pytest.raises(InvalidInput, match=message):
            fewshot.fit_temperature(model, drawn, score=score)

"""Score functions against plain loops and enumeration, and bounds that no rounding falls below."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import InvalidInput
from metapac.fewshot.adapters import LOWER, as_score_function, lower_true_scores
from metapac.score_functions import KINDS, NAMES, ScoreFunction

PROBABILISTIC = [name for name in NAMES if name != "raw"]


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


SEVEN: Any = 7
rows = st.lists(st.floats(-30, 30), min_size=1, max_size=6)
temperatures = st.sampled_from([1.0, 0.3, 2.5])


@given(logits=rows, name=st.sampled_from(PROBABILISTIC), temperature=temperatures)
def test_logits_are_scored_as_by_a_plain_loop(
    logits: list[float], name: str, temperature: float
) -> None:
    actual = ScoreFunction(name, temperature)([logits], "logits")[0]
    p = softmax(logits, temperature)
    expected = [plain(name, p, label) for label in range(len(p))]
    if name == "cumulative":  # nearly tied labels may change places
        near = [any(0 < abs(a - b) < 1e-9 * a for b in p) for a in p]
        actual, expected = (
            actual[~np.array(near)],
            [e for e, n in zip(expected, near, strict=True) if not n],
        )
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


@given(logits=rows, name=st.sampled_from(PROBABILISTIC))
def test_probabilities_are_scored_as_by_a_plain_loop(logits: list[float], name: str) -> None:
    p = np.array([softmax(logits)])
    p /= max(1.0, p.sum())
    expected = [plain(name, p[0].tolist(), label) for label in range(p.shape[1])]
    np.testing.assert_allclose(ScoreFunction(name)(p)[0], expected, rtol=1e-12, atol=1e-15)


def test_the_definitions_on_one_row() -> None:
    p = np.array([[0.4, 0.3, 0.3, 0.0]])
    assert ScoreFunction("margin")(p)[0] == pytest.approx([0.1, -0.1, -0.1, -0.4])
    assert ScoreFunction("cumulative")(p)[0] == pytest.approx([1.0, 0.6, 0.6, 0.0])
    assert ScoreFunction("log_probability")(p)[0, 3] == -np.inf
    assert ScoreFunction("probability")(p) is p
    np.testing.assert_array_equal(ScoreFunction("raw")([[-3, 7]], "scores"), [[-3.0, 7.0]])
    # No set is empty: the most probable label always has the highest score there is.
    assert ScoreFunction("cumulative")([[0.2] * 5])[0] == pytest.approx([1.0] * 5)


def test_the_order_of_labels_is_that_of_their_probabilities() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(7), 50)
    for name in PROBABILISTIC:
        scores = ScoreFunction(name, temperature=1.7)(p)
        np.testing.assert_array_equal(scores.argsort(1), p.argsort(1))


@settings(max_examples=300)
@given(
    logits=st.lists(st.integers(-20 * 1024, 20 * 1024), min_size=2, max_size=5),
    moves=st.lists(st.integers(-64, 64), min_size=5, max_size=5),
    offset=st.integers(-100, 100),
    name=st.sampled_from(PROBABILISTIC),
    temperature=temperatures,
    data=st.data(),
)
def test_no_rounding_of_logits_falls_below_the_bound(
    logits: list[int], moves: list[int], offset: int, name: str, temperature: float, data: Any
) -> None:
    # Multiples of 2**-10, so that adding them rounds nothing; all labels may move together.
    label = data.draw(st.integers(0, len(logits) - 1))
    moved = [a + b + offset for a, b in zip(logits, moves, strict=False)]
    apart = [abs(m - n) for m, n in zip(moved, logits, strict=True)]
    assert len(apart) == len(logits)
    slack = max(abs(moves[c] - moves[label]) for c in range(len(logits))) / 1024
    function = ScoreFunction(name, temperature)
    first, second = (np.array([row]) / 1024 for row in (logits, moved))
    lowered = lower_true_scores(function, first, [label], kind="logits", slack=slack)
    assert lowered[0] <= function(second, "logits")[0, label]
    exact = lower_true_scores(function, first, [label], kind="logits")
    assert exact[0] <= function(first, "logits")[0, label]
    assert lowered[0] <= exact[0]


@settings(max_examples=200)
@given(
    weights=st.lists(st.floats(0, 1), min_size=2, max_size=5).filter(lambda w: sum(w) > 1e-3),
    total=st.sampled_from([1.0, 1.0, 0.6]),
    moves=st.lists(st.integers(-8, 8), min_size=5, max_size=5),
    precision=st.sampled_from([np.float16, np.float32, np.float64]),
    name=st.sampled_from(PROBABILISTIC),
    temperature=temperatures,
    data=st.data(),
)
def test_no_rounding_of_probabilities_falls_below_the_bound(
    weights: list[float],
    total: float,
    moves: list[int],
    precision: Any,
    name: str,
    temperature: float,
    data: Any,
) -> None:
    # Each probability moves by a few floats of its precision, on its own.
    label = data.draw(st.integers(0, len(weights) - 1))
    p = (np.array([weights]) / sum(weights) * total * 0.998).astype(precision)
    moved = p.copy()
    for c in range(p.shape[1]):
        for _ in range(abs(moves[c])):
            moved[0, c] = np.nextafter(moved[0, c], precision(2 * (moves[c] > 0)))
    function = ScoreFunction(name, temperature)
    slack = 2 * 8 * float(np.finfo(precision).eps)
    lowered = lower_true_scores(function, p, [label], slack=slack)
    assert lowered[0] <= function(moved)[0, label]


@pytest.mark.parametrize("name", PROBABILISTIC)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_bounds_cost_little(name: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 3, (200, 5))
    outputs = logits if kind == "logits" else np.array([softmax(row) for row in logits])
    labels = rng.integers(0, 5, 200)
    function = ScoreFunction(name)
    true = function(outputs, kind)[np.arange(200), labels]
    for slack in (0.0, 1e-6, 1e-3):
        lowered = lower_true_scores(function, outputs, labels, kind=kind, slack=slack)
        assert (lowered <= true).all()
        np.testing.assert_allclose(lowered, true, rtol=3 * slack + 1e-11, atol=2 * slack + 1e-12)


def test_spread_widens_the_bound_as_far_as_said() -> None:
    p, gap = np.array([[0.5, 0.3, 0.2]]), 0.01
    for name in PROBABILISTIC:
        function = ScoreFunction(name)
        moved = np.array([[0.5, 0.3 + gap, 0.2 - gap]])
        lowered = lower_true_scores(function, p, [0], spread=gap)
        assert lowered[0] <= function(moved)[0, 0]
        exact = lower_true_scores(function, p, [0])[0]
        assert lowered[0] < exact or name == "cumulative"


def test_certain_and_impossible_labels_have_finite_bounds() -> None:
    logits = np.array([[0.0, -800.0, -np.inf], [0.0, -5.0, -np.inf]])
    for label, slack in ((0, 1e-9), (1, 1e-9), (2, 1e-9), (1, np.inf)):
        for name in PROBABILISTIC:
            function = ScoreFunction(name)
            lowered = lower_true_scores(
                function, logits, [label, label], kind="logits", slack=slack
            )
            assert not np.isnan(lowered).any()
            assert (lowered <= function(logits, "logits")[:, label]).all()
    assert (
        lower_true_scores(ScoreFunction("log_probability"), logits[:1], [1], kind="logits")[0]
        > -801
    )
    zeros = np.zeros((1, 3))  # no label is possible
    for name in PROBABILISTIC:
        for function in (ScoreFunction(name), ScoreFunction(name, 2.0)):
            assert not np.isnan(function(zeros)).any()
            assert lower_true_scores(function, zeros, [1])[0] <= function(zeros)[0, 1]


def test_raw_outputs_are_lowered_by_the_slack_alone() -> None:
    function = ScoreFunction("raw")
    assert lower_true_scores(function, [[5.0, -3.0]], [1], kind="scores", slack=0.5) == [-3.5]
    single = np.array([[5.0, -3.0]], np.float32)
    assert lower_true_scores(function, single, [0], kind="scores").dtype == np.float32


def test_names_round_trip() -> None:
    for name in NAMES:
        assert as_score_function(str(ScoreFunction(name))) == ScoreFunction(name)
    fitted = ScoreFunction("margin", 1.2345678901234567, frozenset({"a"}))
    again = as_score_function(str(fitted))
    assert again == fitted
    assert again.temperature == 1.2345678901234567
    assert as_score_function(fitted) is fitted
    assert as_score_function(None).name == "probability"
    assert as_score_function(None, "scores").name == "raw"


@pytest.mark.parametrize(
    ("action", "parameter"),
    [
        (lambda: ScoreFunction("aps"), "score"),
        (lambda: ScoreFunction("margin", 0), "temperature"),
        (lambda: ScoreFunction("margin", math.nan), "temperature"),
        (lambda: ScoreFunction("margin", math.inf), "temperature"),
        (lambda: ScoreFunction("margin", True), "temperature"),
        (lambda: ScoreFunction("raw", 2.0), "temperature"),
        (lambda: as_score_function("margin(temperature=x)"), "score"),
        (lambda: as_score_function("margin(temperature=-1)"), "score"),
        (lambda: as_score_function(SEVEN), "score"),
        (lambda: as_score_function("margin", "scores"), "score"),
        (lambda: ScoreFunction()([[1.0]], "odds"), "outputs"),
        (lambda: lower_true_scores(ScoreFunction(), [[1.0]], [0], kind="odds"), "outputs"),
    ],
)
def test_bad_input_is_named(action: Any, parameter: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{parameter} must") as raised:
        action()
    assert raised.value.parameters == (parameter,)


def test_kinds_are_listed() -> None:
    assert KINDS == ("probabilities", "logits", "scores")


def test_a_label_without_probability_has_the_margin_of_the_others() -> None:
    p = np.array([[0.0, 0.6, 0.4]])
    for outputs, kind in ((p, "probabilities"), (np.array([[-np.inf, 0.3, -0.2]]), "logits")):
        function = ScoreFunction("margin")
        score = function(outputs, kind)[0, 0]
        lowered = lower_true_scores(function, outputs, [0], kind=kind, slack=1e-6)[0]
        assert score - 1e-5 < lowered <= score


@pytest.mark.parametrize("slack", [0.01, 0.5])
def test_the_margin_of_an_impossible_label_allows_for_rounding(slack: float) -> None:
    function, logits = ScoreFunction("margin", 2.0), np.array([[-np.inf, 0.3, -0.2]])
    moved = logits + np.array([[0.0, slack, 0.0]])
    lowered = lower_true_scores(function, logits, [0], kind="logits", slack=slack)
    assert lowered[0] <= function(moved, "logits")[0, 0]


def test_numbers_that_lose_their_digits_count_as_0() -> None:
    p = np.array([[1.0, 2.0**-23]], np.float16)  # two steps above 0, and then one
    moved = np.array([[1.0, 2.0**-24]], np.float16)
    assert 0 < moved[0, 1] < p[0, 1] < np.finfo(np.float16).tiny
    for name in PROBABILISTIC:
        lowered = lower_true_scores(ScoreFunction(name), p, [1], slack=0.25)
        assert lowered[0] <= ScoreFunction(name)(moved)[0, 1]


def score_of_weights(name: str, ratios: list[float]) -> float:
    """Score of a label of weight 1 among others; the last one has no column."""
    total = 1 + math.fsum(ratios)
    named = ratios[:-1]
    if name == "margin":
        return (1 - max(named, default=0.0)) / total
    if name == "cumulative":
        return (1 + math.fsum(r for r in named if r <= 1)) / total
    return 1 / total if name == "probability" else -math.log(total)


@given(
    name=st.sampled_from(sorted(LOWER)),
    middle=st.lists(st.floats(-6, 6), min_size=1, max_size=4),
    rest=st.sampled_from([-math.inf, -2.0]),
    slack=st.sampled_from([0.01, 0.5]),
)
def test_bounds_are_below_every_extreme_case_and_near_the_lowest(
    name: str, middle: list[float], rest: float, slack: float
) -> None:
    values = [*middle, rest]
    true = [-math.inf]  # the column of the true label itself
    highest = np.array([true + [v + slack for v in values]])
    lowest = np.array([true + [v - slack for v in values]])
    lowered = float(LOWER[name](highest, lowest, 0.0)[0])
    corners = itertools.product(*[(v - slack, v + slack) for v in values])
    cases = [score_of_weights(name, [math.exp(v) for v in corner]) for corner in corners]
    assert lowered <= min(cases) + 1e-12
    # Cumulative scores jump where a label comes level with the true one; margins are bounded by
    # a numerator and a denominator that need not be lowest together.
    room = 2 * slack * abs(min(cases)) if name == "margin" else 1e-9
    if name != "cumulative" or all(abs(v) > slack + 1e-9 for v in middle):
        room += slack if name == "cumulative" else 0.0
        assert lowered >= min(cases) - room - 1e-12


@pytest.mark.parametrize("name", sorted(LOWER))
def test_rounding_is_taken_off(name: str) -> None:
    highest = np.array([[-np.inf, -1.0, -2.0, -np.inf]])
    exact, lowered = (LOWER[name](highest, highest, rounding)[0] for rounding in (0.0, 1e-6))
    assert exact - 3e-6 < lowered < exact - 0.4e-6


def test_nothing_but_the_label_is_certain() -> None:
    nothing = np.full((1, 2), -np.inf)
    expected = {"probability": 1, "log_probability": 0, "margin": 1, "cumulative": 1}
    for name, value in expected.items():
        assert LOWER[name](nothing, nothing, 0.0)[0] == pytest.approx(value)

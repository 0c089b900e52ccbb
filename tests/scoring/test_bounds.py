"""Bounds on scores against the enumeration of all extreme cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.score_functions import LOWER, cumulate, finite, highest_other, log_sum, take

odds = st.lists(st.floats(-6, 6), min_size=1, max_size=4)


def score(name: str, ratios: list[float]) -> float:
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
    middle=odds,
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
    cases = [score(name, [math.exp(v) for v in corner]) for corner in corners]
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


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_sums_and_maxima_equal_plain_loops(weights: list[int]) -> None:
    p = np.array([weights], float)
    for label, own in enumerate(weights):
        assert cumulate(p)[0, label] == sum(w for w in weights if w <= own)
        others = [w for c, w in enumerate(weights) if c != label]
        assert highest_other(p)[0, label] == max(others, default=0)


def test_logarithms_of_sums() -> None:
    rows = np.array([[0.0, math.log(3), -np.inf], [-np.inf] * 3, [1000.0, 1000.0, -np.inf]])
    assert log_sum(rows)[:, 0] == pytest.approx([math.log(4), -math.inf, 1000 + math.log(2)])
    assert finite(np.array([2.0, -np.inf])).tolist() == [2.0, 0.0]
    assert take(rows, np.array([1, 0, 2])).tolist() == [math.log(3), -math.inf, -math.inf]

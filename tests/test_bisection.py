"""Bisection: the smallest number that works, and no smaller one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metapac.binomial import min_integer, min_value, round_up


@given(low=st.integers(0, 50), answer=st.integers(1, 100), extra=st.integers(0, 100))
def test_the_smallest_integer_is_found_by_bisection(low: int, answer: int, extra: int) -> None:
    target = low + answer
    assert min_integer(lambda n: n >= target, low, target + extra) == target


@given(answer=st.floats(1e-300, 0.999))
def test_the_smallest_value_is_found_by_bisection(answer: float) -> None:
    value = min_value(lambda x: x >= answer)
    assert value is not None
    assert answer <= value <= answer * (1 + 1e-14)


def test_no_value_may_work() -> None:
    assert min_value(lambda _: False) is None


@given(value=st.floats(1e-300, 0.999))
def test_rounding_up_never_rounds_down(value: float) -> None:
    up = round_up(value)
    assert value <= up <= value * 1.011
    assert float(f"{up:.3g}") == up

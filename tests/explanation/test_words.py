"""Plurals, and thresholds that are never rounded up."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.words import inflect, round_down

thresholds = st.floats(allow_nan=False, allow_infinity=False)


@given(thresholds)
def test_thresholds_are_rounded_down_by_less_than_one_unit_of_the_third_digit(x: float) -> None:
    shown = Decimal(round_down(x))
    exact = Decimal(repr(x))
    assert shown <= exact
    assert float(shown) <= x
    assert len(shown.normalize().as_tuple().digits) <= 3
    if exact:
        assert exact - shown < Decimal(10) ** (exact.adjusted() - 2)


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("hospital", "hospitals"),
        ("city", "cities"),
        ("day", "days"),
        ("class", "classes"),
        ("box", "boxes"),
        ("branch", "branches"),
        ("person/people", "people"),
        (" child / children ", "children"),
        ("y", "ies"),
    ],
)
def test_plurals(noun: str, plural: str) -> None:
    assert inflect(noun) == (noun.split("/")[0].strip(), plural)

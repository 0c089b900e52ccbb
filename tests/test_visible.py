"""Text from data as it may be shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac._text import visible, without_invisible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;PWNED\x07\x1b[2J", r"\x1b]0;PWNED\x07\x1b[2J"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x7f\x80\x9b31m", r"\x7f\x80\x9b31m"),
        ("safe\u202egpj.exe", r"safe\u202egpj.exe"),
        ("\u2066\u2069\u200b\u2028\ufeff", r"\u2066\u2069\u200b\u2028\ufeff"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\U000e0041"),
        ("Zürich 東京 שלום 😀 Ωμέγα\u0301", "Zürich 東京 שלום 😀 Ωμέγα\u0301"),
    ],
)
def test_what_is_unsafe_becomes_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_the_result_is_safe_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert not any(unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "RLI") for c in shown)
    assert visible(shown) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Mn", "Zs"])))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible(text) == text


def test_invisible_characters_are_dropped_but_blanks_stay() -> None:
    assert without_invisible("\ufeffs\u200b1\x00 a\tb\nc\u00ad") == "s1 a\tb\nc"

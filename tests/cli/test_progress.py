"""The progress bar."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from metapac.cli import console


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    text = io.StringIO()
    monkeypatch.setattr(console, "stderr", Console(file=text, force_terminal=True, width=100))
    return text


def test_stages_take_turns(screen: io.StringIO) -> None:
    with console.progress_bar() as advance:
        advance("loading", 0, None)
        advance("training, loss 0.50", 1, 4)
        advance("training, loss 0.25", 2, 4)
    shown = screen.getvalue()
    assert "training, loss 0.25" in shown
    assert "2/4" in shown


def test_nothing_is_shown_unless_visible_on_a_terminal(
    screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    with console.progress_bar(visible=False) as advance:
        advance("training", 1, 2)
    assert screen.getvalue() == ""
    piped = io.StringIO()
    monkeypatch.setattr(console, "stderr", Console(file=piped, force_terminal=False))
    with console.progress_bar() as advance:
        advance("training", 1, 2)
    assert piped.getvalue() == ""


def test_names_in_a_stage_are_neither_markup_nor_control_characters(screen: io.StringIO) -> None:
    with console.progress_bar() as advance:
        advance("reading [red]\x1b]0;PWNED\x07", 1, 4)
    assert "[red]" in screen.getvalue()
    assert r"\x1b]0;PWNED\x07" in screen.getvalue()
    assert "\x1b]0" not in screen.getvalue()

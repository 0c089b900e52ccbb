"""Printing to standard output and standard error."""

from __future__ import annotations

import json

import pytest

from metapac.cli.console import print_error, print_json, print_line


def test_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[red]not markup[/red] " + "never wrapped " * 20
    print_line(text)
    print_error("[b]bad[/b]")
    printed = capsys.readouterr()
    assert printed.out == f"{text}\n"
    assert printed.err == "metapac: [b]bad[/b]\n"


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"name": "[x]", "numbers": list(range(100))}
    print_json(value)
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert json.loads(printed) == value

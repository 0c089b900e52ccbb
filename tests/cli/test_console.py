"""Printing to standard output and standard error: whatever the data hold, it steers no terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac.cli import console
from metapac.cli.console import (
    SafeConsole,
    VisibleText,
    make_cell,
    make_table,
    open_data_output,
    print_error,
    print_json,
    print_line,
    print_text,
)

EVIL = "\x1b]0;PWNED\x07\x1b[2J\x9b1m\u202e"
SHOWN = r"\x1b]0;PWNED\x07\x1b[2J\x9b1m\u202e"


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


def test_control_characters_and_line_breaks_are_visible(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(f"task {EVIL}\nforged")
    print_error(f"task {EVIL}\nforged")
    printed = capsys.readouterr()
    assert printed.out == f"task {SHOWN}\\nforged\n"
    assert printed.err == f"metapac: task {SHOWN}\\nforged\n"


def test_json_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    names = [EVIL, "\x7f", "\x85", "\udc80", "Zürich"]
    print_json(names)
    printed = capsys.readouterr().out
    assert printed.rstrip("\n").isprintable()
    assert printed.isascii()
    assert json.loads(printed) == names


def test_paragraphs_are_wrapped_and_items_indented(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.stdout, "_width", 20)
    print_text(f"[b]one two three four five\n\n- one two three four five\n- {EVIL}")
    lines = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in lines[:5]] == [
        "[b]one two three", "four five", "", "- one two three four", "  five",
    ]  # fmt: skip
    assert "".join(line[2:].rstrip() for line in lines[5:]) == SHOWN


@pytest.mark.parametrize("terminal", [True, False])
def test_whatever_is_printed_steers_no_terminal(terminal: bool) -> None:
    text = io.StringIO()
    screen = SafeConsole(
        file=text, force_terminal=terminal, color_system=None, highlight=False, width=120
    )
    table = make_table([f"h {EVIL}"], [f"r {EVIL}"], f"title {EVIL}")
    table.add_row(f"cell {EVIL}", make_cell(f"cell {EVIL}"))
    screen.print(table)
    screen.print(EVIL, markup=False)
    screen.print(f"[link={EVIL}]x[/link]", markup=False)
    shown = text.getvalue()
    assert all(line.isprintable() for line in shown.splitlines())
    assert shown.count("PWNED") == 7


def test_cells_are_as_wide_as_they_look() -> None:
    text = io.StringIO()
    table = make_table(["task"], ["error"])
    table.add_row(make_cell(EVIL), "1%")
    table.add_row(make_cell("[red]a"), "2%")
    SafeConsole(file=text, width=120).print(table)
    assert len({len(line) for line in text.getvalue().splitlines()}) == 1
    assert "[red]a" in text.getvalue()


def test_a_stream_for_data_on_a_terminal() -> None:
    text = io.StringIO()
    stream = VisibleText(text)
    assert stream.write(f"a,{EVIL}\nb\n") == len(EVIL) + 5
    assert text.getvalue() == f"a,{SHOWN}\nb\n"
    assert not stream.isatty()


def test_data_are_raw_unless_they_go_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr("sys.stdout", pipe)
    assert open_data_output() is pipe
    monkeypatch.setattr("sys.stdout", terminal)
    open_data_output().write(EVIL)
    assert terminal.getvalue() == SHOWN


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


# Names that set the title of a terminal, clear it, and forge a line.
HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\nforged"


@pytest.fixture(scope="module")
def hostile_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose tasks, classes and columns have such names."""
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=3000)
    scores = rng.normal(size=(3000, 2))
    scores[np.arange(3000), label] += 2
    columns: dict[str, Any] = {
        f"site{HOSTILE}": np.repeat([f"s{i}{HOSTILE}" for i in range(30)], 100),
        "y": np.array([f"no{HOSTILE}", "yes"])[label],
        f"p_no{HOSTILE}": scores[:, 0],
        "p_yes": scores[:, 1],
    }
    path = tmp_path_factory.mktemp("hostile") / "scores.parquet"
    pd.DataFrame(columns).to_parquet(path)
    return path


# Runs commands one after the other: starting Python for each would take far longer.
COMMANDS = """
import json, sys
from metapac.cli import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["metapac", *words]
    try:
        main()
    except SystemExit:
        print("end of a command", flush=True)
"""


def run_on_terminal(folder: Path, commands: list[list[str]]) -> list[bytes]:
    """Return what commands print when both their streams are a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "200"}
    with subprocess.Popen(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, cwd=folder, env=environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        printed = b""
        while part := _read(ours):
            printed += part
        process.wait()
    os.close(ours)
    assert process.returncode == 0, printed
    return printed.split(b"end of a command\r\n")[:-1]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_hostile_names_reach_no_terminal(hostile_table: Path, tmp_path: Path) -> None:
    table, site = str(hostile_table), f"site{HOSTILE}"
    levels = ["--epsilon", ".2", "--alpha", ".3", "--delta", ".1"]
    calibrate = ["calibrate", table, "--task", site, "--label", "y", *levels]
    csv = ["predict", "p.json", table]
    commands = [
        [*calibrate, "-o", "p.json"],
        [*calibrate, "--per-class", "-o", "c.json"],
        ["show", "p.json"],
        ["show", "c.json"],
        csv,
        ["predict", "p.json", table, "-o", "sets.parquet"],
        ["evaluate", "p.json", table],
        ["evaluate", "c.json", table],
        ["calibrate", table, "--task", "nowhere", "--label", "y", *levels, "-o", "n.json"],
        ["calibrate", table, "--task", site, "--score", f"p_no{HOSTILE}?", *levels, "-o", "n.json"],
    ]
    for words, printed in zip(commands, run_on_terminal(tmp_path, commands), strict=True):
        assert printed, words
        assert b"\x1b]" not in printed, words
        assert b"\x1b[2J" not in printed, words
        assert b"\x07" not in printed, words
        if words != csv:  # whose cells may hold line breaks
            assert not any(line.startswith(b"forged") for line in printed.splitlines()), words
    assert (tmp_path / "c.json").exists()
    assert (tmp_path / "sets.parquet").exists()

"""What reaches a terminal: whatever the data hold, it steers none; no secret is shown; progress."""

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
from rich.console import Console

from metapac.cli import console
from metapac.cli.console import open_data_output, print_error, print_json, print_line
from tests.helpers.commands import LEVELS, metapac

EVIL = "\x1b]0;PWNED\x07\x1b[2J\x9b1m\u202e"
SHOWN = r"\x1b]0;PWNED\x07\x1b[2J\x9b1m\u202e"


def test_lines_are_printed_as_they_are_and_steer_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "[red]not markup[/red] " + "never wrapped " * 20
    for write, stream in ((print_line, 0), (print_error, 1)):
        write(f"{text}{EVIL}\nforged")
        printed = capsys.readouterr()[stream]
        assert printed.removeprefix("metapac: ") == f"{text}{SHOWN}\\nforged\n"


def test_json_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"names": [EVIL, "\x7f", "\x85", "\udc80", "Zürich", "[x]"], "more": [*range(100)]}
    print_json(value)
    printed = capsys.readouterr().out
    assert printed.rstrip("\n").isprintable()
    assert printed.isascii()
    assert json.loads(printed) == value


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_data_are_raw_unless_they_go_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr("sys.stdout", pipe)
    assert open_data_output() is pipe
    monkeypatch.setattr("sys.stdout", terminal)
    assert open_data_output().write(f"a,{EVIL}\nb\n") == len(EVIL) + 5
    assert terminal.getvalue() == f"a,{SHOWN}\nb\n"


# Names that set the title of a terminal, clear it, forge a line, and end markup that never began.
HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\nforged[/b]"


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
    calibrate = ["calibrate", table, "--task", site, "--label", "y", *LEVELS]
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
        ["calibrate", table, "--task", "nowhere", "--label", "y", *LEVELS, "-o", "n.json"],
        ["calibrate", table, "--task", site, "--score", f"p_no{HOSTILE}?", *LEVELS, "-o", "n.json"],
    ]
    for words, printed in zip(commands, run_on_terminal(tmp_path, commands), strict=True):
        assert b"[/b]" in printed, words
        assert b"\x1b]" not in printed, words
        assert b"\x1b[2J" not in printed, words
        assert b"\x07" not in printed, words
        if words != csv:  # whose cells may hold line breaks
            assert not any(line.startswith(b"forged") for line in printed.splitlines()), words
    assert (tmp_path / "c.json").exists()
    assert (tmp_path / "sets.parquet").exists()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    text = io.StringIO()
    monkeypatch.setattr(console, "stderr", Console(file=text, force_terminal=True, width=100))
    return text


def test_progress_shows_stages_and_steers_no_terminal(screen: io.StringIO) -> None:
    with console.progress_bar() as advance:
        advance("loading", 0, None)
        advance("training, loss 0.50", 1, 4)
        advance(f"training [red]{EVIL}", 2, 4)
    shown = screen.getvalue()
    assert "training, loss 0.50" in shown
    assert "2/4" in shown
    assert f"training [red]{SHOWN[:17]}" in shown
    assert "\x1b]0" not in shown


def test_progress_is_shown_on_terminals_alone(
    screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    with console.progress_bar(visible=False) as advance:
        advance("training", 1, 2)
    assert screen.getvalue() == ""
    monkeypatch.setattr(console, "stderr", Console(file=screen, force_terminal=False))
    with console.progress_bar() as advance:
        advance("training", 1, 2)
    assert screen.getvalue() == ""


def test_a_query_shows_its_progress(screen: io.StringIO, table: Path, tmp_path: Path) -> None:
    words = ["calibrate", table, "--task", "site", "--score", "true", *LEVELS]
    assert metapac(*words, "-o", tmp_path / "p.json").exit_code == 0
    assert "counting the scores of each task" in screen.getvalue()


COLUMNS = ["--task", "site", "--score", "true", *LEVELS]


@pytest.mark.parametrize(
    "words",
    [
        ["calibrate", " postgres://u:{}@127.0.0.1:1/db", *COLUMNS, "-o", "p.json"],
        ["calibrate", "md:db?motherduck_token={}", *COLUMNS, "-o", "p.json"],
        ["calibrate", "host=h user=u password={}", *COLUMNS, "-o", "p.json"],
        ["calibrate", "a.csv", *COLUMNS, "-o", "s3://u:{}@b/x.json"],
        ["site", "a.csv", "--name", "a", *COLUMNS[2:], "-o", "s3:/u:{}@b/x.json"],
        ["combine", "s3://u:{}@b/x.json", "-o", "p.json"],
        ["predict", "s3://u:{}@b/p.json", "a.csv"],
        ["evaluate", "s3://u:{}@b/p.json", "a.csv"],
        ["show", "https:/h/p.json?sig={}"],
        ["show", "p.json", "postgres://u:{}@h/db"],
    ],
)
def test_secrets_that_were_typed_are_not_printed(
    words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("site,true\na,0.5\n")
    result = metapac(*(str(word).format("Zq7x7x") for word in words))
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    assert "Zq7x" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]

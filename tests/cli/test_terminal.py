"""How commands look on a terminal, and how the program ends: help, lines, signals, streams."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

from metapac import cli
from metapac._text import format_table
from metapac.cli import console
from metapac.cli.app import PANELS, app
from tests.helpers.commands import list_commands, metapac

ROOT = Path(__file__).parents[2]
EVIL = "\x1b]0;PWNED\x07\x1b[2J\x9b1m\u202e"
SHOWN = r"\x1b]0;PWNED\x07\x1b[2J\x9b1m\u202e"
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


def test_every_command_and_option_is_explained() -> None:
    for panel in PANELS.values():
        for name, (_, summary) in panel.items():
            command: Any = app.get_command(None, name)  # type: ignore[arg-type]
            assert (command.help or "").splitlines()[0] == summary
            assert len(summary) <= 55
    for words, command in list_commands():
        for param in command.params:
            assert len(param.help) > 5, (words, param.name)
            is_flag = getattr(param, "is_flag", False)
            is_argument = param.param_type_name == "argument"
            assert is_flag or is_argument or param.metavar, (words, param.name)


def test_help_folds_away_what_few_people_need() -> None:
    few, most = (metapac("calibrate", word).stdout for word in ("--help", "--help-all"))
    assert "--memory-limit SIZE" in most
    assert "--memory-limit" in few.replace("--memory-limit SIZE", "")
    assert "--memory-limit SIZE" not in few
    assert max(map(len, most.splitlines())) <= 80


def test_usage_errors_exit_with_2_and_point_at_the_help() -> None:
    for words in (["calibrat"], ["calibrate", "--epsilom"], ["predict"], ["data", "x"], ["--none"]):
        result = CliRunner().invoke(app, words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert re.fullmatch(r"error: .+\nhint: .*Try 'metapac.* --help'.\n", result.stderr)
    assert "calibrate" in metapac("calibrat").stderr.replace("'calibrat'", "")


def print_on(width: int, call: Callable[..., None], text: str, monkeypatch: Any) -> str:
    """Return what is printed on a terminal of some width."""
    screen = io.StringIO()
    terminal = console.SafeConsole(file=screen, force_terminal=True, width=width, highlight=False)
    monkeypatch.setattr(console, "stderr", terminal)
    monkeypatch.setattr(console, "stdout", terminal)
    call(text)
    return screen.getvalue()


def test_errors_are_wrapped_and_each_way_out_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "alpha is too small for 30 tasks. Options: add 40 tasks; or settle for less."
    lines = print_on(40, console.print_error, text, monkeypatch).splitlines()
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in lines]
    assert plain == [
        "error: alpha is too small for 30 tasks.",
        "hint: add 40 tasks",
        "hint: settle for less.",
    ]
    assert "\x1b[1;31m" in lines[0]
    # Names that look like sentences are not cut.
    for text in ("Dr. No.csv has no column y", "t.csv has a column 'St. Mary' without. A"):
        assert print_on(200, console.print_error, text, monkeypatch).count("hint") == ("A" in text)


def test_tables_are_not_wrapped_and_verdicts_are_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"task": "a" * 30, "rate": "0.123456789012345"}, {"task": "b", "rate": "1"}]
    table = format_table(rows)
    assert len({len(line) for line in table.splitlines()}) == 1
    text = f"HOLDS\n{table}\none two three four five six"
    printed = print_on(20, lambda text: console.print_text(text, console.stdout), text, monkeypatch)
    assert "0.123456789012345" in printed
    assert "\x1b[1;32mHOLDS" in printed
    assert "one two three four \nfive six" in printed


def test_no_text_steers_the_terminal(capsys: Any, monkeypatch: Any) -> None:
    console.print_line(f"task {EVIL}\nforged")
    console.print_error(f"task {EVIL}\nforged")
    console.print_json([EVIL])
    printed = capsys.readouterr()
    assert printed.out.startswith(f"task {SHOWN}\\nforged\n")
    assert printed.err == f"error: task {SHOWN}\\nforged\n"
    assert printed.out.isascii()
    assert SHOWN in format_table([{"task": EVIL}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        console.open_data_output().write(f"a,{EVIL}\n")
    assert capsys.readouterr().out == f"a,{SHOWN}\n"


def test_arguments_in_messages_are_options(capsys: Any) -> None:
    console.show({}, text="task  split=0.5\nper_class=True", wrote=["a.csv"])
    assert capsys.readouterr().out == "task  split=0.5\nper_class=True\nWrote a.csv\n"
    context = click.Context(app.get_command(None, "evaluate"))  # type: ignore[arg-type]
    translate = console.make_translator(context)
    assert translate("min_examples must be 1; pass allow=('overlap',)") == (
        "--min-examples must be 1; pass --allow overlap"
    )
    assert translate("label is missing; label!", ["label"]) == "--label is missing; label!"
    assert translate("per_class=True or delta=None, on_infeasible='trivial'") == (
        "--per-class or --delta none, on_infeasible='trivial'"
    )
    assert translate("promise is old", ["promise"]) == "PROMISE is old"


def test_progress_is_a_bar_on_terminals_only(monkeypatch: Any) -> None:
    for is_terminal, lines, count in ((False, True, 3), (False, False, 0), (True, False, None)):
        screen, output, clock = io.StringIO(), sys.stdout, iter([0.0, 5.0, 40.0, 40.0, 41.0])
        terminal = console.SafeConsole(file=screen, force_terminal=is_terminal, width=100)
        monkeypatch.setattr(console, "stderr", terminal)
        monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda c=clock: next(c)))
        with console.progress_bar(lines=lines) as advance:
            advance(f"reading [red]{EVIL}", 0, None)
            for done in (1, 2, 3):  # the second is 35 seconds later
                advance(f"training, loss 0.{done}", done, 4)
            assert sys.stdout is output  # data printed meanwhile go where they should
        text = screen.getvalue()
        assert count is None or text.count("\n") == count
        assert ("training, loss 0.2 (2 of 4)\n" in text) == bool(count)
        assert count == 0 or "training, loss 0." in text
        assert "\x1b]0" not in text


# How the program ends.


ERRORS = [
    ("InvalidInput('epsilon is bad.', parameter='epsilon')", 2, "error: --epsilon is bad."),
    ("MemoryError('74 GiB')", 2, "74 GiB"),
    ("OSError(13, 'Permission denied', 'p.json')", 2, "error: p.json: Permission denied"),
    ("BrokenPipeError()", 0, ""),
    ("KeyError('postgres://u:Zq7x@h/db password=Zq7x')", 70, "report it"),
]
FAIL = """
import sys
from metapac import cli
from metapac.cli import calibration
from metapac.errors import InvalidInput
sys.argv = ["metapac", "show", "p.json"]
def fail(*args): raise {}
calibration._read_format = fail
cli.main()
"""


def test_errors_have_codes_and_those_are_documented() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    codes = {cli.OK, cli.INFEASIBLE, cli.BAD_INPUT, cli.VIOLATED, cli.AMBER, cli.BUG}
    assert documented == codes | {129, 130, 143}  # signals
    for error, code, words in ERRORS:
        program = [sys.executable, "-c", FAIL.format(error)]
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == code
        assert words in done.stderr
        assert "Zq7x" not in done.stderr


def run_bash(command: str) -> Any:
    words = ["bash", "-c", f"set -o pipefail; {sys.executable} -m metapac {command}"]
    return subprocess.run(words, capture_output=True, text=True)


@posix
def test_streams_that_cannot_be_written() -> None:
    for redirection, code in (("| true", 0), (">&- 2>&-", 0), ("2>&-", 0), ("> /dev/full", 2)):
        done = run_bash(f"--help {redirection}")
        assert done.returncode == code
        assert "Traceback" not in done.stderr


@posix
def test_a_reader_that_stops_does_not_hide_a_violation(tmp_path: Path, promise: Path) -> None:
    rows = ["site,true", *(f"new {i},{(i + j) / 1000}" for i in range(30) for j in range(80))]
    (tmp_path / "bad.csv").write_text("\n".join(rows))
    command = f"evaluate {promise} {tmp_path / 'bad.csv'} --check | true; echo ${{PIPESTATUS[0]}}"
    assert run_bash(command).stdout == "3\n"


def test_data_that_the_encoding_lacks_are_refused(tmp_path: Path, csv_promise: Path) -> None:
    table = tmp_path / "new.csv"
    table.write_text("p_a,p_b,\N{SNOWMAN}\n1,0,\N{SNOWMAN}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "metapac", "predict", csv_promise, table],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )
    assert done.returncode == 2
    assert "latin-1" in done.stderr


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file that holds many rows."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    rows = "SELECT i % 40 AS site, 0.5 AS p_a, 0.5 AS p_b FROM range(30_000_000) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
    return path


def start(*words: Any, temporary: Path) -> Any:
    return subprocess.Popen(
        [sys.executable, "-m", "metapac", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (1, 15)],
    )


@posix
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_during_a_query(
    large: Path, csv_promise: Path, tmp_path: Path, name: str, code: int
) -> None:
    temporary, output = tmp_path / "temporary", tmp_path / "out" / "sets.csv"
    temporary.mkdir()
    output.parent.mkdir()
    output.write_text("old")
    process = start("predict", csv_promise, large, "-o", output, temporary=temporary)
    while not list(output.parent.glob(".*/sets.csv")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(signal.Signals[name])
    messages = process.communicate()[1]
    assert process.returncode == code
    word = "interrupted" if name == "SIGINT" else "terminated"
    assert messages.strip() == f"error: {word}."
    assert list(temporary.iterdir()) == []
    assert list(output.parent.iterdir()) == [output]
    assert output.read_text() == "old"


@posix
def test_an_interrupted_training_says_how_to_resume(tmp_path: Path) -> None:
    x = np.arange(200).repeat(4).reshape(200, 4).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=x, y=np.arange(20).repeat(10))
    run, options = tmp_path / "run", ["--epochs", 10**6, "--tasks", 4, "--device", "cpu"]
    words = ["train", tmp_path / "rows.npz", *options, "--episodes", 8, "-o", run]
    process = start(*words, temporary=tmp_path)
    while not (run / "checkpoint.safetensors").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    assert "Run the same command again to resume." in process.communicate()[1]
    assert process.returncode == 130

"""How the program ends: exit codes, signals, broken streams, and errors that nobody expected."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from metapac._version import __version__
from metapac.cli import commands, exits
from tests.helpers.commands import STRICT

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
ROOT = Path(__file__).parents[2]
SIGNALS = [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)]
WORDS = {
    "SIGINT": "metapac: interrupted.\n",
    "SIGTERM": "metapac: terminated.\n",
    "SIGHUP": "metapac: terminated, because its terminal was closed.\n",
}


@pytest.fixture(scope="module", autouse=True)
def default_signals() -> Iterator[None]:
    """Give programs the default signals, even where nohup, or a shell's ``&``, ignores some.

    A program inherits what its parent ignores, but no handler: one that does nothing spares
    these tests and is the default again in what they start.
    """
    numbers = [signal.Signals[name] for name, _ in SIGNALS if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def start(*words: Any, temporary: Path | None = None, code: str | None = None) -> Any:
    """Start the command line, or a program in its place."""
    program = ["-m", "metapac"] if code is None else ["-c", code]
    return subprocess.Popen(
        [sys.executable, *program, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ({} if temporary is None else {"TMPDIR": str(temporary)}),
    )


def wait_for(condition: Callable[[], object], process: Any) -> None:
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


def test_codes_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert documented == {int(code) for code in exits.ExitCode}
    assert (commands.OK, commands.INFEASIBLE, commands.BAD_INPUT, commands.VIOLATED) == (0, 1, 2, 3)
    assert commands.BUG == 70


def test_bugs_are_reported_where_the_project_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Issues"] == exits.ISSUES


# Stops at the first import of a module, until its standard input is closed.
IMPORTING = """
import sys

class Wait:
    def find_spec(self, name, path=None, target=None):
        if name == {0!r}:
            sys.meta_path.remove(self)
            print("importing", flush=True)
            sys.stdin.read()

sys.meta_path.insert(0, Wait())
from metapac.cli import main
main()
"""


@posix
@pytest.mark.parametrize("module", ["typer", "rich", "metapac.cli.plan", "scipy.special"])
@pytest.mark.parametrize(("name", "code"), SIGNALS)
def test_a_signal_during_imports(module: str, name: str, code: int) -> None:
    process = start("plan", *STRICT, code=IMPORTING.format(module))
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.Signals[name])
    output, messages = process.communicate()
    assert (process.returncode, output, messages) == (code, "", WORDS[name])


EARLY = """
import sys
sys.argv = [{!r}]
class Wait:
    def find_spec(self, name, path=None, target=None):
        if name == "metapac._common":
            print("importing", flush=True)
            sys.stdin.read()
sys.meta_path.insert(0, Wait())
import metapac.cli
import metapac._common
"""


@posix
@pytest.mark.parametrize(("name", "code"), SIGNALS)
@pytest.mark.parametrize("program", ["/usr/bin/metapac", "/lib/metapac/__main__.py"])
def test_a_signal_before_the_program_runs(program: str, name: str, code: int) -> None:
    process = start(code=EARLY.format(program))
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.Signals[name])
    messages = process.communicate()[1]
    assert (process.returncode, messages) == (code, WORDS[name])


@posix
@pytest.mark.parametrize("program", ["", "/usr/bin/pytest", "/lib/pytest/__main__.py"])
def test_importing_the_command_line_elsewhere_changes_no_signal(program: str) -> None:
    process = start(code=EARLY.format(program))
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGTERM)
    assert (process.communicate()[1], process.returncode) == ("", -signal.SIGTERM)


def test_nothing_slow_is_imported_before_signals_are_handled() -> None:
    code = (
        "import sys; before = {*sys.modules}; import metapac.cli; print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"typing", "re", "pathlib", "traceback"} & {*done.stdout.split()}


@posix
def test_a_second_interrupt_after_the_last_line_does_not_change_the_code() -> None:
    code = """
import atexit, sys, time
from metapac.cli import exits
def wait():
    print("ending", flush=True)
    time.sleep(600)
atexit.register(wait)
def program():
    print("working", flush=True)
    time.sleep(600)
exits.run(program)
"""
    process = start(code=code)
    for line in ("working\n", "ending\n"):
        assert process.stdout.readline() == line
        process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", WORDS["SIGINT"])
    assert process.returncode == 130


@posix
def test_after_a_signal_output_is_written_and_python_does_not_clean_up_itself() -> None:
    body = (
        "import atexit; atexit.register(print, 'bye')\n"
        "    exits.last = type('Last', (), {'__del__': lambda self: print('a signal now')})()\n"
        "    print('half', end='-'); raise KeyboardInterrupt"
    )
    done = run_program(body)
    assert (done.returncode, done.stdout) == (130, "half-bye\n")


@posix
def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    process = start("plan", *STRICT, code=code + IMPORTING.format("typer"))
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGHUP)
    output, messages = process.communicate()
    assert (process.returncode, messages) == (0, "")
    assert output


@posix
def test_a_second_interrupt_ends_a_clean_up_that_takes_long() -> None:
    code = """
import sys, time
from metapac.cli import exits
def program():
    try:
        print("working", flush=True)
        time.sleep(600)
    finally:
        print("cleaning", flush=True)
        time.sleep(600)
exits.run(program)
"""
    process = start(code=code)
    for line, name in (("working\n", "SIGINT"), ("cleaning\n", "SIGTERM"), ("", "SIGINT")):
        if line:
            assert process.stdout.readline() == line
        process.send_signal(signal.Signals[name])
    process.communicate()
    assert process.returncode == 130


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file that holds many rows."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    rows = "SELECT i % 40 AS site, 0.5 AS p_a, 0.5 AS p_b FROM range(30_000_000) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
    return path


@posix
@pytest.mark.parametrize(("name", "code"), SIGNALS)
def test_a_signal_during_a_query(
    large: Path, csv_promise: Path, tmp_path: Path, name: str, code: int
) -> None:
    temporary, output = tmp_path / "temporary", tmp_path / "out" / "sets.csv"
    temporary.mkdir()
    output.parent.mkdir()
    output.write_text("old")
    process = start("predict", csv_promise, large, "-o", output, temporary=temporary)
    wait_for(lambda: list(output.parent.glob(".*/sets.csv")), process)
    assert [path.name[:14] for path in temporary.iterdir()] == ["metapac-spill-"]
    process.send_signal(signal.Signals[name])
    messages = process.communicate()[1]
    assert (process.returncode, messages) == (code, WORDS[name])
    assert list(temporary.iterdir()) == []
    assert list(output.parent.iterdir()) == [output]
    assert output.read_text() == "old"


@posix
def test_an_interrupted_training_says_how_to_resume(tmp_path: Path) -> None:
    x = np.arange(200).repeat(4).reshape(200, 4).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=x, y=np.arange(20).repeat(10))
    run, options = tmp_path / "run", ["--epochs", 10**6, "--tasks", 4, "--device", "cpu"]
    process = start("train", tmp_path / "rows.npz", *options, "--episodes", 8, "-o", run)
    wait_for((run / "checkpoint.safetensors").exists, process)
    process.send_signal(signal.SIGSTOP)  # it need not train meanwhile
    second = subprocess.run(
        [sys.executable, "-m", "metapac", "train", tmp_path / "rows.npz", "-o", run],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 2
    assert f"run is in use by process {process.pid} on " in second.stderr
    assert second.stderr.endswith("(metapac train). Wait for it to end.\n")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    messages = process.communicate()[1]
    assert messages == "metapac: interrupted. Run the same command again to resume.\n"
    assert process.returncode == 130
    assert [path.name for path in run.iterdir()] == ["checkpoint.safetensors"]


def run_program(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a function in place of the commands."""
    code = f"from metapac.cli import exits\ndef program():\n    {body}\nexits.run(program)"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_a_bug_is_one_line_and_a_private_file(tmp_path: Path) -> None:
    done = run_program("{}['a\\x1b[2J\\nb']", TMPDIR=str(tmp_path))
    assert done.returncode == 70
    (file,) = tmp_path.iterdir()
    assert done.stderr == (
        "metapac: KeyError: 'a\\x1b[2J\\nb'. This is a bug in metapac: please report it at "
        f"{exits.ISSUES}, with the file {file}.\n"
    )
    content = file.read_text()
    assert content.startswith(f"metapac {__version__}, Python ")
    assert "Traceback (most recent call last)" in content
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600


def test_only_the_newest_tracebacks_are_kept(tmp_path: Path) -> None:
    names = [f"metapac-traceback-{i}.txt" for i in range(8)]
    others = [tmp_path / name for name in ("metapac-traceback-x", "traceback.txt")]
    for i, path in enumerate([*(tmp_path / name for name in names), *others]):
        path.write_text("old")
        os.utime(path, (i, i))
    (tmp_path / "metapac-traceback-link.txt").symlink_to(others[0])
    assert run_program("raise KeyError", TMPDIR=str(tmp_path)).returncode == 70
    left = {path.name for path in tmp_path.glob("metapac-traceback-*.txt")}
    assert len(left) == 6  # with the link
    assert {*names[4:]} < left
    assert not {*names[:4]} & left
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("shown", ["0", "1"])
def test_a_bug_shows_no_secret(tmp_path: Path, shown: str) -> None:
    body = "raise KeyError('postgres://u:' + 'Zq7x' + '@h/db password=' + 'Zq7x')"
    done = run_program(body, TMPDIR=str(tmp_path), METAPAC_TRACEBACK=shown)
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "postgres://h/... password=***" in done.stderr
    for text in (done.stderr, written):
        assert "postgres://h/..." in text or not text
        assert "Zq7x" not in text


def test_the_traceback_of_a_bug_can_be_shown(tmp_path: Path) -> None:
    done = run_program("raise RecursionError", TMPDIR=str(tmp_path), METAPAC_TRACEBACK="1")
    assert done.returncode == 70
    assert done.stderr.startswith("Traceback (most recent call last)")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("metapac: RecursionError. This is a bug in metapac: please report it")
    assert list(tmp_path.iterdir()) == []


def test_a_bug_without_a_temporary_folder(tmp_path: Path) -> None:
    body = "import tempfile; tempfile.tempdir = '/dev/null/none'; raise RuntimeError('bug')"
    done = run_program(body)
    assert done.returncode == 70
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"{exits.ISSUES}, with the output of METAPAC_TRACEBACK=1.\n")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("pass", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("raise KeyboardInterrupt", 130, "metapac: interrupted.\n"),
        (
            "raise MemoryError('Unable to allocate 74 GiB')",
            2,
            "metapac: not enough memory (Unable to allocate 74 GiB). Use a machine with more, or "
            "fewer data at a time.\n",
        ),
        ("raise BrokenPipeError", 0, ""),
        ("exits.expect(exits.ExitCode.VIOLATED); raise BrokenPipeError", 3, ""),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGINT); x = 0\n"
            "    for i in range(10**9): x += i",
            130,
            "metapac: interrupted.\n",
        ),
        (
            "import os, signal\n"
            "    try:\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "        for i in range(10**9): pass\n"
            "    except KeyboardInterrupt:\n"
            "        raise RuntimeError('Query interrupted') from None",
            130,
            "metapac: interrupted.\n",
        ),
    ],
)
def test_other_ends(body: str, code: int, message: str) -> None:
    done = run_program(body)
    assert (done.returncode, done.stderr) == (code, message)


@posix
@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        ("| true", 0, ""),
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("2>&-", 0, None),
        pytest.param(
            "> /dev/full",
            2,
            "metapac: standard output: No space left on device\n",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full"),
        ),
    ],
)
@pytest.mark.parametrize("words", ["--help", "--version", f"plan {' '.join(map(str, STRICT))}"])
def test_streams_that_cannot_be_written(
    words: str, redirection: str, code: int, message: str | None
) -> None:
    command = f"set -o pipefail; {sys.executable} -m metapac {words} {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, message or "")


@posix
def test_an_ascii_terminal_gets_utf_8() -> None:
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = run_program("print('\\u2265 0.3')", **plain)
    assert (done.returncode, done.stdout) == (0, "\N{GREATER-THAN OR EQUAL TO} 0.3\n")


def test_a_character_that_the_terminal_lacks_is_one_line(csv_promise: Path, tmp_path: Path) -> None:
    table = tmp_path / "new.csv"
    table.write_text("p_a,p_b,\N{SNOWMAN}\n1,0,\N{SNOWMAN}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "metapac", "predict", csv_promise, table],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )
    assert done.returncode == 2
    assert done.stderr == (
        "metapac: the terminal's encoding, latin-1, lacks a character of the output. Set "
        "PYTHONUTF8=1, or write to a file.\n"
    )

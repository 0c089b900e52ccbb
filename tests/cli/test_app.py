"""The group of all commands: help, version, and what starting it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command

from metapac import __version__
from metapac.cli.app import SUMMARIES, app
from tests.helpers.commands import STRICT, metapac


def run_python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )


def test_version() -> None:
    assert metapac("--version").stdout.strip() == __version__


def test_as_a_program() -> None:
    words = [sys.executable, "-m", "metapac"]
    version = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == __version__
    listed = subprocess.run([*words, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(command in listed for command in SUMMARIES)


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_are_the_first_lines_of_the_commands(name: str) -> None:
    command = get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    assert command.help.splitlines()[0] == SUMMARIES[name]
    result = metapac(name, "--help")
    assert result.exit_code == 0, result.output
    assert SUMMARIES[name] in " ".join(result.output.split())


def test_help_of_the_group_imports_no_command() -> None:
    code = (
        "import sys; from metapac.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules)"
    )
    shown = run_python(code, "--help").stdout
    *text, loaded = shown.splitlines()
    assert all(summary.split()[0] in "".join(text) for summary in SUMMARIES.values())
    modules = set(loaded.split())
    assert "metapac.cli.app" in modules
    assert not {f"metapac.cli.{name}" for name in SUMMARIES} & modules
    assert "numpy" not in modules


def test_an_unknown_command_is_an_error_with_a_suggestion() -> None:
    result = metapac("calibrat")
    assert result.exit_code == 2
    assert "No such command 'calibrat'" in result.stderr
    assert "calibrate" in result.stderr.replace("'calibrat'", "")


def test_missing_extras_are_named() -> None:
    code = "import sys; sys.modules[{!r}] = None; from metapac.cli import main; main()"
    done = run_python(code.format("typer"))
    assert done.returncode == 2
    assert done.stderr == (
        "The command line needs typer. Install it with: pip install 'metapac[cli]'\n"
    )
    done = run_python(code.format("matplotlib"), "plan", *STRICT, "--plot", "never.png")
    assert done.returncode == 2
    assert "needs matplotlib. Install it with: pip install 'metapac[plot]'" in done.stderr

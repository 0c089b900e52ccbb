"""The group of all commands: help, version, and what starting it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


# SciPy takes a None in sys.modules for torch itself, so the import system has to refuse instead.
WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {0!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
from metapac.cli import main
main()
"""


def run_without(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as if a module were not installed."""
    return run_python(WITHOUT.format(module), *words)


@pytest.mark.parametrize("module", ["typer", "rich"])
@pytest.mark.parametrize("words", [[], ["--help"], ["plan", *STRICT], ["plan", "--help"]])
def test_the_extra_of_the_command_line_is_named(module: str, words: list[str]) -> None:
    done = run_without(module, *words)
    assert done.returncode == 2
    assert done.stderr == (
        f"The command line needs {module}. Install it with: pip install 'metapac[cli]'\n"
    )


CALIBRATE = ["calibrate", "never.csv", "--task", "a", "--score", "b", *STRICT, "-o", "never.json"]


@pytest.mark.parametrize(
    ("module", "words", "purpose", "extra"),
    [
        ("matplotlib", ["plan", *STRICT, "--plot", "never.png"], "a figure", "plot"),
        ("matplotlib", ["demo"], "metapac demo", "plot"),
        ("torch", ["demo"], "metapac demo", "torch"),
        ("safetensors", ["demo"], "metapac demo", "torch"),
        ("matplotlib", ["reproduce", "glyphs"], "metapac reproduce", "plot"),
        ("torch", ["reproduce", "glyphs"], "metapac reproduce", "torch"),
        ("safetensors", ["reproduce", "glyphs"], "metapac reproduce", "torch"),
        ("ibis", CALIBRATE, "reading tables", "tables"),
        ("duckdb", CALIBRATE, "reading tables", "tables"),
    ],
)
def test_the_extra_of_a_command_is_named(
    module: str, words: list[str], purpose: str, extra: str
) -> None:
    done = run_without(module, *words)
    assert done.returncode == 2
    assert " ".join(done.stderr.split()) == (
        f"metapac: {purpose} needs {module}. Install it with: pip install 'metapac[{extra}]'"
    )


def test_the_synthetic_demo_needs_no_torch(tmp_path: Path) -> None:
    done = run_without(
        "torch", "demo", "--data", "synthetic", "--draws", "1", "-o", str(tmp_path / "out")
    )
    assert done.returncode == 0, done.stderr

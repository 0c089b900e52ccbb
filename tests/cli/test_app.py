"""The group of all commands: help, version, and what starting it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from metapac._version import __version__
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
        f"The command line needs {module}. Install it with: pip install 'metapac[cli]' "
        "(in a checkout: pip install -e '.[cli]')\n"
    )


CALIBRATE = ["calibrate", "never.csv", "--task", "a", "--score", "b", *STRICT, "-o", "never.json"]


@pytest.mark.parametrize(
    ("module", "words", "purpose", "extra"),
    [
        ("matplotlib", ["plan", *STRICT, "--plot", "never.png"], "a figure", "plot"),
        ("matplotlib", ["demo"], "metapac demo", "plot"),
        ("torch", ["demo", "--data", "glyphs"], "metapac demo", "torch"),
        ("safetensors", ["demo", "--data", "glyphs"], "metapac demo", "torch"),
        ("torch", ["train", "glyphs", "-o", "never"], "training", "torch"),
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
        f"metapac: {purpose} needs {module}. Install it with: pip install 'metapac[{extra}]' "
        f"(in a checkout: pip install -e '.[{extra}]')"
    )


@pytest.mark.parametrize("module", ["torch", "safetensors"])
def test_the_demo_falls_back_to_synthetic_tasks(module: str, tmp_path: Path) -> None:
    words = ["--draws", "1", "-o", str(tmp_path / "out")]
    chosen = run_without(module, "demo", "--data", "synthetic", *words)
    assert chosen.returncode == 0, chosen.stderr
    assert chosen.stderr == ""
    default = run_without(module, "demo", *words)
    assert default.returncode == 0, default.stderr
    assert default.stdout == chosen.stdout
    assert default.stderr == (
        f"metapac: the demo with characters needs {module}. Install it with: pip install "
        "'metapac[torch]' (in a checkout: pip install -e '.[torch]'). Running the demo with "
        "synthetic tasks instead.\n"
    )


def test_without_a_command_five_are_shown() -> None:
    result = metapac()
    assert result.exit_code == 0
    assert result.stderr == ""
    shown = [line for line in result.output.splitlines() if line.startswith("   metapac ")]
    names = [line.split()[1] for line in shown]
    assert names == ["plan", "calibrate", "predict", "evaluate", "show"]
    assert len(result.output.splitlines()) < 24
    for line in result.output.replace("\\\n", "").splitlines():
        if line.startswith("   metapac "):  # well-formed, as far as can be seen without the files
            name, *words = line.split()[1:]
            command = get_command(app).get_command(None, name)  # type: ignore[attr-defined]
            command.make_context(name, words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nope"], "No such option: --nope. Try 'metapac --help'."),
        (["plan", "--nope"], "No such option: --nope. Try 'metapac plan --help'."),
        (["predict"], "Missing argument 'PROMISE'. Try 'metapac predict --help'."),
        (["data", "nope"], "No such command 'nope'. Try 'metapac data --help'."),
        (["calibrate", "a.csv"], "Missing option '--"),
        (["demo", "--draws", "0"], "Invalid value for '--draws': "),
        (["demo", "--draws", "many"], "Invalid value for '--draws': "),
        (["\x1b[2J"], r"No such command '\x1b[2J'. Try 'metapac --help'."),
    ],
)
def test_errors_in_what_was_typed_are_one_line(words: list[str], message: str) -> None:
    done = run_python("from metapac.cli import main; main()", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"metapac: {message}")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("--help'.\n")


def test_a_group_without_a_command_shows_its_help() -> None:
    done = run_python("from metapac.cli import main; main()", "data")
    assert "Usage: metapac data" in done.stdout + done.stderr

"""The first screens, the help of every command, the demo, and extras that are not installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from metapac import __version__
from tests.helpers.commands import STRICT, list_commands, metapac

ROOT = Path(__file__).parents[2]


def run_python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )


def test_the_first_screens_list_the_commands() -> None:
    words = [sys.executable, "-m", "metapac", "--version"]
    assert subprocess.run(words, capture_output=True, text=True).stdout == f"{__version__}\n"
    first, listed = metapac().stdout, metapac("--help").stdout
    shown = [line.split()[1] for line in first.splitlines() if "   metapac " in line]
    assert shown == ["plan", "calibrate", "predict", "evaluate", "show"]
    for command, _ in list_commands():
        assert command[0] in listed
        result = metapac(*command, "--help")
        assert result.exit_code == 0
        assert f"Usage: metapac {' '.join(command)}" in result.stdout
        assert f"metapac {command[0]}" in result.stdout.partition("Example")[2]
        assert not any(sign in result.stdout for sign in ("<", "{", "[["))


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
CALIBRATE = ["calibrate", "never.csv", "--task", "a", "--score", "b", *STRICT, "-o", "never.json"]
EXTRAS = [
    ("click", [], "cli"),
    ("rich", ["plan", "--help"], "cli"),
    ("matplotlib", ["plan", *STRICT, "--plot", "never.png"], "plot"),
    ("matplotlib", ["demo"], "plot"),
    ("torch", ["demo", "--data", "glyphs"], "torch"),
    ("torch", ["train", "glyphs", "-o", "never"], "torch"),
    ("safetensors", ["reproduce", "glyphs"], "torch"),
    ("ibis", CALIBRATE, "tables"),
    ("duckdb", CALIBRATE, "tables"),
]


def test_a_missing_extra_is_named() -> None:
    for module, words, extra in EXTRAS:
        done = run_python(WITHOUT.format(module), *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"needs {module}" in done.stderr
        assert f"pip install 'metapac[{extra}]'" in done.stderr
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    facts = json.loads(metapac("doctor", "--json").stdout)
    assert {*facts["extras"], "all"} == {*project["optional-dependencies"]}


def test_what_is_missing_and_not_needed_does_no_harm(tmp_path: Path) -> None:
    words = ["--draws", "1", "-o", str(tmp_path / "out")]
    chosen = run_python(WITHOUT.format("torch"), "demo", "--data", "synthetic", *words)
    assert (chosen.returncode, "metapac[torch]" in chosen.stderr) == (0, False)
    default = run_python(WITHOUT.format("torch"), "demo", *words)
    assert (default.returncode, default.stdout) == (0, chosen.stdout)
    assert "metapac[torch]" in default.stderr
    sites = run_python(WITHOUT.format("jinja2"), "demo", "--data", "sites", *words[2:])
    assert (sites.returncode, "metapac[report]" in sites.stderr) == (0, True)
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".png", ".csv", ".json"}


class Broken(ModuleType):
    """A torch that cannot be used."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a library is missing\nin many lines")


def test_a_broken_torch_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", Broken("torch"))
    result = metapac("doctor", "--json")
    broken = "broken (RuntimeError: a library is missing in many lines)"
    assert (result.exit_code, json.loads(result.stdout)["gpu"]) == (0, {"torch": broken})


def read_table(text: str, border: str) -> dict[str, list[str]]:
    """Return the rows of a table in a terminal or in Markdown, without emphasis."""
    rows = [re.split(border, line.replace("*", "").strip(" |")) for line in text.splitlines()]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows if len(row) == 3}


DEMO = """
import sys; from metapac.cli import main
try: main()
except SystemExit: print(*sys.modules)
"""


def test_the_page_on_a_rare_class_shows_the_table_of_the_demo(tmp_path: Path) -> None:
    done = run_python(DEMO, "demo", "--data", "sites", "-o", str(tmp_path))
    *lines, loaded = done.stdout.splitlines()
    others = {"torch", "sklearn", "pandas", "ibis", "duckdb", "pyarrow", "joblib"}
    assert {"matplotlib"} == {"matplotlib", *others} & {*loaded.split()}
    assert len(lines) <= 32  # one screen
    printed = read_table("\n".join(lines), r"\s{2,}")
    page = (ROOT / "docs" / "learn" / "rare-class.md").read_text()
    shown = read_table(page.partition("\n## ")[0], r"\|")
    assert len(shown.keys() & printed.keys()) == 8
    for name in shown.keys() & printed.keys():
        for cell, expected in zip(shown[name], printed[name], strict=True):
            if re.fullmatch(r"[\d.]+%", expected):
                assert float(cell[:-1]) == pytest.approx(float(expected[:-1]), abs=1)
            else:
                assert cell == expected

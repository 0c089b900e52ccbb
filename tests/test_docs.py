"""Everything the documents show is run; everything public is in them."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import metapac
from metapac.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_python_on_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(code_blocks(page, "python"))
    exec(compile(code, str(page), "exec"), {"__name__": "page"})
    assert page.name != "README.md" or len(code.splitlines()) == 12


def test_commands_on_the_page_of_tables_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "tables.md"
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(code_blocks(page, "python")), str(page), "exec"), {"__name__": "page"})
    lines = "".join(code_blocks(page, "sh")).replace("\\\n", " ").splitlines()
    assert len(lines) >= 5
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}: {result.output}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_example_without_adaptation_keeps_its_promise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(ROOT / "examples" / "no_adaptation.py"))
    share = re.search(r"([\d.]+)% of 1000 new hospitals", capsys.readouterr().out)
    assert share is not None
    assert float(share[1]) >= 90


def test_every_public_name_has_an_entry() -> None:
    headings = re.findall(r"^### `(\w+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    public = set(metapac.__all__) - {"__version__"}
    assert set(headings) == public
    assert len(headings) == len(public)


def test_every_command_has_an_entry_and_every_option_shown_exists() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    headings = re.findall(r"^## `metapac (\w+)`", text, re.MULTILINE)
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(headings) == sorted(commands)
    for name, section in zip(headings, text.split("\n## ")[1:], strict=True):
        parts = getattr(commands[name], "commands", {name: commands[name]}).values()
        parameters = [parameter for command in parts for parameter in command.params]
        known = {option for parameter in parameters for option in parameter.opts} | {"--help"}
        assert set(re.findall(r"(?<![\w-])--[a-z-]+", section)) <= known


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_change_log_knows_this_version() -> None:
    assert f"## {metapac.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {metapac.__version__}" in (ROOT / "CITATION.cff").read_text()

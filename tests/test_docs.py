"""Code on the pages runs and prints what they show; the references are complete."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from metapac.cli.app import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# That of Flower needs an environment of its own: see test_flower.py.
EXAMPLES = sorted(p for p in (ROOT / "examples").glob("*.py") if p.stem != "flower")


class Block(NamedTuple):
    """A fenced block: ``python`` and ``sh`` run, ``bash`` is only checked, ``text`` is output."""

    language: str
    code: str
    follows: bool  # nothing but blank lines since the block before


def blocks(page: Path) -> list[Block]:
    result, end = [], -1
    text = page.read_text()
    for match in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        follows = end >= 0 and not text[end : match.start()].strip()
        result.append(Block(match[1], match[2], follows))
        end = match.end()
    return result


def commands(code: str) -> Iterator[list[str]]:
    """Yield the arguments of each ``metapac`` command in a block."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["metapac"]:
            yield words[1:]


def run_block(block: Block, namespace: dict[str, Any], source: str) -> str:
    """Run a block and return what it prints."""
    if block.language == "python":
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(block.code, source, "exec"), namespace)
        return output.getvalue()
    printed = ""
    for arguments in commands(block.code):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"metapac {shlex.join(arguments)}: {result.output}"
        printed += result.stdout
    return printed


def same_output(shown: str, printed: str) -> bool:
    """Whether two texts agree; numbers may differ a little, as versions of libraries do."""
    number = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)(%?)")
    texts = [number.sub("0", " ".join(text.split())) for text in (shown, printed)]
    values = [
        [float(value) / (100 if percent else 1) for value, percent in number.findall(text)]
        for text in (shown, printed)
    ]
    return texts[0] == texts[1] and all(
        math.isclose(a, b, rel_tol=0.05, abs_tol=0.011) for a, b in zip(*values, strict=True)
    )


RUN = [page for page in PAGES if any(b.language in ("python", "sh") for b in blocks(page))]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_code_on_the_page_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block.language in ("python", "sh"):
            printed = run_block(block, namespace, str(page))
        elif block.language == "text" and block.follows:
            assert same_output(block.code, printed), f"{page.name} shows:\n{block.code}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_only_shown_are_well_formed(page: Path) -> None:
    for block in blocks(page):
        if block.language != "bash":
            continue
        for arguments in commands(block.code):
            command: Any = app
            while hasattr(command, "list_commands"):
                name, *arguments = arguments
                command = command.get_command(None, name)
                assert command is not None, f"{page.name}: metapac {name}"
            command.make_context(command.name, arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_fits_the_page(page: Path) -> None:
    long = [line for block in blocks(page) for line in block.code.splitlines() if len(line) > 90]
    assert not long


def test_output_is_compared_number_by_number() -> None:
    assert same_output("missed 0.098 of 500", "missed  0.0981\nof 500")
    assert not same_output("missed 0.098 of 500", "missed 0.198 of 500")
    assert not same_output("missed 0.098 of 500", "covered 0.098 of 500")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_example_without_adaptation_satisfies_its_guarantee(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(ROOT / "examples" / "no_adaptation.py"))
    share = re.search(r"([\d.]+)% of 1000 new hospitals", capsys.readouterr().out)
    assert share is not None
    assert float(share[1]) >= 90


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """Return the build steps of the site."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PACKAGES = [
    "metapac",
    "metapac.tables",
    "metapac.sklearn",
    "metapac.plots",
    "metapac.report",
    "metapac.fewshot",
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_api_reference(package: str, hooks: ModuleType) -> None:
    pages = (DOCS / "api").glob("*.md")
    text = "\n".join(hooks.on_page_markdown(page.read_text()) for page in pages)
    entries = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    expected = [f"{package}.{name}" for name in hooks.public_names(package)]
    assert expected
    assert not set(expected) - set(entries)
    assert len(entries) == len(set(entries))


def test_every_package_with_public_names_is_checked() -> None:
    with_names = {
        ".".join(("metapac", *path.relative_to(ROOT / "src" / "metapac").parent.parts))
        for path in (ROOT / "src" / "metapac").rglob("__init__.py")
        if "__all__ = [" in path.read_text()
    }
    assert with_names <= set(PACKAGES)


def test_every_command_and_option_is_in_the_command_reference(hooks: ModuleType) -> None:
    text = (DOCS / "cli.md").read_text()
    assert "<!--" not in hooks.on_page_markdown(text)
    for name, command in hooks.walk_commands():
        assert f"# metapac {name}\n\n<!-- help: {name} -->\n" in text
        assert f"<!-- options: {name} -->" in text
        assert hooks.help_of(command)
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.name.startswith("help"):
                assert f"`{parameter.opts[0]}`" in hooks.options_of(command)


def test_the_fields_of_json_are_in_the_command_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / "cli.md"
    first, *others = blocks(page)
    run_block(first, {"__name__": "page"}, str(page))
    shown = [block.code for block in others if block.language == "sh"]
    for arguments in (found for code in shown for found in commands(code)):
        name = " ".join(arguments[:2]) if arguments[0] == "data" else arguments[0]
        row = re.search(rf"^\|[^|]*`{name}`[^|]* \| (.*) \|$", page.read_text(), re.MULTILINE)
        assert row is not None, f"the fields of metapac {name} --json are not documented"
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        printed = json.loads(result.stdout)
        for entry in printed if isinstance(printed, list) else [printed]:
            assert {*entry} <= {*re.findall(r"`(\w+)`", row[1])}, name


def test_formulas_become_mathml(hooks: ModuleType) -> None:
    html = '<span class="arithmatex">\\(a &lt; b\\)</span><div class="arithmatex">\n\\[x\\]\n</div>'
    result = hooks.on_page_content(html)
    assert result.count("<math") == 2
    assert "arithmatex" not in result


def test_links_of_included_pages_lead_to_pages_of_the_site(hooks: ModuleType) -> None:
    text = "[a](docs/tables.md#sources) [b](LICENSE) [c](benchmarks/README.md)"
    assert hooks.relink(text, ROOT) == "[a](tables.md#sources) b [c](benchmarks.md)"


def test_links_in_the_repository_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"

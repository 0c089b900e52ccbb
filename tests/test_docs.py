"""Code on the pages runs and prints what they show; the references are complete."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from experiments import pictures
from metapac.cli.app import app
from tests.transcripts.transcript import PAGES as TRANSCRIPTS
from tests.transcripts.transcript import read_page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
COMMANDS = DOCS / "reference" / "commands.md"
JSON = DOCS / "reference" / "files.md"


# That of Flower needs an environment of its own: see below.
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
def test_code_on_pages_prints_what_they_show(page: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block.language in ("python", "sh"):
            printed = run_block(block, namespace, str(page))
        elif block.language == "text" and block.follows:
            assert same_output(block.code, printed), f"{page.name} shows:\n{block.code}\n{printed}"


def check_command(arguments: list[str]) -> None:
    """Read the arguments of a command, and do not run it."""
    command: Any = app
    while hasattr(command, "list_commands"):
        name, *arguments = arguments
        command = command.get_command(None, name)
        assert command is not None, name
    command.make_context(command.name, arguments)


def test_commands_that_are_only_shown_are_well_formed(hooks: ModuleType) -> None:
    for page in PAGES:
        for block in blocks(page):
            assert max(map(len, block.code.splitlines()), default=0) <= 90
            for arguments in commands(block.code) if block.language == "bash" else ():
                check_command(arguments)
    for name, command in hooks.walk_commands():
        (code,) = re.findall(r"^```bash\n(.*?)^```$", hooks.help_of(command), re.M | re.DOTALL)
        shown = [*commands(code)]
        assert shown, name
        for arguments in shown:
            check_command(arguments)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed
    if example.stem == "no_adaptation":  # its guarantee holds
        (share,) = re.findall(r"([\d.]+)% of 1000 new hospitals", printed)
        assert float(share) >= 90


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


def test_every_public_name_has_a_page_and_a_row_in_the_api_reference(hooks: ModuleType) -> None:
    names = hooks.api_names()
    entries = [entry for name in names for entry in re.findall(r"^::: (\S+)$", name.text, re.M)]
    assert len(entries) == len(set(entries))
    for part in ("", ".tables", ".sklearn", ".plots", ".report", ".fewshot"):
        package = f"metapac{part}"
        listed = {name.short for name in names if name.package == package}
        assert listed == {*hooks.public_names(package)}
    text = hooks.on_page_markdown(hooks.API.read_text())
    assert "<!--" not in text
    rows = re.findall(r"^\| \[`\w+`\]\(api/(\S+)\.md\) \| (.+) \|$", text, re.MULTILINE)
    assert [full for full, _ in rows] == [name.full for name in names]


def test_every_command_and_option_is_in_the_command_reference(hooks: ModuleType) -> None:
    text = hooks.on_page_markdown(COMMANDS.read_text())
    assert "<!--" not in text
    shared, *sections = re.split(r"^## metapac ", text, flags=re.MULTILINE)
    assert "`--separator`" in shared
    commands = dict(hooks.walk_commands())
    assert [section.partition("\n")[0] for section in sections] == [*commands]
    for section, command in zip(sections, commands.values(), strict=True):
        assert command.help.partition("\n")[0] in section
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.name.startswith("help"):
                option = f"`{parameter.opts[0]}`{{ .option }}"
                assert option in section
                described = rf"^\| {option}.*\| (.+) \|$"
                assert re.search(described, shared + section, re.MULTILINE)


OPEN = ("show", "data prepare", "data check")  # fields of a file, or of a data set


def test_the_fields_of_json_are_documented() -> None:
    text = JSON.read_text().partition("## JSON of the commands")[2]
    rows = dict(re.findall(r"^\|([^|]+)\| (.*) \|$", text, re.MULTILINE))
    fields = {
        name: {*re.findall(r"`(\w+)`", row)}
        for names, row in rows.items()
        for name in re.findall(r"`([^`]+)`", names)
    }
    seen = set()
    for path in sorted(TRANSCRIPTS.glob("*.md")):
        for step in (step for transcript in read_page(path) for step in transcript.steps):
            if step.words[:1] != ["metapac"] or "--json" not in step.words or "|" in step.words:
                continue
            name = " ".join(step.words[1 : 3 if step.words[1] == "data" else 2])
            for shown in step.shown if isinstance(step.shown, list) else [step.shown]:
                if isinstance(shown, dict):
                    seen.add(name)
                    assert name in OPEN or {*shown} <= fields[name], name
    assert seen == fields.keys()


OTHERS = ["CHANGELOG", "CONTRIBUTING", "RELEASING", "VISION"]
OTHERS += ["benchmarks/README", "benchmarks/splits"]
LINKED = [*PAGES, *(ROOT / f"{name}.md" for name in OTHERS)]
LINKED += sorted((ROOT / "experiments" / "notebooks").glob("*.md"))


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page, as the site makes them from headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", t.lower()).strip()) for t in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path, hooks: ModuleType) -> None:
    """The site is checked after it is built; this finds broken links in seconds."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if "://" in target or "reports/" in target or "schemas/" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page}: {target}"
        assert not anchor or anchor in slugs(path), f"{page}: {target}#{anchor}"
    names = {name.full for name in hooks.api_names()}
    if page.is_relative_to(DOCS):
        returned = {f"{n.package}.{each}" for n in hooks.api_names() for each in n.returned}
        assert {*re.findall(r"\]\[(metapac[\w.]*)\]", text)} <= names | returned


def test_links_out_of_the_pages_are_pointed_at_the_site(hooks: ModuleType, tmp_path: Path) -> None:
    text = "[a](docs/howto/tables.md#sources) [b](LICENSE) [c](benchmarks/README.md)"
    assert hooks.relink(text, ROOT / "CHANGELOG.md", "changelog.md") == (
        "[a](howto/tables.md#sources) "
        "[b](https://github.com/metapac/metapac/blob/main/LICENSE) [c](theory/benchmarks.md)"
    )
    (tmp_path / "index.html").write_text('<h2 id="x"></h2><a href="#x"></a><a href="b/#y"></a>')
    assert hooks.find_broken_links(tmp_path) == ["index.html: b/#y"]


# Length and words


WORDS, README_WORDS = 24_000, 600
FORBIDDEN = (
    r"\d %",  # 5%
    r"(?<![\d,.#])\d{5,}(?![\d.])",  # 38,773
    r"\bright label",  # true label
    r"\blists? of labels",  # set
    r"\bshare missed",  # miss rate
    r"\berror rate",
    r"guarantee for every",  # at most alpha of them may exceed it
    r"\bfares?\b",
    r"\bwhoever\b",
    r"in the place of",
    r"\bsays? so\b",
    r"\bspeaks? up\b",
    r"no all-clear",
    r"\bas typed\b",
)


def count_words(*pages: Path) -> int:
    return sum(len(re.findall(r"\S*[A-Za-z0-9]\S*", page.read_text())) for page in pages)


def test_the_pages_are_short() -> None:
    """A page that grows pushes something out."""
    assert count_words(ROOT / "README.md") <= README_WORDS
    assert count_words(*DOCS.rglob("*.md")) <= WORDS
    for page in (DOCS / "howto").glob("*.md"):
        assert count_words(page) <= 800, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_one_word_for_one_thing(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|\$[^$]*\$", " ", prose)
    found = [match[0] for form in FORBIDDEN for match in re.finditer(form, prose, re.IGNORECASE)]
    assert not found, f"{page.name}: see shared words in {found}"


# The pictures


def test_the_pictures_show_what_is_measured() -> None:
    pytest.importorskip("sklearn")
    for name, drawn in pictures.draw_all().items():
        shown = (pictures.FOLDER / f"{name}.svg").read_text()
        assert drawn.count("<text") == shown.count("<text") > 0
        assert re.findall(r">([^<]+)</text>", drawn) == re.findall(r">([^<]+)</text>", shown)
        numbers = [[float(x) for x in re.findall(r"\d+\.?\d*", text)] for text in (drawn, shown)]
        assert numbers[0] == pytest.approx(numbers[1], abs=1.5)


def test_the_first_screen_says_what_the_picture_shows() -> None:
    survey = pictures.Survey()
    pooled = survey.pooled_threshold(0.05)
    sets = survey.calibrate(epsilon=0.05).predict_set(survey.new_scores)
    over = int((survey.miss_rates(pooled) > 0.05).sum())
    sizes = (survey.new_scores >= pooled).sum(axis=1).mean(), sets.sum(axis=1).mean()
    for page in (ROOT / "README.md", DOCS / "index.md"):
        text = " ".join(page.read_text().split())
        assert f"{over} states miss more than 5%" in text
        assert f"grows from {sizes[0]:.2f} to {sizes[1]:.2f} labels" in text


# The example with Flower: a simulation on two processes gives the threshold of pooled scores.


PYTHON = os.environ.get("METAPAC_FLOWER", "")
EXAMPLE = ROOT / "examples" / "flower.py"


def run_flower(example: Path) -> subprocess.CompletedProcess[str]:
    offline = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**os.environ, **offline, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [PYTHON, str(example)], capture_output=True, text=True, env=environment, timeout=1200
    )


@pytest.mark.skipif(not PYTHON, reason="no Flower: .ci/run installs it and sets METAPAC_FLOWER")
def test_clients_give_the_pooled_threshold_and_one_that_lies_is_noticed(tmp_path: Path) -> None:
    done = run_flower(EXAMPLE)
    assert done.returncode == 0, done.stderr
    assert re.search(r"threshold 0\.\d{4} from 30 clients, as from all scores", done.stdout)
    honest, dishonest = "task_threshold(scores)", "task_threshold(scores * 0.5)"
    code = EXAMPLE.read_text()
    assert honest in code
    (tmp_path / "flower.py").write_text(code.replace(honest, dishonest))
    done = run_flower(tmp_path / "flower.py")
    assert done.returncode != 0
    assert "AssertionError" in done.stderr

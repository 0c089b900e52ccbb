"""Build steps of the site: included pages, live reports, references, figures, formulas as MathML.

Formulas become MathML when the site is built: browsers draw it without scripts or web fonts.
Pictures in SVG are put into the page, so that their colours follow its palette.
"""

from __future__ import annotations

import inspect
import os
import re
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from metapac import __version__

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = ROOT / "experiments" / "notebooks"
INCLUDED = {  # pages of the site that live outside docs
    "changelog.md": ROOT / "CHANGELOG.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "releasing.md": ROOT / "RELEASING.md",
    "vision.md": ROOT / "VISION.md",
    "theory/benchmarks.md": ROOT / "benchmarks" / "README.md",
    "theory/splits.md": ROOT / "benchmarks" / "splits.md",
    **{f"notebooks/{path.name}": path for path in sorted(NOTEBOOKS.glob("*.md"))},
}
PLACES = {path: name for name, path in INCLUDED.items()}
API = DOCS / "reference" / "api.md"
SHARED = 3  # an option that so many commands take is described once

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\](?:\([^)]*\))?)*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)
_SECTION = re.compile(r"^<!-- api: (\S+)((?:\s+[^\s>]+)+?)\s*-->$", re.MULTILINE)
_PICTURE = re.compile(
    r'<img alt="([^"]*)" src="(?:\.\./)*((?:pictures|figures)/[\w/-]+\.svg)" ?/?>'
)
_FOREIGN = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")


BOOSTS = {"learn": 3, "howto": 3, "understand": 3, "theory": 0.5}  # guides come first in a search
UNSEARCHED = (
    "changelog.md",
    "contributing.md",
    "releasing.md",
    "notebooks/",
    "theory/benchmarks.md",
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the API into the menu, and the version into the foot of the pages."""
    config.copyright = f'metapac {__version__}, <a href="{config.repo_url}">source</a>.'
    for entry in config.nav or []:
        for i, item in enumerate(entry.get("Reference", [])):
            if item == {"API": "reference/api.md"}:
                packages = Counter(name.package for name in api_names())
                pages = [
                    {package: [{n.short: n.page} for n in api_names() if n.package == package]}
                    for package in packages
                ]
                entry["Reference"][i] = {"API": ["reference/api.md", *pages]}
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages, the references and the JSON Schemas that live outside docs."""
    for name, source in INCLUDED.items():
        text = relink(source.read_text(encoding="utf-8"), source, name)
        files.append(File.generated(config, name, content=text))
    for name in api_names():
        files.append(File.generated(config, name.page, content=name.text))
    for schema in sorted((ROOT / "src" / "metapac" / "schemas").glob("*.json")):
        content = schema.read_text(encoding="utf-8")
        files.append(File.generated(config, f"schemas/{schema.name}", content=content))
    for name, html in write_reports().items():
        files.append(File.generated(config, f"reports/{name}", content=html))
    return files


def write_reports() -> dict[str, str]:
    """Return the reports of ``metapac demo --data sites``, by the names of their files."""
    from metapac.fewshot.reproduce import demos

    demo = demos.compare_guarantees(0)
    with tempfile.TemporaryDirectory() as folder:
        demos.save_promises(demo, folder)
        paths = demos.write_reports(demo, folder)
        return {path.name: path.read_text(encoding="utf-8") for path in paths}


def on_page_markdown(markdown: str, *, page: Page | None = None, **_: Any) -> str:
    """Point links at the site, and replace the markers of references."""
    if page is not None and page.file.abs_src_path:
        source = Path(page.file.abs_src_path)
        markdown = relink(markdown, source, source.relative_to(DOCS).as_posix())
    if page is not None:
        name = page.file.src_uri
        excluded = name.startswith(UNSEARCHED)
        page.meta["search"] = {"boost": BOOSTS.get(name.split("/")[0], 1), "exclude": excluded}
    markdown = _SECTION.sub(lambda match: _table_of_names(match[1], match[2].split()), markdown)
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- options -->", options_of(None))
        markdown = markdown.replace("<!-- commands -->", write_commands())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Replace formulas in TeX by MathML, and draw pictures inside the page."""
    html = _PICTURE.sub(lambda match: _inline(match[2], match[1]), html)
    return _FORMULA.sub(_to_mathml, html)


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Fail if a page would load anything from another server; let the keyboard scroll blocks."""
    foreign = [tag for tag in _FOREIGN.findall(output) if 'rel="canonical"' not in tag]
    if foreign:
        raise PluginError(f"{page.file.src_uri} loads from another server: {foreign[0]}")
    output = re.sub(r'(<math\b[^>]*)(display="block")', r'\1tabindex="0" \2', output)
    search = '<div class="md-search" data-md-component="search" role="dialog"'
    output = output.replace(search, f'{search} aria-label="Search"')
    output = output.replace(' data-md-component="source"', "")  # it asks api.github.com for stars
    return re.sub(r"<pre>(?=<span></span><code>)", '<pre tabindex="0">', output)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Fail if a link or an anchor of the built site leads nowhere."""
    broken = find_broken_links(Path(config.site_dir))
    if broken:
        raise PluginError("links that lead nowhere:\n" + "\n".join(broken))


class _Links(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {text for key in ("id", "name") if (text := found.get(key))}
        link = found.get("href") or found.get("src")
        if link and tag in ("a", "img", "link", "script"):
            self.links.append(link)


def find_broken_links(site: Path) -> list[str]:
    """Return the links of a built site that lead to no file or no anchor of it."""
    pages = {path: _Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    broken = set()
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute
            continue
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (path.parent / target).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            there = pages[file].anchors if file in pages else {anchor}
            if not file.exists() or (anchor and anchor not in there):
                broken.add(f"{path.relative_to(site)}: {link}")
    return sorted(broken)


def relink(text: str, source: Path, name: str) -> str:
    """Point the links of a file, which is the page ``name``, at pages or at the repository."""

    def replace(match: re.Match[str]) -> str:
        picture, words, target, anchor = match[1], match[2], match[3], match[4] or ""
        path = Path(os.path.normpath(source.parent / target))
        if "://" in target or (source.is_relative_to(DOCS) and path.is_relative_to(DOCS)):
            return match[0]
        if path in PLACES or path.is_relative_to(DOCS):
            place = PLACES.get(path) or path.relative_to(DOCS).as_posix()
            target = os.path.relpath(place, Path(name).parent)
        else:
            target = f"https://github.com/metapac/metapac/blob/main/{path.relative_to(ROOT)}"
        return f"{picture}[{words}]({target}{anchor})"

    return _LINK.sub(replace, text)


def _inline(name: str, alt: str) -> str:
    svg = (DOCS / name).read_text(encoding="utf-8")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{alt}" ', 1)
    return f'<span class="wide" tabindex="0">{svg}</span>' if 'class="figure"' in svg else svg


def _to_mathml(match: re.Match[str]) -> str:
    tex = match[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return convert(tex, display="block" if match[1] == "div" else "inline")


class ApiName(NamedTuple):
    """A public name, its package, and the classes that it returns, which share its page."""

    package: str
    short: str
    returned: tuple[str, ...]

    @property
    def full(self) -> str:
        """The name to import."""
        return f"{self.package}.{self.short}"

    @property
    def page(self) -> str:
        """The page of the site."""
        return f"reference/api/{self.full}.md"

    @property
    def text(self) -> str:
        """The page as Markdown."""
        inherits = self.short in ("MetaPS", "MetaPSClassifier", "MetaPSRegressor")
        parts = [_directive(self.full, 1, inherits)]
        parts += [_directive(f"{self.package}.{name}", 2, False) for name in self.returned]
        if self.short in ("PS", "MetaCP"):
            parts.insert(1, "Other methods are those of [`MetaPS`][metapac.MetaPS].")
        return "\n\n".join(parts)


def _directive(name: str, level: int, inherits: bool) -> str:
    options = f"    options:\n      heading_level: {level}\n"
    return f"::: {name}\n{options}" + ("      inherited_members: true\n" if inherits else "")


@cache
def api_names() -> list[ApiName]:
    """Return the names on the page of the API, ``Name(returned,returned)`` in its markers."""
    found = []
    for match in _SECTION.finditer(API.read_text(encoding="utf-8")):
        for entry in match[2].split():
            short, _, returned = entry.rstrip(")").partition("(")
            found.append(ApiName(match[1], short, tuple(filter(None, returned.split(",")))))
    return found


def _table_of_names(package: str, entries: list[str]) -> str:
    rows = ["| name | summary |", "|---|---|"]
    for entry in entries:
        short = entry.partition("(")[0]
        summary = (inspect.getdoc(getattr(import_module(package), short)) or "").split("\n\n")[0]
        summary = re.sub(r"``([^`]*)``", r"`\1`", " ".join(summary.split())).replace("|", "\\|")
        rows.append(f"| [`{short}`](api/{package}.{short}.md) | {summary} |")
    return "\n".join(rows)


def public_names(module: str) -> list[str]:
    """Return ``__all__`` of a module, without its version."""
    return [name for name in import_module(module).__all__ if not name.startswith("__")]


def walk_commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, ``data fetch`` included, in the order of the help."""
    from metapac.cli.app import app

    yield from _walk(app, ())


def _walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from _walk(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def write_commands() -> str:
    """Return a section for each command: its help and its options."""
    return "\n\n".join(
        f"## metapac {name}\n\n{help_of(command)}\n\n{options_of(command)}"
        for name, command in walk_commands()
    )


def help_of(command: Any) -> str:
    """Return the help of a command, its examples as blocks of code."""
    text = (command.help or "").strip()
    parts = re.split(r"((?:^ {4}.*\n?)+)", text, flags=re.MULTILINE)
    shown = [
        f"```bash\n{textwrap.dedent(part).rstrip()}\n```\n" if i % 2 else _mark_options(part)
        for i, part in enumerate(parts)
    ]
    return "".join(shown)


def options_of(command: Any) -> str:
    """Return a table of the options that a command does not share; without one, of the others."""
    shared = shared_options()
    if command is None:
        rows = [f"| {_names(parameter)} | {_meaning(parameter)} |" for parameter in shared.values()]
        return "\n".join(["| shared option | meaning |", "|---|---|", *rows])
    shown = [parameter for parameter in command.params if not _hidden(parameter)]
    own = [parameter for parameter in shown if _key(parameter) not in shared]
    rows = [f"| {_names(parameter)} | {_meaning(parameter)} |" for parameter in own]
    table = "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else ""
    others = [_names(parameter) for parameter in shown if _key(parameter) in shared]
    words = f"[Shared](#options-that-commands-share): {', '.join(others)}." if others else ""
    return "\n\n".join(filter(None, [table, words]))


@cache
def shared_options() -> dict[tuple[str, str], Any]:
    """Return the options that several commands describe in the same words."""
    found: dict[tuple[str, str], list[Any]] = {}
    for _, command in walk_commands():
        for parameter in command.params:
            if parameter.param_type_name == "option" and not _hidden(parameter):
                found.setdefault(_key(parameter), []).append(parameter)
    return {key: same[0] for key, same in found.items() if len(same) >= SHARED}


def _key(parameter: Any) -> tuple[str, str]:
    return parameter.name, (getattr(parameter, "help", None) or "") + str(parameter.required)


def _mark_options(text: str) -> str:
    return re.sub(r"(?<![\w-])(--[a-z]+(?:-[a-z]+)*)", r"`\1`{ .option }", text.replace("*", r"\*"))


def _hidden(parameter: Any) -> bool:
    return parameter.name in ("help", "help_all")


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}{'...' if parameter.nargs == -1 else ''}`{{ .option }}"
    names = (*parameter.opts, *parameter.secondary_opts)
    return ", ".join(f"`{name}`{{ .option }}" for name in names)


def _meaning(parameter: Any) -> str:
    words = _mark_options((getattr(parameter, "help", None) or "").strip().replace("|", "\\|"))
    if parameter.required:
        return f"{words} **Required.**"
    default = getattr(parameter.default, "value", parameter.default)
    if not isinstance(default, str | int | float) or default in (False, ""):
        return words
    return f"{words} Default: `{default}`."

"""Build steps of the site: included pages, live reports, references, formulas as MathML.

Formulas become MathML when the site is built: browsers draw it without scripts or web fonts.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
INCLUDED = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "vision.md": "VISION.md",
    "benchmarks.md": "benchmarks/README.md",
}

_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)
_COMMAND = re.compile(r"^<!-- (help|options): (.+?) -->$", re.MULTILINE)
_MODULE = re.compile(r"^<!-- names: (.+?) -->$", re.MULTILINE)
_FOREIGN = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages and the JSON Schemas that live outside docs."""
    for name, source in INCLUDED.items():
        text = relink((ROOT / source).read_text(encoding="utf-8"), (ROOT / source).parent)
        files.append(File.generated(config, name, content=text))
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


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the markers ``names: MODULE``, ``help: COMMAND`` and ``options: COMMAND``."""
    markdown = _MODULE.sub(lambda match: _directives(match[1]), markdown)
    if _COMMAND.search(markdown):
        commands = dict(walk_commands())
        write = {"help": help_of, "options": options_of}
        markdown = _COMMAND.sub(lambda match: write[match[1]](commands[match[2]]), markdown)
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Replace formulas in TeX by MathML."""
    return _FORMULA.sub(_to_mathml, html)


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Fail if a page would load anything from another server."""
    foreign = [tag for tag in _FOREIGN.findall(output) if 'rel="canonical"' not in tag]
    if foreign:
        raise PluginError(f"{page.file.src_uri} loads from another server: {foreign[0]}")
    return output


def relink(text: str, folder: Path) -> str:
    """Point links at the pages of the site; keep only the text of links to other files."""
    pages = {(ROOT / source).resolve(): name for name, source in INCLUDED.items()}
    docs = ROOT / "docs"

    def replace(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        path = (folder / target).resolve()
        if path in pages:
            return f"[{words}]({pages[path]}{anchor})"
        if path.is_relative_to(docs):
            return f"[{words}]({path.relative_to(docs).as_posix()}{anchor})"
        return words

    return _LINK.sub(replace, text)


def _to_mathml(match: re.Match[str]) -> str:
    tex = match[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return convert(tex, display="block" if match[1] == "div" else "inline")


def _directives(module: str) -> str:
    return "\n\n".join(f"::: {module}.{name}" for name in public_names(module))


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


def help_of(command: Any) -> str:
    """Return the help of a command without its examples: the page has its own."""
    text = re.sub(r"Examples?:\n\n(?: {4}.*\n?)+\n?", "", command.help or "")
    return _mark_options(text.strip())


def options_of(command: Any) -> str:
    """Return a table of the arguments and options of a command."""
    shown = [parameter for parameter in command.params if not _hidden(parameter)]
    rows = [f"| {_names(parameter)} | {_meaning(parameter)} |" for parameter in shown]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def _mark_options(text: str) -> str:
    return re.sub(r"(?<![\w-])(--[a-z]+(?:-[a-z]+)*)", r"`\1`{ .option }", text)


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
    if default in (None, False, (), [], "") or callable(default):
        return words
    return f"{words} Default: `{default}`."

"""Transcripts of commands: how they are read, run, and compared with what they show.

A section of a Markdown file is a transcript. It is run in a folder of its own, where each file of
``data.py`` that a command names is made first. A step is a line that begins with ``$``:

    $ metapac ...            a command; with --json, the JSON that it prints follows
    $ metapac ... > FILE     its output goes to a file
    $ ... | jq .KEY          a part of the JSON
    $ cat FILE               a file as data: JSON, the first rows of a table, or text that holds it
    $ ls [FOLDER]            the names of the files in a folder
    $ grep TEXT FILE         exit code 0 if the file has the text, 1 if not
    $ printf TEXT > FILE     a small file, written here

``exit 2: --alpha, 1.5`` after a step is its exit code and what the message must name. Without such
a line the exit code is 0 and there is no message. Each message is one line, and names options as
they are typed. Beyond that, wording is not compared: a sentence is ``<text>``. Where a string such
as ``<version>``, ``<number>`` or ``<checksum>`` is expected, any value of that kind is right.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from metapac import __version__
from tests.golden.cases import find_differences
from tests.helpers.commands import metapac
from tests.transcripts.data import make_files

PAGES = Path(__file__).parent
WIDTH = 100
_SHOWN = 3  # rows of a table
_NOTHING: Any = object()
_KINDS: dict[str, Any] = {"<number>": (int, float), "<text>": str, "<list>": list, "<object>": dict}
_CHECKSUM = re.compile(r"(sha256:)?[0-9a-f]{64}")
_OF_CONTENT = re.compile(r"\b(prepared-[0-9a-f]{16}|(?<=Net |AML |set )[0-9a-f]{12})\b")
# A sentence has words and ends; so has a paragraph.
_SENTENCE = re.compile(r"\S+ \S+ \S.*[.?!]\s*", re.DOTALL)
# An argument as Python writes it, such as split='joint', delta=None or min_examples=3.
_PYTHON = re.compile(r"(?<![-\w])([a-z_]+=(['\"\[({]|None|True|False)|[a-z]+_[a-z_]+=)")
_VOLATILE = {"seconds": "<number>", "bytes": "<number>"}


@dataclass
class Step:
    """A command, and what is expected of it."""

    words: list[str]
    text: str
    shown: Any = _NOTHING
    code: int = 0
    named: list[str] = field(default_factory=list)


@dataclass
class Transcript:
    """The steps of a section."""

    page: str
    title: str
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the test."""
        return f"{self.page}: {self.title}"


def read_page(path: Path) -> list[Transcript]:
    """Return the transcripts of a page."""
    found: list[Transcript] = []
    for heading, block in re.findall(
        r"^## ([^\n]*)$|^```console\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL
    ):
        if heading:
            found.append(Transcript(path.stem, heading))
        else:
            texts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
            found[-1].steps += [parse_step(text) for text in texts]
    return found


def parse_step(text: str) -> Step:
    """Return a step from its text, which begins after the ``$``."""
    command, rest = re.split(r"(?<!\\)\n", text, maxsplit=1)
    *shown, ending = rest.strip().split("\n")
    if not ending.startswith("exit "):
        shown, ending = [*shown, ending], ""
    step = Step(shlex.split(command.replace("\\\n", " ")), command)
    if any(shown):
        step.shown = json.loads("\n".join(shown))
    if ending:
        code, _, named = ending.removeprefix("exit ").partition(":")
        step.code, step.named = int(code), [word.strip() for word in named.split(",") if named]
    return step


def write_step(step: Step) -> str:
    """Return the text of a step."""
    lines = [f"$ {step.text}"]
    if step.shown is not _NOTHING:
        lines.append(lay_out(step.shown))
    if step.code or step.named:
        named = f": {', '.join(step.named)}" if step.named else ""
        lines.append(f"exit {step.code}{named}")
    return "\n".join(lines)


def lay_out(data: Any, indent: int = 0) -> str:
    """Return JSON in few lines: what fits into one is not broken."""
    line, inner = json.dumps(data, ensure_ascii=False), " " * (indent + 2)
    if len(line) + indent < WIDTH or not isinstance(data, dict | list) or not data:
        return line
    if isinstance(data, dict):
        items = data.items()
        parts = [f"{json.dumps(key)}: {lay_out(value, indent + 2)}" for key, value in items]
    else:
        parts = [lay_out(value, indent + 2) for value in data]
    first, last = "{}" if isinstance(data, dict) else "[]"
    return "\n".join([first, *_fill(parts, inner), " " * indent + last])


def _fill(parts: list[str], inner: str) -> Iterator[str]:
    """Yield lines of as many parts as fit; objects and parts of several lines have their own."""
    line = ""
    for part in parts:
        longer = f"{line} {part}," if line else f"{inner}{part},"
        if line and (len(longer) > WIDTH or "\n" in part + line or "{" in part + line):
            yield line
            longer = f"{inner}{part},"
        line = longer
    yield line.removesuffix(",")


@dataclass
class Outcome:
    """What a step did."""

    shown: Any
    code: int
    message: str
    printed: str = ""


def run(transcript: Transcript, folder: Path) -> Iterator[tuple[Step, Outcome]]:
    """Run the steps one after the other in a folder, and yield what each did."""
    with chdir(folder):
        for step in transcript.steps:
            make_files(step.words)
            yield step, _run_step(step.words, folder)


def _run_step(words: list[str], folder: Path) -> Outcome:
    match words:
        case [*rest, "|", "jq", part]:
            outcome = _run_step(rest, folder)
            for key in part.removeprefix(".").split("."):
                outcome.shown = outcome.shown[int(key) if key.isdigit() else key]
            return outcome
        case ["ls", *where]:
            return Outcome(sorted(path.name for path in Path(*where).iterdir()), 0, "")
        case ["cat", name]:
            return Outcome(normalise(read_data(Path(name)), folder), 0, "")
        case ["grep", text, name]:
            return Outcome(_NOTHING, int(text not in Path(name).read_text()), "")
        case ["printf", text, ">", name]:
            Path(name).write_text(text.encode().decode("unicode_escape"))
            return Outcome(_NOTHING, 0, "")
        case ["metapac", *rest, ">", name]:
            result = metapac(*rest)
            Path(name).write_text(result.stdout)
            return Outcome(_NOTHING, result.exit_code, read_message(result), result.stdout)
        case ["metapac", *rest]:
            result = metapac(*rest)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            shown = _NOTHING
            if "--json" in rest and result.stdout:
                shown = normalise(json.loads(result.stdout), folder)
            return Outcome(shown, result.exit_code, read_message(result), result.stdout)
    raise ValueError(f"unknown command: {words}")


def read_message(result: Any) -> str:
    """Return what a command printed on standard error, but for its progress."""
    lines = result.stderr.splitlines()
    return "\n".join(line for line in lines if not line.startswith("progress: "))


def read_data(path: Path) -> Any:
    """Return what a file holds: JSON, the shape and first rows of a table, or the first line."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix in (".csv", ".parquet"):
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        first = json.loads(frame.head(_SHOWN).to_json(orient="values", double_precision=15))
        return {"rows": len(frame), "columns": [*frame.columns], "first": first}
    return path.read_text().splitlines()[0]


def normalise(data: Any, folder: Path) -> Any:
    """Return data with placeholders for sentences and for what depends on machine and version."""
    if isinstance(data, dict):
        return {key: _VOLATILE.get(key) or normalise(value, folder) for key, value in data.items()}
    if isinstance(data, list):
        return [normalise(value, folder) for value in data]
    if not isinstance(data, str):
        return data
    if data == __version__:
        return "<version>"
    if _CHECKSUM.fullmatch(data):
        return "<checksum>"
    if _SENTENCE.fullmatch(data):
        return "<text>"
    data = _OF_CONTENT.sub("<checksum>", data)
    return data.replace(str(folder), "<folder>")


def compare(step: Step, outcome: Outcome) -> list[str]:
    """Return how the outcome of a step differs from what is expected."""
    faults = []
    if outcome.code != step.code:
        faults.append(f"exit code {outcome.code}, not {step.code}: {outcome.message}")
    faults += [
        f"message does not name {word!r}: {outcome.message}"
        for word in step.named
        if not re.search(rf"(?<!\w)(?<!\w-){re.escape(word)}(?![\w-])", outcome.message)
    ]
    faults += [
        f"message is not one line in the words of the command line: {line}"
        for line in outcome.message.splitlines()
        if not line.startswith(("error: ", "hint: ", "warning: ")) or _PYTHON.search(line)
    ]
    if outcome.message and not step.named:
        faults.append(f"message, of which no word is expected: {outcome.message}")
    if step.words[0] == "metapac" and step.code in (0, 3, 4) and not outcome.printed:
        faults.append("printed nothing")
    if step.code in (1, 2) and step.named and step.shown is _NOTHING and outcome.printed:
        faults.append(f"printed before it failed: {outcome.printed}")
    if (step.shown is _NOTHING) != (outcome.shown is _NOTHING):
        faults.append(f"printed {outcome.shown}, expected {step.shown}")
    elif step.shown is not _NOTHING:
        faults += find_differences(step.shown, keep_placeholders(step.shown, outcome.shown))
    return faults


def keep_placeholders(expected: Any, found: Any) -> Any:
    """Return what was found, with the placeholders that were expected and fit."""
    if isinstance(expected, str) and re.fullmatch(r"<\w+>", expected):
        kind = _KINDS.get(expected, object)
        return expected if isinstance(found, kind) else found
    if isinstance(expected, dict) and isinstance(found, dict):
        return {k: keep_placeholders(expected.get(k), v) for k, v in found.items()}
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [keep_placeholders(a, b) for a, b in zip(expected, found, strict=True)]
    return found

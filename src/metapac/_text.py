"""Text from data made safe to show: control characters, masked addresses, scores in words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

# Control characters (C0, DEL, C1), the soft hyphen, marks that change the direction of text, spaces
# of no width, line and paragraph separators, annotations, lone surrogates, and tags.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

_WIDEST = 40  # characters of a cell of a table
FITTED_ON = "; fitted_on="  # in the text of a score function, before the tasks it was fitted on


def name_score(score: object) -> str:
    """Return what a score function computes, as text: without the tasks that it was fitted on."""
    if hasattr(score, "__qualname__"):  # a function of the user
        return f"{score.__module__}.{score.__qualname__}"
    return str(score).partition(FITTED_ON)[0]


def visible(text: str) -> str:
    r"""Return text with control and invisible characters as escapes, such as ``\x1b``."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def inflect(noun: str) -> tuple[str, str]:
    """Return the singular and the plural of a noun."""
    singular, _, plural = (part.strip() for part in noun.partition("/"))
    if plural:
        return singular, plural
    if singular.endswith("y") and singular[-2:-1] not in ("a", "e", "i", "o", "u"):
        return singular, f"{singular[:-1]}ies"
    return singular, f"{singular}{'es' if singular.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def format_table(rows: Sequence[Mapping[str, object]], title: str = "") -> str:
    """Return rows as aligned text: words to the left, the rest to the right, long names cut."""
    names = list(rows[0])
    cells = [names, *([_cut(visible(str(row[name]))) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    is_left = [any(str(row[name])[:1].isalpha() for row in rows) for name in names]
    pads = [str.ljust if left else str.rjust for left in is_left]
    padded = ([pad(x, n) for pad, x, n in zip(pads, line, widths, strict=True)] for line in cells)
    lines = ["  ".join(line).rstrip() for line in padded]
    return "\n".join([*([title] if title else []), *lines])


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}\u2026"


def without_invisible(text: str) -> str:
    """Return text without control and invisible characters, except those that count as blanks."""
    return _UNSAFE.sub(lambda match: match[0] if match[0].isspace() else "", text)


_NAME, _NOT_END = r"[a-zA-Z][\w+.-]{1,30}", r"[^\s\"'<>]"
_START = re.compile(rf"(?s){_NAME}:(?=/|.*[@?])")
_IN_TEXT = re.compile(rf"\b{_NAME}:/{_NOT_END}*[@?#;=&%](?:{_NOT_END}*[^\s\"'<>).,;:])?")
_ASSIGNMENT = re.compile(
    r"(?i)\b((?:[\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|signature|"
    r"(?:access|account|api|private)[_-]?key)|pass|sig)\s*=\s*)"
    r"(?!\*\*\*)('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&;]+)"
)


def mask(address: str) -> str:
    """Return an address as ``scheme://host/...``; in a name that is none, hide ``password=...``.

    If an ``@`` follows the place of the host, programs differ on what is the host: none is shown.
    """
    if os.path.exists(address):  # noqa: PTH110 (Path raises for what cannot be a name)
        return address
    start = _START.search(address)
    if start is None:
        return _ASSIGNMENT.sub(r"\1***", address)
    place, *rest = re.split(r"[/?#;\\\s]", address[start.end() :].lstrip("/"), maxsplit=1)
    place = "" if "@" in str(rest) else place.rpartition("@")[2]
    host = re.sub(r"(?s)(?!:\d+$)[^\w.-].*", "", place)
    return f"{start[0]}//{host}/..."


def scrub_line(text: str, address: str = "") -> str:
    """Return a message without secrets, nor any word of what ``mask`` hides of an address."""
    shown = mask(address)
    if shown != address:
        text = text.replace(address, shown)
        hidden = {*_words(address), *_words(unquote(address))} - {*_words(shown)}
        longest = sorted(hidden, key=len, reverse=True)
        parts = [word if len(word) > 2 else rf"\b{word}\b" for word in longest]
        text = re.sub("|".join(parts) or "$^", "***", text)
    text = _IN_TEXT.sub(lambda match: mask(match[0]), text)
    return _ASSIGNMENT.sub(r"\1***", text)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)

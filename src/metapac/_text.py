"""Text from data made safe to show: control characters, masked addresses, scores in words."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

# Control characters (C0, DEL, C1), the soft hyphen, marks that change the direction of text, spaces
# of no width, line and paragraph separators, annotations, lone surrogates, and tags.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

FITTED_ON = "; fitted_on="  # in the text of a score function, before the tasks it was fitted on


def name_score(score: object) -> str:
    """Return what a score function computes, as text: without the tasks that it was fitted on."""
    return str(score).partition(FITTED_ON)[0]


def visible(text: str) -> str:
    r"""Return text with control and invisible characters as escapes, such as ``\x1b``."""
    return _UNSAFE.sub(lambda match: _escape(ord(match[0])), text)


def without_invisible(text: str) -> str:
    """Return text without control and invisible characters, except those that count as blanks."""
    return _UNSAFE.sub(lambda match: match[0] if match[0].isspace() else "", text)


def _escape(code: int) -> str:
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_STARS = "***"
# Parameters of an address whose values are no secrets; the values of all others are hidden.
_HARMLESS = {
    "connect_timeout",
    "database",
    "dbname",
    "format",
    "host",
    "port",
    "region",
    "schema",
    "sslmode",
    "version",
    "warehouse",
}
_SCHEME = r"[a-zA-Z][a-zA-Z0-9+.-]*"
_NOT_END = r"[^\s\"'<>]"
# In a message; also what is left of an address once Path has made one slash of two.
_ADDRESS = re.compile(rf"\b{_SCHEME}:(?:/{_NOT_END}*@|//){_NOT_END}*[^\s\"'<>).,;:]")
_START = re.compile(rf"(?:jdbc:)?{_SCHEME}://|(?i:md|motherduck|jdbc):|{_SCHEME[:-1]}+:/*(?=.*@)")
_SECRET = (
    r"(?:[\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|signature|"
    r"(?:access|account|api|private)[_-]?key)|pass|sig)"
)
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"[^\"]*\""
_ASSIGNMENT = re.compile(rf"(?i)\b({_SECRET}\s*=\s*)({_QUOTED}|[^\s&;]+)")
_ASSIGNMENT_IN_MESSAGE = re.compile(
    rf"(?i)\b({_SECRET}\s*=\s*)(?!\*\*\*)({_QUOTED}|[^\s&;,'\"()]+)"
)
_ASSIGNMENT_OF_ENGINE = re.compile(
    r"(?i)\b([\w.-]*(?:pass|pwd|secret|token|credential|signature|sig|key)[\w.-]*\s*[=:]\s*)"
    rf"({_QUOTED}|[^\s&;,'\"()]+)"
)


def mask(address: str) -> str:
    """Return an address with stars in place of everything that may be secret.

    The part before the last ``@``, all but a few harmless parameters and the fragment are hidden,
    so a password may hold characters that would end it in the grammar of addresses. If the last
    ``@`` may belong to a parameter, everything is hidden. In anything that is neither an address
    nor a file, such as ``host=h password=secret``, the values of secrets are hidden.
    """
    if os.path.exists(address):  # noqa: PTH110 (Path raises for what cannot be a name)
        return address
    start = _START.match(address.strip())
    if start is None:
        return _ASSIGNMENT.sub(rf"\1{_STARS}", address)
    scheme, rest = start[0], address.strip()[start.end() :]
    if scheme.lower().startswith("file:") and (rest.startswith("/") or scheme.endswith("/")):
        return address  # a path on this machine
    before, at, place = rest.rpartition("@")
    if re.search(r"[?#]", before):
        return f"{scheme}{_STARS}"
    user = _STARS + at if at else ""
    base, query = re.fullmatch(r"(?s)([^?#]*)(.*)", place).groups()  # type: ignore[union-attr]
    return f"{scheme}{user}{_mask_port(base)}{_mask_query(query)}"


def find_secrets(address: str) -> tuple[str, ...]:
    """Return the pieces of an address that `mask` hides, the longest first."""
    if mask(address) == address:
        return ()
    start = _START.match(address.strip())
    rest = address.strip()[start.end() :] if start else address
    hidden = rest.rpartition("@")[0]
    pieces = {hidden, hidden.partition(":")[2], *_split(rest)} - _split(mask(address))
    pieces |= {unquote(piece) for piece in pieces}
    return tuple(sorted(pieces - {""}, key=len, reverse=True))


def scrub(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Return the message of an engine without secrets."""
    text = _ADDRESS.sub(lambda match: mask(match[0]), text)
    text = _ASSIGNMENT_OF_ENGINE.sub(rf"\1{_STARS}", text)
    for secret in secrets:
        if len(secret) > 2:
            text = text.replace(secret, _STARS)
        else:  # which is in many words
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", _STARS, text)
    return text


def scrub_line(text: str) -> str:
    """Return a message of metapac without what looks like a secret: a net under all others."""
    text = _ADDRESS.sub(lambda match: mask(match[0]), text)
    return _ASSIGNMENT_IN_MESSAGE.sub(rf"\1{_STARS}", text)


def _split(address: str) -> set[str]:
    """Return what stands between the characters that an address gives a meaning."""
    patterns = (r"[:/?#@&=;]+", r"[^\w%]+", r"\W+")
    return {piece for pattern in patterns for piece in re.split(pattern, address)}


def _mask_port(base: str) -> str:
    """Hide what is written as a port but is none, such as a password without its host."""
    host, slash, path = base.partition("/")
    name, colon, port = host.rpartition(":")
    if colon and not port.isdigit() and not host.endswith("]"):
        host = f"{name}:{_STARS}"
    return _ASSIGNMENT_OF_ENGINE.sub(rf"\1{_STARS}", host + slash + path)


def _mask_query(query: str) -> str:
    """Return the harmless parameters, and stars for anything else."""
    parameters = [parameter for parameter in re.split("[?&;#]", query) if parameter]
    shown = [parameter for parameter in parameters if _is_harmless(parameter)]
    if len(shown) < len(parameters):
        shown.append(_STARS)
    return f"?{'&'.join(shown)}" if shown else ""


def _is_harmless(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.lower() in _HARMLESS and re.fullmatch(r"[\w.-]*", value) is not None

"""Text from data as it may be shown: what steers a terminal or hides in a line becomes visible."""

from __future__ import annotations

import re

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

"""Findings: doubts about the data, raised if surely wrong and warned of if they may be right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from metapac._common import warn
from metapac.errors import InvalidInput

CHECKS = (
    "direction",
    "duplicates",
    "labels",
    "levels",
    "missing",
    "overlap",
    "percentages",
    "rare-class",
    "score-column",
    "sets",
    "task-column",
    "task-names",
)

FALSE_ALARM = 1e-6  # probability that a statistical check objects to honest data

MAX_ROWS = 100_000  # statistical checks look at a sample of about this many rows

MIN_ROWS = 20  # fewer rows show nothing


class Finding(NamedTuple):
    """What a check objects to."""

    check: str
    is_error: bool
    text: str


class CheckWarning(UserWarning):
    """Data that may be wrong: the message says what was seen and how to go on.

    Examples
    --------
    >>> import warnings
    >>> from metapac import CheckWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CheckWarning)  # stop where data may be wrong
    """


def check_allowed(allow: Iterable[str]) -> frozenset[str]:
    """Return the names of the checks to skip."""
    names = [allow] if isinstance(allow, str) else [*allow]
    for name in names:
        if name not in CHECKS:
            raise InvalidInput(
                f"allow must name checks to skip, out of {', '.join(CHECKS)}, got {name!r}.",
                parameter="allow",
            )
    return frozenset(names)


def report(
    findings: Iterable[Finding | None], allow: Iterable[str] = (), *, where: str = ""
) -> None:
    """Raise the first finding that is surely wrong, and warn of the others."""
    skipped = check_allowed(allow)
    present = [finding for finding in findings if finding and finding.check not in skipped]
    prefix = f"{where}: " if where else ""
    for finding in sorted(present, key=lambda finding: not finding.is_error):
        purpose = "go on" if finding.is_error else "silence this"
        text = f"{prefix}{finding.text} To {purpose}, pass allow={(finding.check,)!r}."
        if finding.is_error:
            raise InvalidInput(text)
        warn(CheckWarning(text))

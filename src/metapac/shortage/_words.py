"""Words that the messages share."""

from __future__ import annotations

from metapac.exceptions import Parameter

SHOWN_CLASSES = 3


def count_tasks(count: int) -> str:
    """Return a number of tasks in words."""
    return f"{count} task{'s' if count != 1 else ''}"


def are_tasks(count: int) -> str:
    """Return the words that follow "there"."""
    return f"{'are' if count != 1 else 'is'} {count_tasks(count)}"


def rounded(name: str, value: float) -> Parameter:
    """Return a level as messages show it."""
    return Parameter(name, float(f"{value:g}"))

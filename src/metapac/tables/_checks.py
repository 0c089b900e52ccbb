"""Checks of columns, tasks and classes that several table modules share."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from metapac._checks import listed
from metapac.exceptions import InvalidInput, Parameter


def get_column(source: Any, name: str, remedy: str = "") -> Any:
    """Return a column of a source; the error lists the columns of the table."""
    columns = source.table.columns
    if name in columns:
        return source.table[name]
    lower = {column.lower(): column for column in reversed(columns)}
    close = difflib.get_close_matches(name.lower(), lower, 1, 0.75)
    hint = f" Did you mean {lower[close[0]]!r}?" if close else remedy
    if source.is_text and len(columns) == 1:
        hint += " Columns must be separated by commas, in .tsv by tabs."
    raise InvalidInput(
        f"{source.name} has no column {name!r}; it has: {list_columns(source)}.{hint}"
    )


def list_columns(source: Any) -> str:
    """Return the names of the columns of a source, or the first ones if there are very many."""
    return listed(source.table.columns, shown=30)


def check_column_names(**names: Any) -> None:
    """Raise InvalidInput if a column is not given by its name, but for example by its values."""
    for parameter, name in names.items():
        if name is not None and not isinstance(name, str):
            raise InvalidInput(
                "{} must be the name of a column as a string, got {}.",
                Parameter(parameter),
                type(name).__name__,
            )


def check_case_collisions(name: str, columns: Sequence[str]) -> None:
    """Raise InvalidInput for names that differ only in case, which engines may confuse."""
    seen: dict[str, str] = {}
    for column in columns:
        first = seen.setdefault(column.lower(), column)
        if first != column:
            raise InvalidInput(
                f"{name} has columns {first!r} and {column!r}, which differ only in case. Rename "
                "one."
            )


def name_type(kind: Any) -> str:
    """Return the type of a column in words; of one that holds nothing but nulls, say so."""
    is_empty = kind.is_null() or (kind.is_unknown() and "NULL" in str(kind))
    return "a column without values" if is_empty else str(kind)


def class_names(classes: Sequence[Any]) -> list[Any]:
    """Return distinct class names: integers as they are, everything else as strings."""
    if isinstance(classes, str):
        raise InvalidInput(
            "{} must be a list of names, got the string {!r}.", Parameter("classes"), classes
        )
    counts = Counter(str(name) for name in classes)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated or not counts:
        problem = f"{repeated[0]!r} twice" if repeated else "none"
        raise InvalidInput("{} must name each class once, got {}.", Parameter("classes"), problem)
    return [_plain(name) for name in classes]


def _plain(name: Any) -> int | str:
    is_integer = isinstance(name, int | np.integer) and not isinstance(name, bool)
    return int(name) if is_integer else str(name)


def no_rows(name: str) -> InvalidInput:
    """Return the error for a table without rows."""
    return InvalidInput(f"{name} holds no rows. Pass at least one labelled example.")


def check_no_missing_tasks(name: str, column: str | None, missing: int) -> None:
    """Raise InvalidInput if rows have no task."""
    if missing:
        raise InvalidInput(
            f"{name}: column {column!r} is missing in {pluralize(missing, 'row')}; an example must "
            "belong to a task. Drop those rows or name their task."
        )


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 row" or "2 rows"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"

"""Errors of engines and columns, in the user's words."""

from __future__ import annotations

import difflib
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from metapac._common import listed
from metapac._text import scrub_line
from metapac.errors import EngineError, InvalidInput

# Exceptions from these packages report a problem with a file or a server, not a bug in metapac.
_PACKAGES = r"_?duckdb|ibis|psycopg|py4j|pyarrow|pyspark|python_calamine|sqlite3|xml"


@contextmanager
def reporting(
    name: str, verb: str = "read", *, is_file: bool = False, address: str = ""
) -> Iterator[None]:
    """Turn an error of an engine into an ``EngineError`` that names the table.

    Of an address, neither the message nor a traceback shows more than ``mask`` does.
    """
    try:
        with warnings.catch_warnings():  # Ibis 12 calls what DuckDB 2 deprecates
            warnings.filterwarnings("ignore", "fetch_arrow_table", DeprecationWarning)
            yield
    except Exception as error:
        if not re.match(rf"(?:{_PACKAGES})\b", type(error).__module__):
            raise
        why, cause = reason(error, address), None if address else error
        if "OutOfMemory" in type(error).__name__:
            text = f"{name}: {why}. Raise memory_limit."
            raise EngineError(text, parameter="memory_limit") from cause
        hint = " Is it truncated, or of another type than its name says?" if is_file else ""
        raise EngineError(f"{name} cannot be {verb} ({why}).{hint}") from cause


def reason(error: BaseException, address: str = "") -> str:
    """Return an engine's error message in one line; of a Java error, the root cause."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = str(error if cause is None else cause.getMessage())
    inside = re.search(r'"exception_message":("(?:[^"\\]|\\.)*")', message)  # of DuckDB 2
    message = json.loads(inside[1]) if inside else message
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return scrub_line(lines[0], address) if lines else type(error).__name__


def get_column(source: Any, name: str, remedy: str = "") -> Any:
    """Return a column of a source; the error lists the columns of the table."""
    columns = source.table.columns
    if name in columns:
        return source.table[name]
    lower = {column.lower(): column for column in reversed(columns)}
    close = difflib.get_close_matches(name.lower(), lower, 1, 0.75)
    hint = f" Did you mean {lower[close[0]]!r}?" if close else remedy
    text = f"{source.name} has no column {name!r}; it has: {list_columns(source)}.{hint}"
    raise InvalidInput(text)


def pick_name(title: str, wanted: str | None, names: Sequence[str], noun: str) -> str:
    """Return the table or sheet that is wanted, or the only one."""
    if wanted in names:
        return str(wanted)
    if wanted is None and len(names) == 1:
        return names[0]
    if not names:
        raise InvalidInput(f"{title} holds no {noun}. Pass a file with one.")
    problem = f"holds several {noun}s" if wanted is None else f"has no {noun} {wanted!r}"
    text = f"{title} {problem}; it has: {', '.join(names)}. Pass one of them as table."
    raise InvalidInput(text, parameter="table")


def list_columns(source: Any) -> str:
    """Return the names of the columns of a source, or the first ones if there are very many."""
    return listed(source.table.columns, shown=30)


def check_case_collisions(name: str, columns: Sequence[str]) -> None:
    """Raise InvalidInput for equal names; engines may also confuse those that differ in case."""
    seen: dict[str, str] = {}
    for column in columns:
        if column.lower() in seen:
            both = f"{seen[column.lower()]!r} and {column!r}"
            raise InvalidInput(
                f"{name} has columns {both}, which differ at most in case. Rename one."
            )
        seen[column.lower()] = column


def name_type(kind: Any) -> str:
    """Return the type of a column in words; of one that holds nothing but nulls, say so."""
    is_empty = kind.is_null() or (kind.is_unknown() and "NULL" in str(kind))
    return "a column without values" if is_empty else str(kind)


def class_names(classes: Sequence[Any]) -> list[Any]:
    """Return distinct class names: integers as they are, everything else as strings."""
    if isinstance(classes, str):
        text = f"classes must be a list of names, got the string {classes!r}."
        raise InvalidInput(text, parameter="classes")
    names = [str(name) for name in classes]
    if not names or len({*names}) < len(names):
        text = f"classes must name each class once, got {listed(names) or 'none'}."
        raise InvalidInput(text, parameter="classes")
    whole = [isinstance(c, int | np.integer) and not isinstance(c, bool) for c in classes]
    return [int(c) if is_whole else str(c) for c, is_whole in zip(classes, whole, strict=True)]


def no_rows(name: str) -> InvalidInput:
    """Return the error for a table without rows."""
    return InvalidInput(f"{name} holds no rows. Pass at least one labelled example.")


def check_no_missing_tasks(name: str, column: str | None, missing: int) -> None:
    """Raise InvalidInput if rows have no task."""
    if missing:
        problem = f"{name}: column {column!r} is missing in {pluralize(missing, 'row')}"
        raise InvalidInput(f"{problem}; an example must belong to a task.")


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 row" or "2 rows"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"

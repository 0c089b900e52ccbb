"""Scores of all classes in each row: a column for each class, or one column of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ibis
import numpy as np

from metapac.exceptions import InvalidInput, Parameter
from metapac.tables import _checks
from metapac.tables.columns import Columns
from metapac.tables.io.sources import Source

Precision = np.dtype[np.floating[Any]]
# The texts that Python parses as numbers, apart from NaN.
_NUMBER = r"(?i)^\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)\s*$"


class ClassScores(NamedTuple):
    """A score for each class in each row, as expressions of one precision.

    Attributes
    ----------
    names : list
        The classes.
    scores : list of Ibis expressions
        The scores of each class.
    columns : tuple of str
        Columns that hold them.
    precision : numpy.dtype
        Their precision.
    """

    names: list[Any]
    scores: list[Any]
    columns: tuple[str, ...]
    precision: Precision


def find_class_scores(source: Source, columns: Columns) -> ClassScores:
    """Return the scores of all classes: from the columns that match, or a column of lists.

    Parameters
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns. The classes select some of the columns that match, or name the positions in
        the lists, which are 0, 1, ... by default.

    Returns
    -------
    ClassScores
        The scores, not computed yet.
    """
    pattern, classes = columns.pattern, columns.classes
    if "*" not in pattern:
        return _from_list(source, pattern, classes)
    if pattern.count("*") > 1:
        raise InvalidInput(
            "{} must contain one star, such as 'p_*', got {!r}.", Parameter("columns"), pattern
        )
    matches = _match_columns(source, columns)
    names = list(matches) if classes is None else _checks.class_names(classes)
    wanted = [matches.get(str(name), pattern.replace("*", str(name))) for name in names]
    scores, precision = as_floats(source, wanted)
    return ClassScores(names, scores, tuple(wanted), precision)


def as_floats(source: Source, names: Sequence[str]) -> tuple[list[Any], Precision]:
    """Return columns as floats of one precision.

    Parameters
    ----------
    source : Source
        The open table.
    names : sequence of str
        The columns.

    Returns
    -------
    columns : list of Ibis expressions
        The columns as floats; null instead of text.
    precision : numpy.dtype
        Their precision: float32 if all columns are, otherwise float64.
    """
    columns = [_checks.get_column(source, name) for name in names]
    if source.is_text:
        return [_parse(source, column) for column in columns], np.dtype(np.float64)
    for name, column in zip(names, columns, strict=True):
        _check_number_type(source, name, column.type())
    if source.traits.mixes_types:
        numbers = ["real", "integer"]
        columns = [
            column.typeof().isin(numbers).ifelse(column.cast("float64"), ibis.null())
            for column in columns
        ]
    if all(column.type().is_float32() for column in columns):
        return columns, np.dtype(np.float32)
    return [column.cast("float64") for column in columns], np.dtype(np.float64)


def is_usable(source: Source, score: Any) -> Any:
    """Return whether a score is neither null nor NaN.

    Parameters
    ----------
    source : Source
        The open table.
    score : Ibis expression
        The scores.

    Returns
    -------
    Ibis expression
        Booleans.
    """
    return score.notnull() & ~score.isnan() if source.traits.has_nan else score.notnull()


def _match_columns(source: Source, columns: Columns) -> dict[str, str]:
    """Return the column of each class that the pattern matches."""
    head, tail = columns.pattern.split("*")
    matches = {
        name[len(head) : len(name) - len(tail)]: name
        for name in source.table.columns
        if len(name) > len(head + tail) and name.startswith(head) and name.endswith(tail)
        if name not in columns.not_classes
    }
    if not matches:
        problem = f"{source.name} has no column like {columns.pattern!r}"
        raise InvalidInput(
            "{}; it has: {}. Pass the columns with a score for each class as {}, with a star for "
            "the class.",
            problem,
            _checks.list_columns(source),
            Parameter("columns"),
        )
    return matches


def _from_list(source: Source, column: str, classes: Sequence[Any] | None) -> ClassScores:
    lists = _checks.get_column(source, column)
    _check_list_type(source, column, lists.type())
    with source.reading():
        size = lists.length()
        sizes = source.run(source.table.agg(shortest=size.min(), longest=size.max()))
    shortest, longest = (sizes[name][0].as_py() or 0 for name in ("shortest", "longest"))
    names = list(range(longest)) if classes is None else _checks.class_names(classes)
    if not shortest == longest == len(names) > 0:
        lengths = f"s from {shortest} to {longest}" if shortest < longest else f" {longest}"
        raise InvalidInput(
            f"{source.name}: the lists of column {column!r} must have one score for each of "
            f"{len(names)} classes, got length{lengths}."
        )
    is_single = lists.type().value_type.is_float32()
    scores = [lists[j] if is_single else lists[j].cast("float64") for j in range(len(names))]
    return ClassScores(names, scores, (column,), np.dtype(np.float32 if is_single else np.float64))


def _check_list_type(source: Source, column: str, kind: Any) -> None:
    if not (kind.is_array() and (kind.value_type.is_floating() or kind.value_type.is_integer())):
        raise InvalidInput(
            "{} must contain one star, such as 'p_*', or name a column of lists of numbers, got "
            "{}.",
            Parameter("columns"),
            f"{column!r}, which is {kind} in {source.name}",
        )


def _check_number_type(source: Source, column: str, kind: Any) -> None:
    if not (kind.is_floating() or kind.is_integer() or kind.is_decimal()):
        raise InvalidInput(
            f"{source.name}: column {column!r} must hold numbers, got {kind}. Pass a column of "
            "probabilities, log-probabilities or negative distances."
        )


def _parse(source: Source, text: Any) -> Any:
    """Return text as a number; null if Python would not parse it."""
    if source.traits.parses_java_numbers:
        is_number = text.re_search(_NUMBER)
    else:
        is_number = ~text.contains("_")
    return is_number.ifelse(text.try_cast("float64"), ibis.null())

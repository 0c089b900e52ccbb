"""Scores of all classes in one column of lists, which may differ in length from row to row."""

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


class ScoreLists(NamedTuple):
    """A column of lists of scores.

    Attributes
    ----------
    lists : Ibis expression
        The lists, as floats.
    precision : numpy.dtype
        Their precision.
    names : list
        The classes, in the order of the lists; empty if they differ from row to row.
    row_names : Ibis expression or None
        The classes of each row as a list, if they differ: names, or positions from 0.
    """

    lists: Any
    precision: Precision
    names: list[Any]
    row_names: Any = None


def read_lists(source: Source, columns: Columns, column: str) -> ScoreLists:
    """Return the lists of a column, after checking their lengths.

    Parameters
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns. With ``classes``, every list has a score for each of them. Without, lists may
        differ in length, and a label is a position in the list of its row; nulls after the last
        score do not count.
    column : str
        The column.

    Returns
    -------
    ScoreLists
        The lists, not computed yet.

    Raises
    ------
    InvalidInput
        If the column does not hold lists of numbers, or lengths do not fit.
    """
    lists = _checks.get_column(source, column)
    _check_list_type(source, column, lists.type())
    if columns.classes_column is not None:
        return _with_names(source, lists, column, columns.classes_column)
    names = None if columns.classes is None else _checks.class_names(columns.classes)
    if names is None:
        lists = _drop_padding(source, columns, lists, column)
    shortest, longest = _find_lengths(source, lists, column)
    if names is None and shortest < longest:
        return _with_positions(source, columns, lists, column, shortest)
    names = list(range(longest)) if names is None else names
    if not shortest == longest == len(names) > 0:
        lengths = f"s from {shortest} to {longest}" if shortest < longest else f" {longest}"
        raise InvalidInput(
            f"{source.name}: the lists of column {column!r} must have one score for each of "
            f"{len(names)} classes, got length{lengths}."
        )
    check_several(source, column, names)
    return ScoreLists(*_as_float_lists(lists), names)


def check_several(source: Source, pattern: str, names: Sequence[Any]) -> None:
    """Raise InvalidInput if there is a single class, which leaves nothing to choose.

    Parameters
    ----------
    source : Source
        The open table.
    pattern : str
        Where the scores are, for the message.
    names : sequence
        The classes.
    """
    if len(names) == 1:
        raise InvalidInput(
            "{}: {!r} gives scores of one class only, {!r}, and a set needs a choice of at least "
            "two. Add a column for each other class, such as 1 - p.",
            source.name,
            pattern,
            names[0],
        )


def _find_lengths(source: Source, lists: Any, column: str) -> tuple[int, int]:
    """Return the least and the largest length of a list; raise if a row has no list."""
    table = source.table.select(size=lists.length())
    with source.reading():
        found = source.run(
            table.agg(
                shortest=table.size.min(),
                longest=table.size.max(),
                absent=table.count(where=table.size.isnull()),
            )
        )
    if absent := found["absent"][0].as_py():
        raise InvalidInput(
            f"{source.name}: column {column!r} must hold a list of scores in every row, and holds "
            f"none in {_checks.pluralize(absent, 'row')}. Drop those rows."
        )
    return found["shortest"][0].as_py() or 0, found["longest"][0].as_py() or 0


def _with_positions(
    source: Source, columns: Columns, lists: Any, column: str, shortest: int
) -> ScoreLists:
    """Return lists of different lengths, in which a class is a position."""
    problem = f"{source.name}: the lists of column {column!r}"
    if columns.per_class:
        raise InvalidInput(
            "{} differ in length, so that a position is not the same class in every row, and {} "
            "needs one fixed list of classes.",
            problem,
            Parameter("per_class", True),
        )
    if shortest < 2:
        raise InvalidInput(
            f"{problem} must hold at least two scores, since a set needs a choice, got one with "
            f"{shortest}."
        )
    positions = ibis.range(0, lists.length().cast("int64"))
    return ScoreLists(*_as_float_lists(lists), [], positions)


def _drop_padding(source: Source, columns: Columns, lists: Any, column: str) -> Any:
    """Return lists without the nulls after their last score, if they have any.

    A list with a null before a score stays as it is: a missing score, which is an error later.
    """
    used = lists.filter(lambda score: score.notnull())
    padded = (lists.length() > used.length()) & lists[: used.length()].filter(
        lambda score: score.isnull()
    ).length().isin([0])
    table = source.table.select(is_padded=padded.fill_null(False))
    with source.reading():
        count = source.run(table.agg(rows=table.count(where=table.is_padded)))["rows"][0].as_py()
    if not count:
        return lists
    _check_padding(source, columns, used.length(), column)
    return padded.fill_null(False).ifelse(used, lists)


def _check_padding(source: Source, columns: Columns, size: Any, column: str) -> None:
    """Raise InvalidInput if the rows of a task differ in their number of scores before nulls."""
    if columns.task is None or columns.task not in source.table.columns:
        return
    table = source.table.select(task=source.table[columns.task], size=size)
    sizes = table.group_by("task").agg(low=table.size.min(), high=table.size.max())
    with source.reading():
        found = source.run(sizes.filter(sizes.low < sizes.high).order_by("task").limit(1))
    if len(found):
        task, low, high = (found[name][0].as_py() for name in ("task", "low", "high"))
        raise InvalidInput(
            f"{source.name}: the lists of column {column!r} end in nulls after {low} to {high} "
            f"scores in task {task!r}; a task must have one number of classes, or a null is a "
            "missing score. Give a label without a score inf, so that it is kept."
        )


def _with_names(source: Source, lists: Any, column: str, names_column: str) -> ScoreLists:
    """Return lists of scores beside lists of class names, which may differ from row to row."""
    names = _checks.get_column(source, names_column)
    kind = names.type()
    if not (kind.is_array() and (kind.value_type.is_string() or kind.value_type.is_integer())):
        raise InvalidInput(
            "{} must name a column of lists of strings or integers, got {}.",
            Parameter("classes_column"),
            f"{names_column!r}, which is {kind} in {source.name}",
        )
    _check_two_lists(source, column, names_column)
    return ScoreLists(*_as_float_lists(lists), [], names)


def _check_two_lists(source: Source, column: str, names_column: str) -> None:
    """Raise InvalidInput unless the lists of each row fit, with distinct names."""
    lists, names = source.table[column], source.table[names_column]
    problems = {
        "no list, or no class": (lists.length() > 0) & (names.length() > 0),
        "lists of different lengths": lists.length() == names.length(),
        "a class without a name": names.filter(lambda name: name.isnull()).length() == 0,
        "a class twice": names.unique().length() == names.length(),
    }
    flags = {f"flag{i}": fits.fill_null(False) for i, fits in enumerate(problems.values())}
    table = source.table.select(**flags)
    with source.reading():
        counts = source.run(table.agg(**{name: table.count(where=~table[name]) for name in flags}))
    for problem, count in zip(problems, counts.columns, strict=True):
        if rows := count[0].as_py():
            raise InvalidInput(
                f"{source.name}: columns {column!r} and {names_column!r} must hold a score and a "
                f"name for each class of a row, got {problem} in {_checks.pluralize(rows, 'row')}."
            )


def _as_float_lists(lists: Any) -> tuple[Any, Precision]:
    kind = lists.type().value_type
    if not (kind.is_float32() or kind.is_float64()):
        lists = lists.map(lambda score: score.cast("float64"))
    return lists, np.dtype("float32" if kind.is_float32() else "float64")


def _check_list_type(source: Source, column: str, kind: Any) -> None:
    if not (kind.is_array() and (kind.value_type.is_floating() or kind.value_type.is_integer())):
        raise InvalidInput(
            "{} must contain one star, such as 'p_*', or name a column of lists of numbers, got "
            "{}.",
            Parameter("columns"),
            f"{column!r}, which is {kind} in {source.name}",
        )

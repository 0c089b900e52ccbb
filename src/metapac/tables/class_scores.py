"""Scores of all classes in each row: a column for each class, or one column of lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import ibis
import numpy as np
from ibis import _

from metapac._checks import listed
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables import _checks
from metapac.tables.columns import Columns
from metapac.tables.io.sources import Source
from metapac.tables.score_lists import Precision, check_several, read_lists
from metapac.tables.search.expressions import add_up, as_int

__all__ = ["FEW_CLASSES", "ClassScores", "Precision", "as_floats", "find_class_scores", "is_usable"]

# The texts that Python parses as numbers, apart from NaN.
_NUMBER = r"(?i)^\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)\s*$"
# More columns than this are gathered into a list, so that expressions do not grow with them.
FEW_CLASSES = 50


@dataclass(frozen=True)
class ClassScores:
    """A score for each class in each row, as expressions of one precision.

    Attributes
    ----------
    names : list
        The classes.
    columns : tuple of str
        Columns that hold the scores.
    precision : numpy.dtype
        Their precision.
    each : list of Ibis expressions or None
        The scores of each class; None if only ``lists`` has them.
    lists : Ibis expression or None
        The scores of all classes as a list; None with few columns, or on an engine without lists.
    row_names : Ibis expression or None
        The classes of each row as a list, if they differ from row to row; ``names`` is then empty.
    """

    names: list[Any]
    columns: tuple[str, ...]
    precision: Precision
    each: list[Any] | None = None
    lists: Any = None
    row_names: Any = None

    @property
    def width(self) -> Any:
        """Number of classes of each row, as an expression."""
        if self.row_names is not None:
            return self.row_names.length()
        return ibis.literal(len(self.names))

    @cached_property
    def scores(self) -> list[Any]:
        """The scores of each class."""
        if self.each is not None:
            return self.each
        return [self.lists[position] for position in range(len(self.names))]


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
    found = _read_class_scores(source, columns)
    if found.lists is None or _can_use_lists(source, columns):
        return found
    return replace(found, each=found.scores, lists=None)


def _can_use_lists(source: Source, columns: Columns) -> bool:
    """Return whether one expression can handle all classes.

    A threshold for each class needs their positions, which Ibis lets PostgreSQL use only once in a
    query.
    """
    return source.traits.has_lists and (source.traits.has_positions or not columns.per_class)


def _read_class_scores(source: Source, columns: Columns) -> ClassScores:
    pattern, classes = columns.pattern, columns.classes
    if not isinstance(pattern, str):
        return _from_columns(source, columns, tuple(pattern))
    if "*" not in pattern:
        found = read_lists(source, columns, pattern)
        return ClassScores(
            found.names,
            (pattern,),
            found.precision,
            lists=found.lists,
            row_names=found.row_names,
        )
    if pattern.count("*") > 1:
        raise InvalidInput(
            "{} must contain one star, such as 'p_*', got {!r}.", Parameter("columns"), pattern
        )
    matches = _match_columns(source, columns, pattern)
    names = list(matches) if classes is None else _checks.class_names(classes)
    wanted = [matches.get(str(name), pattern.replace("*", str(name))) for name in names]
    return _from_names(source, columns, pattern, names, wanted)


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
    columns = _number_columns(source, names)
    if source.is_text:
        return [_parse(source, column) for column in columns], np.dtype(np.float64)
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


def _number_columns(source: Source, names: Sequence[str]) -> list[Any]:
    """Return columns of numbers, or of text in CSV."""
    columns = [_checks.get_column(source, name) for name in names]
    if not source.is_text:
        for name, column in zip(names, columns, strict=True):
            _check_number_type(source, name, column.type())
    return columns


def _gather(source: Source, names: list[Any], columns: list[str]) -> ClassScores:
    """Return the columns of many classes as one list, converted entry by entry."""
    raw = _number_columns(source, columns)
    kinds = {column.type() for column in raw}
    is_single = all(kind.is_float32() for kind in kinds)
    if len(kinds) > 1 and not is_single:
        raw = [column.cast("float64") for column in raw]
    lists = ibis.array(raw)
    if source.is_text:
        lists = lists.map(lambda text: _parse(source, text))
    elif not is_single and not lists.type().value_type.is_float64():
        lists = lists.map(lambda score: score.cast("float64"))
    precision: Precision = np.dtype("float32" if is_single else "float64")
    return ClassScores(names, tuple(columns), precision, lists=lists)


def _match_columns(source: Source, columns: Columns, pattern: str) -> dict[str, str]:
    """Return the column of each class that the pattern matches."""
    head, tail = pattern.split("*")
    matches = {
        name[len(head) : len(name) - len(tail)]: name
        for name in source.table.columns
        if len(name) > len(head + tail) and name.startswith(head) and name.endswith(tail)
        if name not in columns.not_classes
    }
    if columns.classes is None:
        matches = _drop_true_scores(source, columns, matches)
    if not matches:
        problem = f"{source.name} has no column like {pattern!r}"
        raise InvalidInput(
            "{}; it has: {}. Pass the columns with a score for each class as {}, with a star for "
            "the class.",
            problem,
            _checks.list_columns(source),
            Parameter("columns"),
        )
    return matches


def _drop_true_scores(source: Source, columns: Columns, matches: dict[str, str]) -> dict[str, str]:
    """Return the matches without the column of true scores; raise if that is not what it holds."""
    suspects = {name: column for name, column in matches.items() if column in columns.score_columns}
    rest = {name: column for name, column in matches.items() if name not in suspects}
    numbers = [name for name in rest.values() if not source.table[name].type().is_string()]
    others = list(rest.values()) if source.is_text else numbers
    for name, column in suspects.items():
        if not others or not _repeats_another(source, column, others):
            raise InvalidInput(
                "{}: column {!r} was named as the score of the true label, but holds the scores of "
                "class {!r}. Calibrate with {} instead of {}; if {!r} is not a class, pass all "
                "classes as {}.",
                source.name,
                column,
                name,
                Parameter("label"),
                Parameter("score"),
                name,
                Parameter("classes"),
            )
    return rest


def _repeats_another(source: Source, column: str, others: list[str]) -> bool:
    """Return whether a column holds the score of one of the others in every row."""
    (score, *rest), _precision = as_floats(source, [column, *others])
    is_equal = add_up([as_int(score == other) for other in rest]) > 0
    with source.reading([column, *others]):
        table = source.table.select(is_equal=is_equal)
        counts = source.run(table.agg(rows=table.count(), equal=table.count(where=_.is_equal)))
    return bool(counts["rows"][0].as_py() == counts["equal"][0].as_py())


def _from_columns(source: Source, columns: Columns, wanted: tuple[str, ...]) -> ClassScores:
    """Return the scores in columns that were listed, whose names are the classes by default."""
    for name in wanted:
        _checks.get_column(source, name)
        if name in columns.not_classes:
            raise InvalidInput(
                "{} must name columns with scores, got {!r}, which names tasks or true labels.",
                Parameter("columns"),
                name,
            )
    names = list(wanted) if columns.classes is None else _checks.class_names(columns.classes)
    if len(names) != len(wanted):
        raise InvalidInput(
            "{} must name the class of each of the {} columns {}, in this order, got {} names.",
            Parameter("classes"),
            len(wanted),
            listed([*map(repr, wanted)]),
            len(names),
        )
    return _from_names(source, columns, ", ".join(wanted), names, list(wanted))


def _from_names(
    source: Source, columns: Columns, shown: str, names: list[Any], wanted: list[str]
) -> ClassScores:
    if len(names) > FEW_CLASSES and _can_use_lists(source, columns):
        return _gather(source, names, wanted)
    scores, precision = as_floats(source, wanted)
    check_several(source, shown, names)
    return ClassScores(names, tuple(wanted), precision, scores)


def _check_number_type(source: Source, column: str, kind: Any) -> None:
    if not (kind.is_floating() or kind.is_integer() or kind.is_decimal()):
        raise InvalidInput(
            f"{source.name}: column {column!r} must hold numbers, got {_checks.name_type(kind)}. "
            "Pass a column of probabilities, log-probabilities or negative distances."
        )


def _parse(source: Source, text: Any) -> Any:
    """Return text as a number; null if Python would not parse it."""
    if source.csv_format.decimal == ",":  # a point would then be a thousands separator
        text = text.contains(".").ifelse(ibis.null("string"), text.replace(",", "."))
    if source.traits.parses_java_numbers:
        is_number = text.re_search(_NUMBER)
    else:
        is_number = ~text.contains("_")
    return is_number.ifelse(text.try_cast("float64"), ibis.null())

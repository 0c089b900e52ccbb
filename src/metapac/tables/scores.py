"""The score of each row, as an expression: a column, or that of the true label among several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ibis
import numpy as np

from metapac.tables import _checks
from metapac.tables.keys import Keys
from metapac.tables.layout import Layout
from metapac.tables.sources import Source

Precision = np.dtype[np.floating[Any]]
# Beyond so many, a column of labels is more likely one of something else.
_MOST_CLASSES = 20_000
_NUMBER = r"(?i)^\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)\s*$"


class ClassScores(NamedTuple):
    """A score for each class in each row, as expressions of one precision."""

    names: list[Any]
    scores: list[Any]
    columns: tuple[str, ...]  # those they are made of
    precision: Precision


class Rows(NamedTuple):
    """Scores of true labels in an engine: a table with the columns task and score.

    Where classes are told apart, what stands in the column task is a key of task and class.
    """

    table: _checks.Table
    source: Source
    task: str | None  # its column there; None where all rows are one
    columns: tuple[str, ...]  # those that the score is made of
    precision: Precision
    task_of: Any  # the same task and score as expressions of the source's table
    score: Any
    classes: ClassScores | None
    refuse_faults: Callable[[], None]  # names what made a score missing, if it can
    labels: Any = None  # the true labels as text, an expression of the source's table
    keys: Keys | None = None  # None where classes are not told apart

    def words(self, task: Any) -> str:
        """Return what to call a task, or the examples of a class in it, in a message."""
        return repr(task) if self.keys is None else self.keys.words(task)


def true_scores(source: Source, layout: Layout) -> Rows:
    """Return task and score of each row: a column's, or that of the class which the label names."""
    task, score, label, *_classes = layout
    _checks.one_way_to_score(score, label, per_class=layout.per_class)
    tasks, labels, of_classes, names = ibis.literal("all"), None, None, None
    if task is not None:
        tasks = as_written(source, _checks.task_column(source, task))
    if label is not None:
        labels = as_written(source, _checks.label_column(source, label).cast("string"))
    if score is not None:
        used: tuple[str, ...] = (score,)
        (chosen,), precision = _numbers(source, used)
        names = None if label is None else _label_names(source, label, layout.classes)
    else:
        of_classes = class_scores(source, layout)
        used, precision, names = of_classes.columns, of_classes.precision, of_classes.names
        named = zip(names, of_classes.scores, strict=True)
        chosen = ibis.cases(*((labels == str(name), each) for name, each in named))
    keys = None
    if layout.per_class and names is not None:
        keys = Keys(tuple(names), whole=tasks.type().is_integer())
        tasks = keys.of(tasks, labels)

    def refuse_faults() -> None:
        source.refuse_faults(used, task)
        if names is not None:
            _refuse_unknown(source, label, labels, names)

    table = source.table.select(task=tasks, score=chosen)
    made_of = (table, source, task, used, precision, tasks, chosen)
    return Rows(*made_of, of_classes, refuse_faults, labels, keys)


def _label_names(source: Source, label: str, classes: Sequence[Any] | None) -> list[Any]:
    """Return the classes of a column of labels, in ascending order unless they are given."""
    if classes is not None:
        return _checks.class_names(classes)
    column = as_written(source, _checks.label_column(source, label))
    with source.reading():
        some = source.table.select(label=column).distinct().limit(_MOST_CLASSES + 2)
        found = source.run(some)["label"].to_pylist()
    names = [name for name in found if name is not None]
    _checks.some_classes(source, label, len(found), len(names), _MOST_CLASSES)
    return sorted(names)


def as_written(source: Source, names: Any) -> Any:
    """Return names that are equal only if they are written alike, capitals and all.

    A column of SQLite may ignore capitals; text put together never does.
    """
    return names + "" if source.engine == "sqlite" and names.type().is_string() else names


def refuse_unlabelled(source: Source, layout: Layout, of_classes: ClassScores | None) -> None:
    """Refuse classes that were guessed from names of columns and are the label of no row."""
    if of_classes is None or layout.label is None or layout.classes is not None:
        return
    if "*" in layout.columns:
        label = _checks.label_column(source, layout.label).cast("string")
        found = source.run(source.table.select(label=label).distinct())["label"].to_pylist()
        known = [str(name) for name in of_classes.names]
        if not {*found} - {*known}:  # else another check names the labels that are no class
            never = [name for name in known if name not in found]
            _checks.classes_are_labels(source, layout.label, never, known)


def class_scores(source: Source, layout: Layout) -> ClassScores:
    """Return the scores of all classes: the columns like that of the layout, or a column of lists.

    The layout's classes pick some, or name the places of a list, which are else 0, 1, ...
    """
    columns, classes = layout.columns, layout.classes
    if "*" not in columns:
        return _from_list(source, columns, classes)
    if columns.count("*") > 1:
        raise ValueError(f"columns must hold one star, such as 'p_*', got {columns!r}.")
    head, tail = columns.split("*")
    like = {
        name[len(head) : len(name) - len(tail)]: name
        for name in source.table.columns
        if len(name) > len(head + tail) and name.startswith(head) and name.endswith(tail)
        if name not in layout.no_classes
    }
    if not like:
        there = _checks.columns(source.table.columns)
        raise ValueError(
            f"{source.name} has no column like {columns!r}; it has: {there}. Say in columns which "
            "are the scores of the classes: a star for their names."
        )
    names = list(like) if classes is None else _checks.class_names(classes)
    wanted = [like.get(str(name), columns.replace("*", str(name))) for name in names]
    for column in wanted:
        _checks.column(source, column)
    scores, precision = _numbers(source, wanted)
    return ClassScores(names, scores, tuple(wanted), precision)


def _from_list(source: Source, column: str, classes: Sequence[Any] | None) -> ClassScores:
    lists = _checks.column(source, column)
    kind = lists.type()
    _checks.list_column(source, column, kind)
    with source.reading():
        size = lists.length()
        found = source.run(source.table.agg(least=size.min(), most=size.max()))
    least, most = (found[name][0].as_py() or 0 for name in ("least", "most"))
    names = list(range(most)) if classes is None else _checks.class_names(classes)
    _checks.list_lengths(source, column, least, most, len(names))
    single = kind.value_type.is_float32()
    wide = [lists[j] if single else lists[j].cast("float64") for j in range(len(names))]
    return ClassScores(names, wide, (column,), np.dtype(np.float32 if single else np.float64))


def _numbers(source: Source, columns: Sequence[str]) -> tuple[list[Any], Precision]:
    """Return columns as floats of one precision; null where there is text."""
    found = [_checks.column(source, column) for column in columns]
    if source.is_text:
        return [_parsed(source, column) for column in found], np.dtype(np.float64)
    for name, column in zip(columns, found, strict=True):
        _checks.number_column(source, name, column.type())
    if source.engine == "sqlite":  # text may stand among its numbers
        numbers = ["real", "integer"]
        found = [c.typeof().isin(numbers).ifelse(c.cast("float64"), ibis.null()) for c in found]
    if all(column.type().is_float32() for column in found):
        return found, np.dtype(np.float32)
    return [column.cast("float64") for column in found], np.dtype(np.float64)


def _parsed(source: Source, text: Any) -> Any:
    """Return text as a number; null where Python would not take it for one."""
    java = source.engine == "pyspark"  # which reads 1d and 0x1p3 as numbers
    right = text.re_search(_NUMBER) if java else ~text.contains("_")
    return right.ifelse(text.try_cast("float64"), ibis.null())


def usable(source: Source, score: Any) -> Any:
    """Return whether a score is neither null nor NaN, as an expression. SQLite has no NaN."""
    return score.notnull() if source.engine == "sqlite" else score.notnull() & ~score.isnan()


def _refuse_unknown(source: Source, label: str | None, labels: Any, names: list[Any]) -> None:
    known = [str(name) for name in names]
    table = source.table.select(label=labels)
    bad = table.filter(table.label.isnull() | table.label.notin(known))
    found = source.run(bad.group_by("label").agg(rows=bad.count()))
    pairs = zip(found["label"].to_pylist(), found["rows"].to_pylist(), strict=True)
    _checks.known_labels(source, label, sorted(pairs, key=lambda pair: str(pair[0])), known)

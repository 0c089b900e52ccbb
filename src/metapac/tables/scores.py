"""Score of each row as an expression: a column, or the score of the true label among several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis

from metapac._checks import listed
from metapac._types import Table
from metapac.exceptions import InvalidInput, Parameter
from metapac.tables import _checks
from metapac.tables.class_scores import ClassScores, Precision, as_floats, find_class_scores
from metapac.tables.columns import Columns
from metapac.tables.io.sources import Source
from metapac.tables.keys import Keys

# A column with more distinct values is probably not a column of labels.
_MAX_CLASSES = 20_000


@dataclass(frozen=True)
class Rows:
    """Task and score of the true label in each row, as expressions.

    Attributes
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns.
    task : Ibis expression
        Task of each row; with a guarantee per class, a key of task and class.
    score : Ibis expression
        Score of the true label.
    precision : numpy.dtype
        Precision of the scores.
    score_columns : tuple of str
        Columns that hold the scores.
    class_scores : ClassScores or None
        Scores of all classes; None if only true labels have scores.
    labels : Ibis expression or None
        True labels as text.
    names : list or None
        The classes; None if they are not needed.
    keys : Keys or None
        The keys in ``task``; None without a guarantee per class.
    """

    source: Source
    columns: Columns
    task: Any
    score: Any
    precision: Precision
    score_columns: tuple[str, ...]
    class_scores: ClassScores | None
    labels: Any
    names: list[Any] | None
    keys: Keys | None

    @cached_property
    def table(self) -> Table:
        """A table with the columns task and score."""
        return self.source.table.select(task=self.task, score=self.score)

    def describe(self, task: Any) -> str:
        """Return the name of a task, or of a class in it, for messages.

        Parameters
        ----------
        task : object
            A value of ``task``.

        Returns
        -------
        str
            The name.
        """
        return repr(task) if self.keys is None else self.keys.describe(task)

    def check_faults(self) -> None:
        """Raise InvalidInput if a line or a label explains why a score is missing.

        Raises
        ------
        InvalidInput
            If a line of a CSV file is faulty, or a label is not a class.
        """
        self.source.check_text(self.score_columns, self.columns.task)
        if self.names is not None:
            _check_labels(self.source, self.columns.label, self.labels, self.names)


def true_scores(source: Source, columns: Columns) -> Rows:
    """Return the task of each row and the score of its true label.

    Parameters
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns.

    Returns
    -------
    Rows
        Tasks and scores, not computed yet.
    """
    _check_score_or_label(columns)
    tasks, labels, of_classes, names = ibis.literal("all"), None, None, None
    if columns.task is not None:
        tasks = as_written(source, _checks.get_id_column(source, columns.task, "tasks"))
    if columns.label is not None:
        column = _checks.get_id_column(source, columns.label, "labels")
        labels = as_written(source, column.cast("string"))
    if columns.score is not None:
        used: tuple[str, ...] = (columns.score,)
        (score,), precision = as_floats(source, used)
        if columns.label is not None:
            names = _find_classes(source, columns.label, columns.classes)
    else:
        of_classes = find_class_scores(source, columns)
        used, precision, names = of_classes.columns, of_classes.precision, of_classes.names
        named = zip(names, of_classes.scores, strict=True)
        score = ibis.cases(*((labels == str(name), expression) for name, expression in named))
    keys = None
    if columns.per_class and names is not None:
        keys = Keys(tuple(names), integer_tasks=tasks.type().is_integer())
        tasks = keys.build(tasks, labels)
    return Rows(source, columns, tasks, score, precision, used, of_classes, labels, names, keys)


def as_written(source: Source, names: Any) -> Any:
    """Return names that are compared with regard to case.

    Parameters
    ----------
    source : Source
        The open table.
    names : Ibis expression
        A column of it.

    Returns
    -------
    Ibis expression
        The names; a column of SQLite may ignore case, a concatenation never does.
    """
    return names + "" if source.traits.has_collations and names.type().is_string() else names


def check_guessed_classes(rows: Rows) -> None:
    """Raise InvalidInput if a class guessed from a column name is not the label of any row.

    Parameters
    ----------
    rows : Rows
        The rows; nothing is checked if the classes were passed, or are not guessed.
    """
    source, columns, of_classes = rows.source, rows.columns, rows.class_scores
    if of_classes is None or columns.label is None or columns.classes is not None:
        return
    if "*" not in columns.pattern:
        return
    label = _checks.get_id_column(source, columns.label, "labels").cast("string")
    labels = source.run(source.table.select(label=label).distinct())["label"].to_pylist()
    classes = [str(name) for name in of_classes.names]
    absent = [name for name in classes if name not in labels]
    if absent and {*labels} <= {*classes}:  # labels that are not classes are reported elsewhere
        present = ", ".join(name for name in classes if name in labels)
        never = (
            f"{source.name}: column {columns.label!r} never holds {listed([*map(repr, absent)])}"
        )
        raise InvalidInput(
            "{}, though a column looks like the scores of such a class. If it is a class, pass all "
            "of them as {}: {}; if not, pass the others: {}.",
            never,
            Parameter("classes"),
            ", ".join(classes),
            present,
        )


def _check_score_or_label(columns: Columns) -> None:
    score, label = Parameter("score"), Parameter("label")
    if columns.per_class and columns.label is None:
        raise InvalidInput(
            "{} must name the column with the true label, since each class has its own guarantee. "
            "Pass {}, with or without {}.",
            label,
            label,
            score,
        )
    if (columns.score is None) == (columns.label is None) and not columns.per_class:
        raise InvalidInput(
            "pass either {}, the column with the score of the true label, or {}, the column with "
            "the true label beside a score for each class, got {}.",
            score,
            label,
            "neither" if columns.score is None else "both",
        )


def _find_classes(source: Source, label: str, classes: Sequence[Any] | None) -> list[Any]:
    """Return the classes that were passed, or the distinct labels in ascending order."""
    if classes is not None:
        return _checks.class_names(classes)
    column = as_written(source, _checks.get_id_column(source, label, "labels"))
    with source.reading():
        distinct = source.table.select(label=column).distinct().limit(_MAX_CLASSES + 2)
        labels = source.run(distinct)["label"].to_pylist()
    names = [name for name in labels if name is not None]
    if not labels:
        raise _checks.no_rows(source.name)
    if not names:
        raise InvalidInput(f"{source.name}: column {label!r} holds no labels. Fill it in.")
    if len(names) > _MAX_CLASSES:
        raise InvalidInput(
            f"{source.name}: column {label!r} holds more than {_MAX_CLASSES} different labels. "
            "Pass the column with the true label."
        )
    return sorted(names)


def _check_labels(source: Source, label: str | None, labels: Any, names: list[Any]) -> None:
    """Raise InvalidInput for labels that are not classes, and for rows without a label."""
    classes = [str(name) for name in names]
    table = source.table.select(label=labels)
    bad = table.filter(table.label.isnull() | table.label.notin(classes))
    counts = source.run(bad.group_by("label").agg(rows=bad.count()))
    pairs = zip(counts["label"].to_pylist(), counts["rows"].to_pylist(), strict=True)
    unknown = [
        f"{'no label' if name is None else repr(name)} in {_checks.pluralize(rows, 'row')}"
        for name, rows in sorted(pairs, key=lambda pair: str(pair[0]))
    ]
    if unknown:
        raise InvalidInput(
            f"{source.name}: column {label!r} must hold one of the classes "
            f"{listed([*map(repr, classes)])}, got {listed(unknown)}. Drop those rows, add scores "
            "for their class, or name the classes as the labels do."
        )

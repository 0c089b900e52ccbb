"""Score of each row as an expression: a column, or the score of the true label among several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis
import numpy as np

from metapac._checks import listed
from metapac._types import Table
from metapac.exceptions import InvalidInput, Message, Parameter
from metapac.label_names import advise_on_labels
from metapac.tables import _checks
from metapac.tables.class_scores import ClassScores, Precision, as_floats, find_class_scores
from metapac.tables.columns import Columns
from metapac.tables.ids import get_id_column
from metapac.tables.io.sources import Source
from metapac.tables.keys import Keys
from metapac.tables.residuals import Residuals, find_residuals
from metapac.tables.search.expressions import constant_list, pick

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
    residuals : Residuals or None
        Predicted and true numbers; None if labels are classes.
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
    residuals: Residuals | None = None

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
            _check_labels(self)
        elif self.class_scores is not None and self.class_scores.row_names is not None:
            _check_candidates(self.source, self.columns, self.labels, self.class_scores.row_names)


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
        tasks = as_written(source, get_id_column(source, columns.task, "tasks"))
    if columns.label is not None:
        column = get_id_column(source, columns.label, "labels")
        labels = as_written(source, column.cast("string"))
    if columns.prediction is not None:
        return _residual_rows(source, columns, tasks)
    if columns.score is not None:
        used: tuple[str, ...] = (columns.score,)
        (score,), precision = as_floats(source, used)
        if columns.label is not None:
            names = _find_classes(source, columns.label, columns.classes)
    else:
        of_classes = find_class_scores(source, columns)
        used, precision = of_classes.columns, of_classes.precision
        names = of_classes.names if of_classes.row_names is None else None
        score = _score_of_label(of_classes, labels)
    keys = None
    if columns.per_class and names is not None:
        keys = Keys(tuple(names), integer_tasks=tasks.type().is_integer())
        tasks = keys.build(tasks, labels)
    return Rows(source, columns, tasks, score, precision, used, of_classes, labels, names, keys)


def _residual_rows(source: Source, columns: Columns, tasks: Any) -> Rows:
    residuals = find_residuals(source, columns, needs_y=True)
    double, score = np.dtype(np.float64), residuals.score()
    no_classes = (None, None, None, None)
    return Rows(source, columns, tasks, score, double, residuals.columns, *no_classes, residuals)


def _score_of_label(of_classes: ClassScores, labels: Any) -> Any:
    """Return the score of the true label; null if the label is not a class."""
    if of_classes.row_names is not None:
        return pick(of_classes.lists, _as_texts(of_classes.row_names).index(labels))
    names = [str(name) for name in of_classes.names]
    if of_classes.lists is None:
        pairs = zip(names, of_classes.scores, strict=True)
        return ibis.cases(*((labels == name, score) for name, score in pairs))
    return pick(of_classes.lists, constant_list(names).index(labels))


def _as_texts(lists: Any) -> Any:
    """Return lists of names as lists of strings."""
    is_text = lists.type().value_type.is_string()
    return lists if is_text else lists.map(lambda name: name.cast("string"))


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
    label = get_id_column(source, columns.label, "labels").cast("string")
    labels = source.run(source.table.select(label=label).distinct())["label"].to_pylist()
    if not labels:
        raise _checks.no_rows(source.name)
    classes = [str(name) for name in of_classes.names]
    known = {*labels}
    absent = [name for name in classes if name not in known]
    if absent and known <= {*classes}:  # labels that are not classes are reported elsewhere
        present = ", ".join(name for name in classes if name in known)
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
    score, label, prediction = (Parameter(name) for name in ("score", "label", "prediction"))
    if columns.prediction is not None:
        return
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
            "the true label beside a score for each class, got {}. For regression, pass {} and {}.",
            score,
            label,
            "neither" if columns.score is None else "both",
            prediction,
            Parameter("y"),
        )


def _find_classes(source: Source, label: str, classes: Sequence[Any] | None) -> list[Any]:
    """Return the classes that were passed, or the distinct labels in ascending order."""
    if classes is not None:
        return _checks.class_names(classes)
    column = as_written(source, get_id_column(source, label, "labels"))
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


def _check_labels(rows: Rows) -> None:
    """Raise InvalidInput for labels that are not classes, and for rows without a label."""
    classes = [str(name) for name in rows.names or ()]
    table = rows.source.table.select(label=rows.labels)
    bad = table.filter(table.label.isnull() | table.label.notin(classes))
    counts = rows.source.run(bad.group_by("label").agg(rows=bad.count()))
    pairs = zip(counts["label"].to_pylist(), counts["rows"].to_pylist(), strict=True)
    unknown = dict(sorted(pairs, key=lambda pair: str(pair[0])))
    if unknown:
        found = [
            f"{'no label' if name is None else repr(name)} in {_checks.pluralize(count, 'row')}"
            for name, count in unknown.items()
        ]
        raise InvalidInput(
            "{}: column {!r} must hold one of the classes {}, got {}. {}",
            rows.source.name,
            rows.columns.label,
            listed([*map(repr, classes)]),
            listed(found),
            _advise(rows, [name for name in unknown if name is not None], sum(unknown.values())),
        )


def _advise(rows: Rows, unknown: list[str], bad: int) -> Message | str:
    """Return what to do about labels that are not classes, in so many rows."""
    columns, of_classes = rows.columns, rows.class_scores
    if _has_classes_as_tasks(rows):
        return Message("Were {} and {} swapped?", Parameter("task"), Parameter("label"))
    used = None
    width = 0 if of_classes is None else len(of_classes.columns)
    if columns.classes is None and of_classes is not None and width == len(of_classes.names):
        total = rows.source.run(rows.source.table.agg(rows=rows.source.table.count()))
        used = of_classes.columns if total["rows"][0].as_py() == bad else None
    advice = advise_on_labels(unknown, [str(name) for name in rows.names or ()], used)
    if advice is not None:
        return advice
    if not unknown:
        return "Fill in the labels, or drop those rows."
    return "Give labels and classes the same names, add scores for their class, or drop those rows."


def _has_classes_as_tasks(rows: Rows) -> bool:
    """Return whether the column with the tasks holds the classes, and no other value."""
    if rows.columns.task is None:
        return False
    classes = {str(name) for name in rows.names or ()}
    task = get_id_column(rows.source, rows.columns.task, "tasks").cast("string")
    distinct = rows.source.table.select(task=task).distinct().limit(len(classes) + 1)
    return {*rows.source.run(distinct)["task"].to_pylist()} == classes


def _check_candidates(source: Source, columns: Columns, labels: Any, candidates: Any) -> None:
    """Raise InvalidInput for labels that are not among the classes of their row."""
    is_known = _as_texts(candidates).contains(labels).fill_null(False)
    table = source.table.select(is_known=is_known)
    rows = source.run(table.agg(rows=table.count(where=~table.is_known)))["rows"][0].as_py()
    if rows and columns.classes_column is None:
        raise InvalidInput(
            "{}: column {!r} must hold a position in the list of the same row, counted from 0, and "
            "does not in {}. Number the labels of each task in the order of its scores, or name "
            "the classes of each row as {}.",
            source.name,
            columns.label,
            _checks.pluralize(rows, "row"),
            Parameter("classes_column"),
        )
    if rows:
        raise InvalidInput(
            f"{source.name}: column {columns.label!r} must hold one of the classes in column "
            f"{columns.classes_column!r} of the same row, and does not in "
            f"{_checks.pluralize(rows, 'row')}. Drop those rows, or add the score of their class."
        )

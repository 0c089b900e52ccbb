"""What becomes of each row: the labels that its set keeps, its size, whether it misses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis

from metapac.base import ThresholdSets
from metapac.tables.class_scores import FEW_CLASSES, ClassScores
from metapac.tables.intervals import find_ends
from metapac.tables.scores import Rows
from metapac.tables.search.comparison import find_cut, find_cuts, is_kept
from metapac.tables.search.expressions import (
    add_up,
    as_int,
    constant_floats,
    constant_list,
    pick,
)


@dataclass(frozen=True)
class KeptLabels:
    """The labels in the set of each row, as expressions.

    With few columns there is an expression for each class. With many, or with lists, one
    expression handles them all, so that its size does not grow with the number of classes.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    of_classes : ClassScores
        Scores of all classes.
    """

    promise: ThresholdSets
    of_classes: ClassScores

    @cached_property
    def each(self) -> list[Any]:
        """Whether each class is in the set."""
        names, precision = self.of_classes.names, self.of_classes.precision
        cuts = find_cuts(self.promise, names, precision)
        return [is_kept(*pair) for pair in zip(self.of_classes.scores, cuts, strict=True)]

    @cached_property
    def positions(self) -> Any:
        """Positions of the classes in the set, as a list; needs ``of_classes.lists``."""
        names, precision = self.of_classes.names, self.of_classes.precision
        shared = find_cut(self.promise, precision) if self.promise.classes_ is None else None
        by_class: Any = None
        if shared is None:
            by_class = constant_floats(find_cuts(self.promise, names, precision))

        def position_or_null(score: Any, position: Any) -> Any:
            if shared is not None:
                kept = is_kept(score, shared)
            else:
                kept = score.cast("float64") >= by_class[position.cast("int32")]
            return kept.ifelse(position.cast("int32"), ibis.null("int32"))

        return self.of_classes.lists.map(position_or_null).filter(lambda i: i.notnull())

    @cached_property
    def row_labels(self) -> Any:
        """The labels in the set, as a list; needs ``of_classes.row_names``."""
        cut = find_cut(self.promise, self.of_classes.precision)
        names = self.of_classes.row_names
        no_name = ibis.null(names.type().value_type)

        def name_or_null(score: Any, position: Any) -> Any:
            return is_kept(score, cut).ifelse(names[position.cast("int32")], no_name)

        return self.of_classes.lists.map(name_or_null).filter(lambda name: name.notnull())

    @cached_property
    def size(self) -> Any:
        """Number of labels in the set."""
        if self.of_classes.lists is None:
            return add_up([as_int(is_in_set) for is_in_set in self.each])
        if self.promise.classes_ is None:  # Ibis lets PostgreSQL use positions once in a query
            cut = find_cut(self.promise, self.of_classes.precision)
            return self.of_classes.lists.filter(lambda score: is_kept(score, cut)).length()
        return self.positions.length()

    @cached_property
    def answer(self) -> Any:
        """The label of a set of one, otherwise null."""
        names, lists = self.of_classes.names, self.of_classes.lists
        if lists is None or 0 < len(names) <= FEW_CLASSES:
            kind = "int64" if all(isinstance(name, int) for name in names) else "string"
            cases = [
                (is_in_set, ibis.literal(name if kind == "int64" else str(name), kind))
                for name, is_in_set in zip(names, self.each, strict=True)
            ]
            return (self.size == 1).ifelse(ibis.cases(*cases), ibis.null(kind))
        labels = self.as_list()
        return (self.size == 1).ifelse(labels[0], ibis.null(labels.type().value_type))

    def as_list(self) -> Any:
        """Return the labels as a list, on an engine that has lists.

        Returns
        -------
        Ibis expression
            Lists of strings, or of integers if all classes are.
        """
        if self.of_classes.row_names is not None:
            return self.row_labels
        names = self.of_classes.names
        kind = "int64" if all(isinstance(name, int) for name in names) else "string"
        if self.of_classes.lists is not None:
            labels = constant_list([str(name) for name in names])
            return self.positions.map(lambda i: labels[i].cast(kind))
        label_or_null = [
            is_in_set.ifelse(
                ibis.literal(name if kind == "int64" else str(name), kind), ibis.null(kind)
            )
            for name, is_in_set in zip(names, self.each, strict=True)
        ]
        return ibis.array(label_or_null).filter(lambda label: label.notnull())

    def as_text(self) -> Any:
        """Return the labels as JSON text; not every engine has lists.

        Returns
        -------
        Ibis expression
            Texts such as '["cat", "dog"]'.
        """
        if self.of_classes.row_names is not None:
            joined = self.row_labels.map(_as_json).join(", ")
            return "[" + ibis.coalesce(joined, "") + "]"
        texts = [json.dumps(name, ensure_ascii=False) for name in self.of_classes.names]
        if self.of_classes.lists is not None:
            labels = constant_list(texts)
            joined = self.positions.map(lambda i: labels[i]).join(", ")
            return "[" + ibis.coalesce(joined, "") + "]"
        parts = [
            is_in_set.ifelse(f", {text}", "")
            for text, is_in_set in zip(texts, self.each, strict=True)
        ]
        return "[" + add_up(parts).substr(2) + "]"


def row_outcomes(promise: ThresholdSets, rows: Rows) -> dict[str, Any]:
    """Return whether the set of each row misses its label, and its size, as expressions.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    rows : Rows
        Tasks, scores and labels.

    Returns
    -------
    dict
        "missed", 1 or 0; and "size", if all classes have scores, or "width", of intervals.
    """
    outcomes = {"missed": as_int(~_keeps_label(promise, rows))}
    if rows.residuals is not None:
        lower, upper = find_ends(promise, rows.residuals)
        outcomes["width"] = upper - lower
    if rows.class_scores is not None:
        outcomes["size"] = KeptLabels(promise, rows.class_scores).size
    return outcomes


def lists_as_text(table: Any) -> dict[str, Any]:
    """Return the columns of lists of texts as JSON text, for formats without lists.

    Parameters
    ----------
    table : ibis.Table
        The table.

    Returns
    -------
    dict
        Expressions by column.
    """
    columns = {name: table[name] for name in table.columns}
    return {
        name: column.notnull().ifelse(
            "[" + ibis.coalesce(column.map(_as_json).join(", "), "") + "]", ibis.null("string")
        )
        for name, column in columns.items()
        if column.type().is_array() and column.type().value_type.is_string()
    }


def _as_json(name: Any) -> Any:
    """Return a name as JSON text."""
    if not name.type().is_string():
        return name.cast("string")
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        name = name.replace(character, escaped)
    return ibis.literal('"') + name + '"'


def _keeps_label(promise: ThresholdSets, rows: Rows) -> Any:
    """Return whether the set of each row contains its true label."""
    if promise.classes_ is None:
        return is_kept(rows.score, find_cut(promise, rows.precision))
    names: Sequence[Any] = rows.names or ()
    cuts = find_cuts(promise, names, rows.precision)
    texts = [str(name) for name in names]
    if len(names) > FEW_CLASSES and rows.source.traits.has_lists:
        cut = pick(constant_floats(cuts), constant_list(texts).index(rows.labels))
        return rows.score.cast("float64") >= cut
    pairs = zip(texts, cuts, strict=True)
    return ibis.cases(*((rows.labels == text, is_kept(rows.score, cut)) for text, cut in pairs))

"""Sets for every row of a table: a list of labels, or a boolean for each class."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import ibis

from metapac._estimator import ThresholdSets
from metapac.tables import _checks
from metapac.tables import output as output_file
from metapac.tables.cuts import cuts_of, kept, one_if, total
from metapac.tables.layout import Layout, as_calibrated
from metapac.tables.scores import ClassScores, class_scores, usable
from metapac.tables.sources import Source, open_source


def predict_table(
    promise: ThresholdSets,
    source: Any,
    *,
    columns: str | None = None,
    classes: Sequence[Any] | None = None,
    booleans: bool = False,
    output: str | os.PathLike[str] | None = None,
    table: str | None = None,
    connection: Any = None,
) -> _checks.Table:
    """Return an Ibis table with the set of labels of each row, and write it to ``output``.

    A row is kept as it is, and its set is added to it. Nulls and NaN among the scores are refused
    before anything is written.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated object.
    source : path, list of paths, frame or Ibis table
        As in ``calibrate_table``.
    columns : str, optional
        Columns with a score for each class, the star being the name of the class; or a column of
        lists. By default as the promise was calibrated, or ``p_*``.
    classes : sequence, optional
        Names of the classes: of some of the columns, or of the places of lists. By default those of
        the promise; with a guarantee for each class, it has no other.
    booleans : bool, default False
        Whether to add a column in_CLASS for each class, instead of the columns ``set``, a list of
        labels (JSON text in CSV), and ``set_size``.
    output : str or path, optional
        Parquet or CSV file to write.
    table, connection
        As in ``calibrate_table``.

    Returns
    -------
    ibis.Table
        The table with its sets.
    """
    layout = as_calibrated(promise, columns=columns, classes=classes)
    text = output is not None and output_file.kind_of(output) == "csv"
    with ExitStack() as on_error:
        opened = on_error.enter_context(open_source(source, table=table, connection=connection))
        if output is not None:
            output_file.check(opened, output)
        found = sets_of(promise, opened, layout, booleans=booleans, text=text)
        if output is not None:
            output_file.write(opened.connection, found.table, output)
        on_error.pop_all()  # the table returned needs its connection
    return found.table


class Sets(NamedTuple):
    """A table with its sets, how many rows it has, and the classes they are of."""

    table: _checks.Table
    rows: int
    classes: list[Any]


def sets_of(
    promise: ThresholdSets, source: Source, layout: Layout, *, booleans: bool, text: bool
) -> Sets:
    """Return the sets of a source whose scores can all be used; none is computed yet."""
    of_classes = class_scores(source, layout)
    rows = check_scores(source, of_classes)
    table = with_sets(promise, source, of_classes, booleans=booleans, text=text)
    return Sets(table, rows, of_classes.names)


def check_scores(source: Source, of_classes: ClassScores) -> int:
    """Refuse nulls and NaN among the scores of the classes; return the number of rows."""
    bad = [~usable(source, score) for score in of_classes.scores]
    table = source.table.select(
        bad=total([one_if(each) for each in bad]) > 0,
        **{f"bad{i}": each for i, each in enumerate(bad)},
    )
    with source.reading(of_classes.columns):
        counts = table.agg(
            rows=table.count(), **{name: table.count(where=table[name]) for name in table.columns}
        )
        rows, faulty, *faults = (column[0].as_py() for column in source.run(counts).columns)
        if faulty:
            source.refuse_faults(of_classes.columns)
            raise _checks.missing_class_scores(
                source.name, dict(zip(of_classes.names, faults, strict=True)), faulty, rows
            )
    return int(rows)


def with_sets(
    promise: ThresholdSets,
    source: Source,
    of_classes: ClassScores,
    *,
    booleans: bool = False,
    text: bool = False,
) -> _checks.Table:
    """Return the table with its sets, as lists, as JSON ``text``, or as ``booleans``."""
    names = of_classes.names
    cuts = cuts_of(promise, names, of_classes.precision)
    inside = [kept(score, cut) for score, cut in zip(of_classes.scores, cuts, strict=True)]
    if booleans:
        added = {f"in_{name}": each for name, each in zip(names, inside, strict=True)}
    else:
        lists = not text and source.engine != "sqlite"  # which has no lists
        size = total([one_if(each) for each in inside])
        added = {"set": (_labels if lists else _json)(names, inside), "set_size": size}
    there = {name.lower() for name in source.table.columns}
    taken = [name for name in added if name.lower() in there]
    if taken:
        raise ValueError(f"{source.name} has a column {taken[0]!r} already. Rename or drop it.")
    _checks.no_twins("the result", list(added))
    return source.table.mutate(**added)


def _labels(names: list[Any], inside: list[Any]) -> Any:
    kind = "int64" if all(isinstance(name, int) for name in names) else "string"
    labels = [name if kind == "int64" else str(name) for name in names]
    either = [
        each.ifelse(ibis.literal(label, kind), ibis.null(kind))
        for each, label in zip(inside, labels, strict=True)
    ]
    return ibis.array(either).filter(lambda label: label.notnull())


def _json(names: list[Any], inside: list[Any]) -> Any:
    """Return the labels as JSON text, put together from strings: not every engine has lists."""
    words = [
        json.dumps(name if isinstance(name, int) else str(name), ensure_ascii=False)
        for name in names
    ]
    parts = [each.ifelse(f", {word}", "") for each, word in zip(inside, words, strict=True)]
    return "[" + total(parts).substr(2) + "]"

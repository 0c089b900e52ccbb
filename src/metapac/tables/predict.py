"""Prediction sets for every row of a table: a list of labels, or a boolean for each class."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import IO, Any, NamedTuple

import ibis

from metapac._checks import listed
from metapac._types import PathLike, Progress, Table, ignore_progress
from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput
from metapac.tables import _checks
from metapac.tables.class_scores import ClassScores, find_class_scores, is_usable
from metapac.tables.columns import Columns, resolve_columns
from metapac.tables.io.output import check_output, output_kind, write
from metapac.tables.io.sources import Source, open_source
from metapac.tables.search.comparison import find_cuts, is_kept
from metapac.tables.search.expressions import add_up, as_int


class Sets(NamedTuple):
    """A table with its prediction sets.

    Attributes
    ----------
    table : ibis.Table
        The rows with their sets.
    rows : int
        Number of rows.
    classes : list
        The classes that a set may contain.
    """

    table: Table
    rows: int
    classes: list[Any]


def predict_table(
    promise: ThresholdSets,
    source: Any,
    *,
    columns: str | None = None,
    classes: Sequence[Any] | None = None,
    booleans: bool = False,
    output: PathLike | None = None,
    table: str | None = None,
    connection: Any = None,
) -> Table:
    """Return the rows of a table with their prediction sets, and write them to ``output``.

    Nothing is written if a score is null or NaN.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    source : path, list of paths, frame, Ibis table or Ibis connection
        A table with a score for each class in each row; as in ``calibrate_table``.
    columns : str, optional
        Columns with a score for each class, the star being the name of the class; or one column of
        lists. By default those of the calibration, or ``p_*``.
    classes : sequence, optional
        Names of the classes: they select some of the columns, or name the positions in the lists.
        By default those of the calibration. With a guarantee per class, no others are possible.
    booleans : bool, default False
        Whether to add a column in_CLASS for each class, instead of the columns ``set``, a list of
        labels (JSON text in CSV and in SQLite), and ``set_size``.
    output : path, optional
        Parquet or CSV file to write. It is replaced atomically.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.

    Returns
    -------
    ibis.Table
        The rows with their sets, computed when they are needed.

    Raises
    ------
    InvalidInput
        If a parameter, a column or a value in it is not valid.
    EngineError
        If the engine cannot read the table or write the output.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import PS
    >>> from metapac.tables import predict_table
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> scores = pd.DataFrame({"p_cat": [0.9, 0.6], "p_dog": [0.02, 0.4]})
    >>> predict_table(promise, scores).to_pandas()[["set", "set_size"]]
              set  set_size
    0       [cat]         1
    1  [cat, dog]         2
    """
    used = resolve_columns(promise, columns=columns, classes=classes)
    with ExitStack() as on_error:
        opened = on_error.enter_context(open_source(source, table=table, connection=connection))
        if output is None:
            sets = _add_sets(promise, opened, used, booleans=booleans, as_text=False)
        else:
            sets = write_sets(
                promise, opened, output, columns=columns, classes=classes, booleans=booleans
            )
        on_error.pop_all()  # the table returned needs its connection
    return sets.table


def write_sets(
    promise: ThresholdSets,
    source: Any,
    output: PathLike | IO[str],
    *,
    columns: str | None = None,
    classes: Sequence[Any] | None = None,
    booleans: bool = False,
    inputs: Iterable[PathLike] = (),
    progress: Progress | None = None,
) -> Sets:
    """Write the rows of a table with their prediction sets, and return how many there are.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    source : Source, path, list of paths, frame, Ibis table or Ibis connection
        The table; an open ``Source`` stays open.
    output : path or text file
        Parquet or CSV file to write, which is replaced atomically; an open file receives CSV.
    columns : str, optional
        As in ``predict_table``.
    classes : sequence, optional
        As in ``predict_table``.
    booleans : bool, default False
        As in ``predict_table``.
    inputs : iterable of path, optional
        Further files that must not be overwritten, such as the promise file.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` at each step.

    Returns
    -------
    Sets
        What was written.
    """
    used = resolve_columns(promise, columns=columns, classes=classes)
    report = progress or ignore_progress
    as_text = True
    with open_source(source) as opened:
        if isinstance(output, str | os.PathLike):
            check_output(opened, output, inputs)
            as_text = output_kind(output) == "csv"
        report("checking the scores", 0, None)
        sets = _add_sets(promise, opened, used, booleans=booleans, as_text=as_text)
        report(f"writing {sets.rows} sets", 0, None)
        write(opened.connection, sets.table, output)
    return sets


def check_class_scores(source: Source, of_classes: ClassScores) -> int:
    """Return the number of rows, or raise InvalidInput if a score of a class is null or NaN.

    Parameters
    ----------
    source : Source
        The open table.
    of_classes : ClassScores
        Its scores.

    Returns
    -------
    int
        Number of rows.
    """
    bad = [~is_usable(source, score) for score in of_classes.scores]
    table = source.table.select(
        bad=add_up([as_int(is_bad) for is_bad in bad]) > 0,
        **{f"bad{i}": is_bad for i, is_bad in enumerate(bad)},
    )
    with source.reading(of_classes.columns):
        counts = table.agg(
            rows=table.count(), **{name: table.count(where=table[name]) for name in table.columns}
        )
        rows, bad_rows, *by_class = (column[0].as_py() for column in source.run(counts).columns)
        if bad_rows:
            source.check_text(of_classes.columns)
            pairs = zip(of_classes.names, by_class, strict=True)
            classes = listed([f"{name!r}: {count}" for name, count in pairs if count])
            raise InvalidInput(
                f"{source.name}: the scores of the classes hold nulls or NaN in {bad_rows} of "
                f"{rows} rows (by class, {classes}); a score that cannot be compared decides no "
                "set. Give a label without a score inf, so that it is kept."
            )
    return int(rows)


def _add_sets(
    promise: ThresholdSets, source: Source, columns: Columns, *, booleans: bool, as_text: bool
) -> Sets:
    """Return the rows with their sets, not computed yet; the scores are checked first."""
    of_classes = find_class_scores(source, columns)
    rows = check_class_scores(source, of_classes)
    cuts = find_cuts(promise, of_classes.names, of_classes.precision)
    kept = [is_kept(score, cut) for score, cut in zip(of_classes.scores, cuts, strict=True)]
    if booleans:
        added = {f"in_{name}": k for name, k in zip(of_classes.names, kept, strict=True)}
    else:
        make = _labels_as_text if as_text or not source.traits.has_lists else _labels
        added = {
            "set": make(of_classes.names, kept),
            "set_size": add_up([as_int(is_in_set) for is_in_set in kept]),
        }
    _check_new_columns(source, list(added))
    return Sets(source.table.mutate(**added), rows, of_classes.names)


def _check_new_columns(source: Source, names: list[str]) -> None:
    present = {name.lower() for name in source.table.columns}
    taken = [name for name in names if name.lower() in present]
    if taken:
        raise InvalidInput(f"{source.name} already has a column {taken[0]!r}. Rename or drop it.")
    _checks.check_case_collisions("the result", names)


def _labels(names: list[Any], kept: list[Any]) -> Any:
    """Return the labels that are kept, as a list."""
    kind = "int64" if all(isinstance(name, int) for name in names) else "string"
    labels = [name if kind == "int64" else str(name) for name in names]
    label_or_null = [
        is_in_set.ifelse(ibis.literal(label, kind), ibis.null(kind))
        for is_in_set, label in zip(kept, labels, strict=True)
    ]
    return ibis.array(label_or_null).filter(lambda label: label.notnull())


def _labels_as_text(names: list[Any], kept: list[Any]) -> Any:
    """Return the labels that are kept, as JSON text; not every engine has lists."""
    texts = [json.dumps(name, ensure_ascii=False) for name in names]
    parts = [is_in_set.ifelse(f", {text}", "") for is_in_set, text in zip(kept, texts, strict=True)]
    return "[" + add_up(parts).substr(2) + "]"

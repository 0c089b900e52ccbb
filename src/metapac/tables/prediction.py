"""Prediction sets for the rows of a table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any, NamedTuple

from metapac._common import PathLike, Progress, Table, ignore_progress, warn
from metapac.data_checks import judge_scale, judge_sets
from metapac.errors import InvalidInput, keyword
from metapac.findings import check_allowed
from metapac.findings import report as report_findings
from metapac.predictors import ThresholdSets
from metapac.sets import SetSummary
from metapac.tables import errors
from metapac.tables.columns import Columns, resolve_columns
from metapac.tables.data_checks import judge_sums
from metapac.tables.output import check_output, output_kind, write
from metapac.tables.scores import find_class_scores, find_residuals
from metapac.tables.sets import (
    IntervalSummary,
    KeptLabels,
    count_sets,
    find_ends,
    lists_as_text,
    summarise_intervals,
)
from metapac.tables.sources import Source, check_origin, open_source


class Sets(NamedTuple):
    """A table with its prediction sets."""

    table: Table
    classes: list[Any]
    summary: SetSummary | IntervalSummary
    calibrated: tuple[float, float] | None
    epsilon: float
    skipped: frozenset[str] = frozenset()
    is_compared: bool = False
    is_suspect: bool = False

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.summary.rows

    @property
    def warnings(self) -> list[str]:
        """What looks wrong with the sets."""
        epsilon = None if "sets" in self.skipped else self.epsilon
        return self.summary.warnings(self.calibrated, epsilon)


def predict_table(
    promise: ThresholdSets,
    source: Any,
    *,
    columns: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    prediction: str | None = None,
    scale: str | None = None,
    booleans: bool = False,
    answer: bool = False,
    output: PathLike | None = None,
    model: str | None = None,
    allow: Iterable[str] = (),
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
    columns : str or sequence of str, optional
        Columns with a score for each class, the star being the name of the class, or a list of
        them; or one column of lists. By default those of the calibration, or ``p_*``.
    classes : sequence, optional
        Names of the classes: they select some of the columns that match, or name the columns that
        are listed, or the positions in the lists. By default those of the calibration. With a
        guarantee per class, no others are possible.
    classes_column : str, optional
        Column with the list of classes of each row, by default as in the calibration. A set then
        holds names of its own row.
    prediction : str, optional
        For regression: column with the predicted number, by default as in the calibration. The
        columns ``lower`` and ``upper`` are then added: the ends of an interval for each row.
    scale : str, optional
        Column with the scale of each prediction, by default as in the calibration.
    booleans : bool, default False
        Whether to add a column in_CLASS for each class, instead of the columns ``set``, a list of
        labels (JSON text in CSV and in SQLite), and ``set_size``.
    answer : bool, default False
        Whether to add a column ``answer``: the label of a set of one, null for any other set. At
        most a fraction epsilon of all rows of a task is answered wrongly where the guarantee holds;
        see `metapac.answers`.
    output : path, optional
        Parquet or CSV file to write. It is replaced atomically.
    model : str, optional
        Name of the model that gave the scores, to be compared with the calibrated one. A table that
        ``metapac score`` wrote names it itself.
    allow : iterable of str, default ()
        Checks of the data to skip; the message of a check names it.
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
    used = resolve_columns(
        promise,
        columns=columns,
        classes=classes,
        classes_column=classes_column,
        prediction=prediction,
        scale=scale,
    )
    with ExitStack() as on_error:
        opened = on_error.enter_context(open_source(source, table=table, connection=connection))
        if output is None:
            check_origin(opened, promise.context_, model)
            form = _Form(booleans, answer, as_text=False)
            sets = _add_sets(promise, opened, used, form, allow)
        else:
            sets = write_sets(
                promise,
                opened,
                output,
                columns=columns,
                classes=classes,
                classes_column=classes_column,
                prediction=prediction,
                scale=scale,
                booleans=booleans,
                answer=answer,
                model=model,
                allow=allow,
            )
        for warning in sets.warnings:
            warn(warning)
        on_error.pop_all()  # the table returned needs its connection
    return sets.table


def write_sets(
    promise: ThresholdSets,
    source: Any,
    output: PathLike | IO[str],
    *,
    columns: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    prediction: str | None = None,
    scale: str | None = None,
    booleans: bool = False,
    answer: bool = False,
    model: str | None = None,
    allow: Iterable[str] = (),
    inputs: Iterable[PathLike] = (),
    progress: Progress | None = None,
) -> Sets:
    """Write the rows of a table with their prediction sets, and return how many there are."""
    used = resolve_columns(
        promise,
        columns=columns,
        classes=classes,
        classes_column=classes_column,
        prediction=prediction,
        scale=scale,
    )
    report = progress or ignore_progress
    as_text = True
    with open_source(source) as opened:
        check_origin(opened, promise.context_, model)
        if isinstance(output, str | os.PathLike):
            check_output(opened, output, inputs)
            as_text = output_kind(output) == "csv"
        report("checking the scores", 0, None)
        form = _Form(booleans, answer, as_text)
        sets = _add_sets(promise, opened, used, form, allow)
        report(f"writing {sets.rows} sets", 0, None)
        write(opened.connection, sets.table, output)
    return sets


def summarise_sets(
    promise: ThresholdSets,
    source: Any,
    *,
    columns: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    table: str | None = None,
    connection: Any = None,
) -> SetSummary:
    """Return what the prediction sets of a table look like, without writing them.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    source : path, list of paths, frame, Ibis table or Ibis connection
        A table with a score for each class in each row; as in ``calibrate_table``.
    columns : str or sequence of str, optional
        As in ``predict_table``.
    classes : sequence, optional
        As in ``predict_table``.
    classes_column : str, optional
        As in ``predict_table``.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.

    Returns
    -------
    SetSummary
        Number of sets that are empty, hold one label or all, and how often each class occurs.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import PS
    >>> from metapac.tables import summarise_sets
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> scores = pd.DataFrame({"p_cat": [0.9, 0.6], "p_dog": [0.02, 0.4]})
    >>> summarise_sets(promise, scores).by_class
    {'cat': 2, 'dog': 1}
    """
    used = resolve_columns(promise, columns=columns, classes=classes, classes_column=classes_column)
    if used.prediction is not None:
        raise InvalidInput("a predictor for numbers gives intervals, not sets. Use predict_table.")
    with open_source(source, table=table, connection=connection) as opened:
        return count_sets(opened, KeptLabels(promise, find_class_scores(opened, used)))


class _Form(NamedTuple):
    """Which columns to add: a boolean for each class or sets, as text or lists; and answers."""

    booleans: bool
    answer: bool
    as_text: bool


def _add_sets(
    promise: ThresholdSets,
    source: Source,
    columns: Columns,
    form: _Form,
    allow: Iterable[str],
) -> Sets:
    """Return the rows with their sets, not computed yet; the scores are checked first."""
    if columns.prediction is not None:
        return _add_intervals(promise, source, columns, form)
    of_classes = find_class_scores(source, columns)
    kept = KeptLabels(promise, of_classes)
    if form.booleans and of_classes.row_names is not None:
        origin = "classes_column"
        if columns.classes_column is None:
            origin = f"column {columns.pattern!r}, whose lists differ in length,"
        raise InvalidInput(
            f"booleans=True needs one fixed list of classes, and {origin} gives each row its own. "
            "Leave it out."
        )
    if form.booleans:
        names = [f"in_{name}" for name in of_classes.names]
        added = dict(zip(names, kept.each, strict=True))
    else:
        is_text = form.as_text or not source.traits.has_lists
        added = {"set": kept.as_text() if is_text else kept.as_list(), "set_size": kept.size}
    if form.answer:
        added["answer"] = kept.answer
    _check_new_columns(source, list(added))
    if form.as_text and source.traits.has_lists:
        added |= lists_as_text(source.table)
    summary, calibrated = count_sets(source, kept), promise._score_range
    finding = None
    if calibrated is not None and summary.low is not None and summary.high is not None:
        finding = judge_scale((summary.low, summary.high), calibrated, labelled=False)
    if finding is not None and finding.is_error:
        finding = judge_sums(source, of_classes) or finding
    is_same = [*map(str, of_classes.names)] == [*map(str, promise._known_classes or ())]
    then = promise._sets if is_same else None
    if finding is None and then is not None:
        finding = judge_sets(then, summary.rows, summary.mean_size, summary.by_class)
    report_findings([finding], skipped := check_allowed(allow), where=source.name)
    epsilon, table = _largest_epsilon(promise), source.table.mutate(**added)
    sets = Sets(table, of_classes.names, summary, calibrated, epsilon, skipped, then is not None)
    is_empty = 0 < summary.rows == summary.empty or bool(summary._too_empty(epsilon))
    is_suspect = finding is not None and finding.check not in skipped
    return sets._replace(is_suspect=is_suspect or (is_empty and "sets" not in skipped))


def _add_intervals(promise: ThresholdSets, source: Source, columns: Columns, form: _Form) -> Sets:
    """Return the rows with the ends of their intervals, not computed yet."""
    if form.booleans or form.answer:
        raise InvalidInput(
            f"{keyword('booleans' if form.booleans else 'answer', True)} is for classes, and "
            "prediction for numbers. Leave it out.",
            parameter="prediction",
        )
    lower, upper = find_ends(promise, find_residuals(source, columns, needs_y=False))
    added = {"lower": lower, "upper": upper}
    _check_new_columns(source, list(added))
    summary = summarise_intervals(source, lower, upper)
    return Sets(source.table.mutate(**added), [], summary, None, _largest_epsilon(promise))


def _largest_epsilon(promise: ThresholdSets) -> float:
    each = promise.epsilon
    return float(max(each.values()) if isinstance(each, Mapping) else each)


def _check_new_columns(source: Source, names: list[str]) -> None:
    present = {name.lower() for name in source.table.columns}
    taken = [name for name in names if name.lower() in present]
    if taken:
        raise InvalidInput(f"{source.name} already has a column {taken[0]!r}. Rename or drop it.")
    errors.check_case_collisions("the result", names)

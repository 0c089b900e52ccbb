"""A guarantee judged on a table of labelled new tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from ibis import _

from metapac._common import Array, Counts, Table
from metapac.copies import find_ranges
from metapac.errors import InvalidInput
from metapac.evaluation import Evaluation, SetCounts, Tally, assess
from metapac.findings import check_allowed
from metapac.inputs import as_task_names
from metapac.predictors import ThresholdSets
from metapac.tables import errors
from metapac.tables.columns import Columns, get_id_column, resolve_columns
from metapac.tables.data_checks import check_rows, check_scale
from metapac.tables.expressions import as_int
from metapac.tables.scores import Rows, check_cluster, find_clusters, true_scores
from metapac.tables.search import take_census
from metapac.tables.sets import check_class_scores, lacks_scores, row_outcomes
from metapac.tables.sources import Source, check_origin, open_source


def evaluate_table(
    promise: ThresholdSets,
    source: Any,
    *,
    task: str | None = None,
    score: str | None = None,
    label: str | None = None,
    columns: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    prediction: str | None = None,
    y: str | None = None,
    scale: str | None = None,
    cluster: str | None = None,
    min_examples: int = 0,
    false_alarm: float = 0.05,
    id: str | None = None,
    model: str | None = None,
    allow: Iterable[str] = (),
    table: str | None = None,
    connection: Any = None,
) -> Evaluation:
    """Compare a guarantee with a table of labelled new tasks: misses, set sizes, the verdict.

    With a guarantee per class, each class is evaluated separately. Tasks with too few examples for
    the guarantee to cover them are left out, and so are tasks that were calibrated on.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    source : path, list of paths, frame, Ibis table or Ibis connection
        A table of labelled tasks; as in ``calibrate_table``.
    task : str, optional
        Column with the task of each row; by default that of the calibration.
    score : str, optional
        Column with the score of the true label. Without ``score`` and ``label``, both are those of
        the calibration.
    label : str, optional
        Column with the true label. Without ``score``, set sizes are computed too, from the scores
        of the classes.
    columns : str or sequence of str, optional
        Columns with a score for each class, the star being the name of the class, or a list of
        them; or one column of lists. By default those of the calibration, or ``p_*``.
    classes : sequence, optional
        Names of the classes; by default those of the calibration.
    classes_column : str, optional
        Column with the list of classes of each row; as in ``calibrate_table``.
    prediction, y, scale : str, optional
        For regression, the columns of predicted and true numbers and of scales; by default those
        of the calibration. Widths of intervals are then measured instead of set sizes.
    cluster : str, optional
        Column with the cluster of each task; by default that of the calibration. One random task
        of each new cluster is judged, since tasks of one cluster may depend on each other.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with a guarantee per class, of the class). The
        verdict is then about tasks with at least this many.
    false_alarm : float, default 0.05
        Probability that the verdict is wrong.
    id : str, optional
        Column that identifies the examples of a task, in which duplicates are searched. Without
        it, rows that are equal are.
    model : str, optional
        Name of the model that gave the scores, to be compared with the calibrated one. A table that
        ``metapac score`` wrote names it itself.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.
        "overlap" takes tasks with the name of a calibration, training or pilot task for new ones.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.

    Returns
    -------
    Evaluation
        Misses and set sizes of each task and class, and the verdict.

    Raises
    ------
    InvalidInput
        If a parameter, a column or a value in it is not valid, or if no new task is covered.
    EngineError
        If the engine cannot read the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import PS
    >>> from metapac.tables import evaluate_table
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> scores = pd.DataFrame(
    ...     {"site": ["a", "b"], "y": ["cat", "dog"], "p_cat": [0.9, 0.6], "p_dog": [0.1, 0.0]}
    ... )
    >>> evaluation = evaluate_table(promise, scores, task="site", label="y")
    >>> evaluation.to_pandas()[["task", "examples", "missed", "set_size"]]
      task  examples  missed  set_size
    0    a         1       0       2.0
    1    b         1       1       1.0
    >>> [(part.label, part.missed, part.examples) for part in evaluation.classes]
    [('cat', 0, 1), ('dog', 1, 1)]
    """
    used = resolve_columns(
        promise,
        task=task,
        score=score,
        label=label,
        columns=columns,
        classes=classes,
        classes_column=classes_column,
        prediction=prediction,
        y=y,
        scale=scale,
        cluster=cluster,
    )
    if used.task is None:
        raise InvalidInput(
            "task must name the column with the task of each row. Pass it: a predictor that was "
            "calibrated on arrays, or combined from sites, stores none.",
            parameter="task",
        )
    check_cluster(promise, used)
    allowed = sorted(check_allowed(allow))
    with open_source(source, table=table, connection=connection) as opened:
        check_origin(opened, promise.context_, model)
        _check_labelled(opened, used)
        if used.cluster is not None:
            get_id_column(opened, used.cluster, "clusters")  # fail fast
        rows = true_scores(opened, used)
        # A missing score is an error here, whatever is allowed: the count below reports it.
        check_rows(rows, id=id, allow=[*allowed, "missing"])
        tally = _count(promise, rows, allowed)
        if used.cluster is not None:
            found = find_clusters(opened, used)
            tally = tally._replace(clusters=[found[name] for name in tally.names.tolist()])
    return assess(promise, tally, min_examples=min_examples, false_alarm=false_alarm, allow=allowed)


def _check_labelled(source: Source, columns: Columns) -> None:
    """Raise InvalidInput if the table lacks the truth: unlabelled tables are for prediction."""
    remedy = " Evaluation needs labels; for sets of examples without them, use predict."
    for name in (columns.label, columns.score, columns.y):
        if name is not None:
            errors.get_column(source, name, remedy)


def _count(promise: ThresholdSets, rows: Rows, allowed: list[str]) -> Tally:
    """Count the examples, misses and sets of each task and class, inside the engine."""
    source, of_classes = rows.source, rows.class_scores
    by = {"task": rows.task} | ({} if rows.names is None else {"label": rows.labels})
    outcomes = row_outcomes(promise, rows)
    if of_classes is not None:
        unusable = as_int(lacks_scores(source, of_classes))
        outcomes |= {"unusable": unusable, "classes": of_classes.width}
    table = source.table.select(**by, **outcomes)
    with source.reading(rows.score_columns, rows.columns.task):
        counts = table.group_by([*by]).agg(examples=_.count(), **_sums(table))
        totals = source.run(counts).to_pydict()
        if of_classes is not None and any(totals.pop("unusable")):
            check_class_scores(source, of_classes)
        census = take_census(rows)  # raises if a task or a score is missing
        ends = float(census.low.min()), float(census.high.max())
        check_scale(ends, promise._score_range, allow=allowed, where=source.name)
    names, task = _find_tasks(rows, totals.pop("task"))
    labels, widths = totals.pop("label", None), totals.pop("width", None)
    numbers = {name: np.array(values, dtype=np.int64) for name, values in totals.items()}
    _names, counted = _find_tasks(rows, census.names.tolist())
    ranges = find_ranges(counted, census.low, census.high, len(names))
    tally = Tally(names, task, numbers.pop("examples"), numbers.pop("missed"), ranges=ranges)
    if widths is not None:
        tally = tally._replace(widths=np.array(widths, dtype=np.float64))
    if numbers:
        tally = tally._replace(sets=SetCounts(**numbers))
    if labels is None or rows.names is None:
        return tally
    place = {str(name): i for i, name in enumerate(rows.names)}
    label = np.array([place[text] for text in labels], dtype=np.int64)
    return tally._replace(classes=rows.names, label=label)


def _sums(table: Table) -> dict[str, Any]:
    """Return the sums: misses, labels in sets, and how many sets are empty, single, full."""
    summed = ("missed", "width", "unusable")
    sums = {name: table[name].sum() for name in summed if name in table.columns}
    if "size" in table.columns:
        size = table["size"]
        kinds = {"empty": 0, "single": 1, "full": table["classes"]}
        sums |= {name: table.count(where=size == number) for name, number in kinds.items()}
        sums["labels"] = size.sum()
    return sums


def _find_tasks(rows: Rows, values: list[Any]) -> tuple[Array, Counts]:
    """Return the tasks in ascending order, and the index of the task of each group."""
    if rows.keys is not None:
        groups = rows.keys.groups(np.array(values, dtype=object))
        return groups.names, groups.task
    distinct = as_task_names([*dict.fromkeys(values)])
    names = distinct[np.argsort(distinct, kind="stable")]
    place = {name: i for i, name in enumerate(names.tolist())}
    return names, np.array([place[value] for value in values], dtype=np.int64)

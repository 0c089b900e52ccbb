"""A monitor fed from tables, and drift between tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import ibis
import numpy as np
from ibis import _

from metapac.betting import Added
from metapac.drift import Drift, Pool, compare_pools
from metapac.errors import InvalidInput
from metapac.evaluation import Evaluation
from metapac.monitoring import Monitor
from metapac.predictors import ThresholdSets
from metapac.tables import errors
from metapac.tables.columns import Columns, get_id_column, resolve_columns
from metapac.tables.evaluation import evaluate_table
from metapac.tables.expressions import exact
from metapac.tables.scores import find_class_scores, find_clusters, find_residuals
from metapac.tables.sets import check_class_scores
from metapac.tables.sources import Source, check_origin, open_source

_BINS = 1000  # in which scores without labels are counted


def monitor_table(
    monitor: Monitor,
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
    batch: str | None = None,
    again: bool = False,
    id: str | None = None,
    model: str | None = None,
    allow: Iterable[str] = (),
    table: str | None = None,
    connection: Any = None,
) -> Added:
    """Count the labelled new tasks of a table, each once, as ``Monitor.add`` does.

    Parameters
    ----------
    monitor : Monitor
        The monitor.
    source : path, list of paths, frame, Ibis table or Ibis connection
        A table of labelled tasks; as in ``calibrate_table``.
    task, score, label, columns, classes, classes_column : optional
        As in ``evaluate_table``.
    prediction, y, scale : str, optional
        As in ``evaluate_table``.
    cluster : str, optional
        Column with the cluster of each task; by default that of the calibration. One task of each
        cluster counts, over all batches.
    batch : str, optional
        Name of the batch that the tasks come with, such as "2026-01".
    again : bool, default False
        Whether a task counts again that was counted in another batch; as in ``Monitor.add``.
    id : str, optional
        Column that identifies the examples of a task, in which duplicates are searched.
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
    Added
        The tasks that were counted, and those that were not.

    Raises
    ------
    InvalidInput
        If a parameter, a column or a value in it is not valid, if no new task is covered, or if a
        task was counted before with other examples. Nothing is counted then.
    EngineError
        If the engine cannot read the table.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from metapac import MetaPS, Monitor
    >>> from metapac.tables import monitor_table
    >>> rng = np.random.default_rng(0)
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    >>> promise = promise.calibrate(rng.random(4000), np.repeat(np.arange(40), 100))
    >>> january = pd.DataFrame({"site": np.repeat(["ohio", "utah"], 100), "p": rng.random(200)})
    >>> monitor = Monitor(promise)
    >>> added = monitor_table(monitor, january, task="site", score="p", batch="2026-01")
    >>> sorted(step.task for step in added.steps)
    ['ohio', 'utah']
    """
    found = judge_tasks(
        monitor.require_promise(),
        source,
        min_examples=monitor.terms.min_examples,
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
        id=id,
        model=model,
        allow=allow,
        table=table,
        connection=connection,
    )
    return monitor.add_evaluation(*found, batch=batch, again=again, allow=allow)


def judge_tasks(
    promise: ThresholdSets,
    source: Any,
    *,
    min_examples: int,
    id: str | None = None,
    model: str | None = None,
    allow: Iterable[str] = (),
    table: str | None = None,
    connection: Any = None,
    **columns: Any,
) -> tuple[Evaluation, dict[Any, str | int] | None]:
    """Return what a monitor counts: the misses and clusters of the tasks."""
    used = replace(resolve_columns(promise, **columns), per_class=False)
    with open_source(source, table=table, connection=connection) as opened:
        _check_labelled(opened, used)
        evaluation = evaluate_table(
            promise, opened, min_examples=min_examples, id=id, model=model, allow=allow, **columns
        )
        clusters = None if used.cluster is None else find_clusters(opened, used)
    return evaluation, clusters


def _check_labelled(source: Source, columns: Columns) -> None:
    """Raise InvalidInput if the table lacks the true labels."""
    remedy = (
        " Misses need labels. To compare scores without them, use compare_tables; on the command "
        "line, pass --reference with the calibration table instead of --state."
    )
    for name in (columns.label, columns.score, columns.y):
        if name is not None:
            errors.get_column(source, name, remedy)


def compare_tables(
    promise: ThresholdSets,
    source: Any,
    reference: Any,
    *,
    task: str | None = None,
    columns: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    prediction: str | None = None,
    model: str | None = None,
    table: str | None = None,
    connection: Any = None,
) -> Drift:
    """Compare the scores of unlabelled new tasks with those of the calibration table.

    For classes, the highest score of each row is compared; for regression, the predicted number.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor, which knows the columns.
    source : path, list of paths, frame, Ibis table or Ibis connection
        A table of new tasks; labels are not read.
    reference : path, list of paths, frame, Ibis table or Ibis connection
        The table that was calibrated on.
    task, columns, classes, classes_column, prediction : optional
        As in ``evaluate_table``.
    model : str, optional
        Name of the model that gave the new scores, to be compared with the calibrated one. Tables
        that ``metapac score`` wrote name it themselves.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.

    Returns
    -------
    Drift
        The comparison. It is a heuristic without a guarantee.

    Raises
    ------
    InvalidInput
        If a column or a value in it is not valid, if a table has scores of another model, or the
        reference has fewer than 19 tasks.
    EngineError
        If the engine cannot read a table.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from metapac import MetaPS
    >>> from metapac.tables import compare_tables
    >>> rng = np.random.default_rng(0)
    >>> sites = np.repeat([f"site {i}" for i in range(40)], 100)
    >>> known = pd.DataFrame({"site": sites, "p_no": rng.random(4000)})
    >>> known["p_yes"] = 1 - known.p_no
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1).calibrate(known.p_no, known.site)
    >>> new = pd.DataFrame({"site": "ohio", "p_no": [0.6] * 30, "p_yes": [0.4] * 30})
    >>> compare_tables(promise, new, known, task="site").shifts[0].is_unusual
    True
    """
    used = resolve_columns(
        promise,
        task=task,
        columns=columns,
        classes=classes,
        classes_column=classes_column,
        prediction=prediction,
    )
    if used.task is None:
        raise InvalidInput("task must name the column with the task of each row.", parameter="task")
    with open_source(reference, connection=connection) as opened:
        check_origin(opened, promise.context_, None)
        ends = _find_ends(opened, used)
        known = _count(opened, used, ends)
    with open_source(source, table=table, connection=connection) as opened:
        check_origin(opened, promise.context_, model)
        return compare_pools(_count(opened, used, ends), known)


def _value(source: Source, columns: Columns) -> Any:
    """Return what is compared: the highest score of each row, or its predicted number."""
    if columns.prediction is not None:
        return find_residuals(source, columns, needs_y=False).prediction
    of_classes = find_class_scores(source, columns)
    check_class_scores(source, of_classes)
    if of_classes.lists is not None:
        return of_classes.lists.maxs()
    scores = of_classes.scores
    return ibis.greatest(*scores) if len(scores) > 1 else scores[0]


def _find_ends(source: Source, columns: Columns) -> tuple[float, float]:
    """Return the range to divide into bins."""
    table = source.table.select(value=_value(source, columns).cast("float64"))
    result = source.run(table.agg(low=_.value.min(), high=_.value.max()))
    low, high = (result[name][0].as_py() for name in ("low", "high"))
    if low is None:
        raise errors.no_rows(source.name)
    if not np.isfinite([low, high]).all():
        raise InvalidInput(f"{source.name} must hold finite scores to be compared with, got inf.")
    return low, high if high > low else low + 1.0


def _count(source: Source, columns: Columns, ends: tuple[float, float]) -> Pool:
    """Count the rows of each task in each bin; what lies outside has a bin of its own."""
    low, high = ends
    value = _value(source, columns).cast("float64")
    place = ((value - exact(low)) / exact(high - low) * _BINS).floor()
    bins = ibis.cases(
        (value < exact(low), -1), (value >= exact(high), _BINS), else_=place.cast("int64")
    )
    task = get_id_column(source, columns.task or "", "tasks")
    table = source.table.select(task=task, bin=bins)
    counts = source.run(table.group_by(["task", "bin"]).agg(rows=_.count()))
    if not len(counts):
        raise errors.no_rows(source.name)
    tasks, rows = counts["task"].to_pylist(), counts["rows"].to_numpy().astype(np.int64)
    missing = int(rows[[name is None for name in tasks]].sum())
    errors.check_no_missing_tasks(source.name, columns.task, missing)
    return Pool.collect(tasks, counts["bin"].to_numpy(), rows)

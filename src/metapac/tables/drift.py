"""Scores of new tasks compared with those of calibration, inside the engine."""

from __future__ import annotations

from typing import Any

import ibis
import numpy as np
from ibis import _

from metapac.columns import Columns
from metapac.drift import Drift, Pool, compare_pools
from metapac.errors import InvalidInput
from metapac.predictors import ThresholdSets, check_predictor
from metapac.tables.engines import exact
from metapac.tables.scores import find_class_scores, find_residuals, get_id_column
from metapac.tables.sets import check_class_scores
from metapac.tables.sources import Source
from metapac.tables.table import Table

_BINS = 1000  # in which scores without labels are counted


def compare_tables(
    promise: ThresholdSets, table: Table, reference: Table, *, model: str | None = None
) -> Drift:
    """Compare the scores of unlabelled new tasks with those of the calibration table.

    For classes, the highest score of each row is compared; for regression, the predicted number.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor, which knows the columns.
    table : Table
        New tasks, from ``open_table``; labels are not read.
    reference : Table
        The table that was calibrated on, from ``open_table``. Its columns are those of ``table``.
    model : str, optional
        Name of the model that gave the new scores, to be compared with the calibrated one. Tables
        that ``metapac score`` wrote name it themselves.

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
    >>> from metapac import Columns, MetaPS, open_table
    >>> from metapac.tables import compare_tables
    >>> rng = np.random.default_rng(0)
    >>> sites = np.repeat([f"site {i}" for i in range(40)], 100)
    >>> known = pd.DataFrame({"site": sites, "p_no": rng.random(4000)})
    >>> known["p_yes"] = 1 - known.p_no
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1).calibrate(known.p_no, known.site)
    >>> new = pd.DataFrame({"site": "ohio", "p_no": [0.6] * 30, "p_yes": [0.4] * 30})
    >>> tables = open_table(new, Columns(task="site")), open_table(known)
    >>> compare_tables(promise, *tables).shifts[0].is_unusual
    True
    """
    check_predictor(promise)
    for name, one in (("table", table), ("reference", reference)):
        if not isinstance(one, Table):
            got = type(one).__name__
            raise InvalidInput(f"{name} must be open_table(...), got {got}.", parameter=name)
    names = ("task", "columns", "classes", "classes_column", "prediction")
    given = Columns(**{name: getattr(table.columns, name) for name in names})
    used = given.resolve(promise.columns_ or {}, promise.classes_)
    if used.task is None:
        raise InvalidInput("task must name the column with the task of each row.", parameter="task")
    reference.check_origin(promise.context_, None)
    table.check_origin(promise.context_, model)
    new = _value(table.source, used)
    known = _value(reference.source, used)
    ends = _find_ends(reference.source, known)
    pools = [_count(table.source, used, new, *ends), _count(reference.source, used, known, *ends)]
    return compare_pools(*pools)


def _value(source: Source, columns: Columns) -> Any:
    """Return what is compared: the highest score of each row, or its predicted number."""
    if columns.prediction is not None:
        return find_residuals(source, columns, needs_y=False).prediction
    of_classes = find_class_scores(source, columns)
    check_class_scores(source, of_classes)
    is_wide = of_classes.lists is None
    return (ibis.greatest(*of_classes.scores) if is_wide else of_classes.lists.maxs()).cast(
        "float64"
    )


def _find_ends(source: Source, value: Any) -> tuple[float, float]:
    """Return the range to divide into bins."""
    table = source.table.select(value=value)
    found = source.run(table.agg(low=table.value.min(), high=table.value.max()))
    low, high = (column[0].as_py() for column in found.columns)
    source.check_not_empty(low is not None)
    if not np.isfinite([low, high]).all():
        raise InvalidInput(f"{source.name} must hold finite scores to be compared with, got inf.")
    return low, high if high > low else low + 1.0


def _count(source: Source, columns: Columns, value: Any, low: float, high: float) -> Pool:
    """Count the rows of each task in each bin; what lies outside has a bin of its own."""
    place = ((value - exact(low)) / exact(high - low) * _BINS).floor()
    bins = ibis.cases(
        (value < exact(low), -1), (value >= exact(high), _BINS), else_=place.cast("int64")
    )
    task = get_id_column(source, columns.task or "", "tasks")
    table = source.table.select(task=task, bin=bins)
    counts = source.run(table.group_by(["task", "bin"]).agg(rows=_.count()))
    source.check_not_empty(len(counts))
    tasks, rows = counts["task"].to_pylist(), counts["rows"].to_numpy().astype(np.int64)
    missing = int(rows[[name is None for name in tasks]].sum())
    source.check_no_missing(columns.task, "tasks", missing)
    return Pool.collect(tasks, counts["bin"].to_numpy(), rows)

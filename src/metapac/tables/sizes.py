"""Number of examples of each task of a table, or of each class in it: all that planning needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from ibis import _

from metapac._types import Counts
from metapac.exceptions import InvalidInput
from metapac.tables import _checks
from metapac.tables.ids import get_id_column
from metapac.tables.io.sources import Source, open_source
from metapac.tables.scores import as_written


def count_examples(
    source: Any, *, task: str, table: str | None = None, connection: Any = None
) -> Counts:
    """Return the number of rows of each task, in ascending order.

    Parameters
    ----------
    source : path, list of paths, frame or Ibis table
        As in ``calibrate_table``.
    task : str
        Column with the task of each row.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames.

    Returns
    -------
    ndarray of int, shape (tasks,)
        The sizes.
    """
    _checks.check_column_names(task=task)
    with open_source(source, table=table, connection=connection) as opened:
        sizes = list(_count(opened, task).values())
    return np.sort(np.array(sizes, dtype=np.int64))


def count_by_class(
    source: Any, *, task: str, label: str, table: str | None = None, connection: Any = None
) -> dict[Any, Counts]:
    """Return the number of rows of each class in each task, in ascending order.

    Parameters
    ----------
    source : path, list of paths, frame or Ibis table
        As in ``calibrate_table``.
    task : str
        Column with the task of each row.
    label : str
        Column with the true label of each row.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames.

    Returns
    -------
    dict from class to ndarray of int, shape (tasks,)
        The sizes; 0 for a task without an example of the class.
    """
    _checks.check_column_names(task=task, label=label)
    with open_source(source, table=table, connection=connection) as opened:
        counts = _count(opened, task, label)
    tasks = {name for name, _label in counts}
    classes = sorted({name for _task, name in counts})
    return {
        name: np.sort(np.array([counts.get((one, name), 0) for one in tasks], dtype=np.int64))
        for name in classes
    }


def _count(opened: Source, *columns: str) -> dict[Any, int]:
    """Return how often each value of a column occurs, or each combination of several."""
    kinds = dict(zip(columns, ("tasks", "labels"), strict=False))
    values = {
        f"key{i}": as_written(opened, get_id_column(opened, name, kinds[name]))
        for i, name in enumerate(columns)
    }
    rows = opened.table.select(**values)
    with opened.reading((), columns[0]):
        counts = opened.run(rows.group_by(*values).agg(size=_.count()))
        sizes = counts["size"].to_pylist()
        keys = [counts[name].to_pylist() for name in values]
        for column, key in zip(columns, keys, strict=True):
            missing = sum(size for x, size in zip(key, sizes, strict=True) if x is None)
            if missing:
                opened.check_text((), columns[0])
                _check_filled(opened.name, column, kinds[column], missing)
    if not sizes:
        raise _checks.no_rows(opened.name)
    named = keys[0] if len(keys) == 1 else zip(*keys, strict=True)
    return dict(zip(named, sizes, strict=True))


def _check_filled(source: str, column: str, kind: str, missing: int) -> None:
    if kind == "tasks":
        _checks.check_no_missing_tasks(source, column, missing)
    raise InvalidInput(
        f"{source}: column {column!r} is missing in {_checks.pluralize(missing, 'row')}; every "
        "example must have a label. Fill it in, or drop those rows."
    )

"""How many examples each task of a table has: all that planning needs of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from ibis import _

from metapac.tables import _checks
from metapac.tables.brackets import Counts
from metapac.tables.scores import as_written
from metapac.tables.sources import open_source


def task_sizes(
    source: Any, *, task: str, table: str | None = None, connection: Any = None
) -> Counts:
    """Return the number of rows of each task of a table, in ascending order.

    Parameters
    ----------
    source : path, list of paths, frame or Ibis table
        As in ``calibrate_table``.
    task : str
        Column with the task of each row.
    table, connection
        As in ``calibrate_table``.

    Returns
    -------
    ndarray of int
        The sizes.
    """
    _checks.column_names(task=task)
    with open_source(source, table=table, connection=connection) as opened:
        names = opened.table.select(task=as_written(opened, _checks.task_column(opened, task)))
        with opened.reading((), task):
            found = opened.run(names.group_by("task").agg(size=_.count()))
            missing = found["task"].is_null().to_numpy(zero_copy_only=False)
            sizes = found["size"].to_numpy()
            if missing.any():
                opened.refuse_faults((), task)
                _checks.no_missing_tasks(opened.name, task, int(sizes[missing].sum()))
    if not len(sizes):
        raise _checks.no_rows(opened.name)
    return np.sort(sizes).astype(np.int64)

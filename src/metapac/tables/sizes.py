"""Number of examples of each task of a table, which is all that planning needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from ibis import _

from metapac._types import Counts
from metapac.tables import _checks
from metapac.tables.io.sources import open_source
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
        tasks = as_written(opened, _checks.get_id_column(opened, task, "tasks"))
        rows = opened.table.select(task=tasks)
        with opened.reading((), task):
            counts = opened.run(rows.group_by("task").agg(size=_.count()))
            missing = counts["task"].is_null().to_numpy(zero_copy_only=False)
            sizes = counts["size"].to_numpy()
            if missing.any():
                opened.check_text((), task)
                _checks.check_no_missing_tasks(opened.name, task, int(sizes[missing].sum()))
    if not len(sizes):
        raise _checks.no_rows(opened.name)
    return np.sort(sizes).astype(np.int64)

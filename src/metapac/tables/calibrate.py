"""Meta-PS on a table: the first step inside an engine, the second on the numbers it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metapac._checks import own_words
from metapac.binomial import allowed_errors
from metapac.calibration import Evidence, MetaPS
from metapac.guarantee import Guarantee, Split
from metapac.tables.brackets import Counts
from metapac.tables.census import take_census
from metapac.tables.layout import Layout
from metapac.tables.pool import trim_of
from metapac.tables.ranks import Progress, order_statistics
from metapac.tables.scores import Rows, refuse_unlabelled, true_scores
from metapac.tables.sources import open_source


def quiet(step: str) -> None:
    """Take note of no step."""


@own_words
def calibrate_table(
    source: Any,
    *,
    task: str,
    score: str | None = None,
    label: str | None = None,
    columns: str = "p_*",
    classes: Sequence[Any] | None = None,
    epsilon: float,
    alpha: float,
    delta: float,
    split: Split = "tight",
    on_infeasible: str = "raise",
    table: str | None = None,
    connection: Any = None,
    progress: Progress = quiet,
) -> MetaPS:
    """Return what ``MetaPS(...).calibrate`` returns on the same scores, tasks sorted by name.

    ``source`` is a path, glob or folder of Parquet, CSV or JSON lines files or a list of them, a
    DuckDB or SQLite file or the address of a database with ``table``, a pandas, polars or pyarrow
    frame, or an Ibis table. Files are read by ``connection``, see ``connect``.

    A row's score is the column ``score``; or that of its ``label`` among the columns like
    ``columns``, whose star is the name of the class; or in the column of lists ``columns``,
    whose places are named by ``classes``. The promise remembers these columns. No scores leave
    the engine: one number for each task and level comes back.
    """
    method = MetaPS(
        epsilon=epsilon, alpha=alpha, delta=delta, split=split, on_infeasible=on_infeasible
    )
    method._check_parameters()
    layout = Layout(task, score, label, columns, classes).checked()
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, layout)
        with opened.reading(rows.columns, task):
            refuse_unlabelled(opened, layout, rows.classes)
            evidence = within(rows, method._guarantee(), progress)
        classes = None if rows.classes is None else rows.classes.names
        return method._conclude(evidence._replace(columns=layout.record(classes)))


def within(rows: Rows, guarantee: Guarantee, progress: Progress) -> Evidence:
    """The first step: a threshold for each task, at each level."""
    progress("counting the scores of each task")
    census = take_census(rows, trim_of(rows))
    ranks = ranks_of(census.sizes, guarantee)
    found = order_statistics(rows, census, ranks, progress)
    return Evidence(census.names, census.sizes, found, rows.precision)


def ranks_of(sizes: Counts, guarantee: Guarantee) -> Counts:
    """Return which score of a task of each size is its threshold, from 0, at each level; or -1."""
    distinct, place = np.unique(sizes, return_inverse=True)
    ranks = [
        allowed_errors(distinct, guarantee.epsilon, lv.alpha_within) for lv in guarantee.levels
    ]
    return np.stack(ranks, axis=1)[place]

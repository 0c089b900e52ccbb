"""Meta-PS on a table: the first step inside an engine, the second on the numbers it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metapac._checks import own_words
from metapac.calibration import MetaPS
from metapac.evidence import Evidence, ranks_by_class, ranks_within, spread
from metapac.guarantee import Epsilon, Guarantee, Split
from metapac.tables import _checks
from metapac.tables.census import extremes, take_census
from metapac.tables.keys import Keys
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
    epsilon: Epsilon,
    alpha: float,
    delta: float | None,
    split: Split = "joint",
    per_class: bool = False,
    min_examples: int = 0,
    on_infeasible: str = "raise",
    table: str | None = None,
    connection: Any = None,
    progress: Progress = quiet,
) -> MetaPS:
    """Return what ``MetaPS(...).calibrate`` returns on the same scores, tasks sorted by name.

    No scores leave the engine: one number for each task and level comes back.

    Parameters
    ----------
    source : path, list of paths, frame or Ibis table
        A path, glob or folder of Parquet, CSV or JSON lines files or a list of them; a DuckDB or
        SQLite file, or the address of a database, with ``table``; a pandas, polars or pyarrow
        frame; an Ibis table.
    task : str
        Column with the task of each row.
    score : str, optional
        Column with the score of the true label.
    label : str, optional
        Column with the true label. Without ``score``, a row's score is that of its label among the
        class scores in ``columns``. With ``score``, which needs ``per_class``, it only names the
        class.
    columns : str, default "p_*"
        Columns with a score for each class, the star being the name of the class; or a column of
        lists.
    classes : sequence, optional
        Names of the classes: of some of the columns, or of the places of lists, which are 0, 1 and
        so on by default. With ``score`` and ``label``, all labels by default.
    epsilon : float or mapping from class to float
        Miss rate allowed on a task. With ``per_class``, a mapping gives each class its own.
    alpha : float
        Fraction of new tasks that may miss more often.
    delta : float or None
        Failure probability of the guarantee; None for a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps.
    per_class : bool, default False
        Whether to bound the miss rate of each class separately. It needs ``label``.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with ``per_class``, of the class).
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do where the data are too few: raise ``InfeasibleGuarantee``, or keep every label.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        What reads files; see ``connect``.
    progress : callable, optional
        Called with a few words at each step.

    Returns
    -------
    MetaPS
        The calibrated object. It remembers the columns, as ``columns_``.

    Raises
    ------
    InfeasibleGuarantee
        If the tasks are too few or too small; the message says what would work.
    """
    method = MetaPS(
        epsilon=epsilon,
        alpha=alpha,
        delta=delta,
        split=split,
        per_class=per_class,
        min_examples=min_examples,
        on_infeasible=on_infeasible,
    )
    method._check_parameters()
    layout = Layout(task, score, label, columns, classes, per_class=per_class).checked()
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, layout)
        with opened.reading(rows.columns, task):
            refuse_unlabelled(opened, layout, rows.classes)
            guarantee = agreed(method._guarantee(), rows.keys)
            evidence = first_step(rows, guarantee, progress)
        names = None if rows.classes is None else rows.classes.names
        method.set_params(epsilon=guarantee.epsilon)
        return method._conclude(evidence._replace(columns=layout.record(names)))


def agreed(guarantee: Guarantee, keys: Keys | None) -> Guarantee:
    """Return the guarantee with the classes of the table in it, where it is one for each class."""
    if keys is None:
        return guarantee
    return replace(guarantee, epsilon=_checks.epsilon_of(guarantee.epsilon, keys.classes))


def first_step(rows: Rows, guarantee: Guarantee, progress: Progress) -> Evidence:
    """The first step: a threshold for each task, at each level; where asked for, of each class."""
    progress("counting the scores of each task")
    census = take_census(rows, trim_of(rows))
    if rows.keys is None:
        ranks = ranks_within(census.sizes, guarantee)
        found = order_statistics(rows, census, ranks, progress)
        low, high = extremes(rows, census)
        return Evidence(
            census.names,
            census.sizes[:, None],
            found[:, None],
            np.array([low]),
            rows.precision,
            highest=np.array([high]),
        )
    names, task, label = rows.keys.groups(census.names)
    classes, sizes = rows.keys.classes, census.sizes
    ranks = ranks_by_class(sizes, label, classes, guarantee)
    found = order_statistics(rows, census, ranks, progress)
    lowest = census.low.astype(np.float64)
    evidence = spread(names, classes, task, label, sizes, found, lowest, rows.precision)
    highest = np.full(len(classes), -np.inf)
    np.maximum.at(highest, label, census.high)
    return evidence._replace(highest=highest)

"""The first step on a table: a threshold for each task, computed inside the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from metapac._types import Progress, ignore_progress
from metapac.evidence import Evidence, ranks_by_class, ranks_within
from metapac.guarantee import Guarantee
from metapac.tables.columns import Columns
from metapac.tables.io.sources import Source
from metapac.tables.meaning import check_rows
from metapac.tables.scores import Rows, check_guessed_classes, true_scores
from metapac.tables.search.census import score_range, take_census
from metapac.tables.search.ranks import order_statistics
from metapac.tables.search.sample import averaging_bounds


def collect_evidence(
    source: Source,
    columns: Columns,
    guarantee: Guarantee,
    progress: Progress | None,
    *,
    id: str | None = None,
    allow: Iterable[str] = (),
) -> tuple[Guarantee, Evidence]:
    """Take the first step: compute a threshold for each task, level and, if needed, class.

    Parameters
    ----------
    source : Source
        The open table.
    columns : Columns
        Its columns.
    guarantee : Guarantee
        The guarantee.
    progress : callable or None
        Called as ``progress(stage, done, total)``.
    id : str, optional
        Column that identifies the examples of a task.
    allow : iterable of str, default ()
        Checks of the data to skip.

    Returns
    -------
    guarantee : Guarantee
        The same, with the classes of the table as the keys of ``epsilon``.
    evidence : Evidence
        The thresholds.
    """
    rows = true_scores(source, columns)
    check_rows(rows, id=id, allow=allow)
    if rows.keys is not None:
        guarantee = _match_classes(guarantee, rows.keys.classes)
    with source.reading(rows.score_columns, columns.task):
        if columns.task is not None:  # a site, which is a single task, may lack a class
            check_guessed_classes(rows)
        evidence = _evidence(rows, guarantee, progress or ignore_progress)
    names = None if rows.class_scores is None else rows.class_scores.names
    return guarantee, evidence._replace(columns=columns.to_json(names))


def _evidence(rows: Rows, guarantee: Guarantee, progress: Progress) -> Evidence:
    progress("counting the scores of each task", 0, None)
    census = take_census(rows, averaging_bounds(rows))
    if rows.keys is None:
        ranks = ranks_within(census.sizes, guarantee)
        thresholds = order_statistics(rows, census, ranks, progress)
        low, high = score_range(rows, census)
        return Evidence(
            census.names,
            census.sizes[:, None],
            thresholds[:, None],
            np.array([low]),
            rows.precision,
            highest=np.array([high]),
        )
    names, task, label = rows.keys.groups(census.names)
    ranks = ranks_by_class(census.sizes, label, rows.keys.classes, guarantee)
    return Evidence.from_groups(
        names,
        rows.keys.classes,
        task,
        label,
        sizes=census.sizes,
        thresholds=order_statistics(rows, census, ranks, progress),
        lowest=census.low,
        highest=census.high,
        precision=rows.precision,
    )


def _match_classes(guarantee: Guarantee, classes: tuple[Any, ...]) -> Guarantee:
    """Return the guarantee with the classes of the table as keys, which may be passed as text."""
    if isinstance(guarantee.epsilon, Mapping):
        by_text = {str(name): name for name in classes}
        epsilon = {by_text.get(str(name), name): e for name, e in guarantee.epsilon.items()}
        guarantee = replace(guarantee, epsilon=epsilon)
        guarantee.check_classes(classes)
        for name in classes:  # fail fast if one has no epsilon
            guarantee.for_class(name, classes)
    return guarantee

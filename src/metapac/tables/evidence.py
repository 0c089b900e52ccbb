"""The first step on a table: a threshold for each task, computed inside the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from metapac._types import Counts, Floats, Progress, ignore_progress
from metapac.calibration.intervals import warn_if_exact
from metapac.evidence import Evidence
from metapac.guarantee import Guarantee
from metapac.meaning.duplicates import judge_duplicates
from metapac.tables.columns import Columns
from metapac.tables.io.sources import Source
from metapac.tables.meaning import Tasks, check_copies, check_rows
from metapac.tables.scores import Rows, check_guessed_classes, true_scores
from metapac.tables.search.census import Census
from metapac.tables.search.survey import take_survey
from metapac.task_ranks import ranks_by_class, ranks_within


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
    report = progress or ignore_progress
    has_scores = columns.score is not None
    sample = None if has_scores else check_rows(rows, id=id, allow=allow)
    if rows.keys is not None:
        guarantee = _match_classes(guarantee, rows.keys.classes)
    with source.reading(rows.score_columns, columns.task):
        if columns.task is not None:  # a site, which is a single task, may lack a class
            check_guessed_classes(rows)
        report("counting the scores of each task", 0, None)
        survey = take_survey(rows)
        census = survey.census
        tasks = _tasks(rows, census)
        if has_scores:  # the census has counted the tasks, and the search looks for copies
            check_rows(rows, tasks, id=id, allow=allow, copies=False)
        ranks = _ranks(rows, census, guarantee)
        thresholds, repeats = survey.order_statistics(ranks, report)
        if has_scores and (repeats is None or judge_duplicates(repeats) is not None):
            check_copies(rows, tasks, id=id, allow=allow)
        evidence = _evidence(rows, census, thresholds)
    if rows.residuals is not None:
        warn_if_exact(evidence)
    names = None if rows.class_scores is None else rows.class_scores.names
    return guarantee, evidence._replace(columns=columns.to_json(names), sample=sample)


def _tasks(rows: Rows, census: Census) -> Tasks:
    """Return the tasks of a census and their sizes, over all classes."""
    if rows.keys is None:
        return Tasks(census.names.tolist(), census.sizes)
    names, task, _label = rows.keys.groups(census.names)
    return Tasks(names.tolist(), np.bincount(task, census.sizes).astype(np.int64))


def _ranks(rows: Rows, census: Census, guarantee: Guarantee) -> Counts:
    if rows.keys is None:
        return ranks_within(census.sizes, guarantee)
    label = rows.keys.groups(census.names).label
    return ranks_by_class(census.sizes, label, rows.keys.classes, guarantee)


def _evidence(rows: Rows, census: Census, thresholds: Floats) -> Evidence:
    if rows.keys is None:
        return Evidence(
            census.names,
            census.sizes[:, None],
            thresholds[:, None],
            census.low.min(keepdims=True).astype(np.float64),
            rows.precision,
            highest=census.high.max(keepdims=True).astype(np.float64),
            ranges=np.stack([census.low, census.high], axis=1).astype(np.float64),
        )
    names, task, label = rows.keys.groups(census.names)
    return Evidence.from_groups(
        names,
        rows.keys.classes,
        task,
        label,
        sizes=census.sizes,
        thresholds=thresholds,
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

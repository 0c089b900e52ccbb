"""Checks of what a table means, from one query."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
from ibis import _

from metapac import data_checks as checks
from metapac._common import Counts, Floats
from metapac.columns import Columns
from metapac.data_checks import MAX_ROWS, Facts, Repeats, Sample
from metapac.tables.engines import add_up, upload
from metapac.tables.scores import ClassScores, Rows, count_equal, get_id_column, match_columns
from metapac.tables.search import MAX_GROUPED
from metapac.tables.sources import Source

_MAX_VALUES = 2_000_000  # of the sample in which pairs of examples are compared


def find_facts(
    rows: Rows, names: list[Any], sizes: Counts, skipped: frozenset[str], repeats: Repeats | None
) -> Facts:
    """Return what the checks look at, given the tasks and how many rows they have.

    Missing scores and sums are exact. Copies are searched in as many whole tasks as have
    `MAX_GROUPED` rows together, unless ``repeats``, seen near the thresholds, rule them out; the
    direction is judged in a sample of ``MAX_ROWS`` rows. An id is compared in all rows. The class
    scores of a small table are fetched at once.
    """
    source, columns, total = rows.source, rows.columns, int(sizes.sum())
    found: dict[str, Any] = {"columns": rows.score_columns}
    is_clean = repeats is not None and checks.judge_duplicates(repeats) is None
    search = columns.id is None and "duplicates" not in skipped
    search &= columns.score is None or not is_clean
    with source.reading(rows.score_columns, columns.task):
        if "score-column" not in skipped:
            found |= _compare_score_column(source, columns)
        if rows.class_scores is not None:
            found["sample"] = sample = _sample(rows, total)
        if rows.class_scores is not None and _is_small(rows, total):
            found |= _count_at_once(rows, sample, search)
        else:
            found |= {} if {"missing", "percentages"} <= skipped else _survey(rows)
            found |= {"repeats": _count_copies(rows, names, sizes)} if search else {}
        if columns.id is not None and "duplicates" not in skipped:
            found["ids"] = _count_ids(rows, columns.id)
    return Facts([] if columns.task is None else names, total, **found)


def judge_sums(source: Source, of_classes: ClassScores) -> checks.Finding | None:
    """Object to rows that sum to 1 beside rows that sum to 100."""
    return checks.judge_percentages(*source.count(**_near_sums(of_classes)))


def _near_sums(of_classes: ClassScores) -> dict[str, Any]:
    """Return whether the scores of each row sum to 1, and to 100."""
    if of_classes.lists is not None:
        total = of_classes.lists.sums()
    else:
        total = add_up([score.cast("float64") for score in of_classes.scores])
    return {f"near{number}": checks.sums_to(total, number) for number in (1, 100)}


def _compare_score_column(source: Source, columns: Columns) -> dict[str, Any]:
    """Return how often the score column equals one of the class columns that it looks like."""
    score, pattern = columns.score, columns.pattern
    if score is None or not isinstance(pattern, str) or pattern.count("*") != 1:
        return {}
    ignored, found = columns.not_classes - {score}, match_columns(source, pattern).values()
    alike = [name for name in found if name not in ignored]
    if not source.is_text:
        alike = [name for name in alike if source.table[name].type().is_numeric()]
    others = [name for name in alike if name != score]
    if score not in alike or not others:
        return {}
    return {"score_column": (score, others, *count_equal(source, score, others))}


def _is_small(rows: Rows, count: int) -> bool:
    """Return whether the scores of all classes are few enough to be fetched."""
    return rows.names is not None and count <= _wanted(rows.names)


def _wanted(names: list[Any]) -> int:
    """Return how many rows with scores of some classes to fetch at most."""
    return min(MAX_ROWS, max(1, _MAX_VALUES // len(names)))


def _count_at_once(rows: Rows, sample: Sample, search: bool) -> dict[str, Any]:
    """Count what the class scores of a small table show, once they are fetched."""
    tasks, labels, scores, names, _is_part = sample
    has_true = ~np.isnan(scores[np.arange(len(labels)), labels])  # otherwise, see the census
    found = checks.count_matrix(scores, names, has_true)
    if found["affected"]:
        rows.source.check_text(rows.score_columns, rows.columns.task)
    return found | ({"repeats": checks.count_repeats(tasks, labels, scores)} if search else {})


def _survey(rows: Rows) -> dict[str, Any]:
    """Count missing scores and the sums of rows, in one pass."""
    source, of_classes = rows.source, rows.class_scores
    if of_classes is None:
        return {}
    has_true = source.is_usable(rows.score)  # otherwise reported by the census
    is_affected = has_true & of_classes.lacks_scores(source)
    by_class = [] if of_classes.lists is not None else of_classes.scores
    bad = {f"bad{i}": has_true & ~source.is_usable(one) for i, one in enumerate(by_class)}
    conditions = _near_sums(of_classes) | {"affected": is_affected} | bad
    _all, fractions, percentages, affected, *counts = source.count(**conditions)
    if affected:
        source.check_text(rows.score_columns, rows.columns.task)
    missing = dict(zip(of_classes.names, counts, strict=False))  # of lists, none
    return {"missing": missing, "affected": affected, "sums": (fractions, percentages)}


def _sample(rows: Rows, count: int) -> Sample:
    """Return task, label and class scores of some rows, without those of an unknown label."""
    of_classes = rows.class_scores
    assert of_classes is not None
    if of_classes.row_names is not None:
        return _sample_lists(rows, count, of_classes)
    if of_classes.lists is None:
        scores = {f"score{i}": score for i, score in enumerate(of_classes.scores)}
    else:
        scores = {"scores": of_classes.lists}
    wanted = _wanted(of_classes.names)
    table = _draw(rows, wanted / count).select(task=rows.task, label=rows.labels, **scores)
    result = rows.source.run(table)
    index = {str(name): i for i, name in enumerate(of_classes.names)}
    labels = np.array([index.get(name, -1) for name in result["label"].to_pylist()], np.int64)
    matrix = np.stack([_as_floats(result[name]) for name in scores], axis=1)
    matrix = matrix.reshape(len(labels), len(index))
    is_known = labels >= 0
    tasks = checks.number_tasks(result["task"].to_pylist())
    some = tasks[is_known], labels[is_known], matrix[is_known]
    return Sample(*some, of_classes.names, count > wanted)


def _draw(rows: Rows, share: float) -> Any:
    """Return a share of the rows; in DuckDB, chosen by their place, so that samples are equal."""
    table, traits = rows.source.table, rows.source.traits
    if share >= 1:
        return table
    if not (traits.in_process and traits.has_lists):
        return table.filter(ibis.random() < share)
    return table.filter((ibis.row_number().hash() & ((1 << 30) - 1)) < int(share * (1 << 30)))


def _sample_lists(rows: Rows, count: int, of_classes: ClassScores) -> Sample:
    """Return the same where classes differ from row to row: a column is a class within a task."""
    table = _draw(rows, MAX_ROWS / count).select(
        task=rows.task, label=rows.labels, scores=of_classes.lists, names=of_classes.row_names
    )
    result = rows.source.run(table).to_pydict()
    tasks = checks.number_tasks(result["task"])
    index: dict[tuple[int, str], int] = {}
    sizes: Counter[int] = Counter()
    columns = []
    for task, names in zip(tasks.tolist(), result["names"], strict=True):
        for name in map(str, names):
            if (task, name) not in index:
                index[task, name] = sizes[task]
                sizes[task] += 1
        columns.append([index[task, str(name)] for name in names])
    matrix = np.full((len(tasks), max(sizes.values(), default=1)), np.nan)
    for i, places in enumerate(columns):
        matrix[i, places] = [np.nan if x is None else x for x in result["scores"][i]]
    pairs = zip(tasks.tolist(), result["label"], strict=True)
    labels = np.array([index.get(pair, -1) for pair in pairs], np.int64)
    is_known = labels >= 0
    return Sample(tasks[is_known], labels[is_known], matrix[is_known], (), count > MAX_ROWS)


def _as_floats(column: Any) -> Floats:
    """Return a column of numbers, or the entries of a column of lists; null becomes NaN."""
    flat = column.combine_chunks()
    flat = flat.flatten() if pa.types.is_nested(flat.type) else flat
    return np.asarray(flat.to_numpy(zero_copy_only=False), np.float64)


def _count_copies(rows: Rows, tasks: list[Any], sizes: Counts) -> Repeats:
    """Return how often equal rows occur, in whole tasks."""
    table, label = rows.source.table, rows.columns.label
    names = [*dict.fromkeys([*rows.score_columns, *([] if label is None else [label])])]
    columns = {f"column{i}": table[name] for i, name in enumerate(names)}
    used = table.select(task=rows.task, **columns)
    if sizes.sum() > MAX_GROUPED:
        fitting = np.cumsum(sizes) <= MAX_GROUPED
        chosen = [name for name, fits in zip(tasks, fitting, strict=True) if fits]
        if not chosen:
            return {}
        used = used.semi_join(upload(used.task.type(), chosen), "task")
    equal = used.group_by(used.columns).agg(repeats=used.count())
    by_task = equal.group_by("task", "repeats").agg(rows=_.count())
    result = rows.source.run(by_task).to_pydict()
    size_of = dict(zip(tasks, sizes.tolist(), strict=True))
    repeats: Counter[tuple[int, int]] = Counter()
    for task, times, count in zip(*result.values(), strict=True):
        repeats[size_of[task], times] += count
    return repeats


def _count_ids(rows: Rows, id: str) -> tuple[int, int, list[str]]:
    """Return the number of rows and of distinct ids, and the first ids that occur twice."""
    source = rows.source
    column = get_id_column(source, id, "examples")
    table = source.table.select(task=rows.task, id=column)
    pairs = table.group_by("task", "id").agg(repeats=table.count())
    counts = source.run(pairs.agg(rows=pairs.repeats.sum(), distinct=pairs.count()))
    count, distinct = (column[0].as_py() for column in counts.columns)
    if count == distinct:
        return count, distinct, []
    first = source.run(pairs.filter(pairs.repeats > 1).order_by("task", "id").limit(3))
    return count, distinct, [f"{row['id']!r} in {row['task']!r}" for row in first.to_pylist()]

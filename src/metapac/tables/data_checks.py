"""Checks of what a table means, from one query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
from ibis import _

from metapac._common import Counts, Floats
from metapac.copies import count_repeats, judge_duplicates
from metapac.data_checks import (
    Sample,
    judge_ids,
    judge_labels,
    judge_missing,
    judge_percentages,
    judge_rare_classes,
    judge_scale,
    judge_score_column,
    judge_task_column,
    judge_task_names,
    number_tasks,
    sums_to,
)
from metapac.findings import MAX_ROWS, Finding, check_allowed, report
from metapac.tables import errors
from metapac.tables.columns import Columns, get_id_column
from metapac.tables.expressions import add_up, as_int, upload
from metapac.tables.scores import ClassScores, Rows, as_floats, as_written, is_usable, true_scores
from metapac.tables.search import MAX_GROUPED
from metapac.tables.sources import Source

_MAX_VALUES = 2_000_000  # of the sample in which pairs of examples are compared


class Tasks(NamedTuple):
    """The distinct tasks of a table."""

    names: list[Any]
    sizes: Counts

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return int(self.sizes.sum())


def check_rows(
    rows: Rows,
    tasks: Tasks | None = None,
    *,
    id: str | None = None,
    allow: Iterable[str] = (),
    copies: bool = True,
) -> Sample | None:
    """Check labelled examples in a table, for all that ``CHECKS`` can see in them.

    Tasks, missing scores and sums are exact. Copies are searched in as many whole tasks as have
    `MAX_GROUPED` rows together, and the direction in a sample of ``MAX_ROWS`` rows. An id
    is compared in all rows. The class scores of a small table are fetched and judged at once.
    """
    source, skipped = rows.source, check_allowed(allow)
    errors.check_column_names(id=id)
    check_score_column(source, rows.columns, allow=skipped)
    with source.reading(rows.score_columns, rows.columns.task):
        tasks = tasks or _count_tasks(rows)
        if not tasks.rows or None in tasks.names:
            return None  # reported by the census
        findings: list[Finding | None] = []
        if rows.columns.task is not None:
            texts = sorted(name for name in tasks.names if isinstance(name, str))
            findings.append(judge_task_names(texts))
            findings.append(judge_task_column(len(tasks.names), tasks.rows))
        search_copies = copies and id is None and "duplicates" not in skipped
        sample = None if rows.class_scores is None else _sample(rows, tasks.rows)
        if sample is not None:
            findings += judge_labels(sample, rows.score_columns)
        if sample is not None and _is_small(rows, tasks.rows):
            findings += _judge_at_once(rows, sample, search_copies)
        else:
            findings += [] if {"missing", "percentages"} <= skipped else _survey(rows)
            findings += [_judge_copies(rows, tasks)] if search_copies else []
        if id is not None and "duplicates" not in skipped:
            findings.append(_judge_ids(rows, id))
        report(findings, skipped, where=source.name)
    return sample


def check_copies(
    rows: Rows, tasks: Tasks, *, id: str | None = None, allow: Iterable[str] = ()
) -> None:
    """Check that equal rows do not occur more often than those of independent examples."""
    if id is None and "duplicates" not in check_allowed(allow):
        report([_judge_copies(rows, tasks)], where=rows.source.name)


def check_scale(
    scores: tuple[float, float],
    calibration: tuple[float, float] | None,
    *,
    allow: Iterable[str] = (),
    where: str = "",
) -> None:
    """Check that scores are fractions, or percentages, as in calibration."""
    if calibration is not None:
        report([judge_scale(scores, calibration)], allow, where=where)


def judge_sums(source: Source, of_classes: ClassScores) -> Finding | None:
    """Object to rows that sum to 1 beside rows that sum to 100."""
    table = source.table.select(total=_sum(of_classes))
    near = {f"near{total}": table.count(where=sums_to(table.total, total)) for total in (1, 100)}
    result = source.run(table.agg(rows=table.count(), **near))
    return judge_percentages(*(column[0].as_py() for column in result.columns))


def check_rare_classes(
    source: Source, columns: Columns, epsilon: float, *, allow: Iterable[str] = ()
) -> None:
    """Warn of classes that are rarer than the miss rate of one guarantee for all classes.

    Without labels, or if classes differ from row to row, there is nothing to warn of.
    """
    if columns.label is None or columns.classes_column is not None or "rare-class" in allow:
        return
    rows = true_scores(source, columns)
    if rows.labels is None or rows.names is None:
        return
    table = source.table.select(label=rows.labels)
    counts = source.run(table.group_by("label").agg(size=table.count())).to_pydict()
    found = dict(sorted(zip(counts["label"], counts["size"], strict=True)))
    known = found | {name: 0 for name in map(str, rows.names) if name not in map(str, found)}
    report([judge_rare_classes(known, epsilon)], where=source.name)


def check_score_column(source: Source, columns: Columns, *, allow: Iterable[str] = ()) -> None:
    """Check that the score column is not one of the class columns."""
    skipped = check_allowed(allow)
    others = [] if "score-column" in skipped else _matching_beside_score(source, columns)
    if not others or columns.score is None:
        return
    (score, *rest), _precision = as_floats(source, [columns.score, *others])
    is_equal = add_up([as_int(score == other) for other in rest]) > 0
    with source.reading([columns.score, *others]):
        table = source.table.select(is_equal=is_equal)
        counts = source.run(table.agg(rows=table.count(), equal=table.count(where=table.is_equal)))
    rows, equal = (counts[name][0].as_py() for name in ("rows", "equal"))
    if rows:
        finding = judge_score_column(columns.score, others, rows=rows, equal=equal)
        report([finding], where=source.name)


def _count_tasks(rows: Rows) -> Tasks:
    table = rows.source.table.select(task=_task(rows))
    counts = rows.source.run(table.group_by("task").agg(size=table.count()))
    return Tasks(counts["task"].to_pylist(), counts["size"].to_numpy())


def _task(rows: Rows) -> Any:
    """Return the task of each row, also with a guarantee per class."""
    if rows.columns.task is None:
        return ibis.literal("all")
    return as_written(rows.source, get_id_column(rows.source, rows.columns.task, "tasks"))


def _is_small(rows: Rows, count: int) -> bool:
    """Return whether the scores of all classes are few enough to be fetched."""
    of_classes = rows.class_scores
    return of_classes is not None and of_classes.row_names is None and count <= _wanted(of_classes)


def _wanted(of_classes: ClassScores) -> int:
    """Return how many rows to fetch at most."""
    return min(MAX_ROWS, max(1, _MAX_VALUES // len(of_classes.names)))


def _judge_at_once(rows: Rows, sample: Sample, search_copies: bool) -> list[Finding | None]:
    """Judge the class scores of a small table by a single query, since it names every column."""
    tasks, labels, scores, names, _is_part = sample
    has_true = ~np.isnan(scores[np.arange(len(labels)), labels])  # otherwise, see the census
    bad = np.isnan(scores) & has_true[:, None]
    affected = int(bad.any(axis=1).sum())
    if affected:
        rows.source.check_text(rows.score_columns, rows.columns.task)
    missing = dict(zip(names, bad.sum(axis=0).tolist(), strict=True))
    with np.errstate(invalid="ignore"):  # inf - inf
        sums = scores.sum(axis=1)
    near = [int(np.sum(sums_to(sums, total))) for total in (1, 100)]
    return [
        judge_missing(len(scores), missing, affected=affected),
        judge_percentages(len(scores), *near),
        judge_duplicates(count_repeats(tasks, labels, scores)) if search_copies else None,
    ]


def _survey(rows: Rows) -> list[Finding | None]:
    """Judge missing scores and the sums of rows, in one pass."""
    source, of_classes = rows.source, rows.class_scores
    if of_classes is None:
        return []
    has_true = is_usable(source, rows.score)  # otherwise reported by the census
    bad = _missing_by_class(source, of_classes)
    total = _sum(of_classes)
    table = source.table.select(
        fractions=sums_to(total, 1),
        percentages=sums_to(total, 100),
        **{f"bad{i}": has_true & is_bad for i, is_bad in enumerate(bad)},
        affected=has_true & (add_up([as_int(is_bad) for is_bad in bad]) > 0),
    )
    counts = {name: table.count(where=table[name]) for name in table.columns}
    result = source.run(table.agg(rows=table.count(), **counts))
    count, fractions, percentages, *by_class, affected = (
        column[0].as_py() for column in result.columns
    )
    if affected:
        source.check_text(rows.score_columns, rows.columns.task)
    missing = (
        {} if of_classes.lists is not None else dict(zip(of_classes.names, by_class, strict=True))
    )
    return [
        judge_missing(count, missing, affected=affected),
        judge_percentages(count, fractions, percentages),
    ]


def _missing_by_class(source: Source, of_classes: ClassScores) -> list[Any]:
    """Return whether the score of each class is missing; with lists, of any class."""
    if of_classes.lists is None:
        return [~is_usable(source, score) for score in of_classes.scores]
    return [of_classes.lists.filter(lambda score: ~is_usable(source, score)).length() > 0]


def _sum(of_classes: ClassScores) -> Any:
    if of_classes.lists is None:
        return add_up([score.cast("float64") for score in of_classes.scores])
    return of_classes.lists.sums()


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
    classes = [str(name) for name in of_classes.names]
    wanted = _wanted(of_classes)
    table = rows.source.table
    if count > wanted:
        table = table.filter(_is_drawn(rows, wanted / count))
    table = table.select(task=_task(rows), label=rows.labels, **scores)
    result = rows.source.run(table)
    index = {name: i for i, name in enumerate(classes)}
    labels = np.array([index.get(name, -1) for name in result["label"].to_pylist()], np.int64)
    matrix = np.stack([_as_floats(result[name]) for name in scores], axis=1)
    matrix = matrix.reshape(len(labels), len(classes))
    is_known = labels >= 0
    tasks = number_tasks(result["task"].to_pylist())
    some = tasks[is_known], labels[is_known], matrix[is_known]
    return Sample(*some, of_classes.names, count > wanted)


def _is_drawn(rows: Rows, share: float) -> Any:
    """Return whether a row is in the sample; in DuckDB, by its place, so that samples are equal."""
    if not (rows.source.traits.in_process and rows.source.traits.has_lists):
        return ibis.random() < share
    return (ibis.row_number().hash() & ((1 << 30) - 1)) < int(share * (1 << 30))


def _sample_lists(rows: Rows, count: int, of_classes: ClassScores) -> Sample:
    """Return the same where classes differ from row to row: a column is a class within a task."""
    table = rows.source.table
    if count > MAX_ROWS:
        table = table.filter(_is_drawn(rows, MAX_ROWS / count))
    table = table.select(
        task=_task(rows), label=rows.labels, scores=of_classes.lists, names=of_classes.row_names
    )
    result = rows.source.run(table).to_pydict()
    tasks = number_tasks(result["task"])
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


def _judge_copies(rows: Rows, tasks: Tasks) -> Finding | None:
    """Judge how often equal rows occur, in whole tasks."""
    table, label = rows.source.table, rows.columns.label
    names = [*dict.fromkeys([*rows.score_columns, *([] if label is None else [label])])]
    columns = {f"column{i}": table[name] for i, name in enumerate(names)}
    used = table.select(task=_task(rows), **columns)
    if tasks.rows > MAX_GROUPED:
        fitting = np.cumsum(tasks.sizes) <= MAX_GROUPED
        chosen = [name for name, fits in zip(tasks.names, fitting, strict=True) if fits]
        if not chosen:
            return None
        used = used.semi_join(upload(used.task.type(), task=np.array(chosen, object)), "task")
    equal = used.group_by(used.columns).agg(repeats=used.count())
    by_task = equal.group_by("task", "repeats").agg(rows=_.count())
    result = rows.source.run(by_task).to_pydict()
    size_of = dict(zip(tasks.names, tasks.sizes.tolist(), strict=True))
    repeats: Counter[tuple[int, int]] = Counter()
    for task, times, count in zip(*result.values(), strict=True):
        repeats[size_of[task], times] += count
    return judge_duplicates(repeats)


def _judge_ids(rows: Rows, id: str) -> Finding | None:
    """Judge whether an id occurs twice in a task."""
    source = rows.source
    column = as_written(source, get_id_column(source, id, "examples"))
    table = source.table.select(task=_task(rows), id=column)
    pairs = table.group_by("task", "id").agg(repeats=table.count())
    counts = source.run(pairs.agg(rows=pairs.repeats.sum(), distinct=pairs.count()))
    count, distinct = (counts[name][0].as_py() for name in ("rows", "distinct"))
    if count == distinct:
        return None
    first = source.run(pairs.filter(pairs.repeats > 1).order_by("task", "id").limit(3))
    examples = zip(first["id"].to_pylist(), first["task"].to_pylist(), strict=True)
    seen = [repr(name) if task is None else f"{name!r} in {task!r}" for name, task in examples]
    return judge_ids(count, distinct, seen)


def _matching_beside_score(source: Source, columns: Columns) -> list[str]:
    """Return the other class columns, if the score column looks like one."""
    score, pattern = columns.score, columns.pattern
    if score is None or not isinstance(pattern, str) or pattern.count("*") != 1:
        return []
    head, tail = pattern.split("*")
    reserved = columns.not_classes - {score}
    alike = [
        name
        for name in source.table.columns
        if len(name) > len(head + tail) and name.startswith(head) and name.endswith(tail)
        if name not in reserved
        if source.is_text or source.table[name].type().is_numeric()
    ]
    return [name for name in alike if name != score] if score in alike else []

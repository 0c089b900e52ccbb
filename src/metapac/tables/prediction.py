"""Prediction sets for the rows of a table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import IO, Any, NamedTuple

from metapac._common import PathLike, Progress, Table, ignore_progress
from metapac.columns import Columns
from metapac.data_checks import check_allowed, judge_scale, judge_sets
from metapac.data_checks import report as report_findings
from metapac.errors import InvalidInput, keyword
from metapac.predictors import ThresholdSets
from metapac.sets import SetSummary
from metapac.tables import errors
from metapac.tables.data_checks import judge_sums
from metapac.tables.output import check_output, output_kind, write
from metapac.tables.scores import find_residuals
from metapac.tables.sets import (
    IntervalSummary,
    KeptLabels,
    count_sets,
    find_ends,
    lists_as_text,
    summarise_intervals,
)
from metapac.tables.sources import Source


class Sets(NamedTuple):
    """A table with its prediction sets."""

    table: Table
    classes: list[Any]
    summary: SetSummary | IntervalSummary
    calibrated: tuple[float, float] | None
    epsilon: float
    skipped: frozenset[str] = frozenset()
    is_compared: bool = False
    is_suspect: bool = False

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.summary.rows

    @property
    def warnings(self) -> list[str]:
        """What looks wrong with the sets."""
        epsilon = None if "sets" in self.skipped else self.epsilon
        return self.summary.warnings(self.calibrated, epsilon)


def write_sets(
    promise: ThresholdSets,
    source: Source,
    columns: Columns,
    kept: KeptLabels | None,
    output: PathLike | IO[str],
    *,
    inputs: Iterable[PathLike] = (),
    progress: Progress | None = None,
    **form: Any,
) -> Sets:
    """Write the rows of a table with their sets; nothing if a score is null or NaN."""
    tell = progress or ignore_progress
    as_text = True
    if isinstance(output, str | os.PathLike):
        check_output(source, output, inputs)
        as_text = output_kind(output) == "csv"
    tell("checking the scores", 0, None)
    sets = add_sets(promise, source, columns, kept, as_text=as_text, **form)
    tell(f"writing {sets.rows} sets", 0, None)
    write(source.connection, sets.table, output)
    return sets


def add_sets(
    promise: ThresholdSets,
    source: Source,
    columns: Columns,
    kept: KeptLabels | None,
    *,
    booleans: bool,
    answer: bool,
    allow: Iterable[str],
    as_text: bool = False,
) -> Sets:
    """Return the rows with their sets, not computed yet; the scores are checked first."""
    if kept is None:
        return _add_intervals(promise, source, columns, booleans=booleans, answer=answer)
    added = _make_columns(source, columns, kept, booleans=booleans, as_text=as_text)
    if answer:
        added["answer"] = kept.answer
    _check_new_columns(source, list(added))
    if as_text and source.traits.has_lists:
        added |= lists_as_text(source.table)
    of_classes, summary = kept.of_classes, count_sets(source, kept)
    calibrated, finding = promise._score_range, None
    if calibrated is not None and summary.low is not None and summary.high is not None:
        finding = judge_scale((summary.low, summary.high), calibrated, labelled=False)
    if finding is not None and finding.is_error:
        finding = judge_sums(source, of_classes) or finding
    is_same = [*map(str, of_classes.names)] == [*map(str, promise._known_classes or ())]
    then = promise._sets if is_same else None
    if finding is None and then is not None:
        finding = judge_sets(then, summary.rows, summary.mean_size, summary.by_class)
    report_findings([finding], skipped := check_allowed(allow), where=source.name)
    epsilon, table = _largest_epsilon(promise), source.table.mutate(**added)
    sets = Sets(table, of_classes.names, summary, calibrated, epsilon, skipped, then is not None)
    is_empty = 0 < summary.rows == summary.empty or bool(summary._too_empty(epsilon))
    is_suspect = finding is not None and finding.check not in skipped
    return sets._replace(is_suspect=is_suspect or (is_empty and "sets" not in skipped))


def _make_columns(
    source: Source, columns: Columns, kept: KeptLabels, *, booleans: bool, as_text: bool
) -> dict[str, Any]:
    """Return a column of booleans for each class, or a column of sets and one of their sizes."""
    if not booleans:
        is_text = as_text or not source.traits.has_lists
        return {"set": kept.as_text() if is_text else kept.as_list(), "set_size": kept.size}
    if kept.of_classes.row_names is not None:
        origin = "classes_column"
        if columns.classes_column is None:
            origin = f"column {columns.pattern!r}, whose lists differ in length,"
        raise InvalidInput(
            f"booleans=True needs one fixed list of classes, and {origin} gives each row its own. "
            "Leave it out."
        )
    return {f"in_{name}": kept for name, kept in zip(kept.of_classes.names, kept.each, strict=True)}


def _add_intervals(
    promise: ThresholdSets, source: Source, columns: Columns, *, booleans: bool, answer: bool
) -> Sets:
    """Return the rows with the ends of their intervals, not computed yet."""
    if booleans or answer:
        raise InvalidInput(
            f"{keyword('booleans' if booleans else 'answer', True)} is for classes, and prediction "
            "for numbers. Leave it out.",
            parameter="prediction",
        )
    if promise.classes_ is not None:
        raise InvalidInput("intervals need one threshold, and a guarantee per class has several.")
    residuals = find_residuals(source, columns, needs_y=False)
    lower, upper = find_ends(promise.threshold_, promise.precision_, residuals)
    added = {"lower": lower, "upper": upper}
    _check_new_columns(source, list(added))
    summary = summarise_intervals(source, lower, upper)
    return Sets(source.table.mutate(**added), [], summary, None, _largest_epsilon(promise))


def _largest_epsilon(promise: ThresholdSets) -> float:
    each = promise.epsilon
    return float(max(each.values()) if isinstance(each, Mapping) else each)


def _check_new_columns(source: Source, names: list[str]) -> None:
    present = {name.lower() for name in source.table.columns}
    taken = [name for name in names if name.lower() in present]
    if taken:
        raise InvalidInput(f"{source.name} already has a column {taken[0]!r}. Rename or drop it.")
    errors.check_case_collisions("the result", names)

"""Prediction sets for the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from metapac._common import Table
from metapac.columns import Columns
from metapac.data_checks import check_allowed, judge_scale, judge_sets
from metapac.data_checks import report as report_findings
from metapac.errors import InvalidInput
from metapac.predictors import ThresholdSets
from metapac.sets import SetSummary
from metapac.tables import errors
from metapac.tables.data_checks import judge_sums
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
    warnings: list[str]
    epsilon: float
    is_compared: bool = False
    is_suspect: bool = False

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.summary.rows

    def to_dict(self) -> dict[str, Any]:
        """Return the summary of the sets as JSON can hold it."""
        summary = {"summary": self.summary.to_dict(), "warnings": self.warnings}
        return {"sets": self.rows, "classes": self.classes} | summary


def add_sets(
    promise: ThresholdSets,
    source: Source,
    columns: Columns,
    kept: KeptLabels,
    *,
    booleans: bool,
    answer: bool,
    allow: Iterable[str],
    as_text: bool,
) -> Sets:
    """Return the rows with their sets, not computed yet; the scores are checked first."""
    added = _make_columns(source, columns, kept, booleans=booleans, as_text=as_text)
    if answer:
        added["answer"] = kept.answer
    _check_new_columns(source, list(added))
    if as_text and source.traits.has_lists:
        added |= lists_as_text(source.table)
    names, summary, skipped = kept.of_classes.names, count_sets(source, kept), check_allowed(allow)
    calibrated, finding = promise._score_range, None
    if calibrated is not None and summary.low is not None and summary.high is not None:
        finding = judge_scale((summary.low, summary.high), calibrated, labelled=False)
    if finding is not None and finding.is_error:
        finding = judge_sums(source, kept.of_classes) or finding
    is_same = [*map(str, names)] == [*map(str, promise._known_classes or ())]
    then = promise._sets if is_same else None
    if finding is None and then is not None:
        finding = judge_sets(then, summary.rows, summary.mean_size, summary.by_class)
    report_findings([finding], skipped, where=source.name)
    epsilon, table = _largest_epsilon(promise), source.table.mutate(**added)
    is_suspect = finding is not None and finding.check not in skipped
    if "sets" not in skipped:
        is_suspect |= 0 < summary.rows == summary.empty or bool(summary._too_empty(epsilon))
    warnings = summary.warnings(calibrated, None if "sets" in skipped else epsilon)
    return Sets(table, names, summary, warnings, epsilon, then is not None, is_suspect)


def _make_columns(
    source: Source, columns: Columns, kept: KeptLabels, *, booleans: bool, as_text: bool
) -> dict[str, Any]:
    """Return a column of booleans for each class, or a column of sets and one of their sizes."""
    if not booleans:
        is_text = as_text or not source.traits.has_lists
        return {"set": kept.as_text() if is_text else kept.as_list(), "set_size": kept.size}
    if kept.of_classes.row_names is not None:
        origin = columns.classes_column or columns.pattern
        raise InvalidInput(
            f"booleans=True needs one fixed list of classes, and column {origin!r} gives each row "
            "its own."
        )
    return {
        f"in_{name}": is_in for name, is_in in zip(kept.of_classes.names, kept.each, strict=True)
    }


def add_intervals(promise: ThresholdSets, source: Source, columns: Columns) -> Sets:
    """Return the rows with the ends of their intervals, not computed yet."""
    if promise.classes_ is not None:
        raise InvalidInput("intervals need one threshold, and a guarantee per class has several.")
    residuals = find_residuals(source, columns, needs_y=False)
    lower, upper = find_ends(promise.threshold_, promise.precision_, residuals)
    _check_new_columns(source, ["lower", "upper"])
    summary = summarise_intervals(source, lower, upper)
    table = source.table.mutate(lower=lower, upper=upper)
    return Sets(table, [], summary, summary.warnings(), _largest_epsilon(promise))


def _largest_epsilon(promise: ThresholdSets) -> float:
    each = promise.epsilon
    return float(max(each.values()) if isinstance(each, Mapping) else each)


def _check_new_columns(source: Source, names: list[str]) -> None:
    present = {name.lower() for name in source.table.columns}
    taken = [name for name in names if name.lower() in present]
    if taken:
        raise InvalidInput(f"{source.name} already has a column {taken[0]!r}. Rename or drop it.")
    errors.check_case_collisions("the result", names)

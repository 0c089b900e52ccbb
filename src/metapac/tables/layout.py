"""Which columns of a table hold what: said once, at calibration, and remembered by the promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from metapac._estimator import ThresholdSets
from metapac.tables import _checks


class Layout(NamedTuple):
    """The columns of a table, and the classes in them; None for what there is not."""

    task: str | None = None  # where there is none, all rows are one task
    score: str | None = None  # of the true label
    label: str | None = None  # the true label, beside a score for each class
    columns: str = "p_*"  # scores of the classes: a star for their names, or a column of lists
    classes: Sequence[Any] | None = None  # names for the places of lists, or some of the columns
    others: tuple[str, ...] = ()  # columns that are no class, though they may look like one
    per_class: bool = False  # whether classes are told apart

    def checked(self) -> Layout:
        """Return the same, if every column is named by a string."""
        _checks.column_names(
            task=self.task, score=self.score, label=self.label, columns=self.columns
        )
        return self

    def record(self, classes: Sequence[Any] | None) -> dict[str, Any]:
        """Return what a promise remembers, as JSON can hold it: the columns and the classes."""
        used: dict[str, Any] = {"task": self.task, "score": self.score, "label": self.label}
        if classes is not None:
            used |= {"columns": self.columns, "classes": _checks.class_names(classes)}
        return {name: value for name, value in used.items() if value is not None}

    @property
    def no_classes(self) -> set[str | None]:
        return {self.task, self.score, self.label, *self.others}


def as_calibrated(
    promise: ThresholdSets,
    *,
    task: str | None = None,
    score: str | None = None,
    label: str | None = None,
    columns: str | None = None,
    classes: Sequence[Any] | None = None,
) -> Layout:
    """Return a layout whose columns, where left out, are those that a promise was calibrated on."""
    _checks.threshold_sets(promise)
    known = promise.columns_ or {}
    per_class = promise.classes_ is not None
    if score is None and label is None:
        score, label = known.get("score"), known.get("label")
    elif label is None and per_class:
        label = known.get("label")
    layout = Layout(
        known.get("task") if task is None else task,
        score,
        label,
        known.get("columns", "p_*") if columns is None else columns,
        known.get("classes", promise.classes_) if classes is None else classes,
        tuple(known[name] for name in ("task", "score", "label") if name in known),
        per_class,
    )
    return layout.checked()

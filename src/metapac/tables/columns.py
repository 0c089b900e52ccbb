"""Names of the columns of a table, stored with the predictor at calibration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput
from metapac.tables import _checks


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read, and the classes; None for a column that the table lacks.

    Parameters
    ----------
    task : str, optional
        Column with the task of each row. Without it, all rows are one task.
    score : str, optional
        Column with the score of the true label.
    label : str, optional
        Column with the true label.
    pattern : str, default "p_*"
        Columns with a score for each class, the star being the class; or one column of lists.
    classes : sequence, optional
        Names of the classes: some of the columns, or the positions in a list.
    per_class : bool, default False
        Whether the guarantee holds for each class.
    reserved : tuple of str, optional
        Columns that are not scores of a class, even if they match ``pattern``.
    """

    task: str | None = None
    score: str | None = None
    label: str | None = None
    pattern: str = "p_*"
    classes: Sequence[Any] | None = None
    per_class: bool = False
    reserved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _checks.check_column_names(
            task=self.task, score=self.score, label=self.label, columns=self.pattern
        )

    @property
    def not_classes(self) -> set[str | None]:
        """Columns that are not scores of a class."""
        return {self.task, self.score, self.label, *self.reserved}

    def to_json(self, classes: Sequence[Any] | None) -> dict[str, Any]:
        """Return the columns and the classes that were used, for a promise file.

        Parameters
        ----------
        classes : sequence or None
            The classes of the table; None if only true labels have scores.

        Returns
        -------
        dict
            Names that JSON can hold, without those that are None.
        """
        used: dict[str, Any] = {"task": self.task, "score": self.score, "label": self.label}
        if classes is not None:
            used |= {"columns": self.pattern, "classes": _checks.class_names(classes)}
        return {name: value for name, value in used.items() if value is not None}


def resolve_columns(
    promise: ThresholdSets,
    *,
    task: str | None = None,
    score: str | None = None,
    label: str | None = None,
    columns: str | None = None,
    classes: Sequence[Any] | None = None,
) -> Columns:
    """Return the columns to read; those left out are the ones used at calibration.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    task, score, label, columns, classes : optional
        As in ``calibrate_table``.

    Returns
    -------
    Columns
        The columns.
    """
    _check_predictor(promise)
    stored = promise.columns_ or {}
    per_class = promise.classes_ is not None
    if score is None and label is None:
        score, label = stored.get("score"), stored.get("label")
    elif label is None and per_class:
        label = stored.get("label")
    return Columns(
        stored.get("task") if task is None else task,
        score,
        label,
        stored.get("columns", "p_*") if columns is None else columns,
        stored.get("classes", promise.classes_) if classes is None else classes,
        per_class,
        tuple(stored[name] for name in ("task", "score", "label") if name in stored),
    )


def _check_predictor(promise: Any) -> None:
    if isinstance(promise, str | os.PathLike):
        raise InvalidInput(
            f"promise must be a calibrated predictor, got the path {os.fspath(promise)!r}. Load "
            "it first, with metapac.load."
        )
    if not isinstance(promise, ThresholdSets):
        kind = type(promise).__name__
        hint = " MetaCP needs a predicted quantile for each task: use it on arrays."
        raise InvalidInput(
            f"promise, which comes before the table, must be a calibrated MetaPS or PS, got {kind}."
            f"{hint if kind == 'MetaCP' else ''}"
        )
    promise.check_calibrated()

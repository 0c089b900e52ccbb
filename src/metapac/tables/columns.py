"""Names of the columns of a table, stored with the predictor at calibration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput, Parameter
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
    pattern : str or sequence of str, default "p_*"
        Columns with a score for each class, the star being the class, or their names; or one
        column of lists.
    classes : sequence, optional
        Names of the classes: some of the columns that match, or the names of those listed, or of
        the positions in a list.
    per_class : bool, default False
        Whether the guarantee holds for each class.
    reserved : tuple of str, optional
        Columns that are not scores of a class, even if they match ``pattern``.
    calibrated_score : str, optional
        Column with the score of the true label in calibration.
    classes_column : str, optional
        Column with the list of classes of each row, beside a column of lists of scores.
    prediction, y, scale : str, optional
        Columns with predicted and true numbers, and with the scale of each residual.
    cluster : str, optional
        Column with the cluster of each task.
    """

    task: str | None = None
    score: str | None = None
    label: str | None = None
    pattern: str | Sequence[str] = "p_*"
    classes: Sequence[Any] | None = None
    per_class: bool = False
    reserved: tuple[str, ...] = ()
    calibrated_score: str | None = None
    classes_column: str | None = None
    prediction: str | None = None
    y: str | None = None
    scale: str | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        _checks.check_column_names(
            task=self.task,
            score=self.score,
            label=self.label,
            classes_column=self.classes_column,
            prediction=self.prediction,
            y=self.y,
            scale=self.scale,
            cluster=self.cluster,
        )
        if not isinstance(self.pattern, str):
            object.__setattr__(self, "pattern", _as_column_list(self.pattern))
        if self.classes_column is not None:
            _check_classes_column(self)
        _check_regression(self)

    @property
    def not_classes(self) -> set[str | None]:
        """Columns that are not scores of a class."""
        return {self.task, self.label, self.cluster, *self.reserved}

    @property
    def score_columns(self) -> set[str]:
        """Columns with scores of true labels, here or in calibration."""
        return {name for name in (self.score, self.calibrated_score) if name is not None}

    def to_json(self, classes: Sequence[Any] | None) -> dict[str, Any]:
        """Return the columns and the classes that were used, for a promise file.

        Parameters
        ----------
        classes : sequence or None
            The classes of the table, empty if they differ from row to row; None if only true
            labels have scores.

        Returns
        -------
        dict
            Names that JSON can hold, without those that are None.
        """
        used: dict[str, Any] = {"task": self.task, "score": self.score, "label": self.label}
        used |= {"prediction": self.prediction, "y": self.y, "scale": self.scale}
        used |= {"cluster": self.cluster}
        if self.classes_column is not None:
            used |= {"columns": self.pattern, "classes_column": self.classes_column}
        elif classes is not None:
            columns = self.pattern if isinstance(self.pattern, str) else list(self.pattern)
            names = _checks.class_names(classes) if classes else None
            used |= {"columns": columns, "classes": names}
        return {name: value for name, value in used.items() if value is not None}


def resolve_columns(
    promise: ThresholdSets,
    *,
    task: str | None = None,
    score: str | None = None,
    label: str | None = None,
    columns: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    prediction: str | None = None,
    y: str | None = None,
    scale: str | None = None,
    cluster: str | None = None,
) -> Columns:
    """Return the columns to read; those left out are the ones used at calibration.

    Parameters
    ----------
    promise : MetaPS or PS
        The calibrated predictor.
    task, score, label, columns, classes, classes_column, prediction, y, scale, cluster : optional
        As in ``calibrate_table``.

    Returns
    -------
    Columns
        The columns.
    """
    _check_predictor(promise)
    stored = promise.columns_ or {}
    scores = {"score": score, "label": label, "columns": columns, "classes": classes}
    scores |= {"classes_column": classes_column}
    numbers = {"prediction": prediction, "y": y, "scale": scale}
    if any(value is not None for value in numbers.values()):
        chosen = _fill(numbers, stored) | scores
    elif "prediction" in stored and all(value is None for value in scores.values()):
        chosen = _fill(numbers, stored)
    else:
        chosen = _fill_scores(promise, scores, stored)
    return Columns(
        stored.get("task") if task is None else task,
        chosen.get("score"),
        chosen.get("label"),
        chosen.get("columns") or stored.get("columns", "p_*"),
        chosen.get("classes"),
        promise.classes_ is not None,
        tuple(stored[name] for name in ("task", "label", "cluster") if name in stored),
        stored.get("score"),
        chosen.get("classes_column"),
        prediction=chosen.get("prediction"),
        y=chosen.get("y"),
        scale=chosen.get("scale"),
        cluster=stored.get("cluster") if cluster is None else cluster,
    )


def _fill(given: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    return {name: stored.get(name) if value is None else value for name, value in given.items()}


def _fill_scores(
    promise: ThresholdSets, given: dict[str, Any], stored: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns of class scores, or of true scores; those left out as in calibration."""
    chosen = dict(given)
    if given["score"] is None and given["label"] is None:
        chosen |= {name: stored.get(name) for name in ("score", "label")}
    elif given["label"] is None and promise.classes_ is not None:
        chosen["label"] = stored.get("label")
    if given["classes"] is not None or given["classes_column"] is not None:
        return chosen
    columns = given["columns"]
    if columns is None or isinstance(columns, str):
        classes = stored.get("classes", promise.classes_)
        return chosen | {"classes": classes, "classes_column": stored.get("classes_column")}
    known = stored.get("columns")
    if isinstance(known, list) and {*known} == {*columns}:  # in any order
        by_column = dict(zip(known, stored["classes"], strict=True))
        chosen["classes"] = [by_column[name] for name in columns]
    return chosen


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


def _as_column_list(columns: Any) -> tuple[str, ...]:
    """Return the names of columns that were listed one by one."""
    names = tuple(columns) if isinstance(columns, Iterable) else (columns,)
    if not names or not all(isinstance(name, str) for name in names):
        kind = type(next((x for x in names if not isinstance(x, str)), columns)).__name__
        raise InvalidInput(
            "{} must be a pattern such as 'p_*', the name of a column of lists, or a list of names "
            "of columns, got {}.",
            Parameter("columns"),
            kind if names else "an empty list",
        )
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInput(
            "{} must name each column once, got {!r} twice.", Parameter("columns"), repeated[0]
        )
    return names


def _check_classes_column(columns: Columns) -> None:
    """Raise InvalidInput for what does not go with classes that differ from row to row."""
    own = Parameter("classes_column")
    if columns.per_class:
        raise InvalidInput(
            "{} cannot be combined with {}: a guarantee for each class needs one fixed list of "
            "classes, the same in every task.",
            own,
            Parameter("per_class", True),
        )
    if columns.classes is not None:
        raise InvalidInput(
            "{} gives the classes of each row, so {} cannot be passed too.",
            own,
            Parameter("classes"),
        )
    if not isinstance(columns.pattern, str) or "*" in columns.pattern:
        raise InvalidInput(
            "{} needs a column of lists of scores, in the same order. Name it as {}, got {!r}.",
            own,
            Parameter("columns"),
            columns.pattern,
        )


def _check_regression(columns: Columns) -> None:
    """Raise InvalidInput for what does not go with a predicted number, or needs one."""
    prediction = Parameter("prediction")
    if columns.prediction is None:
        for name in ("y", "scale"):
            if getattr(columns, name) is not None:
                raise InvalidInput(
                    "{} needs {}, the column with the predicted number. For classes, pass {}.",
                    Parameter(name),
                    prediction,
                    Parameter("label"),
                )
        return
    for name in ("score", "label", "classes", "classes_column"):
        if getattr(columns, name) is not None:
            raise InvalidInput(
                "{} is for regression, and {} for other scores. Pass one of them.",
                prediction,
                Parameter(name),
            )
    if columns.per_class:
        raise InvalidInput(
            "{} is for numbers, which have no classes. Leave out {}.",
            prediction,
            Parameter("per_class", True),
        )
    for name in ("prediction", "scale"):
        if columns.y is not None and getattr(columns, name) == columns.y:
            raise InvalidInput(
                "{} and {} must name different columns, got {!r} for both: the true value of a new "
                "row is not known. Name the column that the model computed.",
                Parameter(name),
                Parameter("y"),
                columns.y,
            )

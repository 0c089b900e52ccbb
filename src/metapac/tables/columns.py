"""Columns: which one holds what, task names, and keys."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ibis
import ibis.expr.datatypes as dt
import numpy as np

from metapac._common import Array, Counts
from metapac.errors import InvalidInput
from metapac.inputs import as_task_names
from metapac.predictors import ThresholdSets
from metapac.tables import errors
from metapac.tables.sources import Source


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read, and the classes; None for a column that the table lacks."""

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
        errors.check_column_names(
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
        """Return the columns and the classes that were used, for a promise file."""
        used: dict[str, Any] = {"task": self.task, "score": self.score, "label": self.label}
        used |= {"prediction": self.prediction, "y": self.y, "scale": self.scale}
        used |= {"cluster": self.cluster}
        if self.classes_column is not None:
            used |= {"columns": self.pattern, "classes_column": self.classes_column}
        elif classes is not None:
            columns = self.pattern if isinstance(self.pattern, str) else list(self.pattern)
            names = errors.class_names(classes) if classes else None
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
    """Return the columns to read; those left out are the ones used at calibration."""
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
            "columns must be a pattern such as 'p_*', the name of a column of lists, or a list of "
            f"names of columns, got {kind if names else 'an empty list'}.",
            parameter="columns",
        )
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInput(
            f"columns must name each column once, got {repeated[0]!r} twice.", parameter="columns"
        )
    return names


def _check_classes_column(columns: Columns) -> None:
    """Raise InvalidInput for what does not go with classes that differ from row to row."""
    own = "classes_column"
    if columns.per_class:
        raise InvalidInput(
            f"{own} cannot be combined with per_class=True: a guarantee for each class needs one "
            "fixed list of classes, the same in every task."
        )
    if columns.classes is not None:
        raise InvalidInput(
            f"{own} gives the classes of each row, so classes cannot be passed too.",
            parameter="classes",
        )
    if not isinstance(columns.pattern, str) or "*" in columns.pattern:
        raise InvalidInput(
            f"{own} needs a column of lists of scores, in the same order. Name it as columns, got "
            f"{columns.pattern!r}.",
            parameter="columns",
        )


def _check_regression(columns: Columns) -> None:
    """Raise InvalidInput for what does not go with a predicted number, or needs one."""
    prediction = "prediction"
    if columns.prediction is None:
        for name in ("y", "scale"):
            if getattr(columns, name) is not None:
                raise InvalidInput(
                    f"{name} needs {prediction}, the column with the predicted number. For "
                    "classes, pass label.",
                    parameter=(name, "label"),
                )
        return
    for name in ("score", "label", "classes", "classes_column"):
        if getattr(columns, name) is not None:
            raise InvalidInput(
                f"{prediction} is for regression, and {name} for other scores. Pass one of them.",
                parameter=name,
            )
    if columns.per_class:
        raise InvalidInput(
            f"{prediction} is for numbers, which have no classes. Leave out per_class=True."
        )
    for name in ("prediction", "scale"):
        if columns.y is not None and getattr(columns, name) == columns.y:
            raise InvalidInput(
                f"{name} and y must name different columns, got {columns.y!r} for both: the true "
                "value of a new row is not known. Name the column that the model computed.",
                parameter=(name, "y"),
            )


_LARGEST = 2**53  # beyond it, a float may stand for several integers


def get_id_column(source: Source, name: str, meaning: str) -> Any:
    """Return a column of tasks or labels as strings or integers, named as in the array route.

    Booleans become "True" and "False". Dates and timestamps become ISO text, at midnight without
    the time; those with a time zone are in UTC. Floats become integers if all are whole numbers,
    as in a pandas column of integers that had missing values.
    """
    column = errors.get_column(source, name)
    kind = column.type()
    if kind.is_string() or kind.is_integer():
        return column
    if kind.is_boolean():
        return ibis.cases((column, "True"), (~column, "False"))
    if kind.is_date():
        return column.cast("string")
    if kind.is_timestamp() and (kind.timezone is None or source.traits.has_timezone_function):
        return _as_iso_text(source, column)
    if kind.is_floating() or kind.is_decimal():
        return _as_whole_numbers(source, name, column, meaning)
    raise InvalidInput(
        f"{source.name}: column {name!r} must hold strings or integers to name {meaning}, got "
        f"{errors.name_type(kind)}. Convert it to strings, or pass another column."
    )


def _local_time(zone: str, moment: Any) -> Any:
    """Stand for the engine's function ``timezone``."""


def _as_iso_text(source: Source, column: Any) -> Any:
    """Return timestamps as ``_ids.as_date_name`` writes them."""
    if column.type().timezone is not None:
        moment, local = column.type(), dt.Timestamp()
        timezone = ibis.udf.scalar.builtin(
            _local_time, name="timezone", signature=((dt.string, moment), local)
        )
        column = timezone("UTC", column)
    text = column.cast("string").replace(" ", "T")
    if source.traits.mixes_types:  # the text is stored as it was written, perhaps with zeros
        text = text.re_replace(r"(\.[0-9]*[1-9])0+$", r"\1").re_replace(r"\.0+$", "")
    midnight = "T00:00:00"
    return text.endswith(midnight).ifelse(text.left(text.length() - len(midnight)), text)


def _as_whole_numbers(source: Source, name: str, column: Any, meaning: str) -> Any:
    is_number = column.notnull()
    if column.type().is_floating() and source.traits.has_nan:
        is_number &= ~column.isnan()
    if source.traits.mixes_types:
        is_number &= column.typeof().isin(["real", "integer"])
    value = is_number.ifelse(column.cast("float64"), ibis.null("float64"))
    bounded = value.between(-_LARGEST, _LARGEST).ifelse(value, ibis.null("float64"))
    whole = (bounded.floor() == bounded).ifelse(bounded, ibis.null("float64"))
    with source.reading((), name):
        table = source.table.select(value=value, whole=whole)
        bad = table.filter(table.value.notnull() & table.whole.isnull())
        first = source.run(bad.agg(rows=bad.count(), value=bad.value.min()))
    rows, example = (first[part][0].as_py() for part in ("rows", "value"))
    if rows:
        raise InvalidInput(
            f"{source.name}: column {name!r} must hold strings or integers to name {meaning}, got "
            f"{column.type()} with fractions or very large numbers in "
            f"{errors.pluralize(rows, 'row')}, such as {example:g}. Round it, convert it to "
            "strings, or pass another column."
        )
    return whole.cast("int64")


class Groups(NamedTuple):
    """Groups of examples, each of one task and one class."""

    names: Array
    task: Counts
    label: Counts


class Keys(NamedTuple):
    """Keys such as "1:ohio": the index of the class, and the task."""

    classes: tuple[Any, ...]
    integer_tasks: bool

    def build(self, tasks: Any, labels: Any) -> Any:
        """Return the key of each row; null if the label is not a class."""
        prefixes = ((labels == str(name), f"{i}:") for i, name in enumerate(self.classes))
        return ibis.cases(*prefixes) + tasks.cast("string")

    def describe(self, key: str) -> str:
        """Return the name of a group for messages."""
        index, _, task = key.partition(":")
        return f"{self._parse_task(task)!r}, class {self.classes[int(index)]!r}"

    def groups(self, keys: Array) -> Groups:
        """Return the tasks and classes of some keys."""
        parts = [key.partition(":") for key in keys.tolist()]
        tasks = as_task_names([self._parse_task(task) for _index, _, task in parts])
        names, task = np.unique(tasks, return_inverse=True)
        label = np.array([int(index) for index, _, _task in parts], dtype=np.int64)
        return Groups(names, task.astype(np.int64), label)

    def _parse_task(self, text: str) -> int | str:
        return int(text) if self.integer_tasks else text

"""Checks of tables and their columns, and every message they can raise."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metapac._estimator import ThresholdSets

Table = Any  # an Ibis table; Ibis ships no types

_SHOWN, _COLUMNS = 3, 30


def column(source: Any, column: str) -> Any:
    """Return a column, or say which ones there are."""
    there = source.table.columns
    if column not in there:
        near = difflib.get_close_matches(column.lower(), [name.lower() for name in there], 1, 0.75)
        meant = [name for name in there if name.lower() in near][:1]
        guess = f" Did you mean {meant[0]!r}?" if meant else ""
        one = source.is_text and len(there) == 1
        commas = " Columns must be separated by commas, in .tsv by tabs." * one
        raise ValueError(
            f"{source.name} has no column {column!r}; it has: {columns(there)}.{guess}{commas}"
        )
    return source.table[column]


def columns(there: Sequence[str]) -> str:
    """Return the names of columns, of very many the first."""
    more = f" and {len(there) - _COLUMNS} more" if len(there) > _COLUMNS else ""
    return ", ".join(there[:_COLUMNS]) + more


def named_columns(names: Sequence[Any]) -> None:
    other = [name for name in names if not isinstance(name, str)]
    if other:
        raise ValueError(f"columns of a frame must be named by strings, got {other[0]!r}.")


def no_twins(name: str, columns: Sequence[str]) -> None:
    """Refuse names alike but for capitals, which an engine may take for one another."""
    seen: dict[str, str] = {}
    for column in columns:
        twin = seen.setdefault(column.lower(), column)
        if twin != column:
            raise ValueError(
                f"{name} has columns {twin!r} and {column!r}, alike but for capitals. Rename one."
            )


def column_names(**given: Any) -> None:
    """Refuse what names no column, such as the column itself."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(
                f"{name} must be the name of a column as a string, got {type(value).__name__}."
            )


def number_column(source: Any, column: str, kind: Any) -> None:
    if not (kind.is_floating() or kind.is_integer() or kind.is_decimal()):
        raise ValueError(
            f"{source.name}: column {column!r} must hold numbers, got {kind}. Pass a column of "
            "probabilities, log-probabilities or negative distances."
        )


def task_column(source: Any, name: str) -> Any:
    return _names(source, name, "tasks")


def label_column(source: Any, name: str) -> Any:
    return _names(source, name, "labels")


def _names(source: Any, name: str, what: str) -> Any:
    found = column(source, name)
    kind = found.type()
    if not (kind.is_string() or kind.is_integer()):
        raise ValueError(
            f"{source.name}: column {name!r} must hold strings or integers to name {what}, got "
            f"{kind}. Make it a column of strings."
        )
    return found


def list_column(source: Any, column: str, kind: Any) -> None:
    if not (kind.is_array() and (kind.value_type.is_floating() or kind.value_type.is_integer())):
        raise ValueError(
            f"columns must hold one star, such as 'p_*', or name a column of lists of numbers, "
            f"got {column!r}, which is {kind} in {source.name}."
        )


def list_lengths(source: Any, column: str, least: int, most: int, classes: int) -> None:
    if not least == most == classes > 0:
        found = f"length {least}" if least == most else f"lengths from {least} to {most}"
        raise ValueError(
            f"{source.name}: the lists of column {column!r} must have one score for each of "
            f"{classes} classes, got {found}."
        )


def class_names(classes: Sequence[Any]) -> list[Any]:
    """Return names of classes, none of them twice: integers as they are, all else as strings."""
    if isinstance(classes, str):
        raise ValueError(f"classes must be a list of names, got the string {classes!r}.")
    names = [str(name) for name in classes]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or not names:
        found = f"{twice[0]!r} twice" if twice else "none"
        raise ValueError(f"classes must name each class once, got {found}.")
    return [_plain(name) for name in classes]


def _plain(name: Any) -> int | str:
    whole = isinstance(name, int | np.integer) and not isinstance(name, bool)
    return int(name) if whole else str(name)


def threshold_sets(promise: Any) -> None:
    """Refuse what is no calibrated object with a threshold."""
    if isinstance(promise, str | os.PathLike):
        raise ValueError(
            f"promise must be a calibrated object, got the path {os.fspath(promise)!r}. Load it "
            "first, with metapac.load."
        )
    if not isinstance(promise, ThresholdSets):
        quantile = " A MetaCP needs a predicted quantile for each task: use it on arrays."
        raise ValueError(
            "promise, which comes before the table, must be a calibrated MetaPS or PS, got "
            f"{type(promise).__name__}.{quantile * (type(promise).__name__ == 'MetaCP')}"
        )
    promise._check_calibrated()


def said(name: str, value: str | None) -> str:
    """Return a column that must be said where a promise does not know it."""
    if value is None:
        raise ValueError(
            f"{name} must name a column: the promise was not calibrated on a table and knows none."
        )
    return value


def site_name(name: Any) -> str:
    """Return the name of a site without blanks around it."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"name must be the name of the site, which no other has, got {name!r}.")
    return name.strip()


def one_way_to_score(score: str | None, label: str | None, *, per_class: bool) -> None:
    if per_class and label is None:
        raise ValueError(
            "label must name the column with the true label where each class has its own "
            "guarantee. Pass label, with or without score."
        )
    if (score is None) == (label is None) and not per_class:
        raise ValueError(
            "pass either score, the column with the score of the true label, or label, the column "
            f"with the true label beside a score for each class, got score={score!r} and "
            f"label={label!r}."
        )


def some_classes(source: Any, column: str, found: int, labels: int, most: int) -> None:
    """Refuse a column without labels, and one with more than can be classes."""
    if not found:
        raise no_rows(source.name)
    if not labels:
        raise ValueError(f"{source.name}: column {column!r} holds no labels. Fill it in.")
    if labels > most:
        raise ValueError(
            f"{source.name}: column {column!r} holds more than {most} different labels. Pass the "
            "column with the true label."
        )


def same_classes_everywhere(classes: Any) -> None:
    if classes is None:
        raise ValueError(
            "classes must name all classes where score is given: they have to be the same at "
            "every site, and this one may lack some."
        )


def epsilon_of(epsilon: Any, classes: Sequence[Any]) -> Any:
    """Return epsilon with the classes themselves as its keys, which may be written as text."""
    if not isinstance(epsilon, Mapping):
        return epsilon
    given = {str(name): value for name, value in epsilon.items()}
    there = {str(name): name for name in classes}
    for name in given:
        if name not in there:
            raise ValueError(
                f"epsilon names class {name!r}, which is none of the classes "
                f"{listed([*map(repr, there)])}."
            )
    for name in there:
        if name not in given:
            raise ValueError(
                f"epsilon has no value for class {name!r}; it has {listed([*map(repr, given)])}. "
                "Give every class one."
            )
    return {there[name]: value for name, value in given.items()}


def promised_classes(names: Sequence[Any], promised: Sequence[Any]) -> None:
    """Refuse classes that a guarantee for each class has no threshold for."""
    known = {str(name) for name in promised}
    for name in names:
        if str(name) not in known:
            raise ValueError(
                f"classes must be among those of the promise, "
                f"{listed([repr(each) for each in promised])}, got {name!r}."
            )


def tasks_to_judge(source: Any, judged: int, tasks: int, least: int) -> None:
    if not judged:
        raise ValueError(
            f"{source.name} has no task to judge: the promise covers tasks with at least "
            f"{many(least, 'example')}, and the {many(tasks, 'task')} here have fewer."
        )


def no_rows(name: str) -> ValueError:
    return ValueError(f"{name} holds no rows. Pass at least one labelled example.")


def no_missing_tasks(name: str, column: str | None, count: int) -> None:
    if count:
        raise ValueError(
            f"{name}: column {column!r} is missing in {many(count, 'row')}; an example must belong "
            "to a task. Drop those rows or name their task."
        )


def missing_scores(
    name: str, nulls: int, nans: int, rows: int, tasks: Sequence[tuple[str, int]]
) -> ValueError:
    """Say how many nulls and NaN there are; ``tasks`` are those that hold any, with how many."""
    null = "NaN or null" if name == "the pandas frame" else "null"  # which are one to pandas
    counts = [many(nulls, null)] * bool(nulls) + [f"{nans} NaN"] * bool(nans)
    return ValueError(
        f"{name}: the scores hold {' and '.join(counts)} out of {rows} values (by task, "
        f"{listed([f'{task}: {count}' for task, count in tasks])}); a score that cannot be "
        "compared cannot be certified. Drop those rows or give them -inf."
    )


def missing_class_scores(name: str, faults: dict[Any, int], bad: int, rows: int) -> ValueError:
    """Say in how many rows, and for which class how often, scores are null or NaN."""
    classes = [f"{label!r}: {count}" for label, count in faults.items() if count]
    return ValueError(
        f"{name}: the scores of the classes hold nulls or NaN in {bad} of {rows} rows (by class, "
        f"{listed(classes)}); a score that cannot be compared decides no set. Drop those rows or "
        "give them -inf."
    )


def known_labels(
    source: Any, column: str | None, labels: Sequence[tuple[Any, int]], known: list[str]
) -> None:
    """Refuse labels that are no class; ``labels`` are those, with how often they occur."""
    if labels:
        found = listed(
            [f"{'no label' if x is None else repr(x)} in {many(n, 'row')}" for x, n in labels]
        )
        raise ValueError(
            f"{source.name}: column {column!r} must hold one of the classes "
            f"{listed([repr(name) for name in known])}, got {found}. Drop those rows, add scores "
            "for their class, or name the classes as the labels do."
        )


def classes_are_labels(source: Any, label: str, never: list[str], known: list[str]) -> None:
    """Refuse classes guessed from the columns that no row is labelled with."""
    if never:
        real = [name for name in known if name not in never]
        raise ValueError(
            f"{source.name}: column {label!r} never holds {listed([*map(repr, never)])}, though "
            f"columns look like scores of such a class. If it is one, name all classes: "
            f"{', '.join(known)}; if not, name the others: {', '.join(real)}."
        )


def changed(name: str) -> ValueError:
    return ValueError(
        f"{name} changed while it was being read: two passes over it do not agree. Calibrate again "
        "when nothing writes to it, or on a copy."
    )


def reason(error: BaseException) -> str:
    """Return what an engine says of its failure in one line: of Java, the last cause it names."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    said = str(error if cause is None else cause.getMessage())
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more

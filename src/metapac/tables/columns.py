"""Columns of names: tasks, labels and clusters, as arrays name them; and keys of both."""

from __future__ import annotations

from typing import Any, NamedTuple

import ibis
import ibis.expr.datatypes as dt
import numpy as np

from metapac._common import Array, Counts
from metapac.errors import InvalidInput
from metapac.inputs import as_task_names
from metapac.tables import errors
from metapac.tables.sources import Source

_LARGEST = 2**53  # beyond it, a float may stand for several integers


def count_rows(source: Source, **conditions: Any) -> tuple[int, ...]:
    """Return the number of rows, and of those in which each condition is true, by one query."""
    table = source.table.select(**conditions)
    counts = {name: table.count(where=table[name]) for name in conditions}
    found = source.run(table.agg(all=table.count(), **counts))
    return tuple(column[0].as_py() for column in found.columns)


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


def as_written(source: Source, names: Any) -> Any:
    """Return names that are compared with regard to case."""
    return names + "" if source.traits.has_collations and names.type().is_string() else names


def _local_time(zone: str, moment: Any) -> Any:
    """Stand for the engine's function ``timezone``."""


def _as_iso_text(source: Source, column: Any) -> Any:
    """Return timestamps as ``inputs`` writes them."""
    if column.type().timezone is not None:
        signature = ((dt.string, column.type()), dt.Timestamp())
        timezone = ibis.udf.scalar.builtin(_local_time, name="timezone", signature=signature)
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
        _rows, bad = count_rows(source, bad=value.notnull() & whole.isnull())
    if bad:
        raise InvalidInput(
            f"{source.name}: column {name!r} must hold strings or integers to name {meaning}, got "
            f"{column.type()} with fractions or very large numbers in "
            f"{errors.pluralize(bad, 'row')}. Round it, or pass another column."
        )
    return whole.cast("int64")


class Keys(NamedTuple):
    """Keys such as "1:ohio": the index of the class, and the task."""

    classes: tuple[Any, ...]
    integer_tasks: bool

    def build(self, tasks: Any, labels: Any) -> Any:
        """Return the key of each row; null if the label is not a class."""
        prefixes = ((labels == str(name), f"{i}:") for i, name in enumerate(self.classes))
        return ibis.cases(*prefixes) + tasks.cast("string")

    def split(self, key: str) -> tuple[int | str, int]:
        """Return the task of a key, and the index of its class."""
        index, _, task = key.partition(":")
        return int(task) if self.integer_tasks else task, int(index)

    def describe(self, key: str) -> str:
        """Return the name of a group for messages."""
        task, index = self.split(key)
        return f"{task!r}, class {self.classes[index]!r}"

    def groups(self, keys: Array) -> tuple[Array, Counts, Counts]:
        """Return the tasks in ascending order, and the task and the class of each key."""
        tasks, labels = zip(*map(self.split, keys.tolist()), strict=True)
        names, place = np.unique(as_task_names([*tasks]), return_inverse=True)
        return names, place.astype(np.int64), np.array(labels, dtype=np.int64)


def read_task_column(path: str, task: str | None) -> list[Any]:
    """Return the distinct tasks of a table; of a table with one column, its values."""
    from metapac.tables.sources import open_source

    with open_source(path) as source:
        columns = source.table.columns
        if task not in columns and len(columns) > 1:
            named = "" if task is None else f" {task!r}"
            raise InvalidInput(
                f"trained_on: {source.name} must have the task column{named}, or a single column "
                f"of names, got {', '.join(columns[:10])}.",
                parameter="trained_on",
            )
        name = task if task is not None and task in columns else columns[0]
        column = get_id_column(source, name, "tasks")
        with source.reading():
            found = source.run(source.table.select(task=column).distinct())
    return [name for name in found["task"].to_pylist() if name is not None]

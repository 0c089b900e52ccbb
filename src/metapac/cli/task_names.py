"""Names of tasks as typed: a table, a text file with a name in each line, or a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metapac.exceptions import InvalidInput, Parameter

_LIST = (".txt", "")


def read_task_names(text: str, task: str | None = None) -> list[Any]:
    """Return the tasks that a table holds, a file lists or a text names.

    Parameters
    ----------
    text : str
        A path, or names separated by commas.
    task : str, optional
        Task column of a table.

    Returns
    -------
    list
        Distinct names.

    Raises
    ------
    InvalidInput
        If there are none, or a table has no such column.
    """
    path = Path(text)
    if not path.exists():
        if path.suffix.lower() in (".parquet", ".csv", ".tsv", ".txt", ".jsonl", ".duckdb"):
            raise InvalidInput("{}: there is no file {}.", Parameter("trained_on"), text)
        names: list[Any] = [name.strip() for name in text.split(",")]
    elif path.is_file() and path.suffix.lower() in _LIST:
        names = _lines(path)
    else:
        names = _distinct(text, task)
    names = [name for name in names if name != ""]
    if not names:
        raise InvalidInput("{} names no task, got {!r}.", Parameter("trained_on"), text)
    return names


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} must hold a task name in each line, as UTF-8 text.") from None


def _distinct(path: str, task: str | None) -> list[Any]:
    """Return the distinct tasks of a table; of a table with one column, its values."""
    from metapac.tables.ids import get_id_column
    from metapac.tables.io.sources import open_source

    with open_source(path) as source:
        columns = source.table.columns
        if task not in columns and len(columns) > 1:
            raise InvalidInput(
                "{}: {} must have the task column{}, or a single column of names, got {}.",
                Parameter("trained_on"),
                source.name,
                "" if task is None else f" {task!r}",
                ", ".join(columns[:10]),
            )
        name = task if task is not None and task in columns else columns[0]
        column = get_id_column(source, name, "tasks")
        with source.reading():
            found = source.run(source.table.select(task=column).distinct())
    return [name for name in found["task"].to_pylist() if name is not None]

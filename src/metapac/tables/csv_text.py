"""CSV files as text: their header, and the line of their first fault in plain words.

Engines read the rows. This slow reader looks again when an engine met something it cannot use.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from metapac.tables._checks import no_twins


def delimiter(path: Path) -> str:
    """Return what separates the columns: a tab in .tsv, else a comma."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return "\t" if suffixes[-1:] == [".tsv"] else ","


def header(path: Path) -> list[str]:
    """Return the column names, or say why they cannot be used."""
    with _open(path) as file:
        columns = next(csv.reader(file, delimiter=delimiter(path)), [])
    if not columns:
        raise ValueError(f"{path} is empty; it needs a header line with the column names.")
    for name in columns:
        if not name:
            raise ValueError(f"{path} has a column without a name. Name it in the header line.")
        if columns.count(name) > 1:
            raise ValueError(f"{path} has two columns named {name!r}. Rename one.")
    no_twins(str(path), columns)
    return columns


def common_header(paths: Sequence[Path]) -> list[str]:
    """Return the column names that all files share, in one order."""
    columns = header(paths[0])
    for path in paths[1:]:
        if delimiter(path) != delimiter(paths[0]):
            raise ValueError(f"{paths[0]} and {path} must both be separated by commas or by tabs.")
        if header(path) != columns:
            raise ValueError(
                f"{path} has other columns than {paths[0]}: {', '.join(header(path))} instead of "
                f"{', '.join(columns)}. Pass files with one header."
            )
    return columns


def refuse_faults(paths: Sequence[Path], numbers: Sequence[str], task: str | None) -> None:
    """Name the first line with a field too many, no task, or no number where one should be."""
    for path in paths:
        columns = header(path)
        with _open(path) as file:
            reader = csv.reader(file, delimiter=delimiter(path))
            next(reader)
            for row in filter(None, reader):
                where = f"{path}, line {reader.line_num}"
                _refuse_uneven(where, row, columns)
                if task in columns and not row[columns.index(task)]:
                    raise ValueError(
                        f"{where}: column {task!r} is empty; an example must belong to a task. "
                        "Drop that row or name its task."
                    )
                for name in numbers:
                    if name in columns:  # and not in the name of a folder
                        _refuse_text(where, name, row[columns.index(name)])


def refuse_mixed_ends(paths: Sequence[Path]) -> None:
    """Refuse rows that end in two ways; line breaks inside quotes are part of a field."""
    for path in paths:
        ends, quoted = set(), False
        with _open(path) as file:
            for line in file:
                quoted ^= line.count('"') % 2 == 1
                if not quoted and line.endswith("\n"):
                    ends.add(line.endswith("\r\n"))
        if len(ends) > 1:
            raise ValueError(f"{path} mixes rows that end in CRLF and in LF. Write it with one.")


def _refuse_uneven(where: str, row: list[str], columns: list[str]) -> None:
    if len(row) != len(columns):
        raise ValueError(
            f"{where}: {len(row)} fields where the header has {len(columns)}. Quote fields that "
            "hold a separator."
        )


def _refuse_text(where: str, column: str, text: str) -> None:
    try:
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(
            f"{where}: column {column!r} holds {text!r}, which is not a number. Write numbers like "
            "0.25; drop rows without a score, or give them -inf."
        )


@contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}). Convert it first.") from error
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not readable as CSV ({error}).") from error

"""CSV files as text: the header, and the line number of the first fault.

Engines read the rows. This slow reader is used only to explain why an engine failed.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from metapac.exceptions import InvalidInput
from metapac.tables._checks import check_case_collisions


def delimiter(path: Path) -> str:
    """Return the separator of the columns: a tab in .tsv files, a comma in all others.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        The separator.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return "\t" if suffixes[-1:] == [".tsv"] else ","


def read_header(path: Path) -> list[str]:
    """Return the column names of a file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    InvalidInput
        If a name is missing or repeated, or if two differ only in case.
    """
    with _open(path) as file:
        columns = next(csv.reader(file, delimiter=delimiter(path)), [])
    if not columns:
        raise InvalidInput(f"{path} is empty; it needs a header line with the column names.")
    for name in columns:
        if not name:
            raise InvalidInput(f"{path} has a column without a name. Name it in the header line.")
        if columns.count(name) > 1:
            raise InvalidInput(f"{path} has two columns named {name!r}. Rename one.")
    check_case_collisions(str(path), columns)
    return columns


def read_common_header(paths: Sequence[Path]) -> list[str]:
    """Return the column names that all files share, in one order.

    Parameters
    ----------
    paths : sequence of Path
        The files.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    InvalidInput
        If the files have different headers or separators.
    """
    columns = read_header(paths[0])
    for path in paths[1:]:
        if delimiter(path) != delimiter(paths[0]):
            raise InvalidInput(f"{paths[0]} and {path} must both be separated by commas or tabs.")
        header = read_header(path)
        if header != columns:
            raise InvalidInput(
                f"{path} has other columns than {paths[0]}: {', '.join(header)} instead of "
                f"{', '.join(columns)}. Pass files with the same header."
            )
    return columns


def check_rows(paths: Sequence[Path], numbers: Sequence[str], task: str | None) -> None:
    """Raise InvalidInput for the first row with a wrong number of fields, no task or no score.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    numbers : sequence of str
        Columns that must hold numbers.
    task : str or None
        Column with the task.
    """
    for path in paths:
        columns = read_header(path)
        with _open(path) as file:
            reader = csv.reader(file, delimiter=delimiter(path))
            next(reader)
            for row in filter(None, reader):
                where = f"{path}, line {reader.line_num}"
                _check_length(where, row, columns)
                if task in columns and not row[columns.index(task)]:
                    raise InvalidInput(
                        f"{where}: column {task!r} is empty; an example must belong to a task. "
                        "Drop that row or name its task."
                    )
                for name in numbers:
                    if name in columns:  # a folder may hold it instead
                        _check_number(where, name, row[columns.index(name)], task)


def check_line_endings(paths: Sequence[Path]) -> None:
    """Raise InvalidInput if rows of a file end in LF and in CRLF; quoted line breaks are ignored.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    """
    for path in paths:
        endings, is_quoted = set(), False
        with _open(path) as file:
            for line in file:
                is_quoted ^= line.count('"') % 2 == 1
                if not is_quoted and line.endswith("\n"):
                    endings.add(line.endswith("\r\n"))
        if len(endings) > 1:
            raise InvalidInput(f"{path} mixes rows that end in CRLF and in LF. Use one of them.")


def _check_length(where: str, row: list[str], columns: list[str]) -> None:
    if len(row) != len(columns):
        raise InvalidInput(
            f"{where}: {len(row)} fields where the header has {len(columns)}. Quote fields that "
            "contain a separator."
        )


def _check_number(where: str, column: str, text: str, task: str | None) -> None:
    try:
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        # Without a task, sets are predicted: the cautious score is then the one that is kept.
        remedy = "drop rows without a score, or give them -inf"
        if task is None:
            remedy = "give a label without a score inf, so that it is kept"
        raise InvalidInput(
            f"{where}: column {column!r} holds {text!r}, which is not a number. Write numbers like "
            f"0.25; {remedy}."
        )


@contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text ({error}). Convert it first.") from error
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path} is not readable as CSV ({error}).") from error

"""CSV files as text: the header, and the line number of the first fault.

Engines read the rows. This slow reader is used only to explain why an engine failed.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path

from metapac.exceptions import InvalidInput, Message
from metapac.tables._checks import check_case_collisions
from metapac.tables.io.csv_format import PLAIN, CsvFormat, OpenOption

_SEPARATORS = (";", "\t", "|", ",")


def read_header(path: Path, csv_format: CsvFormat = PLAIN) -> list[str]:
    """Return the column names of a file.

    Parameters
    ----------
    path : Path
        The file.
    csv_format : CsvFormat, optional
        How it is written.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    InvalidInput
        If a name is repeated, if two differ only in case, or if the columns seem to have another
        separator.
    """
    with csv_format.open(path) as file:
        columns = next(csv.reader(file, delimiter=csv_format.separator_of(path)), [])
        first = next(file, "")
    if not columns:
        raise InvalidInput(f"{path} is empty; it needs a header line with the column names.")
    if len(columns) == 1 and csv_format.separator is None:
        _check_separator(path, columns[0], first)
    return name_columns(str(path), columns)


def name_columns(title: str, columns: Sequence[str]) -> list[str]:
    """Return the names of columns, such as "Unnamed: 0" for one without a name, as pandas does.

    Parameters
    ----------
    title : str
        Name of the table in messages.
    columns : sequence of str
        The header.

    Returns
    -------
    list of str
        Distinct names.

    Raises
    ------
    InvalidInput
        If a name is repeated, or if two differ only in case.
    """
    for name in filter(None, columns):
        if columns.count(name) > 1:
            raise InvalidInput(f"{title} has two columns named {name!r}. Rename one.")
    taken, names = set(columns), []
    for i, name in enumerate(columns):
        unnamed = f"Unnamed: {i}"
        while not name and unnamed in taken:
            unnamed += "_"
        names.append(name or unnamed)
    check_case_collisions(title, names)
    return names


def read_common_header(paths: Sequence[Path], csv_format: CsvFormat = PLAIN) -> list[str]:
    """Return the column names that all files share, in one order.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    csv_format : CsvFormat, optional
        How they are written.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    InvalidInput
        If the files have different headers or separators.
    """
    separator_of = csv_format.separator_of
    columns = read_header(paths[0], csv_format)
    for path in paths[1:]:
        if separator_of(path) != separator_of(paths[0]):
            raise InvalidInput(f"{paths[0]} and {path} must both be separated by commas or tabs.")
        header = read_header(path, csv_format)
        if header != columns:
            raise InvalidInput(
                f"{path} has other columns than {paths[0]}: {', '.join(header)} instead of "
                f"{', '.join(columns)}. Pass files with the same header."
            )
    return columns


def check_rows(
    paths: Sequence[Path],
    numbers: Sequence[str],
    task: str | None,
    csv_format: CsvFormat = PLAIN,
) -> None:
    """Raise InvalidInput for the first row with a wrong number of fields, no task or no score.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    numbers : sequence of str
        Columns that must hold numbers.
    task : str or None
        Column with the task.
    csv_format : CsvFormat, optional
        How they are written.
    """
    for path in paths:
        columns = read_header(path, csv_format)
        with csv_format.open(path) as file:
            reader = csv.reader(file, delimiter=csv_format.separator_of(path))
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
                        text = row[columns.index(name)]
                        _check_number(where, name, text, task, csv_format.decimal)


def check_line_endings(paths: Sequence[Path], csv_format: CsvFormat = PLAIN) -> None:
    """Raise InvalidInput if rows of a file end in LF and in CRLF; quoted line breaks are ignored.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    csv_format : CsvFormat, optional
        How they are written.
    """
    for path in paths:
        endings, is_quoted = set(), False
        with csv_format.open(path) as file:
            for line in file:
                is_quoted ^= line.count('"') % 2 == 1
                if not is_quoted and line.endswith("\n"):
                    endings.add(line.endswith("\r\n"))
        if len(endings) > 1:
            raise InvalidInput(f"{path} mixes rows that end in CRLF and in LF. Use one of them.")


def _check_separator(path: Path, header: str, row: str) -> None:
    """Raise InvalidInput if the only column of a header looks like several."""
    separator = next((character for character in _SEPARATORS if character in header), None)
    if separator is None:
        return
    options = [OpenOption("separator", separator)]
    if re.search(r"\d,\d", row) and separator != ",":
        options.insert(0, OpenOption("decimal", ","))
    raise InvalidInput(
        "{} has only the column {!r}, which looks like several separated by {!r}. Read it with {}.",
        path,
        header,
        separator,
        Message.join(" and ", options),
    )


def _check_length(where: str, row: list[str], columns: list[str]) -> None:
    if len(row) != len(columns):
        raise InvalidInput(
            f"{where}: {len(row)} fields where the header has {len(columns)}. Quote fields that "
            "contain a separator."
        )


def _check_number(where: str, column: str, text: str, task: str | None, decimal: str) -> None:
    foreign = "_" in text or (decimal == "," and "." in text)
    try:
        number = math.nan if foreign else float(text.replace(decimal, "."))
    except ValueError:
        number = math.nan
    if not math.isnan(number):
        return
    # Without a task, sets are predicted: the cautious score is then the one that is kept.
    remedy = "drop rows without a score"
    if task is None:
        remedy = "give a label without a score inf, so that it is kept"
    raise InvalidInput(
        "{}: column {!r} holds {!r}, which is not a number. Write numbers like {}; {}.{}",
        where,
        column,
        text,
        f"0{decimal}25",
        remedy,
        _decimal_hint(text, decimal),
    )


def _decimal_hint(text: str, decimal: str) -> Message:
    """Return what to do about the commas or points of a number of another country."""
    if decimal == "." and re.search(r"\d,\d", text):
        option = OpenOption("decimal", ",")
        return Message(" Read decimal commas with {}; thousands separators are not read.", option)
    if decimal == "," and re.search(r"\d\.\d", text):
        return Message(" A point is not a decimal comma, and thousands separators are not read.")
    return Message("")

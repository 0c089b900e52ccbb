"""CSV files as text: delimiters, decimal commas, numbers that survive unchanged."""

from __future__ import annotations

import csv
import gzip
import math
import re
import shutil
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from metapac._common import listed
from metapac.artefact import private_folder
from metapac.columns import Reading
from metapac.errors import InvalidInput, keyword
from metapac.tables.errors import check_case_collisions

PLAIN = Reading()


def separator_of(path: Path, reading: Reading) -> str:
    """Return the character between the columns of a file."""
    by_name = "\t" if re.search(r"(?i)\.tsv(\.gz)?$", path.name) else ","
    return by_name if reading.separator is None else reading.separator


@contextmanager
def open_text(path: Path, reading: Reading) -> Iterator[IO[str]]:
    """Open a file as text."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    encoding = "utf-8-sig" if reading.encoding == "utf-8" else reading.encoding
    try:
        with opener(path, "rt", encoding=encoding, newline="") as file:
            yield file
    except UnicodeError as error:
        likely = keyword("encoding", "windows-1252")
        remedy = f"Read it with its encoding, such as {likely}, if it is CSV."
        raise InvalidInput(f"{path} is not {reading.encoding} text. {remedy}") from error
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path} is not readable ({error}).") from error


def recode(paths: Sequence[Path], reading: Reading, owner: Any) -> list[Path]:
    """Copy files as UTF-8 to a private folder, which is removed with its owner.

    DuckDB itself reads few encodings, and takes a file that is not UTF-16 for an empty one.
    """
    scratch, copies = ExitStack(), []
    folder = scratch.enter_context(private_folder("metapac-csv"))
    weakref.finalize(owner, scratch.close)
    for i, path in enumerate(paths):
        parts = path.absolute().parent.relative_to(partition_root(path)[0])
        copy = folder / parts / f"{i}-{path.name.removesuffix(path.suffix)}.csv"
        copy.parent.mkdir(parents=True, exist_ok=True)
        with open_text(path, reading) as text, copy.open("w", encoding="utf-8", newline="") as file:
            shutil.copyfileobj(text, file, 1 << 20)
        copies.append(copy)
    return copies


def partition_root(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder above the folders like site=ohio, and the names of these columns."""
    folder, columns = path.absolute().parent, []
    while "=" in folder.name:
        columns.append(folder.name.partition("=")[0])
        folder = folder.parent
    return folder, tuple(columns)


def read_header(path: Path, reading: Reading) -> list[str]:
    """Return the column names of a file."""
    with open_text(path, reading) as file:
        columns = next(csv.reader(file, delimiter=separator_of(path, reading)), [])
    if not columns:
        raise InvalidInput(f"{path} is empty; it needs a header line with the column names.")
    likely = next((mark for mark in ";\t|," if mark in columns[0]), None)
    if len(columns) == 1 and reading.separator is None and likely is not None:
        remedy = f"which looks like several. Read it with {keyword('separator', likely)}."
        raise InvalidInput(f"{path} has only the column {columns[0]!r}, {remedy}")
    return name_columns(str(path), columns)


def name_columns(title: str, columns: Sequence[str]) -> list[str]:
    """Return the names of columns, such as "Unnamed: 0" for one without a name, as pandas does."""
    given, names = {*columns}, []
    for i, name in enumerate(columns):
        unnamed = f"Unnamed: {i}"
        while unnamed in given:
            unnamed += "_"
        names.append(name or unnamed)
    check_case_collisions(title, names)
    return names


def read_common_header(paths: Sequence[Path], reading: Reading) -> list[str]:
    """Return the column names that all files share, in one order."""
    headers = ((path, separator_of(path, reading), read_header(path, reading)) for path in paths)
    first, separator, columns = next(headers)
    for path, other, header in headers:
        if (other, header) != (separator, columns):
            raise InvalidInput(
                f"{path} has other columns or another separator than {first}: {listed(header)} "
                f"instead of {listed(columns)}."
            )
    return columns


def check_rows(
    paths: Sequence[Path], numbers: Sequence[str], task: str | None, reading: Reading
) -> None:
    """Raise InvalidInput for the first row with a wrong number of fields, no task or no score."""
    for path in paths:
        places = {name: i for i, name in enumerate(read_header(path, reading))}
        with open_text(path, reading) as file:
            reader = csv.reader(file, delimiter=separator_of(path, reading))
            next(reader)
            for row in filter(None, reader):
                fault = _find_fault(row, places, numbers, task, reading.decimal)
                if fault:
                    raise InvalidInput(f"{path}, line {reader.line_num}: {fault}")


def _find_fault(
    row: list[str], places: dict[str, int], numbers: Sequence[str], task: str | None, decimal: str
) -> str:
    if len(row) != len(places):
        count = f"{len(row)} fields where the header has {len(places)}"
        return f"{count}. Quote fields that contain a separator."
    if task in places and not row[places[task]]:
        return f"column {task!r} is empty; an example must belong to a task."
    cells = [(name, row[places[name]]) for name in numbers if name in places]  # or in a folder
    for name, text in cells:
        if not _is_number(text, decimal):
            # Without a task, sets are predicted: the cautious score keeps the label.
            advice = "give a label without one inf" if task is None else "drop rows without one"
            if decimal == "." and re.search(r"\d,\d", text):
                advice = f"read decimal commas with {keyword('decimal', ',')}"
            fault = f"column {name!r} holds {text!r}, which is not a number"
            return f"{fault}. Write numbers like 0{decimal}25, or {advice}."
    return ""


def _is_number(text: str, decimal: str) -> bool:
    if "_" in text or (decimal == "," and "." in text):
        return False
    try:
        return not math.isnan(float(text.replace(decimal, ".")))
    except ValueError:
        return False


def check_line_endings(paths: Sequence[Path], reading: Reading) -> None:
    """Raise InvalidInput if rows of a file end in LF and in CRLF, quoted line breaks aside."""
    for path in paths:
        endings, is_quoted = set(), False
        with open_text(path, reading) as file:
            for line in file:
                is_quoted ^= line.count('"') % 2 == 1
                if not is_quoted and line.endswith("\n"):
                    endings.add(line.endswith("\r\n"))
        if len(endings) > 1:
            raise InvalidInput(f"{path} mixes rows that end in CRLF and in LF. Use one of them.")

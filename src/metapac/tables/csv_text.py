"""CSV files as text: delimiters, decimal commas, numbers that survive unchanged."""

from __future__ import annotations

import csv
import gzip
import math
import re
import shutil
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from metapac.artefact import private_folder
from metapac.errors import InvalidInput, keyword
from metapac.tables.engines import Reading
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
        raise InvalidInput(
            f"{path} is not {reading.encoding} text. Read it with its encoding, such as {likely}."
        ) from error
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path} is not readable as CSV ({error}).") from error


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


def read_header(path: Path, reading: Reading = PLAIN) -> list[str]:
    """Return the column names of a file."""
    with open_text(path, reading) as file:
        columns = next(csv.reader(file, delimiter=separator_of(path, reading)), [])
    if not columns:
        raise InvalidInput(f"{path} is empty; it needs a header line with the column names.")
    likely = next((mark for mark in ";\t|," if mark in columns[0]), None)
    if len(columns) == 1 and reading.separator is None and likely is not None:
        raise InvalidInput(
            f"{path} has only the column {columns[0]!r}, which looks like several. Read it with "
            f"{keyword('separator', likely)}."
        )
    return name_columns(str(path), columns)


def name_columns(title: str, columns: Sequence[str]) -> list[str]:
    """Return the names of columns, such as "Unnamed: 0" for one without a name, as pandas does."""
    counts, names = Counter(columns), []
    for i, name in enumerate(columns):
        if name and counts[name] > 1:
            raise InvalidInput(f"{title} has two columns named {name!r}. Rename one.")
        unnamed = f"Unnamed: {i}"
        while not name and unnamed in counts:
            unnamed += "_"
        names.append(name or unnamed)
    check_case_collisions(title, names)
    return names


def read_common_header(paths: Sequence[Path], reading: Reading = PLAIN) -> list[str]:
    """Return the column names that all files share, in one order."""
    columns = read_header(paths[0], reading)
    for path in paths[1:]:
        if separator_of(path, reading) != separator_of(paths[0], reading):
            raise InvalidInput(f"{paths[0]} and {path} must both be separated by commas or tabs.")
        header = read_header(path, reading)
        if header != columns:
            raise InvalidInput(
                f"{path} has other columns than {paths[0]}: {', '.join(header)} instead of "
                f"{', '.join(columns)}. Pass files with the same header."
            )
    return columns


def check_rows(
    paths: Sequence[Path], numbers: Sequence[str], task: str | None, reading: Reading = PLAIN
) -> None:
    """Raise InvalidInput for the first row with a wrong number of fields, no task or no score."""
    for path in paths:
        places = {name: i for i, name in enumerate(read_header(path, reading))}
        scores = [(name, places[name]) for name in numbers if name in places]  # or in a folder
        with open_text(path, reading) as file:
            reader = csv.reader(file, delimiter=separator_of(path, reading))
            next(reader)
            for row in filter(None, reader):
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(places):
                    raise InvalidInput(
                        f"{where}: {len(row)} fields where the header has {len(places)}. Quote "
                        "fields that contain a separator."
                    )
                if task in places and not row[places[task]]:
                    raise InvalidInput(
                        f"{where}: column {task!r} is empty; an example must belong to a task. "
                        "Drop that row or name its task."
                    )
                for name, place in scores:
                    _check_number(f"{where}: column {name!r}", row[place], task, reading.decimal)


def check_line_endings(paths: Sequence[Path], reading: Reading = PLAIN) -> None:
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


def _check_number(where: str, text: str, task: str | None, decimal: str) -> None:
    foreign = "_" in text or (decimal == "," and "." in text)
    try:
        number = math.nan if foreign else float(text.replace(decimal, "."))
    except ValueError:
        number = math.nan
    if not math.isnan(number):
        return
    # Without a task, sets are predicted: the cautious score is then the one that is kept.
    kept = "give a label without a score inf, so that it is kept"
    problem = (
        f"{where} holds {text!r}, which is not a number. Write numbers like 0{decimal}25, without "
        f"thousands separators; {kept if task is None else 'drop rows without a score'}."
    )
    if decimal == "." and re.search(r"\d,\d", text):
        problem += f" Read decimal commas with {keyword('decimal', ',')}."
    raise InvalidInput(problem)

"""CSV files as text: delimiters, decimal commas, numbers that survive unchanged.

Engines read the rows. This slow reader is used only to explain why an engine failed.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import math
import re
import shutil
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from metapac._common import check_one_of
from metapac.artefact import private_folder
from metapac.errors import InvalidInput, keyword
from metapac.tables.errors import check_case_collisions

_UTF8 = "utf-8"


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written."""

    separator: str | None = None
    decimal: str = "."
    encoding: str = _UTF8

    def __post_init__(self) -> None:
        if self.separator is not None:
            _check_separator(self.separator)
        check_one_of("decimal", self.decimal, (".", ","))
        object.__setattr__(self, "encoding", _codec_name(self.encoding))

    @property
    def is_utf8(self) -> bool:
        """Whether an engine can read the file as it is."""
        return self.encoding in (_UTF8, "ascii", "utf-8-sig")

    def separator_of(self, path: Path) -> str:
        """Return the separator of a file."""
        if self.separator is not None:
            return self.separator
        suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
        return "\t" if suffixes[-1:] == [".tsv"] else ","

    @contextmanager
    def open(self, path: Path) -> Iterator[IO[str]]:
        """Open a file as text."""
        opener = gzip.open if path.suffix.lower() == ".gz" else open
        encoding = "utf-8-sig" if self.is_utf8 else self.encoding
        try:
            with opener(path, "rt", encoding=encoding, newline="") as file:
                yield file
        except UnicodeError as error:
            raise self._wrong_encoding(path) from error
        except (csv.Error, EOFError, gzip.BadGzipFile) as error:
            raise InvalidInput(f"{path} is not readable as CSV ({error}).") from error

    def _wrong_encoding(self, path: Path) -> InvalidInput:
        likely = guess_encoding(path)
        name = "UTF-8" if self.is_utf8 else self.encoding
        if codecs.lookup(likely).name == self.encoding:
            return InvalidInput(f"{path} is not text in the encoding {name}. Convert it to UTF-8.")
        return InvalidInput(
            f"{path} is not {name} text; it looks like {likely}. Read it with "
            f"{keyword('encoding', likely)}."
        )


def guess_encoding(path: Path) -> str:
    """Return the likely encoding of a file of text."""
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        content: bytes = file.read(1 << 20)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in content:
        return "utf-16-le" if content[1:2] == b"\0" else "utf-16-be"
    if not any(0x80 <= byte < 0xA0 for byte in content):
        return "latin-1"
    try:
        content.decode("windows-1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "windows-1252"


def recode(paths: Sequence[Path], csv_format: CsvFormat, owner: Any) -> list[Path]:
    """Copy files as UTF-8 to a private folder, which is removed with its owner."""
    scratch, copies = ExitStack(), []
    folder = scratch.enter_context(private_folder("metapac-csv"))
    weakref.finalize(owner, scratch.close)
    for i, path in enumerate(paths):
        partitions = _partitions(path.absolute().parent)
        copy = folder.joinpath(*partitions, f"{i}-{path.name.removesuffix(path.suffix)}.csv")
        copy.parent.mkdir(parents=True, exist_ok=True)
        with csv_format.open(path) as text, copy.open("w", encoding=_UTF8, newline="") as file:
            shutil.copyfileobj(text, file, 1 << 20)
        copies.append(copy)
    return copies


def _partitions(folder: Path) -> list[str]:
    """Return the folders like site=ohio at the end of a path."""
    names: list[str] = []
    while "=" in folder.name:
        names.insert(0, folder.name)
        folder = folder.parent
    return names


def _check_separator(separator: Any) -> None:
    is_character = isinstance(separator, str) and len(separator) == 1
    is_half = is_character and "\ud800" <= separator <= "\udfff"  # a byte that is not UTF-8
    if not is_character or is_half or separator in '"\r\n\0' or separator.isalnum():
        raise InvalidInput(
            f"separator must be one character such as ';', '|' or a tab, got {separator!r}.",
            parameter="separator",
        )


def _codec_name(encoding: Any) -> str:
    """Return Python's name of an encoding, so that one encoding has one name."""
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):
        raise InvalidInput(
            "encoding must be the name of a text encoding, such as 'latin-1', 'windows-1252' or "
            f"'utf-16', got {encoding!r}.",
            parameter="encoding",
        ) from None


PLAIN = CsvFormat()


_SEPARATORS = (";", "\t", "|", ",")


def read_header(path: Path, csv_format: CsvFormat = PLAIN) -> list[str]:
    """Return the column names of a file."""
    with csv_format.open(path) as file:
        columns = next(csv.reader(file, delimiter=csv_format.separator_of(path)), [])
        first = next(file, "")
    if not columns:
        raise InvalidInput(f"{path} is empty; it needs a header line with the column names.")
    if len(columns) == 1 and csv_format.separator is None:
        _check_single_column(path, columns[0], first)
    return name_columns(str(path), columns)


def name_columns(title: str, columns: Sequence[str]) -> list[str]:
    """Return the names of columns, such as "Unnamed: 0" for one without a name, as pandas does."""
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
    """Return the column names that all files share, in one order."""
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
    """Raise InvalidInput for the first row with a wrong number of fields, no task or no score."""
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
    """Raise InvalidInput if rows of a file end in LF and in CRLF, quoted line breaks aside."""
    for path in paths:
        endings, is_quoted = set(), False
        with csv_format.open(path) as file:
            for line in file:
                is_quoted ^= line.count('"') % 2 == 1
                if not is_quoted and line.endswith("\n"):
                    endings.add(line.endswith("\r\n"))
        if len(endings) > 1:
            raise InvalidInput(f"{path} mixes rows that end in CRLF and in LF. Use one of them.")


def _check_single_column(path: Path, header: str, row: str) -> None:
    """Raise InvalidInput if the only column of a header looks like several."""
    separator = next((character for character in _SEPARATORS if character in header), None)
    if separator is None:
        return
    options = [keyword("separator", separator)]
    if re.search(r"\d,\d", row) and separator != ",":
        options.insert(0, keyword("decimal", ","))
    raise InvalidInput(
        f"{path} has only the column {header!r}, which looks like several separated by "
        f"{separator!r}. Read it with {' and '.join(options)}."
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
        f"{where}: column {column!r} holds {text!r}, which is not a number. Write numbers like "
        f"0{decimal}25; {remedy}.{_decimal_hint(text, decimal)}"
    )


def _decimal_hint(text: str, decimal: str) -> str:
    """Return what to do about the commas or points of a number of another country."""
    if decimal == "." and re.search(r"\d,\d", text):
        option = keyword("decimal", ",")
        return f" Read decimal commas with {option}; thousands separators are not read."
    if decimal == "," and re.search(r"\d\.\d", text):
        return " A point is not a decimal comma, and thousands separators are not read."
    return ""

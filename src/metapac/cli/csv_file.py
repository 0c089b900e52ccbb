"""CSV with a header, read row by row with a progress bar; every fault named with its line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rich.progress

from metapac.cli.common import errors


class CsvFile:
    """An open CSV file: its ``columns``, and its rows with their line numbers."""

    def __init__(self, path: Path, lines: Iterator[str]) -> None:
        self.path = path
        self._reader = csv.reader(lines)
        self.columns = next(self._reader, [])
        if not self.columns:
            raise ValueError(f"{path} is empty; it needs a header line with the column names.")
        repeated = {name for name in self.columns if self.columns.count(name) > 1}
        if repeated:
            raise ValueError(f"{path} has two columns named {min(repeated)!r}. Rename one.")

    def index(self, column: str) -> int:
        if column not in self.columns:
            there = ", ".join(self.columns)
            commas = "" if len(self.columns) > 1 else " Columns must be separated by commas."
            raise ValueError(f"{self.path} has no column {column!r}; it has: {there}.{commas}")
        return self.columns.index(column)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        for row in self._reader:
            if not row:
                continue
            if len(row) != len(self.columns):
                raise ValueError(
                    f"{self.path}, line {self._reader.line_num}: {len(row)} fields where the "
                    f"header has {len(self.columns)}. Quote fields that hold a comma."
                )
            yield self._reader.line_num, row

    def number(self, text: str, column: str, line: int) -> float:
        try:
            number = math.nan if "_" in text else float(text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError(
                f"{self.path}, line {line}: column {column!r} holds {text!r}, which is not a "
                "number. Write numbers like 0.25; drop rows without a score, or give them -inf."
            )
        return number


@contextmanager
def open_csv(path: Path) -> Iterator[CsvFile]:
    """Open a CSV file in UTF-8; a bar shows how far it was read if that takes long."""
    try:
        with rich.progress.open(
            path,
            "r",
            encoding="utf-8-sig",
            newline="",
            description=f"Reading {path.name}",
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        ) as lines:
            yield CsvFile(path, lines)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}). Convert it first.") from error
    except csv.Error as error:
        raise ValueError(f"{path} is not readable as CSV ({error}).") from error

"""The BRFSS as the CDC publishes it: a SAS transport file a year, LLCP2011.XPT and so on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metapac.datasets.brfss import REMEDY, Transport, open_transport
from metapac.datasets.heart_source import LABEL, STATE, Block, Coding

# 7 is "do not know" and 9 "refused"; not asked or missing is blank.
CODING = Coding(LABEL, yes=1, no=2, unknown=(7, 9), remedy=REMEDY)

_NAME = re.compile(r"LLCP(\d{4})\.XPT *", re.IGNORECASE)  # some published names end in a blank


@dataclass(frozen=True)
class Year:
    """One year of the survey. The year is the file's: interviews run into the next January."""

    file: Transport
    year: int
    coding = CODING

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def rows(self) -> int:
        return self.file.rows

    @property
    def numeric(self) -> list[str]:
        return [name for name in self._features() if not self.file.columns[name].text]

    @property
    def text(self) -> list[str]:
        return [name for name in self._features() if self.file.columns[name].text]

    def _features(self) -> list[str]:
        return [name for name in self.file.columns if name not in (LABEL, STATE)]

    def blocks(self, features: Sequence[str]) -> Iterator[Block]:
        for rows in self.file.blocks([LABEL, STATE, *features]):
            year = np.full(len(rows), float(self.year))
            yield Block(rows[:, 2:], label=rows[:, 0], year=year, state=rows[:, 1])


def year_of(path: Path) -> int | None:
    """Return the year in the name of a yearly file, or None for the name of another file."""
    found = _NAME.fullmatch(path.name)
    return int(found[1]) if found else None


def yearly_files(folder: Path) -> list[Path]:
    """Return the yearly files in a folder, in the order of their years."""
    found = sorted((year, path) for path in folder.iterdir() if (year := year_of(path)))
    return [path for _, path in found if path.is_file()]


def open_years(paths: Iterable[Path]) -> list[Year]:
    """Read the heads of yearly files, and refuse a year that comes twice or lacks its label."""
    years: dict[int, Year] = {}
    for path in paths:
        year = year_of(path)
        if year is None:
            raise ValueError(
                f"{path} must be a yearly file that is named after its year, such as "
                "LLCP2011.XPT, or a table, .parquet or .csv. Rename it."
            )
        if year in years:
            raise ValueError(
                f"{years[year].path} and {path} are both of the year {year}. Delete one of them."
            )
        years[year] = Year(_with_columns(open_transport(path)), year)
    return [*years.values()]


def _with_columns(file: Transport) -> Transport:
    for name in (LABEL, STATE):
        if name not in file.columns or file.columns[name].text:
            raise ValueError(
                f"{file.path} must have a column of numbers {name}, got {len(file.columns)} other "
                "columns. Take that year out of the folder."
            )
    return file

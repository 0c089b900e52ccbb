"""The yearly files of the BRFSS as the CDC publishes them: LLCP2011.XPT and so on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from metapac.datasets.heart.brfss import REMEDY, Transport, open_transport
from metapac.datasets.heart.source import LABEL, STATE, Block, Coding, Source
from metapac.exceptions import InvalidInput

# 7 is "do not know" and 9 "refused"; not asked or missing is blank.
_CODING = Coding(LABEL, yes=1, no=2, unknown=(7, 9), remedy=REMEDY)

_NAME = re.compile(r"LLCP(\d{4})\.XPT *", re.IGNORECASE)  # some published names end in a space


def parse_year(path: Path) -> int | None:
    """Return the year in the name of a yearly file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    int or None
        The year; None for any other name.
    """
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def find_yearly_files(folder: Path) -> list[Path]:
    """Return the yearly files in a folder.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    list of Path
        The files, sorted by year.
    """
    dated = sorted((year, path) for path in folder.iterdir() if (year := parse_year(path)))
    return [path for _, path in dated if path.is_file()]


def open_years(paths: Iterable[Path]) -> list[Source]:
    """Read the headers of yearly files.

    Parameters
    ----------
    paths : iterable of Path
        The files.

    Returns
    -------
    list of Source
        One source for each file. Its year is that of the file, since interviews run into January.

    Raises
    ------
    InvalidInput
        If a year occurs twice, or a file lacks the label or the state.
    """
    years: dict[int, Source] = {}
    for path in paths:
        year = parse_year(path)
        if year is None:
            raise InvalidInput(
                f"{path} must be a yearly file named after its year, such as LLCP2011.XPT, or a "
                "table, .parquet or .csv. Rename it."
            )
        if year in years:
            raise InvalidInput(
                f"{years[year].path} and {path} are both of the year {year}. Delete one of them."
            )
        years[year] = _source(open_transport(path), year)
    return [*years.values()]


def _source(file: Transport, year: int) -> Source:
    for name in (LABEL, STATE):
        if name not in file.columns or file.columns[name].text:
            raise InvalidInput(
                f"{file.path} must have a column of numbers {name}, got {len(file.columns)} other "
                "columns. Remove that year from the folder."
            )
    features = {
        name: column.text for name, column in file.columns.items() if name not in (LABEL, STATE)
    }
    return Source(
        file.path,
        file.rows,
        _CODING,
        numeric=[name for name, is_text in features.items() if not is_text],
        text=[name for name, is_text in features.items() if is_text],
        blocks=partial(_blocks, file, year),
    )


def _blocks(file: Transport, year: int, features: Sequence[str]) -> Iterator[Block]:
    for rows in file.blocks([LABEL, STATE, *features]):
        years = np.full(len(rows), float(year))
        yield Block(rows[:, 2:], label=rows[:, 0], year=years, state=rows[:, 1])

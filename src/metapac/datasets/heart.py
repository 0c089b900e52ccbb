"""CDC Heart: heart attacks in the BRFSS surveys; a task is a state in a year."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from metapac import _checks
from metapac.datasets import cache
from metapac.datasets.heart_cleaning import clean
from metapac.datasets.heart_pools import StateYears
from metapac.datasets.heart_source import PAPER, Source
from metapac.datasets.heart_table import SUFFIXES, open_table
from metapac.datasets.heart_years import open_years, year_of, yearly_files
from metapac.tasks._seeds import Seed
from metapac.tasks.pools import GroupPool, Pools, split_groups

NAME = "heart"

_TABLES = tuple(f"{NAME}{suffix}" for suffix in SUFFIXES)
_WANTED = (
    "yearly BRFSS files of the CDC (LLCP2011.XPT to LLCP2020.XPT), or a table of respondents "
    f"({' or '.join(_TABLES)}); 'metapac data fetch heart' downloads the yearly files"
)


def heart(
    *,
    train: Sequence[int] | int = range(2011, 2015),
    validation: Sequence[int] | int = (),
    calibration: Sequence[int] | int = range(2015, 2020),
    test: Sequence[int] | int = 2020,
    least: int | None = None,
    home: cache.Home = None,
) -> Pools[GroupPool]:
    """Return the prepared surveys as pools of state-years, such as '2015 Ohio', by their years.

    Features are standardised with the mean and deviation of the training pool. State-years with
    fewer than ``least`` respondents are left out, and the name of the pool says how many.
    """
    data = cache.opened(NAME, home)
    given = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    years = {pool: [own] if isinstance(own, int) else own for pool, own in given.items()}
    _refuse_unknown(years, data.facts["years"])
    groups = StateYears(data, least)
    asked = {pool: np.isin(data["year"], own) for pool, own in years.items()}
    return groups.pools(
        {pool: groups.rows(pool, own) for pool, own in asked.items()},
        {pool: groups.name(pool, own) for pool, own in asked.items()},
    )


def heart_groups(
    *,
    train: int,
    validation: int,
    calibration: int,
    test: int,
    least: int | None = None,
    rng: Seed,
    home: cache.Home = None,
) -> Pools[GroupPool]:
    """Return pools of so many random state-years each, whatever their years; see ``heart``.

    No state-year is in two pools, and those beyond the four numbers are left out.
    """
    _checks.whole_number("train", train)  # all pools are standardised with this one
    data = cache.opened(NAME, home)
    groups = StateYears(data, least)
    every = np.ones(len(data["y"]), np.bool_)
    rows = groups.rows("the pools", every)
    split = split_groups(
        rows,
        data["y"][rows],
        groups.codes[rows],
        train=train,
        validation=validation,
        calibration=calibration,
        test=test,
        rng=rng,
    )
    chosen = {name: pool.x for name, pool in vars(split).items() if pool is not None}
    return groups.pools(chosen, {name: groups.name(name, every) for name in chosen})


def _refuse_unknown(years: Mapping[str, Sequence[int]], known: Sequence[int]) -> None:
    if not len(years["train"]):
        raise ValueError(
            "train must name at least one year: the features of all pools are standardised with "
            "the training pool."
        )
    for pool, own in years.items():
        absent = [year for year in own if year not in known]
        if absent:
            raise ValueError(
                f"{pool} must name years that are prepared, got {absent[0]}; there are "
                f"{', '.join(map(str, known))}. Prepare it as well, name other years, or draw "
                "state-years of any year with heart_groups."
            )


def missing(folder: str | os.PathLike[str]) -> list[str]:
    """Return what a folder lacks: any survey at all, or some of the paper's years."""
    try:
        files = _find(Path(folder))
        if not files:
            return [f"There must be {_WANTED}."]
        _opened(files, dict.fromkeys(("year", "state", "label")), ())  # reads their heads
    except (OSError, ValueError) as error:
        return [str(error)]
    years = {year_of(path) for path in files}
    absent = [f"LLCP{year}.XPT" for year in PAPER if year not in years]
    if not absent or not years & {*PAPER}:
        return []
    return [
        f"{', '.join(absent)} of the paper's years are not there: 'metapac data fetch heart' "
        "downloads them, and without them only the other years are prepared."
    ]


def prepare(
    folder: str | os.PathLike[str],
    *,
    home: cache.Home = None,
    progress: cache.Progress | None = None,
    year: str | None = None,
    state: str | None = None,
    label: str | None = None,
    leave_out: Sequence[str] = (),
) -> cache.Prepared:
    """Clean the surveys as the paper does and keep what is left: x as coded, y, year and state.

    ``folder`` holds the yearly files, or heart.parquet or heart.csv, or is such a file itself. In
    a table ``year``, ``state`` and ``label`` name their columns, which are else known by name, and
    -1 is missing besides what is empty. Answers such as "refused" are not missing but a code.

    Features named in ``leave_out`` are dropped besides. The paper names none, but the CDC computes
    _MICHD from the label: who leaves it in predicts heart attacks from heart attacks.
    """
    leave_out = [leave_out] if isinstance(leave_out, str) else [*leave_out]
    files = _find(Path(folder))
    if not files:
        raise FileNotFoundError(errno.ENOENT, f"there must be {_WANTED}", str(folder))
    columns = {"year": year, "state": state, "label": label}
    sources = _opened(files, columns, leave_out)
    return cache.prepare(
        NAME,
        files,
        lambda writer: clean(sources, writer, leave_out=leave_out, progress=progress),
        options={**columns, "leave_out": leave_out},
        home=home,
    )


def _find(folder: Path) -> list[Path]:
    """Return the yearly files or the table in a folder, or else in its folder 'heart'."""
    if folder.is_file():
        return [folder]
    for place in (folder, folder / NAME):
        if place.is_dir():
            tables = [place / name for name in _TABLES if (place / name).is_file()]
            years = yearly_files(place)
            if len(tables) + bool(years) > 1:
                names = ", ".join(path.name for path in (*years, *tables))
                raise ValueError(
                    f"{place} must hold yearly files or one table, got {names}. Pass the file that "
                    "is meant, or move the others."
                )
            if tables or years:
                return [*years, *tables]
    return []


def _opened(
    files: Sequence[Path], columns: Mapping[str, str | None], leave_out: Sequence[str]
) -> Sequence[Source]:
    if files[0].suffix.lower() in SUFFIXES:
        return [open_table(files[0], **columns, leave_out=leave_out)]
    named = [option for option, name in columns.items() if name is not None]
    if named:
        raise ValueError(
            f"{named[0]} names a column of a table, but {files[0].name} is a yearly file, whose "
            f"columns are known. Leave {named[0]} out."
        )
    return open_years(files)

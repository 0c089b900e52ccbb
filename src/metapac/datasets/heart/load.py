"""CDC Heart: heart attacks in the BRFSS surveys; a task is a state in a year."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from metapac import _checks
from metapac._types import PathLike, Progress, Seed
from metapac.datasets.heart.cleaning import clean
from metapac.datasets.heart.pools import StateYears
from metapac.datasets.heart.source import PAPER, Source
from metapac.datasets.heart.table import SUFFIXES, open_table
from metapac.datasets.heart.years import find_yearly_files, open_years, parse_year
from metapac.datasets.store import cache
from metapac.exceptions import InvalidInput, Parameter
from metapac.tasks.pools import GroupPool, Pools, split_groups

NAME = "heart"

_TABLES = tuple(f"{NAME}{suffix}" for suffix in SUFFIXES)
_EXPECTED = (
    "yearly BRFSS files of the CDC (LLCP2011.XPT to LLCP2020.XPT), or a table of respondents "
    f"({' or '.join(_TABLES)}); 'metapac data fetch heart' downloads the yearly files"
)


def heart(
    *,
    train: Sequence[int] | int = range(2011, 2015),
    validation: Sequence[int] | int = (),
    calibration: Sequence[int] | int = range(2015, 2020),
    test: Sequence[int] | int = 2020,
    min_size: int | None = None,
    home: cache.Home = None,
) -> Pools[GroupPool]:
    """Return the prepared CDC Heart surveys as pools of state-years, split by year.

    A group is a state in a year, such as "2015 Ohio". Features are standardised with the mean and
    standard deviation of the training pool.

    Parameters
    ----------
    train, validation, calibration, test : int or sequence of int, optional
        Years of each pool; by default those of the paper.
    min_size : int, optional
        Leave out state-years with fewer respondents; the name of the pool says how many.
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.

    Returns
    -------
    Pools
        A `GroupPool` for each pool that has years; the label is 1 for a heart attack.

    Raises
    ------
    FileNotFoundError
        If the surveys are not prepared.

    Examples
    --------
    Prepare a table of four respondents, then load it:

    >>> import pathlib, tempfile
    >>> from metapac.datasets import heart
    >>> from metapac.datasets.catalogue import get_data_set
    >>> with tempfile.TemporaryDirectory() as home:
    ...     table = pathlib.Path(home, "heart.csv")
    ...     rows = ["2021,1,0,30", "2021,1,1,70", "2022,1,0,40", "2022,39,1,65"]
    ...     _ = table.write_text("\\n".join(["year,state,label,age", *rows]))
    ...     _ = get_data_set("heart").prepare(table, home=home)
    ...     pools = heart(train=2021, calibration=(), test=2022, home=home)
    >>> pools.test.names
    ['2022 Alabama', '2022 Ohio']
    """
    data = cache.open_prepared(NAME, home)
    given = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    years = {pool: [y] if isinstance(y, int) else y for pool, y in given.items()}
    _check_years(years, data.facts["years"])
    groups = StateYears(data, min_size)
    chosen = {pool: np.isin(data["year"], members) for pool, members in years.items()}
    return groups.pools(
        {pool: groups.rows(pool, members) for pool, members in chosen.items()},
        {pool: groups.name(pool, members) for pool, members in chosen.items()},
    )


def heart_groups(
    *,
    train: int,
    validation: int,
    calibration: int,
    test: int,
    min_size: int | None = None,
    rng: Seed,
    home: cache.Home = None,
) -> Pools[GroupPool]:
    """Return the prepared CDC Heart surveys as pools of random state-years.

    No state-year is in two pools. Features are standardised with the training pool.

    Parameters
    ----------
    train, validation, calibration, test : int
        Number of state-years of each pool; any others are left out.
    min_size : int, optional
        Leave out state-years with fewer respondents; the name of the pool says how many.
    rng : int or numpy.random.Generator or None
        Source of randomness.
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.

    Returns
    -------
    Pools
        A `GroupPool` for each pool that has state-years.

    Raises
    ------
    FileNotFoundError
        If the surveys are not prepared.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from metapac.datasets import heart_groups
    >>> from metapac.datasets.catalogue import get_data_set
    >>> sizes = {"train": 1, "validation": 0, "calibration": 1, "test": 0}
    >>> with tempfile.TemporaryDirectory() as home:
    ...     table = pathlib.Path(home, "heart.csv")
    ...     _ = table.write_text("year,state,label,age\\n2021,1,0,30\\n2022,39,1,65\\n")
    ...     _ = get_data_set("heart").prepare(table, home=home)
    ...     pools = heart_groups(**sizes, rng=0, home=home)
    >>> sorted(pools.train.names + pools.calibration.names)
    ['2021 Alabama', '2022 Ohio']
    """
    _checks.as_whole_number("train", train)  # all pools are standardised with this one
    data = cache.open_prepared(NAME, home)
    groups = StateYears(data, min_size)
    everyone = np.ones(len(data["y"]), np.bool_)
    rows = groups.rows("the pools", everyone)
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
    return groups.pools(chosen, {name: groups.name(name, everyone) for name in chosen})


def _check_years(years: Mapping[str, Sequence[int]], prepared: Sequence[int]) -> None:
    if not len(years["train"]):
        raise InvalidInput(
            "train must name at least one year: the features of all pools are standardised with "
            "the training pool."
        )
    for pool, chosen in years.items():
        absent = [year for year in chosen if year not in prepared]
        if absent:
            raise InvalidInput(
                f"{pool} must name years that are prepared, got {absent[0]}; there are "
                f"{', '.join(map(str, prepared))}. Prepare it as well, name other years, or draw "
                "state-years of any year with heart_groups."
            )


def missing(folder: PathLike) -> list[str]:
    """Return what is missing from a folder: any survey, or some of the paper's years.

    Parameters
    ----------
    folder : path_like
        Folder with the surveys, or one file.

    Returns
    -------
    list of str
        Sentences that say what is missing and what to do; empty if nothing is.
    """
    try:
        files = _find_files(Path(folder))
        if not files:
            return [f"There must be {_EXPECTED}."]
        _open_sources(files, dict.fromkeys(("year", "state", "label")), ())  # reads their headers
    except (OSError, ValueError) as error:
        return [str(error)]
    years = {parse_year(path) for path in files}
    absent = [f"LLCP{year}.XPT" for year in PAPER if year not in years]
    if not absent or not years & {*PAPER}:
        return []
    return [
        f"{', '.join(absent)} of the paper's years are not there: 'metapac data fetch heart' "
        "downloads them, and without them only the other years are prepared."
    ]


def prepare(
    folder: PathLike,
    *,
    home: cache.Home = None,
    progress: Progress | None = None,
    year: str | None = None,
    state: str | None = None,
    label: str | None = None,
    exclude: Sequence[str] = (),
) -> cache.Prepared:
    """Clean the surveys as the paper does: x as coded, y, year and state.

    In a table, -1 and empty cells are missing. Answers such as "refused" are not missing but a
    code.

    Parameters
    ----------
    folder : path_like
        Folder with the yearly files or with heart.parquet or heart.csv, or such a file itself.
    home : path_like, optional
        See `metapac.datasets.store.cache.data_home`.
    progress : callable, optional
        Called as ``progress("reading surveys", rows_done, rows_total)``.
    year, state, label : str, optional
        Names of these columns in a table; by default they are recognised by their usual names.
    exclude : sequence of str, optional
        Features to drop. The paper drops none, but the CDC computes _MICHD from the label:
        keeping it leaks the label.

    Returns
    -------
    Prepared
        The arrays and facts.

    Raises
    ------
    InvalidInput
        If a file is damaged, or a column missing or not coded as it should be.
    """
    exclude = [exclude] if isinstance(exclude, str) else [*exclude]
    files = _find_files(Path(folder))
    if not files:
        raise FileNotFoundError(errno.ENOENT, f"there must be {_EXPECTED}", str(folder))
    columns = {"year": year, "state": state, "label": label}
    sources = _open_sources(files, columns, exclude)
    return cache.prepare(
        NAME,
        files,
        lambda writer: clean(sources, writer, exclude=exclude, progress=progress),
        options={**columns, "exclude": exclude},
        home=home,
    )


def _find_files(folder: Path) -> list[Path]:
    """Return the yearly files or the table in a folder or, if it has none, in its folder heart."""
    if folder.is_file():
        return [folder]
    for place in (folder, folder / NAME):
        if place.is_dir():
            tables = [place / name for name in _TABLES if (place / name).is_file()]
            years = find_yearly_files(place)
            if len(tables) + bool(years) > 1:
                names = ", ".join(path.name for path in (*years, *tables))
                raise InvalidInput(
                    f"{place} must hold yearly files or one table, got {names}. Pass the file that "
                    "you mean, or move the others."
                )
            if tables or years:
                return [*years, *tables]
    return []


def _open_sources(
    files: Sequence[Path], columns: Mapping[str, str | None], exclude: Sequence[str]
) -> Sequence[Source]:
    if files[0].suffix.lower() in SUFFIXES:
        return [open_table(files[0], **columns, exclude=exclude)]
    for option in (option for option, name in columns.items() if name is not None):
        raise InvalidInput(
            "{} names a column of a table, but {} is a yearly file, whose columns are known. Omit "
            "{}.",
            Parameter(option),
            files[0].name,
            Parameter(option),
        )
    return open_years(files)

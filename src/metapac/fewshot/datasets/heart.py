"""CDC Heart: the BRFSS survey by state and year."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac._common import (
    Array,
    Counts,
    Floats,
    PathLike,
    Progress,
    Seed,
    as_whole_number,
    ignore_progress,
    listed,
)
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.cache import Prepared, Writer
from metapac.fewshot.datasets.heart_files import (
    LEAK,
    PAPER,
    SUFFIXES,
    UNINFORMATIVE,
    Block,
    Coding,
    Source,
    find_yearly_files,
    open_table,
    open_years,
    parse_year,
    state_name,
)
from metapac.fewshot.pools import GroupPool, Pools, split_groups

_MISSING_ONE_IN = 20  # a feature may be missing in 5 % of the rows
_RANGES = {"year": (1000, 9999), "state": (1, 99)}


def clean(
    sources: Sequence[Source],
    writer: Writer,
    *,
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write x, y, year and state of the respondents that are kept.

    A feature is kept if every file has it as numbers, it is not a date, and at most 5 % of all
    rows lack it. A respondent is kept if the label and all kept features are known. The files are
    read twice: once to count missing values, once to write the rest.
    """
    reader = _Reader(sources, progress or ignore_progress)
    names, dropped = _usable_features(sources, exclude)
    missing = _count_missing(reader, names)
    kept = [
        name for name, n in zip(names, missing, strict=True) if _MISSING_ONE_IN * n <= reader.done
    ]
    dropped["missing in more than 5 %"] = [name for name in names if name not in kept]
    if not kept:
        counts = {reason: len(features) for reason, features in dropped.items()}
        raise InvalidInput(
            f"{_location(sources)}: no feature is left; dropped are {_counts_text(counts)}. Remove "
            "the years or columns with the most missing values."
        )
    tally = _Tally()
    for source, block in reader.blocks(kept):
        rows = tally.select(block, source.coding)
        _write(writer, source, block, rows, kept)
    if not tally.groups:
        raise InvalidInput(
            f"{_location(sources)}: no row is left of {tally.read}; dropped are "
            f"{_counts_text(tally.dropped)}. Check how its columns are coded."
        )
    facts = tally.facts() | {"features": kept, "features dropped": dropped}
    return facts | {"notes": _notes(facts)}


class _Reader:
    """Iterates over all files; reports progress over the two passes."""

    def __init__(self, sources: Sequence[Source], progress: Progress) -> None:
        self.sources, self.progress, self.done = sources, progress, 0
        sizes = [source.rows for source in sources if source.rows is not None]
        self.total = 2 * sum(sizes) if len(sizes) == len(sources) else None

    def blocks(self, features: Sequence[str]) -> Iterator[tuple[Source, Block]]:
        for source in self.sources:
            for block in source.blocks(features):
                yield source, block
                self.done += len(block.label)
                self.progress("reading surveys", self.done, self.total)


def _usable_features(
    sources: Sequence[Source], exclude: Sequence[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the usable features, and the others by the first reason to drop them."""
    columns = [*dict.fromkeys(n for source in sources for n in (*source.numeric, *source.text))]
    unknown = [name for name in exclude if name not in columns]
    if unknown:
        raise InvalidInput(
            f"exclude must name features, got {unknown[0]!r}; there are {', '.join(columns)}.",
            parameter="exclude",
        )
    reasons = {
        "date or sequence number": {name for name in columns if name.upper() in UNINFORMATIVE},
        "excluded": {*exclude},
        "text": set().union(*(source.text for source in sources)),
        "not in every year": set().union(*({*columns}.difference(s.numeric) for s in sources)),
    }
    dropped = {}
    for reason, names in reasons.items():
        dropped[reason] = [name for name in columns if name in names]
        columns = [name for name in columns if name not in names]
    return columns, dropped


def _count_missing(reader: _Reader, names: Sequence[str]) -> Counts:
    """Count the rows in which each feature is missing; raise if a value is impossible."""
    missing = np.zeros(len(names), np.int64)
    invalid: dict[Path, Counter[float]] = {source.path: Counter() for source in reader.sources}
    for source, block in reader.blocks(names):
        missing += np.isnan(block.x).sum(0)
        codes = [source.coding.yes, source.coding.no, *source.coding.unknown]
        is_coded = np.isin(block.label, codes) | np.isnan(block.label)
        invalid[source.path].update(block.label[~is_coded].tolist())
        for column, (lowest, highest) in _RANGES.items():
            _check_whole(source, column, getattr(block, column), lowest, highest)
    for source in reader.sources:
        _check_labels(source, invalid[source.path])
    return missing


def _check_whole(source: Source, column: str, values: Floats, lowest: int, highest: int) -> None:
    wrong = (values < lowest) | (values > highest) | (values != np.floor(values))
    wrong &= ~np.isnan(values)
    if wrong.any():
        raise InvalidInput(
            f"{source.path}: the {column} must be a whole number from {lowest} to {highest}, got "
            f"{values[wrong][0]:g}. Correct those rows, or drop them."
        )


def _check_labels(source: Source, invalid: Counter[float]) -> None:
    if invalid:
        coding = source.coding
        codes = ", ".join(map(str, sorted((coding.yes, coding.no, *coding.unknown))))
        counts = [f"{code:g} in {n} rows" for code, n in sorted(invalid.items())]
        raise InvalidInput(
            f"{source.path}: the label {coding.column} must be {codes} or missing, got "
            f"{listed(counts)}. {coding.remedy}"
        )


class _Tally:
    """Counts of kept and dropped respondents, updated block by block."""

    def __init__(self) -> None:
        self.read = self.positive = 0
        self.dropped = {"label unknown": 0, "year or state missing": 0, "feature missing": 0}
        self.groups: Counter[int] = Counter()  # year * 100 + state

    def select(self, block: Block, coding: Coding) -> NDArray[np.bool_]:
        """Return which rows to keep; count each dropped row under the first reason."""
        rows = np.ones(len(block.label), np.bool_)
        conditions = (
            np.isin(block.label, [coding.yes, coding.no]),
            ~np.isnan(block.year) & ~np.isnan(block.state),
            ~np.isnan(block.x).any(1),
        )
        for reason, passed in zip(self.dropped, conditions, strict=True):
            self.dropped[reason] += int((rows & ~passed).sum())
            rows &= passed
        self.read += len(rows)
        self.positive += int((block.label[rows] == coding.yes).sum())
        codes = block.year[rows].astype(np.int64) * 100 + block.state[rows].astype(np.int64)
        self.groups.update(codes.tolist())
        return rows

    def facts(self) -> dict[str, Any]:
        """Return all counts, of at least one kept row, as JSON can hold them."""
        rows, groups = self.groups.total(), dict(sorted(self.groups.items()))
        years = sorted({code // 100 for code in groups})
        sizes = {y: [size for code, size in groups.items() if code // 100 == y] for y in years}
        return {
            "classes": 2,
            "counts": {
                "rows read": self.read,
                "rows kept": rows,
                "positive": self.positive,
                "state-years": len(groups),
            },
            "splits": {
                str(year): {"state-years": len(rows), "rows": sum(rows)}
                for year, rows in sizes.items()
            },
            "years": years,
            "share positive": self.positive / rows,
            "rows dropped": self.dropped,
            "state-years": {f"{c // 100}-{c % 100:02}": size for c, size in groups.items()},
        }


def _write(
    writer: Writer, source: Source, block: Block, rows: NDArray[np.bool_], names: Sequence[str]
) -> None:
    with np.errstate(over="ignore"):  # infinities are reported below
        x = block.x[rows].astype(np.float32)
    wrong = np.argwhere(~np.isfinite(x))
    if len(wrong):
        row, column = wrong[0]
        raise InvalidInput(
            f"{source.path}: {names[column]} must hold finite single-precision numbers, got "
            f"{block.x[rows][row, column]:g}. Correct it, or pass "
            f"{keyword('exclude', [names[column]])}."
        )
    writer.append("x", x)
    writer.append("y", (block.label[rows] == source.coding.yes).astype(np.int8))
    writer.append("year", block.year[rows].astype(np.int16))
    writer.append("state", block.state[rows].astype(np.int16))


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Describe what was kept and dropped, after any warnings."""
    features = [
        f"{reason}: {listed(names, shown=8)}"
        for reason, names in facts["features dropped"].items()
        if names
    ]
    rows = {reason: count for reason, count in facts["rows dropped"].items() if count}
    warnings = []
    if LEAK in facts["features"]:
        warnings.append(
            f"{LEAK} is kept, as in the paper's text, but the CDC computes it from the label, so "
            "it leaks the label: prepare the data again without this feature"
        )
    if not {*PAPER} <= {*facts["years"]}:
        warnings.append(
            f"the paper's years {PAPER[0]} to {PAPER[-1]} are not all here: name years in "
            "heart(...), or draw state-years with heart_groups(...)"
        )
    return [
        *warnings,
        f"{facts['share positive']:.2%} of {facts['counts']['rows kept']:,} rows are positive",
        f"features kept: {', '.join(facts['features'])}",
        f"features dropped: {'; '.join(features) or 'none'}",
        f"rows dropped: {_counts_text(rows) or 'none'}",
    ]


def _location(sources: Sequence[Source]) -> Path:
    return sources[0].path if len(sources) == 1 else sources[0].path.parent


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what}: {count}" for what, count in counts.items())


_CLASSES = 2  # even in a pool without any heart attack
_BLOCK = 2**16  # rows at a time


class StateYears:
    """The state-years of prepared surveys."""

    def __init__(self, data: Prepared, min_size: int | None) -> None:
        self._data = data
        self._min_size = 1 if min_size is None else as_whole_number("min_size", min_size)
        self.codes = data["year"].astype(np.int32) * 100 + data["state"]  # (n,)
        _, inverse, sizes = np.unique(self.codes, return_inverse=True, return_counts=True)
        self._is_large = sizes[inverse] >= self._min_size  # (n,)
        self._largest = int(sizes.max())

    def rows(self, pool: str, chosen: NDArray[np.bool_]) -> Counts:
        """Return the chosen rows that belong to large state-years."""
        rows = np.flatnonzero(chosen & self._is_large)
        if chosen.any() and not len(rows):
            raise InvalidInput(
                f"min_size must leave some state-years in {pool}, got {self._min_size}; the "
                f"largest of all has {self._largest} rows.",
                parameter="min_size",
            )
        return rows

    def name(self, pool: str, chosen: NDArray[np.bool_]) -> str:
        """Return the name of a pool, with the number of state-years left out."""
        count = len(np.unique(self.codes[chosen & ~self._is_large]))
        if not count:
            return pool
        state_years = f"{count} state-year{'s' * (count != 1)}"
        return f"{pool}, without {state_years} of fewer than {self._min_size} rows"

    def pools(self, rows: Mapping[str, Counts], names: Mapping[str, str]) -> Pools[GroupPool]:
        """Return pools, standardised with the mean and deviation of the training pool."""
        x = self._data["x"]
        mean, deviation = mean_and_deviation(x, rows["train"])
        pools = {
            pool: GroupPool(
                standardise(x, members, mean, deviation),
                self._data["y"][members],
                self._group_names(members),
                name=names[pool],
                classes=_CLASSES,
            )
            for pool, members in rows.items()
            if len(members)
        }
        return Pools(**pools)

    def _group_names(self, rows: Counts) -> NDArray[np.str_]:
        codes, inverse = np.unique(self.codes[rows], return_inverse=True)
        names = [f"{code // 100} {state_name(code % 100)}" for code in codes.tolist()]
        return np.array(names)[inverse]


def mean_and_deviation(x: Array, rows: Counts) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of each column over some rows."""
    total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for block in _blocks(x, rows):
        total += block.sum(0)
    mean = total / len(rows)
    for block in _blocks(x, rows):
        squares += np.square(block - mean).sum(0)
    # Equal float32 numbers add up exactly in float64: the squares of a constant column are 0.
    return mean, np.where(squares == 0, 1.0, np.sqrt(squares / len(rows)))


def standardise(x: Array, rows: Counts, mean: Floats, deviation: Floats) -> Array:
    """Return some rows, standardised."""
    result = np.empty((len(rows), x.shape[1]), np.float32)
    done = 0
    for block in _blocks(x, rows):
        result[done : done + len(block)] = (block - mean) / deviation
        done += len(block)
    return result


def _blocks(x: Array, rows: Counts) -> Iterator[Floats]:
    for start in range(0, len(rows), _BLOCK):
        yield x[rows[start : start + _BLOCK]].astype(np.float64)


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
    >>> from metapac.fewshot import heart
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
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
    >>> from metapac.fewshot import heart_groups
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
    >>> sizes = {"train": 1, "validation": 0, "calibration": 1, "test": 0}
    >>> with tempfile.TemporaryDirectory() as home:
    ...     table = pathlib.Path(home, "heart.csv")
    ...     _ = table.write_text("year,state,label,age\\n2021,1,0,30\\n2022,39,1,65\\n")
    ...     _ = get_data_set("heart").prepare(table, home=home)
    ...     pools = heart_groups(**sizes, rng=0, home=home)
    >>> sorted(pools.train.names + pools.calibration.names)
    ['2021 Alabama', '2022 Ohio']
    """
    as_whole_number("train", train)  # all pools are standardised with this one
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
    """Return what is missing from a folder: any survey, or some of the paper's years."""
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
            f"{option} names a column of a table, but {files[0].name} is a yearly file, whose "
            f"columns are known. Omit {option}.",
            parameter=option,
        )
    return open_years(files)

"""CDC Heart: the BRFSS survey by state and year, from yearly files or a table of respondents."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from metapac import _common
from metapac._common import Array, Counts, Floats, PathLike, Progress, Seed, as_whole_number, listed
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.pools import GroupPool, Pools, split_groups
from metapac.fewshot.tasks import count_noun

PAPER = range(2011, 2021)  # the years of the paper
_NAME = "heart"
_LABEL, _STATE = "CVDINFR4", "_STATE"  # "ever told you had a heart attack"
_YES = 1
_LEAK = "_MICHD"  # computed by the CDC from the label
_TABLES = ("heart.parquet", "heart.csv")
_EXPECTED = (
    "yearly BRFSS files of the CDC (LLCP2011.XPT to LLCP2020.XPT), or a table of respondents "
    f"({' or '.join(_TABLES)}); 'metapac data fetch heart' downloads the yearly files"
)
# Dates of the interview and the file, and the sequence number with its copy, the sampling unit.
_UNINFORMATIVE = {
    *("IDATE", "IMONTH", "IDAY", "IYEAR", "FMONTH", "SEQNO", "_PSU"),
    *("DATE", "YEAR", "MONTH", "DAY", "SEQUENCE"),
}
_STATES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["states"]


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

    A group is a state in a year, such as "2015 Ohio". Features are standardised with the training
    pool.

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

    Examples
    --------
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
    data = cache.open_prepared(_NAME, home)
    given = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    years = {pool: [y] if isinstance(y, int) else y for pool, y in given.items()}
    if not len(years["train"]):
        raise InvalidInput("train must name a year, to standardise with.", parameter="train")
    prepared = data.facts["years"]
    for pool, year in ((pool, year) for pool, chosen in years.items() for year in chosen):
        if year not in prepared:
            text = f"{pool} must name prepared years, {', '.join(map(str, prepared))}, got {year}."
            raise InvalidInput(text, parameter=pool)
    groups = _StateYears(data, min_size)
    chosen = {pool: np.isin(data["year"], members) for pool, members in years.items()}
    return groups.pools({pool: groups.choose(pool, rows) for pool, rows in chosen.items()})


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
        As in `heart`.
    rng : int or numpy.random.Generator or None
        Seed.
    home : path_like, optional
        As in `heart`.

    Returns
    -------
    Pools
        A `GroupPool` for each pool that has state-years.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from metapac.fewshot import heart_groups
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
    >>> with tempfile.TemporaryDirectory() as home:
    ...     table = pathlib.Path(home, "heart.csv")
    ...     _ = table.write_text("year,state,label,age\\n2021,1,0,30\\n2022,39,1,65\\n")
    ...     _ = get_data_set("heart").prepare(table, home=home)
    ...     heart_groups(train=1, validation=0, calibration=1, test=0, rng=0, home=home).train
    <GroupPool 'train': 1 group, 1 example>
    """
    as_whole_number("train", train)  # all pools are standardised with this one
    sizes = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    data = cache.open_prepared(_NAME, home)
    groups = _StateYears(data, min_size)
    rows, left_out = groups.choose("the pools", np.ones(len(data["y"]), np.bool_))
    split = split_groups(rows, data["y"][rows], groups.codes[rows], **sizes, rng=rng)
    drawn = {name: pool.x for name, pool in vars(split).items() if pool is not None}
    return groups.pools({name: (chosen, left_out) for name, chosen in drawn.items()})


_ROWS = 2**16  # at a time


def state_name(fips: int) -> str:
    return str(_STATES.get(str(fips), f"state {fips}"))


class _StateYears:
    """The state-years of prepared surveys."""

    def __init__(self, data: cache.Prepared, min_size: int | None) -> None:
        self._data = data
        self._min_size = 1 if min_size is None else as_whole_number("min_size", min_size)
        self.codes = data["year"].astype(np.int32) * 100 + data["state"]  # (n,)
        _, inverse, sizes = np.unique(self.codes, return_inverse=True, return_counts=True)
        self._is_large = sizes[inverse] >= self._min_size  # (n,)

    def choose(self, pool: str, rows: NDArray[np.bool_]) -> tuple[Counts, str]:
        """Return those of the rows that belong to large state-years, and what was left out."""
        chosen = np.flatnonzero(rows & self._is_large)
        if rows.any() and not len(chosen):
            text = f"min_size must leave some state-years in {pool}, got {self._min_size}."
            raise InvalidInput(text, parameter="min_size")
        count = len(np.unique(self.codes[rows & ~self._is_large]))
        few = count_noun(count, "state-year")
        left_out = f", without {few} of fewer than {self._min_size} rows" if count else ""
        return chosen, left_out

    def pools(self, chosen: Mapping[str, tuple[Counts, str]]) -> Pools[GroupPool]:
        """Return pools, standardised with the mean and deviation of the training pool."""
        x, y = self._data["x"], self._data["y"]
        mean, deviation = _mean_and_deviation(x, chosen["train"][0])
        pools = {}
        for pool, (rows, left_out) in chosen.items():
            if len(rows):
                blocks = ((block - mean) / deviation for block in _blocks(x, rows))
                scaled = np.concatenate([block.astype(np.float32) for block in blocks])
                codes, inverse = np.unique(self.codes[rows], return_inverse=True)
                groups = np.array([f"{c // 100} {state_name(c % 100)}" for c in codes.tolist()])
                options: Any = {"name": pool + left_out, "classes": 2}  # even if nobody had one
                pools[pool] = GroupPool(scaled, y[rows], groups[inverse], **options)
        return Pools(**pools)


def _mean_and_deviation(x: Array, rows: Counts) -> tuple[Floats, Floats]:
    mean = sum(block.sum(0) for block in _blocks(x, rows)) / len(rows)
    squares = sum(np.square(block - mean).sum(0) for block in _blocks(x, rows))
    # Equal float32 numbers add up exactly in float64: the squares of a constant column are 0.
    return mean, np.where(squares == 0, 1.0, np.sqrt(squares / len(rows)))


def _blocks(x: Array, rows: Counts) -> Iterator[Floats]:
    for start in range(0, len(rows), _ROWS):
        yield x[rows[start : start + _ROWS]].astype(np.float64)


def missing(folder: PathLike) -> list[str]:
    try:
        files = _find_files(Path(folder))
        _open_sources(files, {}, ())  # reads their headers
    except (OSError, ValueError) as error:
        return [str(error)]
    years = {_parse_year(path) for path in files}
    absent = [f"LLCP{year}.XPT" for year in PAPER if year not in years]
    if not absent or not years & {*PAPER}:
        return []
    text = f"{', '.join(absent)} of the paper's years are not there: 'metapac data fetch heart'"
    return [f"{text} downloads them, and without them only the other years are prepared."]


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
    """Clean the surveys as the paper does; -1 and empty cells of a table are missing."""
    exclude = [exclude] if isinstance(exclude, str) else [*exclude]
    columns = {"year": year, "state": state, "label": label}
    files = _find_files(Path(folder))
    sources = _open_sources(files, columns, exclude)
    fill = partial(_clean, sources=sources, exclude=exclude, progress=progress)
    return cache.prepare(_NAME, files, fill, options={**columns, "exclude": exclude}, home=home)


def _clean(
    writer: cache.Writer, sources: Sequence[Source], exclude: Sequence[str], progress: Any
) -> dict[str, Any]:
    """Write the respondents whose label and kept features are known."""
    # A feature is kept if every file has it as numbers, not dates, and at most 5% of rows lack it.
    names, dropped = _usable_features(sources, exclude)
    where = sources[0].path if len(sources) == 1 else sources[0].path.parent
    read, missing = 0, np.zeros(len(names), np.int64)
    for source, block in _read(sources, names, progress, 0):
        _check_codes(source, *block[:, :3].T)
        read, missing = read + len(block), missing + np.isnan(block[:, 3:]).sum(0)
    kept = [name for name, count in zip(names, missing, strict=True) if 20 * count <= read]
    dropped["missing in more than 5 %"] = [name for name in names if name not in kept]
    if not kept:
        counts = _counts_text({reason: len(features) for reason, features in dropped.items()})
        raise InvalidInput(f"{where}: no feature is left; dropped are {counts}.")
    lost = dict.fromkeys(("label unknown", "year or state missing", "feature missing"), 0)
    groups, positive = Counter[int](), 0  # by year * 100 + state
    for source, block in _read(sources, kept, progress, read):
        known = block[_known_rows(source, block, lost)]
        label, year, state = known[:, :3].T
        writer.append("x", _as_single(source, kept, known[:, 3:]))
        writer.append("y", (label == _YES).astype(np.int8))
        writer.append("year", year.astype(np.int16))
        writer.append("state", state.astype(np.int16))
        groups.update((year * 100 + state).astype(np.int64).tolist())
        positive += int((label == _YES).sum())
    if not groups:
        raise InvalidInput(f"{where}: no row is left of {read}; dropped are {_counts_text(lost)}.")
    facts = _describe(read, dict(sorted(groups.items())), positive)
    facts |= {"rows dropped": lost, "features": kept, "features dropped": dropped}
    return facts | {"notes": _notes(facts)}


def _read(
    sources: Sequence[Source], features: Sequence[str], progress: Any, done: int
) -> Iterator[tuple[Source, Floats]]:
    """Yield the blocks of all files; ``done`` counts the rows of two readings."""
    total, report = 2 * sum(source.rows for source in sources), progress or _common.ignore_progress
    for source, block in ((s, block) for s in sources for block in s.blocks(features)):
        yield source, block
        done += len(block)
        report("reading surveys", done, total)


def _usable_features(
    sources: Sequence[Source], exclude: Sequence[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the usable features, and the others by the first reason to drop them."""
    columns = [*dict.fromkeys(n for source in sources for n in (*source.numeric, *source.text))]
    if unknown := [name for name in exclude if name not in columns]:
        text = f"exclude must name features, got {unknown[0]!r}; there are {', '.join(columns)}."
        raise InvalidInput(text, parameter="exclude")
    reasons = {
        "date or sequence number": {name for name in columns if name.upper() in _UNINFORMATIVE},
        "excluded": {*exclude},
        "text": set().union(*(source.text for source in sources)),
        "not in every year": set().union(*({*columns}.difference(s.numeric) for s in sources)),
    }
    dropped = {}
    for reason, names in reasons.items():
        dropped[reason] = [name for name in columns if name in names]
        columns = [name for name in columns if name not in names]
    return columns, dropped


def _check_codes(source: Source, label: Floats, year: Floats, state: Floats) -> None:
    """Raise if a label, year or state is impossible; each may be missing."""
    codes = sorted((_YES, source.no, *source.unknown))
    if len(wrong := np.setdiff1d(label[~np.isnan(label)], codes)):
        rule = f"the label {source.label} must be {', '.join(map(str, codes))} or missing"
        got = listed([f"{code:g}" for code in wrong])
        raise InvalidInput(f"{source.path}: {rule}, got {got}. {source.remedy}")
    for name, values, lowest, highest in (("year", year, 1000, 9999), ("state", state, 1, 99)):
        for wrong in np.setdiff1d(values[~np.isnan(values)], np.arange(lowest, highest + 1)):
            rule = f"the {name} must be a whole number from {lowest} to {highest}"
            raise InvalidInput(f"{source.path}: {rule}, got {wrong:g}.")


def _known_rows(source: Source, block: Floats, lost: dict[str, int]) -> NDArray[np.bool_]:
    """Return which rows to keep; count each dropped row under the first reason."""
    rows, unknown = np.ones(len(block), np.bool_), np.isnan(block)
    is_labelled = np.isin(block[:, 0], [_YES, source.no])
    conditions = is_labelled, ~unknown[:, 1:3].any(1), ~unknown[:, 3:].any(1)
    for reason, passed in zip(lost, conditions, strict=True):
        lost[reason] += int((rows & ~passed).sum())
        rows &= passed
    return rows


def _as_single(source: Source, names: Sequence[str], x: Floats) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # infinities are reported below
        single = x.astype(np.float32)
    for row, column in np.argwhere(~np.isfinite(single)):
        text = f"{source.path}: {names[column]} must be finite in single precision"
        raise InvalidInput(f"{text}, got {x[row, column]:g}. Correct it, or name it in exclude.")
    return single


def _describe(read: int, groups: Mapping[int, int], positive: int) -> dict[str, Any]:
    """Return counts of at least one kept row, as JSON can hold them."""
    rows, years = sum(groups.values()), sorted({code // 100 for code in groups})
    sizes = {y: [size for code, size in groups.items() if code // 100 == y] for y in years}
    counts = {"rows read": read, "rows kept": rows, "positive": positive}
    return {
        "classes": 2,
        "counts": counts | {"state-years": len(groups)},
        "splits": {str(y): {"state-years": len(n), "rows": sum(n)} for y, n in sizes.items()},
        "years": years,
        "share positive": positive / rows,
        "state-years": {f"{c // 100}-{c % 100:02}": size for c, size in groups.items()},
    }


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Describe what was kept and dropped, after any warnings."""
    dropped = facts["features dropped"].items()
    features = [f"{reason}: {listed(names, shown=8)}" for reason, names in dropped if names]
    rows = {reason: count for reason, count in facts["rows dropped"].items() if count}
    warnings = []
    if _LEAK in facts["features"]:
        text = f"{_LEAK} is kept, as in the paper, but the CDC computes it from the label: it leaks"
        warnings.append(f"{text} the label. Prepare the data again without this feature")
    if not {*PAPER} <= {*facts["years"]}:
        text = f"the paper's years {PAPER[0]} to {PAPER[-1]} are not all here: name years in"
        warnings.append(f"{text} heart(...), or draw state-years with heart_groups(...)")
    return [
        *warnings,
        f"{facts['share positive']:.2%} of {facts['counts']['rows kept']:,} rows are positive",
        f"features kept: {', '.join(facts['features'])}",
        f"features dropped: {'; '.join(features) or 'none'}",
        f"rows dropped: {_counts_text(rows) or 'none'}",
    ]


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what}: {count}" for what, count in counts.items())


def _find_files(folder: Path) -> list[Path]:
    """Return the yearly files or the table in a folder or, if it has none, in its folder heart."""
    if folder.is_file():
        return [folder]
    for place in (folder, folder / _NAME):
        files = [path for path in place.glob("*") if path.is_file()]
        tables = [path for path in files if path.name in _TABLES]
        years = sorted(filter(_parse_year, files), key=lambda path: (_parse_year(path), path))
        if len(tables) + bool(years) > 1:
            names = ", ".join(path.name for path in (*years, *tables))
            raise InvalidInput(f"{place} must hold yearly files or one table, got {names}.")
        if tables or years:
            return [*years, *tables]
    raise FileNotFoundError(errno.ENOENT, f"there must be {_EXPECTED}", str(folder))


@dataclass(frozen=True)
class Source:
    """A file of respondents; ``blocks`` of features yields label, year, state and features."""

    path: Path
    rows: int
    label: str
    no: int
    unknown: tuple[int, ...]
    remedy: str
    numeric: Sequence[str]
    text: Sequence[str]
    blocks: Callable[[Sequence[str]], Iterator[Floats]]


def _open_sources(
    files: Sequence[Path], columns: Mapping[str, str | None], exclude: Sequence[str]
) -> list[Source]:
    """Read the headers of a table, or of yearly files."""
    if files[0].suffix.lower() in (".parquet", ".csv"):
        return [_open_table(files[0], columns, exclude)]
    for option in (option for option, name in columns.items() if name is not None):
        raise InvalidInput(f"{option} is for a table, got {files[0].name}.", parameter=option)
    for path, other in pairwise(files):
        if _parse_year(path) == _parse_year(other):
            raise InvalidInput(f"{path} and {other} are of the same year. Delete one of them.")
    return [open_year(path) for path in files]


def _parse_year(path: Path) -> int | None:
    """Return the year in the name of a yearly file; some published names end in a space."""
    match = re.fullmatch(r"LLCP(\d{4})\.XPT *", path.name, re.IGNORECASE)
    return int(match[1]) if match else None


def open_year(path: Path) -> Source:
    """Read the header of a yearly file, a SAS transport file of version 5."""
    year = _parse_year(path)
    if year is None:
        raise InvalidInput(f"{path} must be named LLCP and a year, as LLCP2011.XPT, or be a table.")
    row, text, start, rows = _read_layout(path)
    names = row.names or ()
    for name in (_LABEL, _STATE):
        if name not in names:
            raise InvalidInput(f"{path} must have a column of numbers {name}. Remove that year.")

    def read_blocks(features: Sequence[str]) -> Iterator[Floats]:
        at_once = max(1, _BLOCK // row.itemsize)
        for first in range(0, rows, at_once):
            count, offset = min(at_once, rows - first), start + first * row.itemsize
            block = np.fromfile(path, row, count, offset=offset)
            label, *others = (_ibm_numbers(block[name]) for name in (_LABEL, _STATE, *features))
            yield np.stack([label, np.full(len(label), float(year)), *others], axis=1)

    numeric = [name for name in names if name not in (_LABEL, _STATE)]
    unknown = (7, 9)  # "do not know" and "refused"; not asked is blank
    return Source(path, rows, _LABEL, 2, unknown, _FETCH_AGAIN, numeric, text, read_blocks)


_FETCH_AGAIN = "Delete it and run 'metapac data fetch heart' again."
_CARD = 80  # bytes; every part of a SAS transport file is padded with blanks to a multiple of it
_BLOCK = 2**23  # bytes read at a time

# A number is a sign, seven bits of exponent to base 16, and up to 56 bits of fraction (IBM, 1964).
_FRACTION = np.uint64(2**56 - 1)
_LEAD = np.arange(256)  # the first byte: sign and exponent
_SCALE = np.where(_LEAD < 128, 1.0, -1.0) * np.ldexp(1.0, 4 * (_LEAD % 128 - 64) - 56)
_MISSING_LETTERS = np.isin(_LEAD, [*b"._ABCDEFGHIJKLMNOPQRSTUVWXYZ"])  # if the fraction is zero


def _ibm_numbers(column: NDArray[np.bytes_]) -> Floats:
    words = column.astype("S8").view(">u8").astype(np.uint64)  # short numbers end in zeros
    fraction, lead = words & _FRACTION, words >> np.uint64(56)
    numbers: Floats = fraction * _SCALE[lead]
    numbers[(fraction == 0) & _MISSING_LETTERS[lead]] = np.nan
    return numbers


def _read_layout(path: Path) -> tuple[np.dtype[np.void], list[str], int, int]:
    """Return the numeric columns as a row, the others' names, the first byte, and the rows."""
    with path.open("rb") as file:
        try:
            row, text = _read_columns(file)
            start = file.tell()
            return row, text, start, _count_rows(file, start, row.itemsize)
        except ValueError as error:
            why = f"is not a complete SAS transport file of version 5: {error}"
            raise InvalidInput(f"{path} {why}. {_FETCH_AGAIN}") from error


def _read_columns(file: IO[bytes]) -> tuple[np.dtype[np.void], list[str]]:
    _read_card(file, "LIBRARY", skip=2)
    member = _read_card(file, "MEMBER")
    _read_card(file, "DSCRPTR", skip=2)
    columns = _read_card(file, "NAMESTR")
    size, count = int(member[74:78]), int(columns[54:58])  # bytes per description, count
    raw = file.read(-(-size * count // _CARD) * _CARD)
    _read_card(file, "OBS")
    entry: Any = {"names": ["kind", "width", "name", "start"], "offsets": [0, 4, 8, 84]}
    entry |= {"formats": [">u2", ">u2", "S8", ">u4"], "itemsize": size}
    described = np.frombuffer(raw, np.dtype(entry), count)
    names = [name.decode("latin1").strip().upper() for name in described["name"].tolist()]
    kinds, widths, starts = (described[key].astype(int) for key in ("kind", "width", "start"))
    is_number, total = kinds == 1, int(widths.sum())
    fits = ((widths >= 2) & (widths <= 8))[is_number].all()
    if not total or (starts + widths).max() != total or not fits:
        raise ValueError("its columns do not make a row")
    numeric = np.flatnonzero(is_number)
    row: Any = {"offsets": starts[numeric].tolist(), "itemsize": total}
    row |= {"names": [names[i] for i in numeric], "formats": [f"S{widths[i]}" for i in numeric]}
    return np.dtype(row), [names[i] for i in np.flatnonzero(~is_number)]


def _read_card(file: IO[bytes], part: str, skip: int = 0) -> bytes:
    """Return the header card of a part of the file."""
    card = file.read(_CARD)
    start = f"HEADER RECORD*******{part:8}HEADER RECORD!!!!!!!".encode()
    if len(card) < _CARD or not card.startswith(start):
        raise ValueError(f"it has no {part} header where one belongs")
    file.seek(skip * _CARD, os.SEEK_CUR)
    return card


def _count_rows(file: IO[bytes], start: int, width: int) -> int:
    """Return the number of rows from ``start`` on; up to 79 blanks at the end are padding."""
    size = file.seek(0, os.SEEK_END) - start
    tail = min(size, _CARD - 1)
    file.seek(-tail, os.SEEK_END)
    padding = tail - len(file.read().rstrip(b" "))
    rows = -(-(size - padding) // width)
    if size % _CARD or rows * width > size:
        raise ValueError(f"it is truncated in row {rows} of {width} bytes")
    return rows


_USUAL_NAMES = {"label": ["label", "hadheartattack", _LABEL.lower()]}
_USUAL_NAMES |= {"year": ["year"], "state": ["state", "state_fips", "_state"]}
_MISSING_CODE = -1


def _open_table(path: Path, columns: Mapping[str, str | None], exclude: Sequence[str]) -> Source:
    """Read the header of a table."""
    with _readable(path) as (pyarrow, open_table):
        table = open_table()
        rows, names = table.count_rows(), table.schema.names
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InvalidInput(f"{path} has two columns {repeated[0]!r}. Rename one of them.")
    roles = [_find_column(path, role, columns.get(role), names) for role in _USUAL_NAMES]
    kinds = dict(zip(names, table.schema.types, strict=True))
    text = [name for name, kind in kinds.items() if not _is_numeric(kind)]
    dropped = {name for name in names if name.upper() in _UNINFORMATIVE or name in exclude}
    if needed := [name for name in text if name in roles or name not in dropped]:
        rule = f"{path} must hold numbers (states by FIPS), got others in {', '.join(needed)}."
        raise InvalidInput(rule, parameter="exclude")

    def read_blocks(features: Sequence[str]) -> Iterator[Floats]:
        # CSV says in its first rows what is a number, but not what is a whole one.
        double, boolean = pyarrow.float64(), pyarrow.bool_()
        read = ((name, kinds[name]) for name in (*roles, *features))
        types = [(name, boolean if kind == boolean else double) for name, kind in read]
        with _readable(path):
            for batch in open_table(schema=pyarrow.schema(types)).to_batches(batch_size=2**16):
                parts = [column.cast(double).to_numpy(zero_copy_only=False) for column in batch]
                block = np.stack(parts, axis=1)
                yield np.where(block == _MISSING_CODE, np.nan, block)

    no = 2 if roles[0].upper() == _LABEL else 0
    remedy = "7 and 9 are 'do not know' and 'refused' in BRFSS: make unknown labels -1 or empty."
    numeric = [name for name in names if name not in (*roles, *text)]
    return Source(path, rows, roles[0], no, (), remedy, numeric, text, read_blocks)


def _find_column(path: Path, role: str, name: str | None, names: Sequence[str]) -> str:
    """Return the column called ``name``, or by default the only one with a usual name."""
    usual = [column for column in names if column.lower() in _USUAL_NAMES[role]]
    matches = usual if name is None else [column for column in names if column == name]
    if len(matches) != 1:
        usual_name = name or _USUAL_NAMES[role]
        text = f"{path} must have one {role} {usual_name!r}, got {', '.join(names)}."
        raise InvalidInput(text, parameter=role)
    return matches[0]


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(of_kind(kind) for of_kind in kinds)


@contextmanager
def _readable(path: Path) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Lend pyarrow and what opens the table, and report errors with the name of the file."""
    pyarrow = _common.require("pyarrow", extra="data", purpose="a table of respondents")
    from pyarrow.dataset import dataset

    try:
        yield pyarrow, partial(dataset, path, format=path.suffix.lower()[1:])
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as a table of numbers ({error}).") from error

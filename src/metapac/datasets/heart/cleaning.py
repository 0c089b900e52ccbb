"""The paper's cleaning of the surveys: selection of features and respondents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac._types import Counts, Floats, Progress, ignore_progress
from metapac.datasets.heart.source import LEAK, PAPER, UNINFORMATIVE, Block, Coding, Source
from metapac.datasets.store.cache import Writer
from metapac.exceptions import InvalidInput, Parameter

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

    Parameters
    ----------
    sources : sequence of Source
        Files of respondents.
    writer : Writer
        Where the arrays go.
    exclude : sequence of str, optional
        Features to drop.
    progress : callable, optional
        Called as ``progress("reading surveys", rows_done, rows_total)``.

    Returns
    -------
    dict
        Facts: features, counts, what was dropped, and notes for the user.

    Raises
    ------
    InvalidInput
        If a value is impossible, or no feature or no row is left.
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
            "{} must name features, got {!r}; there are {}.",
            Parameter("exclude"),
            unknown[0],
            ", ".join(columns),
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
            f"{_checks.listed(counts)}. {coding.remedy}"
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
            "{}: {} must hold finite single-precision numbers, got {:g}. Correct it, or pass {}.",
            source.path,
            names[column],
            block.x[rows][row, column],
            Parameter("exclude", [names[column]]),
        )
    writer.append("x", x)
    writer.append("y", (block.label[rows] == source.coding.yes).astype(np.int8))
    writer.append("year", block.year[rows].astype(np.int16))
    writer.append("state", block.state[rows].astype(np.int16))


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Describe what was kept and dropped, after any warnings."""
    features = [
        f"{reason}: {_checks.listed(names, shown=8)}"
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

"""The paper's cleaning of the surveys: which features and which respondents are kept, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac.datasets.cache import Progress, Writer
from metapac.datasets.heart_source import LEAK, PAPER, UNINFORMATIVE, Block, Source
from metapac.datasets.heart_tally import Tally

_ONE_IN = 20  # a feature may be missing in 5 % of the rows
_RANGES = {"year": (1000, 9999), "state": (1, 99)}


def clean(
    sources: Sequence[Source],
    writer: Writer,
    *,
    leave_out: Sequence[str] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write x, y, year and state of the respondents that are kept, and return the facts.

    Kept are the features of every file that are neither dates nor text nor missing in more than
    5 % of all rows, and the respondents with a known label and none of these features missing.
    The files are read twice: to count what is missing, and to write what is not.
    """
    reading = _Reading(sources, progress)
    names, dropped = _shared(sources, leave_out)
    missing = _missing(reading, names)
    kept = [
        name for name, gaps in zip(names, missing, strict=True) if _ONE_IN * gaps <= reading.done
    ]
    dropped["missing in more than 5 %"] = [name for name in names if name not in kept]
    if not kept:
        counts = {reason: len(own) for reason, own in dropped.items()}
        raise ValueError(
            f"{_where(sources)}: no feature is left; dropped are {_listed(counts)}. Take out the "
            "years or the columns that lack the most."
        )
    tally = Tally()
    for source, block in reading.blocks(kept):
        rows = tally.kept(block, source.coding)
        _write(writer, source, block, rows, kept)
    if not tally.groups:
        raise ValueError(
            f"{_where(sources)}: no row is left of {tally.read}; dropped are "
            f"{_listed(tally.dropped)}. Check how its columns are coded."
        )
    facts = tally.facts() | {"features": kept, "features dropped": dropped}
    return facts | {"notes": _notes(facts)}


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Return what cleaning left and took, in words."""
    features = [
        f"{reason}: {_some(own)}" for reason, own in facts["features dropped"].items() if own
    ]
    rows = {reason: count for reason, count in facts["rows dropped"].items() if count}
    warnings = []
    if LEAK in facts["features"]:
        warnings.append(
            f"{LEAK} is kept, as in the paper's text, but the CDC computes it from the label: pass "
            f"--leave-out {LEAK} to predict heart attacks from anything else"
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
        f"rows dropped: {_listed(rows) or 'none'}",
    ]


class _Reading:
    """Goes through all files, once a call, and says how far it is on the way through two calls."""

    def __init__(self, sources: Sequence[Source], progress: Progress | None) -> None:
        self.sources, self.progress, self.done = sources, progress, 0
        known = [source.rows for source in sources if source.rows is not None]
        self.total = 2 * sum(known) if len(known) == len(sources) else None

    def blocks(self, features: Sequence[str]) -> Iterator[tuple[Source, Block]]:
        for source in self.sources:
            for block in source.blocks(features):
                yield source, block
                self.done += len(block.label)
                if self.progress is not None:
                    self.progress(self.done, self.total)


def _shared(
    sources: Sequence[Source], leave_out: Sequence[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the features that every file has, and all others by the reason to drop them."""
    text = {name for source in sources for name in source.text}
    everywhere = set.intersection(*({*source.numeric} for source in sources))
    columns = dict.fromkeys(n for source in sources for n in (*source.numeric, *source.text))
    unknown = [name for name in leave_out if name not in columns]
    if unknown:
        raise ValueError(
            f"leave_out must name features, got {unknown[0]!r}; there are {', '.join(columns)}."
        )
    reasons: dict[str, list[str]] = {
        "date or sequence number": [name for name in columns if name.upper() in UNINFORMATIVE],
        "left out as asked": [name for name in columns if name in leave_out],
        "text": [name for name in columns if name in text],
        "not in every year": [name for name in columns if name not in everywhere],
    }
    seen: set[str] = set()
    for own in reasons.values():  # the first reason counts
        own[:] = [name for name in own if name not in seen]
        seen.update(own)
    return [name for name in columns if name not in seen], reasons


def _missing(reading: _Reading, names: Sequence[str]) -> NDArray[np.int64]:
    """Return in how many rows each feature is missing; refuse what the rows cannot mean."""
    missing = np.zeros(len(names), np.int64)
    strange: dict[Path, Counter[float]] = {source.path: Counter() for source in reading.sources}
    for source, block in reading.blocks(names):
        missing += np.isnan(block.x).sum(0)
        own = source.coding
        known = np.isin(block.label, [own.yes, own.no, *own.unknown]) | np.isnan(block.label)
        strange[source.path].update(block.label[~known].tolist())
        for column, (least, most) in _RANGES.items():
            _refuse_fraction(source, column, getattr(block, column), least, most)
    for source in reading.sources:
        _refuse_strange(source, strange[source.path])
    return missing


def _refuse_fraction(
    source: Source, column: str, values: NDArray[Any], least: int, most: int
) -> None:
    wrong = (values < least) | (values > most) | (values != np.floor(values))
    wrong &= ~np.isnan(values)
    if wrong.any():
        raise ValueError(
            f"{source.path}: the {column} must be a whole number from {least} to {most}, got "
            f"{values[wrong][0]:g}. Correct those rows, or drop them."
        )


def _refuse_strange(source: Source, found: Counter[float]) -> None:
    if found:
        own = source.coding
        known = ", ".join(map(str, sorted((own.yes, own.no, *own.unknown))))
        counts = ", ".join(
            f"{value:g} in {count} rows" for value, count in sorted(found.items())[:5]
        )
        raise ValueError(
            f"{source.path}: the label {own.column} must be {known} or missing, got {counts}. "
            f"{own.remedy}"
        )


def _write(
    writer: Writer, source: Source, block: Block, rows: NDArray[np.bool_], names: Sequence[str]
) -> None:
    with np.errstate(over="ignore"):  # refused below
        x = block.x[rows].astype(np.float32)
    wrong = np.argwhere(~np.isfinite(x))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{source.path}: {names[column]} must hold finite numbers of single precision, got "
            f"{block.x[rows][row, column]:g}. Correct it, or pass leave_out=[{names[column]!r}]."
        )
    writer.append("x", x)
    writer.append("y", (block.label[rows] == source.coding.yes).astype(np.int8))
    writer.append("year", block.year[rows].astype(np.int16))
    writer.append("state", block.state[rows].astype(np.int16))


def _some(names: Sequence[str], shown: int = 8) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _where(sources: Sequence[Source]) -> Path:
    return sources[0].path if len(sources) == 1 else sources[0].path.parent


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what}: {count}" for what, count in counts.items())

"""The paper's cleaning against a slow reference, row by row, and invalid surveys."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot.datasets import heart
from metapac.fewshot.datasets.cache import Writer
from metapac.fewshot.datasets.heart_files import Block, Coding, Source

BRFSS = Coding("CVDINFR4", yes=1, no=2, unknown=(7, 9), remedy="Fetch it again.")
NAMES = ("A", "B", "C", "iday", "_PSU", "NOTE")


@dataclass(frozen=True)
class Rows:
    """Respondents in memory, two at a time."""

    year: int
    columns: dict[str, list[float]]
    label: list[float]
    state: list[float]
    text: Sequence[str] = ()
    coding: Coding = BRFSS
    years: list[float] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return Path("surveys", f"LLCP{self.year}.XPT")

    @property
    def rows(self) -> int:
        return len(self.label)

    @property
    def numeric(self) -> list[str]:
        return [name for name in self.columns if name not in self.text]

    def blocks(self, features: Sequence[str]) -> Iterator[Block]:
        years = self.years or [float(self.year)] * self.rows
        for start in range(0, self.rows, 2):
            rows = slice(start, start + 2)
            x = np.array([self.columns[name][rows] for name in features])
            x = x.reshape(len(features), -1).T
            yield Block(x, *(np.array(column[rows]) for column in (self.label, years, self.state)))

    def source(self) -> Source:
        return Source(self.path, self.rows, self.coding, self.numeric, self.text, self.blocks)


def clean(surveys: Sequence[Rows], writer: Writer, **options: Any) -> dict[str, Any]:
    return heart.clean([rows.source() for rows in surveys], writer, **options)


class MemoryWriter(Writer):
    """Collects in memory what the cleaning writes."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Any]] = defaultdict(list)

    def append(self, name: str, rows: Any) -> None:
        self.parts[name].append(rows)

    def __getitem__(self, name: str) -> Any:
        return np.concatenate(self.parts[name])


def rows_of(year: int = 2011, size: int = 4, **changes: Any) -> Rows:
    columns = {"A": [float(i) for i in range(size)], "B": [0.5] * size}
    rows = {"columns": columns, "label": [1.0, 2.0] * (size // 2), "state": [39.0] * size}
    return Rows(year, **rows | changes)


@st.composite
def surveys(draw: st.DrawFn) -> list[Rows]:
    """Some years with some of the columns, whose values are missing rarely, often or never."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    years = []
    for year in range(2011, 2011 + draw(st.integers(1, 3))):
        size = draw(st.integers(0, 40))
        names = [name for name in NAMES if name == "A" or rng.random() < 0.9]
        gaps = {name: 0.0 if name == "A" else rng.choice([0.02, 0.05, 0.1]) for name in names}
        columns = {
            name: np.where(rng.random(size) < gaps[name], nan, rng.integers(4, size=size)).tolist()
            for name in rng.permutation(names)
        }
        text = [name for name in names if name == "NOTE" or (name == "C" and rng.random() < 0.3)]
        label = rng.choice([1.0, 2.0, 2.0, 7.0, 9.0, nan], size).tolist()
        state = rng.choice([1.0, 39.0, 39.0, nan], size).tolist()
        years.append(Rows(year, columns, label, state, text))
    return years


def clean_row_by_row(years: list[Rows]) -> tuple[list[str], list[tuple[Any, ...]], Counter[str]]:
    """Return the features, the rows kept and the rows dropped, as the paper describes them."""
    total = sum(year.rows for year in years)
    features = []
    for name in NAMES:
        if name in ("iday", "_PSU") or any(name not in year.numeric for year in years):
            continue
        gaps = sum(isnan(value) for year in years for value in year.columns[name])
        if gaps <= total * 5 / 100:
            features.append(name)
    kept, dropped = [], Counter[str]()
    for year in years:
        for i in range(year.rows):
            values = tuple(year.columns[name][i] for name in features)
            if year.label[i] not in (1, 2):
                dropped["label unknown"] += 1
            elif isnan(year.state[i]):
                dropped["year or state missing"] += 1
            elif any(map(isnan, values)):
                dropped["feature missing"] += 1
            else:
                kept.append((year.year, year.state[i], int(year.label[i] == 1), values))
    return features, kept, dropped


@given(surveys())
def test_cleaning_agrees_with_the_reference(years: list[Rows]) -> None:
    features, rows, dropped = clean_row_by_row(years)
    written = MemoryWriter()
    if not rows:
        with pytest.raises(ValueError, match="no row is left of"):
            clean(years, written)
        return
    facts = clean(years, written)
    order = {name: i for i, name in enumerate(facts["features"])}
    assert {*order} == {*features}
    reasons = [name for names in facts["features dropped"].values() for name in names]
    assert sorted([*order, *reasons]) == sorted({n for year in years for n in year.columns})
    x = written["x"][:, [order[name] for name in features]]
    result = zip(written["year"], written["state"], written["y"], map(tuple, x), strict=True)
    assert list(result) == rows
    assert Counter(facts["rows dropped"]) == dropped
    kinds = {name: written[name].dtype for name in ("x", "y", "year", "state")}
    assert kinds == {"x": np.float32, "y": np.int8, "year": np.int16, "state": np.int16}
    groups = Counter(f"{year}-{int(state):02}" for year, state, _, _ in rows)
    assert facts["state-years"] == groups
    assert facts["share positive"] == np.mean([y for _, _, y, _ in rows])
    assert facts["counts"] == {
        "rows read": sum(year.rows for year in years),
        "rows kept": len(rows),
        "positive": sum(y for _, _, y, _ in rows),
        "state-years": len(groups),
    }
    sizes = Counter(year for year, _, _, _ in rows)
    assert facts["years"] == sorted(sizes)
    assert {int(year): split["rows"] for year, split in facts["splits"].items()} == sizes
    assert sum(split["state-years"] for split in facts["splits"].values()) == len(groups)


@pytest.mark.parametrize(("gaps", "kept"), [(5, True), (6, False)])
def test_a_feature_may_be_missing_in_exactly_5_percent(gaps: int, kept: bool) -> None:
    columns = {"A": [1.0] * 100, "B": [nan] * gaps + [1.0] * (100 - gaps)}
    facts = clean([rows_of(size=100, columns=columns)], MemoryWriter())
    assert ("B" in facts["features"]) is kept
    assert facts["rows dropped"]["feature missing"] == (gaps if kept else 0)
    assert facts["features dropped"]["missing in more than 5 %"] == ([] if kept else ["B"])


def test_missing_is_counted_over_all_years_and_all_rows() -> None:
    # 6 of 60 rows of one year, but 6 of 160 in all; and rows without a label count as well.
    few = {"A": [1.0] * 60, "B": [nan] * 6 + [1.0] * 54}
    years = [rows_of(2011, 60, columns=few), rows_of(2012, 100, label=[9.0] * 100)]
    assert clean(years, MemoryWriter())["features"] == ["A", "B"]


def test_dropped_features_have_a_reason() -> None:
    columns = ("SEQNO", "fmonth", "_PSU", "_MICHD", "NOTE", "OLD", "A")
    first = rows_of(columns={name: [1.0] * 4 for name in columns}, text=["SEQNO", "NOTE"])
    second = rows_of(2012, columns={name: [1.0] * 4 for name in columns if name != "OLD"})
    assert clean([first, second], MemoryWriter(), exclude=["_MICHD"])["features dropped"] == {
        "date or sequence number": ["fmonth", "_PSU", "SEQNO"],
        "excluded": ["_MICHD"],
        "text": ["NOTE"],
        "not in every year": ["OLD"],
        "missing in more than 5 %": [],
    }


@pytest.mark.parametrize(
    "name", ["IDATE", "imonth", "IDAY", "IYEAR", "FMONTH", "SEQNO", "_PSU", "_psu"]
)
def test_dates_and_sequence_numbers_are_dropped(name: str) -> None:
    columns = {name: [1.0, 2.0], "A": [1.0, 2.0]}
    facts = clean([rows_of(size=2, columns=columns)], MemoryWriter())
    assert facts["features"] == ["A"]
    assert facts["features dropped"]["date or sequence number"] == [name]


def test_rows_without_year_or_state_are_dropped() -> None:
    rows = rows_of(state=[1.0, 99.0, 1.0, nan], years=[1000.0, 9999.0, nan, 1000.0])
    facts = clean([rows], MemoryWriter())
    assert facts["state-years"] == {"1000-01": 1, "9999-99": 1}
    assert facts["rows dropped"]["year or state missing"] == 2


def test_progress_counts_two_passes_over_the_rows() -> None:
    seen: list[tuple[str, int, int | None]] = []
    years = [rows_of(2011), rows_of(2012, 2)]
    clean(years, MemoryWriter(), progress=lambda *call: seen.append(call))
    assert seen == [("reading surveys", done, 12) for done in (2, 4, 6, 8, 10, 12)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"label": [3.0, 1.0, 3.0, 0.0]},
            r"surveys/LLCP2011\.XPT: the label CVDINFR4 must be 1, 2, 7, 9 or missing, got 0 in 1 "
            r"rows, 3 in 2 rows\. Fetch it again\.",
        ),
        (
            {"state": [39.0, 39.5, 39.0, 39.0]},
            r"LLCP2011\.XPT: the state must be a whole number from 1 to 99, got 39\.5\. Correct",
        ),
        ({"state": [0.0] * 4}, "the state must be a whole number from 1 to 99, got 0"),
        ({"state": [100.0] * 4}, "the state must be a whole number from 1 to 99, got 100"),
        (
            {"years": [2011.0, 11.0] * 2},
            "the year must be a whole number from 1000 to 9999, got 11",
        ),
        (
            {"columns": {"A": [1.0, 1e60, 1.0, 1.0]}},
            r"LLCP2011\.XPT: A must hold finite single-precision numbers, got 1e\+60\. Correct "
            r"it, or pass exclude=\['A'\]\.",
        ),
        ({"columns": {"A": [1.0, 1.0, np.inf, 1.0]}}, "A must hold finite .* got inf"),
        (
            {"label": [9.0, nan, 1.0, 2.0], "state": [39.0, 39.0, nan, nan]},
            r"LLCP2011\.XPT: no row is left of 4; dropped are label unknown: 2, year or state "
            r"missing: 2, feature missing: 0\. Check",
        ),
        (
            {"columns": {"A": [nan] * 4, "IDAY": [1.0] * 4}},
            r"LLCP2011\.XPT: no feature is left; dropped are date or sequence number: 1, .* "
            r"missing in more than 5 %: 1\. Remove",
        ),
    ],
)
def test_impossible_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clean([rows_of(**changes)], MemoryWriter())


def test_several_years_without_a_row_are_named_by_their_folder() -> None:
    with pytest.raises(ValueError, match="^surveys: no row is left of 0"):
        clean([rows_of(2011, 0), rows_of(2012, 0)], MemoryWriter())


def test_the_file_with_a_strange_label_is_named() -> None:
    years = [rows_of(2011), rows_of(2012, label=[5.0] * 4)]
    with pytest.raises(ValueError, match=r"LLCP2012\.XPT: the label .* got 5 in 4 rows"):
        clean(years, MemoryWriter())


def test_an_unknown_feature_cannot_be_excluded() -> None:
    with pytest.raises(ValueError, match="exclude must name features, got '_X'; there are A, B"):
        clean([rows_of()], MemoryWriter(), exclude=["_X"])

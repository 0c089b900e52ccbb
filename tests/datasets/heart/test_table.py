"""Tables of respondents: read in batches, their columns known by name."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac.fewshot.datasets import heart_files
from metapac.fewshot.datasets.heart_files import Source, open_table

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet")

ROW = {"year": [2021, 2022], "state": [1, 39], "label": [0, 1], "a": [5, 6]}


def write(path: Path, columns: dict[str, Any]) -> Path:
    table = pa.table(columns)
    pc.write_csv(table, path) if path.suffix.lower() == ".csv" else pq.write_table(table, path)
    return path


def read(table: Source) -> dict[str, list[float]]:
    """Return all rows by column, with those of year, state and label by these names."""
    blocks = list(table.blocks(table.numeric))
    columns = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in ("label", "year", "state")
    }
    x = np.concatenate([block.x for block in blocks])
    columns |= {name: x[:, i] for i, name in enumerate(table.numeric)}
    return {name: values.tolist() for name, values in columns.items()}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
@settings(max_examples=15)
@given(data=st.data(), rows=st.integers(1, 30), batch=st.integers(1, 40))
def test_a_table_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    data: st.DataObject,
    rows: int,
    batch: int,
) -> None:
    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(values, min_size=rows, max_size=rows))

    counts = st.none() | st.integers(-1, 9)
    columns = {
        "a": pa.array(column(counts), pa.int8()),
        "STATE_fips": pa.array(column(counts), pa.int64()),
        "b": pa.array(column(st.none() | st.floats(-2, 2)), pa.float64()),
        "Year": pa.array(column(counts), pa.int16()),
        "c": pa.array(column(st.none() | st.booleans())),
        "HadHeartAttack": pa.array(column(counts), pa.float64()),
    }
    path = write(tmp_path_factory.getbasetemp() / f"table{suffix}", columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heart_files, "_ROWS", batch)
        table = open_table(path)
        result = read(table)
    assert list(table.numeric) == ["a", "b", "c"]
    known = {"state": "STATE_fips", "year": "Year", "label": "HadHeartAttack"}
    for name, values in result.items():
        written = columns[known.get(name, name)].to_pylist()
        expected = [np.nan if v is None or v == -1 else float(v) for v in written]
        np.testing.assert_array_equal(values, expected)


def test_parquet_comes_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heart_files, "_ROWS", 10)
    path = write(tmp_path / "x.parquet", {name: values * 50 for name, values in ROW.items()})
    table = open_table(path)
    assert table.rows == 100
    assert {len(block.label) for block in table.blocks(["a"])} == {10}


def test_csv_comes_in_batches_and_may_change_its_mind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whole numbers, or nothing at all, in the first block say nothing of the next.
    monkeypatch.setattr(heart_files, "_BYTES", 60)
    lines = ["year,state,label,a,b", *["2021,1,0,1,"] * 20, "2021,1,0,2.5,3", "2021,1,0,NA,nan"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    table = open_table(tmp_path / "x.csv")
    assert len(list(table.blocks(["a"]))) > 2
    assert table.rows is None
    np.testing.assert_array_equal(read(table)["a"], [1.0] * 20 + [2.5, np.nan])
    np.testing.assert_array_equal(read(table)["b"], [np.nan] * 20 + [3, np.nan])


def test_unusual_columns_of_numbers(tmp_path: Path) -> None:
    columns = ROW | {
        "d": pa.array([Decimal("1.5"), None]),
        "e": pa.array([3, -1], pa.int8()).dictionary_encode(),
        "f": pa.nulls(2),
    }
    result = read(open_table(write(tmp_path / "x.parquet", columns)))
    np.testing.assert_array_equal(
        [result[n] for n in "def"], [[1.5, np.nan], [3, np.nan], [np.nan] * 2]
    )


@pytest.mark.parametrize(
    ("label", "yes", "no"), [("label", 1, 0), ("HADHEARTATTACK", 1, 0), ("cvdinfr4", 1, 2)]
)
def test_labels_are_known_by_name(tmp_path: Path, label: str, yes: int, no: int) -> None:
    columns = {label: [yes, no], "year": [2021] * 2, "_STATE": [1] * 2, "a": [1] * 2}
    coding = open_table(write(tmp_path / "x.parquet", columns)).coding
    assert (coding.column, coding.yes, coding.no, coding.unknown) == (label, yes, no, ())


def test_columns_may_be_named(tmp_path: Path) -> None:
    columns = ROW | {"when": [2011, 2012], "where": [4, 5], "what": [1, 0]}
    path = write(tmp_path / "x.parquet", columns)
    table = open_table(path, year="when", state="where", label="what")
    (block,) = table.blocks([])
    assert (block.year.tolist(), block.state.tolist()) == ([2011, 2012], [4, 5])
    assert (block.label.tolist(), block.x.shape) == ([1, 0], (2, 0))
    assert list(table.numeric) == ["year", "state", "label", "a"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"years": [1], "state": [1], "label": [1]},
            {},
            r"x\.csv must have one column named year for the year, got 0\. Pass year with one "
            r"of: years, state, label\.",
        ),
        (
            ROW | {"State_FIPS": [1, 2]},
            {},
            r"named state or state_fips or _state for the state, got 2\. Pass state with",
        ),
        (
            ROW,
            {"label": "heart"},
            r"must have one column 'heart' for the label, got 0\. Pass label with one",
        ),
        (ROW, {"label": "A"}, "must have one column 'A' for the label, got 0"),
        (
            ROW | {"city": ["x", "y"], "note": ["x", "y"]},
            {"exclude": ["note"]},
            r"x\.csv must hold numbers, got other columns: city \(string\)\. Code them as numbers",
        ),
        (
            ROW | {"state": ["Ohio", "Utah"]},
            {"exclude": ["state"]},
            r"got other columns: state \(string\)\. Code them as numbers \(states by FIPS\)",
        ),
    ],
)
def test_columns_that_are_not_there_or_not_numbers_are_refused(
    tmp_path: Path, columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        open_table(write(tmp_path / "x.csv", columns), **options)


def test_text_that_is_dropped_by_name_is_no_fault(tmp_path: Path) -> None:
    columns = ROW | {"IDATE": ["x", "y"], "city": ["x", "y"]}
    table = open_table(write(tmp_path / "x.parquet", columns), exclude=["city"])
    assert (list(table.numeric), list(table.text)) == (["a"], ["IDATE", "city"])


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("year,state,label,a,a\n2021,1,0,1,2\n")
    with pytest.raises(ValueError, match=r"x\.csv has two columns 'a'\. Rename one of them\."):
        open_table(tmp_path / "x.csv")


def test_text_further_down_is_refused_with_its_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heart_files, "_BYTES", 60)
    lines = ["a,year,state,label", *["1,2021,1,0"] * 20, "x,2021,1,0"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    message = r"x\.csv cannot be read as a table of numbers \(In column a: .* 'x'\)\. Correct it"
    with pytest.raises(ValueError, match=message):
        read(open_table(tmp_path / "x.csv"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", b""),
        ("x.csv", b"year,state,label,a\n2021,1,0\n"),
        ("x.csv", b"year,state,label,\xff\xfe\n2021,1,0,1\n"),
        ("x.parquet", b""),
        ("x.parquet", b"year,state,label,a\n2021,1,0,1\n"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    message = rf"{name} cannot be read as a table of numbers \(.*\)\. Correct it, or write it again"
    with pytest.raises(ValueError, match=message):
        read(open_table(tmp_path / name))


def test_damage_inside_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {name: values * 500 for name, values in ROW.items()})
    raw = bytearray(path.read_bytes())
    raw[4:200] = bytes(196)
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"x\.parquet cannot be read as a table of numbers"):
        read(open_table(path))


def test_other_faults_keep_their_kind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"x\.csv"):
        open_table(tmp_path / "x.csv")


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = r"a table of respondents needs pyarrow\. .*: pip install 'metapac\[data\]'"
    with pytest.raises(ModuleNotFoundError, match=message):
        open_table(tmp_path / "x.csv")

"""Sheets and Arrow files become tables whose columns are numbers, booleans or text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

from metapac.exceptions import EngineError
from metapac.tables import calibrate_table
from metapac.tables.io.workbooks import read_arrow, read_sheet
from tests.helpers.workbooks import write_workbook

ROWS: list[list[Any]] = [
    ["site", "score", "n", "mixed", "flag", None],
    ["a", 0.25, 1, 7, True, 0],
    ["b", 1, 2, "x", False, 1],
    [None, 0.1, None, 0.5, None, 2],
]


def test_cells_keep_their_types(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": ROWS})
    table = read_sheet(tmp_path / "a.xlsx", None)
    assert table.to_pydict() == {
        "site": ["a", "b", None],
        "score": [0.25, 1.0, 0.1],
        "n": [1, 2, None],
        "mixed": ["7", "x", "0.5"],
        "flag": [True, False, None],
        "Unnamed: 5": [0, 1, 2],
    }
    assert [str(kind) for kind in table.schema.types[:3]] == ["string", "double", "int64"]


def test_one_of_several_sheets_must_be_named(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": ROWS, "two": [["x"], [1]]})
    assert read_sheet(tmp_path / "a.xlsx", "two").to_pydict() == {"x": [1]}
    with pytest.raises(ValueError, match="a.xlsx holds several sheets; it has: one, two. Pass one"):
        read_sheet(tmp_path / "a.xlsx", None)
    with pytest.raises(ValueError, match="a.xlsx has no sheet 'three'; it has: one, two"):
        read_sheet(tmp_path / "a.xlsx", "three")


def test_empty_sheets_are_rejected(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": []})
    with pytest.raises(ValueError, match="a.xlsx, sheet one is empty. Write the column names in i"):
        read_sheet(tmp_path / "a.xlsx", None)
    write_workbook(tmp_path / "b.xlsx", {"one": [["x", "x"], [1, 2]]})
    with pytest.raises(ValueError, match="b.xlsx, sheet one has two columns named 'x'. Rename on"):
        read_sheet(tmp_path / "b.xlsx", None)


def test_a_damaged_workbook_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(EngineError, match="a.xlsx cannot be read"):
        calibrate_table(tmp_path / "a.xlsx", task="a", epsilon=0.1, alpha=0.1, delta=0.1)


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": ROWS})
    code = (
        "import sys; sys.modules['python_calamine'] = None; from metapac.tables import open_table; "
        f"open_table({str(tmp_path / 'a.xlsx')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "a.xlsx: reading a workbook needs python_calamine. Install it with" in done.stderr
    assert "metapac[excel]" in done.stderr


def test_arrow_files_may_have_other_columns(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"a": [1], "b": ["x"]}), tmp_path / "a.feather")
    feather.write_feather(pa.table({"a": [2]}), tmp_path / "b.feather")
    table = read_arrow([tmp_path / "a.feather", tmp_path / "b.feather"])
    assert table.to_pydict() == {"a": [1, 2], "b": ["x", None]}


def test_the_index_of_pandas_is_a_column_like_any_other(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=[5, 7])
    feather.write_feather(pa.Table.from_pandas(frame), tmp_path / "a.feather")
    table = read_arrow([tmp_path / "a.feather"])
    assert table.column_names == ["a", "__index_level_0__"]
    assert table.schema.metadata is None

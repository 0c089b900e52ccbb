"""Sheets and Arrow files become tables whose columns are numbers, booleans or text."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

from metapac.tables.files import read_arrow, read_sheet
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


def test_whole_numbers_beyond_exact_ones_remain_floats(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": [["x", "y"], [2.0**53, 1e300], [1, 2]]})
    types = read_sheet(tmp_path / "a.xlsx", None).schema.types
    assert [str(kind) for kind in types] == ["int64", "double"]


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
    with pytest.raises(ValueError, match="b.xlsx, sheet one has columns 'x' and 'x'"):
        read_sheet(tmp_path / "b.xlsx", None)


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": ROWS})
    code = (
        "import sys; sys.modules['python_calamine'] = None; from metapac import open_table; "
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


FAR = {  # cells far from the table, as a file can name them
    "reference": '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    "far enough": '<row r="1000000"><c r="CV1000000"><v>1</v></c></row>',
    "spaces": '<row r="9"><c s="1"\n r = \'xfd1048576\' ><v>1</v></c></row>',
    "quoted": '<row r="9"><c s=">" r="XFD1048576"><v>1</v></c></row>',
    "prefix": '<x:row r="9"><x:c r="XFD1048576"><x:v>1</x:v></x:c></x:row>',
    "no references": "<row><c><v>1</v></c></row>" * 3000 + f"<row>{'<c><v>1</v></c>' * 3000}</row>",
    "twice": '<row><c r="A2" r="XFD1048576"><v>1</v></c></row>',
    "not closed": '<row><a></b><c s="" r="XFD1048576"><v>1</v></c></row>',
}
ODS = (
    '<office:document-content><table:table table:name="one"><table:table-row>'
    '<table:table-cell office:value-type="float" office:value="1"/></table:table-row>{}'
    "</table:table></office:document-content>"
)
FAR_ODS = (
    '<table:table-row table:number-rows-repeated="1000000"><table:table-cell '
    'office:value-type="float" office:value="1" table:number-columns-repeated="90"/>'
    "</table:table-row>"
)
EMPTY_ODS = (
    '<table:table-row table:number-rows-repeated="1000000"><table:table-cell '
    'table:number-columns-repeated="16384"/></table:table-row>'
)
OPEN = """
import sys
from metapac.errors import MetapacError
from metapac import open_table
for path in sys.argv[1:]:
    try:
        open_table(path)
        print(path, "was read")
    except MetapacError as error:
        print(error)
"""


def add_rows(path: Path, rows: str) -> Path:
    """Write a sheet whose last rows are these."""
    write_workbook(path, {"one": ROWS})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace("</sheetData>", f"{rows}</sheetData>")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def write_ods(path: Path, rows: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest:manifest/>")
        archive.writestr("content.xml", ODS.format(rows))
    return path


def open_apart(*paths: Path) -> list[str]:
    """Return what opening each file says, in a process that the files may end."""
    run = subprocess.run(
        [sys.executable, "-c", OPEN, *map(str, paths)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_far_cell_in_a_small_file_is_refused(tmp_path: Path) -> None:
    files = [add_rows(tmp_path / f"{i}.xlsx", rows) for i, rows in enumerate(FAR.values())]
    *said, twice, unclosed, ods = open_apart(*files, write_ods(tmp_path / "a.ods", FAR_ODS))
    for path, text in zip(files, said, strict=False):
        assert re.match(rf"{path} is small, but its part xl/worksheets/sheet1.xml", text)
        assert "Delete stray cells far from the table, or save the sheet as CSV." in text
    assert "17,179,869,184 cells" in said[0]
    assert "cannot be read (duplicate attribute" in twice
    assert "cannot be read (mismatched tag" in unclosed
    assert "but its part content.xml reaches over 90,000,090 cells" in ods


@pytest.mark.parametrize(
    "rows",
    [
        '<row r="1048576"><c r="XFD1048576" s="1"/></row>',  # formatted, but empty
        '<row r="90000"><c r="Z90000"><v>1</v></c></row>',
        "<row><c><v>1</v></c></row>",
    ],
)
def test_a_stray_cell_is_read(tmp_path: Path, rows: str) -> None:
    table = read_sheet(add_rows(tmp_path / "a.xlsx", rows), None)
    assert table.column("score").to_pylist()[:3] == [0.25, 1.0, 0.1]


def test_empty_cells_of_open_document_are_read(tmp_path: Path) -> None:
    assert read_sheet(write_ods(tmp_path / "a.ods", EMPTY_ODS), None).column_names == ["1"]


def test_an_arrow_file_with_wrong_offsets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    sites = pa.array([f"site {i:03}" for i in range(500)], pa.large_string())
    with pa.ipc.new_file(path, pa.schema({"site": sites.type})) as writer:
        writer.write_batch(pa.record_batch({"site": sites}))
    content = path.read_bytes()
    offsets = np.arange(501) * 8
    assert content.count(offsets.tobytes()) == 1
    path.write_bytes(content.replace(offsets.tobytes(), (offsets + 2**40).tobytes()))
    (said,) = open_apart(path)
    assert "a.arrow cannot be read (Column 0: In chunk 0: Invalid" in said

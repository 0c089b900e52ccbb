"""Yearly files: recognised by name, with label and state separate from the features."""

from __future__ import annotations

from pathlib import Path

import pytest

from metapac.fewshot.datasets.heart_files import find_yearly_files, open_years, parse_year
from tests.helpers.sas_files import write_transport


@pytest.mark.parametrize(
    ("name", "year"),
    [
        ("LLCP2011.XPT", 2011),
        ("llcp2020.xpt ", 2020),
        ("LLCP2011.XPT.zip", None),
        ("CDBRFS10.XPT", None),
        ("LLCP20111.XPT", None),
    ],
)
def test_the_year_is_in_the_name(name: str, year: int | None) -> None:
    assert parse_year(Path(name)) == year


def test_files_come_in_the_order_of_their_years(tmp_path: Path) -> None:
    for name in ("LLCP2013.XPT", "LLCP2012.XPT ", "notes.txt", "llcp2011.xpt"):
        (tmp_path / name).touch()
    (tmp_path / "LLCP2010.XPT").mkdir()
    assert [parse_year(path) for path in find_yearly_files(tmp_path)] == [2011, 2012, 2013]


def test_a_year_is_a_source_of_respondents(tmp_path: Path) -> None:
    columns: dict[str, list[float | str]] = {
        "_STATE": [1.0, 39.0],
        "IDATE": ["01022012", "01032012"],
        "CVDINFR4": [1.0, 2.0],
        "AGE": [40.0, 50.0],
    }
    write_transport(tmp_path / "LLCP2011.XPT", columns, text={"IDATE": 8})
    (source,) = open_years([tmp_path / "LLCP2011.XPT"])
    assert (source.rows, source.numeric, source.text) == (2, ["AGE"], ["IDATE"])
    (block,) = source.blocks(["AGE"])
    assert block.x.tolist() == [[40.0], [50.0]]
    assert block.label.tolist() == [1.0, 2.0]
    assert block.year.tolist() == [2011.0, 2011.0]  # the file's, not the interview's
    assert block.state.tolist() == [1.0, 39.0]

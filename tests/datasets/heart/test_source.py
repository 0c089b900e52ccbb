"""Sources of respondents: a yearly file and a table of the same answers look the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metapac.fewshot.datasets.heart_files import (
    LABEL,
    LEAK,
    PAPER,
    STATE,
    UNINFORMATIVE,
    open_table,
    open_years,
)
from tests.helpers.sas_files import write_transport


def test_a_yearly_file_and_a_table_are_the_same_source(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    columns: dict[str, list[float | str]] = {STATE: [1, 39], LABEL: [1, 2], "AGE": [40, 50]}
    write_transport(tmp_path / "LLCP2011.XPT", columns)
    (tmp_path / "x.csv").write_text(f"year,{STATE},{LABEL},AGE\n2011,1,1,40\n2011,39,2,50\n")
    (year,), table = open_years([tmp_path / "LLCP2011.XPT"]), open_table(tmp_path / "x.csv")
    assert year.numeric == table.numeric == ["AGE"]
    assert (year.coding.column, year.coding.yes, year.coding.no) == (LABEL, 1, 2)
    assert (table.coding.column, table.coding.yes, table.coding.no) == (LABEL, 1, 2)
    (one,), (other,) = (list(source.blocks(["AGE"])) for source in (year, table))
    for name in ("x", "label", "year", "state"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_label_state_and_leak_are_not_dropped_as_dates() -> None:
    assert not {LABEL, STATE, LEAK} & UNINFORMATIVE
    assert all(name == name.upper() for name in UNINFORMATIVE)  # compared in upper case
    assert [*PAPER] == list(range(2011, 2021))

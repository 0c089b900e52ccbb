"""Checks of columns that the table functions share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metapac.tables import errors
from tests.helpers.tables import calibrate_table

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


def test_columns_that_differ_only_in_case_are_rejected(tmp_path: Path) -> None:
    frame = pd.DataFrame({"S": [0.5], "s": [0.25], "task": ["a"]})
    with pytest.raises(
        ValueError, match="the pandas frame has columns 'S' and 's', which differ at most"
    ):
        calibrate_table(frame, task="task", score="s", **PROMISE)
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(
        ValueError, match="a.csv has columns 'S' and 's', which differ at most in case"
    ):
        calibrate_table(tmp_path / "a.csv", task="task", score="s", **PROMISE)


def test_columns_are_named_by_strings_and_typos_are_recognised() -> None:
    frame = pd.DataFrame({"task": ["a"], "note": ["x"], "score": [0.5]})
    with pytest.raises(ValueError, match="task must be the name of a column as a string, got Ser"):
        calibrate_table(frame, task=frame.task, score="score", **PROMISE)
    with pytest.raises(ValueError, match=r"it has: task, note, score. Did you mean 'score'\?"):
        calibrate_table(frame, task="task", score="Scoer", **PROMISE)
    wide = pd.DataFrame({f"c{i}": [1.0] for i in range(200)})
    with pytest.raises(ValueError, match=r"c28, c29 and 170 more\."):
        calibrate_table(wide, task="task", score="score", **PROMISE)


def test_counts_have_the_right_noun() -> None:
    assert [errors.pluralize(count, "row") for count in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


@pytest.mark.parametrize(
    "names", [{"task": "empty", "score": "s"}, {"task": "t", "score": "empty"}]
)
def test_a_column_of_nulls_is_called_empty(tmp_path: Path, names: dict[str, Any]) -> None:
    table = pa.table({"t": ["a", "b"], "s": [0.5, 0.25], "empty": pa.nulls(2)})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(
        ValueError, match="column 'empty' must hold .*, got a column without values"
    ):
        calibrate_table(tmp_path / "a.parquet", **names, **PROMISE)

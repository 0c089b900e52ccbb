"""Names of training tasks on the command line: tables, lists in files, and lists as typed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from metapac import InvalidInput
from metapac.cli.options import read_task_names


def test_names_as_typed() -> None:
    assert read_task_names("ohio, texas,,") == ["ohio", "texas"]


def test_tables_give_their_distinct_tasks(tmp_path: Path) -> None:
    frame = pd.DataFrame({"site": ["b", "a", "b", None], "x": 1.0})
    frame.to_parquet(tmp_path / "train.parquet")
    assert sorted(read_task_names(str(tmp_path / "train.parquet"), "site")) == ["a", "b"]
    with pytest.raises(InvalidInput, match="must have the task column 'hospital', or a single col"):
        read_task_names(str(tmp_path / "train.parquet"), "hospital")


def test_a_table_of_one_column_is_a_list(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("names\nohio\ntexas\n")
    assert sorted(read_task_names(str(tmp_path / "train.csv"), "site")) == ["ohio", "texas"]


def test_text_files_have_a_name_in_each_line(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("\ufeffohio\n\n texas \n", encoding="utf-8")
    assert read_task_names(str(tmp_path / "train.txt")) == ["ohio", "texas"]
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="a task name in each line, as UTF-8 text"):
        read_task_names(str(tmp_path / "bad.txt"))


def test_what_names_no_task_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no file gone.parquet"):
        read_task_names("gone.parquet")
    with pytest.raises(InvalidInput, match="trained_on names no task, got ' , '"):
        read_task_names(" , ")

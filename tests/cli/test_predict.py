"""``metapac predict``: the sets it writes and prints."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
from pyarrow import parquet

from metapac import load
from tests.helpers.commands import (
    CLASSES,
    metapac,
    write_csv,
)


def test_predict_adds_sets(csv_promise: Path, tmp_path: Path) -> None:
    cut = load(csv_promise).threshold_
    rows = [["x,1", cut, 0.0, 1.0], ["y\n2", 0.0, 0.0, np.nextafter(cut, 0)]]
    table = write_csv(tmp_path / "new.csv", ["id", "p_cat", "p_great owl", "p_\N{DOG}"], rows)
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 0, result.output
    with (tmp_path / "sets.csv").open(newline="", encoding="utf-8") as file:
        header, *written = list(csv.reader(file))
    assert header == ["id", "p_cat", "p_great owl", "p_\N{DOG}", "set", "set_size"]
    assert [row[0] for row in written] == ["x,1", "y\n2"]
    assert json.loads(written[0][4]) == ["cat", "\N{DOG}"]
    assert [row[5] for row in written] == ["2", "0"]
    assert "2 sets of 3 classes (cat, great owl, \N{DOG}) written to" in result.stdout
    printed = metapac("predict", csv_promise, table)
    assert printed.stdout == (tmp_path / "sets.csv").read_text(encoding="utf-8")


def test_predict_keeps_the_order_of_many_rows(csv_promise: Path, tmp_path: Path) -> None:
    rows = [[i, 1.0] for i in range(300_000)]
    table = write_csv(tmp_path / "new.csv", ["id", "p_a"], rows)
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert "300000 sets of 1 class (a) written" in result.stdout
    with (tmp_path / "sets.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [str(i) for i in range(300_000)]


def test_predict_with_other_column_names(csv_promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["cat score", "dog score", "p_x"], [[1, 0, "text"]])
    result = metapac("predict", csv_promise, table, "--columns", "* score")
    assert '1,0,text,"[""cat""]",1' in result.stdout


def test_a_failed_prediction_leaves_no_file(csv_promise: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ["p_a"], [[0.1], ["nan"]])
    result = metapac("predict", csv_promise, table, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 2
    assert not (tmp_path / "sets.csv").exists()


def test_predict_to_parquet(
    frame: pd.DataFrame, table: Path, promise: Path, tmp_path: Path
) -> None:
    result = metapac("predict", promise, table, "-o", tmp_path / "sets.parquet")
    assert result.exit_code == 0, result.output
    assert "2400 sets of 3 classes (cat, dog, owl) written to" in result.stdout
    written = parquet.read_table(tmp_path / "sets.parquet")
    in_set = load(promise).predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    assert written["set"].to_pylist() == [CLASSES[row].tolist() for row in in_set]
    result = metapac("predict", promise, table, "--booleans", "-o", tmp_path / "sets.parquet")
    assert result.exit_code == 0, result.output
    marked = parquet.read_table(tmp_path / "sets.parquet")
    assert marked["in_dog"].to_pylist() == in_set[:, 1].tolist()


def test_predict_to_the_screen_as_json_lists(table: Path, promise: Path) -> None:
    result = metapac("predict", promise, table, "--columns", "probs", "--classes", "a,b,c")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert len(rows) == 2400
    assert {label for row in rows for label in json.loads(row["set"])} == {"a", "b", "c"}

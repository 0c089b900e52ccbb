"""Scores of classes: columns or lists, as floats of one precision."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from metapac.columns import Columns
from metapac.tables.scores import find_class_scores
from metapac.tables.sources import open_source
from tests.helpers.engines import connection
from tests.helpers.tables import calibrate_table

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


def find(table: Any, **columns: Any) -> Any:
    source = open_source(table, connection=connection("duckdb"))
    return find_class_scores(source, Columns(**columns))


def test_columns_that_match_are_classes_in_their_order() -> None:
    table = pa.table({name: [0.5] for name in ("p_b", "q", "p_a", "p_", "p_y")})
    result = find(table, label="p_y")
    assert result.names == ["b", "a"]
    assert result.columns == ("p_b", "p_a")
    assert find(table, classes=["a", "b"]).columns == ("p_a", "p_b")
    assert find(pa.table({"a_score": [1], "b_score": [2]}), columns="*_score").names == ["a", "b"]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["float32", "float32"], np.float32),
        (["float32", "float64"], np.float64),
        (["float32", "int8"], np.float64),
    ],
)
def test_scores_have_one_precision(kinds: list[str], expected: Any) -> None:
    table = pa.table({f"p_{i}": pa.array([1], kind) for i, kind in enumerate(kinds)})
    result = find(table)
    assert result.precision == expected
    assert {str(score.type()) for score in result.scores} == {np.dtype(expected).name}


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_positions_in_lists_are_classes(kind: str) -> None:
    table = pa.table({"l": pa.array([[0.1, 0.2], [0.3, 0.4]], pa.list_(pa.type_for_alias(kind)))})
    result = find(table, columns="l")
    assert (result.names, result.columns) == ([0, 1], ("l",))
    assert result.precision == np.dtype(kind)
    assert find(table, columns="l", classes=["no", "yes"]).names == ["no", "yes"]


def test_text_among_the_numbers_of_sqlite_is_rejected(tmp_path: Path) -> None:
    there = sqlite3.connect(tmp_path / "data.sqlite")
    there.execute("CREATE TABLE scores (task TEXT, score INTEGER)")
    there.execute("INSERT INTO scores VALUES ('a', 1), ('a', 'high'), ('b', 2.5)")
    there.commit()
    there.close()
    with pytest.raises(ValueError, match=r"the scores hold 1 null out of 3 values \(by task, 'a'"):
        calibrate_table(tmp_path / "data.sqlite", task="task", score="score", **PROMISE)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
@pytest.mark.parametrize("text", ["0x1p3", "1f", "1_0", "", "nan", "1e", "--1"])
def test_engines_parse_the_numbers_that_python_parses(
    text: str, engine: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(f"task,score\na, 1.5e-3 \na,-Infinity\na,inf\na,.5\na,{text}\n")
    message = f"line 6: column 'score' holds '{text}', which is not a number"
    with pytest.raises(ValueError, match=re.escape(message)):
        calibrate_table(
            tmp_path / "a.csv", task="task", score="score", **PROMISE,
            connection=connection(engine),
        )  # fmt: skip

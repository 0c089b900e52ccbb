"""The sizes of tasks are counted by the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from metapac import Columns, InvalidInput, open_table
from tests.helpers.engines import ENGINES, put


def count(source: Any, **columns: Any) -> Any:
    return open_table(source, Columns(**columns)).sizes(by_class="label" in columns)


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_are_sorted(engine: str) -> None:
    frame = pd.DataFrame({"site": ["b", "a", "b", "c", "b", "c"], "score": 0.5})
    assert count(put(engine, frame), task="site")[None].tolist() == [1, 2, 3]


def test_rows_without_a_task_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="column 'g' is missing in 2 rows; an example must bel"):
        count(pa.table({"g": ["a", None, None]}), task="g")
    (tmp_path / "a.csv").write_text('g,s\na,1\n"",2\n')
    with pytest.raises(InvalidInput, match="a.csv, line 3: column 'g' is empty"):
        count(tmp_path / "a.csv", task="g")


def test_a_table_without_rows_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="holds no rows. Pass at least one labelled example."):
        count(pa.table({"g": pa.array([], pa.string())}), task="g")


def test_the_task_is_given_by_its_name() -> None:
    with pytest.raises(InvalidInput, match="task must be the name of a column as a string, got"):
        count(pa.table({"g": ["a"]}), task=["g"])
    with pytest.raises(InvalidInput, match="has no column 'site'; it has: g"):
        count(pa.table({"g": ["a"]}), task="site")


@pytest.mark.parametrize("engine", ENGINES)
def test_classes_are_counted_in_each_task(engine: str) -> None:
    frame = pd.DataFrame({"site": [1, 1, 1, 2, 3], "y": ["no", "no", "yes", "no", "no"]})
    counts = count(put(engine, frame), task="site", label="y")
    assert {label: sizes.tolist() for label, sizes in counts.items()} == {
        "no": [1, 1, 2],
        "yes": [0, 0, 1],  # zeros included: two tasks have no example of it
    }


def test_rows_without_a_label_are_rejected() -> None:
    table = pa.table({"g": ["a", "a"], "y": ["no", None]})
    with pytest.raises(InvalidInput, match="column 'y' is missing in 1 row; every example must"):
        count(table, task="g", label="y")

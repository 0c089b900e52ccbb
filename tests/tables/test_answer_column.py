"""The column ``answer``: the label of a set of one, on every engine, in every form."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac import MetaPS
from metapac.tables.scores import FEW_CLASSES
from tests.helpers.engines import put
from tests.helpers.tables import predict_table

MANY = FEW_CLASSES + 1


def calibrated(**more: Any) -> MetaPS:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(4000), np.repeat(np.arange(10), 400)
    labels = more.pop("labels", None)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, **more)
    return method.calibrate(scores, tasks, labels, allow=("levels",))


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_rows_of_different_length_answer_by_position(engine: str) -> None:
    promise = calibrated()
    cut = promise.threshold_
    lists = [[cut, 0.0], [0.0, 0.0, cut], [cut, cut], [0.0, 0.0, 0.0, 0.0]]
    frame = pd.DataFrame({"id": range(4), "l": lists})
    result = predict_table(promise, put(engine, frame), columns="l", answer=True).to_pandas()
    got = [None if pd.isna(a) else int(a) for a in result.sort_values("id")["answer"]]
    assert got == [0, 2, None, None]


def test_numbers_stay_numbers_and_names_of_rows_are_theirs() -> None:
    promise = calibrated()
    cut = promise.threshold_
    lists = pa.table({"l": [[cut, 0.0], [cut, cut]], "n": [["x", "y"], ["u", "v"]]})
    by_number = predict_table(promise, lists, columns="l", answer=True).to_pyarrow()
    assert by_number["answer"].to_pylist() == [0, None]
    assert pa.types.is_integer(by_number["answer"].type)
    by_name = predict_table(promise, lists, columns="l", classes_column="n", answer=True)
    assert by_name.to_pyarrow()["answer"].to_pylist() == ["x", None]


def test_in_csv_and_beside_booleans(tmp_path: Path) -> None:
    promise = calibrated()
    frame = pd.DataFrame({"p_no": [0.9, 0.9, 0.0], "p_yes": [0.0, 0.9, 0.0]})
    path = tmp_path / "sets.csv"
    predict_table(promise, frame, answer=True, booleans=True, output=path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows] == ["no", "", ""]
    assert [row["in_no"] for row in rows] == ["true", "true", "false"]

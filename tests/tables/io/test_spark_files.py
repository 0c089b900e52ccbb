"""Spark reads exactly the files that are listed, with their partitions."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS
from metapac.tables.files import _partition_options
from tests.helpers.engines import connection
from tests.helpers.tables import calibrate_table, open_source

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    scores = np.random.default_rng(0).random(180).round(2)
    scores[:3] = -np.inf
    names = ["it's", 'say "x"', "a,b", "line\nbreak", "\N{DOG}", "007", "70", "2020-01-02", " "]
    return pd.DataFrame({"task": np.repeat(names, 20), "score": scores})


@pytest.fixture(scope="module")
def expected(frame: pd.DataFrame) -> MetaPS:
    return MetaPS(**PROMISE).calibrate(frame.score.to_numpy(), frame.task.to_numpy())


def check(expected: MetaPS, source: Any, **more: Any) -> None:
    result = calibrate_table(source, task="task", score="score", **PROMISE, **more)
    order = np.argsort(expected.tasks_)
    assert result.tasks_.tolist() == expected.tasks_[order].tolist()
    assert result.task_thresholds_.tolist() == expected.task_thresholds_[order].tolist()
    assert result.threshold_ == expected.threshold_ > -np.inf


def write_json(frame: pd.DataFrame, path: Path) -> None:
    lines = [json.dumps(row) for row in frame.to_dict("records")]
    path.write_text("\n".join(lines) + "\n")


def test_spark_reads_files(frame: pd.DataFrame, expected: MetaPS, tmp_path: Path) -> None:
    spark = connection("spark")
    (tmp_path / "parts").mkdir()
    frame.iloc[:50].to_parquet(tmp_path / "parts" / "0.parquet")
    frame.iloc[50:].to_parquet(tmp_path / "parts" / "1.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    write_json(frame.replace({-np.inf: -1.0}), tmp_path / "a.jsonl")
    check(expected, tmp_path / "parts", connection=spark)
    check(expected, tmp_path / "a.csv", connection=spark)
    # JSON proper has no infinity; the lowest of numbers has the same ranks here.
    check(expected, tmp_path / "a.jsonl", connection=spark)
    odd = tmp_path / "odd.csv"
    odd.write_text("task,score\na,0.5\na,1d\n")
    with pytest.raises(ValueError, match="line 3: column 'score' holds '1d', which is not a numb"):
        check(expected, odd, connection=spark)


@pytest.mark.parametrize("name", ["_a.csv", ".a.csv"])
def test_names_that_spark_ignores_are_rejected(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("g,s\na,0.5\n")
    with pytest.raises(InvalidInput, match="Spark ignores names that start with '_' or"):
        open_source(tmp_path / name, connection=SimpleNamespace(name="pyspark"))


def test_folders_are_partitions_if_all_files_share_them() -> None:
    ohio, texas = Path("/d/site=ohio/a.csv"), Path("/d/site=texas/b.csv")
    assert _partition_options([ohio, texas]) == {"basePath": "/d"}
    assert _partition_options([ohio, Path("/d/c.csv")]) == {"recursiveFileLookup": True}
    assert _partition_options([Path("/d/run=5/x/c.csv")]) == {"recursiveFileLookup": True}

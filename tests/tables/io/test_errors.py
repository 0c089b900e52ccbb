"""Errors of an engine name the file, and other errors pass through."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from metapac import EngineError
from metapac.columns import Columns
from metapac.tables import errors
from metapac.tables.scores import true_scores
from metapac.tables.sources import open_source
from tests.helpers.engines import connection
from tests.helpers.tables import calibrate_table

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


def opened(path: Path) -> Any:
    return open_source(path, connection=connection("duckdb"))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame({"task": ["a", "b"] * 50, "score": np.linspace(0, 1, 100)})


def test_only_errors_of_engines_are_translated() -> None:
    message = r"x.parquet cannot be read \(broken\)\. If it is truncated"
    with pytest.raises(EngineError, match=message), errors.reporting("x.parquet", is_file=True):
        raise duckdb.Error("broken\nmore")
    message = r"^y.csv cannot be written \(full\)\.$"
    with pytest.raises(EngineError, match=message), errors.reporting("y.csv", "written"):
        raise pa.ArrowInvalid("full")
    for context in (errors.reporting("x"), errors.reporting("x", "written")):
        with pytest.raises(KeyError), context:
            raise KeyError("a bug")


def test_secrets_are_not_shown() -> None:
    address = "postgres://u:hunter22@h/db"
    with pytest.raises(EngineError) as caught, errors.reporting("x", address=address):
        raise duckdb.Error("bad 'hunter22' in postgres://u:hunter22@h, password=abc")
    assert str(caught.value) == "x cannot be read (bad '***' in postgres://h/..., password=***)."
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__  # a traceback would show it


def test_the_root_cause_of_a_java_error_is_shown() -> None:
    root = SimpleNamespace(getCause=lambda: None, getMessage=lambda: "\n disk full \n at line 1")
    error: Any = RuntimeError("a long trace")
    error.java_exception = SimpleNamespace(getCause=lambda: root, getMessage=lambda: "job failed")
    assert errors.reason(error) == "disk full"
    assert errors.reason(RuntimeError()) == "RuntimeError"


def test_an_error_inside_a_json_text_is_shown_alone() -> None:
    text = 'Async write failed: {"exception_type":"IO","exception_message":"\\"a\\" is full","x":1}'
    assert errors.reason(duckdb.Error(text)) == '"a" is full'


def test_a_truncated_parquet_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(
        ValueError,
        match=r"a.parquet cannot be read \(.*\). If it is truncated, or not of the type that",
    ):
        opened(path)


def test_a_truncated_json_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"task": "a", "score": 1}\n{"task": "b", "sc')
    with pytest.raises(ValueError, match=r"a.jsonl cannot be read \(.*Malformed JSON"):
        opened(tmp_path / "a.jsonl")


def test_damage_that_shows_while_reading_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(
        pa.table({"task": ["a"] * 1000, "score": np.random.default_rng(0).random(1000)}),
        path,
        compression="gzip",
    )
    raw = bytearray(path.read_bytes())
    raw[2000:4000] = bytes(2000)
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="a.parquet cannot be read"):
        calibrate_table(path, task="task", score="score", **PROMISE)


def test_a_broken_gzip_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"task,score\n" + b"a,1\n" * 10_000)
    (tmp_path / "a.csv.gz").write_bytes(whole[:-20])
    source = opened(tmp_path / "a.csv.gz")
    with pytest.raises(ValueError, match="a.csv.gz"), source.reading(["score"], "task"):
        source.run(true_scores(source, Columns(task="task", score="score")).table)

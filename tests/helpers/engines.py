"""Real engines for the tests: DuckDB and SQLite always, PostgreSQL and Spark if available."""

from __future__ import annotations

import math
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac.tables import connect, search

ENGINES = ("duckdb", "sqlite", "postgres", "spark")
POSTGRES = "METAPAC_POSTGRES"


_connections: dict[str, Any] = {}


def connection(engine: str) -> Any:
    """Return the connection that all tests share, or skip with the reason if there is none."""
    if engine not in _connections:
        _connections[engine] = _connect(engine)
    return _connections[engine]


def close_connections() -> None:
    """Close the connections that were opened."""
    while _connections:
        _connections.popitem()[1].disconnect()


def _connect(engine: str) -> Any:
    if engine == "duckdb":
        return connect()
    if engine == "sqlite":
        return ibis.sqlite.connect()
    return postgres() if engine == "postgres" else spark()


def postgres() -> Any:
    address = os.environ.get(POSTGRES)
    if not address:
        pytest.skip(f"no PostgreSQL: {POSTGRES} is not set (.ci/run starts a server and sets it)")
    return ibis.connect(address)


def spark() -> Any:
    pytest.importorskip("pyspark", reason="no Spark: pip install 'metapac[spark]'")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("no Spark: there is no Java on this machine (17 or newer)")
    session = connect("spark", master="local[2]")
    session._session.conf.set("spark.sql.shuffle.partitions", "4")
    return session


@contextmanager
def as_if_large(worth_sorting: int = 12) -> Iterator[None]:
    """Search small tables as if they were too large to sort."""
    few: dict[str, Any] = {"_ROWS": 512, "_FEW_ROWS": 64, "_EVERY": 2, "_STRATA": 2, "_ENOUGH": 8}
    with (
        mock.patch.multiple(search, _FETCH_ALL=0, _FEW_SCORES=0, _WORTH_SORTING=worth_sorting),
        mock.patch.multiple(search, **few),
    ):
        yield


def run(engine: str, *statements: str) -> None:
    """Run SQL that returns nothing."""
    there = connection(engine)
    for statement in statements:
        cursor = there.raw_sql(statement)
        if engine in ("postgres", "sqlite"):
            cursor.close()
            there.con.commit()


def put(engine: str, frame: pd.DataFrame) -> Any:
    """Return a frame as a table of an engine."""
    there, name = connection(engine), f"t{uuid.uuid4().hex}"
    if engine == "spark":
        there._session.createDataFrame(frame).createOrReplaceTempView(name)
        return there.table(name)
    if engine == "sqlite":  # whose NaN is NULL
        return there.create_table(name, ibis.memtable(frame.replace({np.nan: None})))
    return there.create_table(name, ibis.memtable(frame), temp=True)


def put_with_nan(engine: str, task: list[str], score: list[float | None]) -> Any:
    """Return scores with both nulls and NaN, which a pandas frame does not tell apart."""
    there = connection(engine)
    if engine == "duckdb":
        table = pa.table({"task": task, "score": pa.array(score, pa.float64())})
        return there.create_table(f"t{uuid.uuid4().hex}", ibis.memtable(table), temp=True)
    if engine == "spark":
        rows = list(zip(task, score, strict=True))
        frame = there._session.createDataFrame(rows, "task string, score double")
        frame.createOrReplaceTempView("mixed")
        return there.table("mixed")
    kind = "double precision" if engine == "postgres" else "real"
    values = ", ".join(f"('{t}', {_literal(s)})" for t, s in zip(task, score, strict=True))
    run(
        engine,
        "DROP TABLE IF EXISTS mixed",
        f"CREATE TABLE mixed (task text, score {kind})",
        f"INSERT INTO mixed VALUES {values}",
    )
    return there.table("mixed")


def _literal(score: float | None) -> str:
    if score is None:
        return "NULL"
    return "'NaN'" if math.isnan(score) else str(score)


def one_row(engine: str) -> Any:
    """Return a table of an engine with one row."""
    there = connection(engine)
    if engine == "spark":
        there._session.range(1).createOrReplaceTempView("one_row")
    else:
        run(engine, "DROP TABLE IF EXISTS one_row", "CREATE TABLE one_row AS SELECT 1 AS id")
    return there.table("one_row")

"""Real engines for the tests: DuckDB and SQLite always, PostgreSQL and Spark where they are."""

from __future__ import annotations

import functools
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
import pytest

from metapac.tables import connect, pool, ranks

ENGINES = ("duckdb", "sqlite", "postgres", "spark")
POSTGRES = "METAPAC_POSTGRES"


@functools.cache
def connection(engine: str) -> Any:
    """Return the one connection that all tests share, or skip with the reason why there is none."""
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
        mock.patch.multiple(ranks, _SMALL=0, _WORTH_SORTING=worth_sorting),
        mock.patch.multiple(pool, **few),
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

"""Tables of a database are picked by name, or because there is only one."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from metapac import MetaPS
from metapac.tables.sources import open_source
from tests.helpers.engines import POSTGRES, connection, run
from tests.helpers.tables import calibrate_table

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    scores = np.random.default_rng(0).random(180)
    return pd.DataFrame({"task": np.repeat(list("abcdefghi"), 20), "score": scores})


@pytest.fixture(scope="module")
def expected(frame: pd.DataFrame) -> MetaPS:
    return MetaPS(**PROMISE).calibrate(frame.score.to_numpy(), frame.task.to_numpy())


def check(expected: MetaPS, source: Any, **more: Any) -> None:
    result = calibrate_table(source, task="task", score="score", **PROMISE, **more)
    order = np.argsort(expected.tasks_)
    assert result.tasks_.tolist() == expected.tasks_[order].tolist()
    assert result.task_thresholds_.tolist() == expected.task_thresholds_[order].tolist()
    assert result.threshold_ == expected.threshold_ > -np.inf


def opened(path: Any, **more: Any) -> Any:
    return open_source(path, connection=connection("duckdb"), **more)


def test_a_duckdb_file(frame: pd.DataFrame, expected: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    with duckdb.connect(str(path)) as there:
        there.register("frame", pa.Table.from_pandas(frame, preserve_index=False))
        there.execute("CREATE TABLE scores AS SELECT * FROM frame")
    check(expected, path)
    check(expected, path, table="scores")
    check(expected, path, connection=connection("duckdb"))
    with pytest.raises(ValueError, match="data.db has no table 'x'; it has: scores. Pass one of"):
        check(expected, path, table="x")


def test_a_sqlite_file(frame: pd.DataFrame, expected: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    there = sqlite3.connect(path)
    frame.to_sql("scores", there, index=False)
    there.execute("CREATE TABLE other (x REAL)")
    there.close()
    check(expected, path, table="scores")
    with pytest.raises(ValueError, match="data.db holds several tables; it has: other, scores. Pa"):
        check(expected, path)


def test_an_address(frame: pd.DataFrame, expected: MetaPS) -> None:
    there = connection("postgres")
    run("postgres", "DROP TABLE IF EXISTS shared_scores")
    there.create_table("shared_scores", ibis.memtable(frame))
    there.con.commit()
    address = os.environ[POSTGRES]
    check(expected, address, table="shared_scores")
    with pytest.raises(ValueError, match="has no table 'x'; it has: .*shared_scores"):
        check(expected, address, table="x")
    run("postgres", "DROP TABLE shared_scores")


def test_spark_cannot_read_a_duckdb_file(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "a.duckdb")).close()

    class Spark:
        name = "pyspark"

    with pytest.raises(ValueError, match="a.duckdb is a DuckDB file, which pyspark cannot read"):
        open_source(tmp_path / "a.duckdb", connection=Spark())


def test_tables_of_a_duckdb_file(tmp_path: Path) -> None:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as there:
        there.execute("CREATE TABLE ibis_scores AS SELECT 'a' AS task, 1.0 AS score")
        there.execute("CREATE SCHEMA other")
        there.execute("CREATE TABLE other.t AS SELECT 'b' AS task, 2.0 AS score")
    with pytest.raises(ValueError, match="holds several tables; it has: ibis_scores, other.t. Pa"):
        opened(path)
    for table, task in (("ibis_scores", "a"), ("other.t", "b")):  # one connection, one file twice
        result = opened(path, table=table)
        assert result.run(result.table)["task"].to_pylist() == [task]


def test_a_connection_is_a_source_more_than_once(tmp_path: Path) -> None:
    there = ibis.sqlite.connect(tmp_path / "one.sqlite")
    there.create_table("t", ibis.memtable({"task": ["a"] * 10, "score": [0.5] * 10}))
    for _ in range(2):
        result = calibrate_table(
            there, task="task", score="score", **PROMISE, on_infeasible="trivial"
        )
        assert result.tasks_.tolist() == ["a"]


def test_tables_of_another_schema() -> None:
    there = connection("postgres")
    run("postgres", "DROP SCHEMA IF EXISTS wing CASCADE", "CREATE SCHEMA wing")
    run("postgres", "CREATE TABLE wing.t AS SELECT 'a' AS task, 0.5::float8 AS score")
    result = open_source(there, table="wing.t")
    assert result.run(result.table).to_pylist() == [{"task": "a", "score": 0.5}]
    run("postgres", "DROP SCHEMA wing CASCADE")


def test_views_of_a_duckdb_file_need_trust(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden\n")
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as there:
        there.execute(f"CREATE VIEW v AS SELECT content FROM read_text('{tmp_path}/secret.txt')")
    message = "a.duckdb: 'v' is a view .* If you trust it, read it with views=True"
    for table in (None, "v"):
        with pytest.raises(ValueError, match=message):
            opened(path, table=table)
    with duckdb.connect(str(path)) as there:
        there.execute("CREATE TABLE t AS SELECT 1 AS x")
    assert opened(path).table.columns == ("x",)  # the only table
    with pytest.raises(ValueError, match="has no table 'w'; it has: t. Pass"):
        opened(path, table="w")
    with pytest.raises(ValueError, match=message):
        opened(path, table="v")
    trusted = opened(path, table="v", views=True)
    assert trusted.run(trusted.table)["content"].to_pylist() == ["hidden\n"]
    with pytest.raises(ValueError, match="holds several tables; it has: t, v. Pass"):
        opened(path, views=True)


def test_generated_columns_of_a_duckdb_file_need_trust(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as there:
        there.execute("CREATE TABLE t (x DOUBLE, score DOUBLE GENERATED ALWAYS AS (random()))")
        there.execute("CREATE SCHEMA wing")
        there.execute("CREATE TABLE wing.u (x DOUBLE, y DOUBLE AS (x + 1))")
        there.execute("CREATE TABLE generated (always INT DEFAULT 1)")
    for table in ("t", "wing.u"):
        with pytest.raises(ValueError, match=f"'{table}' is a view or has generated columns"):
            opened(path, table=table)
        assert opened(path, table=table, views=True).table.columns[0] == "x"
    assert opened(path).table.columns == ("always",)


def test_views_of_a_sqlite_file_need_trust(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    there = sqlite3.connect(path)
    there.execute("CREATE TABLE t (x REAL)")
    there.execute("CREATE VIEW v AS SELECT x FROM t")
    there.execute("CREATE VIRTUAL TABLE w USING fts5(x)")
    there.close()
    with pytest.raises(ValueError, match="a.sqlite: 'v' is a view or has"):
        opened(path, table="v")
    with pytest.raises(ValueError, match="a.sqlite has no table 'w'; it has: t. Pass"):
        opened(path, table="w")
    assert opened(path, table="t").table.columns == ("x",)
    assert opened(path, table="v", views=True).table.columns == ("x",)


def test_a_connection_of_ones_own_may_have_views(tmp_path: Path) -> None:
    there = ibis.duckdb.connect()
    there.raw_sql("CREATE VIEW v AS SELECT 1 AS x")
    assert open_source(there, table="v").table.columns == ("x",)
    there.disconnect()


def test_a_sqlite_file_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "it's 100%?#.sqlite"
    there = sqlite3.connect(path)
    there.execute("CREATE TABLE t (x REAL)")
    there.close()
    with (
        opened(path) as source,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        source.connection.con.execute("DROP TABLE t")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):  # it was opened for this file
        source.connection.con.execute("SELECT 1")

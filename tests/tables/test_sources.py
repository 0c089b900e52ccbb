"""Sources: tables, connections, databases and addresses; engines with their limits and errors."""

from __future__ import annotations

import os
import sqlite3
import traceback
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from metapac import EngineError, InvalidInput, MetapacError, MetaPS
from metapac.binomial import allowed_errors_in_task
from metapac.tables import connect
from metapac.tables.engines import Traits, reason, reporting, traits_of
from tests.helpers.engines import ENGINES, POSTGRES, connection, put, run
from tests.helpers.tables import calibrate_table, open_source

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    scores = np.random.default_rng(0).random(180)
    return pd.DataFrame({"task": np.repeat(list("abcdefghi"), 20), "score": scores, "note": "x"})


@pytest.fixture(scope="module")
def expected(frame: pd.DataFrame) -> MetaPS:
    return MetaPS(**LEVELS).calibrate(frame.score.to_numpy(), frame.task.to_numpy())


def check(expected: MetaPS, source: Any, **more: Any) -> None:
    result = calibrate_table(source, task="task", score="score", **LEVELS, **more)
    assert result.tasks_.tolist() == expected.tasks_.tolist()
    assert result.task_thresholds_.tolist() == expected.task_thresholds_.tolist()
    assert result.threshold_ == expected.threshold_ > -np.inf


def opened(path: Any, **more: Any) -> Any:
    return open_source(path, connection=connection("duckdb"), **more)


def execute(path: Path, *statements: str) -> Path:
    """Run statements on a database, of SQLite if its name says so and of DuckDB otherwise."""
    there: Any = (sqlite3 if "lite" in path.name else duckdb).connect(str(path))
    for statement in statements:
        there.execute(statement)
    there.commit()
    there.close()
    return path


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_and_connections_of_ibis(frame: pd.DataFrame, expected: MetaPS, engine: str) -> None:
    table = put(engine, frame)
    check(expected, table)
    check(expected, table.filter(table.note == "x"))
    if engine != "postgres":  # where a temporary table is in a schema of its own
        check(expected, connection(engine), table=table.get_name().split(".")[-1])
    for kind in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        check(expected, kind)


def test_only_owned_connections_are_closed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,score\na,1\n")
    with open_source(tmp_path / "a.csv") as source:
        assert source.run(source.table).num_rows == 1
    with pytest.raises(duckdb.Error, match="closed"):
        source.run(source.table)
    with opened(tmp_path / "a.csv") as shared:
        pass
    assert shared.run(shared.table).num_rows == 1
    with open_source(source):  # it is not closed twice
        pass


def test_database_files(frame: pd.DataFrame, expected: MetaPS, tmp_path: Path) -> None:
    rows = ", ".join(map(str, frame.itertuples(index=False, name=None)))
    create = "CREATE TABLE scores (task TEXT, score DOUBLE, note TEXT)"
    fill = (create, f"INSERT INTO scores VALUES {rows}")
    for name in ("a.duckdb", "b.DDB", "c.db", "a.sqlite", "a.sqlite3", "lite.db3", "lite.db"):
        path = execute(tmp_path / name, *fill)
        check(expected, path)
        execute(path, "CREATE TABLE other (x REAL)")
        check(expected, path, table="scores", connection=connection("duckdb"))
    with pytest.raises(InvalidInput, match="DuckDB file, which pyspark"):
        open_source(tmp_path / "c.db", connection=SimpleNamespace(name="pyspark"))


def test_an_address(frame: pd.DataFrame, expected: MetaPS) -> None:
    there = connection("postgres")
    run("postgres", "DROP TABLE IF EXISTS shared_scores")
    there.create_table("shared_scores", ibis.memtable(frame))
    there.con.commit()
    address = os.environ[POSTGRES]
    check(expected, address, table="shared_scores")
    with pytest.raises(ValueError, match="has no table 'x'; it has: .*shared_scores"):
        check(expected, address, table="x")
    run("postgres", "DROP TABLE shared_scores", "DROP SCHEMA IF EXISTS wing CASCADE")
    run("postgres", "CREATE SCHEMA wing", "CREATE TABLE wing.t AS SELECT 'a' AS task")
    result = open_source(there, table="wing.t")
    assert result.run(result.table).to_pylist() == [{"task": "a"}]
    run("postgres", "DROP SCHEMA wing CASCADE")


def test_what_a_database_computes_needs_trust(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden\n")
    duck = execute(
        tmp_path / "it's.duckdb",
        f"CREATE VIEW v AS SELECT content FROM read_text('{tmp_path}/secret.txt')",
        "CREATE TABLE t (x DOUBLE, score DOUBLE GENERATED ALWAYS AS (random()))",
        "CREATE SCHEMA wing",
        "CREATE TABLE wing.u (x DOUBLE, y DOUBLE AS (x + 1))",
    )
    lite = execute(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (x REAL)",
        "CREATE VIEW v AS SELECT x FROM t",
        "CREATE VIRTUAL TABLE w USING fts5(x)",
    )
    for path, table in ((duck, None), (duck, "v"), (duck, "t"), (duck, "wing.u"), (lite, "v")):
        name = table or "(t|v|wing.u)"
        with pytest.raises(InvalidInput, match=f"'{name}' is a view or .*views=True"):
            opened(path, table=table)
        if table:
            assert opened(path, table=table, views=True).table.columns[0] in ("x", "content")
    trusted = opened(duck, table="v", views=True)
    assert trusted.run(trusted.table)["content"].to_pylist() == ["hidden\n"]
    with pytest.raises(InvalidInput, match="holds several tables; it has: t, v, wing.u. Pass"):
        opened(duck, views=True)
    mixed = execute(
        tmp_path / "b.duckdb",
        "CREATE TABLE generated (always INT DEFAULT 1)",
        "CREATE VIEW v AS SELECT 1 AS x",
        "CREATE SCHEMA wing",
        "CREATE TABLE wing.ibis_scores AS SELECT 2 AS y",
    )
    for table, columns in (("generated", ("always",)), ("wing.ibis_scores", ("y",))):
        assert opened(mixed, table=table).table.columns == columns
    for path, names in ((mixed, "generated, wing.ibis_scores"), (lite, "t")):
        with pytest.raises(InvalidInput, match=f"has no table 'w'; it has: {names}. Pass"):
            opened(path, table="w")
    assert opened(lite).table.columns == ("x",)  # the only table


def test_a_sqlite_file_is_not_written_to(tmp_path: Path) -> None:
    path = execute(tmp_path / "it's 100%?#.sqlite", "CREATE TABLE t (x REAL)")
    with opened(path) as source, pytest.raises(sqlite3.OperationalError, match="readonly"):
        source.connection.con.execute("DROP TABLE t")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):  # it was opened for this file
        source.connection.con.execute("SELECT 1")


SECRET = "Zq" + "7x" * 4


ADDRESSES = [
    "postgres://u:{}@127.0.0.1:1/db",
    "postgres://u:se/{}@127.0.0.1:1/db",
    "postgres://u:{}#x@127.0.0.1:1/db",
    "postgres://u:[{}@127.0.0.1:1/db",
    "postgres://{}@127.0.0.1:1/db",
    "postgres://127.0.0.1:1/db?password={}&user=me",
    "postgres://u:{}",
    "http://u:{}@127.0.0.1:1/x.parquet",
    "https://127.0.0.1:1/x.parquet?X-Amz-Signature={}",
    "https://127.0.0.1:1/x.parquet#{}",
    "abfss://{}@account/x.parquet",
    "duckdb://x?motherduck_token={}",
    "foo://{}:{}@host",
]


def test_what_is_no_address_shows_no_secret() -> None:
    for text in (
        " postgres://u:{}@127.0.0.1:1/db",
        "md:db?motherduck_token={}",
        "host=127.0.0.1 port=1 user=u password={}",
        "http:/u:{}@h/*.parquet",
    ):
        with pytest.raises(FileNotFoundError, match="No such file") as caught:
            open_source(text.format(SECRET))
        assert SECRET not in str(caught.value)
    for place in ("u:se@cr/et@127.0.0.1:1/db", "u:cr@@127.0.0.1:1/db", "h/db?x=@"):
        with pytest.raises(InvalidInput, match="is not an address that .* %40 for @") as refused:
            open_source(f"postgres://{place}", table="t")
        assert "cr" not in str(refused.value).split()[0]


def test_no_part_of_an_error_shows_a_secret() -> None:
    for address in ADDRESSES:
        with pytest.raises(MetapacError) as caught:
            open_source(address.replace("{}", SECRET), table="t" if "postgres" in address else None)
        printed = "".join(traceback.format_exception(caught.value, chain=True))
        lines = [line for line in printed.splitlines() if "open_source(" not in line]
        assert SECRET not in str(caught.value)
        assert SECRET not in "\n".join(lines)
        assert "\n" not in str(caught.value)


def test_an_engine_that_repeats_the_address_later_shows_no_secret(frame: pd.DataFrame) -> None:
    for address in [text for text in ADDRESSES if "@" in text or "?" in text]:
        address = address.replace("{}", SECRET)
        source = replace(opened(frame), origins=(address,), name="x")
        for text in (f"GET {address} (404)", f"'{SECRET}' is wrong", f"URL '{unquote(address)}'"):
            with pytest.raises(MetapacError) as caught, source.reading():
                raise duckdb.Error(text)
            assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert SECRET not in repr(source)


def test_addresses_that_are_not_read() -> None:
    for address, words in (
        ("https://host/a.parquet", "extension httpfs"),
        ("az://box/a.parquet", "extension azure"),
        ("https://host/a.xlsx", "downloaded first"),
        ("sqlite://a.db", "pass the path"),
    ):
        with pytest.raises(InvalidInput, match=words):
            opened(address)


def setting(connection: Any, name: str) -> Any:
    return connection.raw_sql(f"SELECT current_setting('{name}')").fetchall()[0][0]


def test_duckdb_has_limits_no_downloads_and_a_private_folder() -> None:
    connection = connect(memory_limit="200MiB", threads=1)
    assert setting(connection, "memory_limit") == "200.0 MiB"
    assert setting(connection, "threads") == 1
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        assert setting(connection, name) is False
    assert setting(connection, "allow_community_extensions") is False
    spill = Path(setting(connection, "temp_directory"))
    assert spill.stat().st_mode & 0o777 == 0o700
    connection.disconnect()
    assert not spill.exists()
    connection.disconnect()  # harmless


def test_more_rows_than_memory_are_calibrated(tmp_path: Path) -> None:
    """A file of several times the limit, out of order."""
    connection = connect(memory_limit="60MiB", threads=2)
    path = tmp_path / "big.parquet"
    connection.raw_sql(
        "COPY (SELECT (i * 7919) % 4000 AS task, (i * 104729) % 4000000 AS score, "
        "repeat('x', 100) AS note FROM range(4000000) t(i)) "
        f"TO '{path}' (FORMAT parquet, COMPRESSION uncompressed)"
    )
    result = calibrate_table(
        path, task="task", score="score", epsilon=0.1, alpha=0.1, delta=1e-5, connection=connection
    )
    assert result.task_sizes_.tolist() == [1000] * 4000
    # 7919 and 104729 have inverses modulo 4000: a task's scores are one residue class of 4000.
    inverse = pow(7919, -1, 4000)
    residues = (np.arange(4000) * inverse * 104729) % 4000
    levels = [level.alpha_within for level in result.guarantee_.levels]
    ranks = [allowed_errors_in_task(1000, 0.1, level) for level in levels]
    expected = residues[:, None, None] + 4000 * np.array(ranks)
    assert result._evidence.thresholds.tolist() == expected.tolist()
    connection.disconnect()


def test_too_little_memory_is_reported() -> None:
    connection = connect(memory_limit="5MiB", threads=2)
    scores = np.arange(1e6)  # 8 MB
    with pytest.raises(ValueError, match=r"Raise memory_limit\."):
        calibrate_table(
            pa.table({"task": scores.astype(int) % 10, "score": scores}), task="task",
            score="score", epsilon=0.1, alpha=0.1, delta=0.1, connection=connection,
        )  # fmt: skip
    connection.disconnect()


def test_only_errors_of_engines_are_translated() -> None:
    assert traits_of(SimpleNamespace(name="trino")) == Traits()  # treated with caution
    message = r"x.parquet cannot be read \(broken\)\. Is it truncated"
    with pytest.raises(EngineError, match=message), reporting("x.parquet", is_file=True):
        raise duckdb.Error("broken\nmore")
    message = r"^y.csv cannot be written \(full\)\.$"
    with pytest.raises(EngineError, match=message), reporting("y.csv", "written"):
        raise pa.ArrowInvalid("full")
    with pytest.raises(KeyError), reporting("x"):
        raise KeyError("a bug")


def test_the_root_cause_of_an_error_is_shown() -> None:
    root = SimpleNamespace(getCause=lambda: None, getMessage=lambda: "\n disk full \n at line 1")
    error: Any = RuntimeError("a long trace")
    error.java_exception = SimpleNamespace(getCause=lambda: root, getMessage=lambda: "job failed")
    assert reason(error) == "disk full"
    assert reason(RuntimeError()) == "RuntimeError"
    text = 'Async write failed: {"exception_type":"IO","exception_message":"\\"a\\" is full","x":1}'
    assert reason(duckdb.Error(text)) == '"a" is full'

"""Sources: tables, connections, databases and addresses; engines with their limits and errors."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
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
import pyarrow as pa
import pytest

from metapac import EngineError, InvalidInput, MetapacError, MetaPS
from metapac.binomial import allowed_errors_in_task
from metapac.tables import connect
from metapac.tables.engines import Traits, reason, reporting, traits_of
from tests.helpers.engines import ENGINES, POSTGRES, connection, put, put_with_nan, run
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


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_and_connections_of_ibis(frame: pd.DataFrame, expected: MetaPS, engine: str) -> None:
    table = put(engine, frame)
    check(expected, table)
    check(expected, table.filter(table.note == "x"))
    if engine != "postgres":  # where a temporary table is in a schema of its own
        check(expected, connection(engine), table=table.get_name().split(".")[-1])


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
    with duckdb.connect(str(tmp_path / "duck.db")) as duck:
        duck.register("frame", pa.Table.from_pandas(frame, preserve_index=False))
        duck.execute("CREATE TABLE scores AS SELECT * FROM frame")
    there = sqlite3.connect(tmp_path / "lite.db")
    frame.to_sql("scores", there, index=False)
    there.execute("CREATE TABLE other (x REAL)")
    there.close()
    check(expected, tmp_path / "duck.db")
    for name in ("duck.db", "lite.db"):
        check(expected, tmp_path / name, table="scores")
        check(expected, tmp_path / name, table="scores", connection=connection("duckdb"))
    with pytest.raises(InvalidInput, match="DuckDB file, which pyspark"):
        open_source(tmp_path / "duck.db", connection=SimpleNamespace(name="pyspark"))


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


SECRET = "Zq" + "7x" * 4


ADDRESSES = [
    "postgres://u:{}@127.0.0.1:1/db",
    "postgres://u:se/{}@127.0.0.1:1/db",
    "postgres://u:{}#x@127.0.0.1:1/db",
    "postgres://u:?{}@127.0.0.1:1/db",
    "postgres://u:[{}@127.0.0.1:1/db",
    "postgres://{}@127.0.0.1:1/db",
    "postgres://127.0.0.1:1/db?password={}&user=me",
    "postgres://127.0.0.1:1/db?passfile={}",
    "postgres://u:{}",
    "http://u:{}@127.0.0.1:1/x.parquet",
    "https://127.0.0.1:1/x.parquet?X-Amz-Signature={}",
    "https://127.0.0.1:1/x.parquet?{}",
    "https://127.0.0.1:1/x.parquet#{}",
    "s3://bucket/x.csv?s3_secret_access_key={}",
    "abfss://{}@account/x.parquet",
    "snowflake://u:p@account/db?token={}",
    "duckdb://x?motherduck_token={}",
    "foo://{}:{}@host",
]


NO_ADDRESSES = [
    " postgres://u:{}@127.0.0.1:1/db",
    "md:db?motherduck_token={}",
    "jdbc:postgresql://h/db?user=u&password={}",
    "host=127.0.0.1 port=1 user=u password={}",
    "http:/u:{}@h/x.parquet",
    "http:/u:{}@h/*.parquet",
]


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_a_file_that_is_missing_shows_no_secret(text: str) -> None:
    with pytest.raises(FileNotFoundError, match="No such file") as caught:
        open_source(text.format(SECRET))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("place", ["u:se@cr/et@127.0.0.1:1/db", "u:cr@@127.0.0.1:1/db", "h/db?x=@"])
def test_addresses_that_programs_split_differently_are_rejected(place: str) -> None:
    with pytest.raises(InvalidInput, match="is not an address that .* %40 for @") as caught:
        open_source(f"postgres://{place}", table="t")
    assert "cr" not in str(caught.value).split()[0]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_part_of_an_error_shows_a_secret(address: str) -> None:
    with pytest.raises(MetapacError) as caught:
        open_source(address.replace("{}", SECRET), table="t" if "postgres" in address else None)
    printed = "".join(traceback.format_exception(caught.value, chain=True))
    lines = [line for line in printed.splitlines() if "open_source(" not in line]
    assert SECRET not in str(caught.value)
    assert SECRET not in "\n".join(lines)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", [text for text in ADDRESSES if "@" in text or "?" in text])
def test_an_engine_that_repeats_the_address_later_shows_no_secret(
    address: str, frame: pd.DataFrame
) -> None:
    address = address.replace("{}", SECRET)
    source = replace(opened(frame), origins=(address,), name="x")
    for text in (f"GET {address} (404)", f"'{SECRET}' is wrong", f"URL '{unquote(address)}'"):
        with pytest.raises(MetapacError) as caught, source.reading():
            raise duckdb.Error(text)
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(source)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://host/a.parquet", "extension httpfs"),
        ("az://box/a.parquet", "extension azure"),
        ("https://host/a.xlsx", "downloaded first"),
        ("sqlite://a.db", "pass the path"),
    ],
)
def test_addresses_that_are_not_read(address: str, words: str) -> None:
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
    ranks = [
        allowed_errors_in_task(1000, 0.1, level.alpha_within) for level in result.guarantee_.levels
    ]
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


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stderr


def test_a_missing_extra_is_named() -> None:
    result = python("import sys; sys.modules['ibis'] = None; import metapac.tables")
    assert "reading tables needs ibis. Install it with: pip install 'metapac[tables]'" in result
    result = python(
        "import sys; sys.modules['duckdb'] = None; import metapac.tables as t; t.connect()"
    )
    assert "reading tables needs duckdb. Install it with: pip install 'metapac[tables]'" in result
    result = python(
        "import sys; sys.modules['pyspark'] = None; import metapac.tables as t; t.connect('spark')"
    )
    assert "Spark needs pyspark. Install it with: pip install 'metapac[spark]'" in result


def test_spark_without_java_is_reported() -> None:
    pytest.importorskip("pyspark")
    code = (
        "import os; os.environ |= {'JAVA_HOME': '/nowhere', 'PATH': '/usr/bin:/bin'}; "
        "import metapac.tables as t; t.connect('spark')"
    )
    result = python(code)
    assert "Spark did not start at 'local[*]'" in result
    assert "It needs Java 17 or newer" in result


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "sqlite"])
def test_nan_is_the_largest_number_if_the_traits_say_so(engine: str) -> None:
    there = connection(engine)
    traits = traits_of(there)
    table = put_with_nan(engine, ["a", "b"], [1.0, math.nan])
    counts = there.to_pyarrow(table.agg(count=table.score.count(), largest=table.score.max()))
    assert traits.has_nan
    assert counts["count"][0].as_py() == 2
    largest = counts["largest"].to_numpy()[0]  # a null, which Spark returns for NaN, is NaN here
    assert traits.nan_is_largest == np.isnan(largest)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_overflows_and_has_lists_if_its_traits_say_so(engine: str) -> None:
    there = connection(engine)
    table = put(engine, pd.DataFrame({"big": [1e300, 1e300]}))
    if traits_of(there).overflows_to_infinity:
        square = there.to_pyarrow(table.agg(x=(table.big * table.big).mean()))
        assert square["x"][0].as_py() == math.inf
    if traits_of(there).has_lists:
        lists = there.to_pyarrow(table.select(x=ibis.array([table.big, table.big])))
        assert lists["x"].to_pylist() == [[1e300, 1e300]] * 2


def test_an_engine_that_is_not_listed_is_treated_with_caution() -> None:
    assert traits_of(SimpleNamespace(name="trino")) == Traits()


def test_only_errors_of_engines_are_translated() -> None:
    message = r"x.parquet cannot be read \(broken\)\. Is it truncated"
    with pytest.raises(EngineError, match=message), reporting("x.parquet", is_file=True):
        raise duckdb.Error("broken\nmore")
    message = r"^y.csv cannot be written \(full\)\.$"
    with pytest.raises(EngineError, match=message), reporting("y.csv", "written"):
        raise pa.ArrowInvalid("full")
    for context in (reporting("x"), reporting("x", "written")):
        with pytest.raises(KeyError), context:
            raise KeyError("a bug")


def test_the_root_cause_of_a_java_error_is_shown() -> None:
    root = SimpleNamespace(getCause=lambda: None, getMessage=lambda: "\n disk full \n at line 1")
    error: Any = RuntimeError("a long trace")
    error.java_exception = SimpleNamespace(getCause=lambda: root, getMessage=lambda: "job failed")
    assert reason(error) == "disk full"
    assert reason(RuntimeError()) == "RuntimeError"


def test_an_error_inside_a_json_text_is_shown_alone() -> None:
    text = 'Async write failed: {"exception_type":"IO","exception_message":"\\"a\\" is full","x":1}'
    assert reason(duckdb.Error(text)) == '"a" is full'

"""Every kind of source gives the same table, and every fault of one is told in a sentence."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from engines import ENGINES, POSTGRES, connection, put, run
from pyarrow import parquet

from metapac import MetaPS
from metapac.tables import calibrate_table, evaluate_table
from metapac.tables.layout import Layout
from metapac.tables.scores import true_scores
from metapac.tables.sources import open_source

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}
NAMES = ["it's", 'say "x"', "a,b", "line\nbreak", "\N{DOG}", "007", "7", "2020-01-02", "01-02-2020"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    tasks = np.repeat(NAMES, 20).astype(object)
    scores = rng.random(len(tasks)).round(2)  # many ties
    scores[:3] = -np.inf
    return pd.DataFrame({"task": tasks, "note": "x", "score": scores}).sample(
        frac=1, random_state=0
    )


@pytest.fixture(scope="module")
def expected(frame: pd.DataFrame) -> MetaPS:
    return MetaPS(**PROMISE).calibrate(frame.score.to_numpy(), frame.task.to_numpy())


def check(expected: MetaPS, source: Any, **more: Any) -> None:
    found = calibrate_table(source, task="task", score="score", **PROMISE, **more)
    order = np.argsort(expected.tasks_)
    assert found.tasks_.tolist() == expected.tasks_[order].tolist()
    assert found.task_thresholds_.tolist() == expected.task_thresholds_[order].tolist()
    assert found.threshold_ == expected.threshold_ > -np.inf


def write_json(frame: pd.DataFrame, path: Path) -> None:
    lines = [json.dumps(row) for row in frame.to_dict("records")]
    path.write_text("\n".join(lines) + "\n")


def test_files_of_every_kind(frame: pd.DataFrame, expected: MetaPS, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_csv(tmp_path / "named otherwise", index=False)
    write_json(frame, tmp_path / "a.jsonl")
    shutil.copy(tmp_path / "a.parquet", tmp_path / "odd [1]*.pq")
    for path in tmp_path.iterdir():
        check(expected, path)
        check(expected, str(path))


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_globs_and_folders(
    frame: pd.DataFrame, expected: MetaPS, tmp_path: Path, suffix: str
) -> None:
    folder = tmp_path / "parts"
    (folder / "deep").mkdir(parents=True)
    for i, path in enumerate([folder / f"0.{suffix}", folder / "deep" / f"1.{suffix}"]):
        part = frame.iloc[i::2]
        if suffix == "parquet":
            part.to_parquet(path)
        elif suffix == "csv":
            part.to_csv(path, index=False)
        else:
            write_json(part, path)
    (folder / "_SUCCESS").touch()
    (folder / f"._0.{suffix}.crc").write_bytes(b"\0")
    check(expected, folder)
    check(expected, tmp_path / "**" / f"*.{suffix}")


def test_a_folder_name_may_hold_the_task(
    frame: pd.DataFrame, expected: MetaPS, tmp_path: Path
) -> None:
    plain = frame[frame.task.isin(["007", "7", "2020-01-02"])]
    for task, part in plain.groupby("task"):
        (tmp_path / f"task={task}").mkdir()
        part[["score"]].to_parquet(tmp_path / f"task={task}" / "part.parquet")
    found = calibrate_table(
        tmp_path, task="task", score="score", **PROMISE, on_infeasible="trivial"
    )
    assert found.tasks_.tolist() == ["007", "2020-01-02", "7"]


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


def test_text_among_the_numbers_of_sqlite_is_noticed(tmp_path: Path) -> None:
    there = sqlite3.connect(tmp_path / "data.sqlite")
    there.execute("CREATE TABLE scores (task TEXT, score INTEGER)")
    there.execute("INSERT INTO scores VALUES ('a', 1), ('a', 'high'), ('b', 2.5)")
    there.commit()
    there.close()
    with pytest.raises(ValueError, match=r"the scores hold 1 null out of 3 values \(by task, 'a'"):
        calibrate_table(tmp_path / "data.sqlite", task="task", score="score", **PROMISE)


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


def test_a_password_is_not_shown() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match=r"postgres://me:\*\*\*@127.0.0.1:1/x cannot be read"):
        open_source("postgres://me:secret@127.0.0.1:1/x", table="t")


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_and_connections_of_ibis(frame: pd.DataFrame, expected: MetaPS, engine: str) -> None:
    table = put(engine, frame)
    check(expected, table)
    check(expected, table.filter(table.note == "x"))
    if engine != "postgres":  # where a temporary table is in a schema of its own
        check(expected, connection(engine), table=table.get_name().split(".")[-1])


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


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_addresses_of_files_are_left_to_the_engine(
    frame: pd.DataFrame, expected: MetaPS, engine: str, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for name in ("a.parquet", "a.csv"):
        check(expected, f"file://{tmp_path / name}", connection=connection(engine))
    with pytest.raises(ValueError, match="file:///none.parquet cannot be read"):
        open_source("file:///none.parquet", connection=connection(engine))


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_folders_are_read_alike(frame: pd.DataFrame, engine: str, tmp_path: Path) -> None:
    for name in ("flat.parquet", "deep/below.pq", ".hidden.parquet", "_left.parquet"):
        (tmp_path / "plain" / name).parent.mkdir(parents=True, exist_ok=True)
        frame.iloc[:10].to_parquet(tmp_path / "plain" / name)
    (tmp_path / "plain" / "README.txt").write_text("not a table")
    for task in ("007", "7"):
        (tmp_path / "named" / f"task={task}").mkdir(parents=True)
        frame[["score"]].iloc[:10].to_parquet(tmp_path / "named" / f"task={task}" / "x.parquet")
    there = connection(engine)
    plain = open_source(tmp_path / "plain", connection=there)
    assert plain.run(plain.table.count().name("rows").as_table())["rows"][0].as_py() == 20
    named = open_source(tmp_path / "named", connection=there)
    assert sorted(named.run(named.table)["task"].to_pylist()) == ["007"] * 10 + ["7"] * 10


def opened(path: Any, **more: Any) -> Any:
    return open_source(path, connection=connection("duckdb"), **more)


def test_a_truncated_parquet_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(
        ValueError,
        match=r"a.parquet cannot be read \(.*\). If it is truncated, or of another kind than",
    ):
        opened(path)


def test_a_truncated_json_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"task": "a", "score": 1}\n{"task": "b", "sc')
    with pytest.raises(ValueError, match=r"a.jsonl cannot be read \(.*Malformed JSON"):
        opened(tmp_path / "a.jsonl")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path / "no.parquet", "No such file: .*no.parquet"),
        (tmp_path / "*.parquet", r"no file matches: .*\*.parquet"),
        (tmp_path, "folder holds no Parquet, CSV or JSON lines files"),
    ]:
        with pytest.raises(FileNotFoundError, match=message):
            opened(path)


def test_files_of_several_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,score\na,1\n")
    (tmp_path / "b.jsonl").write_text('{"task": "a", "score": 1}\n')
    with pytest.raises(
        ValueError, match=r"holds files of several kinds: json \(.*b.jsonl\) and csv"
    ):
        opened(tmp_path)


def test_csv_files_must_share_their_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,score\na,1\n")
    (tmp_path / "b.csv").write_text("score,task\n1,a\n")
    with pytest.raises(
        ValueError, match="b.csv has other columns than .*a.csv: score, task instead"
    ):
        opened(tmp_path)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a plain file, and a table is read more than"):
        opened(tmp_path / "pipe")


def test_a_table_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,score\na,1\n")
    with pytest.raises(ValueError, match="table='x' is for databases, and .*a.csv is none"):
        opened(tmp_path / "a.csv", table="x")


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ValueError, match="source must be a path, a list of paths, a pandas, polar"):
        open_source([1, 2, 3])


def test_spark_cannot_read_a_duckdb_file(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "a.duckdb")).close()

    class Spark:
        name = "pyspark"

    with pytest.raises(ValueError, match="a.duckdb is a DuckDB file, which pyspark cannot read"):
        open_source(tmp_path / "a.duckdb", connection=Spark())


def test_leaving_closes_what_was_opened_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,score\na,1\n")
    with open_source(tmp_path / "a.csv") as own:
        assert own.run(own.table).num_rows == 1
    with pytest.raises(duckdb.Error, match="closed"):
        own.run(own.table)
    with opened(tmp_path / "a.csv") as shared:
        pass
    assert shared.run(shared.table).num_rows == 1
    with open_source(own):  # handed on, it is not closed twice
        pass


def test_damage_found_while_reading_names_the_file(tmp_path: Path) -> None:
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


def test_a_broken_gzip_is_told(tmp_path: Path) -> None:
    whole = gzip.compress(b"task,score\n" + b"a,1\n" * 10_000)
    (tmp_path / "a.csv.gz").write_bytes(whole[:-20])
    source = opened(tmp_path / "a.csv.gz")
    with pytest.raises(ValueError, match="a.csv.gz"), source.reading(["score"], "task"):
        source.run(true_scores(source, Layout("task", "score")).table)


def test_columns_alike_but_for_capitals_are_refused(tmp_path: Path) -> None:
    twins = pd.DataFrame({"S": [0.5], "s": [0.25], "task": ["a"]})
    with pytest.raises(ValueError, match="the pandas frame has columns 'S' and 's', alike but for"):
        calibrate_table(twins, task="task", score="s", **PROMISE)
    twins.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="a.csv has columns 'S' and 's', alike but for capitals"):
        calibrate_table(tmp_path / "a.csv", task="task", score="s", **PROMISE)


@pytest.mark.parametrize(
    "frame",
    [pd.Series([1.0]), np.ones((2, 2)), [1, 2], {"a": [1]}, pa.array([1.0])],
    ids=lambda frame: type(frame).__name__,
)
def test_what_is_no_frame_is_refused(frame: Any) -> None:
    with pytest.raises(ValueError, match=f"source must be .* got {type(frame).__name__}"):
        open_source(frame)


def test_columns_of_a_frame_have_names() -> None:
    with pytest.raises(ValueError, match="columns of a frame must be named by strings, got 0"):
        open_source(pd.DataFrame(np.ones((2, 2))))


def test_an_empty_list_of_paths_is_refused() -> None:
    with pytest.raises(ValueError, match="source is an empty list of paths. Pass at least one"):
        open_source([])


def test_columns_are_named_by_strings_and_misspelt_ones_recognised(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="task must be the name of a column as a string, got Ser"):
        calibrate_table(frame, task=frame.task, score="score", **PROMISE)
    with pytest.raises(ValueError, match=r"it has: task, note, score. Did you mean 'score'\?"):
        calibrate_table(frame, task="task", score="Scoer", **PROMISE)
    wide = pd.DataFrame({f"c{i}": [1.0] for i in range(200)})
    with pytest.raises(ValueError, match=r"c28, c29 and 170 more\."):
        calibrate_table(wide, task="task", score="score", **PROMISE)


def test_tables_of_a_duckdb_file(tmp_path: Path) -> None:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as there:
        there.execute("CREATE TABLE ibis_scores AS SELECT 'a' AS task, 1.0 AS score")
        there.execute("CREATE SCHEMA other")
        there.execute("CREATE TABLE other.t AS SELECT 'b' AS task, 2.0 AS score")
    with pytest.raises(ValueError, match="holds several tables; it has: ibis_scores, other.t. Pa"):
        opened(path)
    for table, task in (("ibis_scores", "a"), ("other.t", "b")):  # one connection, one file twice
        found = opened(path, table=table)
        assert found.run(found.table)["task"].to_pylist() == [task]


def test_a_database_without_tables(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "a.duckdb")).close()
    with pytest.raises(ValueError, match="a.duckdb holds no table. Pass a database with one."):
        opened(tmp_path / "a.duckdb")


def test_sqlite_may_ignore_capitals_and_tasks_do_not(tmp_path: Path) -> None:
    there = sqlite3.connect(tmp_path / "data.sqlite")
    there.execute(
        "CREATE TABLE t (g TEXT COLLATE NOCASE, y TEXT COLLATE NOCASE, p_a REAL, p_A2 REAL)"
    )
    there.executemany("INSERT INTO t VALUES (?, ?, 0.25, 0.5)", [("Ohio", "a"), ("ohio", "a2")])
    there.commit()
    there.close()
    path = tmp_path / "data.sqlite"
    found = calibrate_table(path, task="g", score="p_a", **PROMISE, on_infeasible="trivial")
    assert found.tasks_.tolist() == ["Ohio", "ohio"]
    judged = evaluate_table(found, path)
    assert judged.tasks.tolist() == ["Ohio", "ohio"]
    with pytest.raises(ValueError, match="one of the classes 'a', 'A2', got 'a2' in 1 row"):
        calibrate_table(path, task="g", label="y", **PROMISE, on_infeasible="trivial")


@pytest.mark.parametrize("text", ["0x1p3", "1f", "1_0", "", "nan", "1e", "--1"])
def test_spark_takes_for_numbers_what_python_does(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"task,score\na, 1.5e-3 \na,-Infinity\na,inf\na,.5\na,{text}\n")
    message = f"line 6: column 'score' holds '{text}', which is not a number"
    for engine in ("duckdb", "spark"):
        with pytest.raises(ValueError, match=re.escape(message)):
            calibrate_table(
                tmp_path / "a.csv", task="task", score="score", **PROMISE,
                connection=connection(engine),
            )  # fmt: skip


def test_a_connection_is_a_source_more_than_once(tmp_path: Path) -> None:
    there = ibis.sqlite.connect(tmp_path / "one.sqlite")
    there.create_table("t", ibis.memtable({"task": ["a"] * 10, "score": [0.5] * 10}))
    for _ in range(2):
        found = calibrate_table(
            there, task="task", score="score", **PROMISE, on_infeasible="trivial"
        )
        assert found.tasks_.tolist() == ["a"]


def test_tables_of_another_schema() -> None:
    there = connection("postgres")
    run("postgres", "DROP SCHEMA IF EXISTS wing CASCADE", "CREATE SCHEMA wing")
    run("postgres", "CREATE TABLE wing.t AS SELECT 'a' AS task, 0.5::float8 AS score")
    found = open_source(there, table="wing.t")
    assert found.run(found.table).to_pylist() == [{"task": "a", "score": 0.5}]
    run("postgres", "DROP SCHEMA wing CASCADE")


@pytest.mark.parametrize("address", ["foo://me:secret@host/db", "mysql://me:secret@host/db"])
def test_engines_that_are_not_there_keep_passwords_to_themselves(address: str) -> None:
    said = r"://me:\*\*\*@host/db (is no address|needs a driver)"
    with pytest.raises(ValueError, match=said) as error:
        open_source(address, table="t")
    assert "secret" not in str(error.value)


def test_heirs_of_frames_are_frames() -> None:
    class Own(pd.DataFrame):  # type: ignore[misc]
        pass

    assert open_source(Own({"a": [1]})).table.columns == ("a",)

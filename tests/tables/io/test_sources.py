"""Every kind of source gives the same table, and a faulty one is explained in a sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

from metapac import InvalidInput, MetapacError, MetaPS
from metapac.columns import Reading
from metapac.tables.sources import open_source
from tests.helpers.engines import ENGINES, connection, put
from tests.helpers.tables import calibrate_table
from tests.helpers.workbooks import write_workbook

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}
NAMES = [
    "it's",
    'say "x"',
    "a,b",
    "line\nbreak",
    "\N{DOG}",
    "007",
    "70",
    "2020-01-02",
    "01-02-2020",
]


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
    result = calibrate_table(source, task="task", score="score", **PROMISE, **more)
    order = np.argsort(expected.tasks_)
    assert result.tasks_.tolist() == expected.tasks_[order].tolist()
    assert result.task_thresholds_.tolist() == expected.task_thresholds_[order].tolist()
    assert result.threshold_ == expected.threshold_ > -np.inf


def write_json(frame: pd.DataFrame, path: Path) -> None:
    lines = [json.dumps(row) for row in frame.to_dict("records")]
    path.write_text("\n".join(lines) + "\n")


def test_files_of_every_kind(frame: pd.DataFrame, expected: MetaPS, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_csv(tmp_path / "no suffix", index=False)
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


def test_a_password_is_not_shown() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match=r"postgres://127.0.0.1:1/\.\.\. cannot be read"):
        open_source("postgres://me:secret@127.0.0.1:1/x", table="t")


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_and_connections_of_ibis(frame: pd.DataFrame, expected: MetaPS, engine: str) -> None:
    table = put(engine, frame)
    check(expected, table)
    check(expected, table.filter(table.note == "x"))
    if engine != "postgres":  # where a temporary table is in a schema of its own
        check(expected, connection(engine), table=table.get_name().split(".")[-1])


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_addresses_of_files_are_left_to_the_engine(
    frame: pd.DataFrame, expected: MetaPS, engine: str, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for name in ("a.parquet", "a.csv"):
        check(expected, f"file://{tmp_path / name}", connection=connection(engine))
    with pytest.raises(FileNotFoundError, match="No such file"):
        open_source("file:///none.parquet", connection=connection(engine))


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_folders_are_read_in_the_same_way(frame: pd.DataFrame, engine: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "feather"])
def test_half_precision_is_read(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"task": ["a"] * 3, "score": np.array([0.1, 0.5, 2.0], np.float16)})
    source: Any = frame if kind == "pandas" else pa.Table.from_pandas(frame)
    if kind == "feather":
        feather.write_feather(source, tmp_path / "a.feather")
        source = tmp_path / "a.feather"
    with open_source(source) as table:
        assert str(table.table.schema()["score"]) == "float32"
        scores = table.run(table.table)["score"].to_pylist()
    assert scores == frame["score"].tolist()


def test_deprecated_calls_of_ibis_are_no_errors(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,score\n" + "a,1\nb,2\n" * 9)
    code = (
        "from metapac import *; table = open_table('a.csv', Columns(task='task', score='score')); "
        "MetaPS(epsilon=.3, alpha=.4, delta=.3, on_infeasible='trivial').calibrate(table)"
    )
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", code]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.parametrize("address", ["foo://me:secret@host/db", "mysql://me:secret@host/db"])
def test_missing_drivers_do_not_reveal_passwords(address: str) -> None:
    message = r"://host/\.\.\. (is not an address|needs a driver)"
    with pytest.raises(ValueError, match=message) as error:
        open_source(address, table="t")
    assert "secret" not in str(error.value)


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
    source = replace(open_source(frame), origins=(address,), name="x")
    for text in (f"GET {address} (404)", f"'{SECRET}' is wrong", f"URL '{unquote(address)}'"):
        with pytest.raises(MetapacError) as caught, source.reading():
            raise duckdb.Error(text)
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(source)


def test_remote_files_need_an_extension_that_is_not_downloaded() -> None:
    with pytest.raises(ValueError, match=r"https://host/\.\.\. needs DuckDB's extension httpfs"):
        open_source("https://host/a.parquet")
    with pytest.raises(ValueError, match=r"az://box/\.\.\. needs DuckDB's extension azure"):
        open_source("az://box/a.parquet", connection=connection("duckdb"))


def test_remote_files_that_are_read_into_memory_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"https://host/\.\.\. must be downloaded first"):
        open_source("https://host/a.xlsx")


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252", "utf-16"])
def test_foreign_csv_gives_the_same_threshold(
    frame: pd.DataFrame, expected: MetaPS, engine: str, encoding: str, tmp_path: Path
) -> None:
    written = frame.replace({"\N{DOG}": "K\xf6ln \u20ac"})
    written.to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",", encoding=encoding)
    reading = Reading(separator=";", decimal=",", encoding=encoding, connection=connection(engine))
    source = open_source(tmp_path / "a.csv", reading)
    result = calibrate_table(source, task="task", score="score", **PROMISE)
    assert "K\xf6ln \u20ac" in result.tasks_.tolist()
    assert sorted(result.task_thresholds_) == sorted(expected.task_thresholds_)
    assert result.threshold_ == expected.threshold_


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_index_columns_of_pandas_are_ignored(
    frame: pd.DataFrame, expected: MetaPS, engine: str, tmp_path: Path
) -> None:
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet", index=True)
    for name in ("a.csv", "a.parquet"):
        check(expected, tmp_path / name, connection=connection(engine))


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_workbooks_and_arrow_files(
    frame: pd.DataFrame, expected: MetaPS, engine: str, tmp_path: Path
) -> None:
    feather.write_feather(pa.Table.from_pandas(frame), tmp_path / "a.feather")
    check(expected, tmp_path / "a.feather", connection=connection(engine))
    finite = frame.replace({-np.inf: -1.0})
    rows = [list(finite.columns), *finite.to_numpy().tolist()]
    write_workbook(tmp_path / "a.xlsx", {"scores": rows})
    result = calibrate_table(
        tmp_path / "a.xlsx", task="task", score="score", **PROMISE, connection=connection(engine)
    )
    assert result.threshold_ == expected.threshold_


def test_addresses_of_database_files_are_paths() -> None:
    with pytest.raises(ValueError, match="is not an address .* pass the path"):
        open_source("sqlite://a.db")


def test_subclasses_of_frames_are_frames() -> None:
    class Subclass(pd.DataFrame):  # type: ignore[misc]
        pass

    assert open_source(Subclass({"a": [1]})).table.columns == ("a",)

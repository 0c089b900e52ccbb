"""Exactly the intended files are read, on every engine, and what is not a table is rejected."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from pyarrow import feather, parquet

from metapac import InvalidInput
from metapac.tables import files
from tests.helpers.engines import connection
from tests.helpers.tables import calibrate_table

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3, "on_infeasible": "trivial"}


def put(path: Path, task: str | None) -> None:
    """Write a file with its own task; without a task, the name of its folder is the task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame({"s": [0.5] * 3} if task is None else {"g": [task] * 3, "s": [0.5] * 3})
    kind = path.suffix.lower()
    if kind == ".csv":
        frame.to_csv(path, index=False)
    elif kind == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)


def tasks(source: Any, engine: str) -> list[str]:
    result = calibrate_table(source, task="g", score="s", **PROMISE, connection=connection(engine))
    assert (result.task_sizes_ == 3).all()
    return [str(name) for name in result.tasks_]


BOTH = pytest.mark.parametrize("engine", ["duckdb", "spark"])


@BOTH
def test_globs_and_folders_of_any_depth(engine: str, tmp_path: Path) -> None:
    for name in ("zero.parquet", "a/one.parquet", "a/b/two.PARQUET"):
        put(tmp_path / name, Path(name).stem)
    assert tasks(tmp_path, engine) == ["one", "two", "zero"]
    assert tasks(tmp_path / "**" / "*.parquet", engine) == ["one", "zero"]
    assert tasks(f"{tmp_path}/a/*", engine) == ["one"]
    assert tasks([tmp_path / "zero.parquet", f"{tmp_path}/a/b"], engine) == ["two", "zero"]


@BOTH
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_names_that_look_like_patterns_are_names(engine: str, suffix: str, tmp_path: Path) -> None:
    odd = ["x[1]", "x1", "c*", "c", "b{1,2}", "b1", "q?", "qq", "back\\slash", "a b%20"]
    for name in odd:
        put(tmp_path / f"{name}.{suffix}", name)
    for name in odd:
        assert tasks(tmp_path / f"{name}.{suffix}", engine) == [name]


@BOTH
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_folders_may_hold_the_task(engine: str, suffix: str, tmp_path: Path) -> None:
    for name in ("007", "70"):
        put(tmp_path / "year=2020" / f"g={name}" / f"part.{suffix}", None)
    assert tasks(tmp_path, engine) == ["007", "70"]
    assert tasks(f"{tmp_path}/year=2020/g=*/*.{suffix}", engine) == ["007", "70"]
    assert tasks(tmp_path / "year=2020" / "g=007" / f"part.{suffix}", engine) == ["007"]


@BOTH
def test_folders_that_only_some_files_have_are_not_columns(engine: str, tmp_path: Path) -> None:
    put(tmp_path / "h=1" / "a.parquet", "a")
    put(tmp_path / "z.parquet", "z")
    assert tasks(tmp_path, engine) == ["a", "z"]


@BOTH
def test_folders_further_up_are_not_columns(engine: str, tmp_path: Path) -> None:
    put(tmp_path / "run=5" / "d" / "a.parquet", "a")
    put(tmp_path / "run=5" / "d" / "sub" / "b.parquet", "b")
    assert tasks(tmp_path / "run=5" / "d", engine) == ["a", "b"]


@BOTH
def test_tabs_separate_the_columns_of_tsv(engine: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("g\ts\na,b\t0.5\na,b\t0.5\na,b\t0.25\n")
    assert tasks(tmp_path / "a.tsv", engine) == ["a,b"]


def test_a_file_counts_once_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("d/a.parquet"), "a")
    Path("d/b.parquet").symlink_to(Path("d/a.parquet").absolute())
    for again in ("d/../d/a.parquet", str(tmp_path / "d" / "a.parquet"), "d/*.parquet", "d"):
        assert tasks(["d/a.parquet", again], "duckdb") == ["a"]


@BOTH
def test_parts_that_spark_wrote_are_found_by_a_glob(engine: str, tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", "a")
    put(tmp_path / "b.parquet" / "part-0.parquet", "b")
    put(tmp_path / "c" / "c.parquet", "c")
    assert tasks(tmp_path / "*", engine) == ["a", "b"]
    assert tasks(tmp_path / "*.parquet", engine) == ["a", "b"]


@BOTH
def test_parquet_files_may_have_other_columns(engine: str, tmp_path: Path) -> None:
    one = pd.DataFrame({"g": ["a"] * 3, "s": [0.5] * 3})
    one.to_parquet(tmp_path / "a.parquet")
    one.assign(g="b", t=1.0).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"the scores hold 3 nulls out of 6 values \(by task, 'a'"):
        calibrate_table(tmp_path, task="g", score="t", **PROMISE, connection=connection(engine))


@pytest.mark.parametrize("names", [["1", "2"], ["2020-01-01", "2021-01-01"]])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_folders_hold_text(suffix: str, names: list[str], tmp_path: Path) -> None:
    for name in names:
        put(tmp_path / f"g={name}" / f"x.{suffix}", None)
    result = calibrate_table(tmp_path, task="g", score="s", **PROMISE)
    assert result.tasks_.tolist() == names


def test_upper_case_suffixes(tmp_path: Path) -> None:
    (tmp_path / "A.CSV.GZ").write_bytes(gzip.compress(b"g,s\na,1\na,2\na,3\n"))
    assert tasks(tmp_path / "A.CSV.GZ", "duckdb") == ["a"]


@pytest.mark.parametrize("name", ["2020-01-02", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"])
def test_dates_and_identifiers_in_json_remain_text(name: str, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", name)
    assert tasks(tmp_path / "a.jsonl", "duckdb") == [name]


def write_database(path: Path, kind: str) -> Path:
    there: Any = duckdb.connect(str(path)) if kind == "duckdb" else sqlite3.connect(path)
    there.execute("CREATE TABLE t (g TEXT, s REAL)")
    there.execute("INSERT INTO t VALUES ('a', .5), ('a', .5), ('a', .5)")
    there.commit()
    there.close()
    return path


@pytest.mark.parametrize("name", ["a.duckdb", "b.DDB", "c.db", "a.sqlite", "a.sqlite3", "d.db3"])
def test_databases_are_opened_by_their_names(name: str, tmp_path: Path) -> None:
    kind = "sqlite" if "3" in name or "sqlite" in name else "duckdb"
    assert tasks(write_database(tmp_path / name, kind), "duckdb") == ["a"]


def test_a_file_under_a_wrong_name_is_read_as_what_it_is(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", "a")
    table = parquet.read_table(tmp_path / "a.parquet")
    for name, kind in (("b.csv", "parquet"), ("c.jsonl", "arrow"), ("d.parquet", "arrow")):
        if kind == "arrow":
            feather.write_feather(table, tmp_path / name)
        else:
            shutil.copy(tmp_path / "a.parquet", tmp_path / name)
        with pytest.warns(UserWarning, match=f"{name} is a {kind} file, not"):
            assert tasks(tmp_path / name, "duckdb") == ["a"]
    shutil.copy(tmp_path / "a.parquet", tmp_path / "noname")
    assert tasks(tmp_path / "noname", "duckdb") == ["a"]


def test_folders_are_searched_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "d/b.csv", ".hidden/x.csv", "_temporary/y.csv"):
        put(tmp_path / name, Path(name).stem)
    (tmp_path / "d" / "c.txt").write_text("not a table")
    walk = os.walk

    def walk_with_ghosts(folder: Path) -> Any:  # which vanished in the meantime
        for place, folders, names in walk(folder):
            yield place, folders, [*names, "ghost.csv"]

    monkeypatch.setattr(os, "walk", walk_with_ghosts)
    monkeypatch.setattr(files, "_MOST_ENTRIES", 8)
    assert tasks(tmp_path, "duckdb") == ["a", "b"]
    monkeypatch.setattr(files, "_MOST_ENTRIES", 7)
    with pytest.raises(InvalidInput, match="holds more than 7 files and folders"):
        tasks(tmp_path, "duckdb")

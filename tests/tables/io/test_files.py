"""Exactly the intended files are read, on every engine, and what is not a table is rejected."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS
from metapac.tables import files
from metapac.tables.csv_text import check_line_endings
from metapac.tables.files import find, would_match
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


def test_names_that_spark_ignores_are_rejected(tmp_path: Path) -> None:
    put(tmp_path / "_a.csv", "a")
    put(tmp_path / "b.csv", "b")
    assert tasks(tmp_path / "*.csv", "duckdb") == ["a", "b"]
    with pytest.raises(ValueError, match="_a.csv: Spark ignores files whose names start with '_'"):
        tasks(tmp_path / "*.csv", "spark")


def test_commas_and_tabs_are_not_mixed(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "a")
    (tmp_path / "b.tsv").write_text("g\ts\nb\t0.5\n")
    with pytest.raises(ValueError, match="a.csv and .*b.tsv must both be separated by commas or"):
        tasks([tmp_path / "a.csv", tmp_path / "b.tsv"], "duckdb")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("name", [b"\xff.csv", b"folder-\xff/a.csv"])
def test_paths_that_are_not_utf8_are_rejected(name: bytes, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("site,p\na,0.5\n")
    with pytest.raises(InvalidInput, match=r"is not valid UTF-8. Rename the file or folder"):
        find([str(path)])


def test_a_folder_with_too_many_entries_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.csv", "d/b.csv", "d/c.txt", ".hidden/x.csv", "_temporary/y.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("g,s\n")
    monkeypatch.setattr(files, "_MOST_ENTRIES", 6)
    found = [tmp_path / "a.csv", tmp_path / "d" / "b.csv"]
    assert find([str(tmp_path)]) == ("csv", found)
    monkeypatch.setattr(files, "_MOST_ENTRIES", 5)
    with pytest.raises(InvalidInput, match="holds more than 5 files and folders. Pass a folder"):
        find([str(tmp_path)])


def test_folders_and_files_that_vanish_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a.csv", "a")
    walk = os.walk

    def walk_with_ghosts(folder: Path) -> Any:
        for place, folders, names in walk(folder):
            yield place, [*folders, "ghost"], [*names, "ghost.csv"]

    monkeypatch.setattr(os, "walk", walk_with_ghosts)
    assert find([str(tmp_path)]) == ("csv", [tmp_path / "a.csv"])


def test_an_address_must_be_the_only_source() -> None:
    with pytest.raises(ValueError, match="s3://a/... is an address, and must be the only source"):
        tasks(["s3://a/x.csv", "s3://a/y.csv"], "duckdb")


def test_faults_are_named_if_folders_hold_the_task(tmp_path: Path) -> None:
    (tmp_path / "g=a").mkdir()
    (tmp_path / "g=a" / "x.csv").write_text("s\n.5\nabc\n")
    with pytest.raises(ValueError, match="x.csv, line 3: column 's' holds 'abc', which is not"):
        tasks(tmp_path, "duckdb")


def test_faults_are_named_if_folders_hold_the_score(tmp_path: Path) -> None:
    (tmp_path / "s=0.5").mkdir()
    (tmp_path / "s=0.5" / "x.csv").write_text('g,h\na,1\n"",2\n')
    with pytest.raises(ValueError, match="x.csv, line 3: column 'g' is empty; an example must"):
        tasks(tmp_path, "duckdb")


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


@pytest.mark.parametrize("text", ["", '[{"g": 1}]\n', "[\n{}\n]", "7", '{\n "g": 1\n}\n'])
def test_json_that_is_not_in_lines_is_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="a.json must hold JSON lines, one object per line"):
        tasks(tmp_path / "a.json", "duckdb")


@pytest.mark.parametrize("name", ["2020-01-02", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"])
def test_dates_and_identifiers_in_json_remain_text(name: str, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", name)
    assert tasks(tmp_path / "a.jsonl", "duckdb") == [name]


def test_a_promise_file_is_not_a_table(tmp_path: Path) -> None:
    promise = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, split="tight")
    promise.combine(np.linspace(0, 1, 20)).save(tmp_path / "p.json")
    with pytest.raises(ValueError, match="p.json is a metapac file, not a table of scores"):
        tasks(tmp_path / "p.json", "duckdb")


def test_mixed_line_endings_are_rejected(tmp_path: Path) -> None:
    rows = "".join(f"a,0.{i}\n" for i in range(1, 3000))
    (tmp_path / "a.csv").write_bytes(f"g,s\r\nb,0.5\r\n{rows}".encode())
    with pytest.raises(ValueError, match="a.csv mixes rows that end in CRLF and in LF. Use one"):
        tasks(tmp_path / "a.csv", "duckdb")


def test_line_breaks_inside_quotes_are_not_line_endings(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'g,s,note\r\na,1,"x\ny"\r\na,1,\r\na,1,z\r\n')
    assert tasks(tmp_path / "a.csv", "duckdb") == ["a"]
    check_line_endings([tmp_path / "a.csv"])
    (tmp_path / "b.csv").write_bytes(b'g,note\r\na,"x\ny"\r\na,\n')
    with pytest.raises(InvalidInput, match="b.csv mixes rows that end in CRLF and in LF"):
        check_line_endings([tmp_path / "b.csv"])


@pytest.mark.parametrize(
    ("origin", "path", "expected"),
    [
        ("in", "in/sets.parquet", True),
        ("in", "in/deep/sets.parquet", True),
        ("in", "sets.parquet", False),
        ("in/*.parquet", "in/sets.parquet", True),
        ("in/*.parquet", "in/sets.csv", False),
        ("**/*.parquet", "sets.parquet", True),
        ("**/*.parquet", "in/deep/sets.parquet", True),
        ("in/a.parquet", "in/sets.parquet", False),
        ("*.parquet", "in/sets.parquet", False),
        ("in/**", "in/deep/sets.parquet", True),
    ],
)
def test_outputs_that_would_be_read_next_time(
    origin: str, path: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("in/a.parquet"), "a")
    assert would_match(origin, Path(path)) == expected
    assert would_match(str(tmp_path / origin), Path(path)) == expected

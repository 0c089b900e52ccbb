"""Just the files that were meant are read, on every engine, and what is no table is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from engines import connection

from metapac import MetaPS
from metapac.tables import calibrate_table
from metapac.tables.files import find, without_password, would_find

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3, "on_infeasible": "trivial"}


def put(path: Path, task: str | None) -> None:
    """Write a file whose task tells which it is; without one, the name of its folder does."""
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
    found = calibrate_table(source, task="g", score="s", **PROMISE, connection=connection(engine))
    assert (found.task_sizes_ == 3).all()
    return [str(name) for name in found.tasks_]


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
    for name in ("007", "7"):
        put(tmp_path / "year=2020" / f"g={name}" / f"part.{suffix}", None)
    assert tasks(tmp_path, engine) == ["007", "7"]
    assert tasks(f"{tmp_path}/year=2020/g=*/*.{suffix}", engine) == ["007", "7"]
    assert tasks(tmp_path / "year=2020" / "g=007" / f"part.{suffix}", engine) == ["007"]


@BOTH
def test_folders_that_only_some_files_have_are_left_alone(engine: str, tmp_path: Path) -> None:
    put(tmp_path / "h=1" / "a.parquet", "a")
    put(tmp_path / "z.parquet", "z")
    assert tasks(tmp_path, engine) == ["a", "z"]


@BOTH
def test_folders_further_up_are_left_alone(engine: str, tmp_path: Path) -> None:
    put(tmp_path / "run=5" / "d" / "a.parquet", "a")
    put(tmp_path / "run=5" / "d" / "sub" / "b.parquet", "b")
    assert tasks(tmp_path / "run=5" / "d", engine) == ["a", "b"]


@BOTH
def test_tabs_separate_the_columns_of_tsv(engine: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("g\ts\na,b\t0.5\na,b\t0.5\na,b\t0.25\n")
    assert tasks(tmp_path / "a.tsv", engine) == ["a,b"]


def test_a_file_named_twice_counts_once(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", "a")
    assert find([str(tmp_path / "a.parquet"), f"{tmp_path}/*"])[1] == [tmp_path / "a.parquet"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "an empty file"), ('[{"g": 1}]\n', "an array"), ("[\n{}\n]", "an array"), ("7", "no ob")],
)
def test_json_that_is_not_in_lines(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=f"must hold JSON lines, an object on each, got {found}"):
        tasks(tmp_path / "a.json", "duckdb")


def test_a_promise_is_no_table(tmp_path: Path) -> None:
    MetaPS(epsilon=0.3, alpha=0.4, delta=0.3).combine([0.5] * 20).save(tmp_path / "p.json")
    with pytest.raises(ValueError, match="p.json was written by metapac and is no table"):
        tasks(tmp_path / "p.json", "duckdb")


def test_mixed_line_ends_are_named(tmp_path: Path) -> None:
    rows = "".join(f"a,0.{i}\n" for i in range(1, 3000))
    (tmp_path / "a.csv").write_bytes(f"g,s\r\nb,0.5\r\n{rows}".encode())
    with pytest.raises(ValueError, match="a.csv mixes lines that end in CRLF and in LF. Write it"):
        tasks(tmp_path / "a.csv", "duckdb")


@pytest.mark.parametrize(
    ("origin", "path", "found"),
    [
        ("in", "in/sets.parquet", True),
        ("in", "in/deep/sets.parquet", True),
        ("in", "sets.parquet", False),
        ("in/*.parquet", "in/sets.parquet", True),
        ("in/*.parquet", "in/sets.csv", False),
        ("**/*.parquet", "sets.parquet", True),
        ("**/*.parquet", "in/deep/sets.parquet", True),
        ("in/a.parquet", "in/sets.parquet", False),
    ],
)
def test_what_would_be_found_next_time(
    origin: str, path: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("in/a.parquet"), "a")
    assert would_find(origin, Path(path)) == found
    assert would_find(str(tmp_path / origin), Path(path)) == found


def test_passwords_are_not_shown() -> None:
    assert without_password("postgres://me:secret@host/db") == "postgres://me:***@host/db"
    hidden = without_password("postgres:///db?user=me&password=secret&host=here")
    assert hidden == "postgres:///db?user=me&password=***&host=here"

"""What is not a table is refused: with which error, naming which option, and where."""

from __future__ import annotations

import gzip
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from metapac import EngineError, InvalidInput, MetaPS
from metapac.tables import connect
from tests.helpers.tables import calibrate_table, open_source
from tests.helpers.workbooks import write_workbook

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3, "on_infeasible": "trivial"}
GOOD = b"task,score\na,1\n\nb, -inf \n"


def duck(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as there:
        for statement in statements:
            there.execute(statement)


def lite(path: Path, *statements: str) -> None:
    there = sqlite3.connect(path)
    for statement in statements or ("CREATE TABLE t (x REAL)",):
        there.execute(statement)
    there.close()


def truncate(path: Path) -> None:
    parquet.write_table(pa.table({"task": ["a"] * 50, "score": np.arange(50.0)}), path)
    path.write_bytes(path.read_bytes()[:-10])


def damage(path: Path) -> None:
    scores = np.random.default_rng(0).random(1000)
    parquet.write_table(pa.table({"task": ["a"] * 1000, "score": scores}), path, compression="gzip")
    content = path.read_bytes()
    path.write_bytes(content[:2000] + bytes(2000) + content[4000:])


def save_promise(path: Path) -> None:
    promise = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3, split="tight")
    promise.combine(np.linspace(0, 1, 20)).save(path)


MIXED = b"task,score\r\nb,0.5\r\n" + b"".join(b"a,0.%d\n" % i for i in range(1, 3000))
LATIN = "task,score\n\xe9,1\n".encode("latin-1")
PROXY = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
GZIP = gzip.compress(b"task,score\n" + b"a,1\n" * 10_000, mtime=0)

# What the file is called and holds, or how it is made; words that the message must have.
Content = bytes | Callable[[Path], None]
FILES: list[tuple[str, Content, str]] = [
    # The header.
    ("a.csv", b"", "empty; it needs a header"),
    ("a.csv", b"task,score,task\n", "'task' and 'task'"),
    ("a.csv", b"a,A\n", "'a' and 'A', .* case"),
    ("a.csv", b"site;score\na;1\n", "looks like several.*separator=';'"),
    ("a.csv", b"a\tb\n1\t2\n", r"separator='\\t'"),
    ("a.csv", b"site,score\na,1\n", "no column 'task'"),
    # The first faulty line.
    ("a.csv", GOOD + b"b\n", "a.csv, line 5: 1 fields where the header has 2"),
    ("a.csv", b'task,score\n"a\nb",1\n"",2\n', "line 4: column 'task' is empty"),
    ("a.csv", GOOD + b"a,high\nb\n", "line 5: column 'score' holds 'high'.* 0.25"),
    ("a.csv", GOOD + b'a,"0,5"\n', "holds '0,5'.*decimal=','"),
    ("a.csv", GOOD + b'a,"1,234.5"\n', "holds '1,234.5'"),
    ("task=a/a.csv", b"score\n.5\nabc\n", "line 3: column 'score' holds 'abc'"),
    # Encodings and compression.
    ("a.csv", LATIN, "not utf-8 text.*encoding="),
    ("a.csv.gz", gzip.compress(LATIN, mtime=0), "not utf-8 text.*encoding="),
    ("a.csv", GZIP, "gzip.*csv.gz"),
    ("a.csv.gz", GZIP[:-20], "a.csv.gz"),
    # Other formats.
    ("a.json", b"", "no column 'task'"),
    ("a.json", b'[{"task": 1}]\n', "no column 'task'"),
    ("a.csv", PROXY, "cannot be read. Pass"),
    ("a.xls", GOOD, "cannot be read. Pass"),
    ("pipe", os.mkfifo, "not a regular file"),
    # Databases.
    ("a.csv", duck, "trust.*.duckdb"),
    ("a.sqlite", duck, "trust.*.duckdb"),
    ("a.duckdb", lite, "trust.*.sqlite"),
    ("a.duckdb", duck, "holds no table"),
]
if sys.platform == "linux":  # other systems have no such names
    FILES.append((os.fsdecode(b"folder-\xff/a.csv"), GOOD, "not valid UTF-8"))


def make(path: Path, content: Content) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    return path


def calibrate(source: Any, **options: Any) -> Any:
    with open_source(source, **options) as table:
        return calibrate_table(table, task="task", score="score", **LEVELS)


def test_files(tmp_path: Path) -> None:
    for i, (name, content, words) in enumerate(FILES):
        with pytest.raises(InvalidInput, match=words) as caught:
            calibrate(make(tmp_path / str(i) / name, content))
        assert "\n" not in str(caught.value)


def test_files_that_an_engine_cannot_read(tmp_path: Path) -> None:
    broken: list[tuple[str, Content]] = [
        ("a.parquet", truncate),
        ("b.parquet", damage),
        ("c.parquet", b"PAR1"),
        ("a.arrow", b"ARROW1 and no more"),
        ("a.xlsx", b"PK\x03\x04 and no more"),
        ("a.jsonl", b'{"task": "a", "score": 1}\n{"task": "b", "sc'),
        ("p.json", save_promise),
        ("a.json.gz", GZIP[:5]),
        ("a.csv", MIXED),
    ]
    for name, content in broken:
        with pytest.raises(EngineError, match=f"{name} cannot be read"):
            calibrate(make(tmp_path / name, content))


def two(path: Path) -> None:
    lite(path, "CREATE TABLE t (x REAL)", "CREATE TABLE u (x REAL)")


# Options of open_table, words of the error, and the option that it must name.
CSV: dict[str, Any] = {"separator": ";", "decimal": ","}
OPTIONS: list[tuple[str, Content, dict[str, Any], str, tuple[str, ...]]] = [
    *[("a.csv", GOOD, {"separator": mark}, "separator must be", ("separator",))
      for mark in (";;", '"', "a", "5", "\udcff", "", 5)],
    ("a.csv", GOOD, {"decimal": "'"}, "decimal must be", ("decimal",)),
    *[("a.csv", GOOD, {"encoding": name}, "encoding must be", ("encoding",))
      for name in ("klingon", "hex", 5)],
    ("a.csv", GOOD, {"encoding": "utf-16"}, "not utf-16 text", ()),
    *[("a.csv", b"task;score\na;%s\n" % text, CSV, f"'{text.decode()}'.* 0,25", ())
      for text in (b"0.5", b"1.2,5", b"1,2,3")],
    ("a.csv", GOOD, {"table": "x"}, "only to databases", ("table",)),
    *[("a.json", b'{"task": "a"}', {name: CSV[name]}, "only to CSV", (name,)) for name in CSV],
    ("a.json", b'{"task": "a"}', {"encoding": "latin-1"}, "only to CSV", ("encoding",)),
    ("a.sqlite", lite, {"table": "x"}, "no table 'x'; it has: t", ("table",)),
    ("a.sqlite", two, {}, "several tables; it has: t, u", ("table",)),
    ("a.xlsx", lambda path: write_workbook(path, {"one": [["x"]], "two": [["y"]]}), {},
     "several sheets; it has: one, two", ("table",)),
]  # fmt: skip


def test_options(tmp_path: Path) -> None:
    for i, (name, content, options, words, parameters) in enumerate(OPTIONS):
        with pytest.raises(InvalidInput, match=words) as caught:
            calibrate(make(tmp_path / str(i) / name, content), **options)
        assert caught.value.parameters == parameters
    foreign = make(tmp_path / "a.csv", GOOD.replace(b",", b";"))
    assert calibrate(foreign, **CSV).tasks_.tolist() == ["a", "b"]


def test_options_of_engines() -> None:
    for options, parameters in (
        ({"engine": "oracle"}, ("engine",)),
        ({"memory_limit": "much"}, ("memory_limit",)),
        ({"memory_limit": "\udcff"}, ("memory_limit",)),
        ({"threads": 0}, ("threads",)),
        ({"master": "local"}, ()),
    ):
        given: dict[str, Any] = options
        with pytest.raises(InvalidInput, match=next(iter(given))) as caught:
            connect(**given)
        assert caught.value.parameters == parameters


def test_several_files(tmp_path: Path) -> None:
    make(tmp_path / "a.csv", GOOD)
    make(tmp_path / "b.tsv", GOOD.replace(b",", b"\t"))
    make(tmp_path / "c.csv", b"score,task\n1,a\n")
    make(tmp_path / "b.jsonl", b'{"task": "a", "score": 1}\n')
    make(tmp_path / "a.db", lite)
    make(tmp_path / "b.db", lite)
    for names, words in (
        (["a.csv", "b.jsonl"], r"several kinds: json \(.*b.jsonl\) and csv"),
        (["a.csv", "b.tsv"], "b.tsv has other columns or another separator than .*a.csv"),
        (["a.csv", "c.csv"], "c.csv has other columns .* score, task instead of task, score"),
        (["a.db", "b.db"], "2 databases or workbooks"),
        (["a.csv", "s3://a/y.csv"], "address, and must be the only source"),
        ([], "empty list"),
    ):
        with pytest.raises(InvalidInput, match=words):
            calibrate([name if "://" in name else str(tmp_path / name) for name in names])
    (tmp_path / "empty").mkdir()
    for name in ("no.parquet", "*.parquet", "empty"):
        with pytest.raises(FileNotFoundError, match="No such file|folder holds no table"):
            open_source(tmp_path / name)


def test_frames() -> None:
    for frame, words in (
        (np.ones((2, 2)), "source must be .* got ndarray"),
        ([1, 2], "source must be .* got list"),
        ({"a": [1], "b": [1, 2]}, "source must be columns of one length"),
        (pa.array([1.0]), "source must be .* got DoubleArray"),
        (pd.DataFrame(np.ones((2, 2))), "named by strings, got 0"),
        (pd.DataFrame({"a": [1], "A": [2]}), "'a' and 'A', .* case"),
    ):
        with pytest.raises(InvalidInput, match=words):
            open_source(frame)

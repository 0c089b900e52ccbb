"""CSV files: engines read what Python reads, in any encoding."""

from __future__ import annotations

import csv
import gc
import gzip
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac.columns import Columns
from metapac.tables import connect
from metapac.tables.scores import true_scores
from tests.helpers.engines import connection
from tests.helpers.tables import calibrate_table, open_source

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3, "on_infeasible": "trivial"}


def columns(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text, encoding="utf-8")
    return tuple(open_source(path, connection=connection("duckdb")).table.columns)


def test_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    assert columns(path, '\ufeff"a, ""b""",c d,\N{DOG}\n1,2,3\n') == ('a, "b"', "c d", "\N{DOG}")
    assert columns(path, ",a\n") == ("Unnamed: 0", "a")
    assert columns(path, "a,,\n") == ("a", "Unnamed: 1", "Unnamed: 2")
    assert columns(path, "Unnamed: 1,\n") == ("Unnamed: 1", "Unnamed: 1_")


def test_the_name_gives_the_separator(tmp_path: Path) -> None:
    for name, mark in (("a.csv", ","), ("a.TSV", "\t"), ("a", ","), ("a.txt", ",")):
        assert columns(tmp_path / name, f"x{mark}y\n") == ("x", "y")
    (tmp_path / "a.TSV.GZ").write_bytes(gzip.compress(b"x\ty\n"))
    assert open_source(tmp_path / "a.TSV.GZ").table.columns == ("x", "y")


def test_line_breaks_inside_quotes_are_not_line_endings(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'task,score,note\r\na,1,"x\ny"\r\na,1,\r\na,1,z\r\n')
    assert calibrate_table(path, task="task", score="score", **LEVELS).task_sizes_.tolist() == [3]
    with open_source(path) as table:
        (tmp_path / "a.csv").write_bytes(b'task,score,note\r\na,1,"x\ny\r\n')
        with pytest.raises(ValueError, match="cannot be read"), table.reading(["score"], "task"):
            table.run(table.table)


@pytest.mark.parametrize(
    ("encoding", "count"), [("Latin-1", 1), ("utf-16", 1), ("UTF8", 0), ("utf-8-sig", 0)]
)
def test_encodings_are_read_from_private_copies(
    encoding: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    path = tmp_path / "site=ohio" / "a.csv.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress("x\n\xe9\n".encode(encoding)))
    engine = connect()
    table = open_source(path, encoding=encoding, connection=engine)
    assert table.run(table.table).to_pylist() == [{"x": "\xe9", "site": "ohio"}]
    copies = list((tmp_path / "scratch").glob("metapac-csv-*"))
    assert len(copies) == count
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in copies)
    engine.disconnect()
    del engine, table
    gc.collect()
    assert not list((tmp_path / "scratch").iterdir())


TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
)
NUMBER = st.floats(allow_nan=False).map(repr) | st.sampled_from(["1", " 2 ", "-.5", "1e3", "+inf"])


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXT, NUMBER), min_size=1, max_size=6))
def test_an_engine_reads_what_python_reads(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("task", "score"), *rows])
    path.write_text(buffer.getvalue(), encoding="utf-8", newline="")
    source = open_source(path, connection=connection("duckdb"))
    result = source.run(true_scores(source, Columns(task="task", score="score")).table).to_pylist()
    assert [(row["task"], row["score"]) for row in result] == [(t, float(s)) for t, s in rows]

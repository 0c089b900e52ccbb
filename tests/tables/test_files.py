"""Files of every kind give the same table, exactly the intended ones are read, none to the harm."""

from __future__ import annotations

import csv
import gc
import gzip
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from metapac import Columns, InvalidInput, MetaPS
from metapac.tables import connect, files
from metapac.tables.scores import true_scores
from tests.helpers.engines import connection
from tests.helpers.tables import calibrate_table, open_source
from tests.helpers.workbooks import write_workbook

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}
BOTH = pytest.mark.parametrize("engine", ["duckdb", "spark"])
NAMES = ["it's", 'say "x"', "a,b", "line\nbreak", "\N{DOG}", "007", "70", "2020-01-02", " "]


def write(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    """Write a frame to a file of the kind that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffixes[0].lower() if path.suffixes else ".csv"
    if kind == ".csv":
        frame.to_csv(path, index=False, **options)
    elif kind == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == ".feather":
        feather.write_feather(pa.Table.from_pandas(frame), path)
    elif kind == ".xlsx":
        write_workbook(path, {"scores": [list(frame.columns), *frame.to_numpy().tolist()]})
    else:
        frame.to_parquet(path)
    return path


@BOTH
@pytest.mark.parametrize(
    "name",
    ["a.parquet", "a.csv", "a.csv.gz", "no suffix", "a.jsonl", "a.feather", "a.xlsx", "utf-16.csv"],
)
def test_files_of_every_kind(name: str, engine: str, tmp_path: Path) -> None:
    scores = np.random.default_rng(0).random(180).round(2)  # many ties
    scores[:3] = -1e9
    frame = pd.DataFrame({"task": np.repeat(NAMES, 20), "note": "x", "score": scores})
    frame = frame.sample(frac=1, random_state=0)
    expected = MetaPS(**LEVELS).calibrate(frame.score.to_numpy(), frame.task.to_numpy())
    order = np.argsort(expected.tasks_)
    foreign = name == "utf-16.csv"
    written = {"sep": ";", "decimal": ",", "encoding": "utf-16"} if foreign else {}
    reading = {"separator": ";", "decimal": ",", "encoding": "utf-16"} if foreign else {}
    path = write(frame, tmp_path / name, **written)
    for source in (path, f"file://{path}"):
        used: dict[str, Any] = {"task": "task", "score": "score", **LEVELS, **reading}
        result = calibrate_table(source, **used, connection=connection(engine))
        assert result.tasks_.tolist() == expected.tasks_[order].tolist()
        assert result.task_thresholds_.tolist() == expected.task_thresholds_[order].tolist()
        assert result.threshold_ == expected.threshold_ > -np.inf


def test_encodings_have_private_copies(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    path = tmp_path / "site=ohio" / "a.csv.gz"
    for folder in (tmp_path / "scratch", path.parent):
        folder.mkdir()
    for encoding, count in (("Latin-1", 1), ("utf-16", 1), ("UTF8", 0), ("utf-8-sig", 0)):
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


def columns(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text, encoding="utf-8")
    return tuple(open_source(path, connection=connection("duckdb")).table.columns)


def test_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    assert columns(path, '\ufeff"a, ""b""",c d,\N{DOG}\n1,2,3\n') == ('a, "b"', "c d", "\N{DOG}")
    assert columns(path, "a,,\n") == ("a", "Unnamed: 1", "Unnamed: 2")
    assert columns(path, "Unnamed: 1,\n") == ("Unnamed: 1", "Unnamed: 1_")
    for name, mark in (("a.csv", ","), ("a.TSV", "\t"), ("a", ","), ("a.txt", ",")):
        assert columns(tmp_path / name, f"x{mark}y\n") == ("x", "y")
    (tmp_path / "a.TSV.GZ").write_bytes(gzip.compress(b"x\ty\n"))
    assert open_source(tmp_path / "a.TSV.GZ").table.columns == ("x", "y")


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = st.text(CHARACTERS, min_size=1, max_size=8)
NUMBER = st.floats(allow_nan=False).map(repr) | st.sampled_from(["1", " 2 ", "-.5", "1e3", "+inf"])


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXT, NUMBER), min_size=1, max_size=6))
def test_an_engine_reads_what_python_reads(tmp_path_factory: Any, rows: Any) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("task", "score"), *rows])
    path.write_text(buffer.getvalue(), encoding="utf-8", newline="")
    source = open_source(path, connection=connection("duckdb"))
    result = source.run(true_scores(source, Columns(task="task", score="score")).table).to_pylist()
    assert [(row["task"], row["score"]) for row in result] == [(t, float(s)) for t, s in rows]


@BOTH
def test_engines_refuse_the_numbers_that_python_refuses(engine: str, tmp_path: Path) -> None:
    path, there = tmp_path / "a.csv", connection(engine)
    for text in ("0x1p3", "1f", "1_0", "", "nan", "1e", "--1"):
        path.write_text(f"task,score\na, 1.5e-3 \na,-Infinity\na,inf\na,.5\na,{text}\n")
        with pytest.raises(InvalidInput, match=f"line 6: column 'score' holds '{text}'"):
            calibrate_table(path, task="task", score="score", **LEVELS, connection=there)


def put(path: Path, task: str | None) -> None:
    """Write a file with its own task; without a task, the name of its folder is the task."""
    write(pd.DataFrame({"s": [0.5] * 3} if task is None else {"g": [task] * 3, "s": 0.5}), path)


def tasks(source: Any, engine: str = "duckdb") -> list[str]:
    more: dict[str, Any] = {"on_infeasible": "trivial", "connection": connection(engine)}
    result = calibrate_table(source, task="g", score="s", **LEVELS, **more)
    assert (result.task_sizes_ == 3).all()
    return [str(name) for name in result.tasks_]


@BOTH
def test_globs_and_folders_of_any_depth(engine: str, tmp_path: Path) -> None:
    for name in ("zero.parquet", "a/one.parquet", "a/b/two.PARQUET", ".hidden.parquet"):
        put(tmp_path / name, Path(name).stem)
    put(tmp_path / "part.parquet" / "part-0.parquet", "part")  # as Spark writes it
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "README.txt").write_text("not a table")
    assert tasks(tmp_path, engine) == ["one", "part", "two", "zero"]
    assert tasks(tmp_path / "**" / "*.parquet", engine) == ["one", "part", "zero"]
    assert tasks(f"{tmp_path}/*.parquet", engine) == ["part", "zero"]
    assert tasks(f"{tmp_path}/a/*", engine) == ["one"]
    assert tasks([tmp_path / "zero.parquet", f"{tmp_path}/a/b"], engine) == ["two", "zero"]


@BOTH
def test_names_that_look_like_patterns_are_names(engine: str, tmp_path: Path) -> None:
    odd = ["x[1]", "x1", "c*", "c", "b{1,2}", "b1", "q?", "qq", "back\\slash", "a b%20"]
    paths = [tmp_path / f"{name}.{kind}" for name in odd for kind in ("parquet", "csv", "jsonl")]
    for path in paths:
        put(path, path.name)
    for path in paths:
        assert tasks(path, engine) == [path.name]


@BOTH
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_folders_may_hold_the_task(engine: str, suffix: str, tmp_path: Path) -> None:
    for name in ("007", "2020-01-01"):
        put(tmp_path / "year=2020" / f"g={name}" / f"part.{suffix}", None)
    both = ["007", "2020-01-01"]
    assert tasks(tmp_path, engine) == both
    assert tasks(f"{tmp_path}/year=2020/g=*/*.{suffix}", engine) == both
    assert tasks(tmp_path / "year=2020" / "g=007" / f"part.{suffix}", engine) == ["007"]
    put(tmp_path / "run=5" / "d" / f"a.{suffix}", "a")  # not all files are in such a folder
    put(tmp_path / "run=5" / "d" / "h=1" / f"b.{suffix}", "b")
    assert tasks(tmp_path / "run=5" / "d", engine) == ["a", "b"]


def test_a_file_counts_once(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("d/a.parquet"), "a")
    Path("d/b.parquet").symlink_to(Path("d/a.parquet").absolute())
    for again in ("d/../d/a.parquet", str(tmp_path / "d" / "a.parquet"), "d/*.parquet", "d"):
        assert tasks(["d/a.parquet", again]) == ["a"]


@BOTH
def test_parquet_files_may_have_other_columns(engine: str, tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", "a")
    write(pd.DataFrame({"g": ["b"] * 3, "s": 0.5, "t": 1.0}), tmp_path / "b.parquet")
    with pytest.raises(InvalidInput, match=r"3 .* out of 6 values \(by task, 'a': 3\)"):
        calibrate_table(tmp_path, task="g", score="t", **LEVELS, connection=connection(engine))
    for name in ("a", "b"):
        shutil.move(tmp_path / f"{name}.parquet", tmp_path / f"{name}.pq")
        feather.write_feather(parquet.read_table(tmp_path / f"{name}.pq"), tmp_path / f"{name}.ipc")
    table = files.read_arrow([tmp_path / "a.ipc", tmp_path / "b.ipc"])
    assert table["t"].to_pylist() == [None] * 3 + [1.0] * 3
    assert table.schema.metadata is None


def test_dates_and_identifiers_in_json_remain_text(tmp_path: Path) -> None:
    for name in ("2020-01-02", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"):
        put(tmp_path / f"{name}.jsonl", name)
        assert tasks(tmp_path / f"{name}.jsonl") == [name]


def test_a_file_under_a_wrong_name_is_read_as_what_it_is(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", "a")
    put(tmp_path / "a.feather", "a")
    for name, kind in (("b.csv", "parquet"), ("c.jsonl", "feather"), ("d.parquet", "feather")):
        shutil.copy(tmp_path / f"a.{kind}", tmp_path / name)
        with pytest.warns(UserWarning, match=f"{name} is a {kind.replace('feather', 'arrow')}"):
            assert tasks(tmp_path / name) == ["a"]
    shutil.copy(tmp_path / "a.parquet", tmp_path / "noname")
    assert tasks(tmp_path / "noname") == ["a"]


def test_folders_are_searched_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "d/b.csv", ".hidden/x.csv", "_temporary/y.csv"):
        put(tmp_path / name, Path(name).stem)
    (tmp_path / "d" / "c.txt").write_text("not a table")
    monkeypatch.setattr(files, "_MOST_ENTRIES", 6)
    assert tasks(tmp_path) == ["a", "b"]
    monkeypatch.setattr(files, "_MOST_ENTRIES", 5)
    with pytest.raises(InvalidInput, match="more than 5 files"):
        tasks(tmp_path)


def test_names_that_spark_ignores_are_rejected(tmp_path: Path) -> None:
    for name in ("_a.csv", ".a.csv"):
        (tmp_path / name).write_text("g,s\na,0.5\n")
        with pytest.raises(InvalidInput, match="Spark ignores names"):
            open_source(tmp_path / name, connection=SimpleNamespace(name="pyspark"))


def test_half_precision_is_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"task": ["a"] * 3, "score": np.array([0.1, 0.5, 2.0], np.float16)})
    feather.write_feather(pa.Table.from_pandas(frame), tmp_path / "a.feather")
    for source in (frame, pa.Table.from_pandas(frame), tmp_path / "a.feather"):
        with open_source(source) as table:
            assert str(table.table.schema()["score"]) == "float32"
            assert table.run(table.table)["score"].to_pylist() == frame["score"].tolist()


ROWS: list[list[Any]] = [
    ["site", "score", "n", "mixed", "flag", None],
    ["a", 0.25, 1, 7, True, 0],
    ["b", 1, 2, "x", False, 1],
    [None, 0.1, None, 0.5, None, 2],
]


def test_cells_keep_their_types(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": ROWS, "two": [["x", "y"], [2.0**53, 1e300]]})
    table = files.read_sheet(tmp_path / "a.xlsx", "one")
    assert table.to_pydict() == {
        "site": ["a", "b", None],
        "score": [0.25, 1.0, 0.1],
        "n": [1, 2, None],
        "mixed": ["7", "x", "0.5"],
        "flag": [True, False, None],
        "Unnamed: 5": [0, 1, 2],
    }
    assert [str(kind) for kind in table.schema.types[:3]] == ["string", "double", "int64"]
    types = files.read_sheet(tmp_path / "a.xlsx", "two").schema.types
    assert [str(kind) for kind in types] == ["int64", "double"]  # beyond 2**53, not exact


FAR = {  # cells far from the table, as a file can name them
    "reference": '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    "far enough": '<row r="1000000"><c r="CV1000000"><v>1</v></c></row>',
    "prefix": '<x:row r="9"><x:c r="XFD1048576"><x:v>1</x:v></x:c></x:row>',
    "no references": "<row><c><v>1</v></c></row>" * 3000 + f"<row>{'<c><v>1</v></c>' * 3000}</row>",
    "twice": '<row><c r="A2" r="XFD1048576"><v>1</v></c></row>',
    "not closed": '<row><a></b><c s="" r="XFD1048576"><v>1</v></c></row>',
}
ODS = (
    '<office:document-content><table:table table:name="one"><table:table-row>'
    '<table:table-cell office:value-type="float" office:value="1"/></table:table-row>'
    '<table:table-row table:number-rows-repeated="1000000"><table:table-cell {}'
    'table:number-columns-repeated="{}"/></table:table-row></table:table></office:document-content>'
)
OPEN = """
import sys
from metapac import MetapacError, open_table
for path in sys.argv[1:]:
    try:
        open_table(path)
        print(path, "was read")
    except MetapacError as error:
        print(error)
"""


def add_rows(path: Path, rows: str) -> Path:
    """Write a sheet whose last rows are these."""
    write_workbook(path, {"one": ROWS})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace("</sheetData>", f"{rows}</sheetData>")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def write_ods(path: Path, value: str, width: int) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest:manifest/>")
        archive.writestr("content.xml", ODS.format(value, width))
    return path


def open_apart(*paths: Path) -> list[str]:
    """Return what opening each file says, in a process that the files may end."""
    command = [sys.executable, "-c", OPEN, *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_bombs_and_damaged_files_are_refused(tmp_path: Path) -> None:
    far = [add_rows(tmp_path / f"{i}.xlsx", rows) for i, rows in enumerate(FAR.values())]
    value = 'office:value-type="float" office:value="1" '
    gz, arrow = tmp_path / "a.csv.gz", tmp_path / "a.arrow"
    with gzip.open(gz, "wb") as file:
        for _ in range(200):
            file.write(bytes(1 << 20))
    sites = pa.array([f"site {i:03}" for i in range(500)], pa.large_string())
    with pa.ipc.new_file(arrow, pa.schema({"site": sites.type})) as writer:
        writer.write_batch(pa.record_batch({"site": sites}))
    offsets = np.arange(501) * 8  # engines trust them, and a wrong one ends the process
    content = arrow.read_bytes()
    assert content.count(offsets.tobytes()) == 1
    arrow.write_bytes(content.replace(offsets.tobytes(), (offsets + 2**40).tobytes()))
    others = [write_ods(tmp_path / "a.ods", value, 90), gz, arrow]
    *said, twice, unclosed, ods, gzipped, wrong = open_apart(*far, *others)
    for path, text in zip(far, said, strict=False):
        assert f"{path} is small, but its part xl/worksheets/sheet1.xml" in text
    assert "17,179,869,184 cells" in said[0]
    assert "duplicate attribute" in twice
    assert "mismatched tag" in unclosed
    assert "content.xml reaches over 90,000,090 cells" in ods
    assert "a.csv.gz unpacks to more than" in gzipped
    assert "a.arrow cannot be read (Column 0: In chunk 0: Invalid" in wrong


def test_stray_and_empty_cells_are_read(tmp_path: Path) -> None:
    for rows in (
        '<row r="1048576"><c r="XFD1048576" s="1"/></row>',  # formatted, but empty
        '<row r="90000"><c r="Z90000"><v>1</v></c></row>',
        "<row><c><v>1</v></c></row>",
    ):
        table = files.read_sheet(add_rows(tmp_path / "a.xlsx", rows), None)
        assert table.column("score").to_pylist()[:3] == [0.25, 1.0, 0.1]
    empty = write_ods(tmp_path / "a.ods", "", 16384)
    assert files.read_sheet(empty, None).column_names == ["1"]

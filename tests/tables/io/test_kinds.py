"""Files are what their first bytes say, databases only if their names say so too."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from metapac.tables.files import kind_of, suffix_kind
from tests.helpers.workbooks import write_workbook


def make_database(path: Path, kind: str) -> Path:
    if kind == "duckdb":
        duckdb.connect(str(path)).close()
    else:
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE t (x REAL)")
        database.close()
    return path


@pytest.mark.parametrize(
    ("kind", "names"),
    [("duckdb", ("a.duckdb", "a.DDB", "a.db")), ("sqlite", ("a.sqlite", "a.sqlite3", "a.db"))],
)
def test_databases_are_opened_by_their_names(kind: str, names: tuple[str], tmp_path: Path) -> None:
    for name in names:
        assert kind_of(make_database(tmp_path / name, kind)) == kind
    for name in ("innocent.csv", "a.parquet", "noname"):
        path = make_database(tmp_path / name, kind)
        message = f"{name} is a .* database, but its name does not say so. If you trust it, rename"
        with pytest.raises(ValueError, match=message):
            kind_of(path)


@pytest.mark.parametrize(("mine", "other"), [("duckdb", "sqlite"), ("sqlite", "duckdb")])
def test_a_database_is_not_another_one(mine: str, other: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"database, but its name does not say so.* in .{mine}"):
        kind_of(make_database(tmp_path / f"a.{other}", mine))


def test_a_file_under_a_wrong_name_is_read_as_what_it_is(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    parquet.write_table(table, tmp_path / "a.csv")
    with pytest.warns(UserWarning, match="a.csv is a Parquet file, not CSV, and is read as such."):
        assert kind_of(tmp_path / "a.csv") == "parquet"
    feather.write_feather(table, tmp_path / "b.parquet")
    with pytest.warns(UserWarning, match="b.parquet is an Arrow file, not a Parquet file"):
        assert kind_of(tmp_path / "b.parquet") == "arrow"
    parquet.write_table(table, tmp_path / "noname")
    assert kind_of(tmp_path / "noname") == "parquet"


@pytest.mark.parametrize(
    "name", ["a.pkl", "a.rds", "a.sav", "a.dta", "a.SAS7BDAT", "a.npz", "a.csv.zst", "a.xls"]
)
def test_foreign_files_are_rejected(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"site,score\n")
    with pytest.raises(ValueError, match=f"{name} cannot be read. Pass a CSV, JSON lines, Parquet"):
        kind_of(tmp_path / name)


def test_workbooks_and_archives(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": [["x"], [1]]})
    assert kind_of(tmp_path / "a.xlsx") == "excel"
    (tmp_path / "a.csv").write_bytes((tmp_path / "a.xlsx").read_bytes())
    with pytest.raises(ValueError, match="a.csv cannot be read. Pass"):
        kind_of(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    with pytest.raises(ValueError, match="b.csv cannot be read. Pass"):
        kind_of(tmp_path / "b.csv")


def test_compressed_text_must_say_so(tmp_path: Path) -> None:
    content = gzip.compress(b"a\n1\n")
    (tmp_path / "a.csv.gz").write_bytes(content)
    (tmp_path / "a.csv").write_bytes(content)
    assert kind_of(tmp_path / "a.csv.gz") == "csv"
    with pytest.raises(ValueError, match="a.csv is compressed with gzip. .* to end in .csv.gz"):
        kind_of(tmp_path / "a.csv")


def test_names_of_tables() -> None:
    kinds = {"a.PQ": "parquet", "a.tsv.gz": "csv", "a.b.jsonl": "json", "a.feather": "arrow"}
    assert {name: suffix_kind(Path(name)) for name in kinds} == kinds
    assert suffix_kind(Path("a.txt")) is None

"""Tables out: Parquet or CSV, written under another name and put in place when complete."""

from __future__ import annotations

import contextlib
import csv
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import IO, Any

from metapac.persistence import replacing, replacing_path
from metapac.tables._checks import Table

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}

PathLike = str | os.PathLike[str]


def kind_of(path: PathLike) -> str:
    """Return the kind of file that a name asks for."""
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(f"output must end in .parquet or .csv, got {os.fspath(path)!r}.")
    return kind


def write(connection: Any, table: Table, path: PathLike) -> None:
    """Write a table to ``path``, all or nothing; Spark writes a folder of parts there."""
    kind = kind_of(path)
    if connection.name == "pyspark":
        _write_folder(connection, table, kind, Path(path))
    elif connection.name == "duckdb":
        _write_with_duckdb(connection, table, kind, path)
    elif kind == "csv":
        with replacing(path) as file:
            write_csv(connection, table, file)
    else:
        _write_parquet(connection, table, path)


def write_csv(connection: Any, table: Table, file: IO[str]) -> None:
    """Write a table as CSV to an open file."""
    if connection.name == "duckdb":  # by way of a file, which it writes on all cores
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            connection.to_csv(table, path)
            with path.open(encoding="utf-8", newline="") as written:
                shutil.copyfileobj(written, file)
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    for batch in connection.to_pyarrow_batches(table):
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _write_with_duckdb(connection: Any, table: Table, kind: str, path: PathLike) -> None:
    write = connection.to_csv if kind == "csv" else connection.to_parquet
    whole = str(Path(path).resolve())
    if repr(whole) == f"'{whole}'":
        with replacing_path(path) as temporary:
            write(table, temporary)
        return
    # Ibis quotes a path as Python does, which SQL does not take where it holds quotation marks.
    with tempfile.TemporaryDirectory() as folder, replacing(path, binary=True) as file:
        write(table, Path(folder) / "table")
        with (Path(folder) / "table").open("rb") as written:
            shutil.copyfileobj(written, file)


def _write_parquet(connection: Any, table: Table, path: PathLike) -> None:
    from pyarrow import parquet

    batches = connection.to_pyarrow_batches(table)
    with (
        replacing(path, binary=True) as file,
        parquet.ParquetWriter(file, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _is_plain(path: PathLike) -> bool:
    """Whether Ibis can quote a path: it writes a quotation mark in it as Python would."""
    whole = str(Path(path).resolve())
    return repr(whole) == f"'{whole}'"


def _write_folder(connection: Any, table: Table, kind: str, path: Path) -> None:
    """Let every worker of Spark write its part; a folder that was there goes when all is done."""
    mark = secrets.token_hex(8)
    fresh, old = (path.with_name(f".{path.name}.{mark}{end}") for end in ("", ".old"))
    try:
        if kind == "csv":
            connection.to_csv_dir(table, fresh, options={"header": "true", "escape": '"'})
        else:
            connection.to_parquet_dir(table, fresh)
        with contextlib.suppress(FileNotFoundError):
            path.rename(old)
        fresh.rename(path)
    finally:
        for left in (fresh, old):
            if left.is_dir():
                shutil.rmtree(left)
            left.unlink(missing_ok=True)

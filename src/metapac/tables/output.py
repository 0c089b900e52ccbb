"""Tables out: Parquet or CSV, written under another name and put in place when complete."""

from __future__ import annotations

import csv
import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from metapac.persistence import refuse_input, replacing, replacing_path
from metapac.tables import failures, files
from metapac.tables._checks import Table
from metapac.tables.sources import Source

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}

_CSV_PARTS = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}

PathLike = str | os.PathLike[str]


def kind_of(path: PathLike) -> str:
    """Return the kind of file that a name asks for."""
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(f"output must end in .parquet or .csv, got {os.fspath(path)!r}.")
    return kind


def check(source: Source, path: PathLike) -> None:
    """Say before the work what would else be said after it."""
    kind_of(path)
    check_place(source, path)
    place = files.on_disk(os.fspath(path))
    if source.engine == "pyspark" and place is not None and place.exists():
        raise FileExistsError(
            errno.EEXIST, "is there already, and Spark writes a folder: remove it first", str(path)
        )


def check_place(source: Source, path: PathLike, inputs: Iterable[PathLike] = ()) -> None:
    """Refuse a place that is not there, or where the source or other inputs are read from."""
    place = files.on_disk(os.fspath(path))
    if place is None:
        if os.fspath(path) == source.name:
            raise ValueError(f"{path} is also the input. Write to another place.")
        return
    folder = place.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "folder does not exist; create it first", str(folder))
    read = files.on_disk(source.name)
    refuse_input(place, [*source.files, *inputs, *([] if read is None else [read])])
    for origin in source.origins:
        if files.would_find(origin, place):
            raise ValueError(
                f"{path} would be found among the input {origin} next time. Write it elsewhere."
            )


def write(connection: Any, table: Table, path: PathLike) -> None:
    """Write a table to ``path``, all or nothing; Spark writes a folder of parts there.

    An address such as s3a://bucket/sets.parquet is written by the engine as it sees fit.
    """
    kind = kind_of(path)
    with failures.writing(os.fspath(path)):
        if files.is_remote(os.fspath(path)):
            _write_remote(connection, table, kind, os.fspath(path))
        elif connection.name == "pyspark":
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
        columns = [[_as_text(value) for value in column.to_pylist()] for column in batch.columns]
        writer.writerows(zip(*columns, strict=True))


def _as_text(value: Any) -> Any:
    """Return true and false as all engines write them."""
    return str(value).lower() if isinstance(value, bool) else value


def _write_remote(connection: Any, table: Table, kind: str, address: str) -> None:
    if connection.name == "pyspark":
        _write_parts(connection, table, kind, address)
    elif connection.name == "duckdb":
        (connection.to_csv if kind == "csv" else connection.to_parquet)(table, address)
    else:
        raise ValueError(
            f"output {address} is an address, to which {connection.name} cannot write. Pass a path."
        )


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


def _write_folder(connection: Any, table: Table, kind: str, path: Path) -> None:
    """Let every worker of Spark write its part of a folder, which appears when all is done."""
    fresh = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        _write_parts(connection, table, kind, str(fresh.absolute()))
        fresh.rename(path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _write_parts(connection: Any, table: Table, kind: str, where: str) -> None:
    if kind == "csv":
        connection.to_csv_dir(table, where, options=_CSV_PARTS)
    else:
        connection.to_parquet_dir(table, where)

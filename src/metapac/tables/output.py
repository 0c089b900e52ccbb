"""Results written to files and database tables."""

from __future__ import annotations

import codecs
import csv
import errno
import fnmatch
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from metapac import artefact
from metapac._common import PathLike, Table
from metapac._text import mask
from metapac.errors import InvalidInput
from metapac.tables import files
from metapac.tables.engines import DUCKDB, SPARK, reporting
from metapac.tables.sources import Source

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}

_KEPT = dict.fromkeys(("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"), "false")
_SPARK_CSV = {"header": "true", "escape": '"', **_KEPT}


def output_kind(path: PathLike) -> str:
    """Return the kind of file to write, by its suffix."""
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise InvalidInput(f"output must end in .parquet or .csv, got {mask(os.fspath(path))!r}.")
    return kind


def check_output(source: Source, path: PathLike, inputs: Iterable[PathLike] = ()) -> None:
    """Fail fast: check the path of a table to write before running the query."""
    output_kind(path)
    check_path(source, path, inputs)
    local = files.local_path(os.fspath(path))
    if source.connection.name == SPARK and local is not None and local.exists():
        problem = "already exists, and Spark writes a folder: remove it first"
        raise FileExistsError(errno.EEXIST, problem, str(path))


def check_path(source: Source, path: PathLike, inputs: Iterable[PathLike] = ()) -> None:
    """Fail fast: check that a path can be written and is not an input."""
    name = os.fspath(path)
    local = files.local_path(name)
    if local is not None:
        artefact.check_folder(local.absolute().parent)
        artefact.check_not_input(local, [*source.files, *inputs])
    for origin in source.origins:
        if origin == name or (local is not None and _would_match(origin, local)):
            raise InvalidInput(f"{mask(name)} would be part of the input. Write it elsewhere.")


def _would_match(origin: str, path: Path) -> bool:
    """Return whether a glob or folder would include a file; with ``**``, rather once too often."""
    place = Path(origin).absolute()
    if place.exists():
        return place.is_dir() and path.resolve().is_relative_to(place.resolve())
    if "**" in origin:
        return fnmatch.fnmatchcase(str(path.absolute()), str(place).replace("**/", "*"))
    return path.absolute().match(str(place))


def write(connection: Any, table: Table, output: PathLike | IO[str]) -> None:
    """Write a table to a path, atomically, or as CSV to an open file.

    Spark writes a folder of parts. An address such as s3a://bucket/sets.parquet is written by the
    engine itself, not atomically.
    """
    if not isinstance(output, str | os.PathLike):
        with reporting("the table", "written"):
            _stream(connection, table, "csv", output)
        return
    kind, name = output_kind(output), os.fspath(output)
    local = files.local_path(name)
    full = str(local and local.resolve())  # Ibis quotes it as Python does, which SQL may not accept
    with reporting(mask(name), "written", address=name if local is None else ""):
        if local is None:
            _save(connection, table, kind, name)
        elif connection.name == SPARK:
            with artefact.new_folder(local, create=False) as folder:
                _save(connection, table, kind, str(folder.absolute()))
        elif connection.name == DUCKDB and repr(full) == f"'{full}'":
            with artefact.replacing_path(local) as temporary:
                _save(connection, table, kind, temporary)
        else:
            with artefact.replacing(local, binary=kind == "parquet") as file:
                _stream(connection, table, kind, file)


def _save(connection: Any, table: Table, kind: str, place: PathLike) -> None:
    """Let an engine write: DuckDB a file, and each worker of Spark its part of a folder."""
    if connection.name == DUCKDB:
        (connection.to_csv if kind == "csv" else connection.to_parquet)(table, place)
    elif connection.name != SPARK:
        name = mask(os.fspath(place))
        raise InvalidInput(f"{name} is an address, to which {connection.name} cannot write.")
    elif kind == "csv":
        connection.to_csv_dir(table, place, options=_SPARK_CSV)
    else:
        connection.to_parquet_dir(table, place)


def _stream(connection: Any, table: Table, kind: str, file: IO[Any]) -> None:
    """Write to an open file: DuckDB through another file, which it writes on all cores."""
    if connection.name == DUCKDB:
        with artefact.private_folder("metapac-table") as folder:
            _save(connection, table, kind, folder / "table")
            with (folder / "table").open("rb") as raw:
                written = codecs.getreader("utf-8")(raw) if kind == "csv" else raw
                shutil.copyfileobj(written, file)
    elif kind == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        for batch in connection.to_pyarrow_batches(table):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                # Booleans as other engines write them.
                writer.writerow(str(x).lower() if isinstance(x, bool) else x for x in row)
    else:
        from pyarrow import parquet

        batches = connection.to_pyarrow_batches(table)
        with parquet.ParquetWriter(file, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

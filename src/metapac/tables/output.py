"""Results written to files and database tables."""

from __future__ import annotations

import csv
import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from metapac import artefact
from metapac._common import PathLike, Table
from metapac._text import mask
from metapac.errors import EngineError, InvalidInput
from metapac.tables import errors, files
from metapac.tables.engines import DUCKDB, SPARK
from metapac.tables.sources import Source

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}

_KEPT = dict.fromkeys(("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"), "false")
_SPARK_CSV = {"header": "true", "escape": '"', **_KEPT}


def output_kind(path: PathLike) -> str:
    """Return the kind of file to write, by its suffix."""
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        text = f"output must end in .parquet or .csv, got {mask(os.fspath(path))!r}."
        raise InvalidInput(text, parameter="output")
    return kind


def check_output(source: Source, path: PathLike, inputs: Iterable[PathLike] = ()) -> None:
    """Fail fast: check the path of a table to write before running the query."""
    output_kind(path)
    check_path(source, path, inputs)
    local = files.local_path(os.fspath(path))
    if source.connection.name == SPARK and local is not None and local.exists():
        raise FileExistsError(
            errno.EEXIST, "already exists, and Spark writes a folder: remove it first", str(path)
        )


def check_path(source: Source, path: PathLike, inputs: Iterable[PathLike] = ()) -> None:
    """Fail fast: check that a path can be written and is not an input."""
    name = os.fspath(path)
    local = files.local_path(name)
    if local is not None:
        artefact.check_folder(local.absolute().parent)
        artefact.check_not_input(local, [*source.files, *inputs])
    for origin in source.origins:
        if origin == name or (local is not None and files.would_match(origin, local)):
            raise InvalidInput(f"{mask(name)} would be part of the input. Write it elsewhere.")


def write(connection: Any, table: Table, output: PathLike | IO[str]) -> None:
    """Write a table to a path, atomically, or as CSV to an open file.

    Spark writes a folder of parts. An address such as s3a://bucket/sets.parquet is written by the
    engine itself, not atomically.
    """
    if not isinstance(output, str | os.PathLike):
        with errors.reporting("the table", "written"):
            _write_csv(connection, table, output)
        return
    kind, name = output_kind(output), os.fspath(output)
    local = files.local_path(name)
    with errors.reporting(mask(name), "written", address=name if local is None else ""):
        if local is None:
            _save(connection, table, kind, name)
        elif connection.name == SPARK:
            with artefact.new_folder(local, create=False) as folder:
                _save(connection, table, kind, str(folder.absolute()))
        elif connection.name == DUCKDB:
            _write_with_duckdb(connection, table, kind, local)
        elif kind == "csv":
            with artefact.replacing(local) as file:
                _write_csv(connection, table, file)
        else:
            _write_parquet(connection, table, local)


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


def _write_csv(connection: Any, table: Table, file: IO[str]) -> None:
    if connection.name == DUCKDB:  # through a file, which DuckDB writes on all cores
        with artefact.private_folder("metapac-table") as folder:
            path = folder / "table.csv"
            connection.to_csv(table, path)
            with path.open(encoding="utf-8", newline="") as written:
                shutil.copyfileobj(written, file)
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    for batch in connection.to_pyarrow_batches(table):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for row in rows:  # booleans as other engines write them
            writer.writerow(str(cell).lower() if isinstance(cell, bool) else cell for cell in row)


def _write_with_duckdb(connection: Any, table: Table, kind: str, path: Path) -> None:
    absolute = str(path.resolve())
    if repr(absolute) != f"'{absolute}'":  # Ibis quotes as Python does, which SQL does not accept
        with (
            artefact.private_folder("metapac-table") as folder,
            artefact.replacing(path, binary=True) as file,
        ):
            _save(connection, table, kind, folder / "table")
            with (folder / "table").open("rb") as written:
                shutil.copyfileobj(written, file)
        return
    with artefact.replacing_path(path) as temporary:
        try:
            _save(connection, table, kind, temporary)
        except Exception as error:
            if str(temporary) not in str(error):
                raise
            why = errors.reason(error).replace(str(temporary), str(path))
            raise EngineError(f"{path} cannot be written ({why}).") from error


def _write_parquet(connection: Any, table: Table, path: Path) -> None:
    from pyarrow import parquet

    batches = connection.to_pyarrow_batches(table)
    with (
        artefact.replacing(path, binary=True) as file,
        parquet.ParquetWriter(file, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)

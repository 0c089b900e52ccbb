"""Results written to files and database tables."""

from __future__ import annotations

import csv
import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from metapac._common import PathLike, Table
from metapac._text import find_secrets, mask
from metapac.artefact import (
    check_folder,
    check_not_input,
    new_folder,
    private_folder,
    replacing,
    replacing_path,
)
from metapac.errors import EngineError, InvalidInput, keyword
from metapac.tables import errors, files
from metapac.tables.engines import DUCKDB, SPARK
from metapac.tables.sources import Source

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}

_SPARK_CSV = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


def output_kind(path: PathLike) -> str:
    """Return the kind of file to write, by its suffix."""
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise InvalidInput(
            f"output must end in .parquet or .csv, got {mask(os.fspath(path))!r}.",
            parameter="output",
        )
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
    local = files.local_path(os.fspath(path))
    if local is None:
        address = mask(os.fspath(path))
        if address == source.name:
            raise InvalidInput(f"{address} is also the input. Write to another place.")
        return
    check_folder(local.absolute().parent)
    read = files.local_path(source.name)
    check_not_input(local, [*source.files, *inputs, *([] if read is None else [read])])
    for origin in source.origins:
        if files.would_match(origin, local):
            raise InvalidInput(
                f"{path} would be part of the input {origin} next time. Write it elsewhere."
            )


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
    with errors.reporting(mask(name), "written", secrets=find_secrets(name)):
        if files.is_remote(name):
            _write_remote(connection, table, kind, name)
        elif connection.name == SPARK:
            with new_folder(output, create=False) as folder:
                _write_parts(connection, table, kind, str(folder.absolute()))
        elif connection.name == DUCKDB:
            _write_with_duckdb(connection, table, kind, output)
        elif kind == "csv":
            with replacing(output) as file:
                _write_csv(connection, table, file)
        else:
            _write_parquet(connection, table, output)


def _write_csv(connection: Any, table: Table, file: IO[str]) -> None:
    if connection.name == DUCKDB:  # through a file, which DuckDB writes on all cores
        with private_folder("metapac-table") as folder:
            path = folder / "table.csv"
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
    """Return booleans as other engines write them."""
    return str(value).lower() if isinstance(value, bool) else value


def _write_remote(connection: Any, table: Table, kind: str, address: str) -> None:
    if connection.name == SPARK:
        _write_parts(connection, table, kind, address)
    elif connection.name == DUCKDB:
        (connection.to_csv if kind == "csv" else connection.to_parquet)(table, address)
    else:
        raise InvalidInput(
            f"{keyword('output', mask(address))} is an address, to which {connection.name} cannot "
            "write. Pass a path."
        )


def _write_with_duckdb(connection: Any, table: Table, kind: str, path: PathLike) -> None:
    write_file = connection.to_csv if kind == "csv" else connection.to_parquet
    absolute = str(Path(path).resolve())
    if repr(absolute) == f"'{absolute}'":
        with replacing_path(path) as temporary, _naming(path, temporary):
            write_file(table, temporary)
        return
    # Ibis quotes a path as Python does, which SQL rejects if it contains quotation marks.
    with private_folder("metapac-table") as folder, replacing(path, binary=True) as file:
        write_file(table, folder / "table")
        with (folder / "table").open("rb") as written:
            shutil.copyfileobj(written, file)


@contextmanager
def _naming(path: PathLike, temporary: Path) -> Iterator[None]:
    """Let errors of an engine name the output instead of its hidden temporary."""
    try:
        yield
    except Exception as error:
        if str(temporary) not in str(error):
            raise
        why = errors.reason(error).replace(str(temporary), os.fspath(path))
        raise EngineError(f"{os.fspath(path)} cannot be written ({why}).") from error


def _write_parquet(connection: Any, table: Table, path: PathLike) -> None:
    from pyarrow import parquet

    batches = connection.to_pyarrow_batches(table)
    with (
        replacing(path, binary=True) as file,
        parquet.ParquetWriter(file, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _write_parts(connection: Any, table: Table, kind: str, where: str) -> None:
    """Let every worker of Spark write its part of a folder."""
    if kind == "csv":
        connection.to_csv_dir(table, where, options=_SPARK_CSV)
    else:
        connection.to_parquet_dir(table, where)

"""Where a table comes from: files, a database, a frame or an Ibis table; all become an Ibis one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ibis

from metapac.tables import csv_text, files
from metapac.tables._checks import Table, reason
from metapac.tables.connections import connect

_FRAMES = ("pandas", "polars", "pyarrow")
# Exceptions of these packages tell of a file or a server, not of a mistake in this one.
_ENGINES = ("_duckdb", "duckdb", "ibis", "psycopg", "py4j", "pyarrow", "pyspark", "sqlite3")


@dataclass(frozen=True)
class Source:
    """An Ibis table, what to call it in messages, and the files that it was read from.

    Leaving it as a context closes the connection that was opened for it, and no other.
    """

    table: Table
    name: str
    connection: Any  # of Ibis, where the table is
    files: tuple[Path, ...] = ()
    is_text: bool = False  # read from CSV: every column is a string
    is_mine: bool = False  # the connection was opened for this table

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self.is_mine:
            self.connection.disconnect()

    @property
    def engine(self) -> str:
        return str(self.connection.name)

    def run(self, table: Table) -> Any:
        """Return a small result as a pyarrow table."""
        return self.connection.to_pyarrow(table)

    @contextmanager
    def reading(self, numbers: Sequence[str] = (), task: str | None = None) -> Iterator[None]:
        """Turn what an engine raises on bad data into a sentence that names the source."""
        try:
            with _telling(self.name, is_file=bool(self.files)):
                yield
        except EngineError:
            self.refuse_faults(numbers, task)
            raise

    def refuse_faults(self, numbers: Sequence[str] = (), task: str | None = None) -> None:
        """Name the first faulty line of a CSV file, if that is what was read and there is one."""
        if self.is_text and self.files:
            csv_text.refuse_faults(self.files, numbers, task)


def open_source(source: Any, *, table: str | None = None, connection: Any = None) -> Source:
    """Return a path, glob, folder, database, frame or Ibis table as a ``Source``.

    Files are read by ``connection``, a DuckDB in this process unless another is passed. ``table``
    names a table of a database: a file, an address such as postgres://user@host/name, or an Ibis
    connection passed as the source.
    """
    if isinstance(source, Source):
        return replace(source, is_mine=False)
    if isinstance(source, ibis.Table):
        return Source(source, _title(source), source.get_backend())
    if isinstance(source, ibis.BaseBackend):
        with _telling(f"the {source.name} connection") as name:
            return _database_table(source, name, table)
    if not isinstance(source, str | os.PathLike):
        return _frame(source, connection)
    path = os.fspath(source)
    remote = files.is_remote(path)
    if files.scheme(path) and not remote:
        return _address(path, table)
    kind, found = ("remote", []) if remote else files.find(path)
    if kind == "sqlite":
        return _sqlite_file(found[0], table)
    used = connection or connect()
    with _telling(path, is_file=True), _closing_on_error(used, mine=connection is None):
        if kind == "duckdb":
            read = _duckdb_file(found[0], table, used)
        else:
            read = _files(path, kind, found, table, used)
    return replace(read, is_mine=connection is None)


def _files(path: str, kind: str, found: list[Path], table: str | None, connection: Any) -> Source:
    if table is not None:
        raise ValueError(f"table={table!r} is for databases, and {path} is none. Leave it out.")
    if kind == "remote":
        kind, read = files.read_remote(connection, path)
    else:
        read = files.read(connection, kind, found, path)
    return Source(read, path, connection, tuple(found), is_text=kind == "csv")


def _duckdb_file(path: Path, table: str | None, connection: Any) -> Source:
    if connection.name != "duckdb":
        raise ValueError(f"{path} is a DuckDB file, which {connection.name} cannot read.")
    alias = ibis.util.gen_name("file")
    connection.attach(path, name=alias, read_only=True)
    return _database_table(connection, str(path), table, (path,), (alias, "main"))


def _sqlite_file(path: Path, table: str | None) -> Source:
    with _telling(str(path), is_file=True) as name:
        return _opened(ibis.sqlite.connect(path), name, table, (path,))


def _address(address: str, table: str | None) -> Source:
    with _telling(files.without_password(address)) as name:
        return _opened(ibis.connect(address), name, table)


def _opened(connection: Any, name: str, table: str | None, paths: tuple[Path, ...] = ()) -> Source:
    with _closing_on_error(connection, mine=True):
        return replace(_database_table(connection, name, table, paths), is_mine=True)


def _database_table(
    connection: Any,
    name: str,
    table: str | None,
    paths: tuple[Path, ...] = (),
    database: tuple[str, str] | None = None,
) -> Source:
    there = _table_names(connection, database)
    if table is None and len(there) == 1:
        table = there[0]
    if table not in there:
        wanted = "holds several tables" if table is None else f"has no table {table!r}"
        raise ValueError(
            f"{name} {wanted}; it has: {', '.join(there) or 'none'}. Pass one of them as table."
        )
    found = connection.table(table, database=database)
    return Source(found, f"{name}, table {table}", connection, paths)


def _table_names(connection: Any, database: tuple[str, str] | None) -> list[str]:
    if connection.name != "duckdb":
        return sorted(connection.list_tables(database=database))
    # Ibis 12 asks DuckDB 2 in a way that this no longer knows.
    places = [connection.current_catalog, "temp"] if database is None else [database[0]]
    found = connection.raw_sql(
        "SELECT table_catalog, table_name FROM information_schema.tables ORDER BY 2"
    ).fetchall()
    return [name for place, name in found if place in places and not name.startswith("ibis_")]


def _frame(frame: Any, connection: Any) -> Source:
    package = type(frame).__module__.split(".")[0]
    if package not in _FRAMES:
        raise ValueError(
            "source must be a path, a pandas, polars or pyarrow frame, an Ibis table or an Ibis "
            f"connection, got {type(frame).__name__}."
        )
    with _telling(f"the {package} frame") as name:
        table = ibis.memtable(frame)
    return Source(table, name, connection or connect(), is_mine=connection is None)


class EngineError(ValueError):
    """What an engine could not read, said with the name of the source."""


@contextmanager
def _telling(name: str, *, is_file: bool = False) -> Iterator[str]:
    """Lend the name of a source, and turn what an engine raises into a sentence about it."""
    try:
        yield name
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _ENGINES:
            raise
        if "OutOfMemory" in type(error).__name__:
            raise EngineError(f"{name}: {reason(error)}. Raise memory_limit.") from error
        hint = " It may be truncated, or of another kind than its name says: write it again."
        raise EngineError(f"{name} cannot be read ({reason(error)}).{hint * is_file}") from error


@contextmanager
def _closing_on_error(connection: Any, *, mine: bool) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if mine:
            connection.disconnect()
        raise


def _title(table: Table) -> str:
    try:
        return f"table {table.get_name()}"
    except Exception:  # a computed table has no name, and Ibis raises what it likes
        return "the table"

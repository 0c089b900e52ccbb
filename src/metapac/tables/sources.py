"""Where a table comes from: files, a database, a frame or an Ibis table; all become an Ibis one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ibis

from metapac.tables import _checks, csv_text, databases, failures, files
from metapac.tables._checks import Table
from metapac.tables.connections import connect

_FRAMES = {
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "pyarrow": ("Table", "RecordBatch", "FileSystemDataset", "InMemoryDataset", "UnionDataset"),
}
_BLIND_TO_CAPITALS = ("duckdb", "pyspark", "sqlite")


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
    origins: tuple[str, ...] = ()  # the paths, globs and folders where the files were found

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
            with failures.reading(self.name, is_file=bool(self.files)):
                yield
        except failures.EngineError:
            self.refuse_faults(numbers, task)
            if self.is_text:
                csv_text.refuse_mixed_ends(self.files)
            raise

    def refuse_faults(self, numbers: Sequence[str] = (), task: str | None = None) -> None:
        """Name the first faulty line of a CSV file, if that is what was read and there is one."""
        if self.is_text and self.files:
            csv_text.refuse_faults(self.files, numbers, task)


def open_source(source: Any, *, table: str | None = None, connection: Any = None) -> Source:
    """Return a path, glob, folder, database, frame or Ibis table as a ``Source``.

    Files, also a list of them, are read by ``connection``, a DuckDB in this process unless another
    is passed. ``table`` names a table of a database: a file, an address such as
    postgres://user@host/name, or an Ibis connection passed as the source.
    """
    if isinstance(source, Source):
        return replace(source, is_mine=False)
    opened = _open(source, table, connection)
    if opened.engine in _BLIND_TO_CAPITALS:
        with _closing_on_error(opened.connection, mine=opened.is_mine):
            _checks.no_twins(opened.name, opened.table.columns)
    return opened


def _open(source: Any, table: str | None, connection: Any) -> Source:
    if isinstance(source, ibis.Table):
        with failures.reading(_title(source)) as name:
            return Source(source, name, source.get_backend())
    if isinstance(source, ibis.BaseBackend):
        with failures.reading(f"the {source.name} connection") as name:
            return _in_database(source, name, table)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if files.is_remote(path):
            return _with_engine(path, connection, lambda used: _remote(path, table, used))
        return _address(path, table) if files.scheme(path) else _local([path], table, connection)
    if isinstance(source, list | tuple) and all(isinstance(s, str | os.PathLike) for s in source):
        return _local([os.fspath(each) for each in source], table, connection)
    return _frame(source, connection)


def _local(paths: list[str], table: str | None, connection: Any) -> Source:
    kind, found = files.find(paths)
    if kind == "sqlite":
        with failures.reading(str(found[0]), is_file=True) as name:
            return _mine(ibis.sqlite.connect(found[0]), name, table, (found[0],))
    name = files.called(paths)
    if kind == "duckdb":
        return _with_engine(name, connection, lambda used: _duckdb_file(found[0], table, used))

    def read(used: Any) -> Source:
        _refuse_table(table, name)
        text = kind == "csv"
        rows = files.read(used, kind, found)
        return Source(rows, name, used, tuple(found), is_text=text, origins=tuple(paths))

    return _with_engine(name, connection, read)


def _remote(address: str, table: str | None, connection: Any) -> Source:
    _refuse_table(table, address)
    kind, rows = files.read_remote(connection, address)
    return Source(rows, address, connection, is_text=kind == "csv")


def _with_engine(name: str, connection: Any, read: Callable[[Any], Source]) -> Source:
    """Read files with the connection, or with one that is closed when they are done with."""
    mine, used = connection is None, connection or connect()
    with failures.reading(name, is_file=True), _closing_on_error(used, mine=mine):
        return replace(read(used), is_mine=mine)


def _refuse_table(table: str | None, name: str) -> None:
    if table is not None:
        raise ValueError(f"table={table!r} is for databases, and {name} is none. Leave it out.")


def _duckdb_file(path: Path, table: str | None, connection: Any) -> Source:
    if connection.name != "duckdb":
        raise ValueError(
            f"{path} is a DuckDB file, which {connection.name} cannot read. Leave the engine to "
            "DuckDB."
        )
    alias = databases.attached(connection, path)
    return _in_database(connection, str(path), table, (path,), alias)


def _address(address: str, table: str | None) -> Source:
    with failures.reading(files.without_password(address)) as name:
        try:
            there = ibis.connect(address)
        except ImportError as error:
            raise ValueError(f"{name} needs a driver ({_checks.reason(error)}).") from error
        except ValueError:  # its message would show the password
            raise ValueError(f"{name} is no address that Ibis knows.") from None
        return _mine(there, name, table)


def _mine(connection: Any, name: str, table: str | None, paths: tuple[Path, ...] = ()) -> Source:
    with _closing_on_error(connection, mine=True):
        return replace(_in_database(connection, name, table, paths), is_mine=True)


def _in_database(
    connection: Any,
    name: str,
    table: str | None,
    paths: tuple[Path, ...] = (),
    catalog: str | None = None,
) -> Source:
    found = databases.pick(connection, name, table, catalog)
    return Source(found, f"{name}, table {found.get_name()}", connection, paths)


def _frame(frame: Any, connection: Any) -> Source:
    package = next((p for p in map(_package, type(frame).__mro__) if p in _FRAMES), "")
    kinds = {kind.__name__ for kind in type(frame).__mro__}
    if not kinds & {*_FRAMES.get(package, ())}:
        raise ValueError(
            "source must be a path, a list of paths, a pandas, polars or pyarrow frame, an Ibis "
            f"table or an Ibis connection, got {type(frame).__name__}."
        )
    if package == "pandas":
        _checks.named_columns(frame.columns)
    with failures.reading(f"the {package} frame") as name:
        table = ibis.memtable(frame)
    return Source(table, name, connection or connect(), is_mine=connection is None)


def _package(kind: type) -> str:
    return kind.__module__.split(".")[0]


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

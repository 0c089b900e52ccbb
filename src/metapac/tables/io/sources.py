"""Sources of tables: files, databases, frames and Ibis tables, all opened as an Ibis table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import ibis

from metapac._masking import find_secrets, mask
from metapac._types import Table
from metapac.exceptions import EngineError, InvalidInput, Parameter
from metapac.tables import _checks
from metapac.tables.io import csv_text, databases, errors, files, workbooks
from metapac.tables.io.connections import connect
from metapac.tables.io.csv_format import PLAIN, CsvFormat
from metapac.tables.io.engines import DUCKDB, Traits, traits_of

_FRAMES = {
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "pyarrow": ("Table", "RecordBatch", "FileSystemDataset", "InMemoryDataset", "UnionDataset"),
}


@dataclass(frozen=True)
class Source:
    """An open table; as a context manager, it closes a connection that it owns.

    Attributes
    ----------
    table : ibis.Table
        The table.
    name : str
        Its name in messages.
    connection : Ibis connection
        The engine that holds it.
    files : tuple of Path
        Files that it was read from.
    is_text : bool
        Whether it was read from CSV, so that every column is a string.
    owns_connection : bool
        Whether the connection was opened for this table.
    origins : tuple of str
        The paths, globs and folders that were passed.
    csv_format : CsvFormat
        How CSV files are written.
    secrets : tuple of str
        Parts of an address that messages must not show.
    """

    table: Table
    name: str
    connection: Any
    files: tuple[Path, ...] = ()
    is_text: bool = False
    owns_connection: bool = False
    origins: tuple[str, ...] = ()
    csv_format: CsvFormat = PLAIN
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self.owns_connection:
            self.connection.disconnect()

    @property
    def traits(self) -> Traits:
        """What the engine can and cannot do."""
        return traits_of(self.connection)

    def run(self, table: Table) -> Any:
        """Return the result of a query, which must be small.

        Parameters
        ----------
        table : ibis.Table
            The query.

        Returns
        -------
        pyarrow.Table
            The result.
        """
        return self.connection.to_pyarrow(table)

    @contextmanager
    def reading(self, numbers: Sequence[str] = (), task: str | None = None) -> Iterator[None]:
        """Turn an engine's error into one that names the source and, in CSV, the line.

        Parameters
        ----------
        numbers : sequence of str, optional
            Columns that must hold numbers.
        task : str, optional
            Column with the task.

        Yields
        ------
        None
        """
        try:
            is_file = bool(self.files)
            with errors.reporting(self.name, is_file=is_file, secrets=self.secrets):
                yield
        except EngineError:
            self.check_text(numbers, task)
            if self.is_text:
                csv_text.check_line_endings(self.files, self.csv_format)
            raise

    def check_text(self, numbers: Sequence[str] = (), task: str | None = None) -> None:
        """Raise InvalidInput for the first faulty line if the source is a CSV file.

        Parameters
        ----------
        numbers : sequence of str, optional
            Columns that must hold numbers.
        task : str, optional
            Column with the task.
        """
        if self.is_text and self.files:
            csv_text.check_rows(self.files, numbers, task, self.csv_format)


def open_source(
    source: Any,
    *,
    table: str | None = None,
    connection: Any = None,
    csv_format: CsvFormat = PLAIN,
    views: bool = False,
) -> Source:
    """Open a path, glob, folder, database, frame or Ibis table.

    Parameters
    ----------
    source : path, list of paths, frame, Ibis table, Ibis connection or Source
        What to open; as in ``calibrate_table``.
    table : str, optional
        Table of a database: of a file, an address such as postgres://user@host/name, or an Ibis
        connection; or sheet of a workbook.
    connection : Ibis connection, optional
        The engine that reads files and frames; by default DuckDB in this process.
    csv_format : CsvFormat, optional
        How CSV files are written.
    views : bool, default False
        Whether to read views of DuckDB and SQLite files.

    Returns
    -------
    Source
        The open table. A ``Source`` is returned without its ownership of the connection.
    """
    if isinstance(source, Source):
        return replace(source, owns_connection=False)
    opened = _open(source, table, connection, csv_format, views)
    if csv_format != PLAIN and not opened.is_text:
        opened.__exit__()
        raise _not_csv(csv_format, opened.name)
    return opened


def _open(
    source: Any, table: str | None, connection: Any, csv_format: CsvFormat, views: bool
) -> Source:
    if isinstance(source, ibis.Table):
        with errors.reporting(_title(source)) as name:
            return _open_with(source.get_backend(), lambda engine: Source(source, name, engine))
    if isinstance(source, ibis.BaseBackend):
        with errors.reporting(f"the {source.name} connection") as name:
            return _open_with(source, lambda engine: _open_table(engine, name, table))
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if files.is_remote(path):
            return _open_remote(path, table, connection, csv_format)
        if files.scheme(path):
            return _open_address(path, table)
        return _open_local([path], table, connection, csv_format, views)
    if isinstance(source, list | tuple) and all(isinstance(s, str | os.PathLike) for s in source):
        paths = [os.fspath(path) for path in source]
        return _open_local(paths, table, connection, csv_format, views)
    return _open_frame(source, connection)


def _open_with(engine: Any, read: Callable[[Any], Source], *, owned: bool = False) -> Source:
    """Return what ``read`` returns; if it fails, close the engine if the source would own it."""
    try:
        source = replace(read(engine), owns_connection=owned)
        if source.traits.ignores_case:
            _checks.check_case_collisions(source.name, source.table.columns)
        return source
    except BaseException:
        if owned:
            engine.disconnect()
        raise


def _open_files(
    name: str, connection: Any, read: Callable[[Any], Source], secrets: tuple[str, ...] = ()
) -> Source:
    """Read files with the connection, or with a new one that the source then owns."""
    with errors.reporting(name, is_file=True, secrets=secrets):
        return _open_with(connection or connect(), read, owned=connection is None)


def _open_local(
    paths: list[str], table: str | None, connection: Any, csv_format: CsvFormat, views: bool
) -> Source:
    kind, local = files.find(paths)
    name = files.display_name(paths)
    if kind == "sqlite":
        return _open_sqlite(local[0], table, views)
    if kind == "duckdb":
        return _open_files(
            name, connection, lambda engine: _read_duckdb(local[0], table, views, engine)
        )

    def read(engine: Any) -> Source:
        if kind == "excel":
            rows = ibis.memtable(workbooks.read_sheet(local[0], table))
        else:
            _check_no_table(table, name)
            rows = files.read(engine, kind, local, csv_format)
        return Source(
            rows,
            name,
            engine,
            tuple(local),
            is_text=kind == "csv",
            origins=tuple(paths),
            csv_format=csv_format,
        )

    return _open_files(name, connection, read)


def _open_remote(address: str, table: str | None, connection: Any, csv_format: CsvFormat) -> Source:
    name, secrets = mask(address), find_secrets(address)
    _check_no_table(table, name)

    def read(engine: Any) -> Source:
        kind, rows = files.read_remote(engine, address, csv_format)
        is_text = kind == "csv"
        return Source(rows, name, engine, is_text=is_text, csv_format=csv_format, secrets=secrets)

    return _open_files(name, connection, read, secrets)


def _open_sqlite(path: Path, table: str | None, views: bool) -> Source:
    with errors.reporting(str(path), is_file=True) as name:
        return _open_with(
            databases.open_sqlite(path),
            lambda engine: _open_table(engine, name, table, (path,), views=views),
            owned=True,
        )


def _read_duckdb(path: Path, table: str | None, views: bool, connection: Any) -> Source:
    if connection.name != DUCKDB:
        raise InvalidInput(
            "{} is a DuckDB file, which {} cannot read. Pass {}.",
            path,
            connection.name,
            Parameter("engine", DUCKDB),
        )
    catalog = databases.attach(connection, path)
    try:
        return _open_table(connection, str(path), table, (path,), catalog, views=views)
    except BaseException:
        connection.raw_sql(f"DETACH {catalog}")
        raise


def _not_csv(csv_format: CsvFormat, name: str) -> InvalidInput:
    changed = next(f.name for f in fields(csv_format) if getattr(csv_format, f.name) != f.default)
    return InvalidInput(
        "{} applies only to CSV files, and {} is not one. Leave it out.", Parameter(changed), name
    )


def _check_no_table(table: str | None, name: str) -> None:
    if table is not None:
        raise InvalidInput(
            "{} applies only to databases and workbooks, and {} is neither. Leave it out.",
            Parameter("table", table),
            name,
        )


def _open_address(address: str, table: str | None) -> Source:
    secrets = find_secrets(address)
    if files.scheme(address) in ("duckdb", "motherduck", "sqlite"):
        raise InvalidInput(
            f"{mask(address)} is the address of a file. Pass its path; for MotherDuck, pass an "
            "Ibis connection of your own."
        )
    name = mask(address)
    if re.search(r"@.*@|[/?#].*@", address.partition("://")[2]):  # which programs split differently
        raise _bad_address(name)
    with errors.reporting(name, secrets=secrets):
        try:
            connection = ibis.connect(address)
        except ImportError as error:
            reason = errors.reason(error, secrets)
            raise InvalidInput(f"{name} needs a driver ({reason}).") from None
        except (TypeError, ValueError):  # the message may show the password
            raise _bad_address(name) from None
        opened = _open_with(connection, lambda engine: _open_table(engine, name, table), owned=True)
        return replace(opened, secrets=secrets)


def _bad_address(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is not an address that Ibis can open. Write special characters of a password as "
        "in an address, such as %2F for a slash and %40 for @."
    )


def _open_table(
    connection: Any,
    name: str,
    table: str | None,
    paths: Sequence[Path] = (),
    catalog: str | None = None,
    *,
    views: bool = True,
) -> Source:
    rows = databases.pick_table(connection, name, table, catalog, views=views)
    return Source(rows, f"{name}, table {rows.get_name()}", connection, tuple(paths))


def _open_frame(frame: Any, connection: Any) -> Source:
    bases = type(frame).__mro__
    package = next((p for base in bases if (p := base.__module__.split(".")[0]) in _FRAMES), "")
    if not {base.__name__ for base in bases} & {*_FRAMES.get(package, ())}:
        raise InvalidInput(
            "source must be a path, a list of paths, a pandas, polars or pyarrow frame, an Ibis "
            f"table or an Ibis connection, got {type(frame).__name__}."
        )
    unnamed = [c for c in frame.columns if not isinstance(c, str)] if package == "pandas" else []
    if unnamed:
        raise InvalidInput(f"columns of a frame must be named by strings, got {unnamed[0]!r}.")
    with errors.reporting(f"the {package} frame") as name:
        table = ibis.memtable(frame)
    return _open_with(
        connection or connect(),
        lambda engine: Source(table, name, engine),
        owned=connection is None,
    )


def _title(table: Table) -> str:
    try:
        return f"table {table.get_name()}"
    except Exception:  # a computed table has no name: Ibis raises errors of several types
        return "the table"

"""Sources: any file, frame or database table, opened for reading."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ibis

from metapac._common import Table, listed
from metapac._text import mask, scrub_line
from metapac.columns import Reading
from metapac.errors import EngineError, InvalidInput, keyword
from metapac.provenance import Provenance, read_common_provenance
from metapac.tables import engines, files
from metapac.tables.engines import DUCKDB, Traits
from metapac.tables.files import PLAIN, check_rows

_FRAME = (
    r"pandas\.(.*\.)?DataFrame|polars\.(.*\.)?(DataFrame|LazyFrame)|"
    r"pyarrow\.(.*\.)?(Table|RecordBatch|FileSystemDataset|InMemoryDataset|UnionDataset)"
)


@dataclass(frozen=True)
class Source:
    """An open table; as a context manager, it closes a connection that it owns."""

    table: Table
    name: str
    connection: Any
    files: tuple[Path, ...] = ()
    is_text: bool = False
    owns_connection: bool = False
    origins: tuple[str, ...] = field(default=(), repr=False)  # as given: perhaps with a password
    options: Reading = PLAIN

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self.owns_connection:
            self.connection.disconnect()

    @property
    def traits(self) -> Traits:
        """What the engine can and cannot do."""
        return engines.traits_of(self.connection)

    def run(self, table: Table) -> Any:
        """Return the result of a query, which must be small."""
        return self.connection.to_pyarrow(table)

    def is_usable(self, score: Any) -> Any:
        """Return whether a score is neither null nor NaN."""
        return score.notnull() & ~score.isnan() if self.traits.has_nan else score.notnull()

    def count(self, **conditions: Any) -> tuple[int, ...]:
        """Return the number of rows, and of those in which each condition is true, by one query."""
        table = self.table.select(**conditions)
        counts = {name: table.count(where=table[name]) for name in conditions}
        return tuple(self.run(table.agg(all=table.count(), **counts)).to_pylist()[0].values())

    def md5(self, text: Any) -> Any:
        """Return the MD5 checksum of text, in hexadecimal digits."""
        if self.connection.name == "sqlite":
            self.connection.con.create_function("md5", 1, _md5, deterministic=True)
        return ibis.udf.scalar.builtin(_md5, name="md5")(text)

    def column(self, name: str, remedy: str = "") -> Any:
        """Return a column; the error lists those of the table."""
        columns = self.table.columns
        if name in columns:
            return self.table[name]
        lower = {column.lower(): column for column in reversed(columns)}
        close = difflib.get_close_matches(name.lower(), lower, 1, 0.75)
        hint = f" Did you mean {lower[close[0]]!r}?" if close else remedy
        text = f"{self.name} has no column {name!r}; it has: {listed(columns, shown=30)}.{hint}"
        raise InvalidInput(text)

    def check_not_empty(self, rows: int) -> None:
        """Raise InvalidInput if there are no rows."""
        if not rows:
            raise InvalidInput(f"{self.name} holds no rows. Pass at least one labelled example.")

    def check_no_missing(self, column: str | None, meaning: str, rows: int) -> None:
        """Raise InvalidInput if rows lack the name of a task, label or cluster."""
        if rows:
            text = f"column {column!r}, which names {meaning}, is missing in"
            raise InvalidInput(f"{self.name}: {text} {engines.pluralize(rows, 'row')}.")

    @contextmanager
    def reading(self, numbers: Sequence[str] = (), task: str | None = None) -> Iterator[None]:
        """Turn an engine's error into one that names the source and, in CSV, the line."""
        address = "" if self.files else "".join(self.origins)
        try:
            with engines.reporting(self.name, is_file=bool(self.files), address=address):
                yield
        except EngineError:
            self.check_text(numbers, task)
            raise

    def check_text(self, numbers: Sequence[str] = (), task: str | None = None) -> None:
        """Raise InvalidInput for the first faulty line if the source is a CSV file."""
        if self.is_text and self.files:
            check_rows(self.files, numbers, task, self.options)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def open_source(source: Any, reading: Reading | None = None, **options: Any) -> Source:
    """Open a path, glob, folder, database, frame or Ibis table; options are those of `Reading`."""
    if isinstance(source, Source):
        return replace(source, owns_connection=False)
    how = reading or Reading(**options)
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        if files.local_path(text) is not None:
            return _open_paths([text], how)
        is_file = files.scheme(text) in files.STORES
        return (_open_remote if is_file else _open_address)(text, how)
    if isinstance(source, list | tuple) and all(isinstance(s, str | os.PathLike) for s in source):
        return _open_paths([os.fspath(path) for path in source], how)
    if isinstance(source, ibis.BaseBackend):
        name, how = f"the {source.name} connection", replace(how, connection=source)
        return _open(name, how, lambda engine: _pick(engine, name, how))
    if isinstance(source, ibis.Table):
        name, how = _title(source), replace(how, connection=source.get_backend())
        return _open(name, how, lambda engine: Source(source, name, engine))
    source = _as_arrow(source) if isinstance(source, dict) else source
    name = f"the {_check_frame(source)} frame"
    return _open(name, how, lambda engine: Source(files.make_table(source), name, engine))


def _open(
    name: str,
    how: Reading,
    read: Callable[[Any], Source],
    start: Callable[[], Any] | None = None,
    *,
    is_file: bool = False,
    address: str = "",
    has_tables: bool = True,
) -> Source:
    """Read with an engine that is started for it, or with the given one, or with a new DuckDB.

    The source closes an engine that it owns; so does this function if reading fails.
    """
    is_owned = start is not None or how.connection is None
    with engines.reporting(name, is_file=is_file, address=address):
        engine = start() if start is not None else how.connection or engines.connect()
        try:
            source = replace(read(engine), owns_connection=is_owned, options=how)
            _check_open(source, has_tables)
            return source
        except BaseException:
            if is_owned:
                engine.disconnect()
            raise


def _check_open(source: Source, has_tables: bool) -> None:
    """Raise InvalidInput for names that engines confuse, and for options that do not apply."""
    if source.traits.ignores_case:
        engines.check_case_collisions(source.name, source.table.columns)
    unused = [] if source.is_text else ["separator", "decimal", "encoding"]
    for option in unused if has_tables else ["table", *unused]:
        value = getattr(source.options, option)
        if value != getattr(PLAIN, option):
            kind = "databases and workbooks" if option == "table" else "CSV files"
            text = f"{keyword(option, value)} applies only to {kind}, and {source.name} is none."
            raise InvalidInput(text, parameter=option)


def _open_paths(paths: list[str], how: Reading) -> Source:
    kind, found = files.find(paths)
    name, path = files.display_name(paths), found[0]

    def read(engine: Any) -> Source:
        if kind in ("duckdb", "sqlite"):
            catalog = _attach(engine, path) if kind == "duckdb" else None
            return _pick(engine, str(path), how, path, catalog)
        table, origins = files.read(engine, kind, found, how), tuple(paths)
        return Source(table, name, engine, tuple(found), is_text=kind == "csv", origins=origins)

    def start() -> Any:
        address = f"{path.absolute().as_uri()}?mode=ro"
        return ibis.sqlite.from_connection(sqlite3.connect(address, uri=True))

    has_tables = kind in ("duckdb", "excel", "sqlite")
    own = start if kind == "sqlite" else None
    return _open(name, how, read, own, is_file=True, has_tables=has_tables)


def _attach(engine: Any, path: Path) -> str:
    """Attach a DuckDB file to the engine, read-only, and return the name it has there."""
    if engine.name != DUCKDB:
        raise InvalidInput(f"{path} is a DuckDB file, which {engine.name} cannot read.")
    catalog, quoted = ibis.util.gen_name("file"), str(path.absolute()).replace("'", "''")
    engine.raw_sql(f"ATTACH '{quoted}' AS {catalog} (READ_ONLY)")
    return str(catalog)


def _pick(
    engine: Any, name: str, how: Reading, path: Path | None = None, catalog: str | None = None
) -> Source:
    """Return a table of a database; views of a file must be asked for."""
    try:
        rows = engines.pick_table(engine, name, how.table, catalog, views=how.views or path is None)
    except BaseException:
        if catalog is not None:
            engine.raw_sql(f"DETACH {catalog}")
        raise
    return Source(rows, f"{name}, table {rows.get_name()}", engine, () if path is None else (path,))


def _open_remote(address: str, how: Reading) -> Source:
    name = mask(address)

    def read(engine: Any) -> Source:
        kind, rows = files.read_remote(engine, address, how)
        return Source(rows, name, engine, is_text=kind == "csv", origins=(address,))

    return _open(name, how, read, is_file=True, address=address, has_tables=False)


def _open_address(address: str, how: Reading) -> Source:
    name = mask(address)
    bad = InvalidInput(
        f"{name} is not an address that Ibis can open. Of a DuckDB or SQLite file, pass the path; "
        "in a password, write %2F for a slash and %40 for @."
    )
    is_file = files.scheme(address) in ("duckdb", "motherduck", "sqlite")
    if is_file or re.search(r"@.*@|[/?#].*@", address.partition("://")[2]):
        raise bad  # programs differ on which @ ends the password

    def start() -> Any:
        try:
            return ibis.connect(address)
        except ImportError as error:
            why = scrub_line(str(error), address)
            raise InvalidInput(f"{name} needs a driver ({why}).") from None
        except (TypeError, ValueError):  # the message may show the password
            raise bad from None

    def read(engine: Any) -> Source:
        return replace(_pick(engine, name, how), origins=(address,))

    return _open(name, how, read, start, address=address)


def _as_arrow(columns: dict[str, Any]) -> Any:
    import pyarrow as arrow

    try:
        return arrow.table(columns)
    except (TypeError, arrow.ArrowException) as error:
        raise InvalidInput(f"source must be columns of one length by name ({error}).") from error


def _check_frame(frame: Any) -> str:
    """Return the package of a frame; raise InvalidInput for anything else."""
    names = [f"{base.__module__}.{base.__name__}" for base in type(frame).__mro__]
    package = next((name.split(".")[0] for name in names if re.fullmatch(_FRAME, name)), None)
    if package is None:
        sources = "a path, a list of paths, a frame, an Ibis table or an Ibis connection"
        raise InvalidInput(f"source must be {sources}, got {type(frame).__name__}.")
    unnamed = [c for c in frame.columns if not isinstance(c, str)] if package == "pandas" else []
    if unnamed:
        raise InvalidInput(f"columns of a frame must be named by strings, got {unnamed[0]!r}.")
    return package


def _title(table: Table) -> str:
    try:
        return f"table {table.get_name()}"
    except Exception:  # a computed table has no name: Ibis raises errors of several types
        return "the table"


def read_origin(source: Source) -> Provenance | None:
    """Return where the scores of a table come from."""
    return read_common_provenance(source.files)

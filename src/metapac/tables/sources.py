"""Sources: any file, frame or database table, opened for reading."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import ibis

from metapac._common import Table
from metapac._text import find_secrets, mask
from metapac.context import Context
from metapac.errors import EngineError, InvalidInput, keyword
from metapac.provenance import Provenance, differing_options, read_common_provenance
from metapac.tables import errors, files
from metapac.tables.csv_text import PLAIN, CsvFormat, check_line_endings, check_rows
from metapac.tables.engines import (
    DUCKDB,
    Traits,
    attach,
    connect,
    open_sqlite,
    pick_table,
    traits_of,
)

_FRAMES = {
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "pyarrow": ("Table", "RecordBatch", "FileSystemDataset", "InMemoryDataset", "UnionDataset"),
}


@dataclass(frozen=True)
class Source:
    """An open table; as a context manager, it closes a connection that it owns."""

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
        """Return the result of a query, which must be small."""
        return self.connection.to_pyarrow(table)

    @contextmanager
    def reading(self, numbers: Sequence[str] = (), task: str | None = None) -> Iterator[None]:
        """Turn an engine's error into one that names the source and, in CSV, the line."""
        try:
            is_file = bool(self.files)
            with errors.reporting(self.name, is_file=is_file, secrets=self.secrets):
                yield
        except EngineError:
            self.check_text(numbers, task)
            if self.is_text:
                check_line_endings(self.files, self.csv_format)
            raise

    def check_text(self, numbers: Sequence[str] = (), task: str | None = None) -> None:
        """Raise InvalidInput for the first faulty line if the source is a CSV file."""
        if self.is_text and self.files:
            check_rows(self.files, numbers, task, self.csv_format)


def open_source(
    source: Any,
    *,
    table: str | None = None,
    connection: Any = None,
    csv_format: CsvFormat = PLAIN,
    views: bool = False,
) -> Source:
    """Open a path, glob, folder, database, frame or Ibis table."""
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
            errors.check_case_collisions(source.name, source.table.columns)
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
            rows = ibis.memtable(files.read_sheet(local[0], table))
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
            open_sqlite(path),
            lambda engine: _open_table(engine, name, table, (path,), views=views),
            owned=True,
        )


def _read_duckdb(path: Path, table: str | None, views: bool, connection: Any) -> Source:
    if connection.name != DUCKDB:
        raise InvalidInput(
            f"{path} is a DuckDB file, which {connection.name} cannot read. Pass "
            f"{keyword('engine', DUCKDB)}."
        )
    catalog = attach(connection, path)
    try:
        return _open_table(connection, str(path), table, (path,), catalog, views=views)
    except BaseException:
        connection.raw_sql(f"DETACH {catalog}")
        raise


def _not_csv(csv_format: CsvFormat, name: str) -> InvalidInput:
    changed = next(f.name for f in fields(csv_format) if getattr(csv_format, f.name) != f.default)
    return InvalidInput(
        f"{changed} applies only to CSV files, and {name} is not one. Leave it out.",
        parameter=changed,
    )


def _check_no_table(table: str | None, name: str) -> None:
    if table is not None:
        raise InvalidInput(
            f"{keyword('table', table)} applies only to databases and workbooks, and {name} is "
            "neither. Leave it out."
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
    rows = pick_table(connection, name, table, catalog, views=views)
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


def open_table(
    source: Any,
    *,
    table: str | None = None,
    separator: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    views: bool = False,
    connection: Any = None,
) -> Source:
    """Open a table that is not written as usual, to pass it to the other table functions.

    Files that need no option can be passed to these functions by their path.

    Parameters
    ----------
    source : path, list of paths, frame, Ibis table or Ibis connection
        What to open; as in ``calibrate_table``.
    table : str, optional
        Table of a database, or sheet of a workbook.
    separator : str, optional
        Character between the columns of a CSV file; by default a tab in .tsv files and a comma in
        all others.
    decimal : {".", ","}, default "."
        Decimal character of numbers in a CSV file.
    encoding : str, default "utf-8"
        Encoding of a CSV file, such as "latin-1", "windows-1252" or "utf-16".
    views : bool, default False
        Whether to read views of a DuckDB or SQLite file. A view can read other files: pass True
        only if you trust the file.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.

    Returns
    -------
    Source
        The open table. Used as a context manager, it closes a connection that it opened.

    Raises
    ------
    InvalidInput
        If an option is not valid, or does not apply to such a source.
    EngineError
        If the engine cannot read the table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from metapac.tables import calibrate_table, open_table
    >>> rows = [f"{i % 40};{i},5" for i in range(2000)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.csv")
    ...     _ = path.write_text("\\n".join(["site;score", *rows]))
    ...     with open_table(path, separator=";", decimal=",") as scores:
    ...         calibrate_table(
    ...             scores, task="site", score="score", epsilon=0.1, alpha=0.1, delta=0.1
    ...         ).threshold_
    120.5
    """
    return open_source(
        source,
        table=table,
        connection=connection,
        csv_format=CsvFormat(separator, decimal, encoding),
        views=views,
    )


def read_origin(source: Source) -> Provenance | None:
    """Return where the scores of a table come from."""
    return read_common_provenance(source.files)


def check_origin(source: Source, context: Context, model: str | None) -> None:
    """Raise InvalidInput if a table has scores of another model or score function."""
    origin = read_origin(source)
    if origin is None:
        context.check_model(model)
        return
    _check_name(source, origin, model)
    if context.model not in (None, origin.model):
        _check_options(source, origin.model, str(context.model))
        raise InvalidInput(
            f"{source.name} was scored by {origin.model!r}; the guarantee is for "
            f"{context.model!r}. A guarantee holds for one model: score with that one, or "
            "calibrate the other one."
        )
    context.check_model(origin.model)
    if context.score is not None:
        context.check_score(origin.score)


def _check_options(source: Source, model: str, calibrated: str) -> None:
    """Raise if options of ``metapac score`` are all that differs from what was calibrated."""
    options = differing_options(model, calibrated)
    if options:
        found = [f"--{name} {value}" for name, (value, _) in options.items() if value]
        wanted = " ".join(f"--{name} {value}" for name, (_, value) in options.items())
        raise InvalidInput(
            f"{source.name} was scored with {' '.join(found) or 'other options'}, and the "
            f"calibration tasks with {wanted}. A guarantee holds for tasks and a learner of one "
            f"kind: run 'metapac score' again with {wanted}."
        )


def add_origin(source: Source, context: Context) -> Context:
    """Return a context with the model of the scores, its score function and training tasks."""
    origin = read_origin(source)
    if origin is None:
        return context
    _check_name(source, origin, context.model)
    _check_pool(origin)
    if context.score is not None:
        context.check_score(origin.score)
    trained_on = [*(context.trained_on or ()), *(origin.details.get("trained_on") or ())]
    return replace(
        context,
        model=origin.model,
        score=origin.score,
        trained_on=trained_on or context.trained_on,
        training=context.training or origin.details.get("training"),
        drawn_from=context.drawn_from or origin.details.get("drawn_from"),
    )


def _check_name(source: Source, origin: Provenance, model: str | None) -> None:
    """Raise if the user names another model than the table does."""
    if model not in (None, origin.model):
        raise InvalidInput(
            f"model must be {origin.model!r}, which {source.name} names as the model that scored "
            f"it, got {model!r}. Leave it out.",
            parameter="model",
        )


def _check_pool(origin: Provenance) -> None:
    """Raise if tasks are of classes or groups that the learner was trained on."""
    pool = origin.details.get("pool")
    if pool in ("train", "validation"):
        raise InvalidInput(
            f"the scores are of tasks of the pool {pool!r}, which the learner has seen in "
            "training: they are too good to calibrate on. Score tasks of the pool 'calibration'."
        )

"""Tables that commands read, and what is known of their scores."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import TaskProgressColumn

from metapac._common import Progress
from metapac.cli.console import progress_bar, stderr
from metapac.cli.options import TableOptions
from metapac.columns import Reading
from metapac.columns import open_table as open_any
from metapac.errors import InvalidInput
from metapac.provenance import Provenance

if TYPE_CHECKING:
    from metapac.tables.table import Table


@contextmanager
def open_table(
    scores: list[str],
    options: TableOptions,
    output: Path | None = None,
    *,
    inputs: Iterable[Path] = (),
) -> Iterator[tuple[Table, Progress]]:
    """Open a table, and check that the output can be written."""
    from metapac.tables.engines import connect
    from metapac.tables.output import check_path

    with _starting(options.engine):
        connection = connect(
            options.engine,
            master=options.master,
            memory_limit=options.memory_limit,
            threads=options.threads,
        )
    try:
        given = {field.name: getattr(options, field.name) for field in fields(Reading)[:-1]}
        if options.separator == r"\t":
            given["separator"] = "\t"
        reading = Reading(**given, connection=connection)
        path = scores[0] if len(scores) == 1 else scores
        with open_any(path, reading=reading) as table:
            source = table.source
            if options.engine == "spark" and source.connection.name != "pyspark":
                raise InvalidInput(
                    f"{source.name} is read by {source.connection.name}, not Spark. Leave engine "
                    "out.",
                    parameter="engine",
                )
            if output is not None:
                check_path(source, output, inputs)
            with _query_progress(source.connection) as progress:
                yield table, progress
    finally:
        if options.engine == "duckdb":  # a Spark session may have other users
            connection.disconnect()


@contextmanager
def _starting(engine: str) -> Iterator[None]:
    """Show that Spark is starting, and hide what its Java process prints."""
    if engine != "spark":
        yield
        return
    with os.fdopen(os.dup(2), "w") as screen, Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # Java inherits it
        try:
            with Console(file=screen).status("starting Spark"):
                yield
        finally:
            os.dup2(screen.fileno(), 2)


@contextmanager
def _query_progress(connection: Any) -> Iterator[Progress]:
    """Show the stage of the work and, on DuckDB, the percentage done of the query."""
    stage, finished = "reading", threading.Event()
    with progress_bar(TaskProgressColumn()) as advance:

        def progress(name: str, done: int, total: int | None) -> None:
            nonlocal stage
            stage = name
            advance(name, done, total)

        def poll() -> None:
            while not finished.wait(0.2):
                percentage = connection.con.query_progress()
                if percentage > 0:
                    advance(stage, round(percentage), 100)

        if not stderr.is_terminal or connection.name != "duckdb":
            yield progress
            return
        connection.raw_sql("SET enable_progress_bar = true")
        connection.raw_sql("SET enable_progress_bar_print = false")
        poller = threading.Thread(target=poll, daemon=True)
        poller.start()
        try:
            yield progress
        finally:
            finished.set()
            poller.join()


_SCORES = ("score", "label", "columns", "classes", "classes_column", "prediction", "y", "scale")


def fill_calibration(
    table: Table, origin: Provenance | None, given: dict[str, Any], *, per_class: bool
) -> Table:
    """Return a table with the columns to calibrate on: those given, or those that it names."""
    columns = {} if origin is None else dict(origin.columns)
    filled = _fill(given, columns, ("task", "id"))
    if filled["task"] is None:
        raise InvalidInput(
            "Missing option '--task', the column with the task of each example. Only tables that "
            "'metapac score' wrote name it themselves."
        )
    if any(_is_given(name, given[name]) for name in _SCORES):
        return table.with_columns(**filled)
    wanted = ["score"]
    if per_class:
        wanted += ["label", "classes"]
    elif "classes_column" in columns:  # stored in the promise, for new tables that do not say
        wanted += ["columns", "classes_column"]
    named = {name: columns[name] for name in wanted if name in columns}
    return table.with_columns(**filled | named)


def fill_new(
    table: Table,
    origin: Provenance | None,
    given: dict[str, Any],
    predictor: Any,
    *,
    labelled: bool = True,
) -> Table:
    """Return a table with the columns of new tasks: those given, or those that it names."""
    if origin is None:
        return table.with_columns(**given)
    columns = dict(origin.columns)
    filled = _fill(given, columns, ("task", "id"))
    if any(_is_given(name, given[name]) for name in _SCORES if name in given):
        return table.with_columns(**filled)
    wanted = ["columns", *(["label"] if labelled else [])]
    if getattr(predictor, "classes_", None) is None:
        wanted += ["classes", "classes_column"]
    named = {name: columns[name] for name in wanted if name in columns}
    return table.with_columns(**filled | named)


def _fill(given: dict[str, Any], columns: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    missing = [name for name in names if name in given and given[name] is None]
    return given | {name: columns.get(name) for name in missing}


def _is_given(name: str, value: Any) -> bool:
    return value is not None and not (name == "columns" and value == "p_*")

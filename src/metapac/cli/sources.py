"""Tables opened by an engine, and the progress of its queries."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import TaskProgressColumn

from metapac._types import Progress
from metapac.cli.bundles import TableOptions
from metapac.cli.console import stderr
from metapac.cli.progress import progress_bar
from metapac.exceptions import InvalidInput, Parameter

if TYPE_CHECKING:
    from metapac.tables.io.sources import Source


@contextmanager
def open_table(
    scores: list[str],
    options: TableOptions,
    output: Path | None = None,
    *,
    inputs: Iterable[Path] = (),
) -> Iterator[tuple[Source, Progress]]:
    """Open a table, and check that the output can be written.

    Parameters
    ----------
    scores : list of str
        Files or an address, as typed.
    options : TableOptions
        How to read them.
    output : Path, optional
        File that the command writes.
    inputs : iterable of Path, optional
        Other files that the command reads, which ``output`` must not replace.

    Yields
    ------
    tuple of Source and Progress
        The table, and the callback that moves the progress bar.
    """
    from metapac.tables.io.connections import connect
    from metapac.tables.io.csv_format import CsvFormat
    from metapac.tables.io.output import check_path
    from metapac.tables.io.sources import open_source

    separator = "\t" if options.separator == r"\t" else options.separator
    csv_format = CsvFormat(separator, options.decimal, options.encoding)
    with _starting(options.engine):
        connection = connect(
            options.engine,
            master=options.master,
            memory_limit=options.memory_limit,
            threads=options.threads,
        )
    try:
        paths = scores[0] if len(scores) == 1 else scores
        with open_source(
            paths,
            table=options.table,
            connection=connection,
            csv_format=csv_format,
            views=options.views,
        ) as source:
            if options.engine == "spark" and source.connection.name != "pyspark":
                raise InvalidInput(
                    "{} is read by {}, not Spark. Leave {} out.",
                    source.name,
                    source.connection.name,
                    Parameter("engine"),
                )
            if output is not None:
                check_path(source, output, inputs)
            with _query_progress(source.connection) as progress:
                yield source, progress
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

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

from metapac import artefact
from metapac._common import Progress, require
from metapac.cli.console import progress_bar, stderr
from metapac.cli.options import ReadingOptions
from metapac.columns import NUMBERS, Columns, Reading
from metapac.columns import open_table as open_any
from metapac.errors import InvalidInput
from metapac.provenance import Provenance

if TYPE_CHECKING:
    from metapac.tables.table import Table


_IMAGES = (".png", ".svg", ".pdf")


def check_outputs(output: Path | None, plot: Path | None) -> None:
    """Fail fast: check the names of the files to write, before the query."""
    if output is not None and output.suffix.lower() != ".csv":
        raise InvalidInput(f"output must end in .csv, got {str(output)!r}.")
    if plot is not None:
        if plot.suffix.lower() not in _IMAGES:
            raise InvalidInput(f"plot must end in {', '.join(_IMAGES)}, got {str(plot)!r}.")
        artefact.check_folder(plot.resolve().parent)
        if plot.is_dir():
            raise InvalidInput(f"plot must be a file, got the folder {str(plot)!r}.")
        require("matplotlib.figure", extra="plot", purpose="--plot")


@contextmanager
def open_table(
    scores: list[str],
    options: ReadingOptions,
    output: Path | None = None,
    *,
    inputs: Iterable[Path] = (),
) -> Iterator[tuple[Table, Progress]]:
    """Open a table, and check that the output can be written."""
    from metapac.tables.engines import connect
    from metapac.tables.output import check_path

    with _starting(options.engine):
        limits: Any = {"memory_limit": options.memory_limit, "threads": options.threads}
        connection = connect(options.engine, master=options.master, **limits)
    try:
        given = {field.name: getattr(options, field.name) for field in fields(Reading)}
        reading = Reading(**given | {"connection": connection})
        path = scores[0] if len(scores) == 1 else scores
        with open_any(path, reading=reading) as table:
            source = table.source
            if options.engine == "spark" and source.connection.name != "pyspark":
                text = f"{source.name} is read by {source.connection.name}, not Spark. Leave engine"
                raise InvalidInput(f"{text} out.", parameter="engine")
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
    with progress_bar(TaskProgressColumn(), lines=False) as advance:

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


_SCORES = ("score", "label", "columns", "classes", "classes_column", "losses", *NUMBERS)


def name_calibration(table: Table, given: Columns, *, per_class: bool) -> Table:
    """Return a table with the columns to calibrate on: those given, or those that it names."""
    wanted = ["score"]
    if per_class:
        wanted += ["label", "classes"]
    elif "classes_column" in _read_columns(table):  # stored, for new tables that do not say
        wanted += ["columns", "classes_column"]
    named = _fill(table, given, wanted)
    if named.columns.task is None:
        text = "task is missing, the column with the task of each example. Only tables that"
        raise InvalidInput(f"{text} 'metapac score' wrote name it themselves.", parameter="task")
    return named


def name_new(table: Table, given: Columns, predictor: Any, *, labelled: bool = True) -> Table:
    """Return a table with the columns of new tasks: those given, or those that it names."""
    wanted = ["columns", *(["label"] if labelled else [])]
    if getattr(predictor, "classes_", None) is None:
        wanted += ["classes", "classes_column"]
    return _fill(table, given, wanted)


def _fill(table: Table, given: Columns, wanted: list[str]) -> Table:
    columns, filled = _read_columns(table), dict(vars(given))
    for name in ("task", "id"):
        filled[name] = columns.get(name) if filled[name] is None else filled[name]
    if not any(filled[name] is not None for name in _SCORES):
        filled |= {name: columns[name] for name in wanted if name in columns}
    return table.with_columns(**filled)


def _read_columns(table: Table) -> dict[str, Any]:
    origin = read_origin(table)
    return {} if origin is None else dict(origin.columns)


def read_origin(table: Table) -> Provenance | None:
    """Return where the scores of a table come from."""
    from metapac.tables.sources import read_origin as read

    return read(table.source)

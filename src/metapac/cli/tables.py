"""What the commands on tables share: their options, the engine, and how far it has come."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from metapac.cli.common import errors

if TYPE_CHECKING:
    from metapac.tables.sources import Source


class Engine(StrEnum):
    duckdb = "duckdb"
    spark = "spark"


_READING = "Reading the table"

Scores = Annotated[
    list[str],
    typer.Argument(
        help="Parquet, CSV or JSON lines: files, globs or folders. Or a DuckDB or SQLite file, or "
        "an address such as postgres://user@host/name."
    ),
]
TaskOption = Annotated[str, typer.Option(help="Column with the task of each example.")]
TaskAgain = Annotated[
    str | None, typer.Option(help="Column with the task; by default that of calibrate.")
]
ScoreOption = Annotated[
    str | None, typer.Option(help="Column with the score of the true label of each example.")
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        help="Instead of --score: column with the true label, which picks the score among those of "
        "the classes. With a guarantee for each class, both may be given."
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        help="Columns with a score for each class, the star being the class; or a column of lists."
    ),
]
ColumnsAgain = Annotated[
    str | None, typer.Option(help="As for calibrate; by default as it was there, or 'p_*'.")
]
Classes = Annotated[
    str | None,
    typer.Option(help="Names of the classes, separated by commas: of a list, or some columns."),
]
TableOption = Annotated[
    str | None, typer.Option(help="Table of a database.", rich_help_panel=_READING)
]
EngineOption = Annotated[
    Engine, typer.Option(help="What reads the files.", rich_help_panel=_READING)
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Master of Spark, such as spark://host:7077; by default local.",
        rich_help_panel=_READING,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        help="Memory the engine may use before it spills to disk, such as 4GiB.",
        rich_help_panel=_READING,
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Number of engine threads.", rich_help_panel=_READING)
]


def class_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


class Reading(NamedTuple):
    """How a source is to be read."""

    table: str | None
    engine: Engine
    master: str | None
    memory_limit: str | None
    threads: int | None


@contextmanager
def opened(
    scores: list[str], how: Reading, output: Path | None = None, *, inputs: Iterable[Path] = ()
) -> Iterator[tuple[Source, Callable[[str], None]]]:
    """Open a source with its engine; lend it with a callback that tells what is being done."""
    from metapac.tables.connections import connect
    from metapac.tables.output import check_place
    from metapac.tables.sources import open_source

    with _starting(how.engine):
        connection = connect(
            how.engine.value, master=how.master, memory_limit=how.memory_limit, threads=how.threads
        )
    try:
        given = scores[0] if len(scores) == 1 else scores
        with open_source(given, table=how.table, connection=connection) as source:
            _check_engine(how.engine, source)
            if output is not None:
                check_place(source, output, inputs)
            with _bar(source.connection) as tell:
                yield source, tell
    finally:
        if how.engine == Engine.duckdb:  # a Spark session may have other users
            connection.disconnect()


@contextmanager
def _starting(engine: Engine) -> Iterator[None]:
    """Show that Spark is starting, and nothing of what its Java has to say on the screen."""
    if engine != Engine.spark:
        yield
        return
    with os.fdopen(os.dup(2), "w") as screen, Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # which Java inherits
        try:
            with Console(file=screen).status("starting Spark"):
                yield
        finally:
            os.dup2(screen.fileno(), 2)


def _check_engine(engine: Engine, source: Source) -> None:
    if engine == Engine.spark and source.engine != "pyspark":
        raise ValueError(
            f"{source.name} is read by {source.engine}, not Spark. Leave --engine out."
        )


@contextmanager
def _bar(connection: Any) -> Iterator[Callable[[str], None]]:
    """Show the step an engine is at and, if it can tell, how far it has come."""
    words = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    quiet = not errors.is_terminal
    bar = Progress(*words, TimeElapsedColumn(), console=errors, transient=True, disable=quiet)
    with bar:
        row = bar.add_task("reading", total=None)

        def show(share: float) -> None:
            bar.update(row, completed=max(share, 0), total=100 if share > 0 else None)

        with _watching(connection, show, quiet=quiet):
            yield lambda step: bar.update(row, description=step)


@contextmanager
def _watching(connection: Any, show: Callable[[float], None], *, quiet: bool) -> Iterator[None]:
    """Ask DuckDB now and then how much of a query is done."""
    if quiet or connection.name != "duckdb":
        yield
        return
    connection.raw_sql("SET enable_progress_bar = true")
    connection.raw_sql("SET enable_progress_bar_print = false")
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            show(connection.con.query_progress())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()

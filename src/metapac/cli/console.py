"""The terminal: lines, tables, JSON and progress bars."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import IO, Any, cast

import typer
from rich import progress as rich_progress
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from metapac._common import Progress
from metapac._text import scrub_line, visible


class SafeConsole(Console):
    """A console on which no text steers the terminal: names come from data that others wrote."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments of what is printed, their control characters made visible."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=visible_lines(segment.text))


stdout = SafeConsole(highlight=False)
stderr = SafeConsole(stderr=True, highlight=False)


def visible_lines(text: str) -> str:
    """Return text whose control characters, other than line feeds, are visible."""
    return "\n".join(map(visible, text.split("\n")))


def print_line(text: str) -> None:
    """Print text in one line as it is: no markup, no wrapping, control characters visible."""
    stdout.print(visible(text), markup=False, soft_wrap=True)


def print_text(text: str) -> None:
    """Print paragraphs, wrapped at the width of the terminal."""
    for line in text.split("\n"):
        if line.startswith("- "):
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_row("-", make_cell(line[2:]))
            stdout.print(grid)
        else:
            stdout.print(make_cell(line))


def make_cell(value: object) -> Text:
    """Return a value from the data as a cell of a table: no markup, control characters visible."""
    return Text(visible(str(value)), overflow="fold")


def open_data_output() -> IO[str]:
    """Return where data such as CSV are printed."""
    return cast("IO[str]", VisibleText(sys.stdout)) if sys.stdout.isatty() else sys.stdout


class VisibleText:
    """A stream for text that goes to a terminal, such as CSV: control characters are visible."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        self.stream.write(visible_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def make_table(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """Return an empty table."""
    table = Table(*left, title=title, title_justify="left")
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as "1 task" or "3 classes"."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def print_json(value: Any) -> None:
    """Print a value as JSON in one line."""
    typer.echo(json.dumps(value))


def print_error(text: str) -> None:
    """Print a message in one line to standard error, without what looks like a secret."""
    stderr.print(visible(f"metapac: {scrub_line(text)}"), markup=False, soft_wrap=True)


@contextmanager
def progress_bar(
    counter: rich_progress.ProgressColumn | None = None, *, visible: bool = True
) -> Iterator[Progress]:
    """Show a progress bar on the terminal, and yield the callback that moves it.

    The bar starts again at each stage. What follows a comma is not part of the stage: "training,
    loss 0.31" continues "training, loss 0.35".
    """
    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        counter or rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
        console=stderr,
        transient=True,
        disable=not (visible and stderr.is_terminal),
    )
    # Before rich 14.3, a disabled bar prints an empty line when it stops.
    with nullcontext() if bar.disable else bar:
        row = bar.add_task("starting", total=None)
        current = ""

        def advance(stage: str, done: int, total: int | None) -> None:
            nonlocal current
            name = stage.partition(",")[0]
            if name != current:
                current = name
                bar.reset(row)
            bar.update(row, description=visible_lines(stage), completed=done, total=total)

        yield advance

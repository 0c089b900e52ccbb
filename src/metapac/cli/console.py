"""Printing: results to standard output, messages and progress to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, cast

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from metapac._masking import scrub_line
from metapac._visible import visible


class SafeConsole(Console):
    """A console on which no text steers the terminal: names come from data that others wrote."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments of what is printed, their control characters made visible.

        Parameters
        ----------
        renderable : object
            What is printed.
        options : rich.console.ConsoleOptions, optional
            How to print it.

        Returns
        -------
        iterable of rich.segment.Segment
            The segments. Those of rich itself, such as a move of the cursor, are left alone.
        """
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=visible_lines(segment.text))


stdout = SafeConsole(highlight=False)
stderr = SafeConsole(stderr=True, highlight=False)


def visible_lines(text: str) -> str:
    """Return text whose control characters, other than line feeds, are visible.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    str
        The text as it may be shown on a terminal.
    """
    return "\n".join(map(visible, text.split("\n")))


def print_line(text: str) -> None:
    """Print text in one line as it is: no markup, no wrapping, control characters visible.

    Parameters
    ----------
    text : str
        What to print.
    """
    stdout.print(visible(text), markup=False, soft_wrap=True)


def print_text(text: str) -> None:
    """Print paragraphs, wrapped at the width of the terminal.

    Parameters
    ----------
    text : str
        What to print; each line is a paragraph. Lines that start with "- " are indented.
    """
    for line in text.split("\n"):
        if line.startswith("- "):
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_row("-", make_cell(line[2:]))
            stdout.print(grid)
        else:
            stdout.print(make_cell(line))


def make_cell(value: object) -> Text:
    """Return a value from the data as a cell of a table: no markup, control characters visible.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    rich.text.Text
        The cell.
    """
    return Text(visible(str(value)), overflow="fold")


def open_data_output() -> IO[str]:
    """Return where data such as CSV are printed.

    Returns
    -------
    file
        Standard output. A pipe gets the data as they are; on a terminal, control characters are
        visible.
    """
    return cast("IO[str]", VisibleText(sys.stdout)) if sys.stdout.isatty() else sys.stdout


class VisibleText:
    """A stream for text that goes to a terminal, such as CSV: control characters are visible.

    Parameters
    ----------
    stream : file
        Where to write.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text.

        Parameters
        ----------
        text : str
            What to write.

        Returns
        -------
        int
            Number of characters of ``text``.
        """
        self.stream.write(visible_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def make_table(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """Return an empty table.

    Parameters
    ----------
    left : sequence of str
        Names of the first columns, aligned to the left.
    right : sequence of str
        Names of the other columns, aligned to the right.
    title : str, optional
        Title of the table.

    Returns
    -------
    rich.table.Table
        The table.
    """
    table = Table(*left, title=title, title_justify="left")
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as "1 task" or "3 classes".

    Parameters
    ----------
    number : int
        How many.
    noun : str
        The noun in the singular.
    plural : str, optional
        The noun in the plural; by default with an s.

    Returns
    -------
    str
        The number and the noun.
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def print_json(value: Any) -> None:
    """Print a value as JSON in one line.

    Parameters
    ----------
    value : object
        What to print, as ``json.dumps`` takes it.
    """
    typer.echo(json.dumps(value))


def print_error(text: str) -> None:
    """Print a message in one line to standard error, without what looks like a secret.

    Parameters
    ----------
    text : str
        What to print.
    """
    stderr.print(visible(f"metapac: {scrub_line(text)}"), markup=False, soft_wrap=True)

"""Printing: results to standard output, messages and progress to standard error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

stdout = Console(highlight=False)
stderr = Console(stderr=True, highlight=False)


def print_line(text: str) -> None:
    """Print text as it is: no markup, no wrapping.

    Parameters
    ----------
    text : str
        What to print.
    """
    stdout.print(text, markup=False, soft_wrap=True)


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
    """Print a message in one line to standard error.

    Parameters
    ----------
    text : str
        What to print.
    """
    stderr.print(f"metapac: {text}", markup=False, soft_wrap=True)

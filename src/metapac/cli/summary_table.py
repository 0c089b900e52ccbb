"""The table of a study on the terminal, with intervals below the numbers."""

from __future__ import annotations

import math

from rich.box import SIMPLE_HEAD

from metapac.cli.console import make_table, print_line, print_text, stdout
from metapac.evaluation.formats import footnotes, full_name, header
from metapac.evaluation.summary import MethodSummary, Summary

_NAME = 19  # characters, of the longest name of a method


def print_summary(summary: Summary, title: str) -> None:
    """Print a table with a line for each method, and what its intervals cover.

    Parameters
    ----------
    summary : Summary
        The summary.
    title : str
        Title of the table.
    """
    method, *numbers, verdict = header(summary)
    table = make_table([method], ["\n".join(name.rsplit(" ", 1)) for name in numbers], title)
    table.add_column(verdict)
    names = [full_name(summary, line) for line in summary]
    for name, line in zip(names, summary, strict=True):
        table.add_row(name, *_cells(line))
    # Of a narrow terminal, the verdict is wrapped rather than the name.
    table.columns[0].width = min(max(map(len, [method, *names])), _NAME)
    # Seven columns fit in 80 characters if there is little between them.
    table.box, table.padding, table.pad_edge = SIMPLE_HEAD, (0, 1, 0, 0), False
    table.show_edge = False
    stdout.print(table)
    print_line("")
    print_text("\n".join(footnotes(summary)))


def _cells(line: MethodSummary) -> list[str]:
    return [
        f"{line.size:.2f}{_below(line.size_interval, '.2f')}",
        f"{line.error_quantile:.3f}{_below(line.error_quantile_interval, '.3f')}",
        f"{line.tasks_within:.1%}{_below(line.tasks_within_interval, '.0%')}",
        f"{line.draws_within:.0%}",
        f"{line.draws_expected:.0%}",
        line.verdict,
    ]


def _below(interval: tuple[float, float], form: str) -> str:
    """Return an interval on a line of its own; nothing if it is unbounded."""
    if not all(map(math.isfinite, interval)):
        return ""
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f"\n{low}-{high}"

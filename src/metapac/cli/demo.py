"""``metapac demo``: four ways to choose a threshold, in a table and a picture."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track
from rich.table import Table

from metapac import demo as study
from metapac import plots
from metapac.cli.common import console, errors, told
from metapac.planning import least_size


@told
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")] = Path(
        "metapac-demo"
    ),
    draws: Annotated[int, typer.Option(min=1, help="Calibration draws.")] = 100,
    rng: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
) -> None:
    """Compare PS, PS-Test and Meta-PS on tasks whose true error is known."""
    plots.new_figure(1, width=1, height=1)  # a missing matplotlib is said before the work
    rows = study.run(draws, rng, _bar)
    console.print(_table(study.summarise(rows)))
    table, picture = study.write(rows, output, rng)
    console.print(_explanation(), markup=False, soft_wrap=True)
    console.print(f"\nAll rows: {table}\nPicture:  {picture}", markup=False, soft_wrap=True)


def _bar(numbers: Iterable[int]) -> Iterable[int]:
    quiet = not errors.is_terminal
    return track(numbers, "Calibrating", console=errors, transient=True, disable=quiet)


def _table(summaries: list[study.Summary]) -> Table:
    g = study.GUARANTEE
    table = Table(
        title=f"Promise: error at most {g.epsilon:g} on at least {1 - g.alpha:.0%} of tasks, "
        f"but for a chance of {g.delta:g}",
        title_justify="left",
    )
    table.add_column("method")
    for name in ("mean size", "error, 90th pct", "tasks within", "draws kept"):
        table.add_column(name, justify="right")
    for each in summaries:
        table.add_row(
            each.method,
            f"{each.size:.2f}",
            f"{each.error_90:.3f}",
            f"{each.tasks_within:.1%}",
            f"{each.draws_kept:.0%}",
        )
    return table


def _explanation() -> str:
    g = study.GUARANTEE
    return (
        "PS pools all tasks: near epsilon on average, above it on too many tasks.\n"
        f"PS-Test has the paper's {study.TEST_EXAMPLES} labels of the new task itself and needs "
        f"{least_size(g.epsilon, g.delta)}: it keeps every label.\n"
        "Meta-PS needs no calibration label of the new task; the tight split, the default,\n"
        "has smaller sets than the paper's even one. 'Draws kept': of all calibration draws."
    )

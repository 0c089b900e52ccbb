"""``metapac reproduce``: an experiment of the paper, from its data to table and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from metapac import figures, plots
from metapac.cli.common import AsJson, console, errors, told
from metapac.evaluation import Rows, summarise, verdicts
from metapac.reproduce.experiments import EXPERIMENTS, Experiment, experiment


@told
def reproduce(
    name: Annotated[str, typer.Argument(help=f"{', '.join(EXPERIMENTS)}.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the run; by default NAME.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Calibration draws; else those of the paper.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Training epochs at most; else as stored results had.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; by default what is there.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Workers that share the draws; -1 for all cores.")] = 1,
    backend: Annotated[
        str | None, typer.Option(help="loky (processes) or threading; from Python also dask.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(help="Where data are kept; by default $METAPAC_DATA.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train the paper's learner, run the paper's protocol, draw the paper's figures.

    Prepare the data before, with 'metapac data'; glyphs needs none. Killed and
    started again with the same options, a run goes on where it was.
    """
    chosen = _with_options(experiment(name), draws, epochs)
    plots.new_figure(1, width=1, height=1)  # a missing matplotlib is said before the work
    folder = output or Path(name)
    from metapac.reproduce.run import reproduce as run

    with _bar() as progress:
        rows = run(
            chosen,
            folder,
            home=home,
            device=device,
            n_jobs=jobs,
            backend=backend,
            progress=progress,
        )
    figures.draw_figures(rows, chosen.guarantee, folder, title=chosen.title)
    if as_json:
        typer.echo(json.dumps(_document(rows, chosen)))
    else:
        _tell(rows, chosen, folder)


def _with_options(chosen: Experiment, draws: int | None, epochs: int | None) -> Experiment:
    if draws is not None:
        chosen = replace(chosen, draws=draws)
    if epochs is not None:
        chosen = replace(chosen, training=replace(chosen.training, epochs=epochs))
    return chosen


def _document(rows: Rows, chosen: Experiment) -> dict[str, Any]:
    return {
        "name": chosen.name,
        "methods": [line._asdict() for line in summarise(rows, chosen.guarantee)],
        "claims": [asdict(verdict) for verdict in verdicts(rows, chosen.guarantee)],
    }


def _tell(rows: Rows, chosen: Experiment, folder: Path) -> None:
    g = chosen.guarantee
    table = Table(
        "method", "mean size", "90 % error", "tasks within", "draws within", title=chosen.title
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for line in summarise(rows, g):
        if line.delta == g.delta:
            table.add_row(
                line.method if line.feasible else f"{line.method} (keeps every label)",
                f"{line.size:.2f}",
                f"{line.error_90:.3f}",
                f"{line.tasks_within:.1%}",
                f"{line.draws_within:.0%}",
            )
    console.print(table)
    for verdict in verdicts(rows, g):
        word = "holds" if verdict.holds else "does not hold"
        console.print(f"{word}: {verdict.claim}", markup=False, soft_wrap=True)
    console.print(f"\nRows and figures are in {folder}", markup=False, soft_wrap=True)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int | None], None]]:
    """Lend a callback (what, done, of how many); a new thing to do takes the bar over."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    with bar:
        row = bar.add_task("loading", total=None)
        stage = ""

        def advance(what: str, done: int, total: int | None) -> None:
            nonlocal stage
            if what.partition(",")[0] != stage:
                stage = what.partition(",")[0]
                bar.reset(row)
            bar.update(row, description=what, completed=done, total=total)

        yield advance

"""``metapac reproduce``: an experiment of the paper, from its data to table and figures."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac import _optional
from metapac.cli.console import make_table, print_json, print_line, stdout
from metapac.cli.options import AsJson, Device, Home
from metapac.cli.progress import progress_bar
from metapac.evaluation import Rows, summarise
from metapac.reproduce.claims import check_claims
from metapac.reproduce.experiments import EXPERIMENTS, Experiment, find_experiment
from metapac.reproduce.figures import draw_figures


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"Experiment: {', '.join(EXPERIMENTS)}.")
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder of the run. By default NAME."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of calibration draws; a larger value extends a finished run. By default "
            "as in the paper.",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of training epochs. By default as in the stored results."
        ),
    ] = None,
    device: Device = None,
    n_jobs: Annotated[
        int,
        typer.Option("--jobs", help="Number of workers that share the draws; -1 uses all cores."),
    ] = 1,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="joblib backend of the workers: loky (processes) or threading."
        ),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of the paper: train, calibrate, evaluate, draw the figures.

    Prepare the data first with 'metapac data'; glyphs needs no data. An interrupted run resumes
    when it is started again with the same options.

    Example:

        metapac reproduce glyphs -o glyphs-run
    """
    experiment = _with_options(find_experiment(name), draws, epochs)
    _require_extras()
    folder = output or Path(name)
    from metapac.reproduce.run import reproduce as run

    with progress_bar() as progress:
        rows = run(
            experiment,
            folder,
            home=home,
            device=device,
            n_jobs=n_jobs,
            backend=backend,
            progress=progress,
        )
    draw_figures(rows, experiment.guarantee, folder, title=experiment.title)
    if as_json:
        print_json(_summarise(rows, experiment))
    else:
        _print_text(rows, experiment, folder)


def _require_extras() -> None:
    """Fail fast: check the optional dependencies before the work."""
    _optional.require("matplotlib", extra="plot", purpose="metapac reproduce")
    _optional.require("torch", extra="torch", purpose="metapac reproduce")
    _optional.require("safetensors", extra="torch", purpose="metapac reproduce")


def _with_options(experiment: Experiment, draws: int | None, epochs: int | None) -> Experiment:
    training = replace(experiment.training, epochs=epochs or experiment.training.epochs)
    return replace(experiment, draws=draws or experiment.draws, training=training)


def _summarise(rows: Rows, experiment: Experiment) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "methods": [line._asdict() for line in summarise(rows, experiment.guarantee)],
        "claims": [asdict(claim) for claim in check_claims(rows, experiment.guarantee)],
    }


def _print_text(rows: Rows, experiment: Experiment, folder: Path) -> None:
    g = experiment.guarantee
    columns = ("mean size", "error, 90th pct", "tasks within", "draws within")
    table = make_table(["method"], columns, experiment.title)
    lines = [line for line in summarise(rows, g) if line.delta == g.delta]
    for line in lines:
        table.add_row(
            line.method if line.feasible else f"{line.method} †",
            f"{line.size:.2f}",
            f"{line.error_90:.3f}",
            f"{line.tasks_within:.1%}",
            f"{line.draws_within:.0%}",
        )
    stdout.print(table)
    if not all(line.feasible for line in lines):
        print_line("† keeps every label, because there are too few data for its guarantee")
    for claim in check_claims(rows, g):
        print_line(f"{'holds' if claim.holds else 'does not hold'}: {claim.claim}")
    print_line("")
    print_line(f"Rows and figures are in {folder}")

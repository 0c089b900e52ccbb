"""``metapac reproduce``: an experiment of the paper, from its data to table and figures."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac import _optional
from metapac.cli.console import print_json, print_line
from metapac.cli.options import AsJson, Device, Home, Rng
from metapac.cli.progress import progress_bar
from metapac.cli.summary_table import print_summary
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
    rng: Rng = 0,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of the paper: train, calibrate, evaluate, draw the figures.

    Prepare the data first with 'metapac data'; glyphs needs no data. An interrupted run resumes
    when it is started again with the same options. --rng trains with another seed, and draws other
    tasks: use a folder for each.

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
            rng=rng,
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
    g = experiment.guarantee
    claims = [asdict(claim) for claim in check_claims(rows, g, experiment.data)]
    return {"name": experiment.name, **summarise(rows, g).describe(), "claims": claims}


def _print_text(rows: Rows, experiment: Experiment, folder: Path) -> None:
    g = experiment.guarantee
    print_summary(summarise(rows.take(rows.delta == g.delta), g), experiment.title)
    print_line("")
    for claim in check_claims(rows, g, experiment.data):
        print_line(f"{claim.status}: {claim.claim}")
    print_line("")
    print_line(f"Rows and figures are in {folder}")

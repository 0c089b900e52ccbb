"""``metapac reproduce``: the paper's experiments."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from statistics import mode
from typing import Annotated, Any

import numpy as np
import typer

from metapac._common import require
from metapac.cli.console import print_json, print_line, progress_bar
from metapac.cli.options import AsJson, Device, Home
from metapac.errors import InvalidInput
from metapac.fewshot.cli.study import print_summary
from metapac.fewshot.reproduce.claims import check_claims
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, Experiment, find_experiment
from metapac.fewshot.reproduce.figures import COLOURS, draw_figures
from metapac.fewshot.study.summary import Summary

_Controls = list[tuple[Any, Summary]]
_SHOWN = "Meta-PS joint"  # the library's default split


def _describe_default(field: str) -> str:
    """Return the default of an option in words: that of most experiments, and the others."""
    values = {name: getattr(experiment, field) for name, experiment in EXPERIMENTS.items()}
    usual = mode(values.values())
    others = [f"{value} for {name}" for name, value in values.items() if value != usual]
    return f"By default {usual}{''.join(f', {other}' for other in others)}."


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"Experiment: {', '.join(EXPERIMENTS)}.")
    ],
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder of the run. By default NAME."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of training seeds; a larger value extends a finished run. With at least "
            f"3, intervals cover the training. {_describe_default('seeds')}",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of calibration draws of each seed; a larger value extends a finished run. "
            f"{_describe_default('draws')} Three seeds of 34 draws have the paper's 100 together.",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of training epochs. By default as in the stored results."
        ),
    ] = None,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls",
            help="Also run the controls: new tasks from the calibration classes, so that there is "
            "no shift; calibration tasks with few examples; and Meta-CP with a predictor trained "
            "on what the learner has seen.",
        ),
    ] = False,
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
    rng: Annotated[
        int, typer.Option(min=0, metavar="SEED", help="First seed; the others follow it.")
    ] = 0,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of the paper: train, calibrate, evaluate, draw the figures.

    The learner is trained anew with each seed, and every method is evaluated on the same
    calibration draws and new tasks of that seed. The table is about all seeds together.

    Prepare the data first with 'metapac data'; glyphs needs no data. An interrupted run resumes
    when it is started again with the same options.

    Examples:

        metapac reproduce glyphs -o glyphs-run
        metapac reproduce glyphs --seeds 3 --controls -o glyphs-run
    """
    experiment = _with_options(find_experiment(name), draws, epochs)
    _require_extras()
    folder = folder or Path(name)
    from metapac.fewshot.reproduce.run import read_accuracies, read_controls
    from metapac.fewshot.reproduce.run import reproduce as run

    with progress_bar() as progress:
        summary = run(
            experiment,
            folder,
            seeds=seeds,
            controls=controls,
            rng=rng,
            home=home,
            device=device,
            n_jobs=n_jobs,
            backend=backend,
            progress=progress,
        )
        progress("drawing the figures", 0, None)
        # The figures are those of the paper, so they leave out methods that it does not have.
        rows = [each.take(np.isin(each.method, [*COLOURS])) for each in summary.rows]
        draw_figures(rows, experiment.guarantee, folder, title=experiment.title)
    checked = read_controls(experiment, folder) if controls else []
    accuracies = read_accuracies(folder)
    if as_json:
        print_json(_describe(experiment, summary, accuracies, checked))
    else:
        _print_text(experiment, summary, accuracies, checked)
        print_line(f"Rows and figures are in {folder}")


def _require_extras() -> None:
    """Fail fast: check the optional dependencies before the work."""
    require("matplotlib", extra="plot", purpose="metapac reproduce")
    require("torch", extra="torch", purpose="metapac reproduce")
    require("safetensors", extra="torch", purpose="metapac reproduce")


def _with_options(experiment: Experiment, draws: int | None, epochs: int | None) -> Experiment:
    experiment = replace(experiment, draws=draws or experiment.draws)
    if epochs is None:
        return experiment
    if experiment.training is None:
        raise InvalidInput(
            f"epochs cannot be chosen for {experiment.name}: its learner is trained by the strong "
            "recipe, which fixes the number of epochs. Leave the option out.",
            parameter="epochs",
        )
    return replace(experiment, training=replace(experiment.training, epochs=epochs))


def _describe(
    experiment: Experiment, summary: Summary, accuracies: list[float], controls: _Controls
) -> dict[str, Any]:
    claims = check_claims(summary.rows, experiment.guarantee, experiment.data)
    return {
        "name": experiment.name,
        "accuracy": accuracies,
        **summary.describe(),
        "claims": [asdict(claim) for claim in claims],
        "controls": [
            {"name": control.name, "title": control.title, **result.describe()}
            for control, result in controls
        ],
    }


def _print_text(
    experiment: Experiment, summary: Summary, accuracies: list[float], controls: _Controls
) -> None:
    g = experiment.guarantee
    strict = [line for line in summary if line.delta == g.failure_probability]
    print_summary(replace(summary, lines=tuple(strict)), experiment.title)
    print_line("")
    shown = ", ".join(f"{accuracy:.1%}" for accuracy in accuracies)
    print_line(f"Accuracy of the learner on new tasks: {shown}")
    print_line("")
    for claim in check_claims(summary.rows, g, experiment.data):
        print_line(f"{claim.status}: {claim.claim}")
    print_line("")
    for control, result in controls:
        print_line(_describe_control(control, result))
    if controls:
        print_line("")


def _describe_control(control: Any, summary: Summary) -> str:
    """Return a line about Meta-PS in a control, or about its first method if it has none."""
    line = next((line for line in summary if line.method == _SHOWN), summary[0])
    return (
        f"Control {control.name} ({control.title}): {line.method}, mean size "
        f"{line.size:.2f} over tasks, {line.tasks_within:.1%} of tasks within: {line.verdict}"
    )

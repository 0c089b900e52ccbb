"""An experiment from data to stored results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metapac._common import PathLike, Progress, as_whole_number, ignore_progress, listed, require
from metapac.artefact import lock_folder
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.pools import LoadedPools, load_pools
from metapac.fewshot.reproduce.claims import Claim, check_claims
from metapac.fewshot.reproduce.experiments import (
    Control,
    Experiment,
    find_experiment,
    list_controls,
)
from metapac.fewshot.reproduce.figures import COLOURS, draw_figures
from metapac.fewshot.reproduce.seed import LEARNER_FILE, SeedRun, control_folder, read_learner
from metapac.fewshot.study.run import SETTINGS, check_seeds, find_seeds, read_rows, seed_folder
from metapac.fewshot.study.summary import Summary, summarise

_POOLS = ("train", "validation", "calibration", "test")
_SHOWN = "Meta-PS joint"  # of a control: the library's default split
_CHARACTERS = (100, 20, 60, 60)  # of the glyphs, in each pool


def load(experiment: Experiment, *, home: cache.Home = None) -> LoadedPools:
    """Return the pools of an experiment."""
    counts = _CHARACTERS if experiment.data == "glyphs" else experiment.groups
    return load_pools(
        experiment.data,
        sizes=dict(zip(_POOLS, counts, strict=True)),
        min_size=experiment.min_group_size or None,
        home=home,
    )


# What the intervals do not cover, beside what `Summary.covers` says.
_NOTES = {
    "bank": "All draws take their tasks from those that were scored once; intervals do not cover "
    "other tasks.",
    "distinct": "All draws divide the same groups; intervals do not cover other groups.",
}


def reproduce(
    experiment: Experiment,
    folder: PathLike,
    *,
    seeds: int | None = None,
    controls: bool = False,
    rng: int = 0,
    home: PathLike | None = None,
    device: str | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Train the learner of an experiment with several seeds, and evaluate every method on each.

    An interrupted run resumes: training after its last epoch, an evaluation after its last draw.
    Weights, embeddings and scores are kept in the folder, so that a restart computes none of them
    again. More seeds or draws extend a finished run.
    """
    seeds = experiment.seeds if seeds is None else as_whole_number("seeds", seeds)
    rng = as_whole_number("rng", rng, minimum=0)
    _check_folder(Path(folder), rng, seeds)
    report = progress or ignore_progress
    report("reading the data", 0, None)
    data = load(experiment, home=home)
    options: dict[str, Any] = {"n_jobs": n_jobs, "backend": backend}
    rows = []
    for seed in range(rng, rng + seeds):

        def advance(stage: str, done: int, total: int | None, seed: int = seed) -> None:
            report(f"seed {seed}: {stage}" if seeds > 1 else stage, done, total)

        place = seed_folder(folder, seed)
        with lock_folder(place, "metapac reproduce"):
            run = SeedRun(experiment, data, place, seed, advance)
            learner = run.train(device)
            rows.append(run.evaluate(learner, **options))
            for control in list_controls(experiment) if controls else ():
                run.evaluate_control(learner, control, **options)
    return summarise(rows, experiment.guarantee, notes=_notes(experiment))


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Results of an experiment: all seeds together, the paper's claims, the controls."""

    experiment: Experiment
    summary: Summary
    accuracies: list[float]
    controls: list[tuple[Control, Summary]]

    @property
    def claims(self) -> list[Claim]:
        """The paper's claims, compared with the results."""
        return check_claims(self.summary.rows, self.experiment.guarantee, self.experiment.data)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON can hold them."""
        return {
            "name": self.experiment.name,
            "accuracy": self.accuracies,
            **self.summary.describe(),
            "claims": [asdict(claim) for claim in self.claims],
            "controls": [
                {"name": control.name, "title": control.title, **result.describe()}
                for control, result in self.controls
            ],
        }

    def __str__(self) -> str:
        strict = self.experiment.guarantee.failure_probability
        lines = tuple(line for line in self.summary if line.delta == strict)
        reached = ", ".join(f"{accuracy:.1%}" for accuracy in self.accuracies)
        parts = [
            f"{self.experiment.title}\n",
            f"{replace(self.summary, lines=lines)}\n",
            f"Accuracy of the learner on new tasks: {reached}\n",
            *(f"{claim.status}: {claim.claim}" for claim in self.claims),
        ]
        for control, result in self.controls:
            line = next((line for line in result if line.method == _SHOWN), result[0])
            parts.append(
                f"Control {control.name} ({control.title}): {line.method}, mean size "
                f"{line.size:.2f}, {line.tasks_within:.1%} of tasks within: {line.verdict}"
            )
        return "\n".join(parts)


def reproduce_by_name(
    name: str,
    folder: PathLike,
    *,
    draws: int | None = None,
    epochs: int | None = None,
    controls: bool = False,
    progress: Progress = ignore_progress,
    **options: Any,
) -> Reproduction:
    """Run an experiment of the paper as `reproduce` does, and draw its figures."""
    experiment = find_experiment(name)
    if draws is not None:
        experiment = replace(experiment, draws=as_whole_number("draws", draws))
    if epochs is not None:
        if experiment.training is None:
            raise InvalidInput(
                f"epochs cannot be chosen for {name}: its learner is trained by the strong recipe, "
                "which fixes the number of epochs. Leave the option out.",
                parameter="epochs",
            )
        training = replace(experiment.training, epochs=as_whole_number("epochs", epochs))
        experiment = replace(experiment, training=training)
    for module, extra in (("matplotlib", "plot"), ("torch", "torch"), ("safetensors", "torch")):
        require(module, extra=extra, purpose="metapac reproduce")
    summary = reproduce(experiment, folder, controls=controls, progress=progress, **options)
    progress("drawing the figures", 0, None)
    # The figures are those of the paper, so they leave out methods that it does not have.
    rows = [each.take(np.isin(each.method, [*COLOURS])) for each in summary.rows]
    draw_figures(rows, experiment.guarantee, folder, title=experiment.title)
    checked = read_controls(experiment, folder) if controls else []
    return Reproduction(experiment, summary, read_accuracies(folder), checked)


def read_controls(experiment: Experiment, folder: PathLike) -> list[tuple[Control, Summary]]:
    """Return the results of the controls that were run."""
    seeds = [seed_folder(folder, seed) for seed in find_seeds(folder)]
    found = []
    for control in list_controls(experiment):
        places = [control_folder(seed, control) for seed in seeds]
        if any((place / SETTINGS).exists() for place in places):
            rows = [read_rows(place) for place in places]
            notes = _notes(control.experiment)
            found.append((control, summarise(rows, control.experiment.guarantee, notes=notes)))
    return found


def read_accuracies(folder: PathLike) -> list[float]:
    """Return the accuracy of the learner of each seed on new test tasks."""
    seeds = [seed_folder(folder, seed) for seed in find_seeds(folder)]
    return [float(read_learner(seed)["accuracy"]) for seed in seeds]


def _notes(experiment: Experiment) -> tuple[str, ...]:
    note = _NOTES.get(experiment.tasks_from)
    return () if note is None else (note,)


def _check_folder(folder: Path, rng: int, seeds: int) -> None:
    """Raise if the folder holds a run of one seed, seeds not asked for, or something else."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(
            f"folder must be a folder, got the file {folder}. Choose another name.",
            parameter="folder",
        )
    if any((folder / name).exists() for name in (SETTINGS, LEARNER_FILE)):
        raise InvalidInput(
            f"{folder} holds a run of a single seed, as metapac wrote it before runs had several; "
            "it is left as it is. Choose another folder, or read it with read_rows."
        )
    held = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if held and not any(path.is_dir() for path in folder.glob("seed-*")):
        raise InvalidInput(
            f"folder must be a new or empty folder, or that of a run: {folder} holds no seed, but "
            f"{listed(held, shown=3)}. Choose another folder.",
            parameter="folder",
        )
    check_seeds(folder, rng, seeds)

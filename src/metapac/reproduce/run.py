"""An experiment from data to rows, with several training seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metapac import _checks
from metapac._runs import lock_folder
from metapac._types import PathLike, Progress, ignore_progress
from metapac.evaluation import Summary, read_rows, summarise
from metapac.evaluation.seeds import check_seeds, find_seeds, seed_folder
from metapac.evaluation.store import SETTINGS
from metapac.exceptions import InvalidInput, Parameter
from metapac.reproduce.controls import Control, list_controls
from metapac.reproduce.data import load
from metapac.reproduce.experiments import Experiment
from metapac.reproduce.seed import LEARNER_FILE, SeedRun, control_folder, read_learner

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

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : str or path
        Folder of the run, new or empty or that of a run to resume, with a folder ``seed-i`` for
        each seed. ``learner.json`` in that says how the learner was trained and how good it is.
    seeds : int, optional
        Number of training seeds; by default the experiment's.
    controls : bool, default False
        Also run the controls of the experiment, in ``controls`` of each seed's folder.
    rng : int, default 0
        The first seed of the training and of the draws; the others follow it.
    home : str or path, optional
        Folder of the prepared data sets.
    device : str, optional
        "cpu" or "cuda"; by default "cuda" if available.
    n_jobs : int, default 1
        Number of joblib workers; -1 uses all cores.
    backend : str, optional
        Backend of joblib.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Summary
        One line for each method, and ``rows`` with a table for each seed.

    Raises
    ------
    InvalidInput
        If the folder holds another experiment, more seeds or more draws, or files that are not of
        a run; or if another process is using it.
    """
    seeds = experiment.seeds if seeds is None else _checks.as_whole_number("seeds", seeds)
    rng = _checks.as_whole_number("rng", rng, minimum=0)
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


def read_controls(experiment: Experiment, folder: PathLike) -> list[tuple[Control, Summary]]:
    """Return the results of the controls that were run.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : str or path
        Folder of the run.

    Returns
    -------
    list of (Control, Summary)
        Each control with its summary over all seeds of the folder.

    Raises
    ------
    FileNotFoundError
        If a control is finished with some of the seeds only.
    """
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
    """Return the accuracy of the learner of each seed on new test tasks.

    Parameters
    ----------
    folder : str or path
        Folder of the run.

    Returns
    -------
    list of float
        The accuracies, in order of the seeds.
    """
    seeds = [seed_folder(folder, seed) for seed in find_seeds(folder)]
    return [float(read_learner(seed)["accuracy"]) for seed in seeds]


def _notes(experiment: Experiment) -> tuple[str, ...]:
    note = _NOTES.get(experiment.tasks_from)
    return () if note is None else (note,)


def _check_folder(folder: Path, rng: int, seeds: int) -> None:
    """Raise if the folder holds a run of one seed, seeds not asked for, or something else."""
    if folder.exists() and not folder.is_dir():
        text = "{} must be a folder, got the file {}. Choose another name."
        raise InvalidInput(text, Parameter("folder"), folder)
    if any((folder / name).exists() for name in (SETTINGS, LEARNER_FILE)):
        raise InvalidInput(
            f"{folder} holds a run of a single seed, as metapac wrote it before runs had several; "
            "it is left as it is. Choose another folder, or read it with read_rows."
        )
    held = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if held and not any(path.is_dir() for path in folder.glob("seed-*")):
        raise InvalidInput(
            "{} must be a new or empty folder, or that of a run: {} holds no seed, but {}. Choose "
            "another folder.",
            Parameter("folder"),
            folder,
            _checks.listed(held, shown=3),
        )
    check_seeds(folder, rng, seeds)

"""Scores of tasks of a training run, for ``metapac score``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac import _optional
from metapac._types import Progress
from metapac.cli.learner import weights_checksum
from metapac.cli.options import Device, Home
from metapac.cli.scoring.tasks import Scored, TaskOptions, score_pool
from metapac.datasets.pools import LoadedPools, load_run_pools
from metapac.datasets.runs import read_run
from metapac.exceptions import InvalidInput, Parameter

_run_option = partial(typer.Option, rich_help_panel="A training run")


@dataclass(frozen=True)
class RunOptions:
    """The options for scoring tasks of a run.

    Attributes
    ----------
    data : str or None
        Where the data of the run are now.
    device : str or None
        Device to compute on.
    home : Path or None
        Folder of the data sets.
    """

    data: Annotated[
        str | None,
        _run_option(metavar="FILE", help="Where the data of the run are now, if they were moved."),
    ] = None
    device: Device = None
    home: Home = None


def score_run(folder: Path, tasks: TaskOptions, options: RunOptions, progress: Progress) -> Scored:
    """Score tasks of a pool of a run, with its learner.

    Parameters
    ----------
    folder : Path
        Folder that ``metapac train`` wrote.
    tasks : TaskOptions
        The tasks to draw.
    options : RunOptions
        Where the data are, and where to compute.
    progress : callable
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Scored
        The table and its provenance.
    """
    record, learner, model = load_run_learner(folder, options.device)
    progress("loading data", 0, None)
    loaded = load_run_pools(folder, data=options.data, home=options.home, progress=progress)
    name = tasks.pool or "calibration"
    pool = _find_pool(folder, loaded, name)
    return score_pool(
        learner,
        pool,
        tasks,
        model=model,
        details={
            "kind": "run",
            "pool": name,
            "architecture": record["architecture"],
            "weights_checksum": weights_checksum(learner),
            "data": Path(record["data"]).name,
            "data_checksum": loaded.checksum,
            **_training_tasks(record, pool),
        },
        progress=progress,
        ways=record["options"]["ways"],
        shots=record["options"]["shots"],
    )


def load_run_learner(folder: Path, device: str | None) -> tuple[dict[str, Any], Any, str]:
    """Return the learner of a run.

    Parameters
    ----------
    folder : Path
        Folder that ``metapac train`` wrote.
    device : str or None
        Device to compute on.

    Returns
    -------
    record : dict
        What run.json says.
    learner : ProtoNet or MAML
        The learner.
    model : str
        Its name, with the start of the checksum of its weights.

    Raises
    ------
    InvalidInput
        If the run has not ended, or if its weights are not those that run.json describes.
    """
    record = read_run(folder)
    weights = _optional.require(
        "metapac.learners.training.weights", extra="torch", purpose="scoring tasks of a run"
    )
    from metapac.learners.training.distributed import choose_device

    learner = weights.load_learner(folder)
    checksum = weights_checksum(learner)
    if record.get("weights_checksum", checksum) != checksum:
        raise InvalidInput(
            f"the weights in {folder} are not those that run.json describes: the run was "
            "interrupted while it was extended, or a file was replaced. Start 'metapac train' "
            "again with the same options."
        )
    learner.module.to(choose_device(device))
    digits = checksum.removeprefix("sha256:")[:12]
    return record, learner, f"{record['architecture']['class']} {digits}"


def _training_tasks(record: dict[str, Any], pool: Any) -> dict[str, Any]:
    """Return what the learner has seen: the names of groups, or the number of classes.

    Tasks of classes have names of their own, which cannot be compared with those of classes.
    """
    seen = [*record["pools"]["train"], *record["pools"]["validation"]]
    if pool.unit == "group":
        return {"trained_on": seen}
    return {"training": f"{len(seen)} other classes, as the run records"}


def _find_pool(folder: Path, loaded: LoadedPools, name: str) -> Any:
    pools = {key: pool for key, pool in vars(loaded.pools).items() if pool is not None}
    if name in pools:
        return pools[name]
    remedy = ""
    if name == "calibration":
        remedy = " Train again in another folder, so that classes are kept for it."
    raise InvalidInput(
        "{} must be a pool of {}, which has {}, got {!r}.{}",
        Parameter("pool"),
        folder,
        ", ".join(pools),
        name,
        remedy,
    )

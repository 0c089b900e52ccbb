"""An experiment from data to rows: train, embed or score once, then evaluate every method."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import torch

from metapac import _document
from metapac._runs import lock_folder
from metapac._types import PathLike, Progress, ignore_progress
from metapac.datasets.pools import LoadedPools
from metapac.evaluation import Rows, Study, evaluate, paper_methods
from metapac.evaluation.methods import SECOND_DELTA
from metapac.exceptions import BadArtefact
from metapac.learners.protonet import ProtoNet
from metapac.learners.training.history import Epoch, History
from metapac.learners.training.weights import save_weights
from metapac.reproduce.data import load
from metapac.reproduce.experiments import Experiment
from metapac.reproduce.learner import measure_quality, train_learner, train_predictor
from metapac.reproduce.stored import RunScores
from metapac.reproduce.studies import make_bank_study, make_pool_study

LEARNER = _document.Format(
    "metapac learner",
    written_by="'metapac reproduce'",
    remedy="Run 'metapac reproduce' again with another folder.",
    shape="learner",
)


def reproduce(
    experiment: Experiment,
    folder: PathLike,
    *,
    rng: int = 0,
    home: PathLike | None = None,
    device: str | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Train the learner of an experiment and evaluate every method on its calibration draws.

    An interrupted run resumes: training after its last epoch, the evaluation after its last draw.
    Embeddings and scores are kept in the folder, so that a restart computes none of them again.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : str or path
        Folder of the run. ``learner.json`` in it says how the learner was trained and how good
        it is.
    rng : int, default 0
        Seed of the training and of the draws.
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
    Rows
        One row for each draw, method and test task.

    Raises
    ------
    InvalidInput
        If another process is using the folder.
    """
    run_folder = Path(folder)
    report = progress or ignore_progress
    with lock_folder(run_folder, "metapac reproduce"):
        data = load(experiment, home=home)
        learner = _train(experiment, data, run_folder, device, rng, report)
        return evaluate(
            make_study(experiment, learner, data, run_folder, report),
            guarantee=experiment.guarantee,
            methods=paper_methods(experiment.guarantee, second_delta=SECOND_DELTA),
            draws=experiment.draws,
            rng=rng,
            folder=run_folder,
            n_jobs=n_jobs,
            backend=backend,
            progress=report,
        )


def _train(
    experiment: Experiment,
    data: LoadedPools,
    folder: Path,
    device: str | None,
    rng: int,
    progress: Progress,
) -> ProtoNet:
    def on_epoch(epoch: Epoch) -> None:
        stage = f"training, validation accuracy {epoch.accuracy:.1%}"
        progress(stage, epoch.epoch, experiment.training.epochs)

    learner, history = train_learner(
        experiment,
        data,
        device=device,
        checkpoint=folder / "training",
        rng=rng,
        on_epoch=on_epoch,
    )
    save_weights(learner, folder / "model.safetensors")
    path = folder / "learner.json"
    if _stored_weights(path) != _weights_checksum(learner):
        _document.write(path, _describe_learner(experiment, data, learner, history), LEARNER)
    return learner


def _stored_weights(path: Path) -> object:
    """Return the checksum of the weights that a stored description belongs to, if there is one."""
    try:
        return _document.read(path, LEARNER).get("weights")
    except (FileNotFoundError, BadArtefact):
        return None


def _describe_learner(
    experiment: Experiment, data: LoadedPools, learner: ProtoNet, history: History
) -> dict[str, Any]:
    pools = {name: pool for name, pool in vars(data.pools).items() if pool is not None}
    return {
        "experiment": experiment.describe(),
        "data": data.checksum,
        "pools": {name: [len(pool.names), len(pool.y)] for name, pool in pools.items()},
        "epochs": len(history.epochs),
        "episodes": len(history.epochs) * experiment.training.episodes_per_epoch,
        "best_epoch": history.best.epoch,
        "validation_accuracy": history.best.accuracy,
        "seconds": round(sum(epoch.seconds for epoch in history.epochs), 1),
        **measure_quality(experiment, learner, data),
        "weights": _weights_checksum(learner),
        "device": _device_name(learner),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
    }


def _weights_checksum(learner: ProtoNet) -> str:
    state = learner.module.state_dict()
    return _document.data_checksum(*(state[name].cpu().numpy() for name in sorted(state)))


def _device_name(learner: ProtoNet) -> str:
    device = next(learner.module.parameters()).device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def make_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    folder: PathLike,
    progress: Progress | None = None,
) -> Study:
    """Return the calibration draws of an experiment; each example is embedded here, once.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    learner : ProtoNet
        Its trained learner.
    data : LoadedPools
        Its data.
    folder : str or path
        Folder of the run, which keeps embeddings and scores.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Study
        The study.
    """
    report = progress or ignore_progress
    description = {
        "experiment": experiment.describe(),
        "data": data.checksum,
        "weights": _weights_checksum(learner),
        "torch": torch.__version__,
    }
    stored = RunScores(Path(folder), description)
    predictor = train_predictor(experiment, learner, data, stored, report)
    report("embedding the pools", 0, None)
    parts = experiment, learner, data, predictor, stored, description
    if experiment.tasks_from == "bank":
        return make_bank_study(*parts, report)
    return make_pool_study(*parts)

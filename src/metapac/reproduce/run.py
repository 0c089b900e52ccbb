"""An experiment from data to rows: train, embed or score once, then evaluate every method."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metapac import _document
from metapac._runs import lock_folder
from metapac._types import PathLike, Progress, ignore_progress
from metapac.datasets.pools import LoadedPools
from metapac.evaluation import Rows, Study, evaluate
from metapac.evaluation.draws import ScoredTask
from metapac.exceptions import BadArtefact
from metapac.learners.protonet import ProtoNet
from metapac.learners.training.history import Epoch, History
from metapac.learners.training.weights import save_weights
from metapac.meta_cp.quantiles import QuantilePredictor
from metapac.reproduce.data import load
from metapac.reproduce.experiments import Experiment
from metapac.reproduce.learner import embed_tasks, measure_quality, train_learner, train_predictor
from metapac.reproduce.studies import (
    BankStudy,
    PoolStudy,
    WithoutReplacement,
    WithReplacement,
    predict_quantiles,
    score_test_tasks,
)
from metapac.tasks.pools import ClassPool, GroupPool

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
    home: PathLike | None = None,
    device: str | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Train the learner of an experiment and evaluate every method on its calibration draws.

    An interrupted run resumes: training after its last epoch, the evaluation after its last draw.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : str or path
        Folder of the run. ``learner.json`` in it says how the learner was trained and how good
        it is.
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
        learner = _train(experiment, data, run_folder, device, report)
        return evaluate(
            make_study(experiment, learner, data, report),
            guarantee=experiment.guarantee,
            draws=experiment.draws,
            folder=run_folder,
            n_jobs=n_jobs,
            backend=backend,
            progress=report,
        )


def _train(
    experiment: Experiment, data: LoadedPools, folder: Path, device: str | None, progress: Progress
) -> ProtoNet:
    def on_epoch(epoch: Epoch) -> None:
        stage = f"training, validation accuracy {epoch.accuracy:.1%}"
        progress(stage, epoch.epoch, experiment.training.epochs)

    learner, history = train_learner(
        experiment, data, device=device, checkpoint=folder / "training", on_epoch=on_epoch
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
    experiment: Experiment, learner: ProtoNet, data: LoadedPools, progress: Progress | None = None
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
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Study
        The study.
    """
    report = progress or ignore_progress
    predictor = train_predictor(experiment, learner, data, report)
    description = {
        "experiment": experiment.describe(),
        "data": data.checksum,
        "weights": _weights_checksum(learner),
        "torch": torch.__version__,
    }
    report("embedding the pools", 0, None)
    pools = data.pools
    if experiment.tasks_from == "bank":
        return _bank_study(experiment, learner, data, predictor, description, report)
    if experiment.tasks_from == "distinct":
        both = _join(pools.calibration, pools.test)
        bank = learner.bank(both.x)
        return PoolStudy(experiment, WithoutReplacement(both), bank, bank, predictor, description)
    banks = learner.bank(pools.calibration.x), learner.bank(pools.test.x)
    sampler = WithReplacement(pools.calibration, pools.test)
    return PoolStudy(experiment, sampler, *banks, predictor, description)


def _join(one: GroupPool, other: GroupPool) -> GroupPool:
    return GroupPool(
        np.concatenate([one.x, other.x]),
        np.concatenate([one.y, other.y]),
        np.concatenate([one.groups, other.groups]),
        classes=one.classes,
    )


def _bank_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    predictor: QuantilePredictor,
    description: dict[str, Any],
    progress: Progress,
) -> BankStudy:
    e = experiment
    assert e.calibration_examples is not None  # None is for groups used once
    n_calibration, n_test = e.bank
    scores: list[Any] = []
    quantiles: list[Any] = []
    tests: list[ScoredTask] = []
    pool = _on_device(data.pools.calibration, learner)
    tasks = pool.tasks(n_calibration, **e.task_shape, queries=e.calibration_examples, rng=1)
    for bank, task in embed_tasks(learner, tasks):
        scores.append(bank.scores([task]))
        quantiles.append(predict_quantiles(predictor, bank, [task]))
        progress("calibration tasks", len(scores), n_calibration)
    pool = _on_device(data.pools.test, learner)
    tasks = pool.tasks(n_test, **e.task_shape, queries=e.test_examples, rng=2)
    for bank, task in embed_tasks(learner, tasks):
        tests += score_test_tasks(e, bank, [task], predictor)
        progress("test tasks", len(tests), n_test)
    return BankStudy(e, np.stack(scores), np.concatenate(quantiles), tests, description)


def _on_device(pool: ClassPool, learner: ProtoNet) -> ClassPool:
    """Return the pool with its images on the learner's device, where transforms run faster."""
    device = next(learner.module.parameters()).device
    x = torch.as_tensor(np.array(pool.x)).to(device)
    return ClassPool(x, pool.y, name=pool.name, transform=pool.transform)

"""An experiment from data to rows: train, embed or score once, then evaluate every method."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metapac._version import __version__
from metapac.datasets import cache
from metapac.evaluation import Rows, Study, evaluate
from metapac.evaluation.draws import Judged, data_checksum
from metapac.learners.course import Epoch
from metapac.learners.protonet import ProtoNet
from metapac.learners.quantiles import QuantilePredictor
from metapac.learners.weights import save_weights
from metapac.persistence import replacing
from metapac.reproduce.data import Data, load
from metapac.reproduce.experiments import Experiment
from metapac.reproduce.learning import banked, predictor, quality, trained
from metapac.reproduce.studies import (
    BankStudy,
    Distinct,
    Independent,
    PoolStudy,
    judged,
    predicted,
)
from metapac.tasks.pools import ClassPool, GroupPool

Steps = Callable[[str, int, int | None], None]  # what is being done, done, of how many


def reproduce(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    home: cache.Home = None,
    device: str | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: Steps | None = None,
) -> Rows:
    """Train the learner, evaluate every method on its draws, and keep all of it in ``folder``.

    Killed and called again, it goes on: training after its last epoch, the evaluation after its
    last draw. ``learner.json`` tells how the learner was trained and how good it is.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    say = progress or (lambda what, done, total: None)
    data = load(experiment, home=home)
    learner = _trained(experiment, data, place, device, say)
    study = make_study(experiment, learner, data, say)
    return evaluate(
        study,
        guarantee=experiment.guarantee,
        draws=experiment.draws,
        folder=place,
        n_jobs=n_jobs,
        backend=backend,
        progress=lambda done: say("draws", done, experiment.draws),
    )


def _trained(
    experiment: Experiment, data: Data, place: Path, device: str | None, say: Steps
) -> ProtoNet:
    def advance(epoch: Epoch) -> None:
        words = f"training, validation accuracy {epoch.accuracy:.1%}"
        say(words, epoch.epoch, experiment.training.epochs)

    learner, history = trained(
        experiment, data, device=device, checkpoint=place / "training", progress=advance
    )
    save_weights(learner, place / "model.safetensors")
    weights = _weights(learner)
    if _told(place / "learner.json").get("weights") == weights:
        return learner  # trained before, perhaps on another machine
    epochs, per_epoch = len(history.epochs), experiment.training.episodes_per_epoch
    report = {
        "experiment": experiment.describe(),
        "data": data.checksum,
        "pools": {
            name: [len(pool.names), len(pool.y)]
            for name, pool in vars(data.pools).items()
            if pool is not None
        },
        "epochs": epochs,
        "episodes": epochs * per_epoch,
        "best_epoch": history.best.epoch,
        "validation_accuracy": history.best.accuracy,
        "seconds": round(sum(epoch.seconds for epoch in history.epochs), 1),
        **quality(experiment, learner, data),
        "weights": weights,
        "device": _device(learner),
        "versions": {
            "metapac": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    with replacing(place / "learner.json") as file:
        file.write(json.dumps(report, indent=1) + "\n")
    return learner


def _told(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def _weights(learner: ProtoNet) -> str:
    """Return a checksum of the learner's weights."""
    state = learner.module.state_dict()
    return data_checksum(*(state[name].cpu().numpy() for name in sorted(state)))


def _device(learner: ProtoNet) -> str:
    where = next(learner.module.parameters()).device
    return torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu"


def make_study(
    experiment: Experiment, learner: ProtoNet, data: Data, progress: Steps | None = None
) -> Study:
    """Return the draws of an experiment: all embedding is done here, once."""
    say = progress or (lambda what, done, total: None)
    guess = predictor(
        experiment, learner, data, lambda done, total: say("quantiles of Meta-CP", done, total)
    )
    described = {
        "experiment": experiment.describe(),
        "data": data.checksum,
        "weights": _weights(learner),
        "torch": torch.__version__,
    }
    say("embedding the pools", 0, None)
    pools = data.pools
    if experiment.tasks_from == "bank":
        return _bank_study(experiment, learner, data, guess, described, progress)
    if experiment.tasks_from == "distinct":
        both = _joined(pools.calibration, pools.test)
        bank = learner.bank(both.x)
        return PoolStudy(experiment, Distinct(both), bank, bank, guess, described)
    dealer = Independent(pools.calibration, pools.test)
    banks = learner.bank(pools.calibration.x), learner.bank(pools.test.x)
    return PoolStudy(experiment, dealer, *banks, guess, described)


def _joined(one: GroupPool, other: GroupPool) -> GroupPool:
    return GroupPool(
        np.concatenate([one.x, other.x]),
        np.concatenate([one.y, other.y]),
        np.concatenate([one.groups, other.groups]),
        classes=one.classes,
    )


def _bank_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: Data,
    guess: QuantilePredictor,
    described: dict[str, Any],
    progress: Steps | None,
) -> BankStudy:
    e = experiment
    say = progress or (lambda what, done, total: None)
    assert e.calibration_examples is not None  # only groups have a rest
    tasks, tests = e.bank
    scores: list[Any] = []
    quantiles: list[float] = []
    found: list[Judged] = []
    own = _on_device(data.pools.calibration, learner)
    for bank, task in banked(
        learner, own.tasks(tasks, **e.shape, queries=e.calibration_examples, rng=1)
    ):
        scores.append(bank.scores([task]))
        quantiles += predicted(guess, bank, [task]).tolist()
        say("calibration tasks", len(scores), tasks)
    new = _on_device(data.pools.test, learner)
    for bank, task in banked(learner, new.tasks(tests, **e.shape, queries=e.test_examples, rng=2)):
        found += judged(e, bank, [task], guess)
        say("test tasks", len(found), tests)
    return BankStudy(e, np.stack(scores), np.array(quantiles), found, described)


def _on_device(pool: ClassPool, learner: ProtoNet) -> ClassPool:
    """Return the pool with its images beside the learner, where they are changed faster."""
    where = next(learner.module.parameters()).device
    return ClassPool(
        torch.as_tensor(np.array(pool.x)).to(where), pool.y, name=pool.name, change=pool.change
    )

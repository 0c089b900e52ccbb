"""The learner of an experiment: trained, judged on test tasks, and Meta-CP's quantile predictor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from torch import nn

from metapac.learners import MLP, Conv4, ProtoNet, ResNet12, ResNet50, SentenceCNN
from metapac.learners.backbones import IMAGENET_MEAN, IMAGENET_STD
from metapac.learners.bank import PrototypeBank
from metapac.learners.course import Epoch, History
from metapac.learners.quantiles import QuantilePredictor
from metapac.learners.training import accuracy, train
from metapac.reproduce.data import Data
from metapac.reproduce.experiments import Experiment
from metapac.tasks.pools import GroupPool
from metapac.tasks.task import Task

Array = NDArray[Any]

QUANTILE_TASKS = 1000  # training tasks on which Meta-CP's predictor is trained
RANKED_TASKS = 200  # test tasks over which AUROC is averaged
QUERIES = 5  # examples that accuracy is counted on, of each class or of a group


def backbone(experiment: Experiment, data: Data, rng: int = 0) -> nn.Module:
    """Return the untrained backbone that the experiment names."""
    imagenet: dict[str, Any] = {"mean": IMAGENET_MEAN, "std": IMAGENET_STD, "rng": rng}
    makers: dict[str, Callable[[], nn.Module]] = {
        "conv4": lambda: Conv4(**imagenet),
        "conv4 narrow": lambda: Conv4(channels=1, size=28, width=16, rng=rng),
        "resnet12": lambda: ResNet12(**imagenet),
        "resnet50": lambda: ResNet50(**imagenet),
        "sentence_cnn": lambda: SentenceCNN(data.words, rng=rng),
        "mlp": lambda: MLP(data.pools.train.x.shape[1], rng=rng),
    }
    return makers[experiment.backbone]()


def trained(
    experiment: Experiment,
    data: Data,
    *,
    device: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> tuple[ProtoNet, History]:
    """Return the ProtoNet of an experiment with its best weights; a killed run goes on."""
    learner = ProtoNet(backbone(experiment, data))
    settings: dict[str, Any] = {**experiment.shape, **asdict(experiment.training)}
    history = train(
        learner,
        data.pools.train,
        data.pools.validation,
        **settings,
        device=device,
        checkpoint=checkpoint,
        progress=progress,
    )
    return learner, history


def quality(experiment: Experiment, learner: ProtoNet, data: Data) -> dict[str, float]:
    """Return the accuracy on fresh test tasks and, for groups, the mean AUROC over tasks.

    Where the support set has one label only, all examples score alike and AUROC is 1/2; so it is
    told besides for the tasks that have both.
    """
    pool, shape = data.pools.test, experiment.shape
    found = {"accuracy": accuracy(learner, pool, **shape, queries=QUERIES)}
    if isinstance(pool, GroupPool):
        bank = learner.bank(pool.x)
        tasks = list(pool.tasks(RANKED_TASKS, **shape, queries=experiment.judged_examples, rng=0))
        areas = np.array([_area(bank.predict_proba(task)[:, 1], task.query_y) for task in tasks])
        both = np.array([len(np.unique(task.support_y)) == pool.classes for task in tasks])
        found["auroc"] = float(np.nanmean(areas))
        found["auroc_both_labels"] = float(np.nanmean(areas[both]))
        found["tasks_with_both_labels"] = float(both.mean())
    return found


def _area(scores: Array, labels: Array) -> float:
    """Return the area under the ROC curve: how often a positive outranks a negative."""
    positive = labels == 1
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs:
        return float("nan")
    ranks = stats.rankdata(scores)[positive].sum()
    least = positive.sum() * (positive.sum() + 1) / 2
    return float((ranks - least) / pairs)


def predictor(
    experiment: Experiment,
    learner: ProtoNet,
    data: Data,
    progress: Callable[[int, int], None] | None = None,
) -> QuantilePredictor:
    """Return Meta-CP's quantile predictor, trained on training tasks."""
    e = experiment
    tasks = data.pools.train.tasks(QUANTILE_TASKS, **e.shape, queries=e.judged_examples, rng=0)
    supports, scores = [], []
    for bank, task in banked(learner, tasks):
        supports.append(-bank.leave_one_out([task])[0])
        scores.append(bank.scores([task]))
        if progress is not None:
            progress(len(scores), len(tasks))
    names = np.arange(len(scores)).repeat([len(own) for own in scores])
    fitted = QuantilePredictor(epsilon=e.guarantee.miss_rate, rng=0)
    return fitted.fit(np.stack(supports), fitted.targets(np.concatenate(scores), names))


def banked(learner: ProtoNet, tasks: Any) -> Iterator[tuple[PrototypeBank, Task]]:
    """Yield each task with the embeddings of its data, which neighbours may share."""
    known, bank = None, None
    for task in tasks:
        if bank is None or task.x is not known:
            # A bank for one task is used once: its Gram matrix would cost more than it saves.
            known, bank = task.x, PrototypeBank(learner.embed(task.x), task.x, memory=0)
        yield bank, task

"""The learner of an experiment: training, test metrics, and Meta-CP's quantile predictor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from metapac._types import Array, PathLike, Progress, ignore_progress
from metapac.datasets.pools import LoadedPools
from metapac.evaluation.pool_sizes import largest_queries
from metapac.learners import ProtoNet
from metapac.learners.bank import PrototypeBank
from metapac.learners.networks import registry
from metapac.learners.networks.backbones import IMAGENET_MEAN, IMAGENET_STD
from metapac.learners.networks.sphere import Sphere
from metapac.learners.task_accuracy import accuracy
from metapac.learners.training.history import Epoch, History
from metapac.learners.training.strong import train_strong
from metapac.learners.training.train import train
from metapac.meta_cp.quantiles import QuantilePredictor
from metapac.reproduce.experiments import Experiment
from metapac.reproduce.stored import RunScores
from metapac.scoring.stored import Stored
from metapac.tasks.pools import ClassPool, GroupPool
from metapac.tasks.task import Task

QUANTILE_TASKS = 1000  # training tasks for Meta-CP's predictor
RANKED_TASKS = 200  # test tasks over which AUROC is averaged
ACCURACY_TASKS = 2000  # test tasks over which accuracy is averaged
QUERIES = 15  # examples per class, or per group, on which accuracy is measured
VALIDATION_TASKS = 100  # on which each epoch of the strong recipe is measured


def build_backbone(experiment: Experiment, data: LoadedPools, rng: int = 0) -> nn.Module:
    """Return the untrained backbone of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    data : LoadedPools
        Its data.
    rng : int, default 0
        Seed of the weights.

    Returns
    -------
    torch.nn.Module
        The backbone.
    """
    special: dict[str, tuple[str, dict[str, Any]]] = {
        "conv4 narrow": ("conv4", {"channels": 1, "size": 28, "width": 16}),
        "sentence_cnn": ("sentence_cnn", {"words": data.words}),
        "mlp": ("mlp", {"inputs": data.pools.train.x.shape[1]}),
    }
    imagenet = {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    name, options = special.get(experiment.backbone, (experiment.backbone, imagenet))
    return registry.build_backbone(name, **options, rng=rng)


def train_learner(
    experiment: Experiment,
    data: LoadedPools,
    *,
    device: str | None = None,
    checkpoint: PathLike | None = None,
    rng: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> tuple[ProtoNet, History]:
    """Train the ProtoNet of an experiment and return it with its best weights.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    data : LoadedPools
        Its data.
    device : str, optional
        "cpu" or "cuda"; by default "cuda" if available.
    checkpoint : str or path, optional
        Folder from which an interrupted run resumes.
    rng : int, default 0
        Seed of the weights and of the training tasks.
    on_epoch : callable, optional
        Called with each finished epoch.

    Returns
    -------
    learner : ProtoNet
        The learner.
    history : History
        Its training.
    """
    learner = build_learner(experiment, data, rng)
    options: dict[str, Any] = {"device": device, "checkpoint": checkpoint, "rng": rng}
    pools, shape = data.pools, experiment.task_shape
    if experiment.training is None:
        options |= {**shape, "validation_tasks": VALIDATION_TASKS, "on_epoch": on_epoch}
        return learner, train_strong(learner, pools.train, pools.validation, **options)
    options |= {**shape, **asdict(experiment.training), "on_epoch": on_epoch}
    return learner, train(learner, pools.train, pools.validation, **options)


def build_learner(experiment: Experiment, data: LoadedPools, rng: int = 0) -> ProtoNet:
    """Return the untrained ProtoNet of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    data : LoadedPools
        Its data.
    rng : int, default 0
        Seed of the weights.

    Returns
    -------
    ProtoNet
        The learner, on a `Sphere` if it is trained by the strong recipe.
    """
    backbone = build_backbone(experiment, data, rng)
    return ProtoNet(Sphere(backbone) if experiment.training is None else backbone)


def measure_quality(
    experiment: Experiment, learner: ProtoNet, data: LoadedPools, rng: int = 0
) -> dict[str, Any]:
    """Return the accuracy on new test tasks and, for groups, the mean AUROC over tasks.

    If the support set has only one label, all examples score the same and AUROC is 1/2. So it is
    also reported for the tasks that have both labels, if there are any.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    learner : ProtoNet
        Its trained learner.
    data : LoadedPools
        Its data.
    rng : int, default 0
        Seed of the test tasks. With another for each training seed, the spread over seeds also
        covers the choice of tasks.

    Returns
    -------
    dict
        The metrics, and the 95 % interval of the accuracy over tasks.
    """
    pool, shape = move_transformed(data.pools.test, learner), experiment.task_shape
    queries = largest_queries(pool, experiment.shots, QUERIES)
    found = accuracy(learner, pool, **shape, queries=queries, tasks=ACCURACY_TASKS, rng=rng)
    metrics: dict[str, Any] = {
        "accuracy": found.value,
        "accuracy_interval": [found.low, found.high],
        "accuracy_tasks": found.tasks,
    }
    if isinstance(pool, GroupPool):
        bank, queries = learner.bank(pool.x), experiment.evaluation_examples
        tasks = list(pool.tasks(RANKED_TASKS, **shape, queries=queries, rng=rng))
        areas = np.array([_auroc(bank.predict_proba(task)[:, 1], task.query_y) for task in tasks])
        both = np.array([len(np.unique(task.support_y)) == pool.classes for task in tasks])
        known = ~np.isnan(areas)
        for name, chosen in (("auroc", known), ("auroc_both_labels", known & both)):
            if chosen.any():
                metrics[name] = float(areas[chosen].mean())
        metrics["tasks_with_both_labels"] = float(both.mean())
    return metrics


def _auroc(scores: Array, labels: Array) -> float:
    """Return the area under the ROC curve: how often a positive outranks a negative."""
    positive = labels == 1
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs:
        return float("nan")
    ranks = stats.rankdata(scores)[positive].sum()
    minimum = positive.sum() * (positive.sum() + 1) / 2
    return float((ranks - minimum) / pairs)


def train_predictor(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    stored: RunScores,
    progress: Progress | None = None,
) -> QuantilePredictor:
    """Train Meta-CP's quantile predictor on tasks of a pool.

    Parameters
    ----------
    experiment : Experiment
        The experiment, which names the pool.
    learner : ProtoNet
        Its trained learner.
    data : LoadedPools
        Its data.
    stored : RunScores
        Where the scores of the tasks are, or will be.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    QuantilePredictor
        The predictor.
    """
    e, report = experiment, progress or ignore_progress
    pool = move_transformed(getattr(data.pools, e.predictor), learner)
    queries = largest_queries(pool, e.shots, e.evaluation_examples)

    def score_pool_tasks() -> Stored:
        tasks = pool.tasks(QUANTILE_TASKS, **e.task_shape, queries=queries, rng=0)
        supports, scores = [], []
        for bank, task in embed_tasks(learner, tasks, fast=e.tasks_from == "bank"):
            supports.append(bank.leave_one_out([task])[0])
            scores.append(bank.scores([task]))
            report("quantiles of Meta-CP", len(scores), len(tasks))
        ids = np.arange(len(scores)).repeat([len(part) for part in scores])
        return Stored(embeddings=np.stack(supports), scores=np.concatenate(scores), tasks=ids)

    settings = {**e.task_shape, "count": QUANTILE_TASKS, "queries": queries}
    known = stored.read_or_compute(f"{e.predictor}-tasks", score_pool_tasks, **settings)
    assert known.embeddings is not None  # a row for each task: the scores of its support examples
    assert known.scores is not None
    assert known.tasks is not None
    report("fitting Meta-CP's predictor", 0, None)
    predictor = QuantilePredictor(epsilon=e.guarantee.miss_rate, rng=0)
    return predictor.fit(-known.embeddings, predictor.targets(known.scores, known.tasks))


def embed_tasks(
    learner: ProtoNet, tasks: Iterable[Task], *, fast: bool
) -> Iterator[tuple[PrototypeBank, Task]]:
    """Yield each task with the embeddings of its data; consecutive tasks may share them.

    Parameters
    ----------
    learner : ProtoNet
        The learner.
    tasks : iterable of Task
        The tasks.
    fast : bool
        Whether to embed fast, as in `ProtoNet.embed`: worth it if each task has data of its own.

    Yields
    ------
    bank : PrototypeBank
        Embeddings of the task's data.
    task : Task
        The task.
    """
    embedded, bank = None, None
    for task in tasks:
        if bank is None or task.x is not embedded:
            # The Gram matrix of a bank that serves one task would cost more than it saves.
            z = learner.embed(task.x, fast=fast)
            embedded, bank = task.x, PrototypeBank(z, task.x, memory=0)
        yield bank, task


def move_transformed(pool: Any, learner: ProtoNet) -> Any:
    """Return a pool with its examples on the learner's device, if its tasks transform them.

    Parameters
    ----------
    pool : ClassPool or GroupPool
        The pool.
    learner : ProtoNet
        The learner.

    Returns
    -------
    ClassPool or GroupPool
        The pool; transforms run faster there.
    """
    if not isinstance(pool, ClassPool) or pool.transform is None:
        return pool
    device = next(learner.module.parameters()).device
    x = torch.as_tensor(np.array(pool.x)).to(device)
    return ClassPool(x, pool.y, name=pool.name, transform=pool.transform)

"""One seed of an experiment: train, store, study."""

from __future__ import annotations

import copy
import platform
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from metapac import artefact
from metapac._common import Array, PathLike, Progress, ignore_progress
from metapac.errors import BadArtefact, InvalidInput
from metapac.fewshot.datasets.pools import LoadedPools
from metapac.fewshot.learners import networks
from metapac.fewshot.learners.accuracy import accuracy
from metapac.fewshot.learners.networks import IMAGENET_MEAN, IMAGENET_STD, Sphere
from metapac.fewshot.learners.protonet import ProtoNet, PrototypeBank
from metapac.fewshot.pools import ClassPool, GroupPool, data_checksum
from metapac.fewshot.quantile_predictor import QuantilePredictor
from metapac.fewshot.reproduce.experiments import Control, Experiment, Training, all_methods
from metapac.fewshot.scoring import Stored, read_stored
from metapac.fewshot.study.draws import Draw, ScoredTask, Study
from metapac.fewshot.study.methods import Method
from metapac.fewshot.study.pool_study import PoolStudy, join_groups, largest_queries
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import check_settings, read_settings, run_study
from metapac.fewshot.tasks import Task
from metapac.fewshot.training.checkpoints import load_weights, save_weights
from metapac.fewshot.training.history import Epoch, History
from metapac.fewshot.training.loop import choose_device, train
from metapac.fewshot.training.strong import recipe_for, train_strong
from metapac.guarantee import Guarantee


@dataclass(frozen=True)
class RunScores:
    """The stored arrays of a run."""

    folder: Path
    provenance: dict[str, Any]

    def read_or_compute(self, name: str, compute: Callable[[], Stored], **settings: Any) -> Stored:
        """Return stored arrays; if they are missing, damaged or of another run, compute them."""
        path = self.folder / f"{name}.safetensors"
        facts = self.provenance | {"arrays": name, **settings}
        wanted = artefact.as_json("provenance", facts)
        try:
            found = read_stored(path)
        except (FileNotFoundError, BadArtefact):
            found = None
        if found is None or found.provenance != wanted:
            found = replace(compute(), provenance=wanted)
            found.save(path)
        return found

    def bank(self, name: str, learner: ProtoNet, x: Any) -> Any:
        """Return the bank of a pool, embedding its examples only if they are not stored."""
        stored = self.read_or_compute(
            f"{name}-embeddings", lambda: Stored(embeddings=learner.embed(x).cpu().numpy())
        )
        device = next(learner.module.parameters()).device
        embedded = copy.copy(learner)
        vars(embedded)["embed"] = lambda _x: torch.as_tensor(stored.embeddings).to(device)
        return embedded.bank(x)


QUANTILE_TASKS = 1000  # training tasks for Meta-CP's predictor
RANKED_TASKS = 200  # test tasks over which AUROC is averaged
ACCURACY_TASKS = 2000  # test tasks over which accuracy is averaged
QUERIES = 15  # examples per class, or per group, on which accuracy is measured
VALIDATION_TASKS = 100  # on which each epoch of the strong recipe is measured


def build_backbone(experiment: Experiment, data: LoadedPools, rng: int = 0) -> nn.Module:
    """Return the untrained backbone of an experiment."""
    special: dict[str, tuple[str, dict[str, Any]]] = {
        "conv4 narrow": ("conv4", {"channels": 1, "size": 28, "width": 16}),
        "sentence_cnn": ("sentence_cnn", {"words": data.words}),
        "mlp": ("mlp", {"inputs": data.pools.train.x.shape[1]}),
    }
    imagenet = {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    name, options = special.get(experiment.backbone, (experiment.backbone, imagenet))
    return networks.build_backbone(name, **options, rng=rng)


def train_learner(
    experiment: Experiment,
    data: LoadedPools,
    *,
    device: str | None = None,
    checkpoint: PathLike | None = None,
    rng: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> tuple[ProtoNet, History]:
    """Train the ProtoNet of an experiment and return it with its best weights."""
    learner = build_learner(experiment, data, rng)
    options: dict[str, Any] = {"device": device, "checkpoint": checkpoint, "rng": rng}
    pools, shape = data.pools, experiment.task_shape
    if experiment.training is None:
        options |= {**shape, "validation_tasks": VALIDATION_TASKS, "on_epoch": on_epoch}
        return learner, train_strong(learner, pools.train, pools.validation, **options)
    options |= {**shape, **asdict(experiment.training), "on_epoch": on_epoch}
    return learner, train(learner, pools.train, pools.validation, **options)


def build_learner(experiment: Experiment, data: LoadedPools, rng: int = 0) -> ProtoNet:
    """Return the untrained ProtoNet of an experiment."""
    backbone = build_backbone(experiment, data, rng)
    return ProtoNet(Sphere(backbone) if experiment.training is None else backbone)


def measure_quality(
    experiment: Experiment, learner: ProtoNet, data: LoadedPools, rng: int = 0
) -> dict[str, Any]:
    """Return the accuracy on new test tasks and, for groups, the mean AUROC over tasks.

    If the support set has only one label, all examples score the same and AUROC is 1/2. So it is
    also reported for the tasks that have both labels, if there are any.
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
    """Train Meta-CP's quantile predictor on tasks of a pool."""
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
    """Yield each task with the embeddings of its data; consecutive tasks may share them."""
    embedded, bank = None, None
    for task in tasks:
        if bank is None or task.x is not embedded:
            # The Gram matrix of a bank that serves one task would cost more than it saves.
            z = learner.embed(task.x, fast=fast)
            embedded, bank = task.x, PrototypeBank(z, task.x, memory=0)
        yield bank, task


def move_transformed(pool: Any, learner: ProtoNet) -> Any:
    """Return a pool with its examples on the learner's device, if its tasks transform them."""
    if not isinstance(pool, ClassPool) or pool.transform is None:
        return pool
    device = next(learner.module.parameters()).device
    x = torch.as_tensor(np.array(pool.x)).to(device)
    return ClassPool(x, pool.y, name=pool.name, transform=pool.transform)


@dataclass(frozen=True, eq=False)
class BankStudy:
    """Tasks that were scored once; each draw takes some of them without replacement.

    The tasks of a draw are as independent as those of the bank; different draws share tasks.
    """

    experiment: Experiment
    scores: Array
    quantiles: Array
    tests: Sequence[ScoredTask]
    description: dict[str, Any] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return calibration scores and test tasks."""
        e = self.experiment
        chosen = rng.choice(len(self.scores), e.calibration_tasks, replace=False)
        chosen_tests = rng.choice(len(self.tests), e.test_tasks, replace=False)
        return Draw(
            scores=self.scores[chosen].ravel(),
            tasks=np.arange(len(chosen)).repeat(self.scores.shape[1]),
            tests=[self.tests[i] for i in chosen_tests],
            quantiles=self.quantiles[chosen],
        )

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on."""
        return self.description


class LazyStudy:
    """A study that is made before its first draw, so that a finished evaluation makes none."""

    def __init__(self, description: dict[str, Any], make: Callable[[Progress], Study]) -> None:
        self._description = description
        self._make: Callable[[Progress], Study] | None = make
        self._study: Study | None = None

    @property
    def preferred_backend(self) -> str:
        """Backend of joblib for `evaluate` with workers: that of the study."""
        return getattr(self._prepare(), "preferred_backend", "loky")

    def prepare(self, progress: Progress | None = None) -> None:
        """Make the study and prepare it, unless that has been done."""
        self._prepare(progress or ignore_progress)

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return a draw of the study."""
        return self._prepare().draw(rng)

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on."""
        return self._description

    def _prepare(self, report: Progress = ignore_progress) -> Study:
        if self._study is None:
            assert self._make is not None
            study = self._make(report)
            if hasattr(study, "prepare"):
                study.prepare(report)
            self._study, self._make = study, None  # workers are sent the study alone
        return self._study


def make_pool_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    predictor: QuantilePredictor,
    stored: RunScores,
    description: dict[str, Any],
) -> PoolStudy:
    """Return draws of new tasks from the pools of an experiment."""
    e, distinct = experiment, experiment.tasks_from == "distinct"
    calibration, test = data.pools.calibration, getattr(data.pools, e.new_tasks)
    if distinct:
        calibration = test = join_groups(calibration, test)
        banks = (stored.bank("groups", learner, test.x),) * 2
    else:
        known = stored.bank("calibration", learner, calibration.x)
        is_same = test is calibration
        banks = known, known if is_same else stored.bank("test", learner, test.x)
    return PoolStudy(
        learner,
        calibration,
        test,
        **e.task_shape,
        queries=e.calibration_examples,
        test_queries=e.evaluation_examples,
        labelled=e.labelled_examples,
        tasks=e.calibration_tasks,
        tests=e.test_tasks,
        distinct=distinct,
        predictor=predictor,
        banks=banks,
        description=description,
    )


def make_bank_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    predictor: QuantilePredictor,
    stored: RunScores,
    description: dict[str, Any],
    progress: Progress,
) -> Study:
    """Return draws of tasks that are scored once."""
    e, counts = experiment, experiment.bank

    def tasks(pool: ClassPool, count: int, queries: int, rng: int) -> Sequence[Task]:
        near = move_transformed(pool, learner)
        drawn: Sequence[Task] = near.tasks(count, **e.task_shape, queries=queries, rng=rng)
        return drawn

    def score_calibration() -> Stored:
        assert e.calibration_examples is not None  # None is for groups used once
        drawn = tasks(data.pools.calibration, counts[0], e.calibration_examples, 1)
        supports, scores = [], []
        for bank, task in embed_tasks(learner, drawn, fast=True):
            supports.append(bank.leave_one_out([task])[0])
            scores.append(bank.scores([task]))
            progress("calibration tasks", len(scores), counts[0])
        ids = np.arange(len(scores)).repeat([len(part) for part in scores])
        return Stored(embeddings=np.stack(supports), scores=np.concatenate(scores), tasks=ids)

    def score_tests() -> Stored:
        drawn = tasks(data.pools.test, counts[1], e.test_examples, 2)
        supports, tables, labels = [], [], []
        for bank, task in embed_tasks(learner, drawn, fast=True):
            supports.append(bank.leave_one_out([task])[0])
            tables.append(bank.predict_proba(task))
            labels.append(task.query_y)
            progress("test tasks", len(tables), counts[1])
        return Stored(
            embeddings=np.concatenate(tables),
            labels=np.concatenate(labels),
            scores=np.concatenate(supports),
            tasks=np.arange(len(supports)).repeat([len(part) for part in supports]),
        )

    shape, examples = e.task_shape, e.calibration_examples
    known = stored.read_or_compute(
        "calibration-tasks", score_calibration, **shape, count=counts[0], queries=examples
    )
    new = stored.read_or_compute(
        "test-tasks", score_tests, **shape, count=counts[1], queries=e.test_examples
    )
    assert known.embeddings is not None
    assert known.scores is not None
    return BankStudy(
        e,
        known.scores.reshape(counts[0], -1),
        np.array([*_predict_each(predictor, known.embeddings)]),
        _scored_tests(e, new, predictor),
        description,
    )


def _predict_each(predictor: QuantilePredictor, supports: Array) -> Iterator[float]:
    """Yield the quantile of each task, one at a time: a batch would round differently."""
    for support in supports:
        yield float(predictor.predict(-support[None])[0])


def _scored_tests(e: Experiment, stored: Stored, predictor: QuantilePredictor) -> list[ScoredTask]:
    """Return the test tasks; the first queries of each class are the labelled examples."""
    assert stored.embeddings is not None
    assert stored.labels is not None
    assert stored.scores is not None
    count = e.bank[1]
    tables = np.split(stored.embeddings, count)
    labels = np.split(stored.labels, count)
    quantiles = _predict_each(predictor, stored.scores.reshape(count, -1))
    labelled = np.arange(len(labels[0])) % e.test_examples < e.labelled_examples
    return [
        ScoredTask.from_predictions(table, y, labelled=labelled, quantile=quantile)
        for table, y, quantile in zip(tables, labels, quantiles, strict=True)
    ]


LEARNER = artefact.Format(
    "metapac learner",
    written_by="'metapac reproduce'",
    remedy="Run 'metapac reproduce' again with another folder.",
    shape="learner",
)
LEARNER_FILE = "learner.json"
_CONTROLS = "controls"  # folder beside the rows of a seed
_WEIGHTS = "model.safetensors"
_Predictors = dict[Hashable, QuantilePredictor]  # of Meta-CP, by what each depends on


@dataclass(frozen=True)
class SeedRun:
    """One seed of an experiment."""

    experiment: Experiment
    data: LoadedPools
    folder: Path
    rng: int
    progress: Progress = field(default_factory=lambda: ignore_progress)
    _predictors: _Predictors = field(default_factory=dict, init=False, repr=False, compare=False)

    def train(self, device: str | None = None) -> ProtoNet:
        """Return the trained learner; a finished training is read from the folder."""
        found = self._read_trained(device)
        if found is not None:
            return found
        self._check_evaluation()
        self._check_training()
        learner, history = train_learner(
            self.experiment,
            self.data,
            device=device,
            checkpoint=self.folder / "training",
            rng=self.rng,
            on_epoch=self._on_epoch,
        )
        self._check_evaluation(weights=weights_checksum(learner))
        save_weights(learner, self.folder / _WEIGHTS)
        artefact.write(self.folder / LEARNER_FILE, self._describe(learner, history), LEARNER)
        return learner

    def evaluate(self, learner: ProtoNet, **options: Any) -> Rows:
        """Evaluate every method on the draws of the experiment."""
        return self._evaluate(
            learner, self.experiment, all_methods, self.folder, self.progress, options
        )

    def evaluate_control(self, learner: ProtoNet, control: Control, **options: Any) -> Rows:
        """Evaluate a control of the experiment."""

        def advance(stage: str, done: int, total: int | None) -> None:
            self.progress(f"{control.name}: {stage}", done, total)

        folder = control_folder(self.folder, control)
        return self._evaluate(
            learner, control.experiment, control.methods, folder, advance, options
        )

    def _evaluate(
        self,
        learner: ProtoNet,
        experiment: Experiment,
        methods: Callable[[Guarantee], tuple[Method, ...]],
        folder: Path,
        progress: Progress,
        options: dict[str, Any],
    ) -> Rows:
        def make(report: Progress) -> Study:
            parts = experiment, learner, self.data, self.folder
            return make_study(*parts, report, self._predictors)

        return run_study(
            LazyStudy(_describe_study(experiment, learner, self.data), make),
            guarantee=experiment.guarantee,
            methods=methods(experiment.guarantee),
            draws=experiment.draws,
            rng=self.rng,
            folder=folder,
            progress=progress,
            **options,
        )

    def _on_epoch(self, epoch: Epoch) -> None:
        training = self.experiment.training
        total = None if training is None else training.epochs
        self.progress(f"training, validation accuracy {epoch.accuracy:.1%}", epoch.epoch, total)

    def _check_evaluation(self, **more: str) -> None:
        """Raise if the folder holds an evaluation that is not of the learner of this training."""
        try:
            known = read_settings(self.folder)["study"]
        except FileNotFoundError:
            return
        facts = {"experiment": self.experiment.describe(), "data": self.data.checksum}
        wanted = artefact.as_json("experiment", facts | more)
        check_settings(self.folder, {name: known.get(name) for name in wanted}, wanted)

    def _check_training(self) -> None:
        """Raise if the folder holds the learner of another training."""
        try:
            known = read_learner(self.folder)
        except (FileNotFoundError, BadArtefact):
            return
        wanted = self._identity(build_learner(self.experiment, self.data, self.rng))
        names = [name for name in wanted if name not in ("training", "weights")]
        old, new = (
            {"experiment": each["training"], **{name: each.get(name) for name in names}}
            for each in (known, wanted)
        )
        check_settings(self.folder, old, new, what="a training")

    def _read_trained(self, device: str | None) -> ProtoNet | None:
        """Return the learner whose training ended in this folder, if that was this training."""
        try:
            known = read_learner(self.folder)
            learner = build_learner(self.experiment, self.data, self.rng)
            load_weights(learner, self.folder / _WEIGHTS)
        except (FileNotFoundError, BadArtefact, InvalidInput):
            return None
        if any(known.get(name) != value for name, value in self._identity(learner).items()):
            return None
        learner.module.to(choose_device(device))
        return learner

    def _identity(self, learner: ProtoNet) -> dict[str, Any]:
        """Return what a training is known by."""
        identity: dict[str, Any] = {
            "training": self.experiment.describe_training(),
            "data": self.data.checksum,
            "rng": self.rng,
            "weights": weights_checksum(learner),
        }
        if self.experiment.training is None:
            identity["recipe"] = asdict(recipe_for(learner.module.backbone))
        return dict(artefact.as_json("learner", identity))

    def _describe(self, learner: ProtoNet, history: History) -> dict[str, Any]:
        pools = {name: pool for name, pool in vars(self.data.pools).items() if pool is not None}
        return {
            "experiment": self.experiment.describe(),
            **self._identity(learner),
            "pools": {name: [len(pool.names), len(pool.y)] for name, pool in pools.items()},
            **_describe_history(learner, self.experiment.training, history),
            **measure_quality(self.experiment, learner, self.data, self.rng),
            "device": _device_name(learner),
            "versions": {"torch": torch.__version__, "python": platform.python_version()},
        }


def _describe_history(
    learner: ProtoNet, training: Training | None, history: History
) -> dict[str, Any]:
    """Return how long the training took, and the weights of which epoch were kept."""
    epochs = history.epochs
    facts = {"epochs": len(epochs), "seconds": round(sum(each.seconds for each in epochs), 1)}
    if training is not None:
        best, episodes = history.best, len(epochs) * training.episodes_per_epoch
        return facts | _describe_kept(best) | {"episodes": episodes}
    recipe = recipe_for(learner.module.backbone)
    episodes = recipe.tuning_steps * recipe.episodes_per_step
    return facts | _describe_kept(epochs[-1]) | {"episodes": episodes}


def _describe_kept(epoch: Epoch) -> dict[str, Any]:
    return {"best_epoch": epoch.epoch, "validation_accuracy": epoch.accuracy}


def read_learner(folder: PathLike) -> dict[str, Any]:
    """Return how the learner of a seed was trained, and how good it is."""
    return artefact.read(Path(folder) / LEARNER_FILE, LEARNER)


def control_folder(folder: PathLike, control: Control) -> Path:
    """Return the folder of a control."""
    return Path(folder) / _CONTROLS / control.name


def weights_checksum(learner: ProtoNet) -> str:
    """Return a checksum of the weights of a learner."""
    state = learner.module.state_dict()
    return data_checksum(*(state[name].cpu().numpy() for name in sorted(state)))


def _device_name(learner: ProtoNet) -> str:
    device = next(learner.module.parameters()).device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def make_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    folder: PathLike,
    progress: Progress | None = None,
    predictors: _Predictors | None = None,
) -> Study:
    """Return the calibration draws of an experiment; each example is embedded here, once."""
    e, report = experiment, progress or ignore_progress
    known = {} if predictors is None else predictors
    description = _describe_study(e, learner, data)
    checksums = {name: description[name] for name in ("data", "weights")}
    stored = RunScores(Path(folder), checksums)
    shape = e.ways, e.shots, e.evaluation_examples, e.guarantee.miss_rate
    key = (*checksums.values(), e.predictor, *shape)
    if key not in known:
        known[key] = train_predictor(e, learner, data, stored, report)
    report("embedding the pools", 0, None)
    parts = e, learner, data, known[key], stored, description
    return make_bank_study(*parts, report) if e.tasks_from == "bank" else make_pool_study(*parts)


def _describe_study(experiment: Experiment, learner: ProtoNet, data: LoadedPools) -> dict[str, Any]:
    """Return everything that the draws of an experiment depend on, but their seed."""
    checksums = {"data": data.checksum, "weights": weights_checksum(learner)}
    return {"experiment": experiment.describe(), **checksums}

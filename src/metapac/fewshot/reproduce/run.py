"""An experiment from data to results: each seed trains once, stores what it computes, resumes."""

from __future__ import annotations

import platform
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from metapac import _common, artefact
from metapac._common import Array, PathLike, Progress, ignore_progress
from metapac.errors import BadArtefact, InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.pools import LoadedPools, load_pools
from metapac.fewshot.learners import networks
from metapac.fewshot.learners.protonet import ProtoNet, PrototypeBank
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.quantile_predictor import QuantilePredictor
from metapac.fewshot.reproduce import experiments
from metapac.fewshot.reproduce.claims import Claim, check_claims
from metapac.fewshot.reproduce.experiments import Control, Experiment
from metapac.fewshot.scoring import Stored, accuracy, read_stored
from metapac.fewshot.scoring import weights_checksum as weights_checksum
from metapac.fewshot.study import run as study_run
from metapac.fewshot.study.draws import Draw, ScoredTask
from metapac.fewshot.study.figures import draw_figures
from metapac.fewshot.study.pool_study import PoolStudy, join_groups, spare_examples
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import Summary, summarise
from metapac.fewshot.training.checkpoints import load_weights, save_weights
from metapac.fewshot.training.loop import History, choose_device, recipe_for, train, train_strong

QUANTILE_TASKS = 1000  # training tasks for Meta-CP's predictor
RANKED_TASKS = 200  # test tasks over which AUROC is averaged
ACCURACY_TASKS = 2000  # test tasks over which accuracy is averaged
QUERIES = 15  # examples per class, or per group, on which accuracy is measured
VALIDATION_TASKS = 100  # on which each epoch of the strong recipe is measured
_POOLS = ("train", "validation", "calibration", "test")
_CHARACTERS = (100, 20, 60, 60)  # of the glyphs, in each pool
_SCORED = {"calibration": ("calibration tasks", 1), "test": ("test tasks", 2)}  # and their seeds
_SHOWN = "Meta-PS joint"  # of a control: the library's default split
# What the intervals do not cover, beside what `Summary.covers` says.
_NOTES = {
    "bank": "All draws take their tasks from those that were scored once; intervals do not cover "
    "other tasks.",
    "distinct": "All draws divide the same groups; intervals do not cover other groups.",
}


def load(experiment: Experiment, *, home: cache.Home = None) -> LoadedPools:
    e = experiment
    sizes = dict(zip(_POOLS, _CHARACTERS if e.data == "glyphs" else e.groups, strict=True))
    return load_pools(e.data, sizes=sizes, min_size=e.min_group_size or None, home=home)


def build_learner(experiment: Experiment, data: LoadedPools, rng: int = 0) -> ProtoNet:
    special: dict[str, tuple[str, dict[str, Any]]] = {
        "conv4 narrow": ("conv4", {"channels": 1, "size": 28, "width": 16}),
        "sentence_cnn": ("sentence_cnn", {"words": data.words}),
        "mlp": ("mlp", {"inputs": data.pools.train.x.shape[1]}),
    }
    imagenet = {"mean": networks.IMAGENET_MEAN, "std": networks.IMAGENET_STD}
    name, options = special.get(experiment.backbone, (experiment.backbone, imagenet))
    backbone = networks.build_backbone(name, **options, rng=rng)
    return ProtoNet(networks.Sphere(backbone) if experiment.training is None else backbone)


def train_learner(
    experiment: Experiment, data: LoadedPools, *, rng: int = 0, **options: Any
) -> tuple[ProtoNet, History]:
    """Train the ProtoNet of an experiment and return it with its best weights."""
    learner, training = build_learner(experiment, data, rng), experiment.training
    how: Any = {"validation_tasks": VALIDATION_TASKS} if training is None else asdict(training)
    how |= {**experiment.task_shape, **options, "rng": rng}
    fit: Any = train_strong if training is None else train
    return learner, fit(learner, data.pools.train, data.pools.validation, **how)


def measure_quality(
    experiment: Experiment, learner: ProtoNet, data: LoadedPools, rng: int = 0
) -> dict[str, Any]:
    """Return the accuracy on new test tasks and, for groups, the mean AUROC over tasks."""
    # AUROC is 1/2 if the support set has one label, so it is also reported for the other tasks.
    pool, shape = move_transformed(data.pools.test, learner), experiment.task_shape
    queries = min(QUERIES, spare_examples(pool, experiment.shots))
    found = accuracy(learner, pool, **shape, queries=queries, tasks=ACCURACY_TASKS, rng=rng)
    interval = [found.low, found.high]
    metrics: dict[str, Any] = {"accuracy": found.value, "accuracy_interval": interval}
    metrics["accuracy_tasks"] = found.tasks
    if not isinstance(pool, GroupPool):
        return metrics
    bank, queries = learner.bank(pool.x), experiment.evaluation_examples
    tasks = list(pool.tasks(RANKED_TASKS, **shape, queries=queries, rng=rng))
    areas = np.array([_auroc(bank.predict_proba(task)[:, 1], task.query_y) for task in tasks])
    both = np.array([len(np.unique(task.support_y)) == pool.classes for task in tasks])
    known = ~np.isnan(areas)
    chosen = {"auroc": known, "auroc_both_labels": known & both}
    metrics |= {name: float(areas[which].mean()) for name, which in chosen.items() if which.any()}
    return metrics | {"tasks_with_both_labels": float(both.mean())}


def _auroc(scores: Array, labels: Array) -> float:
    """Return how often a positive outranks a negative; NaN if there is only one label."""
    positive, negative = scores[labels == 1], scores[labels != 1]
    if not (len(positive) and len(negative)):
        return float("nan")
    wins = stats.mannwhitneyu(positive, negative, method="asymptotic").statistic
    return float(wins / (len(positive) * len(negative)))


def move_transformed(pool: Any, learner: ProtoNet) -> Any:
    """Return a pool with its examples on the learner's device, if its tasks transform them."""
    if not isinstance(pool, ClassPool) or pool.transform is None:
        return pool
    x = torch.as_tensor(np.array(pool.x)).to(_device(learner))
    return ClassPool(x, pool.y, name=pool.name, transform=pool.transform)


def _device(learner: ProtoNet) -> torch.device:
    return next(learner.module.parameters()).device


@dataclass(frozen=True, eq=False)
class BankStudy:
    """Tasks that were scored once; each draw takes some of them without replacement."""

    experiment: Experiment
    scores: Array  # (tasks, examples)
    quantiles: Array
    tests: Sequence[ScoredTask]

    def draw(self, rng: np.random.Generator) -> Draw:
        e = self.experiment
        chosen = rng.choice(len(self.scores), e.calibration_tasks, replace=False)
        chosen_tests = rng.choice(len(self.tests), e.test_tasks, replace=False)
        tasks = np.arange(len(chosen)).repeat(self.scores.shape[1])
        tests = [self.tests[i] for i in chosen_tests]
        return Draw(self.scores[chosen].ravel(), tasks, tests, self.quantiles[chosen])


@dataclass(eq=False)
class ExperimentStudy:
    """The draws of an experiment; nothing is computed before the first draw, or twice."""

    experiment: Experiment
    learner: ProtoNet
    data: LoadedPools
    folder: Path
    predictors: dict[Hashable, QuantilePredictor] = field(default_factory=dict)
    report: Progress = ignore_progress
    _study: PoolStudy | BankStudy | None = None

    def __post_init__(self) -> None:
        self._checksums = {"data": self.data.checksum, "weights": weights_checksum(self.learner)}

    def __getstate__(self) -> dict[str, Any]:
        return {"_study": self._study}  # all that workers need

    def describe(self) -> dict[str, Any]:
        return {"experiment": self.experiment.describe(), **self._checksums}

    @property
    def preferred_backend(self) -> str:
        return getattr(self._prepared(), "preferred_backend", "loky")

    def draw(self, rng: np.random.Generator) -> Draw:
        return self._prepared().draw(rng)

    def prepare(self, progress: Progress | None = None) -> None:
        """Compute, or read, what all draws share."""
        self.report = progress or ignore_progress
        self._prepared()

    def _prepared(self) -> PoolStudy | BankStudy:
        if self._study is None:
            e = self.experiment
            shape = e.ways, e.shots, e.evaluation_examples, e.guarantee.miss_rate
            key = (*self._checksums.values(), e.predictor, *shape)
            if key not in self.predictors:
                self.predictors[key] = self._train_predictor()
            self.report("embedding the pools", 0, None)
            make: Any = self._make_bank_study if e.tasks_from == "bank" else self._make_pool_study
            self._study = make(self.predictors[key])
        return self._study

    def _make_pool_study(self, predictor: QuantilePredictor) -> PoolStudy:
        e, distinct = self.experiment, self.experiment.tasks_from == "distinct"
        calibration, test = self.data.pools.calibration, getattr(self.data.pools, e.new_tasks)
        if distinct:
            calibration = test = join_groups(calibration, test)
        known = self._bank("groups" if distinct else "calibration", calibration)
        banks = known, known if test is calibration else self._bank("test", test)
        options: Any = {"banks": banks, "distinct": distinct, "predictor": predictor}
        options |= {**e.study_shape, "description": self.describe()}
        study = PoolStudy(self.learner, calibration, test, **options)
        study.prepare(self.report)
        return study

    def _make_bank_study(self, predictor: QuantilePredictor) -> BankStudy:
        e, pools, (known, new) = self.experiment, self.data.pools, self.experiment.bank
        stored = self._score_tasks("calibration", pools.calibration, known, e.calibration_examples)
        quantiles = np.array([_predict(predictor, support) for support in stored.embeddings])
        tests = self._score_tasks("test", pools.test, new, e.test_examples)
        arrays = tests.embeddings, tests.labels, tests.scores  # labelled examples come first
        labelled = np.arange(len(tests.labels) // new) % e.test_examples < e.labelled_examples
        make = partial(ScoredTask.from_predictions, labelled=labelled)
        parts = zip(*(np.split(each, new) for each in arrays), strict=True)
        scored = [make(table, y, quantile=_predict(predictor, s)) for table, y, s in parts]
        return BankStudy(e, stored.scores.reshape(known, -1), quantiles, scored)

    def _train_predictor(self) -> QuantilePredictor:
        e, pool = self.experiment, getattr(self.data.pools, self.experiment.predictor)
        queries = min(e.evaluation_examples, spare_examples(pool, e.shots))
        stored = self._score_tasks(e.predictor, pool, QUANTILE_TASKS, queries)
        self.report("fitting Meta-CP's predictor", 0, None)
        predictor = QuantilePredictor(epsilon=e.guarantee.miss_rate, rng=0)
        return predictor.fit(-stored.embeddings, predictor.targets(stored.scores, stored.tasks))

    def _score_tasks(self, name: str, pool: Any, count: int, queries: int | None) -> Any:
        """Return scores of queries, and of supports as each is left out, stored as `Stored`."""
        e, is_test = self.experiment, name == "test"
        stage, rng = _SCORED.get(name, ("quantiles of Meta-CP", 0))

        def compute() -> Stored:
            near = move_transformed(pool, self.learner)
            drawn = near.tasks(count, **e.task_shape, queries=queries, rng=rng)
            bank, supports, scores, labels = None, [], [], []
            for task in drawn:
                if bank is None or task.x is not bank.x:  # consecutive tasks may share their data
                    # The Gram matrix of a bank that serves one task would cost more than it saves.
                    embedded = self.learner.embed(task.x, fast=e.tasks_from == "bank")
                    bank = PrototypeBank(embedded, task.x, memory=0)
                supports.append(bank.leave_one_out([task])[0])
                scores.append(bank.predict_proba(task) if is_test else bank.scores([task]))
                labels.append(task.query_y)
                self.report(stage, len(scores), count)
            ids = np.arange(count).repeat([len(x) for x in (supports if is_test else scores)])
            joined, y = np.concatenate(scores), np.concatenate(labels)
            if is_test:
                return Stored(joined, y, scores=np.concatenate(supports), tasks=ids)
            return Stored(np.stack(supports), scores=joined, tasks=ids)

        settings = {**e.task_shape, "count": count, "queries": queries}
        return self._read_or_compute(f"{name}-tasks", compute, **settings)

    def _bank(self, name: str, pool: Any) -> PrototypeBank:
        """Return the bank of a pool, embedding its examples only if they are not stored."""
        embed = lambda: Stored(self.learner.embed(pool.x).cpu().numpy())  # noqa: E731
        embeddings = self._read_or_compute(f"{name}-embeddings", embed).embeddings
        return PrototypeBank(torch.as_tensor(embeddings).to(_device(self.learner)), pool.x)

    def _read_or_compute(self, name: str, compute: Callable[[], Stored], **settings: Any) -> Stored:
        """Return stored arrays; if they are missing, damaged or of another run, compute them."""
        path = self.folder / f"{name}.safetensors"
        wanted = artefact.as_json("provenance", {**self._checksums, "arrays": name, **settings})
        with suppress(FileNotFoundError, BadArtefact):
            known = read_stored(path)
            if known.provenance == wanted:
                return known
        computed = replace(compute(), provenance=wanted)
        computed.save(path)
        return computed


def _predict(predictor: QuantilePredictor, support: Array) -> float:
    """Return the quantile of one task; a batch of tasks would round differently."""
    return float(predictor.predict(-support[None])[0])


_REMEDY = "Run 'metapac reproduce' again with another folder."
LEARNER = artefact.Format("metapac learner", "'metapac reproduce'", _REMEDY)
LEARNER_FILE, _WEIGHTS = "learner.json", "model.safetensors"


def read_learner(folder: PathLike) -> dict[str, Any]:
    """Return how the learner of a seed was trained, and how good it is."""
    return artefact.read(Path(folder) / LEARNER_FILE, LEARNER)


def control_folder(folder: PathLike, control: Control) -> Path:
    return Path(folder) / "controls" / control.name if control.name else Path(folder)


@dataclass(frozen=True)
class SeedRun:
    """One seed of an experiment."""

    experiment: Experiment
    data: LoadedPools
    folder: Path
    rng: int
    progress: Progress = ignore_progress
    _predictors: dict[Hashable, QuantilePredictor] = field(default_factory=dict, init=False)

    def train(self, device: str | None = None) -> ProtoNet:
        """Return the trained learner; a finished training is read from the folder."""
        self._check_evaluation()
        learner = self._read_trained()
        if learner is None:
            how: Any = {"device": device, "checkpoint": self.folder / "training"}
            how |= {"rng": self.rng, "progress": self.progress}
            learner, history = train_learner(self.experiment, self.data, **how)
            self._check_evaluation(weights=weights_checksum(learner))
            save_weights(learner, self.folder / _WEIGHTS)
            artefact.write(self.folder / LEARNER_FILE, self._describe(learner, history), LEARNER)
        learner.module.to(choose_device(device))
        return learner

    def evaluate(self, learner: ProtoNet, part: Control, **options: Any) -> Rows:
        """Evaluate the methods of the experiment, or of one of its controls."""
        e, report = part.experiment, _common.name_progress(self.progress, part.name)
        options |= {"guarantee": e.guarantee, "methods": part.methods(e.guarantee)}
        options |= {"draws": e.draws, "rng": self.rng, "progress": report}
        study = ExperimentStudy(e, learner, self.data, self.folder, self._predictors)
        return study_run.run_study(study, **options, folder=control_folder(self.folder, part))

    def _check_evaluation(self, **more: str) -> None:
        """Raise if the folder holds an evaluation that is not of the learner of this training."""
        try:
            known = study_run.read_settings(self.folder)["study"]
        except FileNotFoundError:
            return
        facts = {"experiment": self.experiment.describe(), "data": self.data.checksum}
        wanted = artefact.as_json("experiment", facts | more)
        study_run.check_settings(self.folder, {name: known.get(name) for name in wanted}, wanted)

    def _read_trained(self) -> ProtoNet | None:
        """Return the learner whose training ended in this folder; raise if it was another one."""
        try:
            known = read_learner(self.folder)
        except (FileNotFoundError, BadArtefact):
            return None
        learner = build_learner(self.experiment, self.data, self.rng)
        wanted = self._identify(learner)
        names = {name: "experiment" if name == "training" else name for name in wanted}
        old, new = ({k: each.get(name) for name, k in names.items()} for each in (known, wanted))
        study_run.check_settings(self.folder, old, new, what="a training")
        try:
            load_weights(learner, self.folder / _WEIGHTS)
        except (FileNotFoundError, BadArtefact, InvalidInput):
            return None
        return learner if weights_checksum(learner) == known["weights"] else None

    def _identify(self, learner: ProtoNet) -> dict[str, Any]:
        """Return what a training is known by, before it begins."""
        e, identity = self.experiment, {"data": self.data.checksum, "rng": self.rng}
        if e.training is None:
            identity["recipe"] = asdict(recipe_for(learner.module.backbone))
        return dict(artefact.as_json("learner", {"training": e.describe_training(), **identity}))

    def _describe(self, learner: ProtoNet, history: History) -> dict[str, Any]:
        e, epochs, device = self.experiment, history.epochs, _device(learner)
        if e.training is None:
            recipe, kept = recipe_for(learner.module.backbone), epochs[-1]
            episodes = recipe.tuning_steps * recipe.episodes_per_step
        else:
            kept, episodes = history.best, len(epochs) * e.training.episodes_per_epoch
        pools = {name: pool for name, pool in vars(self.data.pools).items() if pool is not None}
        return {
            "experiment": e.describe(),
            **self._identify(learner),
            "weights": weights_checksum(learner),
            "pools": {name: [len(pool.names), len(pool.y)] for name, pool in pools.items()},
            "epochs": len(epochs),
            "seconds": round(sum(each.seconds for each in epochs), 1),
            "best_epoch": kept.epoch,
            "validation_accuracy": kept.accuracy,
            "episodes": episodes,
            **measure_quality(e, learner, self.data, self.rng),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "versions": {"torch": torch.__version__, "python": platform.python_version()},
        }


def as_control(experiment: Experiment) -> Control:
    """Return the experiment itself, with all methods and no name."""
    return Control("", experiment.title, experiment, experiments.all_methods)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Results of an experiment: all seeds together, the paper's claims, the controls."""

    experiment: Experiment
    summary: Summary
    accuracies: list[float]
    controls: list[tuple[Control, Summary]]

    @property
    def claims(self) -> list[Claim]:
        return check_claims(self.summary.rows, self.experiment.guarantee, self.experiment.data)

    def to_dict(self) -> dict[str, Any]:
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
    progress: Progress = ignore_progress,
) -> Reproduction:
    """Train and evaluate an experiment with several seeds; resume or extend an earlier run."""
    seeds = experiment.seeds if seeds is None else _common.as_whole_number("seeds", seeds)
    rng = _common.as_whole_number("rng", rng, minimum=0)
    _check_folder(Path(folder), rng, seeds)
    progress("reading the data", 0, None)
    data = load(experiment, home=home)
    parts = [as_control(experiment), *(experiments.list_controls(experiment) if controls else ())]
    rows: list[list[Rows]] = [[] for _ in parts]
    accuracies = []
    for seed in range(rng, rng + seeds):
        report = _common.name_progress(progress, f"seed {seed}" if seeds > 1 else "")
        place = study_run.seed_folder(folder, seed)
        with artefact.lock_folder(place, "metapac reproduce"):
            run = SeedRun(experiment, data, place, seed, report)
            learner = run.train(device)
            for part, by_seed in zip(parts, rows, strict=True):
                by_seed.append(run.evaluate(learner, part, n_jobs=n_jobs, backend=backend))
            accuracies.append(float(read_learner(place)["accuracy"]))
    notes = [_NOTES[experiment.tasks_from]] if experiment.tasks_from in _NOTES else []
    summary, *others = (summarise(each, experiment.guarantee, notes=notes) for each in rows)
    return Reproduction(experiment, summary, accuracies, list(zip(parts[1:], others, strict=True)))


def reproduce_by_name(
    name: str,
    folder: PathLike,
    *,
    draws: int | None = None,
    epochs: int | None = None,
    progress: Progress = ignore_progress,
    **options: Any,
) -> Reproduction:
    """Run an experiment of the paper as `reproduce` does, and draw its figures."""
    experiment = experiments.find_experiment(name)
    if draws is not None:
        experiment = replace(experiment, draws=_common.as_whole_number("draws", draws))
    if epochs is not None:
        if experiment.training is None:
            raise InvalidInput(f"epochs are fixed by the recipe of {name}.", parameter="epochs")
        training = replace(experiment.training, epochs=_common.as_whole_number("epochs", epochs))
        experiment = replace(experiment, training=training)
    for module, extra in (("matplotlib", "plot"), ("torch", "torch"), ("safetensors", "torch")):
        _common.require(module, extra=extra, purpose="metapac reproduce")
    found = reproduce(experiment, folder, progress=progress, **options)
    progress("drawing the figures", 0, None)
    draw_figures(found.summary.rows, experiment.guarantee, folder, title=experiment.title)
    return found


def _check_folder(folder: Path, rng: int, seeds: int) -> None:
    """Raise if the folder holds seeds that are not asked for, or something else than a run."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"folder must be a folder, got the file {folder}.", parameter="folder")
    held = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if held and not any(path.is_dir() for path in folder.glob("seed-*")):
        rule = f"folder must be new, empty or that of a run; {folder} has"
        raise InvalidInput(f"{rule} {_common.listed(held, shown=3)}.", parameter="folder")
    study_run.check_seeds(folder, rng, seeds)

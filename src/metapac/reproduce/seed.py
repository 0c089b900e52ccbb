"""One seed of an experiment: train once, embed or score once, then evaluate every method."""

from __future__ import annotations

import platform
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from metapac import _document
from metapac._types import PathLike, Progress, ignore_progress
from metapac.datasets.pools import LoadedPools
from metapac.evaluation import Method, Rows, Study, evaluate, read_settings
from metapac.evaluation.store import check_settings
from metapac.exceptions import BadArtefact, InvalidInput
from metapac.guarantee import Guarantee
from metapac.learners.protonet import ProtoNet
from metapac.learners.training.distributed import choose_device
from metapac.learners.training.history import Epoch, History
from metapac.learners.training.recipes import recipe_for
from metapac.learners.training.weights import load_weights, save_weights
from metapac.meta_cp.quantiles import QuantilePredictor
from metapac.reproduce.controls import Control
from metapac.reproduce.experiments import Experiment, Training
from metapac.reproduce.learner import (
    build_learner,
    measure_quality,
    train_learner,
    train_predictor,
)
from metapac.reproduce.methods import all_methods
from metapac.reproduce.stored import RunScores
from metapac.reproduce.studies import LazyStudy, make_bank_study, make_pool_study

LEARNER = _document.Format(
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
    """One seed of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    data : LoadedPools
        Its data.
    folder : Path
        Folder of the seed.
    rng : int
        The seed.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """

    experiment: Experiment
    data: LoadedPools
    folder: Path
    rng: int
    progress: Progress = field(default_factory=lambda: ignore_progress)
    _predictors: _Predictors = field(default_factory=dict, init=False, repr=False, compare=False)

    def train(self, device: str | None = None) -> ProtoNet:
        """Return the trained learner; a finished training is read from the folder.

        Parameters
        ----------
        device : str, optional
            "cpu" or "cuda"; by default "cuda" if available.

        Returns
        -------
        ProtoNet
            The learner.

        Raises
        ------
        InvalidInput
            If the folder holds an evaluation of another experiment, of other data or of other
            weights, or a finished training with other settings, whose learner would be lost.
        """
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
        _document.write(self.folder / LEARNER_FILE, self._describe(learner, history), LEARNER)
        return learner

    def evaluate(self, learner: ProtoNet, **options: Any) -> Rows:
        """Evaluate every method on the draws of the experiment.

        Parameters
        ----------
        learner : ProtoNet
            The trained learner.
        **options
            Workers, as in `metapac.evaluation.evaluate`.

        Returns
        -------
        Rows
            One row for each draw, method and new task.
        """
        return self._evaluate(
            learner, self.experiment, all_methods, self.folder, self.progress, options
        )

    def evaluate_control(self, learner: ProtoNet, control: Control, **options: Any) -> Rows:
        """Evaluate a control of the experiment.

        Parameters
        ----------
        learner : ProtoNet
            The trained learner.
        control : Control
            The control.
        **options
            Workers, as in `metapac.evaluation.evaluate`.

        Returns
        -------
        Rows
            One row for each draw, method and new task.
        """

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

        return evaluate(
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
        wanted = _document.as_json("experiment", facts | more)
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
        return dict(_document.as_json("learner", identity))

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
    """Return how the learner of a seed was trained, and how good it is.

    Parameters
    ----------
    folder : str or path
        Folder of the seed.

    Returns
    -------
    dict
        The fields of ``learner.json``.

    Raises
    ------
    FileNotFoundError
        If no training has ended there.
    BadArtefact
        If the file is damaged.
    """
    return _document.read(Path(folder) / LEARNER_FILE, LEARNER)


def control_folder(folder: PathLike, control: Control) -> Path:
    """Return the folder of a control.

    Parameters
    ----------
    folder : str or path
        Folder of the seed.
    control : Control
        The control.

    Returns
    -------
    Path
        The folder.
    """
    return Path(folder) / _CONTROLS / control.name


def weights_checksum(learner: ProtoNet) -> str:
    """Return a checksum of the weights of a learner.

    Parameters
    ----------
    learner : ProtoNet
        The learner.

    Returns
    -------
    str
        The checksum.
    """
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
    predictors: _Predictors | None = None,
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
    predictors : dict, optional
        Predictors of Meta-CP that were fitted before, for the experiment or its controls; one that
        is missing is fitted and added.

    Returns
    -------
    Study
        The study.
    """
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

"""The training loop of the strong recipe: two stages, averaged weights, saving and resuming."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import update_bn

from metapac._checks import as_whole_number
from metapac._types import PathLike
from metapac.learners.protonet import ProtoNet
from metapac.learners.training import checkpoints
from metapac.learners.training.episodes import EpisodeSampler
from metapac.learners.training.history import Epoch, History
from metapac.learners.training.images import Images
from metapac.learners.training.loop import seeded_torch
from metapac.learners.training.loss import check_finite_loss, count_correct, mixed_precision
from metapac.learners.training.recipes import Recipe
from metapac.learners.training.stages import Pretraining, Stage, Tuning
from metapac.learners.training.weights import check_tensors, describe_architecture
from metapac.tasks.pools import ClassPool

_VALIDATION_BATCH = 8  # episodes


@dataclass(frozen=True)
class StrongConfig:
    """Everything that determines the course of a run, except the learner.

    Parameters
    ----------
    recipe : Recipe
        How to train.
    ways : int
        Number of classes in an episode.
    shots : int
        Number of support examples of each class.
    queries : int
        Number of query examples of each class.
    validation_tasks : int
        Number of validation tasks.
    train_pool : str
        Fingerprint of the training pool.
    validation_pool : str
        Fingerprint of the validation pool.
    rng : int
        Seed.
    """

    recipe: Recipe
    ways: int
    shots: int
    queries: int
    validation_tasks: int
    train_pool: str
    validation_pool: str
    rng: int

    def __post_init__(self) -> None:
        for name in ("ways", "shots", "queries", "validation_tasks"):
            object.__setattr__(self, name, as_whole_number(name, getattr(self, name)))

    @property
    def epochs(self) -> int:
        """Number of epochs of both stages."""
        return self.recipe.epochs + self.recipe.tuning_epochs

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration as checkpoints record it, with the fields of the recipe.

        Returns
        -------
        dict
            What JSON can hold.
        """
        fields = asdict(self)
        return {**fields.pop("recipe"), **fields}

    def seed(self, *key: int) -> int:
        """Return a seed that is derived from that of the run.

        Parameters
        ----------
        *key : int
            The epoch, 0 for none, and the number of the seed in it.

        Returns
        -------
        int
            The seed.
        """
        sequence = np.random.SeedSequence(self.rng, spawn_key=key)
        return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


class StrongTrainer:
    """A ProtoNet under the strong recipe, in its current stage.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train.
    train_pool : ClassPool
        Pool to train on.
    validation_pool : ClassPool
        Pool on which each epoch is measured.
    config : StrongConfig
        Configuration of the run.
    device : torch.device
        Device to train on.
    compile : bool or None
        Whether to compile pre-training; None compiles it on a GPU.
    """

    def __init__(
        self,
        learner: ProtoNet,
        train_pool: ClassPool,
        validation_pool: ClassPool,
        config: StrongConfig,
        device: torch.device,
        compile: bool | None,
    ) -> None:
        self.learner, self.config, self.device = learner, config, device
        shape = {"ways": config.ways, "shots": config.shots, "queries": config.queries}
        self.sampler = EpisodeSampler(train_pool, device, **shape)
        self.validation = EpisodeSampler(validation_pool, device, **shape)
        self.images = Images(train_pool, learner, config.recipe, self.sampler)
        first = Pretraining(learner, self.images, seed=config.seed(0), compile=compile)
        self.head = first.classifier.head
        self.stage: Stage = first

    def start(self, folder: PathLike | None) -> History:
        """Resume from the checkpoint in a folder, if there is one.

        Parameters
        ----------
        folder : path-like or None
            Folder of the checkpoint.

        Returns
        -------
        History
            The epochs so far; after the last one, the learner has its final weights.
        """
        stored = None if folder is None else checkpoints.read(folder)
        if folder is None or stored is None:
            return History()
        config = self.config.as_dict()
        checkpoints.check_same_run(folder, stored, self.learner, config, self.config.epochs)
        if len(stored.history) > self.config.recipe.epochs:
            self.stage = Tuning(self.learner, self.sampler, self.config.recipe)
        path, kind = checkpoints.checkpoint_file(folder), checkpoints.CHECKPOINT
        check_tensors(path, kind, stored.weights, self._weights())
        check_tensors(path, kind, stored.best, self.stage.average.state_dict())
        self.learner.module.load_state_dict(_part("module", stored.weights))
        self.head.load_state_dict(_part("head", stored.weights))
        self.stage.average.load_state_dict(dict(stored.best))
        checkpoints.set_optimiser_state(self.stage.optimiser, stored.optimiser)
        if len(stored.history) == self.config.epochs:  # earlier versions stored other weights
            self.take_average(self.config.epochs)
        return History(tuple(Epoch(**epoch) for epoch in stored.history))

    def train_epoch(self, history: History) -> History:
        """Train one more epoch; the first one after pre-training begins the second stage.

        The last one ends with the averaged weights, and its accuracy is theirs.

        Parameters
        ----------
        history : History
            The epochs so far.

        Returns
        -------
        History
            The epochs with the new one.

        Raises
        ------
        InvalidInput
            If the loss is no longer finite.
        """
        start, number = time.perf_counter(), len(history.epochs) + 1
        if number == self.config.recipe.epochs + 1:
            self.take_average(number)
            self.stage = Tuning(self.learner, self.sampler, self.config.recipe)
        with seeded_torch(self.config.seed(number, 1), self.device):
            loss = self.stage.train_epoch(number, self.config.seed(number, 0))
        check_finite_loss(loss, number, self.stage.lr, self.stage.lr_name)
        if number == self.config.epochs:
            self.take_average(number)
        seconds = time.perf_counter() - start
        return history.append(Epoch(number, loss, self._accuracy(), self.stage.lr, seconds))

    def take_average(self, number: int) -> None:
        """Give the learner the averaged weights, and its batch norms the statistics of those.

        Parameters
        ----------
        number : int
            Number of the epoch, from which the randomness of the statistics is derived.
        """
        module = self.learner.module
        module.load_state_dict(self.stage.average.module.state_dict())
        generator = torch.Generator(self.device).manual_seed(self.config.seed(number, 2))
        with seeded_torch(self.config.seed(number, 3), self.device), mixed_precision(self.device):
            update_bn(self.images.plain(generator), module)

    def save(self, folder: PathLike | None, history: History) -> None:
        """Write a checkpoint.

        Parameters
        ----------
        folder : path-like or None
            Folder of the checkpoint; None writes nothing.
        history : History
            The epochs so far.
        """
        if folder is not None:
            checkpoints.write(
                folder,
                checkpoints.Checkpoint(
                    architecture=describe_architecture(self.learner),
                    config=self.config.as_dict(),
                    history=[asdict(epoch) for epoch in history.epochs],
                    weights=self._weights(),
                    best=self.stage.average.state_dict(),
                    optimiser=checkpoints.get_optimiser_state(self.stage.optimiser),
                ),
            )

    def _weights(self) -> dict[str, Tensor]:
        """Return the weights of the learner and of the linear layer, as checkpoints name them."""
        parts = {"module": self.learner.module, "head": self.head}
        return {
            f"{part}.{name}": tensor
            for part, module in parts.items()
            for name, tensor in module.state_dict().items()
        }

    def _accuracy(self) -> float:
        drawn = self.validation.draw(self.config.validation_tasks, self.config.seed(0, 0))
        self.learner.module.eval()
        counts = count_correct(self.learner, self.validation, drawn, _VALIDATION_BATCH)
        correct, total = counts.tolist()
        return float(correct / total)


def _part(part: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one part, without its name."""
    return {
        name.removeprefix(f"{part}."): tensor
        for name, tensor in weights.items()
        if name.startswith(f"{part}.")
    }

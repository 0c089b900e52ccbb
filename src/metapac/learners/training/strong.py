"""The strong recipe: pre-train as a classifier of all training classes, fine-tune on episodes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, update_bn

from metapac._runs import lock_folder
from metapac._types import PathLike, Seed
from metapac.exceptions import InvalidInput, Parameter
from metapac.learners.networks.sphere import Sphere
from metapac.learners.protonet import ProtoNet
from metapac.learners.training import checkpoints
from metapac.learners.training.arguments import as_integer_seed, check_pools
from metapac.learners.training.distributed import Ranks, choose_device
from metapac.learners.training.episodes import EpisodeSampler, fingerprint
from metapac.learners.training.history import Epoch, History
from metapac.learners.training.images import Images, learner_backbone
from metapac.learners.training.loop import seeded_torch, training_context
from metapac.learners.training.loss import EpisodeLoss, count_correct, mixed_precision
from metapac.learners.training.recipes import STEPS_PER_EPOCH, Recipe, recipe_for
from metapac.learners.training.weights import check_tensors, describe_architecture
from metapac.tasks.pools import ClassPool

_AVERAGE_EVERY = 10  # steps of tuning
_TEMPERATURE_LR = 0.01
_SAVE_SECONDS = 60.0


def train_strong(
    learner: ProtoNet,
    train_pool: ClassPool,
    validation_pool: ClassPool,
    *,
    recipe: Recipe | None = None,
    ways: int = 5,
    shots: int = 5,
    queries: int = 15,
    validation_tasks: int = 200,
    device: str | torch.device | None = None,
    checkpoint: PathLike | None = None,
    rng: Seed = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    compile: bool | None = None,
) -> History:
    """Pre-train a ProtoNet to classify all training classes, then tune it on episodes.

    In pre-training, images are cropped, mirrored and recoloured at random, and rotated copies count
    as further classes. Fine-tuning starts from averaged weights and trains the network together
    with the temperature; the weights of its last half are averaged. No epoch is selected, so the
    validation classes only measure progress.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train, on a `Sphere`, whose temperature is learned.
    train_pool : ClassPool
        Pool to train on.
    validation_pool : ClassPool
        Pool on which each epoch is measured.
    recipe : Recipe, optional
        How to train; by default ``recipe_for`` the backbone.
    ways : int, default 5
        Number of classes in an episode.
    shots : int, default 5
        Number of support examples of each class.
    queries : int, default 15
        Number of query examples of each class.
    validation_tasks : int, default 200
        Number of validation tasks, the same in all epochs.
    device : str or torch.device, optional
        Device to train on; by default a GPU if there is one.
    checkpoint : str or path-like, optional
        Folder of the checkpoint, which is written once a minute. A killed run resumes from it.
    rng : int, numpy.random.Generator or None, default 0
        Seed.
    on_epoch : callable, optional
        Called with each finished `Epoch`.
    compile : bool, optional
        Whether to compile pre-training; by default on a GPU.

    Returns
    -------
    History
        All epochs: those of pre-training, then those of tuning, of up to 100 steps each.

    Raises
    ------
    InvalidInput
        If an argument is not valid, if the loss diverges, if the checkpoint is of a run with other
        arguments, or if another process is training in its folder.
    BadArtefact
        If the checkpoint is damaged.

    Notes
    -----
    All randomness of an epoch is derived from ``rng`` and the number of the epoch. On a CPU with
    the same number of threads, a resumed run therefore ends with identical weights.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import MLP, ProtoNet, Recipe, Sphere, train_strong
    >>> from metapac.tasks import split_classes
    >>> y = np.repeat(np.arange(8), 20)
    >>> x = np.random.default_rng(0).normal(y[:, None], 0.1, (160, 2))
    >>> pools = split_classes(x, y, train=4, validation=4, calibration=0, test=0, rng=0)
    >>> history = train_strong(
    ...     ProtoNet(Sphere(MLP(2, rng=0))), pools.train, pools.validation, ways=2, device="cpu",
    ...     recipe=Recipe(epochs=2, batch=16, tuning_steps=10))
    >>> len(history.epochs)
    3
    """
    check_pools(train_pool, validation_pool)
    _check_learner(learner, train_pool)
    where, ranks = choose_device(device), Ranks(0, 1)
    shape = {"ways": ways, "shots": shots, "queries": queries}
    recipe = recipe or recipe_for(learner_backbone(learner))
    with training_context(learner.module, where, ranks):
        trainer = StrongTrainer(
            learner, train_pool, validation_pool, recipe, shape, validation_tasks, where, compile
        )
        if checkpoint is None:
            return trainer.run(None, as_integer_seed(rng), on_epoch)
        with lock_folder(checkpoint, "metapac train"):
            return trainer.run(checkpoint, as_integer_seed(rng), on_epoch)


class StrongTrainer:
    """A ProtoNet under the strong recipe, with its optimiser and its averaged weights.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train.
    train_pool : ClassPool
        Pool to train on.
    validation_pool : ClassPool
        Pool on which each epoch is measured.
    recipe : Recipe
        How to train.
    shape : dict of int
        ``ways``, ``shots`` and ``queries`` of an episode.
    validation_tasks : int
        Number of validation tasks.
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
        recipe: Recipe,
        shape: dict[str, int],
        validation_tasks: int,
        device: torch.device,
        compile: bool | None,
    ) -> None:
        self.learner, self.recipe, self.device = learner, recipe, device
        self.sampler = EpisodeSampler(train_pool, device, **shape)
        self.validation = EpisodeSampler(validation_pool, device, **shape)
        self.images = Images(train_pool, learner, recipe, self.sampler)
        self.classifier = Classifier(learner, self.images.outputs).to(device)
        self._forward = self.classifier
        if compile or (compile is None and device.type == "cuda"):
            self._forward = torch.compile(self.classifier, dynamic=False)  # type: ignore[assignment]
        self.loss = EpisodeLoss(learner, shape["ways"], None)
        self.steps = recipe.epochs * (len(self.images) // self.images.batch)
        self.config: dict[str, Any] = {
            **asdict(recipe),
            **shape,
            "validation_tasks": validation_tasks,
            "train_pool": fingerprint(train_pool),
            "validation_pool": fingerprint(validation_pool),
        }
        self.average = AveragedModel(learner.module)
        self.optimiser = self._pretraining_optimiser()

    def run(
        self, folder: PathLike | None, rng: int, on_epoch: Callable[[Epoch], None] | None
    ) -> History:
        """Train to the end, from the start or from a checkpoint.

        Parameters
        ----------
        folder : path-like or None
            Folder of the checkpoint.
        rng : int
            Seed.
        on_epoch : callable or None
            Called with each finished epoch.

        Returns
        -------
        History
            All epochs.
        """
        self.config["rng"] = rng
        history = self._start(folder)
        total = self.recipe.epochs + self.recipe.tuning_epochs
        saved = time.monotonic()
        while len(history.epochs) < total:
            history = self._train_epoch(history, len(history.epochs) + 1)
            if time.monotonic() - saved > _SAVE_SECONDS or len(history.epochs) == total:
                self._save(folder, history)
                saved = time.monotonic()
            if on_epoch is not None:
                on_epoch(history.epochs[-1])
        self._take_average(total)
        return history

    def _start(self, folder: PathLike | None) -> History:
        """Resume from the checkpoint in a folder, or start at the beginning."""
        stored = None if folder is None else checkpoints.read(folder)
        if folder is None or stored is None:
            with seeded_torch(self._seed(0), self.device):
                self.classifier.head.reset_parameters()
            return History()
        epochs = self.recipe.epochs + self.recipe.tuning_epochs
        checkpoints.check_same_run(folder, stored, self.learner, self.config, epochs)
        history = History(tuple(Epoch(**epoch) for epoch in stored.history))
        if len(history.epochs) > self.recipe.epochs:
            self.optimiser = self._tuning_optimiser()
        state, average = self._state(), self.average.state_dict()
        path = checkpoints.checkpoint_file(folder)
        check_tensors(path, checkpoints.CHECKPOINT, stored.weights, state)
        check_tensors(path, checkpoints.CHECKPOINT, stored.best, average)
        self.learner.module.load_state_dict(_inside("module", stored.weights))
        self.classifier.head.load_state_dict(_inside("head", stored.weights))
        self.average.load_state_dict(dict(stored.best))
        checkpoints.set_optimiser_state(self.optimiser, stored.optimiser)
        return history

    def _state(self) -> dict[str, Tensor]:
        parts = {"module": self.learner.module, "head": self.classifier.head}
        return {
            f"{part}.{name}": tensor
            for part, module in parts.items()
            for name, tensor in module.state_dict().items()
        }

    def _save(self, folder: PathLike | None, history: History) -> None:
        if folder is not None:
            checkpoints.write(
                folder,
                checkpoints.Checkpoint(
                    architecture=describe_architecture(self.learner),
                    config=self.config,
                    history=[asdict(epoch) for epoch in history.epochs],
                    weights=self._state(),
                    best=self.average.state_dict(),
                    optimiser=checkpoints.get_optimiser_state(self.optimiser),
                ),
            )

    def _train_epoch(self, history: History, number: int) -> History:
        start, pretraining = time.perf_counter(), number <= self.recipe.epochs
        if number == self.recipe.epochs + 1:
            self._take_average(number)
            self.average = AveragedModel(self.learner.module)
            self.optimiser = self._tuning_optimiser()
        with seeded_torch(self._seed(number, 1), self.device):
            loss = self._pretrain(number) if pretraining else self._tune(number)
        if not math.isfinite(loss):
            raise InvalidInput(
                "the loss became {} in epoch {}: training has diverged. Pass a smaller {}, and "
                "check the data for NaN.",
                loss,
                number,
                Parameter("lr" if pretraining else "tuning_lr"),
            )
        if pretraining and number > self.recipe.epochs * (1 - self.recipe.averaged):
            self.average.update_parameters(self.learner.module)
        rate = self.optimiser.param_groups[0]["lr"]
        seconds = time.perf_counter() - start
        return history.append(Epoch(number, loss, self._accuracy(), rate, seconds))

    def _pretrain(self, epoch: int) -> float:
        """Return the mean loss of one pass over the training images."""
        self.learner.module.train()
        total, per_epoch = (
            torch.zeros((), device=self.device),
            len(self.images) // self.images.batch,
        )
        generator = torch.Generator(self.device).manual_seed(self._seed(epoch, 0))
        for i, (x, y) in enumerate(self.images.epoch(generator)):
            step = (epoch - 1) * per_epoch + i
            self._set_rate(self.recipe.learning_rate(step, self.steps))
            with mixed_precision(self.device):
                logits = self._forward(x)
            total += self._step(cross_entropy(logits.float(), y))
        return float(total) / per_epoch

    def _tune(self, epoch: int) -> float:
        """Return the mean loss of up to 100 steps on episodes."""
        recipe, per_step = self.recipe, self.recipe.episodes_per_step
        first = (epoch - recipe.epochs - 1) * STEPS_PER_EPOCH
        steps = range(first, min(first + STEPS_PER_EPOCH, recipe.tuning_steps))
        drawn = self.sampler.draw(len(steps) * per_step, self._seed(epoch, 0))
        self.learner.module.train()
        total = torch.zeros((), device=self.device)
        for i, step in enumerate(steps):
            self._set_rate(recipe.tuning_rate(step))
            episodes = self.sampler.gather(drawn.part(i * per_step, (i + 1) * per_step))
            total += self._step(self.loss(*episodes[:4]))
            late = 2 * step >= recipe.tuning_steps
            if (late and step % _AVERAGE_EVERY == 0) or step + 1 == recipe.tuning_steps:
                self.average.update_parameters(self.learner.module)
        return float(total) / len(steps)

    def _step(self, loss: Tensor) -> Tensor:
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _set_rate(self, rate: float) -> None:
        self.optimiser.param_groups[0]["lr"] = rate  # that of the temperature stays

    def _take_average(self, number: int) -> None:
        """Give the learner the averaged weights, and its batch norms the statistics of those."""
        self.learner.module.load_state_dict(self.average.module.state_dict())
        generator = torch.Generator(self.device).manual_seed(self._seed(number, 2))
        with mixed_precision(self.device):
            update_bn(self.images.plain(generator), self.learner.module)

    def _accuracy(self) -> float:
        tasks = int(self.config["validation_tasks"])
        drawn = self.validation.draw(tasks, self._seed(0, 0))
        self.learner.module.eval()
        correct, total = count_correct(self.learner, self.validation, drawn, batch=8).tolist()
        return float(correct / total)

    def _pretraining_optimiser(self) -> torch.optim.SGD:
        return torch.optim.SGD(
            self.classifier.parameters(),
            self.recipe.lr,
            momentum=0.9,
            nesterov=True,
            weight_decay=self.recipe.weight_decay,
        )

    def _tuning_optimiser(self) -> torch.optim.SGD:
        sphere = self.learner.module
        assert isinstance(sphere, Sphere)  # checked at the start
        groups: list[dict[str, Any]] = [
            {"params": list(sphere.backbone.parameters())},
            {"params": [sphere.log_temperature], "lr": _TEMPERATURE_LR, "weight_decay": 0},
        ]
        return torch.optim.SGD(
            groups,
            self.recipe.tuning_lr,
            momentum=0.9,
            weight_decay=self.recipe.weight_decay,
        )

    def _seed(self, *key: int) -> int:
        sequence = np.random.SeedSequence(int(self.config["rng"]), spawn_key=key)
        return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


class Classifier(nn.Module):
    """The backbone of a learner with one output for each training class.

    Parameters
    ----------
    learner : ProtoNet
        The learner.
    outputs : int
        Number of outputs.
    """

    def __init__(self, learner: ProtoNet, outputs: int) -> None:
        super().__init__()
        self.backbone = learner_backbone(learner)
        self.head = nn.Linear(self.backbone.features, outputs)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the classes.

        Parameters
        ----------
        x : Tensor, shape (n, ...)
            Examples.

        Returns
        -------
        Tensor, shape (n, outputs)
            The logits.
        """
        logits: Tensor = self.head(self.backbone(x))
        return logits


def _inside(part: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one part, without its name."""
    return {
        name.removeprefix(f"{part}."): tensor
        for name, tensor in state.items()
        if name.startswith(f"{part}.")
    }


def _check_learner(learner: object, pool: object) -> None:
    if not isinstance(learner, ProtoNet) or not isinstance(learner.module, Sphere):
        raise InvalidInput(
            "learner must be a ProtoNet on a Sphere, whose temperature the strong recipe learns, "
            f"got {type(learner).__name__}. Pass ProtoNet(Sphere(backbone)), or train it with "
            "train()."
        )
    if not isinstance(getattr(learner.module.backbone, "features", None), int):
        raise InvalidInput(
            "the backbone must say the length of its vectors as features, got "
            f"{type(learner.module.backbone).__name__} without it. Set backbone.features."
        )
    if not isinstance(pool, ClassPool) or pool.transform is not None:
        raise InvalidInput(
            "train_pool must be a ClassPool without a transform, since the strong recipe learns to "
            f"tell its classes apart, got {pool!r}. Train it with train()."
        )

"""The training loop: epochs, validation, saving and resuming."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from metapac._runs import lock_folder
from metapac._types import PathLike
from metapac.exceptions import InvalidInput, Parameter
from metapac.learners._inference import check_example_type, cuda_math
from metapac.learners.protocols import Trainable
from metapac.learners.training import checkpoints
from metapac.learners.training.distributed import Ranks, synced_batch_norm
from metapac.learners.training.episodes import Episodes, EpisodeSampler, Pool
from metapac.learners.training.history import Epoch, History, TrainingConfig
from metapac.learners.training.loss import EpisodeLoss, check_finite_loss, count_correct
from metapac.learners.training.weights import describe_architecture


class Trainer:
    """A learner in training, with its optimiser and its best weights so far.

    Parameters
    ----------
    learner : Trainable
        Learner to train.
    train_pool : ClassPool or GroupPool
        Pool to train on.
    validation_pool : ClassPool or GroupPool
        Pool on which the best epoch is chosen.
    config : TrainingConfig
        Configuration of the run.
    device : torch.device
        Device to train on.
    ranks : Ranks
        Processes that train together.
    compile : bool or None
        Whether to compile the loss; None compiles it on a single GPU.
    """

    def __init__(
        self,
        learner: Trainable,
        train_pool: Pool,
        validation_pool: Pool,
        config: TrainingConfig,
        device: torch.device,
        ranks: Ranks,
        compile: bool | None,
    ) -> None:
        self.learner, self.config, self.device, self.ranks = learner, config, device, ranks
        self.sampler = _sampler(train_pool, config, device)
        self.validation = _sampler(validation_pool, config, device)
        self.loss = _loss(learner, self.sampler.classes, config, device, ranks, compile)
        parameters = [weight for weight in learner.module.parameters() if weight.requires_grad]
        self.optimiser = torch.optim.Adam(parameters, config.lr, fused=device.type == "cuda")
        self.best = self._weights()

    def start(self, folder: PathLike | None, epochs: int, *, any_rng: bool) -> History:
        """Resume from the checkpoint in a folder, or write the first one.

        Parameters
        ----------
        folder : path-like or None
            Folder of the checkpoint.
        epochs : int
            Number of epochs to reach.
        any_rng : bool
            Whether to take the seed from the checkpoint.

        Returns
        -------
        History
            The epochs so far.
        """
        stored = None if folder is None else checkpoints.read(folder)
        if stored is not None and any_rng:
            self.config = replace(self.config, rng=stored.config["rng"])
        self.config = replace(self.config, rng=self.ranks.broadcast(self.config.rng))
        history = History()
        if folder is not None and stored is not None:
            checkpoints.check_same_run(folder, stored, self.learner, asdict(self.config), epochs)
            checkpoints.check_same_tensors(folder, stored, self.learner, self.optimiser)
            history = self._restore(stored)
        if self.ranks.broadcast(len(history.epochs)) != len(history.epochs):
            raise InvalidInput(
                "{} must be the same folder for all processes, but they see different runs in {}. "
                "Put it on a disk that they share.",
                Parameter("checkpoint"),
                folder,
            )
        if stored is None:
            self.save(folder, history)
        return history

    def train_epoch(self, history: History) -> History:
        """Train one more epoch, and remember its weights if it is the best.

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
        lr = self.config.lr_at(number)
        loss = self._fit(number)
        check_finite_loss(loss, number, lr, "lr")
        accuracy = self._accuracy()
        seconds = time.perf_counter() - start
        history = history.append(Epoch(number, loss, accuracy, lr, seconds))
        if history.best.epoch == number:
            self.best = self._weights()
        return history

    def save(self, folder: PathLike | None, history: History) -> None:
        """Write a checkpoint, in the first process only.

        Parameters
        ----------
        folder : path-like or None
            Folder of the checkpoint; None writes nothing.
        history : History
            The epochs so far.
        """
        if folder is not None and self.ranks.is_first:
            checkpoints.write(
                folder,
                checkpoints.Checkpoint(
                    architecture=describe_architecture(self.learner),
                    config=asdict(self.config),
                    history=[asdict(epoch) for epoch in history.epochs],
                    weights=self._weights(),
                    best=self.best,
                    optimiser=checkpoints.get_optimiser_state(self.optimiser),
                ),
            )

    def _fit(self, epoch: int) -> float:
        """Return the mean loss of an epoch, without waiting for the device before its end."""
        per_step = self.config.episodes_per_step
        count = self.config.steps * per_step
        start, stop = self.ranks.share(per_step)  # the episodes of each step for this process
        drawn = self.sampler.draw(count, self.config.episodes_seed(epoch))
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.lr_at(epoch)
        total = torch.zeros((), device=self.device)
        self.learner.module.train()
        with seeded_torch(self.config.dropout_seed(epoch, self.ranks.rank), self.device):
            for first in range(0, count, per_step):
                total += self._step(self.sampler.gather(drawn.part(first + start, first + stop)))
        return float(self.ranks.sum(total)) / (self.config.steps * self.ranks.world)

    def _step(self, episodes: Episodes) -> Tensor:
        loss: Tensor = self.loss(
            episodes.support_x, episodes.support_y, episodes.query_x, episodes.query_y
        )
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.optimiser.zero_grad()
        return loss.detach()

    def _accuracy(self) -> float:
        """Return the accuracy on the queries of the validation tasks.

        Labels are weighted as in the loss, so that a learner that never predicts a rare label of
        large weight is not the best.
        """
        config = self.config
        weights = None if config.class_weights is None else torch.tensor(config.class_weights)
        drawn = self.validation.draw(config.validation_tasks, config.validation_seed())
        drawn = drawn.part(*self.ranks.share(config.validation_tasks))
        self.learner.module.eval()
        counts = count_correct(
            self.learner, self.validation, drawn, config.episodes_per_step, weights
        )
        correct, total = self.ranks.sum(counts).tolist()
        return float(correct / total)

    def _weights(self) -> dict[str, Tensor]:
        state = self.learner.module.state_dict()
        return {name: tensor.detach().clone() for name, tensor in state.items()}

    def _restore(self, stored: checkpoints.Checkpoint) -> History:
        self.learner.module.load_state_dict(stored.weights)
        checkpoints.set_optimiser_state(self.optimiser, stored.optimiser)
        self.best = dict(stored.best)
        return History(tuple(Epoch(**epoch) for epoch in stored.history))


def _sampler(pool: Pool, config: TrainingConfig, device: torch.device) -> EpisodeSampler:
    return EpisodeSampler(
        pool, device, ways=config.ways, shots=config.shots, queries=config.queries
    )


def _loss(
    learner: Trainable,
    classes: int,
    config: TrainingConfig,
    device: torch.device,
    ranks: Ranks,
    compile: bool | None,
) -> Callable[..., Tensor]:
    """Return the loss of a batch of episodes, compiled and distributed as the device allows."""
    class_weights = config.class_weights
    if class_weights is not None and len(class_weights) != classes:
        raise InvalidInput(
            "{} must hold {} numbers, one for each label, got {}.",
            Parameter("class_weights"),
            classes,
            len(class_weights),
        )
    if config.episodes_per_step % ranks.world:
        raise InvalidInput(
            f"episodes_per_step must be a multiple of the {ranks.world} processes that share it, "
            f"got {config.episodes_per_step}."
        )
    weights = None if class_weights is None else torch.tensor(class_weights, device=device)
    loss: nn.Module = EpisodeLoss(learner, classes, weights)
    if ranks.world > 1:
        loss = DistributedDataParallel(loss)
    if compile or (compile is None and device.type == "cuda" and ranks.world == 1):
        loss.compile(dynamic=False)
    return loss


@contextmanager
def training_context(module: nn.Module, device: torch.device, ranks: Ranks) -> Iterator[None]:
    """Move a module to a device and set it up for training; restore its mode at the end.

    A GPU computes with channels last, TF32 and the fastest convolutions.

    Parameters
    ----------
    module : torch.nn.Module
        Module to train; it stays on the device.
    device : torch.device
        Device to train on.
    ranks : Ranks
        Processes that train together.

    Yields
    ------
    None
        The settings of torch are restored at the end.
    """
    mode = module.training
    module.to(device)
    if device.type == "cuda":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with synced_batch_norm(module, ranks), cuda_math(device, "high", benchmark=True):
            yield
    finally:
        module.train(mode)


@contextmanager
def explain_failures(learner: Trainable, sampler: EpisodeSampler) -> Iterator[None]:
    """Raise InvalidInput in place of torch's error if the backbone does not take whole numbers.

    Parameters
    ----------
    learner : Trainable
        Learner in training.
    sampler : EpisodeSampler
        Sampler of its episodes.

    Yields
    ------
    None
        Training runs inside.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        with suppress(RuntimeError):  # a GPU may fail again; the first error says more
            _check_episode(learner, sampler)
        raise


def _check_episode(learner: Trainable, sampler: EpisodeSampler) -> None:
    """Raise InvalidInput if one episode of whole numbers fails, and one of floats does not."""
    support_x, support_y, query_x, _, classes = sampler.gather(sampler.draw(1, seed=0))

    def call(support_x: Tensor, query_x: Tensor) -> Tensor:
        return learner.logits(support_x, support_y, query_x, classes=classes)

    check_example_type(learner.module, call, support_x, query_x)


def lock_run(folder: PathLike | None, ranks: Ranks) -> AbstractContextManager[None]:
    """Keep other runs out of a folder; the first process locks it for all that train together.

    Parameters
    ----------
    folder : path-like or None
        Folder of the checkpoint; None locks nothing.
    ranks : Ranks
        Processes that train together.

    Returns
    -------
    context manager
        The folder is locked inside.
    """
    if folder is None or not ranks.is_first:
        return nullcontext()
    return lock_folder(folder, "metapac train")


@contextmanager
def seeded_torch(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators, which dropout uses, and restore them at the end.

    Parameters
    ----------
    seed : int
        The seed.
    device : torch.device
        Device whose generator is seeded too.

    Yields
    ------
    None
        Randomness inside the context depends on ``seed`` alone.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield

"""A training run in progress: epochs, validation, and the way to disk and back."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from metapac.learners import checkpoints
from metapac.learners.contract import Trainable
from metapac.learners.course import Epoch, History, Settings
from metapac.learners.distributed import Ranks, common_batch_norm
from metapac.learners.episodes import Episodes, EpisodeSampler, Pool
from metapac.learners.loss import EpisodeLoss, count_correct
from metapac.learners.weights import architecture

Folder = str | os.PathLike[str] | None


class Run:
    """The learner, its optimiser, the weights that were best so far."""

    def __init__(
        self,
        learner: Trainable,
        train_pool: Pool,
        validation_pool: Pool,
        settings: Settings,
        device: torch.device,
        ranks: Ranks,
        compile: bool | None,
    ) -> None:
        self.learner, self.settings, self.device, self.ranks = learner, settings, device, ranks
        self.sampler = _sampler(train_pool, settings, device)
        self.validation = _sampler(validation_pool, settings, device)
        self.loss = _loss(learner, self.sampler.classes, settings, device, ranks, compile)
        trained = [weight for weight in learner.module.parameters() if weight.requires_grad]
        self.optimiser = torch.optim.Adam(trained, settings.lr, fused=device.type == "cuda")
        self.best = self._weights()

    def begin(self, folder: Folder, epochs: int, *, any_rng: bool) -> History:
        """Go to where the checkpoint in ``folder`` ends; without one, make the first."""
        stored = None if folder is None else checkpoints.read(folder)
        if stored is not None and any_rng:
            self.settings = replace(self.settings, rng=stored.settings["rng"])
        self.settings = replace(self.settings, rng=self.ranks.agreed(self.settings.rng))
        history = History()
        if folder is not None and stored is not None:
            checkpoints.refuse_other(folder, stored, self.learner, asdict(self.settings), epochs)
            history = self._restore(stored)
        if self.ranks.agreed(len(history.epochs)) != len(history.epochs):
            raise ValueError(
                f"checkpoint must be one folder for all processes, but they find different runs in "
                f"{folder!s}. Put it on a disk that they share."
            )
        if stored is None:
            self.save(folder, history)
        return history

    def advance(self, history: History) -> History:
        """Train one more epoch; keep its weights if none before was as good."""
        start, number = time.perf_counter(), len(history.epochs) + 1
        loss = self._fit(number)
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss became {loss} in epoch {number} at lr={self.settings.lr_at(number):g}: "
                "training has diverged. Pass a smaller lr, and no NaN in the data."
            )
        accuracy = self._accuracy()
        lr, seconds = self.settings.lr_at(number), time.perf_counter() - start
        history = history.plus(Epoch(number, loss, accuracy, lr, seconds))
        if history.best.epoch == number:
            self.best = self._weights()
        return history

    def save(self, folder: Folder, history: History) -> None:
        if folder is not None and self.ranks.first:
            checkpoints.write(
                folder,
                checkpoints.Checkpoint(
                    architecture=architecture(self.learner),
                    settings=asdict(self.settings),
                    history=[asdict(epoch) for epoch in history.epochs],
                    weights=self._weights(),
                    best=self.best,
                    optimiser=checkpoints.optimiser_tensors(self.optimiser),
                ),
            )

    def _fit(self, epoch: int) -> float:
        """Return the mean loss of an epoch; nothing waits for the device before its end."""
        each = self.settings.episodes_per_step
        count = self.settings.steps * each
        start, stop = self.ranks.share(each)  # our episodes of each step
        drawn = self.sampler.draw(count, self.settings.episodes_seed(epoch))
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.lr_at(epoch)
        total = torch.zeros((), device=self.device)
        self.learner.module.train()
        with _chance(self.settings.dropout_seed(epoch, self.ranks.rank), self.device):
            for first in range(0, count, each):
                own = drawn.part(first + start, first + stop)
                total += self._step(self.sampler.gather(own))
        return float(self.ranks.total(total)) / (self.settings.steps * self.ranks.world)

    def _step(self, episodes: Episodes) -> Tensor:
        loss: Tensor = self.loss(*episodes[:-1])
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.optimiser.zero_grad()
        return loss.detach()

    def _accuracy(self) -> float:
        """Return the share of the validation tasks' queries that is answered rightly.

        Labels count as in the loss: where one is rare and weighs more, never to predict it is
        not the best.
        """
        tasks, at_once = self.settings.validation_tasks, self.settings.episodes_per_step
        given = self.settings.class_weights
        weights = None if given is None else torch.tensor(given)
        drawn = self.validation.draw(tasks, self.settings.validation_seed())
        own = drawn.part(*self.ranks.share(tasks))
        self.learner.module.eval()
        correct, total = self.ranks.total(
            count_correct(self.learner, self.validation, own, at_once, weights)
        ).tolist()
        return float(correct / total)

    def _weights(self) -> dict[str, Tensor]:
        state = self.learner.module.state_dict()
        return {name: tensor.detach().clone() for name, tensor in state.items()}

    def _restore(self, stored: checkpoints.Checkpoint) -> History:
        self.learner.module.load_state_dict(stored.weights)
        checkpoints.set_optimiser(self.optimiser, stored.optimiser)
        self.best = dict(stored.best)
        return History(tuple(Epoch(**epoch) for epoch in stored.history))


def _sampler(pool: Pool, settings: Settings, device: torch.device) -> EpisodeSampler:
    return EpisodeSampler(
        pool, device, ways=settings.ways, shots=settings.shots, queries=settings.queries
    )


def _loss(
    learner: Trainable,
    classes: int,
    settings: Settings,
    device: torch.device,
    ranks: Ranks,
    compile: bool | None,
) -> Callable[..., Tensor]:
    """Return the loss of a batch of episodes, compiled and distributed as the device allows."""
    if settings.class_weights is not None and len(settings.class_weights) != classes:
        raise ValueError(
            f"class_weights must hold {classes} numbers, one for each label, got "
            f"{len(settings.class_weights)}."
        )
    if settings.episodes_per_step % ranks.world:
        raise ValueError(
            f"episodes_per_step must be a multiple of the {ranks.world} processes that share it, "
            f"got {settings.episodes_per_step}."
        )
    given = settings.class_weights
    weights = None if given is None else torch.tensor(given, device=device)
    loss: nn.Module = EpisodeLoss(learner, classes, weights)
    if ranks.world > 1:
        loss = DistributedDataParallel(loss)
    if compile or (compile is None and device.type == "cuda" and ranks.world == 1):
        loss.compile(dynamic=False)
    return loss


@contextmanager
def lent(module: nn.Module, device: torch.device, ranks: Ranks) -> Iterator[None]:
    """Lend ``module`` to training; it comes back in the mode it was in, on ``device``."""
    mode = module.training
    module.to(device)
    try:
        with common_batch_norm(module, ranks), _fast(module, device):
            yield
    finally:
        module.train(mode)


@contextmanager
def _fast(module: nn.Module, device: torch.device) -> Iterator[None]:
    """On a GPU: channels last, TF32, the fastest convolutions. On a CPU nothing changes."""
    if device.type != "cuda":
        yield
        return
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    precision, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = benchmark


@contextmanager
def _chance(seed: int, device: torch.device) -> Iterator[None]:
    """Let everything random inside, such as dropout, come from ``seed`` and leave no trace."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield

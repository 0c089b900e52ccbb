"""The training loop: loss, epochs, several GPUs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from metapac._common import PathLike, Seed, as_whole_number
from metapac.artefact import lock_folder
from metapac.errors import InvalidInput
from metapac.fewshot.adapters import Trainable
from metapac.fewshot.learners.protonet import check_example_type, cuda_math
from metapac.fewshot.training.checkpoints import (
    Checkpoint,
    check_same_run,
    check_same_tensors,
    describe_architecture,
    get_optimiser_state,
    read_checkpoint,
    set_optimiser_state,
    write_checkpoint,
)
from metapac.fewshot.training.episodes import Episodes, EpisodeSampler, Pool, Positions, fingerprint
from metapac.fewshot.training.history import (
    Epoch,
    History,
    TrainingConfig,
    as_integer_seed,
    check_pools,
    check_trainable,
)

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Ranks(NamedTuple):
    """The rank of this process among those that train together."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the first process."""
        return self.rank == 0

    def share(self, count: int) -> tuple[int, int]:
        """Return the range of items that this process handles."""
        return count * self.rank // self.world, count * (self.rank + 1) // self.world

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def broadcast(self, value: int) -> int:
        """Return the value of the first process, in every process."""
        box = [value]
        if self.world > 1:
            dist.broadcast_object_list(box)
        return box[0]


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device to train on."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise InvalidInput(
            f"device must be a device that torch supports, got {device!r}. Pass device='cpu' or "
            "device='cuda'.",
            parameter="device",
        ) from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(
            f"device is {device}, but torch finds no GPU. Pass device='cpu'.", parameter="device"
        )
    if chosen.type == "cuda" and chosen.index is None:
        chosen = torch.device(
            "cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device()))
        )
    return chosen


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the existing process group, or start that of torchrun; without either, do nothing."""
    created = not dist.is_initialized() and all(name in os.environ for name in _TORCHRUN)
    if created:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        grouped = dist.is_available() and dist.is_initialized()
        yield Ranks(dist.get_rank(), dist.get_world_size()) if grouped else Ranks()
        if created:
            dist.barrier()  # wait for all ranks before teardown
    finally:
        if created:
            dist.destroy_process_group()


@contextmanager
def synced_batch_norm(module: nn.Module, ranks: Ranks) -> Iterator[None]:
    """Make batch norms use the statistics of all processes in training.

    The weights are then those that a single process with the whole batch would reach. torch's
    SyncBatchNorm does the same, but only on GPUs.
    """
    layers = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    if ranks.world > 1:
        for layer in layers:
            layer.forward = partial(_normalise, layer, ranks)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


class _Sum(torch.autograd.Function):
    """The sum over all processes, with the gradient of the sum of their losses."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # the sum of the gradients
        return _Sum.forward(ctx, grads[0])


def _sum_over_ranks(x: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(x)  # type: ignore[no-untyped-call]
    return total


def _normalise(layer: _BatchNorm, ranks: Ranks, x: Tensor) -> Tensor:
    if not layer.training:
        y: Tensor = type(layer).forward(layer, x)
        return y
    across = [0, *range(2, x.ndim)]
    shape = (1, -1, *(1 for _ in across[1:]))
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # (n, channels, ...)
    count = ranks.world * wide.numel() // wide.shape[1]  # the same number in every process
    mean = _sum_over_ranks(wide.sum(across)) / count  # (channels,)
    centred = wide - mean.view(shape)
    variance = _sum_over_ranks(centred.square().sum(across)) / count  # (channels,)
    _update_running_statistics(layer, mean.detach(), variance.detach() * count / (count - 1))
    y = centred * torch.rsqrt(variance + layer.eps).view(shape)
    if layer.affine:
        y = y * layer.weight.view(shape) + layer.bias.view(shape)
    return y.to(x.dtype)


def _update_running_statistics(layer: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Update the running statistics as torch's batch norm does."""
    if layer.running_mean is None or layer.running_var is None:
        return
    assert layer.num_batches_tracked is not None
    layer.num_batches_tracked.add_(1)
    momentum = layer.momentum if layer.momentum is not None else 1 / int(layer.num_batches_tracked)
    layer.running_mean.lerp_(mean, momentum)
    layer.running_var.lerp_(variance, momentum)


def episode_loss(
    logits: Tensor, support_y: Tensor, query_y: Tensor, class_weights: Tensor | None = None
) -> Tensor:
    """Return the weighted cross-entropy of the queries, averaged over episodes.

    Queries whose label is absent from the support set are ignored, since no learner can predict
    it. If an episode has no other query, its loss is 0.
    """
    learnable = (query_y.unsqueeze(-1) == support_y.unsqueeze(1)).any(-1)  # (E, Q)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p = log_softmax(wide, -1).gather(-1, query_y.unsqueeze(-1)).squeeze(-1)  # (E, Q)
    weights = learnable.to(log_p.dtype)
    if class_weights is not None:
        weights = weights * class_weights[query_y]
    losses = weights * -torch.where(learnable, log_p, 0.0)  # (E, Q)
    total = weights.sum(1)  # (E,)
    return (losses.sum(1) / torch.where(total > 0, total, 1.0)).mean()


class EpisodeLoss(nn.Module):
    """`episode_loss` of a learner, as a module that torch can compile or distribute."""

    def __init__(self, learner: Trainable, classes: int, class_weights: Tensor | None) -> None:
        super().__init__()
        self.learner, self.classes = learner, classes
        self.module = learner.module
        self.register_buffer("class_weights", class_weights, persistent=False)

    def forward(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, query_y: Tensor
    ) -> Tensor:
        """Return the loss of a batch of episodes."""
        with mixed_precision(support_y.device):
            logits = self.learner.logits(support_x, support_y, query_x, classes=self.classes)
        weights: Tensor | None = self.class_weights  # type: ignore[assignment]
        return episode_loss(logits, support_y, query_y, weights)


def check_finite_loss(loss: float, epoch: int, lr: float, lr_name: str) -> None:
    """Raise if training has diverged."""
    if not math.isfinite(loss):
        raise InvalidInput(
            f"the loss became {loss} in epoch {epoch} at learning rate {lr:g}: training has "
            f"diverged. Pass a smaller {lr_name}, and check the data for NaN.",
            parameter=lr_name,
        )


@torch.no_grad()
def count_correct(
    learner: Trainable,
    sampler: EpisodeSampler,
    drawn: Positions,
    batch: int,
    class_weights: Tensor | None = None,
) -> Tensor:
    """Return the weighted number of correctly labelled queries, and of all queries."""
    weights = torch.ones(sampler.classes) if class_weights is None else class_weights
    weights = weights.to(sampler.device, torch.float64)  # whole numbers are exact
    correct = torch.zeros((), dtype=torch.float64, device=sampler.device)
    for start in range(0, len(drawn.query), batch):
        support_x, support_y, query_x, query_y, classes = sampler.gather(
            drawn.part(start, start + batch)
        )
        with mixed_precision(sampler.device):
            logits = learner.logits(support_x, support_y, query_x, classes=classes)
        correct += (weights[query_y] * (logits.argmax(-1) == query_y)).sum()
    return torch.stack([correct, weights[drawn.query_y].sum()])


def mixed_precision(device: torch.device) -> torch.autocast:
    """Return the autocast context: bfloat16 on a GPU, no change on a CPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


class Trainer:
    """A learner in training, with its optimiser and its best weights so far."""

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
        """Resume from the checkpoint in a folder, or write the first one."""
        stored = None if folder is None else read_checkpoint(folder)
        if stored is not None and any_rng:
            self.config = replace(self.config, rng=stored.config["rng"])
        self.config = replace(self.config, rng=self.ranks.broadcast(self.config.rng))
        history = History()
        if folder is not None and stored is not None:
            check_same_run(folder, stored, self.learner, asdict(self.config), epochs)
            check_same_tensors(folder, stored, self.learner, self.optimiser)
            history = self._restore(stored)
        if self.ranks.broadcast(len(history.epochs)) != len(history.epochs):
            raise InvalidInput(
                "checkpoint must be the same folder for all processes, but they see different "
                f"runs in {folder}. Put it on a disk that they share.",
                parameter="checkpoint",
            )
        if stored is None:
            self.save(folder, history)
        return history

    def train_epoch(self, history: History) -> History:
        """Train one more epoch, and remember its weights if it is the best."""
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
        """Write a checkpoint, in the first process only."""
        if folder is not None and self.ranks.is_first:
            write_checkpoint(
                folder,
                Checkpoint(
                    architecture=describe_architecture(self.learner),
                    config=asdict(self.config),
                    history=[asdict(epoch) for epoch in history.epochs],
                    weights=self._weights(),
                    best=self.best,
                    optimiser=get_optimiser_state(self.optimiser),
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

    def _restore(self, stored: Checkpoint) -> History:
        self.learner.module.load_state_dict(stored.weights)
        set_optimiser_state(self.optimiser, stored.optimiser)
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
            f"class_weights must hold {classes} numbers, one for each label, got "
            f"{len(class_weights)}.",
            parameter="class_weights",
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
    """Raise InvalidInput in place of torch's error if the backbone does not take whole numbers."""
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
    """Keep other runs out of a folder; the first process locks it for all that train together."""
    if folder is None or not ranks.is_first:
        return nullcontext()
    return lock_folder(folder, "metapac train")


@contextmanager
def seeded_torch(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators, which dropout uses, and restore them at the end."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def train(
    learner: Trainable,
    train_pool: Pool,
    validation_pool: Pool,
    *,
    ways: int = 5,
    shots: int = 5,
    queries: int = 5,
    epochs: int = 200,
    episodes_per_epoch: int = 800,
    episodes_per_step: int = 8,
    lr: float = 1e-3,
    halve_every: int = 40,
    class_weights: Sequence[float] | None = None,
    validation_tasks: int = 400,
    patience: int | None = None,
    device: str | torch.device | None = None,
    checkpoint: PathLike | None = None,
    rng: Seed = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    compile: bool | None = None,
) -> History:
    """Meta-train a learner on episodes, and leave it with the weights of its best epoch.

    Parameters
    ----------
    learner : Trainable
        Learner to train, such as a `ProtoNet` or a `MAML`.
    train_pool : ClassPool or GroupPool
        Pool to train on.
    validation_pool : ClassPool or GroupPool
        Pool on which the best epoch is chosen.
    ways : int, default 5
        Number of classes in an episode; ignored for a `GroupPool`.
    shots : int, default 5
        Number of support examples, for each class or for the group.
    queries : int, default 5
        Number of query examples, for each class or for the group. Queries whose label is absent
        from the support set do not count in the loss.
    epochs : int, default 200
        Number of epochs; a larger value extends a finished run.
    episodes_per_epoch : int, default 800
        Number of episodes in an epoch, rounded up to whole steps.
    episodes_per_step : int, default 8
        Number of episodes whose mean loss makes an optimiser step.
    lr : float, default 0.001
        Initial learning rate of Adam.
    halve_every : int, default 40
        Number of epochs after which the learning rate is halved.
    class_weights : sequence of float, optional
        Weight of each label, in the loss and in the validation accuracy.
    validation_tasks : int, default 400
        Number of validation tasks, the same in all epochs. The best epoch has the highest
        accuracy on them; ties go to the earlier epoch.
    patience : int, optional
        Stop after this many epochs without improvement.
    device : str or torch.device, optional
        Device to train on; by default a GPU if there is one.
    checkpoint : str or path-like, optional
        Folder of the checkpoint. A run that was killed resumes after its last complete epoch.
    rng : int, numpy.random.Generator or None, default 0
        Seed.
    on_epoch : callable, optional
        Called with each finished `Epoch`, in the first process only.
    compile : bool, optional
        Whether to compile the loss; by default on a single GPU.

    Returns
    -------
    History
        All epochs, including those before the run was resumed.

    Raises
    ------
    InvalidInput
        If an argument is not valid, if the loss diverges, if the checkpoint is of a run with
        other arguments, or if another process is training in its folder.
    BadArtefact
        If the checkpoint is damaged.

    Notes
    -----
    All randomness of an epoch is derived from ``rng`` and the number of the epoch. On a CPU with
    the same number of threads, a resumed run therefore ends with identical weights.

    Under torchrun, or in an existing process group, the processes share the episodes of a step.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import MLP, ProtoNet, train, split_classes
    >>> y = np.repeat(np.arange(8), 10)
    >>> x = np.random.default_rng(0).normal(y[:, None], 0.1, (80, 2))
    >>> pools = split_classes(x, y, train=4, validation=4, calibration=0, test=0, rng=0)
    >>> history = train(ProtoNet(MLP(2, rng=0)), pools.train, pools.validation, ways=2,
    ...                 epochs=2, episodes_per_epoch=8, validation_tasks=10, device="cpu")
    >>> len(history.epochs)
    2
    """
    as_whole_number("epochs", epochs)
    check_trainable(learner)
    check_pools(train_pool, validation_pool)
    config = TrainingConfig(
        ways=ways,
        shots=shots,
        queries=queries,
        episodes_per_epoch=episodes_per_epoch,
        episodes_per_step=episodes_per_step,
        lr=lr,
        halve_every=halve_every,
        class_weights=None if class_weights is None else list(class_weights),
        validation_tasks=validation_tasks,
        patience=patience,
        rng=as_integer_seed(rng),
        train_pool=fingerprint(train_pool),
        validation_pool=fingerprint(validation_pool),
    )
    where = choose_device(device)
    with process_group(where) as ranks, training_context(learner.module, where, ranks):
        trainer = Trainer(learner, train_pool, validation_pool, config, where, ranks, compile)
        with lock_run(checkpoint, ranks):
            history = trainer.start(checkpoint, epochs, any_rng=rng is None)
            try:
                while len(history.epochs) < epochs and not history.has_stalled(patience):
                    with explain_failures(learner, trainer.sampler):
                        history = trainer.train_epoch(history)
                    trainer.save(checkpoint, history)
                    if on_epoch is not None and ranks.is_first:
                        on_epoch(history.epochs[-1])
            finally:  # even after an error, the learner has its best weights so far
                learner.module.load_state_dict(trainer.best)
    return history

"""One training loop for both recipes: a schedule of stages, resumed from a checkpoint."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam, Optimizer
from torch.optim.swa_utils import AveragedModel, update_bn

from metapac._common import PathLike, Progress, Seed, as_whole_number, ignore_progress
from metapac.artefact import lock_folder
from metapac.errors import InvalidInput
from metapac.fewshot.adapters import Trainable
from metapac.fewshot.learners import protonet
from metapac.fewshot.learners.networks import Conv4, Sphere
from metapac.fewshot.learners.protonet import ProtoNet, cuda_math
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.training import checkpoints
from metapac.fewshot.training.checkpoints import read_checkpoint
from metapac.fewshot.training.episodes import EpisodeSampler, Images, Pool, fingerprint
from metapac.inputs import check_finite

_TUNING_EPOCH = 100  # steps
_TUNING_FLOOR = 0.05  # last learning rate of tuning, relative to the first
_SCALE_LR = 0.01  # of the scale of a sphere, in tuning
_AVERAGE_EVERY = 10  # steps of tuning
_VALIDATION_BATCH = 8  # episodes, with the strong recipe
_POOLS = ("train_pool", "validation_pool")
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# Least value of each count of a recipe, and largest value of each number.
_COUNTS = {"epochs": 1, "batch": 2, "warmup": 0, "tuning_steps": 0, "episodes_per_step": 1}
_NUMBERS = {"lr": math.inf, "weight_decay": math.inf, "tuning_lr": math.inf}
_NUMBERS |= {"averaged": 1.0, "crop": 1.0, "colour": 1.0}


@dataclass(frozen=True)
class Epoch:
    """Results of one epoch."""

    epoch: int  # from 1
    loss: float  # mean over the steps
    accuracy: float  # on the validation tasks after the epoch
    lr: float
    seconds: float


@dataclass(frozen=True)
class History:
    """The epochs of a training run, in order."""

    epochs: tuple[Epoch, ...] = ()

    @property
    def best(self) -> Epoch:
        """The epoch with the highest accuracy; ties go to the earlier one."""
        return max(self.epochs, key=lambda epoch: epoch.accuracy)


def _set_whole_numbers(settings: Any, **least: int) -> None:
    """Check the counts among frozen settings, and make them plain whole numbers."""
    given = vars(settings)
    given |= {name: as_whole_number(name, given[name], minimum=n) for name, n in least.items()}


@dataclass(frozen=True)
class Recipe:
    """Settings of `train_strong`; the defaults suit a ResNet-12.

    Attributes
    ----------
    epochs : int, default 44
        Epochs of pre-training: passes over all training images.
    batch : int, default 128
        Images in a step of pre-training, not counting their rotated copies.
    lr : float, default 0.1
        Largest learning rate of pre-training (SGD with Nesterov momentum 0.9). It rises for
        ``warmup`` steps, then falls along a cosine to a fiftieth.
    warmup : int, default 500
        Number of steps over which the learning rate rises, at most a tenth of all steps.
    weight_decay : float, default 0.0005
    averaged : float, default 0.25
        Share of the last epochs of pre-training whose weights are averaged; 0 keeps the last.
    crop : float, default 0.35
        Smallest share of an image that is cut out and enlarged; 1 switches cropping off.
    colour : float, default 0.4
        Largest relative change of brightness, contrast and saturation of uint8 images.
    flip : bool, default True
        Whether half of the images are mirrored; pass False for letters and digits.
    rotate : bool, default True
        Whether square images are also shown rotated by 90, 180 or 270 degrees. Each rotation of a
        class is a class of its own, so there are four times as many.
    tuning_steps : int, default 400
        Number of optimiser steps on episodes after pre-training.
    tuning_lr : float, default 0.001
        Learning rate of these steps (SGD with momentum 0.9), which falls linearly.
    episodes_per_step : int, default 4
        Number of episodes in a step of tuning.
    """

    epochs: int = 44
    batch: int = 128
    lr: float = 0.1
    warmup: int = 500
    weight_decay: float = 5e-4
    averaged: float = 0.25
    crop: float = 0.35
    colour: float = 0.4
    flip: bool = True
    rotate: bool = True
    tuning_steps: int = 400
    tuning_lr: float = 1e-3
    episodes_per_step: int = 4

    is_strong: ClassVar[bool] = True
    save_seconds: ClassVar[float] = 60.0  # between checkpoints; epochs may be short
    class_weights: ClassVar[None] = None
    patience: ClassVar[None] = None

    def __post_init__(self) -> None:
        _set_whole_numbers(self, **_COUNTS)
        for name, high in _NUMBERS.items():
            value = vars(self)[name] = float(getattr(self, name))
            if not 0 <= value <= high or math.isinf(value):
                raise InvalidInput(f"{name} must be 0 to {high:g}, got {value}.", parameter=name)


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    fall = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps))
    rise = max(1, min(recipe.warmup, steps // 10))
    return recipe.lr * fall * min(1.0, (step + 1) / rise)


def tuning_rate(recipe: Recipe, step: int) -> float:
    done = step / max(1, recipe.tuning_steps)
    return recipe.tuning_lr * (_TUNING_FLOOR + (1 - _TUNING_FLOOR) * (1 - done))


def recipe_for(backbone: Any, **changes: Any) -> Recipe:
    """Return the recipe that suits a backbone.

    Parameters
    ----------
    backbone : torch.nn.Module
    **changes : object
        Fields of `Recipe` to set; None leaves a field as it is.

    Returns
    -------
    Recipe
        For a `Conv4` larger batches, milder crops and longer tuning; the defaults otherwise.

    Examples
    --------
    >>> from metapac.fewshot import Conv4, recipe_for
    >>> recipe_for(Conv4(rng=0), epochs=10).batch
    256
    """
    recipe = Recipe()
    if isinstance(backbone, Conv4):
        recipe = replace(recipe, epochs=60, batch=256, crop=0.5, tuning_steps=3000, tuning_lr=0.01)
    return replace(recipe, **{k: value for k, value in changes.items() if value is not None})


@dataclass(frozen=True)
class EpisodeRecipe:
    """Settings of `train`, the recipe of the paper: one stage of episodes."""

    episodes_per_epoch: int
    episodes_per_step: int
    lr: float
    halve_every: int
    class_weights: Sequence[float] | None
    patience: int | None

    is_strong: ClassVar[bool] = False
    save_seconds: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _set_whole_numbers(self, episodes_per_epoch=1, episodes_per_step=1, halve_every=1)
        if self.patience is not None:
            _set_whole_numbers(self, patience=1)
        for name in ("lr", "class_weights"):
            value = getattr(self, name)
            if value is not None:
                numbers = np.asarray(value, dtype=np.float64)
                check_finite(name, np.atleast_1d(numbers), positive=True)
                vars(self)[name] = numbers.tolist()


class Place(NamedTuple):
    """Where a run is computed: a device, and the rank among the processes that train together."""

    device: torch.device
    rank: int = 0
    world: int = 1

    def share(self, count: int) -> tuple[int, int]:
        """Return the range of items that this process handles."""
        return count * self.rank // self.world, count * (self.rank + 1) // self.world

    def sum(self, value: Tensor) -> Tensor:
        if self.world > 1:
            dist.all_reduce(value)
        return value


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device to train on: by default the GPU of this process, if there is one."""
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if chosen.type == "cuda" and chosen.index is None:
            index = int(os.environ.get("LOCAL_RANK", torch.cuda.current_device()))
            chosen = torch.device("cuda", index)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        text = f"device must be one that torch finds here, got {str(device)!r}."
        raise InvalidInput(text, parameter="device") from error
    return chosen


@contextmanager
def process_group(device: torch.device) -> Iterator[Place]:
    """Join the existing process group, or start that of torchrun; without either, do nothing."""
    created = not dist.is_initialized() and all(name in os.environ for name in _TORCHRUN)
    if created:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else ()
        yield Place(device, *ranks)
        if created:
            dist.barrier()  # wait for all ranks before teardown
    finally:
        if created:
            # A DDP module is a reference cycle that keeps gloo's threads alive. One of them that
            # asks for the GIL while the interpreter shuts down would abort the process.
            gc.collect()
            dist.destroy_process_group()


@contextmanager
def training_context(module: nn.Module, place: Place) -> Iterator[None]:
    """Set a module up for training on a device (fast arithmetic on a GPU), and restore its mode."""
    mode = module.training
    module.to(place.device)
    if place.device.type == "cuda":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with synced_batch_norm(module, place), cuda_math(place.device, "high", benchmark=True):
            yield
    finally:
        module.train(mode)
        module.zero_grad()


@contextmanager
def synced_batch_norm(module: nn.Module, place: Place) -> Iterator[None]:
    """Give batch norms the statistics of all processes; put the plain ones back at the end."""
    plain = [
        (parent, name, layer)
        for parent in module.modules()
        for name, layer in parent.named_children()
        if isinstance(layer, _BatchNorm)
    ]
    if plain and place.world > 1:
        if place.device.type != "cuda":
            rule = f"a network with batch norm trains in {place.world} processes on GPUs only"
            raise InvalidInput(f"{rule}, got device {place.device}.", parameter="device")
        nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for parent, name, layer in plain:
            setattr(parent, name, layer)


@contextmanager
def seeded_torch(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators, which dropout uses, and restore them at the end."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def mixed_precision(device: torch.device) -> torch.autocast:
    """Return the autocast context: bfloat16 on a GPU, no change on a CPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def episode_loss(
    logits: Tensor, support_y: Tensor, query_y: Tensor, class_weights: Tensor | None = None
) -> Tensor:
    """Return the weighted cross-entropy of queries whose label is in the support set."""
    learnable = (query_y.unsqueeze(-1) == support_y.unsqueeze(1)).any(-1)  # (E, Q)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p = log_softmax(wide, -1).gather(-1, query_y.unsqueeze(-1)).squeeze(-1)  # (E, Q)
    weights = learnable.to(log_p.dtype) * (1.0 if class_weights is None else class_weights[query_y])
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

    def forward(self, support_x: Tensor, support_y: Tensor, query_x: Tensor, y: Tensor) -> Tensor:
        with mixed_precision(support_y.device):
            logits = self.learner.logits(support_x, support_y, query_x, classes=self.classes)
        weights: Tensor | None = self.class_weights  # type: ignore[assignment]
        return episode_loss(logits, support_y, y, weights)


class ClassLoss(nn.Module):
    """The cross-entropy of a linear layer on a backbone that tells all training classes apart."""

    def __init__(self, backbone: nn.Module, outputs: int, device: torch.device) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(cast(int, backbone.features), outputs, device=device)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with mixed_precision(y.device):
            logits: Tensor = self.head(self.backbone(x))
        return cross_entropy(logits.float(), y)


@dataclass(eq=False)
class Stage:
    """Some epochs of batches with one loss and one optimiser."""

    # It ends with the average of the weights after some steps (``averages``), for which ``plain``
    # examples set the batch norms, or with the weights of the highest validation accuracy.
    name: str
    epochs: int
    steps: int  # of an epoch; the last one may have fewer
    batches: Callable[[int, int], Iterable[Sequence[Any]]]  # of an epoch of the stage, by a seed
    loss: nn.Module
    optimiser: Optimizer
    lr: Callable[[int], float]  # at a step of the stage, counted from 0
    lr_name: str = "lr"
    averages: Callable[[int], bool] | None = None  # whether the weights after a step count
    plain: Callable[[torch.Generator], Iterable[Tensor]] | None = None


class Run:
    """A learner in training: its stages, its history, and the weights that the stage keeps."""

    stages: Sequence[Stage]

    def __init__(
        self,
        learner: Trainable,
        pools: Sequence[Pool],
        recipe: EpisodeRecipe | Recipe,
        config: dict[str, Any],
        place: Place,
    ) -> None:
        self.learner, self.module, self.recipe, self.place = learner, learner.module, recipe, place
        self.config, self.device = asdict(recipe) | config, place.device  # as checkpoints record it
        shape = {name: config[name] for name in ("ways", "shots", "queries")}
        sample = partial(EpisodeSampler, device=self.device, **shape)
        self.sampler, self.validation = map(sample, pools)
        self.parts = self.module  # all that has weights for a checkpoint
        self.history = History()

    @property
    def epochs(self) -> int:
        return sum(stage.epochs for stage in self.stages)

    def seed(self, *key: int) -> int:
        seed = np.random.SeedSequence(self.config["rng"], spawn_key=key)
        return int(seed.generate_state(1, np.uint64)[0]) >> self.recipe.is_strong

    def start(self, folder: PathLike | None, architecture: dict[str, Any]) -> None:
        """Resume from the checkpoint in a folder, or write the first one."""
        self.architecture = architecture
        stored = None if folder is None else read_checkpoint(folder)
        self._enter(self._locate(len(stored.history))[0] if stored else self.stages[0])
        if folder is not None and stored is not None:
            checkpoints.check_same_run(folder, stored, architecture, self.config, self.epochs)
            self._restore(stored)
        done = torch.tensor(len(self.history.epochs), device=self.device)
        if self.place.sum(done.clone()) != self.place.world * done:
            rule = "checkpoint must be one folder on a disk that all processes share"
            raise InvalidInput(f"{rule}, got {folder}.", parameter="checkpoint")
        if stored is None:
            self.save(folder)

    def is_done(self) -> bool:
        """Return whether all epochs are trained, or the last ones brought no improvement."""
        done, patience = len(self.history.epochs), self.recipe.patience or math.inf
        return done >= self.epochs or bool(done and done - self.history.best.epoch >= patience)

    def check_example_type(self) -> None:
        """Raise InvalidInput if the backbone does not take whole numbers."""
        support_x, y, query_x, _, classes = self.sampler.gather(self.sampler.draw(1, seed=0))
        score = lambda s, q: self.learner.logits(s, y, q, classes=classes)  # noqa: E731
        protonet.check_example_type(self.module, score, support_x, query_x)

    def train_epoch(self) -> None:
        """Train one more epoch; the last one of the run is measured on averaged weights, if any."""
        start, number = time.perf_counter(), len(self.history.epochs) + 1
        stage, epoch = self._locate(number)
        if stage is not self.stage:
            self.conclude(number)
            self._enter(stage)
        loss, lr = self._fit(stage, epoch, number), float(stage.optimiser.param_groups[0]["lr"])
        if not math.isfinite(loss):
            text = f"the loss became {loss} in epoch {number} at learning rate {lr:g}"
            remedy = f"pass a smaller {stage.lr_name}, and check x"
            raise InvalidInput(f"{text}: {remedy}.", parameter=stage.lr_name)
        if number == self.epochs and self.average is not None:
            self.conclude(number)
        done = Epoch(number, loss, self._accuracy(), lr, time.perf_counter() - start)
        self.history = History((*self.history.epochs, done))
        if self.average is None and self.history.best is done:
            self.best = self._copy_weights()

    def conclude(self, number: int) -> None:
        """Give the learner the weights that the stage keeps: the best ones, or their average."""
        if self.average is None or self.stage.plain is None:
            self.module.load_state_dict(self.best)
            return
        self.module.load_state_dict(self.average.module.state_dict())
        generator = torch.Generator(self.device).manual_seed(self.seed(number, 2))
        with seeded_torch(self.seed(number, 3), self.device), mixed_precision(self.device):
            update_bn(self.stage.plain(generator), self.module)

    def save(self, folder: PathLike | None) -> None:
        if folder is not None and not self.place.rank:
            kept = self.best if self.average is None else self.average.state_dict()
            optimiser = checkpoints.get_optimiser_state(self.stage.optimiser)
            described = self.architecture, self.config, [*map(asdict, self.history.epochs)]
            tensors = self.parts.state_dict(), kept, optimiser
            checkpoints.write_checkpoint(folder, checkpoints.Checkpoint(*described, *tensors))

    def report(self, progress: Progress) -> None:
        last = self.history.epochs[-1]
        stage, epoch = self._locate(last.epoch)
        figures = f"loss {last.loss:.3f}, validation accuracy {last.accuracy:.1%}"
        if not self.place.rank:
            progress(f"{stage.name}, {figures}", epoch, stage.epochs)

    def _locate(self, number: int) -> tuple[Stage, int]:
        """Return the stage of an epoch of the run, and the number of the epoch in the stage."""
        for stage in self.stages:
            if number <= stage.epochs or stage is self.stages[-1]:
                break
            number -= stage.epochs
        return stage, number

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self.average = None if stage.averages is None else AveragedModel(self.module)
        self.best = {} if stage.averages else self._copy_weights()

    def _fit(self, stage: Stage, epoch: int, number: int) -> float:
        """Return the mean loss of an epoch, without waiting for the device before its end."""
        # The strong recipe runs in one process, and its seeds do not depend on the rank.
        rank = () if self.recipe.is_strong else (self.place.rank,)
        total, count = torch.zeros((), device=self.device), 0
        self.module.train()
        with seeded_torch(self.seed(number, 1, *rank), self.device):
            for batch in stage.batches(epoch, self.seed(number, 0)):
                total += self._step(stage, (epoch - 1) * stage.steps + count, batch)
                count += 1
        return float(self.place.sum(total)) / (count * self.place.world)

    def _step(self, stage: Stage, step: int, batch: Sequence[Any]) -> Tensor:
        stage.optimiser.param_groups[0]["lr"] = stage.lr(step)  # that of a scale stays
        stage.optimiser.zero_grad()
        loss: Tensor = stage.loss(*batch)
        loss.backward()  # type: ignore[no-untyped-call]
        stage.optimiser.step()
        if self.average is not None and stage.averages is not None and stage.averages(step):
            self.average.update_parameters(self.module)
        return loss.detach()

    @torch.no_grad()
    def _accuracy(self) -> float:
        """Return the accuracy on the validation queries, with labels weighted as in the loss."""
        sampler, tasks = self.validation, self.config["validation_tasks"]
        strong = self.recipe.is_strong
        drawn = sampler.draw(tasks, self.seed(0, 0) if strong else self.seed(0))
        drawn = drawn.part(*self.place.share(tasks))
        weights = torch.tensor(self.recipe.class_weights or [1.0] * sampler.classes)
        weights = weights.to(self.device, torch.float64)  # whole numbers are exact
        correct = torch.zeros((), dtype=torch.float64, device=self.device)
        batch = _VALIDATION_BATCH if strong else self.recipe.episodes_per_step
        self.module.eval()
        for start in range(0, len(drawn.query), batch):
            *episodes, query_y, classes = sampler.gather(drawn.part(start, start + batch))
            with mixed_precision(self.device):
                logits = self.learner.logits(*episodes, classes=classes)
            correct += (weights[query_y] * (logits.argmax(-1) == query_y)).sum()
        counts = torch.stack([correct, weights[drawn.query_y].sum()])
        right, total = self.place.sum(counts).tolist()
        return float(right / total)

    def _copy_weights(self) -> dict[str, Tensor]:
        return {name: x.detach().clone() for name, x in self.module.state_dict().items()}

    def _restore(self, stored: checkpoints.Checkpoint) -> None:
        self.parts.load_state_dict(stored.weights)
        checkpoints.set_optimiser_state(self.stage.optimiser, stored.optimiser)
        self.history = History(tuple(Epoch(**epoch) for epoch in stored.history))
        if self.average is None:
            self.best = dict(stored.best)
        else:
            self.average.load_state_dict(dict(stored.best))
            if len(stored.history) == self.epochs:  # earlier versions stored other weights
                self.conclude(self.epochs)


def run_stages(
    learner: Trainable,
    pools: tuple[Pool, Pool],
    recipe: EpisodeRecipe | Recipe,
    sizes: Sequence[int],  # ways, shots, queries, validation tasks
    schedule: Callable[[Run], Sequence[Stage]],
    device: str | torch.device | None,
    checkpoint: PathLike | None,
    rng: Seed,
    progress: Progress,
) -> History:
    """Train a learner by a schedule of stages, resuming from a checkpoint if there is one."""
    _check_pools(*pools)
    config: dict[str, Any] = dict(zip(_POOLS, map(fingerprint, pools), strict=True))
    given = zip(("ways", "shots", "queries", "validation_tasks"), sizes, strict=True)
    config |= {name: as_whole_number(name, number) for name, number in given}
    config["rng"] = _choose_seed(rng, checkpoint)
    architecture = checkpoints.describe_architecture(learner)
    with process_group(choose_device(device)) as place, training_context(learner.module, place):
        own = torch.tensor(0 if place.rank else config["rng"], device=place.device)
        config["rng"] = int(place.sum(own))  # the seed of the first process
        run, saved = Run(learner, pools, recipe, config, place), time.monotonic()
        run.stages = schedule(run)
        folder = None if place.rank else checkpoint  # the first process locks it for all
        with nullcontext() if folder is None else lock_folder(folder, "metapac train"):
            run.start(checkpoint, architecture)
            try:
                while not run.is_done():
                    with protonet.explain_failures(run.check_example_type):
                        run.train_epoch()
                    if run.is_done() or time.monotonic() - saved >= recipe.save_seconds:
                        run.save(checkpoint)
                        saved = time.monotonic()
                    run.report(progress)
            finally:  # even after an error, a learner whose best epoch counts has its weights
                if run.average is None:
                    run.conclude(run.epochs)
        history = run.history
        del run  # and with it what keeps the process group alive
    return history


def _batches(run: Run, steps: Callable[[int], int], epoch: int, seed: int) -> Iterator[Any]:
    """Yield the episodes of each step of an epoch, those for this process."""
    per_step = run.recipe.episodes_per_step
    start, stop = run.place.share(per_step)
    drawn = run.sampler.draw(steps(epoch) * per_step, seed)
    for first in range(0, len(drawn.query), per_step):
        yield run.sampler.gather(drawn.part(first + start, first + stop))[:4]


def _compile(loss: nn.Module, compile: bool | None, place: Place) -> None:
    if compile or (compile is None and place.device.type == "cuda" and place.world == 1):
        loss.compile(dynamic=False)


def _schedule_episodes(run: Run, *, epochs: int, compile: bool | None) -> list[Stage]:
    """Return the schedule of the paper: one stage of episodes, whose best epoch counts."""
    recipe, world, classes = cast(EpisodeRecipe, run.recipe), run.place.world, run.sampler.classes
    weights, steps = None, -(-recipe.episodes_per_epoch // recipe.episodes_per_step)
    if recipe.class_weights is not None:
        weights = torch.tensor(recipe.class_weights, device=run.device)
        if weights.shape != (classes,):
            rule = f"class_weights must hold {classes} numbers, one for each label"
            raise InvalidInput(f"{rule}, got {weights.numel()}.", parameter="class_weights")
    if recipe.episodes_per_step % world:
        rule = f"episodes_per_step must be a multiple of the {world} processes."
        raise InvalidInput(rule, parameter="episodes_per_step")
    loss: nn.Module = EpisodeLoss(run.learner, classes, weights)
    loss = DistributedDataParallel(loss) if world > 1 else loss
    _compile(loss, compile, run.place)
    trained = [weight for weight in run.module.parameters() if weight.requires_grad]
    adam = Adam(trained, recipe.lr, fused=run.device.type == "cuda")

    def halve(step: int) -> float:
        return recipe.lr * 0.5 ** (step // steps // recipe.halve_every)

    batches = partial(_batches, run, lambda epoch: steps)
    return [Stage("training", epochs, steps, batches, loss, adam, halve)]


def _schedule_strong(run: Run, *, pool: ClassPool, compile: bool | None) -> list[Stage]:
    """Return the strong schedule: pre-training, then tuning from its averaged weights."""
    recipe, sphere = cast(Recipe, run.recipe), cast(Sphere, run.module)
    images = Images(pool, run.sampler, sphere.backbone, recipe)
    steps, tuning_steps = images.batches, recipe.tuning_steps
    with seeded_torch(run.seed(0), run.device):
        loss = ClassLoss(sphere.backbone, images.outputs, run.device)
    _compile(loss, compile, run.place)
    run.parts = nn.ModuleDict({"module": sphere, "head": loss.head})

    def ends_late_epoch(step: int) -> bool:
        epoch, rest = divmod(step + 1, steps)
        late = epoch == recipe.epochs or epoch > recipe.epochs * (1 - recipe.averaged)
        return rest == 0 and late

    def is_late_step(step: int) -> bool:
        late = 2 * step >= tuning_steps and step % _AVERAGE_EVERY == 0
        return late or step + 1 == tuning_steps

    def left(epoch: int) -> int:
        return min(_TUNING_EPOCH, tuning_steps - (epoch - 1) * _TUNING_EPOCH)

    settings: Any = {"momentum": 0.9, "weight_decay": recipe.weight_decay}
    pretraining = Stage(
        name="pre-training",
        epochs=recipe.epochs,
        steps=steps,
        batches=lambda epoch, seed: images.epoch(torch.Generator(run.device).manual_seed(seed)),
        loss=loss,
        optimiser=SGD(loss.parameters(), recipe.lr, nesterov=True, **settings),
        lr=lambda step: learning_rate(recipe, step, recipe.epochs * steps),
        averages=ends_late_epoch,
        plain=images.plain,
    )
    scale: Any = {"params": [sphere.log_temperature], "lr": _SCALE_LR, "weight_decay": 0}
    groups = [{"params": list(sphere.backbone.parameters())}, scale]
    tuning = Stage(
        name="tuning",
        epochs=-(-tuning_steps // _TUNING_EPOCH),
        steps=_TUNING_EPOCH,
        batches=partial(_batches, run, left),
        loss=EpisodeLoss(run.learner, run.sampler.classes, None),
        optimiser=SGD(groups, recipe.tuning_lr, **settings),
        lr=partial(tuning_rate, recipe),
        lr_name="tuning_lr",
        averages=is_late_step,
        plain=images.plain,
    )
    return [pretraining, tuning]


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
    progress: Progress = ignore_progress,
    compile: bool | None = None,
) -> History:
    """Meta-train a learner on episodes, and leave it with the weights of its best epoch.

    Parameters
    ----------
    learner : ProtoNet or MAML
        Learner to train.
    train_pool, validation_pool : ClassPool or GroupPool
        Pool to train on, and pool on which the best epoch is chosen.
    ways : int, default 5
        Number of classes in an episode; ignored for a `GroupPool`.
    shots, queries : int, default 5
        Number of support and of query examples, for each class or for the group. Queries whose
        label is absent from the support set do not count in the loss.
    epochs : int, default 200
        Number of epochs; a larger value extends a finished run.
    episodes_per_epoch, episodes_per_step : int, optional
        Number of episodes in an epoch, rounded up to whole steps, and in a step: 800 and 8.
    lr : float, default 0.001
        Initial learning rate of Adam.
    halve_every : int, default 40
        Number of epochs after which the learning rate is halved.
    class_weights : sequence of float, optional
        Weight of each label, in the loss and in the validation accuracy.
    validation_tasks : int, default 400
        Number of validation tasks, the same in all epochs. The best epoch has the highest accuracy.
    patience : int, optional
        Stop after this many epochs without improvement.
    device : str or torch.device, optional
        Device to train on; by default a GPU if there is one.
    checkpoint : str or path-like, optional
        Folder of the checkpoint. A run that was killed resumes after its last complete epoch.
    rng : int, numpy.random.Generator or None, default 0
        Seed.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` after each epoch, in the first process only.
        ``stage`` is a text with the loss and the validation accuracy.
    compile : bool, optional
        Whether to compile the loss; by default on a single GPU.

    Returns
    -------
    History
        All epochs, including those before the run was resumed.

    Raises
    ------
    InvalidInput
        If the loss diverges, or if the checkpoint is of a run with other arguments.

    Notes
    -----
    On a CPU with the same number of threads, a resumed run ends with identical weights. Under
    torchrun, or in an existing process group, the processes share the episodes of a step, and
    batch norms use the statistics of all processes, which needs GPUs.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import MLP, ProtoNet, split_classes, train
    >>> y = np.repeat(np.arange(8), 10)
    >>> x = np.random.default_rng(0).normal(y[:, None], 0.1, (80, 2))
    >>> pools = split_classes(x, y, train=4, validation=4, calibration=0, test=0, rng=0)
    >>> history = train(ProtoNet(MLP(2, rng=0)), pools.train, pools.validation, ways=2,
    ...                 epochs=2, episodes_per_epoch=8, validation_tasks=10, device="cpu")
    >>> len(history.epochs)
    2
    """
    as_whole_number("epochs", epochs)
    if not (hasattr(learner, "module") and hasattr(learner, "logits")):
        raise InvalidInput(f"learner must be a ProtoNet or MAML, got {type(learner).__name__}.")
    settings = episodes_per_epoch, episodes_per_step, lr, halve_every, class_weights, patience
    sizes = ways, shots, queries, validation_tasks
    schedule = partial(_schedule_episodes, epochs=epochs, compile=compile)
    pools, where = (train_pool, validation_pool), (device, checkpoint, rng, progress)
    return run_stages(learner, pools, EpisodeRecipe(*settings), sizes, schedule, *where)


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
    progress: Progress = ignore_progress,
    compile: bool | None = None,
) -> History:
    """Pre-train a ProtoNet to classify all training classes, then tune it on episodes.

    Tuning starts from averaged weights and trains the network together with the scale of its
    vectors; the weights of its last half are averaged. No epoch is selected, so the validation
    classes only measure progress.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train, on a `Sphere`, whose scale is learned.
    train_pool, validation_pool : ClassPool
        Pool to train on, and pool on which each epoch is measured.
    recipe : Recipe, optional
        How to train; by default ``recipe_for`` the backbone.
    ways, shots, queries, validation_tasks : int, optional
        Number of classes in an episode, of support and of query examples of each class, and of
        validation tasks: 5, 5, 15 and 200.
    device, checkpoint, rng, progress, compile : object, optional
        As in `train`. The checkpoint is written once a minute, and pre-training is compiled.

    Returns
    -------
    History
        All epochs: those of pre-training, then those of tuning, of up to 100 steps each. The
        accuracy of the last one is that of the averaged weights, which the learner ends with.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import MLP, ProtoNet, Sphere, recipe_for, split_classes, train_strong
    >>> y, learner = np.repeat(np.arange(8), 20), ProtoNet(Sphere(MLP(2, rng=0)))
    >>> x = np.random.default_rng(0).normal(y[:, None], 0.1, (160, 2))
    >>> pools = split_classes(x, y, train=4, validation=4, calibration=0, test=0, rng=0)
    >>> recipe = recipe_for(learner.module, epochs=2, batch=16, tuning_steps=10)
    >>> pair = pools.train, pools.validation
    >>> len(train_strong(learner, *pair, recipe=recipe, ways=2, device="cpu").epochs)
    3
    """
    _check_strong(learner, train_pool)
    recipe = recipe or recipe_for(cast(Sphere, learner.module).backbone)
    sizes = ways, shots, queries, validation_tasks
    schedule = partial(_schedule_strong, pool=train_pool, compile=compile)
    pools, where = (train_pool, validation_pool), (device, checkpoint, rng, progress)
    return run_stages(learner, pools, recipe, sizes, schedule, *where)


def _choose_seed(rng: Seed, checkpoint: PathLike | None) -> int:
    """Return a seed as a number; without one, a run resumes with the seed that it had."""
    if isinstance(rng, int | np.integer):
        return as_whole_number("rng", rng, minimum=0)
    stored = None if rng is not None or checkpoint is None else read_checkpoint(checkpoint)
    if stored is not None:
        return int(stored.config["rng"])
    return int(np.random.default_rng(rng).integers(10**9))


def _check_pools(train_pool: Pool, validation_pool: Pool) -> None:
    for name, pool in zip(_POOLS, (train_pool, validation_pool), strict=True):
        is_pool = isinstance(pool, ClassPool | GroupPool)
        if not is_pool or getattr(pool.x.dtype, "kind", "f") not in "biuf":
            rule = f"{name} must be a ClassPool or a GroupPool, and hold numbers as x"
            raise InvalidInput(f"{rule}, got {pool!r}.", parameter=name)
    if type(train_pool) is not type(validation_pool):
        raise InvalidInput("train_pool and validation_pool must be of one kind.")


def _check_strong(learner: object, pool: object) -> None:
    if not isinstance(learner, ProtoNet) or not isinstance(learner.module, Sphere):
        raise InvalidInput("learner must be a ProtoNet on a Sphere.", parameter="learner")
    if not isinstance(getattr(learner.module.backbone, "features", None), int):
        raise InvalidInput("learner must have the length of its vectors as backbone.features.")
    if not isinstance(pool, ClassPool) or pool.transform is not None:
        rule = "train_pool must be a ClassPool without a transform"
        raise InvalidInput(f"{rule}, got {pool!r}. Train it with train().")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidInput("recipe='strong' runs in one process. Start it without torchrun.")

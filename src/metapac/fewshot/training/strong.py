"""Strong recipes: pre-training on all classes, then episodes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, update_bn

from metapac._common import PathLike, Seed, as_whole_number
from metapac.errors import InvalidInput
from metapac.fewshot.learners.networks import Conv4, ImageBackbone, Sphere
from metapac.fewshot.learners.protonet import ProtoNet
from metapac.fewshot.pools import ClassPool
from metapac.fewshot.training.checkpoints import (
    CHECKPOINT,
    Checkpoint,
    check_same_run,
    check_tensors,
    checkpoint_file,
    describe_architecture,
    get_optimiser_state,
    read_checkpoint,
    set_optimiser_state,
    write_checkpoint,
)
from metapac.fewshot.training.episodes import (
    EpisodeSampler,
    change_colours,
    crop_and_flip,
    fingerprint,
    take,
)
from metapac.fewshot.training.history import Epoch, History, as_integer_seed, check_pools
from metapac.fewshot.training.loop import (
    EpisodeLoss,
    Ranks,
    check_finite_loss,
    choose_device,
    count_correct,
    explain_failures,
    lock_run,
    mixed_precision,
    seeded_torch,
    training_context,
)

STEPS_PER_EPOCH = 100  # of tuning
TUNING_FLOOR = 0.05  # last learning rate of tuning, relative to the first

# Least value of each count, and largest value of each number.
_COUNTS = {"epochs": 1, "batch": 2, "warmup": 0, "tuning_steps": 0, "episodes_per_step": 1}
_NUMBERS = {
    "lr": math.inf,
    "weight_decay": math.inf,
    "averaged": 1.0,
    "crop": 1.0,
    "colour": 1.0,
    "tuning_lr": math.inf,
}


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
        Weight decay.
    averaged : float, default 0.25
        Share of the last epochs of pre-training whose weights are averaged; 0 keeps the last.
    crop : float, default 0.35
        Smallest share of an image that is cut out and enlarged; 1 switches cropping off.
    colour : float, default 0.4
        Largest relative change of brightness, contrast and saturation. It applies to uint8 images.
    flip : bool, default True
        Whether half of the images are mirrored. Pass False for letters, digits and other images
        whose mirror image is of another class.
    rotate : bool, default True
        Whether each image is also shown rotated by 90, 180 or 270 degrees. Each rotation of a class
        is a class of its own, so there are four times as many. It applies to square images.
    tuning_steps : int, default 400
        Number of optimiser steps on episodes after pre-training.
    tuning_lr : float, default 0.001
        Learning rate of these steps (SGD with momentum 0.9), which falls linearly. The weights of
        the last half are averaged.
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

    def __post_init__(self) -> None:
        for name, least in _COUNTS.items():
            object.__setattr__(
                self, name, as_whole_number(name, getattr(self, name), minimum=least)
            )
        for name, high in _NUMBERS.items():
            value = float(getattr(self, name))
            if not 0 <= value <= high or math.isinf(value):
                bound = f"between 0 and {high:g}" if high < math.inf else "at least 0 and finite"
                raise InvalidInput(f"{name} must be {bound}, got {value!r}.", parameter=name)
            object.__setattr__(self, name, value)

    @property
    def tuning_epochs(self) -> int:
        """Number of epochs of tuning, each of up to 100 steps."""
        return -(-self.tuning_steps // STEPS_PER_EPOCH)

    def learning_rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step of pre-training.

        Parameters
        ----------
        step : int
            Number of the step, from 0.
        steps : int
            Number of all steps.

        Returns
        -------
        float
            The learning rate.
        """
        fall = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps))
        rise = max(1, min(self.warmup, steps // 10))
        return self.lr * fall * min(1.0, (step + 1) / rise)

    def tuning_rate(self, step: int) -> float:
        """Return the learning rate of a step of tuning.

        Parameters
        ----------
        step : int
            Number of the step, from 0.

        Returns
        -------
        float
            The learning rate.
        """
        done = step / max(1, self.tuning_steps)
        return self.tuning_lr * (TUNING_FLOOR + (1 - TUNING_FLOOR) * (1 - done))


def recipe_for(backbone: Any, **changes: Any) -> Recipe:
    """Return the recipe that suits a backbone.

    Parameters
    ----------
    backbone : torch.nn.Module
        The backbone.
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
    given = {name: value for name, value in changes.items() if value is not None}
    unknown = sorted(given.keys() - {field.name for field in fields(Recipe)})
    if unknown:
        raise TypeError(f"Recipe has no field {unknown[0]!r}")
    return replace(recipe, **given)


_TURNS = 4  # rotations by 0, 90, 180 and 270 degrees
_REFRESH, _REFRESH_BATCH = 30_000, 500  # examples that set the statistics of batch norms


class Images:
    """The training examples with the number of their class, in batches of augmented copies."""

    def __init__(
        self, pool: ClassPool, learner: ProtoNet, recipe: Recipe, sampler: EpisodeSampler
    ) -> None:
        self.recipe, self.sampler, self.device = recipe, sampler, sampler.device
        self.batch = min(recipe.batch, len(pool.y))
        self.batches = len(pool.y) // self.batch
        labels = np.empty(len(pool.y), np.int64)
        for number, positions in enumerate(pool.positions):
            labels[positions] = number
        self._labels = torch.from_numpy(labels).to(self.device)
        backbone = learner_backbone(learner)
        self._pixels = backbone.pixels if isinstance(backbone, ImageBackbone) else None
        self._bytes = str(pool.x.dtype).endswith("uint8")  # of NumPy or torch
        sample = self._take(torch.zeros(1, dtype=torch.int64))
        self._rotate = recipe.rotate and sample.ndim == 4 and sample.shape[2] == sample.shape[3]
        self.outputs = len(pool.names) * (_TURNS if self._rotate else 1)

    def __len__(self) -> int:
        return len(self._labels)

    def epoch(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all examples once, in random order, in batches of one size."""
        order = torch.randperm(len(self), generator=generator, device=generator.device)
        for i in range(self.batches):
            chosen = order[i * self.batch : (i + 1) * self.batch]
            x, y = self._change(self._take(chosen), generator), self._labels[chosen]
            if self._rotate:
                turn = 1 + i % (_TURNS - 1)
                x = torch.cat([x, torch.rot90(x, turn, (2, 3))])
                y = torch.cat([y * _TURNS, y * _TURNS + turn])
            yield _channels_last(x), y

    def plain(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield random examples without augmentation, to set the statistics of batch norms."""
        order = torch.randperm(len(self), generator=generator, device=generator.device)
        for chosen in torch.split(order[:_REFRESH], _REFRESH_BATCH):
            yield _channels_last(self._take(chosen))

    def _take(self, positions: Tensor) -> Tensor:
        """Return examples; images as floats with channels first, of 0 to 1 if they were uint8."""
        x = take(self.sampler.data, positions, self.device)
        if self._pixels is None:
            return x
        unit = 255 if x.dtype == torch.uint8 else 1
        return self._pixels.channels_first(x).to(torch.get_default_dtype()) / unit

    def _change(self, x: Tensor, generator: torch.Generator) -> Tensor:
        recipe = self.recipe
        if self._pixels is None:
            return x
        if recipe.crop < 1 or recipe.flip:
            x = crop_and_flip(x, generator, crop=recipe.crop, flip=recipe.flip)
        if recipe.colour > 0 and self._bytes:
            x = change_colours(x, generator, strength=recipe.colour)
        return x


def learner_backbone(learner: ProtoNet) -> nn.Module:
    """Return the network of a learner without its sphere."""
    return learner.module.backbone if isinstance(learner.module, Sphere) else learner.module


def _channels_last(x: Tensor) -> Tensor:
    if x.device.type == "cuda" and x.ndim == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x


_AVERAGE_EVERY = 10  # steps of tuning
_SCALE_LR = 0.01


class Stage:
    """A stage of training, with its optimiser and its averaged weights."""

    lr_name: str  # the field of `Recipe` that sets the learning rate

    def __init__(
        self,
        learner: ProtoNet,
        parameters: Iterable[Any],
        lr: float,
        weight_decay: float,
        *,
        nesterov: bool,
    ) -> None:
        self.learner = learner
        self.optimiser = torch.optim.SGD(
            parameters, lr, momentum=0.9, nesterov=nesterov, weight_decay=weight_decay
        )
        self.average = AveragedModel(learner.module)

    @property
    def lr(self) -> float:
        """Learning rate of the last step."""
        return float(self.optimiser.param_groups[0]["lr"])

    def train_epoch(self, epoch: int, seed: int) -> float:
        """Train one epoch."""
        raise NotImplementedError

    def _step(self, loss: Tensor, lr: float) -> Tensor:
        """Take one step of the optimiser, and return the loss without its graph."""
        self.optimiser.param_groups[0]["lr"] = lr  # that of the scale stays
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()


class Pretraining(Stage):
    """The backbone and a linear layer learn to tell all training classes apart."""

    lr_name = "lr"

    def __init__(
        self, learner: ProtoNet, images: Images, *, seed: int, compile: bool | None
    ) -> None:
        self.images, self.recipe, device = images, images.recipe, images.device
        with seeded_torch(seed, device):
            self.classifier = BackboneClassifier(learner_backbone(learner), images.outputs, device)
        if compile or (compile is None and device.type == "cuda"):
            self.classifier.compile(dynamic=False)
        super().__init__(
            learner,
            self.classifier.parameters(),
            self.recipe.lr,
            self.recipe.weight_decay,
            nesterov=True,
        )

    def train_epoch(self, epoch: int, seed: int) -> float:
        recipe, images, device = self.recipe, self.images, self.images.device
        generator = torch.Generator(device).manual_seed(seed)
        first = (epoch - 1) * images.batches
        total = torch.zeros((), device=device)
        self.learner.module.train()
        for i, (x, y) in enumerate(images.epoch(generator)):
            with mixed_precision(device):
                logits = self.classifier(x)
            lr = recipe.learning_rate(first + i, recipe.epochs * images.batches)
            total += self._step(cross_entropy(logits.float(), y), lr)
        if epoch == recipe.epochs or epoch > recipe.epochs * (1 - recipe.averaged):
            self.average.update_parameters(self.learner.module)
        return float(total) / images.batches


class Tuning(Stage):
    """The network and its scale are trained on episodes; an epoch has up to 100 steps."""

    lr_name = "tuning_lr"

    def __init__(self, learner: ProtoNet, sampler: EpisodeSampler, recipe: Recipe) -> None:
        sphere = cast(Sphere, learner.module)
        groups = [
            {"params": list(sphere.backbone.parameters())},
            {"params": [sphere.log_temperature], "lr": _SCALE_LR, "weight_decay": 0},
        ]
        super().__init__(learner, groups, recipe.tuning_lr, recipe.weight_decay, nesterov=False)
        self.sampler, self.recipe = sampler, recipe
        self.loss = EpisodeLoss(learner, sampler.classes, None)

    def train_epoch(self, epoch: int, seed: int) -> float:
        recipe, per_step = self.recipe, self.recipe.episodes_per_step
        first = (epoch - recipe.epochs - 1) * STEPS_PER_EPOCH
        steps = range(first, min(first + STEPS_PER_EPOCH, recipe.tuning_steps))
        drawn = self.sampler.draw(len(steps) * per_step, seed)
        total = torch.zeros((), device=self.sampler.device)
        self.learner.module.train()
        for i, step in enumerate(steps):
            episodes = self.sampler.gather(drawn.part(i * per_step, (i + 1) * per_step))
            total += self._step(self.loss(*episodes[:4]), recipe.tuning_rate(step))
            late = 2 * step >= recipe.tuning_steps
            if (late and step % _AVERAGE_EVERY == 0) or step + 1 == recipe.tuning_steps:
                self.average.update_parameters(self.learner.module)
        return float(total) / len(steps)


class BackboneClassifier(nn.Module):
    """A backbone with one output for each training class."""

    def __init__(self, backbone: nn.Module, outputs: int, device: torch.device) -> None:
        super().__init__()
        self.backbone = backbone
        features = cast(int, backbone.features)
        self.head = nn.Linear(features, outputs, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the classes."""
        logits: Tensor = self.head(self.backbone(x))
        return logits


_VALIDATION_BATCH = 8  # episodes


@dataclass(frozen=True)
class StrongConfig:
    """Everything that determines the course of a run, except the learner."""

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
        """Return the configuration as checkpoints record it, with the fields of the recipe."""
        fields = asdict(self)
        return {**fields.pop("recipe"), **fields}

    def seed(self, *key: int) -> int:
        """Return a seed that is derived from that of the run."""
        sequence = np.random.SeedSequence(self.rng, spawn_key=key)
        return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


class StrongTrainer:
    """A ProtoNet under the strong recipe, in its current stage."""

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
        """Resume from the checkpoint in a folder, if there is one."""
        stored = None if folder is None else read_checkpoint(folder)
        if folder is None or stored is None:
            return History()
        config = self.config.as_dict()
        check_same_run(folder, stored, self.learner, config, self.config.epochs)
        if len(stored.history) > self.config.recipe.epochs:
            self.stage = Tuning(self.learner, self.sampler, self.config.recipe)
        path, kind = checkpoint_file(folder), CHECKPOINT
        check_tensors(path, kind, stored.weights, self._weights())
        check_tensors(path, kind, stored.best, self.stage.average.state_dict())
        self.learner.module.load_state_dict(_part("module", stored.weights))
        self.head.load_state_dict(_part("head", stored.weights))
        self.stage.average.load_state_dict(dict(stored.best))
        set_optimiser_state(self.stage.optimiser, stored.optimiser)
        if len(stored.history) == self.config.epochs:  # earlier versions stored other weights
            self.take_average(self.config.epochs)
        return History(tuple(Epoch(**epoch) for epoch in stored.history))

    def train_epoch(self, history: History) -> History:
        """Train one more epoch; the first one after pre-training begins the second stage.

        The last one ends with the averaged weights, and its accuracy is theirs.
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
        """Give the learner the averaged weights, and its batch norms the statistics of those."""
        module = self.learner.module
        module.load_state_dict(self.stage.average.module.state_dict())
        generator = torch.Generator(self.device).manual_seed(self.config.seed(number, 2))
        with seeded_torch(self.config.seed(number, 3), self.device), mixed_precision(self.device):
            update_bn(self.images.plain(generator), module)

    def save(self, folder: PathLike | None, history: History) -> None:
        """Write a checkpoint."""
        if folder is not None:
            write_checkpoint(
                folder,
                Checkpoint(
                    architecture=describe_architecture(self.learner),
                    config=self.config.as_dict(),
                    history=[asdict(epoch) for epoch in history.epochs],
                    weights=self._weights(),
                    best=self.stage.average.state_dict(),
                    optimiser=get_optimiser_state(self.stage.optimiser),
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
    as further classes. Tuning starts from averaged weights and trains the network together with the
    scale of its vectors; the weights of its last half are averaged. No epoch is selected, so the
    validation classes only measure progress.

    Parameters
    ----------
    learner : ProtoNet
        Learner to train, on a `Sphere`, whose scale is learned.
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
        All epochs: those of pre-training, then those of tuning, of up to 100 steps each. The
        accuracy of the last one is that of the averaged weights, which the learner ends with.

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
    >>> from metapac.fewshot import MLP, ProtoNet, Sphere, train_strong
    >>> from metapac.fewshot.training.strong import Recipe
    >>> from metapac.fewshot import split_classes
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
    config = StrongConfig(
        recipe=recipe or recipe_for(learner_backbone(learner)),
        ways=ways,
        shots=shots,
        queries=queries,
        validation_tasks=validation_tasks,
        train_pool=fingerprint(train_pool),
        validation_pool=fingerprint(validation_pool),
        rng=as_integer_seed(rng),
    )
    where, ranks = choose_device(device), Ranks()
    with training_context(learner.module, where, ranks), lock_run(checkpoint, ranks):
        trainer = StrongTrainer(learner, train_pool, validation_pool, config, where, compile)
        history, saved = trainer.start(checkpoint), time.monotonic()
        while len(history.epochs) < config.epochs:
            with explain_failures(learner, trainer.sampler):
                history = trainer.train_epoch(history)
            if time.monotonic() - saved > _SAVE_SECONDS or len(history.epochs) == config.epochs:
                trainer.save(checkpoint, history)
                saved = time.monotonic()
            if on_epoch is not None:
                on_epoch(history.epochs[-1])
    return history


def _check_learner(learner: object, pool: object) -> None:
    if not isinstance(learner, ProtoNet) or not isinstance(learner.module, Sphere):
        raise InvalidInput(
            "learner must be a ProtoNet on a Sphere, whose scale the strong recipe learns, "
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

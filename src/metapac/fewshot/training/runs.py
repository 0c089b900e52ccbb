"""A run from data to weights: pools, learner, recipe, accuracy, and the record of it all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _common, artefact
from metapac._common import Array, PathLike, Progress, as_whole_number, check_one_of
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.datasets.pools import FILE, RUN, LoadedPools, check_same_data, load_pools
from metapac.fewshot.learners.maml import MAML
from metapac.fewshot.learners.networks import IMAGENET_MEAN, IMAGENET_STD, Sphere, build_backbone
from metapac.fewshot.learners.protonet import ProtoNet
from metapac.fewshot.options import PoolSizes, Training, as_pools, reject_given
from metapac.fewshot.pools import ClassPool, Pools
from metapac.fewshot.scoring import Accuracy, accuracy
from metapac.fewshot.tasks import count_noun
from metapac.fewshot.training import checkpoints
from metapac.fewshot.training.loop import History, recipe_for, train, train_strong

QUERIES = 5  # per class, of a training task
_PAPER = {"epochs": 20, "episodes": 400, "batch": 8, "lr": 1e-3, "halve_every": 40}
_STRONG_ONLY = ("tuning_steps", "flip")
_PAPER_ONLY = ("episodes", "batch", "halve_every", "patience", "class_weights")


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: its accuracy on new tasks, and its course."""

    weights: Path
    ways: int
    accuracy: Accuracy
    history: History
    training: Training
    pools: Pools[Any]

    def __str__(self) -> str:
        test, reached, epochs = self.pools.test, self.accuracy, len(self.history.epochs)
        unseen = count_noun(test.names, test.unit)
        if set(test.names) & set(self.pools.train.names):  # tasks differ by their transformation
            unseen = f"{len(test.y)} examples"
        is_best = self.training.recipe == "paper"
        shown = self.history.best if is_best else self.history.epochs[-1]
        epoch = f"{'Best' if is_best else 'Last'} of {epochs} epochs: {shown.epoch}"
        epoch = "After 1 epoch" if epochs == 1 else epoch
        return (
            f"Accuracy {reached.value:.1%} ({reached.low:.1%} to {reached.high:.1%}) on "
            f"{self.training.tasks} tasks drawn from {unseen} not used in training.\n"
            f"{epoch}, with {shown.accuracy:.1%} on validation tasks."
        )


def train_run(
    data: str,
    folder: Path,
    training: Training = Training(),
    *,
    pools: str | PoolSizes | Sequence[int] | None = None,
    image_size: int | None = None,
    ways: int | None = None,
    shots: int = 5,
    queries: int = QUERIES,
    device: str | None = None,
    rng: int = 0,
    home: PathLike | None = None,
    progress: Progress = _common.ignore_progress,
) -> TrainedRun | None:
    """Meta-train a learner, and write weights and record; None in all but the first process."""
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    sizes = as_pools(pools, data, needed=("train", "validation", "test"))
    shape = {"ways": 5 if ways is None else ways, "shots": shots, "queries": queries}
    for name, value in shape.items():
        as_whole_number(name, value)
    if image_size is not None:
        as_whole_number("image_size", image_size, minimum=16)
    loaded, notes = load_training_pools(
        data, **shape, sizes=sizes, rng=rng, home=home, image_size=image_size, progress=progress
    )
    for note in notes if is_first else ():
        _common.warn(note)
    _check_same_data(folder, data, loaded)
    if ways is None and getattr(loaded.pools.train, "transform", None):
        shape["ways"] = len(loaded.pools.train.names)  # tasks differ by their transformation
    model, history, settings = fit_learner(
        loaded, training, shape, device=device, checkpoint=folder, rng=rng, progress=progress
    )
    if not is_first:
        return None
    progress("measuring the accuracy", 0, None)
    reached = accuracy(model, loaded.pools.test, **shape, tasks=training.tasks, rng=rng)
    weights = folder / "model.safetensors"
    checkpoints.save_weights(model, weights)
    options = {**shape, "rng": rng, "pools": sizes, "tasks": training.tasks, **settings}
    options |= {"image_size": loaded.image_size} if loaded.image_size else {}
    named = {name: pool for name, pool in vars(loaded.pools).items() if pool is not None}
    record = {
        "data": data,
        "data_checksum": loaded.checksum,
        "weights_checksum": checkpoints.weights_checksum(model),
        "options": options,
        "architecture": checkpoints.describe_architecture(model),
        "accuracy": reached.value,
        "accuracy_interval": [reached.low, reached.high],
        "pools": {name: list(pool.names) for name, pool in named.items()},
        "left_out": list(loaded.left_out),
        "classes": getattr(loaded.pools.train, "classes", None),
        "history": [asdict(epoch) for epoch in history.epochs],
    }
    artefact.write(folder / FILE, record, RUN)
    return TrainedRun(weights, shape["ways"], reached, history, training, loaded.pools)


def load_training_pools(
    data: str, *, shots: int, queries: int, **options: Any
) -> tuple[LoadedPools, tuple[str, ...]]:
    """Return pools without the classes or groups that are too small for a task of training."""
    # The surveys of heart are divided by year; its state-years have thousands of respondents.
    minimum = None if data == "heart" else shots + queries
    loaded = load_pools(data, min_size=minimum, **options)
    if not loaded.left_out:
        return loaded, ()
    found = [f"{name!r} with {size}" for name, size in loaded.left_out.items()]
    left_out = f"left out {count_noun(found, loaded.pools.train.unit)} with fewer than {minimum}"
    sizes = f"the {shots} shots + {queries} queries of a training task"
    return loaded, (f"{left_out} examples, {sizes}: {_common.listed(found)}.",)


def _check_same_data(folder: Path, data: str, loaded: LoadedPools) -> None:
    """Raise if a finished run in this folder was trained on other data."""
    if not (folder / FILE).exists():
        return
    record = artefact.read(folder / FILE, RUN)
    size = record["options"].get("image_size")
    if size and size != (loaded.image_size or size):
        raise InvalidInput(f"image_size must be {size}, as in {folder}.", parameter="image_size")
    check_same_data(folder, data, record["data_checksum"], loaded.checksum)


def fit_learner(
    loaded: LoadedPools, training: Training, shape: Mapping[str, int], **options: Any
) -> tuple[Any, History, dict[str, Any]]:
    """Build a learner and train it by a recipe; return it, its course and its settings."""
    model = build_learner(loaded, training, shape["ways"], options["rng"])
    if training.recipe == "paper":
        reject_given(training, "recipe='paper'", _STRONG_ONLY)
        given = {name: getattr(training, name) for name in _PAPER}
        settings = _PAPER | {name: value for name, value in given.items() if value is not None}
        names = {"episodes": "episodes_per_epoch", "batch": "episodes_per_step"}
        options |= {names.get(name) or name: value for name, value in settings.items()}
        options |= {"patience": training.patience, "class_weights": training.class_weights}
    else:
        reject_given(training, "recipe='strong'", _PAPER_ONLY)
        changes = {name: getattr(training, name) for name in ("epochs", "lr", *_STRONG_ONLY)}
        options["recipe"] = recipe_for(model.module.backbone, **changes)
        settings = {"recipe": "strong", **asdict(options["recipe"])}
    fit: Any = train if training.recipe == "paper" else train_strong
    pools = loaded.pools.train, loaded.pools.validation
    options |= {**shape, "validation_tasks": training.tasks}
    return model, fit(model, *pools, **options), settings


def build_learner(loaded: LoadedPools, training: Training, ways: int, rng: int) -> Any:
    name, is_strong = training.learner or "protonet", training.recipe == "strong"
    check_one_of("learner", name, ("protonet", "maml"))
    pool = loaded.pools.train
    network = _build_backbone(training.backbone, pool.x, loaded, rng)
    if name == "protonet":
        return ProtoNet(Sphere(network) if is_strong else network)
    if is_strong:
        raise InvalidInput(f"recipe='strong' trains a protonet, got {keyword('learner', name)}.")
    return MAML(network, ways if isinstance(pool, ClassPool) else pool.classes)


def _build_backbone(name: str | None, x: Array, loaded: LoadedPools, rng: int) -> Any:
    if loaded.words is not None:
        check_one_of("backbone", name or "sentence_cnn", ("sentence_cnn",))
        return build_backbone("sentence_cnn", words=loaded.words, rng=rng)
    name = name or ("mlp" if x.ndim == 2 else "conv4")
    check_one_of("backbone", name, ("conv4", "resnet12", "resnet50", "mlp"))
    if name == "mlp":
        return build_backbone("mlp", inputs=int(np.prod(x.shape[1:])), rng=rng)
    if x.ndim not in (3, 4):
        rule = f"{keyword('backbone', name)} takes images, x of 3 or 4 dimensions"
        raise InvalidInput(f"{rule}, got shape {x.shape}. Pass backbone='mlp'.")
    return build_backbone(name, **_image_options(name, x, loaded.is_imagenet), rng=rng)


def _image_options(name: str, x: Array, imagenet: bool) -> dict[str, Any]:
    """Return the shape of images, and the mean and standard deviation of their channels."""
    sample = x[:: max(1, len(x) // 1000)] / (255 if x.dtype == np.uint8 else 1)
    images = sample[..., None] if x.ndim == 3 else sample
    if x.ndim == 4 and x.shape[3] not in (1, 3):
        images = np.moveaxis(images, 1, 3)  # (n, h, w, channels)
    options = {"channels": images.shape[3]} | ({"size": images.shape[1]} if name == "conv4" else {})
    if imagenet:
        return options | {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    mean, std = images.mean((0, 1, 2)), images.std((0, 1, 2))
    return options | {"mean": mean.tolist(), "std": np.where(std > 0, std, 1.0).tolist()}

"""A run from data to weights: pools, learner, recipe, accuracy, and the record of it all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metapac import artefact
from metapac._common import (
    Array,
    PathLike,
    Progress,
    as_whole_number,
    check_one_of,
    ignore_progress,
    listed,
    warn,
)
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.datasets.pools import FILE, RUN, LoadedPools, check_same_data, load_pools
from metapac.fewshot.drawing import count_noun
from metapac.fewshot.learners.accuracy import Accuracy, accuracy
from metapac.fewshot.learners.maml import MAML
from metapac.fewshot.learners.networks import IMAGENET_MEAN, IMAGENET_STD, Sphere, build_backbone
from metapac.fewshot.learners.protonet import ProtoNet
from metapac.fewshot.options import Training, reject_given
from metapac.fewshot.pools import ClassPool, Pools
from metapac.fewshot.training.checkpoints import (
    describe_architecture,
    read_checkpoint,
    save_weights,
    weights_checksum,
)
from metapac.fewshot.training.episodes import fingerprint
from metapac.fewshot.training.history import Epoch, History
from metapac.fewshot.training.loop import train
from metapac.fewshot.training.strong import recipe_for, train_strong

QUERIES = 5  # per class, of a training task
_POOLS = ("train", "validation", "calibration", "test")
_FIXED = ("miniimagenet", "cifar10c", "fewrel")  # data sets whose publishers divided them
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
        unseen = count_noun(test.names, test.unit, "es" if test.unit == "class" else "s")
        if set(test.names) & set(self.pools.train.names):  # tasks differ by their transformation
            unseen = f"{len(test.y)} examples"
        is_best = self.training.recipe == "paper"
        shown = self.history.best if is_best else self.history.epochs[-1]
        epoch = f"{'Best' if is_best else 'Last'} of {epochs} epochs: {shown.epoch}"
        return (
            f"Accuracy {reached.value:.1%} ({reached.low:.1%} to {reached.high:.1%}) on "
            f"{self.training.tasks} tasks drawn from {unseen} not used in training.\n"
            f"{'After 1 epoch' if epochs == 1 else epoch}, with {shown.accuracy:.1%} on validation "
            "tasks."
        )


def train_run(
    data: str,
    folder: Path,
    training: Training = Training(),
    *,
    pools: Sequence[int] | None = None,
    image_size: int | None = None,
    ways: int | None = None,
    shots: int = 5,
    queries: int = QUERIES,
    device: str | None = None,
    rng: int = 0,
    home: PathLike | None = None,
    progress: Progress = ignore_progress,
) -> TrainedRun | None:
    """Meta-train a learner, and write weights and record; None in all but the first process.

    An interrupted run resumes when it is started again with the same arguments.
    """
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    sizes = _as_sizes(pools, data)
    if image_size is not None:
        as_whole_number("image_size", image_size, minimum=16)
    shape = {"ways": 5 if ways is None else ways, "shots": shots, "queries": queries}
    for name, value in shape.items():
        as_whole_number(name, value)
    loaded, notes = load_training_pools(
        data, **shape, sizes=sizes, rng=rng, home=home, image_size=image_size, progress=progress
    )
    for note in notes if is_first else ():
        warn(note)
    _check_same_run(folder, data, loaded, {"rng": rng, "shots": shots, "queries": queries})
    if ways is None and getattr(loaded.pools.train, "transform", None):
        shape["ways"] = len(loaded.pools.train.names)  # tasks differ by their transformation
    model, history, settings = fit_learner(
        loaded, training, shape, device=device, checkpoint=folder, rng=rng, progress=progress
    )
    if not is_first:
        return None
    progress("measuring the accuracy", 0, None)
    reached = accuracy(model, loaded.pools.test, **shape, tasks=training.tasks, rng=rng)
    save_weights(model, folder / "model.safetensors")
    options = {**shape, "rng": rng, "pools": sizes, "tasks": training.tasks, **settings}
    options |= {"image_size": loaded.image_size} if loaded.image_size else {}
    named = {name: pool for name, pool in vars(loaded.pools).items() if pool is not None}
    record = {
        "data": data,
        "data_checksum": loaded.checksum,
        "weights_checksum": weights_checksum(model),
        "options": options,
        "architecture": describe_architecture(model),
        "accuracy": reached.value,
        "accuracy_interval": [reached.low, reached.high],
        "pools": {name: list(pool.names) for name, pool in named.items()},
        "left_out": list(loaded.left_out),
        "classes": getattr(loaded.pools.train, "classes", None),
        "history": [asdict(epoch) for epoch in history.epochs],
    }
    artefact.write(folder / FILE, record, RUN)
    weights = folder / "model.safetensors"
    return TrainedRun(weights, shape["ways"], reached, history, training, loaded.pools)


def _as_sizes(pools: Sequence[int] | None, data: str) -> dict[str, int] | None:
    """Return the number of classes or groups of each pool; None for the default."""
    if pools is None:
        return None
    if data in _FIXED:
        raise InvalidInput(
            f"pools is not for {data}, whose publishers divided its classes.", parameter="pools"
        )
    least = (1, 1, 0, 1)
    if len(pools) != len(_POOLS) or any(n < m for n, m in zip(pools, least, strict=True)):
        raise InvalidInput(
            "pools must be four whole numbers, of classes for training, validation, calibration "
            "and test, such as 60,10,15,15; only calibration may be 0. Got "
            f"{','.join(map(str, pools))}.",
            parameter="pools",
        )
    return dict(zip(_POOLS, pools, strict=True))


def load_training_pools(
    data: str, *, shots: int, queries: int, **options: Any
) -> tuple[LoadedPools, tuple[str, ...]]:
    """Return pools whose classes or groups are all large enough for a task of training.

    Smaller ones are left out of all pools. They would otherwise be noticed after training, when
    calibration tasks are drawn.
    """
    # The surveys of heart are divided by year; its state-years have thousands of respondents.
    minimum = None if data == "heart" else shots + queries
    loaded = load_pools(data, min_size=minimum, **options)
    if not loaded.left_out:
        return loaded, ()
    noun = ("class", "es") if loaded.pools.train.unit == "class" else ("group", "s")
    found = [f"{name!r} with {size}" for name, size in loaded.left_out.items()]
    note = (
        f"left out {count_noun(found, *noun)} with fewer than {minimum} examples, the {shots} "
        f"shots + {queries} queries of a training task: {listed(found)}."
    )
    return loaded, (note,)


def _check_same_run(
    folder: Path, data: str, loaded: LoadedPools, options: Mapping[str, int]
) -> None:
    """Raise InvalidInput if a run in this folder was trained on other data.

    The backbone of images is built from their mean, so without this check a user whose data
    changed would be told that the learner did.
    """
    if (folder / FILE).exists():
        record = artefact.read(folder / FILE, RUN)
        size = record["options"].get("image_size", loaded.image_size)
        _check_same_option(folder, "image_size", size, loaded.image_size or size)
        check_same_data(folder, data, record["data_checksum"], loaded.checksum)
    config = getattr(read_checkpoint(folder), "config", {})
    for name, value in options.items():
        _check_same_option(folder, name, config.get(name, value), value)
    if config and config["train_pool"] != fingerprint(loaded.pools.train):
        raise InvalidInput(
            f"the data changed: the training examples of {data} are not those that {folder} was "
            "trained on. Restore the data and how they are divided, or choose another folder."
        )


def _check_same_option(folder: Path, name: str, before: int | None, now: int | None) -> None:
    if before != now:
        raise InvalidInput(
            f"{folder} was made with {keyword(name, before)}, and this call has "
            f"{keyword(name, now)}. A run can only be resumed with the arguments it was started "
            "with: pass those, or choose another folder."
        )


def fit_learner(
    loaded: LoadedPools,
    training: Training,
    shape: Mapping[str, int],
    *,
    rng: int,
    progress: Progress,
    **options: Any,
) -> tuple[Any, History, dict[str, Any]]:
    """Build a learner and train it by a recipe; return it, its course and its settings."""
    model = build_learner(loaded, training, shape["ways"], rng)
    if training.recipe == "paper":
        settings, run, stages = _choose_paper(training)
        used: Any = train
    else:
        settings, run, stages = _choose_strong(training, model)
        used = train_strong

    def on_epoch(epoch: Epoch) -> None:
        number, stage = epoch.epoch, next(iter(stages))
        for following in list(stages)[1:]:
            if number > stages[stage]:
                number, stage = number - stages[stage], following
        figures = f"loss {epoch.loss:.3f}, validation accuracy {epoch.accuracy:.1%}"
        progress(f"{stage}, {figures}", number, stages[stage])

    pools = loaded.pools.train, loaded.pools.validation
    run |= {"validation_tasks": training.tasks, "rng": rng, "on_epoch": on_epoch}
    return model, used(model, *pools, **shape, **run, **options), settings


_Recipe = tuple[dict[str, Any], dict[str, Any], dict[str, int]]


def _choose_paper(training: Training) -> _Recipe:
    """Return what is recorded, the arguments of `train`, and the epochs of its only stage."""
    reject_given(training, "recipe='paper'", _STRONG_ONLY)
    given = {name: getattr(training, name) for name in _PAPER}
    used = _PAPER | {name: value for name, value in given.items() if value is not None}
    run = {name: used[name] for name in ("epochs", "lr", "halve_every")} | {
        "episodes_per_epoch": used["episodes"],
        "episodes_per_step": used["batch"],
        "patience": training.patience,
        "class_weights": training.class_weights,
    }
    return used, run, {"training": run["epochs"]}


def _choose_strong(training: Training, model: Any) -> _Recipe:
    """Return what is recorded, the arguments of `train_strong`, and the epochs of its stages."""
    reject_given(training, "recipe='strong'", _PAPER_ONLY)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidInput("recipe='strong' runs in one process. Start it without torchrun.")
    changes = {name: getattr(training, name) for name in ("epochs", "lr", *_STRONG_ONLY)}
    recipe = recipe_for(model.module.backbone, **changes)
    stages = {"pre-training": recipe.epochs, "tuning": recipe.tuning_epochs}
    return {"recipe": "strong", **asdict(recipe)}, {"recipe": recipe}, stages


def build_learner(loaded: LoadedPools, training: Training, ways: int, rng: int) -> Any:
    """Return an untrained learner."""
    name, is_strong = training.learner or "protonet", training.recipe == "strong"
    check_one_of("learner", name, ("protonet", "maml"))
    pool = loaded.pools.train
    network = _build_backbone(training.backbone, pool.x, loaded, rng)
    if name == "protonet":
        return ProtoNet(Sphere(network) if is_strong else network)
    if is_strong:
        raise InvalidInput(
            f"recipe='strong' trains a protonet, got {keyword('learner', name)}. Leave one of them "
            "out."
        )
    return MAML(network, ways if isinstance(pool, ClassPool) else pool.classes)


def _build_backbone(name: str | None, x: Array, loaded: LoadedPools, rng: int) -> Any:
    """Return a backbone for examples like ``x``."""
    if loaded.words is not None:
        check_one_of("backbone", name or "sentence_cnn", ("sentence_cnn",))
        return build_backbone("sentence_cnn", words=loaded.words, rng=rng)
    name = name or ("mlp" if x.ndim == 2 else "conv4")
    check_one_of("backbone", name, ("conv4", "resnet12", "resnet50", "mlp"))
    if name == "mlp":
        return build_backbone("mlp", inputs=int(np.prod(x.shape[1:])), rng=rng)
    if x.ndim not in (3, 4):
        raise InvalidInput(
            f"{keyword('backbone', name)} takes images, x of 3 or 4 dimensions, got shape "
            f"{x.shape}. Pass backbone='mlp'."
        )
    return build_backbone(name, **_image_options(name, x, loaded.is_imagenet), rng=rng)


def _image_options(name: str, x: Array, imagenet: bool) -> dict[str, Any]:
    """Return the shape of images, and the mean and standard deviation of their channels."""
    sample = x[:: max(1, len(x) // 1000)] / (255 if x.dtype == np.uint8 else 1)
    images = sample[..., None] if x.ndim == 3 else sample
    if x.ndim == 4 and x.shape[3] not in (1, 3):
        images = np.moveaxis(images, 1, 3)  # (n, h, w, channels)
    size = {"size": images.shape[1]} if name == "conv4" else {}
    options = {"channels": images.shape[3], **size}
    if imagenet:
        return options | {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    mean, std = images.mean((0, 1, 2)), images.std((0, 1, 2))
    return options | {"mean": mean.tolist(), "std": np.where(std > 0, std, 1.0).tolist()}

"""Options of training, and learners built from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from metapac._common import Array, check_one_of, listed
from metapac.cli.console import format_count
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.datasets.pools import LoadedPools, load_pools
from metapac.fewshot.pools import ClassPool, GroupPool, data_checksum

if TYPE_CHECKING:
    from metapac.fewshot.training.history import History


def build_learner(
    name: str,
    backbone: str | None,
    loaded: LoadedPools,
    ways: int,
    rng: int,
    *,
    recipe: str = "paper",
) -> Any:
    """Return an untrained learner."""
    from metapac.fewshot.learners.maml import MAML
    from metapac.fewshot.learners.networks import Sphere
    from metapac.fewshot.learners.protonet import ProtoNet

    check_one_of("learner", name, ("protonet", "maml"))
    pool: ClassPool | GroupPool = loaded.pools.train
    network = _build_backbone(backbone, pool.x, loaded, rng)
    if name == "protonet":
        return ProtoNet(Sphere(network) if recipe == "strong" else network)
    if recipe == "strong":
        raise InvalidInput(
            f"recipe='strong' trains a protonet, got {keyword('learner', name)}. Leave one of them "
            "out."
        )
    return MAML(network, ways if isinstance(pool, ClassPool) else pool.classes)


def weights_checksum(learner: Any) -> str:
    """Return the SHA-256 of the weights of a learner, whatever file they are stored in."""
    state = dict(sorted(learner.module.state_dict().items()))
    arrays = [tensor.detach().cpu().numpy() for tensor in state.values()]
    return data_checksum(np.array([*state], dtype=str), *arrays)


def _build_backbone(name: str | None, x: Array, loaded: LoadedPools, rng: int) -> Any:
    """Return a backbone for examples like ``x``."""
    from metapac.fewshot.learners.networks import build_backbone

    if loaded.words is not None:
        check_one_of("backbone", name or "sentence_cnn", ("sentence_cnn",))
        return build_backbone("sentence_cnn", words=loaded.words, rng=rng)
    name = name or ("mlp" if x.ndim == 2 else "conv4")
    check_one_of("backbone", name, ("conv4", "resnet12", "resnet50", "mlp"))
    if name == "mlp":
        return build_backbone("mlp", inputs=int(np.prod(x.shape[1:])), rng=rng)
    if x.ndim not in (3, 4):
        raise InvalidInput(
            f"--backbone {name} takes images, x of 3 or 4 dimensions, got shape {x.shape}. "
            "Pass --backbone mlp."
        )
    return build_backbone(name, **_image_options(name, x, loaded.is_imagenet), rng=rng)


def _image_options(name: str, x: Array, imagenet: bool) -> dict[str, Any]:
    """Return the shape of images, and the mean and standard deviation of their channels."""
    from metapac.fewshot.learners.networks import IMAGENET_MEAN, IMAGENET_STD

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


PAPER: dict[str, Any] = {
    "epochs": 20,
    "episodes_per_epoch": 400,
    "episodes_per_step": 8,
    "lr": 1e-3,
    "halve_every": 40,
}
_STRONG_ONLY = ("tuning_steps", "flip")
_PAPER_ONLY = (
    "episodes_per_epoch",
    "episodes_per_step",
    "halve_every",
    "patience",
    "class_weights",
)
_episode_option = partial(typer.Option, rich_help_panel="Episodes")
_training_option = partial(typer.Option, rich_help_panel="Training")


@dataclass(frozen=True)
class EpisodeOptions:
    """The tasks that the learner is trained on."""

    ways: Annotated[
        int | None,
        _episode_option(
            min=1,
            help="Classes per task; not used if the data have groups. By default 5, or 10 for "
            "cifar10c.",
        ),
    ] = None
    shots: Annotated[
        int,
        _episode_option(
            min=1, help="Support examples per class (or per group), to which the learner adapts."
        ),
    ] = 5
    queries: Annotated[
        int,
        _episode_option(
            min=1, help="Query examples per class (or per group), on which it is scored."
        ),
    ] = 5


@dataclass(frozen=True)
class TrainingOptions:
    """How long and how fast the learner is trained."""

    recipe: Annotated[
        str,
        _training_option(
            metavar="paper|strong",
            help="paper: train on episodes and keep the best epoch. strong: pre-train on all "
            "training classes, then tune on episodes; for a protonet on images.",
        ),
    ] = "paper"
    epochs: Annotated[
        int | None,
        _training_option(
            min=1,
            help="Number of epochs, by default 20; a larger value extends a finished run. With "
            "strong: epochs of pre-training, by default 60 for conv4 and 44 otherwise.",
        ),
    ] = None
    lr: Annotated[
        float | None,
        _training_option(
            help="Initial learning rate, by default 0.001 (Adam), or 0.1 with strong (SGD)."
        ),
    ] = None
    tuning_steps: Annotated[
        int | None,
        _training_option(
            min=0,
            help="Optimiser steps of tuning (strong), by default 3000 for conv4 and 400 otherwise.",
        ),
    ] = None
    flip: Annotated[
        bool | None,
        _training_option(
            "--flip/--no-flip",
            help="Augment by mirrored images (strong). Pass --no-flip for letters and digits.",
        ),
    ] = None
    validation_tasks: Annotated[
        int, _training_option("--tasks", min=1, help="Number of validation and of test tasks.")
    ] = 400
    episodes_per_epoch: Annotated[
        int | None,
        _training_option(
            "--episodes", min=1, help="Training tasks per epoch (paper), by default 400."
        ),
    ] = None
    episodes_per_step: Annotated[
        int | None,
        _training_option(
            "--batch", min=1, help="Training tasks per optimiser step (paper), by default 8."
        ),
    ] = None
    halve_every: Annotated[
        int | None,
        _training_option(
            min=1,
            help="Halve the learning rate after this many epochs (paper), by default 40.",
        ),
    ] = None
    patience: Annotated[
        int | None,
        _training_option(min=1, help="Stop after this many epochs without improvement (paper)."),
    ] = None
    class_weights: Annotated[
        str | None,
        _training_option(
            metavar="NUMBERS",
            help="Weight of each label in the loss, separated by commas, such as 1,10 (paper).",
        ),
    ] = None

    def for_paper(self) -> dict[str, Any]:
        """Return the options as `train` takes them."""
        self._refuse(_STRONG_ONLY, "strong")
        given = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("recipe", *_STRONG_ONLY) and value is not None
        }
        return PAPER | given | {"class_weights": _parse_numbers(self.class_weights)}

    def for_strong(self) -> dict[str, Any]:
        """Return the changes to the recipe that suits the backbone."""
        self._refuse(_PAPER_ONLY, "paper")
        return {name: getattr(self, name) for name in ("epochs", "lr", *_STRONG_ONLY)}

    def _refuse(self, names: tuple[str, ...], recipe: str) -> None:
        """Raise if an option was given that only the other recipe uses."""
        for name in names:
            if getattr(self, name) is not None:
                raise InvalidInput(
                    f"{name} is used by {keyword('recipe', recipe)} only. Leave it out.",
                    parameter=name,
                )


def _parse_numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"class_weights must be numbers separated by commas, such as 1,10, got {text!r}.",
            parameter="class_weights",
        ) from None


@dataclass(frozen=True)
class Fit:
    """A recipe with its settings."""

    run: Callable[..., History]
    stages: dict[str, int]
    options: dict[str, Any]

    def locate(self, epoch: int) -> tuple[str, int, int]:
        """Return where an epoch is."""
        (stage, epochs), *later = self.stages.items()
        for following in later:
            if epoch > epochs:
                epoch -= epochs
                stage, epochs = following
        return stage, epoch, epochs


def choose_recipe(library: ModuleType, training: TrainingOptions, model: Any) -> Fit:
    """Return the recipe that the options ask for."""
    check_one_of("recipe", training.recipe, ("paper", "strong"))
    if training.recipe == "paper":
        settings = training.for_paper()
        options = {
            "lr": settings["lr"],
            "halve_every": settings["halve_every"],
            "epochs": settings["epochs"],
            "episodes": settings["episodes_per_epoch"],
            "batch": settings["episodes_per_step"],
        }
        stages = {"training": settings["epochs"]}
        return Fit(partial(library.train, **settings), stages, options)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidInput("recipe='strong' runs in one process. Start it without torchrun.")
    from metapac.fewshot.training.strong import recipe_for, train_strong

    recipe = recipe_for(model.module.backbone, **training.for_strong())
    run = partial(train_strong, recipe=recipe, validation_tasks=training.validation_tasks)
    stages = {"pre-training": recipe.epochs, "tuning": recipe.tuning_epochs}
    return Fit(run, stages, {"recipe": "strong", **asdict(recipe)})


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
    noun = ("class", "classes") if loaded.pools.train.unit == "class" else ("group",)
    found = [f"{name!r} with {size}" for name, size in loaded.left_out.items()]
    note = (
        f"left out {format_count(len(found), *noun)} with fewer than {minimum} examples, the "
        f"{shots} shots + {queries} queries of a training task: {listed(found)}."
    )
    return loaded, (note,)

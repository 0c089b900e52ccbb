"""``metapac train``: a learner trained on your own data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metapac import artefact
from metapac._common import Progress, require, warn
from metapac.cli.console import print_line, progress_bar
from metapac.cli.options import Device, Home, Rng
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.cli.scored_tasks import QUERIES, most_queries
from metapac.fewshot.cli.training import (
    EpisodeOptions,
    Fit,
    TrainingOptions,
    build_learner,
    choose_recipe,
    load_training_pools,
    weights_checksum,
)
from metapac.fewshot.datasets.pools import FILE, RUN, LoadedPools, check_same_data
from metapac.fewshot.pools import Pools

if TYPE_CHECKING:
    from metapac.fewshot.learners.accuracy import Accuracy
    from metapac.fewshot.training.history import Epoch, History

_POOLS = ("train", "validation", "calibration", "test")
_NEEDED = ("train", "validation", "test")
_FIXED = ("miniimagenet", "cifar10c", "fewrel")  # data sets whose publishers divided them


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images with one folder per class; an .npz file with arrays x and y, "
            "and groups if each group is a task; a prepared data set (miniimagenet, cifar10c, "
            "fewrel, heart); or glyphs.",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the run.")
    ],
    learner: Annotated[
        str, typer.Option(metavar="protonet|maml", help="Few-shot method.")
    ] = "protonet",
    backbone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Network: conv4, resnet12 or resnet50 for images, mlp for rows of numbers, "
            "sentence_cnn for sentences. By default one that suits the data.",
        ),
    ] = None,
    pools: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Classes (or groups) for training, validation, calibration and test, such as "
            "60,10,15,15. By default 56, 8, 16 and 20 percent of them, and at least --ways for "
            "each.",
        ),
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(
            min=16,
            metavar="PIXELS",
            help="Height and width to which the images of a folder are resized, by default 84.",
        ),
    ] = None,
    episodes: EpisodeOptions,
    training: TrainingOptions,
    device: Device = None,
    rng: Rng = 0,
    home: Home = None,
) -> None:
    """Meta-train a few-shot learner and write its best weights.

    The classes (or groups) are divided into four pools, listed in run.json: for training, for
    choosing the best epoch (validation), for calibration, and for test, on which the final accuracy
    is measured. 'metapac score' draws tasks from the pools for calibration and test.

    An interrupted run resumes when it is started again with the same options.

    Examples:

        metapac train glyphs --epochs 20 -o run
        metapac train images --recipe strong --backbone resnet12 -o run
        torchrun --nproc-per-node 4 -m metapac train images.npz -o run
    """
    library = require("metapac.fewshot.training.loop", extra="torch", purpose="training")
    sizes = _parse_pools(pools, data)
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    with progress_bar(visible=is_first) as progress:
        loaded, notes = load_training_pools(
            data,
            shots=episodes.shots,
            queries=episodes.queries,
            sizes=sizes,
            ways=episodes.ways or 5,
            rng=rng,
            home=home,
            image_size=image_size,
            progress=progress,
        )
        for note in notes if is_first else ():
            warn(note)
        _check_same_run(output, data, loaded, episodes, rng)
        shape = asdict(episodes) | {"ways": episodes.ways or _default_ways(loaded.pools)}
        model = build_learner(learner, backbone, loaded, shape["ways"], rng, recipe=training.recipe)
        fit = choose_recipe(library, training, model)
        history = fit.run(
            model,
            loaded.pools.train,
            loaded.pools.validation,
            **shape,
            device=device,
            checkpoint=output,
            rng=rng,
            on_epoch=partial(_show_epoch, progress, fit),
        )
    if is_first:
        from metapac.fewshot.learners.accuracy import accuracy

        tasks = training.validation_tasks
        reached = accuracy(model, loaded.pools.test, **shape, tasks=tasks, rng=rng)
        options = {**shape, "rng": rng, "pools": sizes, "tasks": tasks, **fit.options}
        options |= {"image_size": loaded.image_size} if loaded.image_size else {}
        _write(output, model, data, loaded, history, reached, options)
        _print_text(output, training.recipe, tasks, loaded.pools, history, reached)
        if loaded.pools.calibration is not None:
            _print_next(output, loaded.pools.calibration, shape)


def _show_epoch(progress: Progress, fit: Fit, epoch: Epoch) -> None:
    figures = f"loss {epoch.loss:.3f}, validation accuracy {epoch.accuracy:.1%}"
    stage, done, total = fit.locate(epoch.epoch)
    progress(f"{stage}, {figures}", done, total)


def _check_same_run(
    folder: Path, data: str, loaded: LoadedPools, episodes: EpisodeOptions, rng: int
) -> None:
    """Raise InvalidInput if a run in this folder was trained on other data.

    The backbone of images is built from their mean, so without this check a user whose data
    changed would be told that the learner did.
    """
    from metapac.fewshot.training import checkpoints
    from metapac.fewshot.training.episodes import fingerprint

    if (folder / FILE).exists():
        record = artefact.read(folder / FILE, RUN)
        size = record["options"].get("image_size", loaded.image_size)
        _check_same_option(folder, "image_size", size, loaded.image_size or size)
        check_same_data(folder, data, record["data_checksum"], loaded.checksum)
    config = getattr(checkpoints.read_checkpoint(folder), "config", {})
    shape = {"shots": episodes.shots, "queries": episodes.queries}  # classes are left out by them
    for name, value in {"rng": rng, **shape}.items():
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


def _default_ways(pools: Pools[Any]) -> int:
    """Return the classes per task: 5, or all of them if tasks differ by a transformation."""
    return len(pools.train.names) if getattr(pools.train, "transform", None) else 5


def _write(
    folder: Path,
    model: Any,
    data: str,
    loaded: LoadedPools,
    history: History,
    accuracy: Accuracy,
    options: dict[str, Any],
) -> None:
    from metapac.fewshot.training.checkpoints import describe_architecture, save_weights

    save_weights(model, folder / "model.safetensors")
    pools = {name: pool for name, pool in vars(loaded.pools).items() if pool is not None}
    body = {
        "data": data,
        "data_checksum": loaded.checksum,
        "weights_checksum": weights_checksum(model),
        "options": options,
        "architecture": describe_architecture(model),
        "accuracy": accuracy.value,
        "accuracy_interval": [accuracy.low, accuracy.high],
        "pools": {name: list(pool.names) for name, pool in pools.items()},
        "left_out": list(loaded.left_out),
        "classes": getattr(loaded.pools.train, "classes", None),
        "history": [asdict(epoch) for epoch in history.epochs],
    }
    artefact.write(folder / FILE, body, RUN)


def _print_text(
    folder: Path, recipe: str, tasks: int, pools: Pools[Any], history: History, accuracy: Accuracy
) -> None:
    units = {"class": "classes", "group": "groups"}[pools.test.unit]
    unseen = f"{len(pools.test.names)} {units}"
    if set(pools.test.names) & set(pools.train.names):  # tasks differ by their transformation
        unseen = f"{len(pools.test.y)} examples"
    shown = history.best if recipe == "paper" else history.epochs[-1]
    print_line(
        f"accuracy {accuracy.value:.1%} ({accuracy.low:.1%} to {accuracy.high:.1%}) on {tasks} "
        f"tasks drawn from {unseen} not used in training"
    )
    print_line(
        f"{_name_epoch(recipe, shown.epoch, len(history.epochs))}, with {shown.accuracy:.1%} on "
        "validation tasks"
    )
    print_line(f"weights written to {folder / 'model.safetensors'}")


def _print_next(folder: Path, pool: Any, shape: Mapping[str, int]) -> None:
    """Print how to score, with fewer queries than by default if classes are small."""
    queries = most_queries(pool, shape["ways"], shape["shots"]) if pool.unit == "class" else QUERIES
    more = f" --queries {queries}" if queries < QUERIES else ""
    print_line(f"next: metapac score {folder}{more} -o calibration.parquet")


def _name_epoch(recipe: str, epoch: int, epochs: int) -> str:
    if epochs == 1:
        return "after 1 epoch"
    return f"{'best' if recipe == 'paper' else 'last'} of {epochs} epochs: {epoch}"


def _parse_pools(text: str | None, data: str) -> dict[str, int] | None:
    """Return the number of classes or groups of each pool; None for the default."""
    if text is None:
        return None
    if data in _FIXED:
        raise InvalidInput(
            f"pools is not for {data}, whose publishers divided its classes.", parameter="pools"
        )
    words = text.split(",")
    try:
        sizes = dict(zip(_POOLS, map(int, words), strict=True))
    except ValueError:
        sizes = {}
    if not sizes or min(sizes.values()) < 0 or 0 in (sizes[name] for name in _NEEDED):
        raise InvalidInput(
            "pools must be four whole numbers, of classes for training, validation, calibration "
            f"and test, such as 60,10,15,15; only calibration may be 0. Got {text!r}.",
            parameter="pools",
        )
    return sizes

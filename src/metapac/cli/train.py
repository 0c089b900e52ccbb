"""``metapac train``: from labelled examples to a learner that adapts to new tasks."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metapac import _document, _optional
from metapac.cli.console import print_line
from metapac.cli.learner import build_learner
from metapac.cli.options import Device, Home, Rng
from metapac.cli.progress import progress_bar
from metapac.datasets.pools import LoadedPools, load_pools
from metapac.exceptions import InvalidInput
from metapac.tasks.pools import Pools

if TYPE_CHECKING:
    from metapac.learners.training.history import Epoch, History

RUN = _document.Format("metapac run", written_by="'metapac train'", shape="run")
_episode_option = partial(typer.Option, rich_help_panel="Episodes")
_training_option = partial(typer.Option, rich_help_panel="Training")


@dataclass(frozen=True)
class _EpisodeOptions:
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
class _TrainingOptions:
    """How long and how fast the learner is trained."""

    epochs: Annotated[
        int,
        _training_option(min=1, help="Number of epochs; a larger value extends a finished run."),
    ] = 20
    episodes_per_epoch: Annotated[
        int, _training_option("--episodes", min=1, help="Training tasks per epoch.")
    ] = 400
    episodes_per_step: Annotated[
        int, _training_option("--batch", min=1, help="Training tasks per optimiser step.")
    ] = 8
    lr: Annotated[float, _training_option(help="Initial learning rate (Adam).")] = 1e-3
    halve_every: Annotated[
        int, _training_option(min=1, help="Halve the learning rate after this many epochs.")
    ] = 40
    validation_tasks: Annotated[
        int, _training_option("--tasks", min=1, help="Number of validation and of test tasks.")
    ] = 400
    patience: Annotated[
        int | None, _training_option(min=1, help="Stop after this many epochs without improvement.")
    ] = None
    class_weights: Annotated[
        str | None,
        _training_option(
            metavar="NUMBERS",
            help="Weight of each label in the loss, separated by commas, such as 1,10.",
        ),
    ] = None

    def parse(self) -> dict[str, Any]:
        """Return the options as ``train`` takes them."""
        return asdict(self) | {"class_weights": _parse_numbers(self.class_weights)}


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="glyphs, a prepared data set (miniimagenet, cifar10c, fewrel, heart), or an .npz "
            "file with arrays x and y, and groups if each group is a task.",
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
    episodes: _EpisodeOptions,
    training: _TrainingOptions,
    device: Device = None,
    rng: Rng = 0,
    home: Home = None,
) -> None:
    """Meta-train a few-shot learner and write its best weights.

    A fifth of the classes (or groups) of a file is held out of training, and run.json lists them.
    The final accuracy is measured on tasks drawn from them; draw your calibration tasks from them
    as well. A prepared data set has separate pools for calibration and test.

    An interrupted run resumes when it is started again with the same options.

    Examples:

        metapac train glyphs --epochs 20 -o run
        torchrun --nproc-per-node 4 -m metapac train images.npz -o run
    """
    library = _optional.require(
        "metapac.learners.training.train", extra="torch", purpose="training"
    )
    loaded = load_pools(data, ways=episodes.ways or 5, rng=rng, home=home)
    shape = asdict(episodes) | {"ways": episodes.ways or _default_ways(loaded.pools)}
    model = build_learner(learner, backbone, loaded, shape["ways"], rng)
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    with progress_bar(visible=is_first) as progress:

        def on_epoch(epoch: Epoch) -> None:
            figures = f"loss {epoch.loss:.3f}, validation accuracy {epoch.accuracy:.1%}"
            progress(f"training, {figures}", epoch.epoch, training.epochs)

        history = library.train(
            model,
            loaded.pools.train,
            loaded.pools.validation,
            **shape,
            **training.parse(),
            device=device,
            checkpoint=output,
            rng=rng,
            on_epoch=on_epoch,
        )
    if is_first:
        tasks = training.validation_tasks
        accuracy = library.accuracy(model, loaded.pools.test, **shape, tasks=tasks, rng=rng)
        options = {
            **shape,
            "rng": rng,
            "lr": training.lr,
            "halve_every": training.halve_every,
            "tasks": tasks,
            "epochs": training.epochs,
            "episodes": training.episodes_per_epoch,
            "batch": training.episodes_per_step,
        }
        _write(output, model, data, loaded, history, accuracy, options)
        _print_text(output, tasks, loaded.pools, history, accuracy)


def _default_ways(pools: Pools[Any]) -> int:
    """Return the classes per task: 5, or all of them if tasks differ by a transformation."""
    return len(pools.train.names) if getattr(pools.train, "transform", None) else 5


def _write(
    folder: Path,
    model: Any,
    data: str,
    loaded: LoadedPools,
    history: History,
    accuracy: float,
    options: dict[str, Any],
) -> None:
    from metapac.learners.training.weights import describe_architecture, save_weights

    save_weights(model, folder / "model.safetensors")
    pools = {name: pool for name, pool in vars(loaded.pools).items() if pool is not None}
    body = {
        "data": data,
        "data_checksum": loaded.checksum,
        "options": options,
        "architecture": describe_architecture(model),
        "accuracy": accuracy,
        "pools": {name: list(pool.names) for name, pool in pools.items()},
        "history": [asdict(epoch) for epoch in history.epochs],
    }
    _document.write(folder / "run.json", body, RUN)


def _print_text(
    folder: Path, tasks: int, pools: Pools[Any], history: History, accuracy: float
) -> None:
    units = {"class": "classes", "group": "groups"}[pools.test.unit]
    unseen = f"{len(pools.test.names)} {units}"
    if set(pools.test.names) & set(pools.train.names):  # tasks differ by their transformation
        unseen = f"{len(pools.test.y)} examples"
    best = history.best
    print_line(f"accuracy {accuracy:.1%} on {tasks} tasks drawn from {unseen} not used in training")
    print_line(
        f"best of {len(history.epochs)} epochs: {best.epoch}, with {best.accuracy:.1%} on "
        "validation tasks"
    )
    print_line(f"weights written to {folder / 'model.safetensors'}")


def _parse_numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"--class-weights must be numbers separated by commas, such as 1,10, got {text!r}."
        ) from None

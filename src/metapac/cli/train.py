"""``metapac train``: from labelled examples to a learner that adapts to new tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from metapac import _checks
from metapac._version import __version__
from metapac.cli.common import console, errors, told
from metapac.cli.examples import Examples, examples
from metapac.persistence import replacing
from metapac.tasks.pools import ClassPool, GroupPool, Pools

if TYPE_CHECKING:
    from metapac.learners.course import Epoch, History

Array = NDArray[Any]

_IMAGES = ("conv4", "resnet12", "resnet50")


@told
def train(
    data: Annotated[
        str,
        typer.Argument(
            help="glyphs, a prepared data set (miniimagenet, cifar10c, fewrel, heart), or an .npz "
            "with x and y (and groups)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run.")],
    learner: Annotated[str, typer.Option(help="protonet or maml.")] = "protonet",
    backbone: Annotated[
        str | None,
        typer.Option(
            help="conv4, resnet12, resnet50, mlp, cnn (sentences); by default what suits the data."
        ),
    ] = None,
    ways: Annotated[
        int | None,
        typer.Option(min=1, help="Classes in a task (without groups); else 5, of cifar10c all 10."),
    ] = None,
    shots: Annotated[
        int, typer.Option(min=1, help="Adaptation examples, of a class or else of a group.")
    ] = 5,
    queries: Annotated[int, typer.Option(min=1, help="Others to score, counted likewise.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="More prolong a run.")] = 20,
    episodes: Annotated[int, typer.Option(min=1, help="Training tasks in an epoch.")] = 400,
    batch: Annotated[int, typer.Option(min=1, help="Training tasks in a step.")] = 8,
    lr: Annotated[float, typer.Option(help="Adam's rate at the start.")] = 1e-3,
    halve_every: Annotated[int, typer.Option(min=1, help="Epochs between halvings.")] = 40,
    tasks: Annotated[int, typer.Option(min=1, help="Validation tasks, and test tasks.")] = 400,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Epochs without a better one that end the run.")
    ] = None,
    class_weights: Annotated[
        str | None, typer.Option(help="How much each label counts in the loss, such as 1,10.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; by default what is there.")
    ] = None,
    rng: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    home: Annotated[
        Path | None, typer.Option(help="Where data are prepared; by default $METAPAC_DATA.")
    ] = None,
) -> None:
    """Meta-train a learner and write its best weights.

    A fifth of the classes (or groups) of a file is kept from training and gives
    the accuracy at the end; calibrate on tasks of those, named in run.json. A
    prepared data set has pools of its own, to test on and to calibrate on.

    Killed and started again with the same options, a run goes on where it was.

    Several GPUs: torchrun --nproc-per-node N -m metapac train ...
    """
    training = _training()
    given = examples(data, ways=ways or 5, rng=rng, home=home)
    pools = given.pools
    ways = ways or (len(pools.train.names) if getattr(pools.train, "change", None) else 5)
    trained = _learner(learner, backbone, given, ways, rng)
    shape = {"ways": ways, "shots": shots, "queries": queries}
    first = os.environ.get("RANK", "0") == "0"
    with _bar(epochs, shown=first) as progress:
        history = training.train(
            trained,
            pools.train,
            pools.validation,
            **shape,
            epochs=epochs,
            episodes_per_epoch=episodes,
            episodes_per_step=batch,
            lr=lr,
            halve_every=halve_every,
            validation_tasks=tasks,
            class_weights=None if class_weights is None else _numbers(class_weights),
            patience=patience,
            device=device,
            checkpoint=output,
            rng=rng,
            progress=progress,
        )
    if first:
        found = training.accuracy(trained, pools.test, **shape, tasks=tasks, rng=rng)
        options = {**shape, "lr": lr, "halve_every": halve_every, "tasks": tasks, "rng": rng}
        options |= {"epochs": epochs, "episodes": episodes, "batch": batch}
        _write(output, trained, data, given, history, found, options)
        _tell(output, tasks, pools, history, found)


def _training() -> Any:
    try:
        from metapac.learners import training
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        raise ModuleNotFoundError(
            f"training needs {error.name}. Install it with: pip install 'metapac[torch]'"
        ) from error
    return training


def _learner(name: str, backbone: str | None, given: Examples, ways: int, rng: int) -> Any:
    from metapac.learners import MAML, ProtoNet, SentenceCNN

    _checks.one_of("--learner", name, ("protonet", "maml"))
    pool: ClassPool | GroupPool = given.pools.train
    if given.words is not None:
        _checks.one_of("--backbone", backbone or "cnn", ("cnn",))
        body: Any = SentenceCNN(given.words, rng=rng)
    else:
        chosen = backbone or ("mlp" if pool.x.ndim == 2 else "conv4")
        body = _backbone(chosen, pool.x, rng, imagenet=given.imagenet)
    if name == "protonet":
        return ProtoNet(body)
    return MAML(body, ways if isinstance(pool, ClassPool) else pool.classes)


def _backbone(name: str, x: Array, rng: int, *, imagenet: bool) -> Any:
    """Return the backbone for examples like ``x``; pixels are normalised by those of ``x``."""
    from metapac.learners import MLP, Conv4, ResNet12, ResNet50
    from metapac.learners.backbones import IMAGENET_MEAN, IMAGENET_STD

    _checks.one_of("--backbone", name, (*_IMAGES, "mlp"))
    if name == "mlp":
        return MLP(int(np.prod(x.shape[1:])), rng=rng)
    if x.ndim not in (3, 4):
        raise ValueError(
            f"--backbone {name} takes images, x of 3 or 4 dimensions, got shape {x.shape}. "
            "Pass --backbone mlp."
        )
    sample = x[:: max(1, len(x) // 1000)] / (255 if x.dtype == np.uint8 else 1)
    last = x.ndim == 3 or x.shape[3] in (1, 3)
    images = sample[..., None] if x.ndim == 3 else sample
    images = images if last else np.moveaxis(images, 1, 3)  # (n, h, w, channels)
    mean, std = images.mean((0, 1, 2)), images.std((0, 1, 2))
    common = {"mean": mean.tolist(), "std": np.where(std > 0, std, 1.0).tolist(), "rng": rng}
    if imagenet:
        common |= {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    if name == "conv4":
        return Conv4(images.shape[3], images.shape[1], **common)
    return {"resnet12": ResNet12, "resnet50": ResNet50}[name](images.shape[3], **common)


@contextmanager
def _bar(epochs: int, *, shown: bool) -> Iterator[Callable[[Epoch], None]]:
    """Lend a callback that moves a bar from epoch to epoch."""
    words = TextColumn("{task.description}")
    bar = Progress(
        words,
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not shown,
    )
    with bar:
        row = bar.add_task("Training", total=epochs)

        def advance(epoch: Epoch) -> None:
            words = f"loss {epoch.loss:.3f}, validation accuracy {epoch.accuracy:.1%}"
            bar.update(row, completed=epoch.epoch, description=words)

        yield advance


def _write(
    folder: Path,
    learner: Any,
    data: str,
    given: Examples,
    history: History,
    accuracy: float,
    options: dict[str, Any],
) -> None:
    from metapac.learners.weights import architecture, save_weights

    save_weights(learner, folder / "model.safetensors")
    run = {
        "format": "metapac run",
        "metapac": __version__,
        "data": data,
        "data_checksum": given.checksum,
        "options": options,
        "architecture": architecture(learner),
        "accuracy": accuracy,
        "pools": {
            name: list(pool.names) for name, pool in vars(given.pools).items() if pool is not None
        },
        "history": [asdict(epoch) for epoch in history.epochs],
    }
    with replacing(folder / "run.json") as file:
        file.write(json.dumps(run, indent=1, ensure_ascii=False) + "\n")


def _tell(folder: Path, tasks: int, pools: Pools[Any], history: History, accuracy: float) -> None:
    units = {"class": "classes", "group": "groups"}[pools.test.unit]
    unseen = f"{len(pools.test.names)} {units}"
    if set(pools.test.names) & set(pools.train.names):  # tasks differ by their change
        unseen = f"{len(pools.test.y)} examples"
    best = history.best
    console.print(
        f"accuracy {accuracy:.1%} on {tasks} tasks drawn from {unseen} that training never saw",
        f"best of {len(history.epochs)} epochs: {best.epoch}, with {best.accuracy:.1%} on "
        "validation tasks",
        f"weights written to {folder / 'model.safetensors'}",
        sep="\n",
        markup=False,
    )


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--class-weights must be numbers with commas, such as 1,10, got {text!r}."
        ) from None

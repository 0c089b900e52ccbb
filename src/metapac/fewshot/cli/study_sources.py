"""Where a study takes its learner and tasks from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from metapac._common import Array, Progress, check_one_of, require
from metapac.cli.options import Device, Home
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.cli.training import (
    EpisodeOptions,
    TrainingOptions,
    build_learner,
    choose_recipe,
    load_training_pools,
)
from metapac.fewshot.cli.vectors import (
    LEARNERS,
    VectorOptions,
    Vectors,
    build_vector_learner,
    read_vectors,
)
from metapac.fewshot.datasets.downloads import check_stated_size
from metapac.fewshot.datasets.pools import load_run_pools, read_run
from metapac.fewshot.pools import Pools, split_classes, split_groups
from metapac.fewshot.study.pool_study import TASKS, PoolStudy
from metapac.fewshot.study.run import seed_folder
from metapac.fewshot.tasks import ClassReuse

if TYPE_CHECKING:
    from metapac.fewshot.training.history import Epoch

_task_option = partial(typer.Option, rich_help_panel="Tasks")
_learner_option = partial(typer.Option, rich_help_panel="Learner")
_TRAINED = ("protonet", "maml")
_TRAINING = ("backbone", "recipe", "epochs", "episodes_per_epoch")
_VECTORS = (".npy", ".parquet", ".pq")
# Shares of the classes or groups of vectors: for Meta-CP's predictor, calibration and test.
_VALIDATION, _TEST = 0.2, 0.4
_QUIET = "Meta-CP is left out"  # a footnote of the table says so

MakeStudy = Callable[[int], PoolStudy]


@dataclass(frozen=True)
class TaskOptions:
    """The tasks of a draw."""

    ways: Annotated[
        int, _task_option(min=1, help="Classes per task; not used if the data have groups.")
    ] = 5
    shots: Annotated[
        int,
        _task_option(
            min=1, help="Support examples per class (or per group), to which the learner adapts."
        ),
    ] = 5
    queries: Annotated[
        int | None,
        _task_option(
            min=1,
            help="Calibration examples per class (or per group). By default all that are left.",
        ),
    ] = None
    test_queries: Annotated[
        int | None,
        _task_option(
            min=1,
            help="Examples per class (or per group) of a new task that the sets are tested on. By "
            "default 100, or what is left.",
        ),
    ] = None
    labelled: Annotated[
        int | None,
        _task_option(
            min=1,
            help="Examples per class (or per group) of a new task for PS-Test. By default 20, or a "
            "quarter of what is left.",
        ),
    ] = None
    tasks: Annotated[
        int | None,
        _task_option(
            min=1,
            help="Calibration tasks in a draw. By default 500, or each calibration group once.",
        ),
    ] = None
    tests: Annotated[
        int | None,
        _task_option(min=1, help="New tasks in a draw. By default 50, or each test group once."),
    ] = None
    score: Annotated[
        str | None,
        _task_option(
            metavar="NAME",
            help="Score function: probability, log_probability, margin or cumulative. By default "
            "probability.",
        ),
    ] = None


@dataclass(frozen=True)
class LearnerOptions:
    """The learner, and how it is trained."""

    learner: Annotated[
        str | None,
        _learner_option(
            metavar="NAME",
            help="prototypes, ridge or logistic on vectors, which need no training; protonet or "
            "maml, which are trained. By default prototypes on vectors, otherwise protonet.",
        ),
    ] = None
    backbone: Annotated[
        str | None,
        _learner_option(
            metavar="NAME",
            help="Network to train: conv4, resnet12, resnet50 or mlp. By default "
            "one that suits the data.",
        ),
    ] = None
    recipe: Annotated[
        str | None,
        _learner_option(
            metavar="paper|strong",
            help="Recipe of 'metapac train' to train with. By default paper.",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        _learner_option(min=1, help="Training epochs. By default 20, or as the strong recipe has."),
    ] = None
    episodes_per_epoch: Annotated[
        int | None,
        _learner_option(
            "--episodes", min=1, help="Training tasks per epoch (paper), by default 400."
        ),
    ] = None
    device: Device = None
    home: Home = None


@dataclass(frozen=True)
class Source:
    """Studies by seed, and what they are about."""

    make_study: MakeStudy
    learner: str
    can_vary: bool = True
    vectors: Vectors | None = None


def open_source(
    data: str,
    folder: Path,
    tasks: TaskOptions,
    options: LearnerOptions,
    vectors: VectorOptions,
    *,
    epsilon: float,
    progress: Progress,
) -> Source:
    """Return the studies of some data."""
    name = options.learner
    if name is not None:
        check_one_of("learner", name, (*LEARNERS, *_TRAINED))
    build = partial(_build_study, tasks=tasks, epsilon=epsilon)
    if Path(data).is_dir() and data != "glyphs":
        _reject(options, "learner", *_TRAINING, why="a training run")
        _reject(vectors, *_names(vectors), why="a training run")
        return _open_run(data, options, build)
    _check_format(Path(data))
    found = None if name in _TRAINED else _find_vectors(data, vectors)
    if found is not None:
        _reject(options, *_TRAINING, why="vectors, whose learner is not trained")
        learner, described = build_vector_learner(name, vectors)
        return Source(lambda seed: build(learner, _divide(found, seed)), described, vectors=found)
    if name in LEARNERS:
        raise InvalidInput(
            f"{keyword('learner', name)} takes vectors, and {data} does not hold vectors. Pass "
            "learner='protonet'."
        )
    _reject(vectors, *_names(vectors), why="a learner that is trained")
    make = partial(_train, data, folder, tasks, options, progress)
    return Source(lambda seed: build(*make(seed)), name or "protonet")


def _check_format(file: Path) -> None:
    """Raise if a file is not of a format that a study reads."""
    if not file.is_file() or file.suffix.lower() in (".npz", *_VECTORS):
        return
    remedy = f"pandas.DataFrame(...).to_parquet({str(file.with_suffix('.parquet'))!r})"
    if file.suffix.lower() == ".csv":
        remedy = remedy.replace("DataFrame(...)", f"read_csv({str(file)!r})")
    raise InvalidInput(
        f"{file} must be an .npz, .npy or .parquet file, or the folder of a run. Convert a table "
        f"in Python: {remedy}."
    )


def _names(options: VectorOptions) -> list[str]:
    return [field.name for field in fields(options)]


def _reject(options: LearnerOptions | VectorOptions, *names: str, why: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise InvalidInput(f"{name} does not apply to {why}. Leave it out.", parameter=name)


def _find_vectors(data: str, options: VectorOptions) -> Vectors | None:
    """Return the vectors in a file; None if it is an .npz file of something else, or no file."""
    file = Path(data)
    if file.suffix.lower() in _VECTORS:
        return read_vectors(file, options.labels, options.groups, options.columns)
    if file.suffix.lower() == ".npz" and _dimensions(file) == 2:
        return read_vectors(file, options.labels, options.groups, options.columns)
    return None


def _dimensions(file: Path) -> int | None:
    """Return the number of dimensions of x in an .npz file; load_pools explains a bad file."""
    try:
        check_stated_size(file)
        with np.load(file, allow_pickle=False) as arrays:
            return int(arrays["x"].ndim)
    except (OSError, ValueError, KeyError, EOFError):
        return None


def _divide(vectors: Vectors, seed: int) -> Pools[Any]:
    """Divide classes or groups at random: Meta-CP, calibration and test; none for training."""
    ids = vectors.y if vectors.groups is None else vectors.groups
    sizes = _shares(ids)
    if vectors.groups is None:
        return split_classes(vectors.x, vectors.y, **sizes, rng=seed)
    return split_groups(vectors.x, vectors.codes, vectors.groups, **sizes, rng=seed)


def _shares(ids: Array) -> dict[str, int]:
    count = len(np.unique(ids))
    if count < 3:
        raise InvalidInput(
            f"the data have {count} classes or groups; a study needs at least 3, to calibrate on "
            "some and to judge on others."
        )
    validation, test = round(_VALIDATION * count), max(1, round(_TEST * count))
    sizes = {"train": 0, "validation": validation, "test": test}
    return sizes | {"calibration": count - validation - test}


def _open_run(data: str, options: LearnerOptions, build: Callable[..., PoolStudy]) -> Source:
    record = read_run(data)
    weights = require(
        "metapac.fewshot.training.checkpoints", extra="torch", purpose="the study of a run"
    )
    from metapac.fewshot.training.loop import choose_device

    pools = load_run_pools(data, home=options.home).pools
    learner = weights.load_learner(data)
    learner.module.to(choose_device(options.device))
    method = str(record["architecture"]["class"])
    return Source(lambda seed: build(learner, pools), method, can_vary=False)


def _train(
    data: str,
    folder: Path,
    tasks: TaskOptions,
    options: LearnerOptions,
    progress: Progress,
    seed: int,
) -> tuple[Any, Pools[Any], tuple[str, ...]]:
    """Return a trained learner, the pools and notes; a training that was interrupted resumes."""
    library = require("metapac.fewshot.training.loop", extra="torch", purpose="training")
    shape: dict[str, Any] = {"shots": tasks.shots, "queries": EpisodeOptions.queries}
    loaded, notes = load_training_pools(data, **shape, ways=tasks.ways, rng=seed, home=options.home)
    training = TrainingOptions(
        recipe=options.recipe or "paper",
        epochs=options.epochs,
        episodes_per_epoch=options.episodes_per_epoch,
    )
    name = options.learner or "protonet"
    learner = build_learner(
        name, options.backbone, loaded, tasks.ways, seed, recipe=training.recipe
    )
    fit = choose_recipe(library, training, learner)

    def on_epoch(epoch: Epoch) -> None:
        stage, done, total = fit.locate(epoch.epoch)
        progress(f"seed {seed}: {stage}, validation accuracy {epoch.accuracy:.1%}", done, total)

    fit.run(
        learner,
        loaded.pools.train,
        loaded.pools.validation,
        ways=tasks.ways,
        **shape,
        device=options.device,
        checkpoint=seed_folder(folder, seed) / "training",
        rng=seed,
        on_epoch=on_epoch,
    )
    return learner, loaded.pools, notes


def _build_study(
    learner: Any,
    pools: Pools[Any],
    notes: tuple[str, ...] = (),
    *,
    tasks: TaskOptions,
    epsilon: float,
) -> PoolStudy:
    """Return the study of a learner; groups are divided anew in each draw, none used twice."""
    calibration, test = pools.calibration, pools.test
    if calibration is None:
        raise InvalidInput("the data leave no classes or groups for calibration. Pass more data.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_QUIET)
        return PoolStudy(
            learner,
            calibration,
            test,
            **asdict(tasks),
            distinct=calibration.unit == "group",
            predictor=pools.validation,
            epsilon=epsilon,
            notes=(*_describe_reuse(calibration, tasks.tasks or TASKS, tasks.ways), *notes),
        )


def _describe_reuse(pool: Any, tasks: int, ways: int) -> tuple[str, ...]:
    """Return a note if calibration tasks share classes, with the counts that are expected."""
    classes, draws = len(pool.names), tasks * ways
    if pool.unit == "group" or pool.transform is not None or draws <= classes:
        return ()
    return (ClassReuse(tasks, classes, draws / classes, ways**2 / classes).describe(),)

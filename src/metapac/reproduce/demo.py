"""The demonstrations of ``metapac demo``: drawn characters, and synthetic tasks."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metapac import _files, plots
from metapac._types import PathLike
from metapac._version import __version__
from metapac.calibration import MetaPS
from metapac.evaluation.methods import META_PS, PS, PS_TEST, Method
from metapac.evaluation.pool_study import PoolStudy
from metapac.evaluation.rows import Rows
from metapac.guarantee import Guarantee
from metapac.reproduce import figures
from metapac.reproduce.experiments import Experiment, Training
from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import ClassPool, Pools, split_classes

if TYPE_CHECKING:
    from metapac.learners.training.history import Epoch

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
METHODS = (
    Method("PS", PS, GUARANTEE),
    Method("PS-Test", PS_TEST, GUARANTEE),
    Method("Meta-PS even", META_PS, replace(GUARANTEE, split="even")),
    Method("Meta-PS joint", META_PS, GUARANTEE),
)
CHARACTERS = {"train": 240, "validation": 40, "calibration": 60, "test": 60}
TRAINING = Training(
    lr=1e-3, episodes_per_epoch=60, epochs=12, episodes_per_step=2, validation_tasks=50
)
EXPERIMENT = Experiment(
    name="demo",
    title="Unseen characters, 5 ways, 5 shots: 250 calibration tasks of 250 examples",
    data="glyphs",
    backbone="conv4",
    training=TRAINING,
    calibration_examples=50,
    evaluation_examples=30,
    labelled_examples=20,
    calibration_tasks=250,
    guarantee=GUARANTEE,
)
SYNTHETIC_TITLE = "Synthetic tasks: 500 calibration tasks of 1000 examples"
_PICTURES = 16
_COLUMNS = ("draw", "method", "task", "threshold", "error", "size")


@dataclass(frozen=True, eq=False)
class GlyphDemo:
    """A trained learner and the characters that it has not seen.

    Parameters
    ----------
    study : PoolStudy
        Calibration draws.
    pools : Pools
        The characters.
    names : list of str
        Name of each character.
    accuracy : float
        Accuracy of the learner on test tasks.
    """

    study: PoolStudy
    pools: Pools[ClassPool]
    names: list[str]
    accuracy: float


def prepare_glyphs(rng: int, on_epoch: Callable[[Epoch], None] | None = None) -> GlyphDemo:
    """Draw characters, train a ProtoNet on the CPU, and embed the characters not seen.

    Parameters
    ----------
    rng : int
        Seed.
    on_epoch : callable, optional
        Called with each finished epoch.

    Returns
    -------
    GlyphDemo
        The study, and what it was made from.
    """
    from metapac.learners.networks.backbones import Conv4
    from metapac.learners.protonet import ProtoNet
    from metapac.learners.task_accuracy import accuracy
    from metapac.learners.training.train import train

    e = EXPERIMENT
    x, y, names = glyphs(characters=sum(CHARACTERS.values()), rng=rng)
    pools = split_classes(x, y, **CHARACTERS, rng=rng)
    learner = ProtoNet(Conv4(channels=1, size=28, rng=rng))
    settings = {**e.task_shape, **asdict(TRAINING)}
    train(
        learner, pools.train, pools.validation, **settings, device="cpu", rng=rng, on_epoch=on_epoch
    )
    study = PoolStudy(
        learner,
        pools.calibration,
        pools.test,
        **e.task_shape,
        queries=e.calibration_examples,
        test_queries=e.evaluation_examples,
        labelled=e.labelled_examples,
        tasks=e.calibration_tasks,
        tests=e.test_tasks,
    )
    reached = accuracy(learner, pools.test, queries=50, tasks=100)
    return GlyphDemo(study, pools, names, reached.value)


def draw_sets(demo: GlyphDemo, rng: int, path: PathLike) -> None:
    """Draw some examples of one test task with their prediction sets.

    Parameters
    ----------
    demo : GlyphDemo
        The study and its characters.
    rng : int
        Seed.
    path : str or path
        File to write.
    """
    generator, e = np.random.default_rng(rng), EXPERIMENT
    draw = demo.study.draw(generator)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(draw.scores, draw.tasks)
    (task,) = demo.pools.test.tasks(1, **e.task_shape, queries=e.test_examples, rng=generator)
    shown = np.sort(generator.choice(len(task.query), _PICTURES, replace=False))
    names = [demo.names[character] for character in demo.pools.test.y[task.support[:: e.shots]]]
    plots.draw_images_with_sets(
        task.query_x[shown],
        task.query_y[shown].tolist(),
        method.predict_set(demo.study.predict_proba(task)[shown]),
        names,
        title=f"A new task, {' '.join(names)}, after {e.shots} examples of each. Above each "
        "picture its true label, below it the prediction set",
        path=path,
    )


def write_results(rows: Rows, folder: Path, title: str, rng: int) -> tuple[Path, Path]:
    """Write the rows as CSV, with seed and version, and the box plots as PNG.

    Parameters
    ----------
    rows : Rows
        Results of the evaluation.
    folder : Path
        Folder to write to; it is created if necessary.
    title : str
        Title of the figure.
    rng : int
        Seed.

    Returns
    -------
    table, picture : Path
        The files written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table, picture = folder / "demo.csv", folder / "demo.png"
    columns = [getattr(rows, name).tolist() for name in _COLUMNS]
    with _files.replacing(table) as file:
        writer = csv.writer(file)
        writer.writerow([*_COLUMNS, "rng", "metapac"])
        writer.writerows([*row, rng, __version__] for row in zip(*columns, strict=True))
    figures.draw_error_and_size(rows, GUARANTEE, title=title, path=picture)
    return table, picture

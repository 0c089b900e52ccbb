"""The study on pictures: train on some characters, calibrate on others, judge on others still."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metapac import plots
from metapac.calibration import MetaPS
from metapac.demo.setting import GUARANTEE, OWN_EXAMPLES
from metapac.evaluation.draws import Array, Draw, Judged, data_checksum
from metapac.learners.backbones import Conv4
from metapac.learners.bank import PrototypeBank
from metapac.learners.course import Epoch
from metapac.learners.protonet import ProtoNet
from metapac.learners.training import accuracy, train
from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import ClassPool, Pools, split_classes
from metapac.tasks.task import Task

WAYS, SHOTS, QUERIES = 5, 5, 50
CHARACTERS = {"train": 240, "validation": 40, "calibration": 60, "test": 60}
CALIBRATION_TASKS, TEST_TASKS = 250, 50
EPOCHS, EPISODES = 12, 60
TITLE = (
    f"Unseen characters, {WAYS} ways, {SHOTS} shots: {CALIBRATION_TASKS} tasks to calibrate on, "
    f"{WAYS * QUERIES} examples each"
)


@dataclass(frozen=True, eq=False)
class Study:
    """A trained learner's view of the two pools that it has never seen."""

    pools: Pools[ClassPool]
    names: list[str]
    calibration: PrototypeBank
    test: PrototypeBank
    accuracy: float

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw calibration tasks and new tasks."""
        tasks = self.tasks(self.pools.calibration, CALIBRATION_TASKS, rng)
        names = np.repeat([task.name for task in tasks], WAYS * QUERIES)
        tests = [
            Judged.split(self.test.predict_proba(task), task.query_y, own=~judged())
            for task in self.tasks(self.pools.test, TEST_TASKS, rng)
        ]
        return Draw(self.calibration.scores(tasks), names, tests)

    def tasks(self, pool: ClassPool, count: int, rng: np.random.Generator) -> list[Task]:
        return list(pool.tasks(count, ways=WAYS, shots=SHOTS, queries=QUERIES, rng=rng))

    def describe(self) -> dict[str, Any]:
        banks = (self.calibration.embeddings.cpu(), self.test.embeddings.cpu())
        return {"study": "glyphs", "title": TITLE, "embeddings": data_checksum(*banks)}


def judged() -> Array:
    """Return which queries of a new task are judged: not PS-Test's, as many of each class."""
    return np.arange(WAYS * QUERIES) % QUERIES >= OWN_EXAMPLES // WAYS


def prepare(rng: int, progress: Callable[[Epoch], None] | None = None) -> Study:
    """Draw the pictures, train a ProtoNet on a CPU, and embed what it has not seen."""
    x, y, names = glyphs(characters=sum(CHARACTERS.values()), rng=rng)
    pools = split_classes(x, y, **CHARACTERS, rng=rng)
    learner = ProtoNet(Conv4(channels=1, size=28, rng=rng))
    train(
        learner,
        pools.train,
        pools.validation,
        ways=WAYS,
        shots=SHOTS,
        epochs=EPOCHS,
        episodes_per_epoch=EPISODES,
        episodes_per_step=2,
        validation_tasks=50,
        device="cpu",
        rng=rng,
        progress=progress,
    )
    banks = learner.bank(pools.calibration.x), learner.bank(pools.test.x)
    return Study(pools, names, *banks, accuracy(learner, pools.test, queries=QUERIES, tasks=100))


def draw_sets(study: Study, rng: int, path: str | os.PathLike[str]) -> None:
    """Draw some queries of one test task with the sets that the tight split gives them."""
    generator = np.random.default_rng(rng)
    draw, g = study.draw(generator), GUARANTEE
    promise = MetaPS(epsilon=g.miss_rate, alpha=g.alpha, delta=g.failure_probability)
    promise.calibrate(draw.scores, draw.tasks)
    (task,) = study.tasks(study.pools.test, 1, generator)
    chosen = np.sort(generator.choice(int(judged().sum()), 16, replace=False))
    shown = np.flatnonzero(judged())[chosen]
    names = [study.names[character] for character in study.pools.test.y[task.support[::SHOTS]]]
    plots.pictures_with_sets(
        task.query_x[shown],
        task.query_y[shown].tolist(),
        promise.predict_set(study.test.predict_proba(task)[shown]),
        names,
        title=f"A new task, {' '.join(names)}, after {SHOTS} examples of each: above, the "
        "truth; below, its set",
        path=path,
    )

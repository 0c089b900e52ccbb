"""The study on pictures: train on some characters, calibrate on others, judge on others still."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metapac import plots
from metapac.calibration import MetaPS
from metapac.demo.compare import GUARANTEE, OWN_EXAMPLES, Array, Draw
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
class ScoredTask:
    """A test task with the probabilities of all labels; PS-Test's own queries are not judged."""

    own: Array  # (OWN_EXAMPLES,)
    pictures: Array  # (judged, height, width)
    labels: Array  # (judged,)
    probabilities: Array  # (judged, ways)
    names: list[str]  # (ways,)

    def error(self, threshold: float) -> float:
        true = self.probabilities[np.arange(len(self.labels)), self.labels]
        return float(np.mean(true < threshold))

    def size(self, threshold: float) -> float:
        return float(np.mean(np.sum(self.probabilities >= threshold, axis=1)))


@dataclass(frozen=True, eq=False)
class Study:
    """A trained learner's view of the two pools that it has never seen."""

    pools: Pools[ClassPool]
    names: list[str]
    calibration: PrototypeBank
    test: PrototypeBank
    accuracy: float

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw calibration tasks and test tasks."""
        tasks = self._tasks(self.pools.calibration, CALIBRATION_TASKS, rng)
        names = np.repeat([task.name for task in tasks], WAYS * QUERIES)
        tests = [self._scored(task) for task in self._tasks(self.pools.test, TEST_TASKS, rng)]
        return Draw(self.calibration.scores(tasks), names, tests)

    def _tasks(self, pool: ClassPool, count: int, rng: np.random.Generator) -> list[Task]:
        return list(pool.tasks(count, ways=WAYS, shots=SHOTS, queries=QUERIES, rng=rng))

    def _scored(self, task: Task) -> ScoredTask:
        own = np.arange(WAYS * QUERIES) % QUERIES < OWN_EXAMPLES // WAYS  # as many of each class
        probabilities = self.test.predict_proba(task)  # (queries, ways)
        true = probabilities[np.arange(len(own)), task.query_y]
        characters = self.pools.test.y[task.support[::SHOTS]]
        return ScoredTask(
            own=true[own],
            pictures=task.query_x[~own],
            labels=task.query_y[~own],
            probabilities=probabilities[~own],
            names=[self.names[character] for character in characters],
        )


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
    scores, tasks, _ = study.draw(generator)
    g = GUARANTEE
    promise = MetaPS(epsilon=g.epsilon, alpha=g.alpha, delta=g.delta).calibrate(scores, tasks)
    (task,) = study._tasks(study.pools.test, 1, generator)
    test = study._scored(task)
    chosen = np.sort(generator.choice(len(test.labels), 16, replace=False))
    plots.pictures_with_sets(
        test.pictures[chosen],
        test.labels[chosen].tolist(),
        promise.predict_set(test.probabilities[chosen]),
        test.names,
        title=f"A new task, {' '.join(test.names)}, after {SHOTS} examples of each: above, the "
        "truth; below, its set",
        path=path,
    )

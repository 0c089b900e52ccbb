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
from metapac.learners.training import train
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
    """A test task with the probabilities of all labels on its queries."""

    task: Task
    probabilities: Array  # (queries, ways)
    own: Array

    @property
    def true(self) -> Array:
        """The probabilities of the true labels."""
        return self.probabilities[np.arange(len(self.task.query_y)), self.task.query_y]

    def error(self, threshold: float) -> float:
        return float(np.mean(self.true < threshold))

    def size(self, threshold: float) -> float:
        return float(np.mean(np.sum(self.probabilities >= threshold, axis=1)))


@dataclass(frozen=True, eq=False)
class Study:
    """A trained learner, and the two pools it has never seen, embedded."""

    pools: Pools[ClassPool]
    names: list[str]
    calibration: PrototypeBank
    test: PrototypeBank
    accuracy: float

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw calibration tasks and test tasks; PS-Test gets queries the sets are not judged on."""
        tasks = list(self._tasks(self.pools.calibration, CALIBRATION_TASKS, rng))
        scores = self.calibration.scores(tasks)
        names = np.repeat([task.name for task in tasks], WAYS * QUERIES)
        tests = [self._scored(task, rng) for task in self._tasks(self.pools.test, TEST_TASKS, rng)]
        return Draw(scores, names, tests)

    def _tasks(self, pool: ClassPool, count: int, rng: np.random.Generator) -> list[Task]:
        return list(pool.tasks(count, ways=WAYS, shots=SHOTS, queries=QUERIES, rng=rng))

    def _scored(self, task: Task, rng: np.random.Generator) -> ScoredTask:
        probabilities = self.test.predict_proba(task)
        true = probabilities[np.arange(len(task.query_y)), task.query_y]
        return ScoredTask(task, probabilities, rng.permutation(true)[:OWN_EXAMPLES])


def prepare(rng: int, progress: Callable[[Epoch], None] | None = None) -> Study:
    """Draw the pictures, train a ProtoNet on a CPU, and embed what it has not seen."""
    x, y, names = glyphs(characters=sum(CHARACTERS.values()), rng=rng)
    pools = split_classes(x, y, **CHARACTERS, rng=rng)
    learner = ProtoNet(Conv4(channels=1, size=28, rng=rng))
    history = train(
        learner,
        pools.train,
        pools.validation,
        ways=WAYS,
        shots=SHOTS,
        epochs=EPOCHS,
        episodes_per_epoch=EPISODES,
        validation_tasks=50,
        device="cpu",
        rng=rng,
        progress=progress,
    )
    banks = learner.bank(pools.calibration.x), learner.bank(pools.test.x)
    return Study(pools, names, *banks, accuracy=history.best.accuracy)


def draw_sets(study: Study, rng: int, path: str | os.PathLike[str]) -> None:
    """Draw some queries of one test task with the sets that the tight split gives them."""
    generator = np.random.default_rng(rng)
    drawn = study.draw(generator)
    g = GUARANTEE
    promise = MetaPS(epsilon=g.epsilon, alpha=g.alpha, delta=g.delta)
    promise.calibrate(drawn.scores, drawn.tasks)
    test = drawn.tests[0]
    assert isinstance(test, ScoredTask)
    names = [study.names[int(study.pools.test.y[i])] for i in test.task.support[::SHOTS]]
    chosen = np.sort(generator.choice(len(test.task.query), 16, replace=False))
    plots.pictures_with_sets(
        test.task.query_x[chosen],
        test.task.query_y[chosen],
        promise.predict_set(test.probabilities[chosen]),
        names,
        title=f"A new task: {' '.join(names)}, five examples of each. Sets miss at most "
        f"{g.epsilon:.0%} on at least {1 - g.alpha:.0%} of such tasks.",
        path=path,
    )

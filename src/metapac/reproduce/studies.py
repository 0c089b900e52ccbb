"""A trained learner's calibration draws: tasks from its pools, or tasks that were scored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metapac.evaluation.draws import Draw, Judged
from metapac.learners.bank import PrototypeBank
from metapac.learners.quantiles import QuantilePredictor
from metapac.reproduce.experiments import Experiment
from metapac.tasks.pools import ClassPool, GroupPool
from metapac.tasks.task import Task

Array = NDArray[Any]
Pool = ClassPool | GroupPool


class Dealer(Protocol):
    """Chooses the tasks of a draw."""

    def deal(
        self, experiment: Experiment, rng: np.random.Generator
    ) -> tuple[Sequence[Task], Sequence[Task]]:
        """Return calibration tasks and test tasks."""


@dataclass(frozen=True, eq=False)
class Independent:
    """Every task is drawn from its pool independently of all others, as in the paper."""

    calibration: Pool
    test: Pool

    def deal(
        self, experiment: Experiment, rng: np.random.Generator
    ) -> tuple[Sequence[Task], Sequence[Task]]:
        e = experiment
        assert e.calibration_examples is not None  # only groups dealt once have a rest
        one, other = rng.spawn(2)
        return (
            self.calibration.tasks(
                e.calibration_tasks, **e.shape, queries=e.calibration_examples, rng=one
            ),
            self.test.tasks(e.test_tasks, **e.shape, queries=e.test_examples, rng=other),
        )


@dataclass(frozen=True, eq=False)
class Distinct:
    """Groups are dealt anew for each draw, some to calibrate on, others to test on, none twice."""

    pool: GroupPool

    def deal(
        self, experiment: Experiment, rng: np.random.Generator
    ) -> tuple[Sequence[Task], Sequence[Task]]:
        e = experiment
        one, other, dealing = rng.spawn(3)
        order = dealing.permutation(len(self.pool.names)).tolist()
        calibration = self.pool.tasks(shots=e.shots, queries=e.calibration_examples, rng=one)
        tests = self.pool.tasks(shots=e.shots, queries=e.test_examples, rng=other)
        border, end = e.calibration_tasks, e.calibration_tasks + e.test_tasks
        return [calibration[i] for i in order[:border]], [tests[i] for i in order[border:end]]


@dataclass(frozen=True, eq=False)
class PoolStudy:
    """Tasks dealt for each draw and scored from the embeddings of their pools."""

    experiment: Experiment
    dealer: Dealer
    calibration: PrototypeBank
    test: PrototypeBank
    predictor: QuantilePredictor
    described: dict[str, Any] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Draw:
        tasks, tests = self.dealer.deal(self.experiment, rng)
        tasks = list(tasks)
        return Draw(
            scores=self.calibration.scores(tasks),
            tasks=np.arange(len(tasks)).repeat([len(task.query) for task in tasks]),
            tests=judged(self.experiment, self.test, list(tests), self.predictor),
            quantiles=predicted(self.predictor, self.calibration, tasks),
        )

    def describe(self) -> dict[str, Any]:
        return self.described


@dataclass(frozen=True, eq=False)
class BankStudy:
    """Tasks that were scored once; a draw takes some of them, none twice.

    Tasks of one draw are as independent as those of the bank, of which they are a random choice;
    draws share tasks.
    """

    experiment: Experiment
    scores: Array  # (tasks, examples), of the true labels
    quantiles: Array  # (tasks,)
    tests: Sequence[Judged]
    described: dict[str, Any] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Draw:
        e = self.experiment
        own = rng.choice(len(self.scores), e.calibration_tasks, replace=False)
        new = rng.choice(len(self.tests), e.test_tasks, replace=False)
        return Draw(
            scores=self.scores[own].ravel(),
            tasks=np.arange(len(own)).repeat(self.scores.shape[1]),
            tests=[self.tests[i] for i in new],
            quantiles=self.quantiles[own],
        )

    def describe(self) -> dict[str, Any]:
        return self.described


def predicted(
    predictor: QuantilePredictor, bank: PrototypeBank, tasks: Sequence[Task]
) -> NDArray[np.float64]:
    """Return the predicted quantile of each task, from its support set alone."""
    return np.asarray(predictor.predict(-bank.leave_one_out(tasks)), np.float64)


def judged(
    experiment: Experiment,
    bank: PrototypeBank,
    tasks: Sequence[Task],
    predictor: QuantilePredictor,
) -> list[Judged]:
    """Return test tasks: of each class some examples are PS-Test's, and the others are judged."""
    own = np.arange(len(tasks[0].query)) % experiment.test_examples < experiment.own_examples
    return [
        Judged.split(bank.predict_proba(task), task.query_y, own=own, quantile=float(quantile))
        for task, quantile in zip(tasks, predicted(predictor, bank, tasks), strict=True)
    ]

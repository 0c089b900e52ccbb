"""Calibration draws of a trained learner: tasks sampled from pools, or tasks scored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac._types import Array
from metapac.evaluation.draws import Draw, ScoredTask
from metapac.learners.bank import PrototypeBank
from metapac.meta_cp.quantiles import QuantilePredictor
from metapac.reproduce.experiments import Experiment
from metapac.tasks.pools import ClassPool, GroupPool
from metapac.tasks.task import Task

TaskPair = tuple[Sequence[Task], Sequence[Task]]


@dataclass(frozen=True, eq=False)
class WithReplacement:
    """Samples every task from its pool independently of the others, as in the paper.

    Parameters
    ----------
    calibration, test : ClassPool or GroupPool
        The pools.
    """

    calibration: ClassPool | GroupPool
    test: ClassPool | GroupPool

    def sample(self, experiment: Experiment, rng: np.random.Generator) -> TaskPair:
        """Return calibration tasks and test tasks.

        Parameters
        ----------
        experiment : Experiment
            The number and shape of the tasks.
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        calibration, test : sequence of Task
            The tasks.
        """
        e = experiment
        assert e.calibration_examples is not None  # None is for groups used once
        for_calibration, for_test = rng.spawn(2)
        return (
            self.calibration.tasks(
                e.calibration_tasks,
                **e.task_shape,
                queries=e.calibration_examples,
                rng=for_calibration,
            ),
            self.test.tasks(e.test_tasks, **e.task_shape, queries=e.test_examples, rng=for_test),
        )


@dataclass(frozen=True, eq=False)
class WithoutReplacement:
    """Divides groups at random into calibration and test tasks; none is used twice in a draw.

    Parameters
    ----------
    pool : GroupPool
        The groups.
    """

    pool: GroupPool

    def sample(self, experiment: Experiment, rng: np.random.Generator) -> TaskPair:
        """Return calibration tasks and test tasks.

        Parameters
        ----------
        experiment : Experiment
            The number and shape of the tasks.
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        calibration, test : sequence of Task
            The tasks.
        """
        e = experiment
        for_calibration, for_test, for_order = rng.spawn(3)
        order = for_order.permutation(len(self.pool.names)).tolist()
        calibration = self.pool.tasks(
            shots=e.shots, queries=e.calibration_examples, rng=for_calibration
        )
        tests = self.pool.tasks(shots=e.shots, queries=e.test_examples, rng=for_test)
        border, end = e.calibration_tasks, e.calibration_tasks + e.test_tasks
        return [calibration[i] for i in order[:border]], [tests[i] for i in order[border:end]]


@dataclass(frozen=True, eq=False)
class PoolStudy:
    """Tasks sampled for each draw and scored from the embeddings of their pools.

    Parameters
    ----------
    experiment : Experiment
        The number and shape of the tasks.
    sampler : WithReplacement or WithoutReplacement
        Samples the tasks.
    calibration, test : PrototypeBank
        Embeddings of the pools.
    predictor : QuantilePredictor, optional
        Predicts the quantiles of Meta-CP; without it Meta-CP is left out.
    description : dict, optional
        Everything that the draws depend on; by default empty.
    """

    experiment: Experiment
    sampler: WithReplacement | WithoutReplacement
    calibration: PrototypeBank
    test: PrototypeBank
    predictor: QuantilePredictor | None = None
    description: dict[str, Any] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return calibration scores and test tasks.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        Draw
            The draw.
        """
        tasks, tests = map(list, self.sampler.sample(self.experiment, rng))
        return Draw(
            scores=self.calibration.scores(tasks),
            tasks=np.arange(len(tasks)).repeat([len(task.query) for task in tasks]),
            tests=score_test_tasks(self.experiment, self.test, tests, self.predictor),
            quantiles=predict_quantiles(self.predictor, self.calibration, tasks),
        )

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on.

        Returns
        -------
        dict
            The description.
        """
        return self.description


@dataclass(frozen=True, eq=False)
class BankStudy:
    """Tasks that were scored once; each draw takes some of them without replacement.

    The tasks of a draw are as independent as those of the bank; different draws share tasks.

    Parameters
    ----------
    experiment : Experiment
        The number of tasks in a draw.
    scores : ndarray, shape (tasks, examples)
        Scores of the true labels of the calibration tasks.
    quantiles : ndarray, shape (tasks,)
        Predicted quantile of each calibration task.
    tests : sequence of ScoredTask
        The test tasks.
    description : dict, optional
        Everything that the draws depend on; by default empty.
    """

    experiment: Experiment
    scores: Array
    quantiles: Array
    tests: Sequence[ScoredTask]
    description: dict[str, Any] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return calibration scores and test tasks.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        Draw
            The draw.
        """
        e = self.experiment
        chosen = rng.choice(len(self.scores), e.calibration_tasks, replace=False)
        chosen_tests = rng.choice(len(self.tests), e.test_tasks, replace=False)
        return Draw(
            scores=self.scores[chosen].ravel(),
            tasks=np.arange(len(chosen)).repeat(self.scores.shape[1]),
            tests=[self.tests[i] for i in chosen_tests],
            quantiles=self.quantiles[chosen],
        )

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on.

        Returns
        -------
        dict
            The description.
        """
        return self.description


def predict_quantiles(
    predictor: QuantilePredictor | None, bank: PrototypeBank, tasks: Sequence[Task]
) -> NDArray[np.float64] | None:
    """Return the predicted quantile of each task, from its support set alone.

    Parameters
    ----------
    predictor : QuantilePredictor or None
        Predicts the quantiles of Meta-CP.
    bank : PrototypeBank
        Embeddings of the tasks' pool.
    tasks : sequence of Task
        The tasks.

    Returns
    -------
    ndarray, shape (tasks,), or None
        The quantiles; None without a predictor.
    """
    if predictor is None:
        return None
    return np.asarray(predictor.predict(-bank.leave_one_out(tasks)), np.float64)


def score_test_tasks(
    experiment: Experiment,
    bank: PrototypeBank,
    tasks: Sequence[Task],
    predictor: QuantilePredictor | None,
) -> list[ScoredTask]:
    """Return scored test tasks; the first queries of each class are the labelled examples.

    Parameters
    ----------
    experiment : Experiment
        The number of labelled examples.
    bank : PrototypeBank
        Embeddings of the tasks' pool.
    tasks : sequence of Task
        The test tasks.
    predictor : QuantilePredictor or None
        Predicts the quantiles of Meta-CP.

    Returns
    -------
    list of ScoredTask
        One for each task.
    """
    e = experiment
    labelled = np.arange(len(tasks[0].query)) % e.test_examples < e.labelled_examples
    predicted = predict_quantiles(predictor, bank, tasks)
    quantiles = [None] * len(tasks) if predicted is None else predicted.tolist()
    return [
        ScoredTask.from_predictions(
            bank.predict_proba(task), task.query_y, labelled=labelled, quantile=quantile
        )
        for task, quantile in zip(tasks, quantiles, strict=True)
    ]

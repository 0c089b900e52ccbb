"""Calibration draws of an experiment: tasks drawn from its pools, or tasks scored once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metapac._types import Array, Progress, ignore_progress
from metapac.datasets.pools import LoadedPools
from metapac.evaluation.draws import Draw, ScoredTask, Study
from metapac.evaluation.pool_sizes import join_groups
from metapac.evaluation.pool_study import PoolStudy
from metapac.learners.protonet import ProtoNet
from metapac.meta_cp.quantiles import QuantilePredictor
from metapac.reproduce.experiments import Experiment
from metapac.reproduce.learner import embed_tasks, move_transformed
from metapac.reproduce.stored import RunScores
from metapac.scoring.stored import Stored
from metapac.tasks.pools import ClassPool
from metapac.tasks.task import Task


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


class LazyStudy:
    """A study that is made before its first draw, so that a finished evaluation makes none.

    Parameters
    ----------
    description : dict
        Everything that the draws depend on.
    make : callable
        Takes ``progress`` and returns the study.
    """

    def __init__(self, description: dict[str, Any], make: Callable[[Progress], Study]) -> None:
        self._description = description
        self._make: Callable[[Progress], Study] | None = make
        self._study: Study | None = None

    @property
    def preferred_backend(self) -> str:
        """Backend of joblib for `evaluate` with workers: that of the study."""
        return getattr(self._prepare(), "preferred_backend", "loky")

    def prepare(self, progress: Progress | None = None) -> None:
        """Make the study and prepare it, unless that has been done.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(stage, done, total)``.
        """
        self._prepare(progress or ignore_progress)

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return a draw of the study.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        Draw
            The draw.
        """
        return self._prepare().draw(rng)

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on.

        Returns
        -------
        dict
            The description.
        """
        return self._description

    def _prepare(self, report: Progress = ignore_progress) -> Study:
        if self._study is None:
            assert self._make is not None
            study = self._make(report)
            if hasattr(study, "prepare"):
                study.prepare(report)
            self._study, self._make = study, None  # workers are sent the study alone
        return self._study


def make_pool_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    predictor: QuantilePredictor,
    stored: RunScores,
    description: dict[str, Any],
) -> PoolStudy:
    """Return draws of new tasks from the pools of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment; its tasks come from "pools", or are "distinct" groups.
    learner : ProtoNet
        Its trained learner.
    data : LoadedPools
        Its data.
    predictor : QuantilePredictor
        Predicts the quantiles of Meta-CP.
    stored : RunScores
        Where the embeddings of the pools are, or will be.
    description : dict
        Everything that the draws depend on.

    Returns
    -------
    PoolStudy
        The study.
    """
    e, distinct = experiment, experiment.tasks_from == "distinct"
    calibration, test = data.pools.calibration, getattr(data.pools, e.new_tasks)
    if distinct:
        calibration = test = join_groups(calibration, test)
        banks = (stored.bank("groups", learner, test.x),) * 2
    else:
        known = stored.bank("calibration", learner, calibration.x)
        is_same = test is calibration
        banks = known, known if is_same else stored.bank("test", learner, test.x)
    return PoolStudy(
        learner,
        calibration,
        test,
        **e.task_shape,
        queries=e.calibration_examples,
        test_queries=e.evaluation_examples,
        labelled=e.labelled_examples,
        tasks=e.calibration_tasks,
        tests=e.test_tasks,
        distinct=distinct,
        predictor=predictor,
        banks=banks,
        description=description,
    )


def make_bank_study(
    experiment: Experiment,
    learner: ProtoNet,
    data: LoadedPools,
    predictor: QuantilePredictor,
    stored: RunScores,
    description: dict[str, Any],
    progress: Progress,
) -> Study:
    """Return draws of tasks that are scored once.

    Parameters
    ----------
    experiment : Experiment
        The experiment; its tasks come from a "bank".
    learner : ProtoNet
        Its trained learner.
    data : LoadedPools
        Its data.
    predictor : QuantilePredictor
        Predicts the quantiles of Meta-CP.
    stored : RunScores
        Where the scores of the tasks are, or will be.
    description : dict
        Everything that the draws depend on.
    progress : callable
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    BankStudy
        The study.
    """
    e, counts = experiment, experiment.bank

    def tasks(pool: ClassPool, count: int, queries: int, rng: int) -> Sequence[Task]:
        near = move_transformed(pool, learner)
        drawn: Sequence[Task] = near.tasks(count, **e.task_shape, queries=queries, rng=rng)
        return drawn

    def score_calibration() -> Stored:
        assert e.calibration_examples is not None  # None is for groups used once
        drawn = tasks(data.pools.calibration, counts[0], e.calibration_examples, 1)
        supports, scores = [], []
        for bank, task in embed_tasks(learner, drawn, fast=True):
            supports.append(bank.leave_one_out([task])[0])
            scores.append(bank.scores([task]))
            progress("calibration tasks", len(scores), counts[0])
        ids = np.arange(len(scores)).repeat([len(part) for part in scores])
        return Stored(embeddings=np.stack(supports), scores=np.concatenate(scores), tasks=ids)

    def score_tests() -> Stored:
        drawn = tasks(data.pools.test, counts[1], e.test_examples, 2)
        supports, tables, labels = [], [], []
        for bank, task in embed_tasks(learner, drawn, fast=True):
            supports.append(bank.leave_one_out([task])[0])
            tables.append(bank.predict_proba(task))
            labels.append(task.query_y)
            progress("test tasks", len(tables), counts[1])
        return Stored(
            embeddings=np.concatenate(tables),
            labels=np.concatenate(labels),
            scores=np.concatenate(supports),
            tasks=np.arange(len(supports)).repeat([len(part) for part in supports]),
        )

    shape, examples = e.task_shape, e.calibration_examples
    known = stored.read_or_compute(
        "calibration-tasks", score_calibration, **shape, count=counts[0], queries=examples
    )
    new = stored.read_or_compute(
        "test-tasks", score_tests, **shape, count=counts[1], queries=e.test_examples
    )
    assert known.embeddings is not None
    assert known.scores is not None
    return BankStudy(
        e,
        known.scores.reshape(counts[0], -1),
        np.array([*_predict_each(predictor, known.embeddings)]),
        _scored_tests(e, new, predictor),
        description,
    )


def _predict_each(predictor: QuantilePredictor, supports: Array) -> Iterator[float]:
    """Yield the quantile of each task, one at a time: a batch would round differently."""
    for support in supports:
        yield float(predictor.predict(-support[None])[0])


def _scored_tests(e: Experiment, stored: Stored, predictor: QuantilePredictor) -> list[ScoredTask]:
    """Return the test tasks; the first queries of each class are the labelled examples."""
    assert stored.embeddings is not None
    assert stored.labels is not None
    assert stored.scores is not None
    count = e.bank[1]
    tables = np.split(stored.embeddings, count)
    labels = np.split(stored.labels, count)
    quantiles = _predict_each(predictor, stored.scores.reshape(count, -1))
    labelled = np.arange(len(labels[0])) % e.test_examples < e.labelled_examples
    return [
        ScoredTask.from_predictions(table, y, labelled=labelled, quantile=quantile)
        for table, y, quantile in zip(tables, labels, quantiles, strict=True)
    ]

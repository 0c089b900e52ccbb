"""Scores of the tasks of a pool: from its embeddings, or by adapting to each task in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from metapac._types import Array, Floats
from metapac.learners.protocols import Learner, adapt_learner
from metapac.scoring.functions import ScoreFunction
from metapac.scoring.tasks import score_matrix, score_tasks
from metapac.tasks.task import Task

Score = str | ScoreFunction | None


class PoolScores(Protocol):
    """Scores of tasks of one pool."""

    @property
    def thread_safe(self) -> bool:
        """Whether threads may score tasks at the same time."""

    def true_scores(self, tasks: Sequence[Task]) -> Array:
        """Return the scores of the true labels of all queries, to calibrate on.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        ndarray, shape (n,)
            The scores in order of the tasks, as `metapac.scoring.score_tasks` lowers them.
        """

    def all_scores(self, tasks: Sequence[Task]) -> list[Floats]:
        """Return the scores of all labels of the queries of each task, as in deployment.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        list of ndarray, shape (q, classes)
            One for each task.
        """


@dataclass(frozen=True, eq=False)
class BankScores:
    """Scores from the embeddings of a pool, computed once for all of its tasks.

    Parameters
    ----------
    learner : Learner
        The learner.
    bank : object
        What ``learner.bank(pool.x)`` returns.
    score : str or ScoreFunction, optional
        Score function, as in `metapac.scoring.score_tasks`.
    """

    learner: Learner
    bank: Any
    score: Score = None

    @property
    def thread_safe(self) -> bool:
        """Whether the bank says that threads may share it."""
        return bool(getattr(self.bank, "thread_safe", False))

    def true_scores(self, tasks: Sequence[Task]) -> Array:
        """Return the scores of the true labels of all queries, to calibrate on.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        ndarray, shape (n,)
            The scores in order of the tasks.
        """
        if self.score is None:
            return np.asarray(self.bank.scores(tasks))
        return score_tasks(_WithBank(self.learner, self.bank), tasks, score=self.score)[0]

    def all_scores(self, tasks: Sequence[Task]) -> list[Floats]:
        """Return the scores of all labels of the queries of each task.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        list of ndarray, shape (q, classes)
            One for each task.
        """
        if self.score is None and hasattr(self.bank, "predict_tasks"):
            tables: list[Floats] = self.bank.predict_tasks(tasks)
            return tables
        if self.score is None:
            return [self.bank.predict_proba(task) for task in tasks]
        options: dict[str, Any] = {"score": self.score, "bank": self.bank}
        return [score_matrix(self.learner, task, **options) for task in tasks]


@dataclass(frozen=True, eq=False)
class AdaptedScores:
    """Scores of a learner that is adapted to each task in turn.

    Parameters
    ----------
    learner : Learner
        The learner.
    score : str or ScoreFunction, optional
        Score function, as in `metapac.scoring.score_tasks`.

    Attributes
    ----------
    thread_safe : bool
        False: not every learner can be adapted in several threads.
    """

    thread_safe: ClassVar[bool] = False

    learner: Learner
    score: Score = None

    def true_scores(self, tasks: Sequence[Task]) -> Array:
        """Return the scores of the true labels of all queries, to calibrate on.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        ndarray, shape (n,)
            The scores in order of the tasks.
        """
        return score_tasks(self.learner, tasks, score=self.score)[0]

    def all_scores(self, tasks: Sequence[Task]) -> list[Floats]:
        """Return the scores of all labels of the queries of each task.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        list of ndarray, shape (q, classes)
            One for each task.
        """
        return [score_matrix(self.learner, task, score=self.score) for task in tasks]


class _WithBank:
    """A learner whose bank is known."""

    def __init__(self, learner: Learner, bank: Any) -> None:
        self._learner, self._bank = learner, bank

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Any:
        return adapt_learner(self._learner, support_x, support_y, classes=classes)

    def bank(self, _x: Any) -> Any:
        return self._bank


def score_pool(learner: Learner, pool: Any, *, score: Score = None, bank: Any = None) -> PoolScores:
    """Return the scores of a pool, from its embeddings if the learner has them.

    Parameters
    ----------
    learner : Learner
        The learner.
    pool : ClassPool, GroupPool or DomainPool
        The pool. Tasks of a pool with a transform have data of their own, so they cannot share
        embeddings.
    score : str or ScoreFunction, optional
        Score function, as in `metapac.scoring.score_tasks`.
    bank : object, optional
        Embeddings of the pool; by default ``learner.bank(pool.x)``.

    Returns
    -------
    PoolScores
        The scores.
    """
    if bank is not None:
        return BankScores(learner, bank, score)
    if has_bank(learner, pool):
        return BankScores(learner, learner.bank(pool.x), score)  # type: ignore[attr-defined]
    return AdaptedScores(learner, score)


def has_bank(learner: Learner, pool: Any) -> bool:
    """Return whether the tasks of a pool can be scored from its embeddings.

    Parameters
    ----------
    learner : Learner
        The learner.
    pool : ClassPool, GroupPool or DomainPool
        The pool.

    Returns
    -------
    bool
        Whether the learner has a method ``bank`` and the tasks of the pool share its data.
    """
    return hasattr(learner, "bank") and getattr(pool, "transform", None) is None

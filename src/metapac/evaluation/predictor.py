"""Meta-CP's quantile predictor for a study, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac import _optional
from metapac._types import Floats
from metapac.evaluation.pool_scores import BankScores, PoolScores, has_bank
from metapac.exceptions import MissingExtra
from metapac.learners.protocols import Learner
from metapac.tasks.task import Task

if TYPE_CHECKING:
    from metapac.meta_cp.quantiles import QuantilePredictor

TASKS = 1000  # that the predictor is trained on, as in the stored experiments


def predict_quantiles(
    predictor: QuantilePredictor | None, scores: PoolScores, tasks: Sequence[Task]
) -> Floats | None:
    """Return the predicted quantile of each task, from its support set alone.

    Parameters
    ----------
    predictor : QuantilePredictor or None
        Predicts the quantiles of Meta-CP.
    scores : PoolScores
        Scores of the tasks' pool.
    tasks : sequence of Task
        The tasks.

    Returns
    -------
    ndarray, shape (tasks,), or None
        The quantiles; None without a predictor.
    """
    if predictor is None:
        return None
    return np.asarray(predictor.predict(leave_one_out(scores, tasks)), np.float64)


def leave_one_out(scores: PoolScores, tasks: Sequence[Task]) -> Floats:
    """Return the nonconformity of support examples: minus their scores, each left out in turn.

    Parameters
    ----------
    scores : PoolScores
        Scores of the tasks' pool, from its embeddings.
    tasks : sequence of Task
        The tasks, with equally many support examples.

    Returns
    -------
    ndarray, shape (tasks, support)
        The nonconformity.
    """
    assert isinstance(scores, BankScores)  # find_obstacle names all others
    return -np.asarray(scores.bank.leave_one_out(tasks))


def find_obstacle(
    learner: Learner, pool: Any, shape: Mapping[str, Any], banks: Any = None
) -> str | None:
    """Return why Meta-CP cannot be run with a learner on tasks of some shape, if it cannot.

    Parameters
    ----------
    learner : Learner
        The learner.
    pool : ClassPool, GroupPool or DomainPool
        The test pool.
    shape : mapping of str to int or sequence of int
        ``shots`` and, if tasks are not groups, ``ways``.
    banks : tuple, optional
        Embeddings of the pools, if they were given.

    Returns
    -------
    str or None
        The reason; None if there is none.
    """
    if banks is None and not has_bank(learner, pool):
        return (
            "its quantile predictor needs the score of each support example when that example is "
            "left out, and this learner has no bank that computes them"
        )
    if any(np.ndim(choices) and len(choices) > 1 for choices in shape.values()):
        return "its quantile predictor needs tasks with equally many support examples"
    if np.max(shape["shots"]) < 2:
        return (
            "its quantile predictor leaves one support example out, and with one shot its class "
            "then has none"
        )
    try:
        _optional.require("torch", extra="torch", purpose="Meta-CP")
    except MissingExtra as error:
        return str(error)
    return None


def fit_predictor(
    scores: PoolScores, pool: Any, shape: Mapping[str, Any], *, queries: int, epsilon: float
) -> QuantilePredictor:
    """Return a quantile predictor, trained on tasks of a pool.

    Parameters
    ----------
    scores : PoolScores
        Scores of that pool, from its embeddings.
    pool : ClassPool or GroupPool
        The pool, used neither for calibration nor for test.
    shape : mapping of str to int
        ``shots`` and, if tasks are not groups, ``ways``.
    queries : int
        Number of query examples, of each class or in all.
    epsilon : float
        Miss rate allowed.

    Returns
    -------
    QuantilePredictor
        The predictor. It depends on the scores alone.
    """
    from metapac.meta_cp.quantiles import QuantilePredictor

    tasks = list(pool.tasks(TASKS, **shape, queries=queries, rng=0))
    names = np.arange(len(tasks)).repeat([len(task.query) for task in tasks])
    predictor = QuantilePredictor(epsilon=epsilon, rng=0)
    targets = predictor.targets(scores.true_scores(tasks), names)
    return predictor.fit(leave_one_out(scores, tasks), targets)

"""Accuracy of a learner over tasks, with its confidence interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Floats, Seed, as_whole_number
from metapac.fewshot.adapters import Learner, adapt_learner
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.tasks import Task
from metapac.verdict import clopper_pearson_interval


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on new tasks, with a 95 % confidence interval.

    Attributes
    ----------
    value : float
        Mean over tasks of the fraction of queries whose highest-scored label is the true one.
    low : float
        Lower end of the interval; 0 for a single task.
    high : float
        Upper end of the interval; 1 for a single task.
    tasks : int
        Number of tasks.

    The interval is Student's t over the accuracies of the tasks, clipped to [0, 1], and at least as
    wide as the Clopper-Pearson interval of all queries: if no query is wrong, it is not a single
    point. It covers new tasks of the same pool, not other pools or another training run.
    """

    value: float
    low: float
    high: float
    tasks: int

    def __str__(self) -> str:
        value, low, high = (f"{100 * share:.1f}" for share in (self.value, self.low, self.high))
        return f"{value} % ({low} to {high} %, {self.tasks} task{'s' * (self.tasks != 1)})"


def accuracy(
    learner: Learner,
    pool: ClassPool | GroupPool,
    *,
    ways: int = 5,
    shots: int = 5,
    queries: int = 5,
    tasks: int = 400,
    rng: Seed = 0,
) -> Accuracy:
    """Return the accuracy of a learner on the queries of random tasks.

    Parameters
    ----------
    learner : Learner
        The learner. One with a method ``bank(x)`` embeds each example of the pool once, if the
        tasks use at least as many examples as the pool has.
    pool : ClassPool or GroupPool
        Pool that the tasks are drawn from.
    ways : int, default 5
        Number of classes in a task; ignored for a `GroupPool`.
    shots : int, default 5
        Number of support examples, for each class or for the group.
    queries : int, default 5
        Number of query examples, for each class or for the group.
    tasks : int, default 400
        Number of tasks.
    rng : int, numpy.random.Generator or None, default 0
        Seed.

    Returns
    -------
    Accuracy
        The mean over tasks, with a 95 % confidence interval.

    Raises
    ------
    InvalidInput
        If the pool has too few classes or examples.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import PrototypeLearner, accuracy, ClassPool
    >>> y = np.repeat(np.arange(8), 10)
    >>> pool = ClassPool(y[:, None] + np.random.default_rng(0).normal(size=(80, 1)), y)
    >>> print(accuracy(PrototypeLearner(), pool, ways=2, tasks=50))
    92.0 % (87.1 to 96.9 %, 50 tasks)
    """
    count = as_whole_number("tasks", tasks)
    if isinstance(pool, GroupPool):
        drawn = pool.tasks(count, shots=shots, queries=queries, rng=rng)
    else:
        drawn = pool.tasks(count, ways=ways, shots=shots, queries=queries, rng=rng)
    predict = _prediction(learner, pool, drawn[0], count)
    right = [predict(task).argmax(1) == task.query_y for task in drawn]
    low, high = _interval(right)
    return Accuracy(float(np.mean([task.mean() for task in right])), low, high, count)


def _prediction(
    learner: Learner, pool: ClassPool | GroupPool, first: Task, count: int
) -> Callable[[Task], Floats]:
    """Return what scores the labels of a task: the bank of the pool where that embeds less."""
    examples = len(first.support) + len(first.query)
    if hasattr(learner, "bank") and first.x is pool.x and count * examples >= len(pool.y):
        scored: Callable[[Task], Floats] = learner.bank(pool.x).predict_proba
        return scored

    def adapt(task: Task) -> Floats:
        scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)
        return np.asarray(scorer.predict_proba(task.query_x))

    return adapt


def _interval(right: Sequence[NDArray[np.bool_]]) -> tuple[float, float]:
    """Return the 95 % interval of the mean over tasks, from whether each query is right."""
    if len(right) == 1:
        return 0.0, 1.0
    shares = np.array([task.mean() for task in right])
    error = float(shares.std(ddof=1) / np.sqrt(len(shares)))
    half = float(special.stdtrit(len(shares) - 1, 0.975)) * error
    queries = np.concatenate(right)
    low, high = clopper_pearson_interval(queries.sum(), len(queries), confidence=0.95)
    mean = float(shares.mean())
    return max(0.0, min(float(low), mean - half)), min(1.0, max(float(high), mean + half))

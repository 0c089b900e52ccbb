"""Stored vectors scored by a linear head: one adapted task, or many tasks of a pool at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metapac._types import Counts, Doubles, Floats
from metapac.learners import _checks
from metapac.learners.linear_heads import LinearHead
from metapac.learners.protocols import BoundedScorer
from metapac.scoring.functions import ScoreFunction
from metapac.tasks.batch import TaskBatch, batches
from metapac.tasks.task import Task

# Vectors gathered at a time: 2**22 doubles are 32 MiB.
_WORK = 2**22


def one_hot_labels(labels: Counts, classes: int) -> Doubles:
    """Return label indicators.

    Parameters
    ----------
    labels : ndarray of int, shape (...)
        Labels.
    classes : int
        Number of labels.

    Returns
    -------
    ndarray, shape (..., classes)
        1 where an example has a label, else 0.
    """
    return np.asarray(labels[..., None] == np.arange(classes), dtype=np.float64)


def softmax(logits: Floats) -> Doubles:
    """Return probabilities in float64; the largest logit of a row must be finite.

    Parameters
    ----------
    logits : ndarray, shape (..., classes)
        Logits; ``-inf`` gives probability 0.

    Returns
    -------
    ndarray, shape (..., classes)
        The probabilities.
    """
    odds = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    return np.asarray(odds / odds.sum(-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class VectorScorer(BoundedScorer):
    """A learner on vectors adapted to one task.

    Parameters
    ----------
    head : LinearHead
        Head of one task.
    """

    head: LinearHead

    def predict_proba(self, x: Any) -> Doubles:
        return softmax(self.bounded_logits(x)[0])

    def lowered_scores(self, x: Any, y: Any) -> Floats:
        return _lowered(*self.bounded_logits(x), np.asarray(y))

    def bounded_logits(self, x: Any) -> tuple[Doubles, Doubles]:
        query = _checks.as_vectors("x", x, columns=self.head.weights.shape[2])
        logits, error = self.head.logits(query[None])
        return logits[0], error[0]


class VectorBank:
    """The vectors of a pool, scored for many tasks at a time.

    Parameters
    ----------
    fit : callable
        Takes support vectors (t, s, d) and label indicators (t, s, classes) and returns a
        `LinearHead`.
    x : array_like, shape (n, d)
        Vectors of the pool; rows are read when a task needs them.

    Attributes
    ----------
    thread_safe : bool
        True: nothing changes after the bank is made, so that threads may share it.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners import PrototypeLearner
    >>> from metapac.tasks import Task
    >>> z = np.array([[0.0], [2.0], [0.5]])
    >>> task = Task("ohio", z, support=[0, 1], support_y=[0, 1], query=[2], query_y=[0], classes=2)
    >>> PrototypeLearner().bank(z).predict_proba(task).round(3).tolist()
    [[0.881, 0.119]]
    """

    thread_safe = True

    def __init__(self, fit: Callable[[Doubles, Doubles], LinearHead], x: Any) -> None:
        self.fit = fit
        self.x = x
        self.width = _checks.count_columns("x", x)

    def scores(self, tasks: Sequence[Task]) -> Floats:
        """Return the scores of the true labels of all queries, to calibrate on.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        ndarray, shape (n,)
            The scores in order of the tasks: lower bounds, for any rounding, on the probability
            that ``predict_proba`` returns, here or after ``adapt``.
        """
        parts = []
        for batch in self._batches(tasks):
            logits, error = self._logits(batch)
            flat = logits.reshape(-1, logits.shape[2])
            parts.append(_lowered(flat, error.ravel(), batch.query_y.ravel()))
        return np.concatenate(parts or [np.empty(0)])

    def predict_proba(self, task: Task) -> Doubles:
        """Return the probability of each label for each query of a task.

        Parameters
        ----------
        task : Task
            Task of the pool.

        Returns
        -------
        ndarray, shape (q, classes)
            The probabilities; exactly 0 for labels absent from the support set.
        """
        return self.predict_tasks([task])[0]

    def predict_tasks(self, tasks: Sequence[Task]) -> list[Doubles]:
        """Return the probability of each label for each query of each task.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        list of ndarray, shape (q, classes)
            What ``predict_proba`` returns for each task.
        """
        return [softmax(logits) for logits, _ in self.bounded_logits(tasks)]

    def bounded_logits(self, tasks: Sequence[Task]) -> list[tuple[Doubles, Doubles]]:
        """Return the logits of the queries of each task, and a bound on their rounding error.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        list of tuple of ndarray
            For each task the logits, of shape (q, classes), and their error, of shape (q,).
        """
        pairs: list[tuple[Doubles, Doubles]] = []
        for batch in self._batches(tasks):
            pairs.extend(zip(*self._logits(batch), strict=True))
        return pairs

    def leave_one_out(self, tasks: Sequence[Task]) -> Doubles:
        """Return the probability of each support example's label when the example is left out.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool with equally many support examples.

        Returns
        -------
        ndarray, shape (tasks, s)
            The probabilities; 0 for a label with no other example.
        """
        _checks.check_one_support_size(tasks)
        return np.stack([self._leave_one_out(task) for task in tasks])

    def _leave_one_out(self, task: Task) -> Doubles:
        """Return the probabilities of one task, (s,)."""
        self._check(task)
        size = len(task.support)
        left_out = np.arange(size)
        others = np.array([np.delete(left_out, i) for i in left_out], dtype=np.int64)  # (S, S - 1)
        alone = (task.support_y[others] != task.support_y[:, None]).all(1)  # no other of its label
        result = np.zeros(size)
        step = max(1, _WORK // (max(1, size - 1) * self.width))
        for part in np.array_split(np.flatnonzero(~alone), max(1, -(-size // step))):
            if len(part):
                labels = one_hot_labels(task.support_y[others[part]], task.classes)
                head = self.fit(self._gather(task.support[others[part]]), labels)
                logits, _ = head.logits(self._gather(task.support[part][:, None]))
                own = task.support_y[part][:, None, None]
                result[part] = np.take_along_axis(softmax(logits), own, 2).ravel()
        return result

    def _batches(self, tasks: Sequence[Task]) -> Iterator[TaskBatch]:
        """Yield consecutive tasks of one shape, as many as fit in the workspace."""
        for batch in batches(tasks, self._check):
            examples = batch.support.shape[1] + batch.query.shape[1]
            yield from batch.split(max(1, _WORK // (examples * self.width)))

    def _check(self, task: Task) -> None:
        _checks.check_pool_of_task(task, self.x, _checks.count_examples(self.x))

    def _logits(self, batch: TaskBatch) -> tuple[Doubles, Doubles]:
        """Return the logits of tasks of one shape, (T, Q, classes), and their error, (T, Q)."""
        labels = one_hot_labels(batch.support_y, batch.classes)
        return self.fit(self._gather(batch.support), labels).logits(self._gather(batch.query))

    def _gather(self, positions: Counts) -> Doubles:
        """Return the vectors at positions of any shape, in float64."""
        rows = _checks.as_vectors("x", self.x[positions.ravel()], columns=self.width)
        return rows.reshape(*positions.shape, self.width)


def _lowered(logits: Doubles, error: Doubles, labels: Counts) -> Floats:
    """Return lower bounds on the probabilities of labels; two logits are off by an error each."""
    return ScoreFunction().lower(logits, labels, kind="logits", slack=2 * error)

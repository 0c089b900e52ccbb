"""Embeddings of a pool, from which a ProtoNet scores any number of tasks.

A prototype is a mean of pool embeddings, so every distance to it consists of inner products of
pool embeddings. With their Gram matrix at hand, scoring a task adds up a few of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from metapac._types import Counts, Floats
from metapac.learners import _checks
from metapac.learners.prototypes import (
    distance_error,
    logit_error,
    norms,
    prototype_logits,
    worst_case_logits,
)
from metapac.tasks.batch import TaskBatch, batches
from metapac.tasks.task import Task

GIB = 2**30
# Size of the workspace in numbers: what fits in the cache of a CPU, what keeps a GPU busy.
_WORK = {"cpu": 2**20, "cuda": 2**28}
# Reading whole rows of the Gram matrix takes as long as looking up one number in this many.
_FEW = 4


class PrototypeBank:
    """The embeddings of a pool, computed once for all of its tasks.

    Parameters
    ----------
    embeddings : Tensor or ndarray, shape (n, d)
        Embedding of each example of the pool.
    x : array_like, optional
        Data of the pool; tasks of other data are then rejected.
    memory : int, optional
        Bytes that the Gram matrix may take. If it does not fit, distances are computed from the
        embeddings.

    Attributes
    ----------
    thread_safe : bool
        True: nothing changes after the bank is made, so that threads may share it.

    Raises
    ------
    InvalidInput
        If an embedding is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.learners.bank import PrototypeBank
    >>> from metapac.tasks import Task
    >>> z = np.array([[0.0], [2.0], [0.5]])
    >>> task = Task("ohio", z, support=[0, 1], support_y=[0, 1], query=[2], query_y=[0], classes=2)
    >>> PrototypeBank(z, z).predict_proba(task).astype(float).round(3).tolist()
    [[0.881, 0.119]]
    """

    thread_safe = True

    def __init__(
        self, embeddings: Tensor | NDArray[Any], x: Any = None, *, memory: int = 8 * GIB
    ) -> None:
        z = torch.as_tensor(embeddings).float()
        _checks.check_finite_embeddings(z)
        self.embeddings = z  # (n, d)
        self.x = x
        fits = 8 * len(z) ** 2 <= memory
        self.gram = gram_matrix(z) if fits else None  # (n, n)
        self.norms = norms(z)  # (n,)
        if self.gram is not None:  # of centred vectors, which may be longer or shorter
            self.norms = self.norms.maximum(self.gram.diagonal().sqrt())

    def scores(self, tasks: Sequence[Task]) -> Floats:
        """Return the scores of the true labels of all queries, to calibrate on.

        Parameters
        ----------
        tasks : sequence of Task
            Tasks of the pool.

        Returns
        -------
        ndarray, shape (n,)
            The scores in order of the tasks: float32 lower bounds, for any rounding, on the
            probability that ``predict_proba`` returns, here or after `ProtoNet.adapt`. See
            `metapac.learners.protocols.lower_scores`.
        """
        parts = [self._lowered_scores(batch) for batch in self._batches(tasks)]
        return np.concatenate(parts or [np.empty(0, np.float32)])

    def leave_one_out(self, tasks: Sequence[Task]) -> NDArray[np.float32]:
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
        if not isinstance(tasks, TaskBatch) or not len(tasks):
            _checks.check_one_support_size(tasks)
        parts = []
        for batch in self._batches(tasks, query="support"):
            rows = self._rows(batch)
            logits = self._logits(rows, batch.classes)  # (T, classes, S)
            parts.append(leave_one_out_probabilities(logits, rows.support_y).float())
        return torch.cat(parts).cpu().numpy()

    def predict_proba(self, task: Task) -> NDArray[np.float32]:
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

    def predict_tasks(self, tasks: Sequence[Task]) -> list[NDArray[np.float32]]:
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
        tables: list[NDArray[np.float32]] = []
        for batch in self._batches(tasks):
            logits = self._logits(self._rows(batch), batch.classes)
            probabilities = logits.softmax(1).mT  # (T, Q, classes)
            tables.extend(probabilities.float().cpu().numpy())
        return tables

    def bounded_logits(self, tasks: Sequence[Task]) -> list[tuple[Floats, Floats]]:
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
        pairs: list[tuple[Floats, Floats]] = []
        for batch in self._batches(tasks):
            rows = self._rows(batch)
            logits = self._logits(rows, batch.classes)  # (T, classes, Q)
            error = logit_error(logits, self._distance_error(rows))  # (T, Q)
            pairs.extend(zip(logits.mT.cpu().numpy(), error.cpu().numpy(), strict=True))
        return pairs

    def _batches(self, tasks: Iterable[Task], query: str = "query") -> Iterator[TaskBatch]:
        """Yield consecutive tasks of one shape, as many as fit in the workspace."""
        work = _WORK.get(self.embeddings.device.type, _WORK["cpu"])
        for batch in batches(tasks, self._check, query=query):
            yield from batch.split(max(1, work // self._floats(batch)))

    def _check(self, task: Task) -> None:
        _checks.check_pool_of_task(task, self.x, len(self.embeddings))

    def _floats(self, batch: TaskBatch) -> int:
        """Return how many numbers the logits of one task take to compute."""
        (n, width), classes = self.embeddings.shape, batch.classes
        shots, queries = len(batch.support[0]), len(batch.query[0])
        if self.gram is None:
            return (shots + queries * (1 + classes)) * width
        columns = shots + queries
        if _FEW * columns < n:
            return (shots + classes) * columns
        return classes * (n + columns)

    def _lowered_scores(self, batch: TaskBatch) -> Floats:
        """Return the calibration scores of tasks of one shape, (T * Q,)."""
        rows, true = self._rows(batch), self._tensor(batch.query_y)  # (T, Q)
        logits = self._logits(rows, batch.classes)
        worst = worst_case_logits(logits, true, self._distance_error(rows))
        scores = worst.softmax(1).gather(1, true.unsqueeze(1)).flatten().float()
        # Rounded down, as `metapac.learners.protocols.lower_scores` does, but on the device.
        return np.asarray(scores.nextafter(scores.new_zeros(())).cpu().numpy())

    def _logits(self, rows: _Rows, classes: int) -> Tensor:
        """Return the float64 logits of all labels, (T, classes, Q)."""
        support, support_y, query = rows
        if self.gram is not None:
            return gram_logits(self.gram, support, support_y, query, classes)
        z = self.embeddings
        return prototype_logits(z[support].double(), support_y, z[query].double(), classes).mT

    def _distance_error(self, rows: _Rows) -> Tensor:
        """Return the bound on the error of a distance for each query, (T, Q)."""
        norms, width = self.norms, self.embeddings.shape[1]
        return distance_error(norms[rows.query], norms[rows.support], width)

    def _rows(self, batch: TaskBatch) -> _Rows:
        return _Rows(*map(self._tensor, (batch.support, batch.support_y, batch.query)))

    def _tensor(self, rows: Counts) -> Tensor:
        """Return rows of a batch on the device; a row that all tasks share is sent once."""
        sent = np.require(rows[:1] if rows.strides[0] == 0 else rows, np.int64, ["C", "W"])
        return torch.from_numpy(sent).to(self.embeddings.device).expand(len(rows), -1)


class _Rows(NamedTuple):
    """What logits of tasks of one shape depend on, on the device."""

    support: Tensor  # (T, S)
    support_y: Tensor  # (T, S)
    query: Tensor  # (T, Q)


def gram_matrix(z: Tensor) -> Tensor:
    """Return the inner products of centred embeddings in float64.

    Distances are differences of inner products. float32 would lose the digits that distinguish
    two prototypes far from the origin; centring changes no distance and saves more digits.

    Parameters
    ----------
    z : Tensor, shape (n, d)
        Embeddings.

    Returns
    -------
    Tensor, shape (n, n)
        The Gram matrix.
    """
    wide = z.double()
    wide = wide - wide.mean(0)
    return wide @ wide.T


def gram_logits(
    gram: Tensor, support: Tensor, support_y: Tensor, query: Tensor, classes: int
) -> Tensor:
    """Return prototype logits computed from inner products alone.

    Parameters
    ----------
    gram : Tensor, shape (n, n)
        Gram matrix of the pool.
    support : Tensor of int, shape (t, s)
        Positions of the support examples.
    support_y : Tensor of int, shape (t, s)
        Labels of the support examples.
    query : Tensor of int, shape (t, q)
        Positions of the query examples.
    classes : int
        Number of labels.

    Returns
    -------
    Tensor, shape (t, classes, q)
        The logits: -|q - p|^2 = 2 q.p - |p|^2 - |q|^2 with p the mean of a label's support.
    """
    tasks, queries = query.shape
    bags = (support_y + classes * torch.arange(tasks, device=gram.device)[:, None]).flatten()
    counts = torch.bincount(bags, minlength=tasks * classes)  # (T * classes,)
    order, offsets = bags.argsort(stable=True), counts.cumsum(0) - counts
    columns = torch.cat([query, support], 1)  # (T, Q + S)
    sums = _sum_products(gram, support, columns, order, offsets)
    counts = counts.view(tasks, -1, 1)
    products = sums.div_(counts.clamp(min=1))  # with each prototype, (T, classes, Q + S)
    own = products[:, :, queries:].gather(1, support_y.unsqueeze(1))  # s.p, (T, 1, S)
    squares = embedding_bag(order, own.view(-1, 1), offsets, mode="mean")  # the mean of s.p is p.p
    lengths = gram.diagonal().contiguous()[query]  # lookups in the diagonal itself are slow
    logits = (2 * products[:, :, :queries]).sub_(squares.view(tasks, -1, 1))
    return logits.sub_(lengths.unsqueeze(1)).masked_fill_(counts == 0, -torch.inf)


def _sum_products(
    gram: Tensor, support: Tensor, columns: Tensor, order: Tensor, offsets: Tensor
) -> Tensor:
    """Return sums of inner products of columns with a label's support, (T, classes, columns).

    The label's examples are ``order`` from its offset to the next; no examples give zeros.
    """
    tasks, width = columns.shape
    classes = len(offsets) // tasks
    if _FEW * width < len(gram):  # look up what is needed
        needed = gram[support.unsqueeze(2), columns.unsqueeze(1)]  # (T, S, columns)
        sums = embedding_bag(order, needed.flatten(0, 1), offsets, mode="sum")
        return sums.view(tasks, classes, width)
    rows = embedding_bag(support.flatten()[order], gram, offsets, mode="sum")  # (T * classes, n)
    index = columns.unsqueeze(1).expand(-1, classes, -1)
    return rows.view(tasks, classes, -1).gather(2, index)


def leave_one_out_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the probability of each support example's label when the example is left out.

    Parameters
    ----------
    logits : Tensor, shape (t, classes, s)
        Logits of the support examples, from the whole support set.
    labels : Tensor of int, shape (t, s)
        Labels of the support examples.

    Returns
    -------
    Tensor, shape (t, s)
        The probabilities; 0 for a label with no other example.

    Notes
    -----
    Without s, the prototype of n examples moves from p to (n p - s) / (n - 1), which is
    n / (n - 1) times as far from s. The prototypes of other labels do not move.
    """
    others = (labels.unsqueeze(1) == labels.unsqueeze(2)).sum(1).to(logits.dtype) - 1  # (T, S)
    whole = logits.gather(1, labels.unsqueeze(1)).squeeze(1)  # (T, S)
    apart = whole * ((others + 1) / others.clamp(min=1)).square()
    changed = logits.scatter(1, labels.unsqueeze(1), apart.unsqueeze(1))
    probabilities = changed.softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return torch.where(others > 0, probabilities, 0.0)

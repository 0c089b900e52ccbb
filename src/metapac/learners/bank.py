"""Embeddings of a pool, from which a ProtoNet scores any number of tasks.

A prototype is a mean of pool embeddings, so every distance to it consists of inner products of
pool embeddings. With their Gram matrix at hand, scoring a task adds up a few of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from metapac._types import Floats
from metapac.learners import _checks
from metapac.learners._inference import worst_case_scores
from metapac.learners.prototypes import (
    distance_error,
    logit_error,
    norms,
    prototype_logits,
    worst_case_logits,
)
from metapac.tasks.task import Task

GIB = 2**30
# Size of the workspace in numbers: what fits in the cache of a CPU, what keeps a GPU busy.
_WORK = {"cpu": 2**20, "cuda": 2**28}


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
        return np.concatenate([self._lowered_scores(chunk) for chunk in self._chunks(tasks)])

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
        _checks.check_one_support_size(tasks)
        parts = []
        for chunk in self._chunks(tasks, "support"):
            labels = self._stack(chunk, "support_y")  # (T, S)
            logits = self._logits(chunk, "support")  # (T, classes, S)
            parts.append(leave_one_out_probabilities(logits, labels).float())
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
        self._shape(task)
        probabilities = self._logits([task], "query")[0].softmax(0).T
        return np.asarray(probabilities.float().cpu().numpy())

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
        for chunk in self._chunks(tasks):
            logits = self._logits(chunk, "query")  # (T, classes, Q)
            error = logit_error(logits, self._distance_error(chunk))  # (T, Q)
            pairs.extend(zip(logits.mT.cpu().numpy(), error.cpu().numpy(), strict=True))
        return pairs

    def _distance_error(self, tasks: list[Task]) -> Tensor:
        """Return the bound on the error of a distance for each query, (T, Q)."""
        query, support = self._stack(tasks, "query"), self._stack(tasks, "support")
        return distance_error(self.norms[query], self.norms[support], self.embeddings.shape[1])

    def _chunks(self, tasks: Iterable[Task], part: str = "query") -> Iterator[list[Task]]:
        """Yield consecutive tasks of one shape, as many as fit in the workspace."""
        work = _WORK.get(self.embeddings.device.type, _WORK["cpu"])
        for (shots, queries, classes), group in groupby(tasks, partial(self._shape, part=part)):
            size = max(1, work // self._floats(shots, queries, classes))
            same = list(group)
            yield from (same[start : start + size] for start in range(0, len(same), size))

    def _shape(self, task: Task, part: str = "query") -> tuple[int, int, int]:
        """Return the shape that tasks scored together must share; check the pool of the task."""
        _checks.check_pool_of_task(task, self.x, len(self.embeddings))
        return len(task.support), len(getattr(task, part)), task.classes

    def _floats(self, shots: int, queries: int, classes: int) -> int:
        n, d = self.embeddings.shape
        if self.gram is not None:
            return classes * (n + queries)
        return (shots + queries * (1 + classes)) * d

    def _lowered_scores(self, tasks: list[Task]) -> Floats:
        """Return the calibration scores of tasks of one shape, (T * Q,)."""
        true = self._stack(tasks, "query_y")  # (T, Q)
        error = self._distance_error(tasks)
        return worst_case_scores(worst_case_logits(self._logits(tasks, "query"), true, error), true)

    def _logits(self, tasks: list[Task], part: str) -> Tensor:
        """Return the float64 logits of all labels on query or support, (T, classes, Q)."""
        support, query = self._stack(tasks, "support"), self._stack(tasks, part)  # (T, S), (T, Q)
        support_y = self._stack(tasks, "support_y")  # (T, S)
        if self.gram is not None:
            return gram_logits(self.gram, support, support_y, query, tasks[0].classes)
        z = self.embeddings
        vectors = z[support].double(), support_y, z[query].double()
        return prototype_logits(*vectors, tasks[0].classes).mT

    def _stack(self, tasks: list[Task], name: str) -> Tensor:
        stacked = np.stack([getattr(task, name) for task in tasks])
        return torch.from_numpy(stacked).to(self.embeddings.device, torch.int64)


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
    tasks = len(support)
    bags = support_y + classes * torch.arange(tasks, device=gram.device)[:, None]  # (T, S)
    order = bags.flatten().argsort(stable=True)
    counts = torch.bincount(bags.flatten(), minlength=tasks * classes)  # (T * classes,)
    members, offsets = support.flatten()[order], counts.cumsum(0) - counts
    # Row c holds the inner product of each example with prototype c; an empty bag gives zeros.
    products = embedding_bag(members, gram, offsets, mode="mean")  # (T * classes, n)
    with_prototype = products[bags.flatten()[order], members]  # s.p of each support example
    squares = torch.zeros_like(counts, dtype=gram.dtype)
    squares = squares.index_add(0, bags.flatten()[order], with_prototype)
    squares = squares / counts.clamp(min=1)  # |p|^2 is the mean of s.p over the label's support
    index = query.unsqueeze(1).expand(-1, classes, -1)
    logits = 2 * products.view(tasks, classes, -1).gather(2, index) - squares.view(tasks, -1, 1)
    logits = logits - gram.diagonal()[query].unsqueeze(1)
    return torch.where(counts.view(tasks, -1, 1) > 0, logits, -torch.inf)


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

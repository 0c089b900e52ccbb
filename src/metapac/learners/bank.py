"""All that a ProtoNet can say on one pool, from one pass over its examples.

Every prototype is a mean of pool embeddings, so every distance to it is made of inner products of
pool embeddings: with their Gram matrix at hand, a task is a few of its rows added up.
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

from metapac.learners import _checks
from metapac.learners._inference import worst_case_scores
from metapac.learners.prototypes import (
    distance_error,
    norms,
    prototype_logits,
    worst_case_logits,
)
from metapac.tasks.task import Task

GIB = 2**30
# Numbers of work space: on a CPU what its cache holds, on a GPU enough to keep it busy.
_WORK = {"cpu": 2**20, "cuda": 2**28}


class PrototypeBank:
    """The embeddings of a pool, kept so that no task embeds an example again.

    The Gram matrix is used where it fits into ``memory`` bytes, the embeddings themselves where
    it does not. ``x`` is the pool's data, to refuse tasks of another.
    """

    def __init__(
        self, embeddings: Tensor | NDArray[Any], x: Any = None, *, memory: int = 8 * GIB
    ) -> None:
        z = torch.as_tensor(embeddings).float()
        _checks.finite_embeddings(z)
        self.embeddings = z  # (n, d)
        self.x = x
        fits = 8 * len(z) ** 2 <= memory
        self.gram = gram_matrix(z) if fits else None  # (n, n)
        self.norms = norms(z)  # (n,)
        if self.gram is not None:  # far from the origin centred vectors are shorter, near it longer
            self.norms = self.norms.maximum(self.gram.diagonal().sqrt())

    def scores(self, tasks: Sequence[Task]) -> NDArray[np.floating[Any]]:
        """Return the score of the true label of each query to calibrate on, task after task.

        A float32 lower bound on the probability that ``predict_proba`` gives, here or after
        ``ProtoNet.adapt``, whatever the rounding: see ``lower_scores``.
        """
        return np.concatenate([self._lowered_scores(chunk) for chunk in self._chunks(tasks)])

    def leave_one_out(self, tasks: Sequence[Task]) -> NDArray[np.float32]:
        """Return the probability of each support example's own label, had it been left out.

        Shape (tasks, S). A label with no other example has probability 0.
        """
        _checks.one_support_size(tasks)
        parts = []
        for chunk in self._chunks(tasks, "support"):
            own = self._stack(chunk, "support_y")  # (T, S)
            parts.append(left_out(self._logits(chunk, "support"), own).float())
        return torch.cat(parts).cpu().numpy()

    def predict_proba(self, task: Task) -> NDArray[np.float32]:
        """Return the probabilities of all labels on the task's queries, (Q, classes)."""
        self._shape(task)
        probabilities = self._logits([task], "query")[0].softmax(0).T
        return np.asarray(probabilities.float().cpu().numpy())

    def _chunks(self, tasks: Iterable[Task], asked: str = "query") -> Iterator[list[Task]]:
        """Yield neighbouring tasks of one shape, as many as the work space holds."""
        work = _WORK.get(self.embeddings.device.type, _WORK["cpu"])
        for (shots, queries, classes), alike in groupby(tasks, partial(self._shape, asked=asked)):
            most = max(1, work // self._floats(shots, queries, classes))
            same = list(alike)
            yield from (same[start : start + most] for start in range(0, len(same), most))

    def _shape(self, task: Task, asked: str = "query") -> tuple[int, int, int]:
        """Return what tasks scored together must share; refuse one of another pool."""
        _checks.task_of_pool(task, self.x, len(self.embeddings))
        return len(task.support), len(getattr(task, asked)), task.classes

    def _floats(self, shots: int, queries: int, classes: int) -> int:
        n, d = self.embeddings.shape
        if self.gram is not None:
            return classes * (n + queries)
        return (shots + queries * (1 + classes)) * d

    def _lowered_scores(self, tasks: list[Task]) -> NDArray[np.floating[Any]]:
        """Return the scores to calibrate on of tasks of one shape, (T * Q,)."""
        true = self._stack(tasks, "query_y")  # (T, Q)
        query, support = self._stack(tasks, "query"), self._stack(tasks, "support")
        error = distance_error(self.norms[query], self.norms[support], self.embeddings.shape[1])
        return worst_case_scores(worst_case_logits(self._logits(tasks, "query"), true, error), true)

    def _logits(self, tasks: list[Task], asked: str) -> Tensor:
        """Return the float64 logits of all labels on queries or support, (T, classes, Q)."""
        support, query = self._stack(tasks, "support"), self._stack(tasks, asked)  # (T, S), (T, Q)
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
    """Return all inner products of the rows of ``z`` minus their mean, in float64.

    Distances are differences of these. float32 would lose the digits that tell two prototypes
    apart when both are far away; the shift moves no distance and saves more of them.
    """
    wide = z.double()
    wide = wide - wide.mean(0)
    return wide @ wide.T


def gram_logits(
    gram: Tensor, support: Tensor, support_y: Tensor, query: Tensor, classes: int
) -> Tensor:
    """Return ``prototype_logits`` from inner products alone.

    Shapes: (n, n), (T, S), (T, S), (T, Q) -> (T, classes, Q). With p the mean of a label's
    support, -|q - p|^2 = 2 q.p - |p|^2 - |q|^2.
    """
    tasks = len(support)
    bags = support_y + classes * torch.arange(tasks, device=gram.device)[:, None]  # (T, S)
    order = bags.flatten().argsort(stable=True)
    counts = torch.bincount(bags.flatten(), minlength=tasks * classes)  # (T * classes,)
    members, offsets = support.flatten()[order], counts.cumsum(0) - counts
    # Row c holds the inner product of every example with prototype c; an empty bag gives zeros.
    products = embedding_bag(members, gram, offsets, mode="mean")  # (T * classes, n)
    own = products[bags.flatten()[order], members]  # of each support example with its prototype
    squares = torch.zeros_like(counts, dtype=gram.dtype)
    squares = squares.index_add(0, bags.flatten()[order], own)
    squares = squares / counts.clamp(min=1)  # |p|^2 is the mean of s.p over the label's support
    index = query.unsqueeze(1).expand(-1, classes, -1)
    logits = 2 * products.view(tasks, classes, -1).gather(2, index) - squares.view(tasks, -1, 1)
    logits = logits - gram.diagonal()[query].unsqueeze(1)
    return torch.where(counts.view(tasks, -1, 1) > 0, logits, -torch.inf)


def left_out(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the probability of each support example's own label, had it been left out.

    ``logits`` are those of the whole support set. Shapes: (T, classes, S), (T, S) -> (T, S).

    Without s the prototype of n examples moves from p to (n p - s) / (n - 1), which is n / (n - 1)
    times as far from s; prototypes of other labels stay where they are.
    """
    others = (labels.unsqueeze(1) == labels.unsqueeze(2)).sum(1).to(logits.dtype) - 1  # (T, S)
    whole = logits.gather(1, labels.unsqueeze(1)).squeeze(1)  # (T, S)
    apart = whole * ((others + 1) / others.clamp(min=1)).square()
    changed = logits.scatter(1, labels.unsqueeze(1), apart.unsqueeze(1))
    found = changed.softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return torch.where(others > 0, found, 0.0)

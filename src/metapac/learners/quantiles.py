"""How hard is a task? Its quantile of nonconformity, guessed from its adaptation examples.

The half of Meta-CP (Fisch et al. 2021) that is learned. Nonconformity is minus the score of the
true label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from metapac import _checks
from metapac.grouping import group
from metapac.learners._backbone import Seed, weights_from
from metapac.learners.contract import Learner
from metapac.tasks.task import Task

Floats = NDArray[np.float64]
WIDTH = 64
BATCH = 32


def leave_one_out(learner: Learner, task: Task) -> Floats:
    """Return the score of each support example's own label, the learner adapted to the others.

    A label with no other example scores 0. ``PrototypeBank.leave_one_out`` gives the same of many
    tasks at once.
    """
    scores = np.zeros(len(task.support))
    for i, label in enumerate(task.support_y.tolist()):
        others = np.arange(len(task.support)) != i
        if label in task.support_y[others]:
            x, y = task.x[task.support[others]], task.support_y[others]
            scorer = learner.adapt(x, y, classes=task.classes)
            scores[i] = scorer.predict_proba(task.x[task.support[i : i + 1]])[0, label]
    return scores


class DeepSet(nn.Module):
    """From a set of numbers to one, whatever their order: layers for each, mean, three layers."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
        )
        self.all = nn.Sequential(
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 1),
        )

    def forward(self, sets: Tensor) -> Tensor:  # (T, S) -> (T,)
        found: Tensor = self.all(self.each(sets.unsqueeze(-1)).mean(1))  # (T, 1)
        return found.squeeze(-1)


class QuantilePredictor:
    """A DeepSet from leave-one-out nonconformity to the task's (1 - epsilon) quantile.

    Weights and the order of training depend on ``rng`` alone. It is small and stays on the CPU.
    """

    def __init__(self, *, epsilon: float, rng: Seed = None) -> None:
        self.epsilon = _checks.probability("epsilon", epsilon)
        self.rng = rng

    def targets(self, scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Floats:
        """Return each task's (1 - epsilon) quantile of nonconformity, what ``fit`` learns from.

        Scores of the true labels and the task of each; quantiles in order of first appearance:
        the smallest value that at least 1 - epsilon of the task's examples do not exceed.
        """
        grouped = group(scores, tasks)
        grouped.refuse_nan()
        parts = np.split(-grouped.scores.astype(np.float64), np.cumsum(grouped.sizes)[:-1])
        return np.array([_quantile(part, self.epsilon) for part in parts])

    def fit(
        self, supports: ArrayLike, quantiles: ArrayLike, *, epochs: int = 50, lr: float = 1e-3
    ) -> Self:
        """Learn from scratch, with squared loss and Adam, from tasks used in training.

        ``supports`` holds a row of leave-one-out nonconformity for each task, ``quantiles`` its
        quantile.
        """
        sets, aims = _sets("supports", supports), _checks.score_array("quantiles", quantiles)
        _checks.same_shape("quantiles", aims, "rows of supports", sets[:, 0])
        _checks.finite("quantiles", aims)
        _checks.whole_number("epochs", epochs)
        _positive("lr", lr)
        self._scale = _moments(sets), _moments(aims)
        (centre, width), (middle, spread) = self._scale
        x = torch.from_numpy((sets - centre) / width)  # (T, S)
        y = torch.from_numpy((aims - middle) / spread)  # (T,)
        generator = np.random.default_rng(self.rng)
        with weights_from(generator):
            self.module = DeepSet().double()
        with _one_thread():
            _learn(self.module, x, y, epochs, lr, generator)
        return self

    def predict(self, supports: ArrayLike) -> Floats:
        """Return the predicted quantile of each task, (T,), from rows of nonconformity (T, S)."""
        if not hasattr(self, "module"):
            raise ValueError(
                "this QuantilePredictor has learned nothing yet. Call .fit(...) first."
            )
        (centre, width), (middle, spread) = self._scale
        sets = _sets("supports", supports)
        with torch.no_grad():
            found = self.module(torch.from_numpy((sets - centre) / width))
        return np.asarray(middle + spread * found.numpy())


def _learn(
    module: nn.Module, x: Tensor, y: Tensor, epochs: int, lr: float, rng: np.random.Generator
) -> None:
    optimiser = torch.optim.Adam(module.parameters(), lr=lr)
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(x)))
        for start in range(0, len(x), BATCH):
            rows = order[start : start + BATCH]
            optimiser.zero_grad()
            mse_loss(module(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Lend torch one thread: steps this small are slower on two, and round as the cores are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _quantile(values: Floats, epsilon: float) -> float:
    # The doubles of (1 - epsilon) n may lie just above a whole number; epsilon n is asked instead.
    rank = len(values) - math.floor(epsilon * len(values))
    return float(np.partition(values, rank - 1)[rank - 1])


def _sets(name: str, values: ArrayLike) -> Floats:
    array = _checks.score_array(name, values).astype(np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(
            f"{name} must hold a row for each task and a number for each of its support examples, "
            f"got shape {array.shape}. Pass -leave_one_out(...) of tasks with equal support."
        )
    _checks.finite(name, array)
    return array


def _positive(name: str, value: Any) -> None:
    if _checks.one_finite(name, value) <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}. Pass for example {name}=0.001.")


def _moments(values: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return mean and deviation, 1 where all values are equal."""
    deviation = float(values.std(dtype=np.float64))
    return float(values.mean(dtype=np.float64)), deviation or 1.0

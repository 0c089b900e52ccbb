"""The quantile predictor of Meta-CP (Fisch et al. 2021), its only learned part.

It predicts a task's quantile of nonconformity, minus the score of the true label, from the task's
adaptation examples.
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

from metapac import _checks, _scores
from metapac._types import Floats, Seed
from metapac.exceptions import InvalidInput
from metapac.grouping import group
from metapac.learners.networks.base import seeded_init
from metapac.learners.protocols import Learner, adapt_learner
from metapac.tasks.task import Task

_WIDTH = 64
_BATCH = 32


def leave_one_out(learner: Learner, task: Task) -> Floats:
    """Return the score of each support example's label after adapting to the other examples.

    ``PrototypeBank.leave_one_out`` computes the same for many tasks at once.

    Parameters
    ----------
    learner : Learner
        The learner.
    task : Task
        The task.

    Returns
    -------
    ndarray, shape (support,)
        The scores; 0 for a label with no other example.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meta_cp import leave_one_out
    >>> from metapac.tasks import Task
    >>> class SameForAll:
    ...     def adapt(self, x, y, *, classes=None):
    ...         return self
    ...     def predict_proba(self, x):
    ...         return np.full((len(x), 2), 0.5)
    >>> x = np.zeros((4, 1))
    >>> labels = {"support_y": [0, 0, 1], "query_y": [1], "classes": 2}
    >>> task = Task("a", x, support=[0, 1, 2], query=[3], **labels)
    >>> leave_one_out(SameForAll(), task)
    array([0.5, 0.5, 0. ])
    """
    scores = np.zeros(len(task.support))
    for i, label in enumerate(task.support_y.tolist()):
        others = np.arange(len(task.support)) != i
        if label in task.support_y[others]:
            x, y = task.take(task.support[others]), task.support_y[others]
            scorer = adapt_learner(learner, x, y, classes=task.classes)
            scores[i] = scorer.predict_proba(task.take(task.support[i : i + 1]))[0, label]
    return scores


class _DeepSet(nn.Module):
    """A function from a set of numbers to one number, independent of their order."""

    def __init__(self) -> None:
        super().__init__()
        self.element_network = nn.Sequential(
            nn.Linear(1, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU()
        )
        self.set_network = nn.Sequential(
            nn.Linear(_WIDTH, _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, 1),
        )

    def forward(self, sets: Tensor) -> Tensor:
        z = self.element_network(sets.unsqueeze(-1))  # (tasks, support, width)
        quantiles: Tensor = self.set_network(z.mean(1)).squeeze(-1)  # (tasks,)
        return quantiles


class QuantilePredictor:
    """A deep set from leave-one-out nonconformity to the task's (1 - epsilon) quantile.

    Initial weights and the order of training depend on ``rng`` alone. The network is small and
    stays on the CPU.

    Parameters
    ----------
    epsilon : float
        Average miss rate allowed, as in `MetaCP`.
    rng : int or numpy.random.Generator, optional
        Source of randomness.

    Attributes
    ----------
    module : torch.nn.Module
        The network, after ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meta_cp import QuantilePredictor
    >>> rng = np.random.default_rng(0)
    >>> supports = -rng.random((20, 5))
    >>> predictor = QuantilePredictor(epsilon=0.1, rng=0)
    >>> predictor.fit(supports, supports.max(axis=1), epochs=1).predict(supports).shape
    (20,)
    """

    def __init__(self, *, epsilon: float, rng: Seed = None) -> None:
        self.epsilon = _checks.as_probability("epsilon", epsilon)
        self.rng = rng

    def targets(self, scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Floats:
        """Return the (1 - epsilon) quantile of nonconformity of each task, for ``fit``.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels.
        tasks : array_like, shape (n,)
            Task of each example.

        Returns
        -------
        ndarray, shape (tasks,)
            For each task, in order of first appearance, the smallest value that at least
            1 - epsilon of its examples do not exceed.
        """
        grouped = group(scores, tasks)
        grouped.check_no_nan()
        parts = np.split(-grouped.scores.astype(np.float64), np.cumsum(grouped.sizes)[:-1])
        return np.array([_quantile(part, self.epsilon) for part in parts])

    def fit(
        self, supports: ArrayLike, quantiles: ArrayLike, *, epochs: int = 50, lr: float = 1e-3
    ) -> Self:
        """Train from scratch on tasks used in training, with squared loss and Adam.

        Parameters
        ----------
        supports : array_like, shape (tasks, support)
            Leave-one-out nonconformity of each task's support examples.
        quantiles : array_like, shape (tasks,)
            Quantile of each task, from ``targets``.
        epochs : int, default 50
            Number of epochs.
        lr : float, default 0.001
            Learning rate.

        Returns
        -------
        QuantilePredictor
            The object itself, trained.
        """
        sets, values = _sets("supports", supports), _scores.as_score_array("quantiles", quantiles)
        _checks.check_same_shape("quantiles", values, "rows of supports", sets[:, 0])
        _scores.check_finite("quantiles", values)
        _checks.as_whole_number("epochs", epochs)
        _positive("lr", lr)
        self._scale = _moments(sets), _moments(values)
        (centre, width), (middle, spread) = self._scale
        x = torch.from_numpy((sets - centre) / width)  # (T, S)
        y = torch.from_numpy((values - middle) / spread)  # (T,)
        generator = np.random.default_rng(self.rng)
        with seeded_init(generator):
            self.module = _DeepSet().double()
        with _one_thread():
            _train(self.module, x, y, epochs, lr, generator)
        return self

    def predict(self, supports: ArrayLike) -> Floats:
        """Return the predicted quantile of each task.

        Parameters
        ----------
        supports : array_like, shape (tasks, support)
            Leave-one-out nonconformity of each task's support examples.

        Returns
        -------
        ndarray, shape (tasks,)
            The predicted quantiles.
        """
        if not hasattr(self, "module"):
            raise InvalidInput("this QuantilePredictor is not trained yet. Call .fit(...) first.")
        (centre, width), (middle, spread) = self._scale
        sets = _sets("supports", supports)
        with torch.no_grad():
            standardised = self.module(torch.from_numpy((sets - centre) / width))
        return np.asarray(middle + spread * standardised.numpy())


def _train(
    module: nn.Module, x: Tensor, y: Tensor, epochs: int, lr: float, rng: np.random.Generator
) -> None:
    optimiser = torch.optim.Adam(module.parameters(), lr=lr)
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(x)))
        for start in range(0, len(x), _BATCH):
            rows = order[start : start + _BATCH]
            optimiser.zero_grad()
            mse_loss(module(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch to one thread: steps this small are slower on two, and round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _quantile(values: Floats, epsilon: float) -> float:
    # In floating point, (1 - epsilon) n may lie just above a whole number; epsilon n may not.
    rank = len(values) - math.floor(epsilon * len(values))
    return float(np.partition(values, rank - 1)[rank - 1])


def _sets(name: str, values: ArrayLike) -> Floats:
    array = _scores.as_score_array(name, values).astype(np.float64)
    if array.ndim != 2 or not array.size:
        raise InvalidInput(
            f"{name} must hold a row for each task and a number for each of its support examples, "
            f"got shape {array.shape}. Pass -leave_one_out(...) of tasks with equally many."
        )
    _scores.check_finite(name, array)
    return array


def _positive(name: str, value: Any) -> None:
    if _scores.as_finite_number(name, value) <= 0:
        raise InvalidInput(
            f"{name} must be positive, got {value!r}. Pass for example {name}=0.001."
        )


def _moments(values: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return the mean and the standard deviation, or 1 if all values are equal."""
    deviation = float(values.std(dtype=np.float64))
    return float(values.mean(dtype=np.float64)), deviation or 1.0

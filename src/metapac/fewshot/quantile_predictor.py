"""The network of Meta-CP: a task's quantile of nonconformity, predicted from its support set."""

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

from metapac._common import Floats, Seed, as_probability
from metapac.errors import InvalidInput
from metapac.fewshot.learners.networks import seeded_init
from metapac.grouping import group
from metapac.inputs import as_score_array, check_finite

_WIDTH = 64
_BATCH = 32


def _layers(inputs: int) -> tuple[nn.Module, nn.Module]:
    return nn.Linear(inputs, _WIDTH), nn.ReLU()


class _DeepSet(nn.Module):
    """A function from a set of numbers to one number, independent of their order."""

    def __init__(self) -> None:
        super().__init__()
        self.element_network = nn.Sequential(*_layers(1), *_layers(_WIDTH))
        self.set_network = nn.Sequential(*_layers(_WIDTH), *_layers(_WIDTH), nn.Linear(_WIDTH, 1))

    def forward(self, sets: Tensor) -> Tensor:
        z = self.element_network(sets.unsqueeze(-1))  # (tasks, support, width)
        quantiles: Tensor = self.set_network(z.mean(1)).squeeze(-1)  # (tasks,)
        return quantiles


class QuantilePredictor:
    """A deep set from leave-one-out nonconformity to the task's (1 - epsilon) quantile."""

    def __init__(self, *, epsilon: float, rng: Seed = None) -> None:
        self.epsilon = as_probability("epsilon", epsilon)
        self.rng = rng

    def targets(self, scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Floats:
        """Return the (1 - epsilon) quantile of nonconformity of each task, for ``fit``."""
        grouped = group(scores, tasks)
        grouped.check_no_nan()
        parts = np.split(-grouped.scores.astype(np.float64), np.cumsum(grouped.sizes)[:-1])
        return np.array([_quantile(part, self.epsilon) for part in parts])

    def fit(
        self, supports: ArrayLike, quantiles: ArrayLike, *, epochs: int = 50, lr: float = 1e-3
    ) -> Self:
        """Train from scratch on tasks used in training, with squared loss and Adam."""
        sets, values = _sets("supports", supports), as_score_array("quantiles", quantiles)
        check_finite("quantiles", values)
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
    array = as_score_array(name, values).astype(np.float64)
    if array.ndim != 2 or not array.size:
        rule = f"{name} must have a row for each task, a column for each support"
        raise InvalidInput(f"{rule}, got {array.shape}.")
    check_finite(name, array)
    return array


def _moments(values: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return the mean and the standard deviation, or 1 if all values are equal."""
    deviation = float(values.std(dtype=np.float64))
    return float(values.mean(dtype=np.float64)), deviation or 1.0

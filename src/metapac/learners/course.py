"""The course of a training run: what decides it, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metapac import _checks

_COUNTS = (
    "ways",
    "shots",
    "queries",
    "episodes_per_epoch",
    "episodes_per_step",
    "halve_every",
    "validation_tasks",
    "patience",
)


@dataclass(frozen=True)
class Epoch:
    """What one epoch did: mean loss in training, then accuracy on the validation tasks."""

    epoch: int
    loss: float
    accuracy: float
    lr: float
    seconds: float


@dataclass(frozen=True)
class History:
    """The epochs of a run, in order."""

    epochs: tuple[Epoch, ...] = ()

    @property
    def best(self) -> Epoch:
        """The epoch whose weights are kept: the first of those with the highest accuracy."""
        if not self.epochs:
            raise ValueError("history is empty; no epoch has been trained yet.")
        return max(self.epochs, key=lambda each: each.accuracy)

    def stalled(self, patience: int | None) -> bool:
        """Whether the last ``patience`` epochs brought nothing better."""
        if patience is None or not self.epochs:
            return False
        return len(self.epochs) - self.best.epoch >= patience

    def plus(self, epoch: Epoch) -> History:
        return History((*self.epochs, epoch))


@dataclass(frozen=True)
class Settings:
    """The arguments that decide the course of a run, and the data it sees."""

    ways: int
    shots: int
    queries: int
    episodes_per_epoch: int
    episodes_per_step: int
    lr: float
    halve_every: int
    class_weights: list[float] | None
    validation_tasks: int
    patience: int | None
    rng: int
    train_pool: str
    validation_pool: str

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _checks.whole_number(name, value))
        for name in ("lr", "class_weights"):
            value = getattr(self, name)
            if value is not None:
                numbers = np.asarray(value, dtype=np.float64)
                _checks.finite(name, np.atleast_1d(numbers), positive=True)
                object.__setattr__(self, name, numbers.tolist())

    @property
    def steps(self) -> int:
        """Optimiser steps in an epoch, the last one as large as the others."""
        return -(-self.episodes_per_epoch // self.episodes_per_step)

    def lr_at(self, epoch: int) -> float:
        return float(self.lr * 0.5 ** ((epoch - 1) // self.halve_every))

    def validation_seed(self) -> int:
        return self._seed(0)

    def episodes_seed(self, epoch: int) -> int:
        return self._seed(epoch, 0)

    def dropout_seed(self, epoch: int, rank: int) -> int:
        return self._seed(epoch, 1, rank)

    def _seed(self, *key: int) -> int:
        sequence = np.random.SeedSequence(self.rng, spawn_key=key)
        return int(sequence.generate_state(1, np.uint64)[0])

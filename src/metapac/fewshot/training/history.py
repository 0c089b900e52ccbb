"""The history of a training run, and checks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metapac._common import Seed, as_whole_number
from metapac.errors import InvalidInput
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.inputs import check_finite


def check_trainable(learner: object) -> None:
    """Raise if a learner cannot be trained."""
    if not (hasattr(learner, "module") and hasattr(learner, "logits")):
        raise InvalidInput(
            "learner must have a module and logits(), as ProtoNet and MAML have, got "
            f"{type(learner).__name__}. A learner that only adapts to a support set needs no "
            "training."
        )


def check_pools(train_pool: object, validation_pool: object) -> None:
    """Raise if two pools cannot be trained and validated on."""
    for name, pool in (("train_pool", train_pool), ("validation_pool", validation_pool)):
        if not isinstance(pool, ClassPool | GroupPool):
            raise InvalidInput(
                f"{name} must be a ClassPool or a GroupPool, got {type(pool).__name__}. "
                "Pass pools.train and pools.validation, or as_class_pool() of a DomainPool."
            )
        if getattr(pool.x.dtype, "kind", "f") not in "biuf":
            raise InvalidInput(f"{name} must hold numbers as x, got {pool.x.dtype}.")
    if type(train_pool) is not type(validation_pool):
        raise InvalidInput(
            "train_pool and validation_pool must both be a ClassPool, or both a GroupPool, got "
            f"{type(train_pool).__name__} and {type(validation_pool).__name__}."
        )


def as_integer_seed(rng: Seed) -> int:
    """Return ``rng`` if it is a whole number, or one drawn from it."""
    if isinstance(rng, int | np.integer):
        return as_whole_number("rng", rng, minimum=0)
    return int(np.random.default_rng(rng).integers(10**9))


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
    """Results of one epoch.

    Attributes
    ----------
    epoch : int
        Number of the epoch, from 1.
    loss : float
        Mean training loss.
    accuracy : float
        Accuracy on the validation tasks after the epoch.
    lr : float
        Learning rate.
    seconds : float
        Duration.
    """

    epoch: int
    loss: float
    accuracy: float
    lr: float
    seconds: float


@dataclass(frozen=True)
class History:
    """The epochs of a training run, in order.

    Attributes
    ----------
    epochs : tuple of Epoch
        The epochs.
    """

    epochs: tuple[Epoch, ...] = ()

    @property
    def best(self) -> Epoch:
        """The epoch with the highest accuracy; ties go to the earlier epoch."""
        if not self.epochs:
            raise InvalidInput("history is empty; no epoch has been trained yet.")
        return max(self.epochs, key=lambda epoch: epoch.accuracy)

    def has_stalled(self, patience: int | None) -> bool:
        """Return whether the last epochs brought no improvement.

        Parameters
        ----------
        patience : int or None
            Number of epochs without improvement to tolerate; None tolerates any number.

        Returns
        -------
        bool
            Whether none of the last ``patience`` epochs was better than those before.
        """
        if patience is None or not self.epochs:
            return False
        return len(self.epochs) - self.best.epoch >= patience

    def append(self, epoch: Epoch) -> History:
        """Return a history with one more epoch.

        Parameters
        ----------
        epoch : Epoch
            The new epoch.

        Returns
        -------
        History
            The longer history; this one does not change.
        """
        return History((*self.epochs, epoch))


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that determines the course of a training run, except the learner."""

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
                object.__setattr__(self, name, as_whole_number(name, value))
        for name in ("lr", "class_weights"):
            value = getattr(self, name)
            if value is not None:
                numbers = np.asarray(value, dtype=np.float64)
                check_finite(name, np.atleast_1d(numbers), positive=True)
                object.__setattr__(self, name, numbers.tolist())

    @property
    def steps(self) -> int:
        """Number of optimiser steps in an epoch, rounded up to whole steps."""
        return -(-self.episodes_per_epoch // self.episodes_per_step)

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch."""
        return float(self.lr * 0.5 ** ((epoch - 1) // self.halve_every))

    def validation_seed(self) -> int:
        """Return the seed of the validation tasks."""
        return self._seed(0)

    def episodes_seed(self, epoch: int) -> int:
        """Return the seed of the training episodes of an epoch."""
        return self._seed(epoch, 0)

    def dropout_seed(self, epoch: int, rank: int) -> int:
        """Return the seed of all randomness of the network in an epoch."""
        return self._seed(epoch, 1, rank)

    def _seed(self, *key: int) -> int:
        sequence = np.random.SeedSequence(self.rng, spawn_key=key)
        return int(sequence.generate_state(1, np.uint64)[0])

"""Configuration of a training run, and the record of its epochs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metapac import _checks, _scores
from metapac.exceptions import InvalidInput

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

    Examples
    --------
    >>> from metapac.learners import Epoch
    >>> Epoch(1, loss=0.7, accuracy=0.5, lr=0.001, seconds=2.0).accuracy
    0.5
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

    Examples
    --------
    >>> from metapac.learners import Epoch, History
    >>> history = History((Epoch(1, 0.7, 0.5, 0.001, 2.0), Epoch(2, 0.6, 0.4, 0.001, 2.0)))
    >>> history.best.epoch
    1
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
    """Everything that determines the course of a training run, except the learner.

    Parameters
    ----------
    ways : int
        Number of classes in an episode.
    shots : int
        Number of support examples.
    queries : int
        Number of query examples.
    episodes_per_epoch : int
        Number of episodes in an epoch.
    episodes_per_step : int
        Number of episodes in an optimiser step.
    lr : float
        Initial learning rate.
    halve_every : int
        Number of epochs after which the learning rate is halved.
    class_weights : list of float or None
        Weight of each label in the loss.
    validation_tasks : int
        Number of validation tasks.
    patience : int or None
        Number of epochs without improvement after which training stops.
    rng : int
        Seed.
    train_pool : str
        Fingerprint of the training pool.
    validation_pool : str
        Fingerprint of the validation pool.

    Raises
    ------
    InvalidInput
        If a number is out of range.
    """

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
                object.__setattr__(self, name, _checks.as_whole_number(name, value))
        for name in ("lr", "class_weights"):
            value = getattr(self, name)
            if value is not None:
                numbers = np.asarray(value, dtype=np.float64)
                _scores.check_finite(name, np.atleast_1d(numbers), positive=True)
                object.__setattr__(self, name, numbers.tolist())

    @property
    def steps(self) -> int:
        """Number of optimiser steps in an epoch, rounded up to whole steps."""
        return -(-self.episodes_per_epoch // self.episodes_per_step)

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch, from 1.

        Returns
        -------
        float
            The learning rate.
        """
        return float(self.lr * 0.5 ** ((epoch - 1) // self.halve_every))

    def validation_seed(self) -> int:
        """Return the seed of the validation tasks.

        Returns
        -------
        int
            The seed, the same for all epochs.
        """
        return self._seed(0)

    def episodes_seed(self, epoch: int) -> int:
        """Return the seed of the training episodes of an epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch, from 1.

        Returns
        -------
        int
            The seed.
        """
        return self._seed(epoch, 0)

    def dropout_seed(self, epoch: int, rank: int) -> int:
        """Return the seed of all randomness of the network in an epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch, from 1.
        rank : int
            Number of the process.

        Returns
        -------
        int
            The seed.
        """
        return self._seed(epoch, 1, rank)

    def _seed(self, *key: int) -> int:
        sequence = np.random.SeedSequence(self.rng, spawn_key=key)
        return int(sequence.generate_state(1, np.uint64)[0])

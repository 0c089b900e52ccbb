"""Checks of the arguments of training."""

from __future__ import annotations

import numpy as np

from metapac._checks import as_whole_number
from metapac._types import Seed
from metapac.exceptions import InvalidInput
from metapac.tasks.pools import ClassPool, GroupPool


def check_trainable(learner: object) -> None:
    """Raise if a learner cannot be trained.

    Parameters
    ----------
    learner : object
        The learner.
    """
    if not (hasattr(learner, "module") and hasattr(learner, "logits")):
        raise InvalidInput(
            "learner must have a module and logits(), as ProtoNet and MAML have, got "
            f"{type(learner).__name__}. A learner that only adapts to a support set needs no "
            "training."
        )


def check_pools(train_pool: object, validation_pool: object) -> None:
    """Raise if two pools cannot be trained and validated on.

    Parameters
    ----------
    train_pool : object
        Pool to train on.
    validation_pool : object
        Pool to validate on.
    """
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
    """Return ``rng`` if it is a whole number, or one drawn from it.

    Parameters
    ----------
    rng : int, numpy.random.Generator or None
        Seed.

    Returns
    -------
    int
        A whole number, at least 0.
    """
    if isinstance(rng, int | np.integer):
        return as_whole_number("rng", rng, minimum=0)
    return int(np.random.default_rng(rng).integers(10**9))

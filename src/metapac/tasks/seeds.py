"""Seeds of random sequences whose item i is the same alone, in a batch, and in any order."""

from __future__ import annotations

import numpy as np

from metapac._types import Seed


def spawn_seed(rng: Seed) -> np.random.SeedSequence:
    """Return the seed of a new random sequence.

    Parameters
    ----------
    rng : int, numpy.random.Generator or None
        Seed. The same integer gives the same sequence; a Generator gives a new one at each call.

    Returns
    -------
    numpy.random.SeedSequence
        The seed, for `spawn_rng`.
    """
    spawned = np.random.default_rng(rng).spawn(1)[0].bit_generator.seed_seq
    assert isinstance(spawned, np.random.SeedSequence)
    return spawned


def spawn_rng(seed: np.random.SeedSequence, i: int) -> np.random.Generator:
    """Return the random generator of item ``i`` of a sequence.

    Parameters
    ----------
    seed : numpy.random.SeedSequence
        Seed of the sequence.
    i : int
        Number of the item, from 0.

    Returns
    -------
    numpy.random.Generator
        A generator that depends on ``seed`` and ``i`` alone.

    Examples
    --------
    >>> from metapac.tasks.seeds import spawn_rng, spawn_seed
    >>> alone, again = (spawn_rng(spawn_seed(0), 7).random() for _ in range(2))
    >>> alone == again
    True
    """
    key = (*seed.spawn_key, i)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))

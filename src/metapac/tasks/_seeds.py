"""Item i of a random sequence is the same alone, in a batch, and in any order."""

from __future__ import annotations

import numpy as np

Seed = int | np.random.Generator | None


def root(rng: Seed) -> np.random.SeedSequence:
    """Return a seed of its own: a new one at each call for one and the same Generator."""
    spawned = np.random.default_rng(rng).spawn(1)[0].bit_generator.seed_seq
    assert isinstance(spawned, np.random.SeedSequence)
    return spawned


def child(seed: np.random.SeedSequence, i: int) -> np.random.Generator:
    """Return the generator of item ``i``."""
    key = (*seed.spawn_key, i)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))

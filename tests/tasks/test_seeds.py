"""Random generators of items that do not depend on one another."""

from __future__ import annotations

import numpy as np
import pytest

from metapac.fewshot.drawing import spawn_rng, spawn_seed


def test_an_integer_gives_one_sequence_and_a_generator_a_new_one_at_each_call() -> None:
    generator = np.random.default_rng(3)
    seeds = [spawn_seed(3), spawn_seed(3), spawn_seed(4), spawn_seed(generator)]
    first = [spawn_rng(seed, 0).random() for seed in [*seeds, spawn_seed(generator)]]
    assert first[0] == first[1] == first[3]  # a fresh Generator(3) spawns what 3 spawns
    assert len(set(first)) == 3


def test_item_i_is_the_same_in_any_order() -> None:
    seed = spawn_seed(0)
    forward = [spawn_rng(seed, i).random() for i in range(5)]
    backward = [spawn_rng(seed, i).random() for i in reversed(range(5))]
    assert forward == backward[::-1]
    assert len(set(forward)) == 5


def test_no_seed_is_random() -> None:
    assert spawn_rng(spawn_seed(None), 0).random() != spawn_rng(spawn_seed(None), 0).random()


def test_the_sequence_is_pinned() -> None:
    # The tasks of a seed must not change between versions.
    assert spawn_rng(spawn_seed(0), 0).random() == pytest.approx(0.5651317655614634)

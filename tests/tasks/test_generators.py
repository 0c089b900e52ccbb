"""Generators made together are those made one by one, whatever their seed."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot import drawing
from metapac.fewshot.drawing import spawn_rng, spawn_rngs, spawn_seed

numbers = st.integers(0, 2**32) | st.integers(0, 2**200)


@given(numbers, st.lists(numbers, max_size=4), st.integers(0, 5))
def test_states_are_those_of_numpy(entropy: int, key: list[int], count: int) -> None:
    seed = np.random.SeedSequence(entropy, spawn_key=key)
    with mock.patch.object(drawing, "spawn_rng", wraps=spawn_rng) as alone:
        rngs = spawn_rngs(seed, count)
    assert alone.call_count == min(count, 1)  # the last is compared, and none is made again
    assert [rng.bit_generator.state for rng in rngs] == [
        spawn_rng(seed, i).bit_generator.state for i in range(count)
    ]


def test_many_items() -> None:
    seed = spawn_seed(0)
    rngs = spawn_rngs(seed, 1000)
    for i in (0, 1, 499, 998, 999):
        assert rngs[i].random() == spawn_rng(seed, i).random()


def test_they_draw_and_cannot_spawn() -> None:
    (rng,) = spawn_rngs(spawn_seed(0), 1)
    with pytest.raises(TypeError, match="does not implement spawning"):
        rng.spawn(1)


def test_a_seed_of_several_numbers_is_left_to_numpy() -> None:
    seed = np.random.SeedSequence([1, 2, 3])
    assert spawn_rngs(seed, 2)[1].random() == spawn_rng(seed, 1).random()


def test_if_numpy_hashed_otherwise_its_own_generators_would_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = spawn_seed(0)
    monkeypatch.setattr(drawing, "_RIGHT", np.uint32(1))
    rngs = spawn_rngs(seed, 3)
    assert [rng.random() for rng in rngs] == [spawn_rng(seed, i).random() for i in range(3)]

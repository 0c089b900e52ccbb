"""Arguments of training that are refused, and seeds."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import InvalidInput
from metapac.fewshot import ClassPool, GroupPool
from metapac.fewshot.training.history import as_integer_seed, check_pools, check_trainable


def test_a_learner_without_weights_needs_no_training() -> None:
    with pytest.raises(InvalidInput, match="got object. A learner that only adapts"):
        check_trainable(object())


def test_pools_must_be_of_one_kind() -> None:
    classes = ClassPool(np.zeros((4, 2)), [0, 0, 1, 1])
    groups = GroupPool(np.zeros((4, 2)), [0, 1, 0, 1], [0, 0, 1, 1])
    check_pools(classes, classes)
    with pytest.raises(InvalidInput, match="must both be a ClassPool, or both a GroupPool"):
        check_pools(classes, groups)
    with pytest.raises(InvalidInput, match="validation_pool must be a ClassPool or a GroupPool"):
        check_pools(classes, None)
    with pytest.raises(InvalidInput, match="train_pool must hold numbers"):
        check_pools(ClassPool(np.array(["a", "b"]), [0, 1]), classes)


def test_a_whole_number_is_its_own_seed_and_a_generator_gives_one() -> None:
    assert as_integer_seed(7) == 7
    first, second = (as_integer_seed(np.random.default_rng(3)) for _ in range(2))
    assert first == second
    with pytest.raises(InvalidInput, match="rng must be a whole number from 0"):
        as_integer_seed(-1)

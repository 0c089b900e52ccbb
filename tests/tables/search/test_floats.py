"""Floating-point numbers have ordinals in their order, without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac.tables.expressions import (
    float_to_ordinal,
    next_float,
    ordinal_to_float,
    previous_float,
)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ordinals_follow_the_order_of_floats(kind: Any) -> None:
    tiny, large = np.finfo(kind).smallest_subnormal, np.finfo(kind).max
    values = np.array([-np.inf, -large, -1, -tiny, -0.0, 0.0, tiny, 1, large, np.inf], kind)
    ordinals = float_to_ordinal(values)
    assert (np.diff(ordinals) >= 0).all()
    assert ordinals[3] == -1
    assert ordinals[4] == ordinals[5] == 0
    np.testing.assert_array_equal(ordinal_to_float(ordinals, values.dtype), values)
    np.testing.assert_array_equal(float_to_ordinal(next_float(values[:-1])), ordinals[:-1] + 1)
    np.testing.assert_array_equal(float_to_ordinal(previous_float(values[1:])), ordinals[1:] - 1)

"""An order statistic equals that of a full sort, whatever the sample suggests."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac._common import Array
from metapac.fewshot import meta_cp
from metapac.fewshot.meta_cp import kth_smallest

number = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, np.inf]) | st.floats(-9, 9)


@given(st.lists(number, min_size=1, max_size=80), st.data(), st.integers(1, 12))
def test_it_is_what_a_sort_gives(values: list[float], data: st.DataObject, probes: int) -> None:
    rank = data.draw(st.integers(0, len(values) - 1))
    with mock.patch.object(meta_cp, "_PROBES", probes):
        assert kth_smallest(np.array(values), rank) == sorted(values)[rank]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["random", "ascending", "misleading", "equal"])
def test_large_samples(kind: type, order: str) -> None:
    values: Array = np.random.default_rng(0).random(20_000).astype(kind)
    if order == "ascending":
        values.sort()
    if order == "misleading":  # a sample of every fourth value sees none of the small ones
        values[::4] += 5
    if order == "equal":
        values[:] = 0.5
    before, ascending = values.copy(), np.sort(values)
    for rank in (0, 1, 17, 2_000, 9_999, 19_998, 19_999):
        assert kth_smallest(values, rank) == ascending[rank]
    np.testing.assert_array_equal(values, before)  # nothing is reordered


def test_few_values_are_partitioned() -> None:
    values = np.random.default_rng(1).random(100_000)
    with mock.patch.object(np, "partition", wraps=np.partition) as partition:
        kth_smallest(values, 10_000)
    (call,) = partition.call_args_list
    assert len(call.args[0]) < 20_000

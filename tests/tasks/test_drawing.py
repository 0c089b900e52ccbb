"""What pools share: positions by id, rows of any kind of data, random parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.tasks.drawing import assign, count_noun, draw_positions, positions_by_id, select_rows
from metapac.tasks.lazy import LazyArray


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_positions_by_id_are_those_of_a_loop(ids: list[int]) -> None:
    names, positions = positions_by_id(np.array(ids))
    assert names == sorted(set(ids))
    assert [p.tolist() for p in positions] == [
        [i for i, other in enumerate(ids) if other == name] for name in names
    ]


@given(seed=st.integers(0, 99), counts=st.tuples(st.integers(0, 3), st.integers(1, 3)))
def test_parts_hold_whole_classes_and_share_none(seed: int, counts: tuple[int, int]) -> None:
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(6), 4))
    parts = assign("classes", ids, dict(zip(("train", "test"), counts, strict=True)), seed)
    assert [*parts] == [name for name, n in zip(("train", "test"), counts, strict=True) if n]
    seen: list[int] = []
    for name, rows in parts.items():
        classes = np.unique(ids[rows])
        assert len(classes) == counts[("train", "test").index(name)]
        assert rows.tolist() == np.flatnonzero(np.isin(ids, classes)).tolist()
        seen += rows.tolist()
    assert len(set(seen)) == len(seen)


def test_rows_of_an_array_are_copied_and_those_of_a_lazy_one_are_not_read() -> None:
    def refuse(positions: object) -> None:
        raise AssertionError("read")

    lazy = LazyArray(refuse, shape=(5, 2), dtype=float)
    assert select_rows(lazy, np.array([4, 1])).shape == (2, 2)
    assert select_rows(np.arange(5), np.array([4, 1])).tolist() == [4, 1]


def test_positions_are_drawn_without_replacement() -> None:
    drawn = draw_positions(np.array([7, 8, 9]), 3, np.random.default_rng(0))
    assert sorted(drawn.tolist()) == [7, 8, 9]


@pytest.mark.parametrize(("n", "text"), [(0, "0 classes"), (1, "1 class"), (2, "2 classes")])
def test_nouns_agree_with_their_numbers(n: int, text: str) -> None:
    assert count_noun(range(n), "class", "es") == text

"""What pools share: positions by id, rows of any kind of data, random parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot.drawing import (
    DrawnTasks,
    LazyArray,
    assign,
    count_noun,
    draw_all,
    draw_positions,
    fill_in_threads,
    positions_by_id,
    select_rows,
)


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


@pytest.mark.parametrize(("width", "most"), [(0, 64), (2**14, 64), (2**15, 32), (2**21, 1)])
@given(count=st.integers(0, 300))
def test_every_row_is_filled_once(width: int, most: int, count: int) -> None:
    filled = np.zeros(count, int)
    parts = []

    def fill(rows: slice) -> None:
        parts.append(rows)
        filled[rows] += 1

    fill_in_threads(fill, count, width)
    assert (filled == 1).all()
    assert len(parts) == max(1, -(-count // most))


def test_what_goes_wrong_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        fill_in_threads(lambda rows: 1 // rows.start, 300, width=1)


def test_tasks_that_are_drawn_when_accessed_are_drawn_once() -> None:
    calls = []

    def draw(i: int, rng: np.random.Generator) -> int:
        calls.append(i)
        return i

    drawn: Any = draw_all(DrawnTasks(3, draw, np.random.SeedSequence(0)))  # type: ignore[arg-type]
    assert list(drawn) == list(drawn) == calls == [0, 1, 2]
    others: Any = range(2)
    assert draw_all(others) == list(others)

"""For any scores, brackets shrink to the right score in a bounded number of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapac.tables.search import Brackets, Spans, cuts_between, narrow

WIDTHS: dict[Any, Any] = {np.float32: 32, np.float64: 64}


def scores(kind: Any) -> st.SearchStrategy[NDArray[Any]]:
    one = st.floats(allow_nan=False, width=WIDTHS[kind])
    few = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 5e-324, 0.5, 1.0, np.inf])
    return st.lists(one | few, min_size=1, max_size=40).map(lambda x: np.array(x, kind))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[NDArray[Any]], Brackets]:
    """Tasks with their scores, and a bracket around all scores of each for some ranks."""
    kind = draw(st.sampled_from(list(WIDTHS)))
    tasks = [np.sort(each) for each in draw(st.lists(scores(kind), min_size=1, max_size=4))]
    targets = [
        (i, draw(st.integers(0, len(task) - 1))) for i, task in enumerate(tasks) for _ in range(2)
    ]
    task, rank = np.array(targets).T
    low, high = (np.array([each[end] for each in tasks]) for end in (0, -1))
    sizes = np.array([len(each) for each in tasks])
    return tasks, Brackets.whole(task, rank, low, high, sizes)


def answers(tasks: list[NDArray[Any]], brackets: Brackets) -> list[float]:
    return [tasks[i][k] for i, k in zip(brackets.task, brackets.rank, strict=True)]


def check(tasks: list[NDArray[Any]], brackets: Brackets) -> None:
    """Check the brackets against the scores themselves."""
    assert (brackets.low <= answers(tasks, brackets)).all()
    assert (brackets.high >= answers(tasks, brackets)).all()
    for i, low, high, below, inside in zip(
        brackets.task, brackets.low, brackets.high, brackets.below, brackets.inside, strict=True
    ):
        if low < high:
            assert below == (tasks[i] < low).sum()
            assert inside == ((tasks[i] >= low) & (tasks[i] <= high)).sum()


@given(problems())
def test_counting_alone_finds_every_rank(problem: tuple[list[NDArray[Any]], Brackets]) -> None:
    tasks, brackets = problem
    rounds = 0
    while not brackets.solved.all():
        cuts = cuts_between(brackets.low, brackets.high)
        less = [
            [(tasks[i] < c).sum() for c in row] for i, row in zip(brackets.task, cuts, strict=True)
        ]
        brackets = narrow(brackets, cuts, np.array(less))
        check(tasks, brackets)
        rounds += 1
    # A round leaves a quarter of the floating-point numbers, of which there are below 2**64.
    assert rounds <= 33
    assert answers(tasks, brackets) == brackets.low.tolist()


@given(problems(), st.data())
def test_a_scan_anywhere_solves_or_narrows(
    problem: tuple[list[NDArray[Any]], Brackets], data: st.DataObject
) -> None:
    tasks, brackets = problem
    for _ in range(3):
        one = st.floats(allow_nan=False, width=WIDTHS[brackets.low.dtype.type])
        some = st.lists(one, min_size=len(brackets.low), max_size=len(brackets.low))
        ends = np.sort(np.array([data.draw(some), data.draw(some)], brackets.low.dtype), axis=0)
        floor, ceiling = np.clip(ends, brackets.low, brackets.high)
        brackets = scan(tasks, brackets, floor, ceiling)
        check(tasks, brackets)
    brackets = scan(tasks, brackets, brackets.low, brackets.high)
    assert brackets.low.tolist() == answers(tasks, brackets)


def scan(
    tasks: list[NDArray[Any]], brackets: Brackets, floor: NDArray[Any], ceiling: NDArray[Any]
) -> Brackets:
    """Do in arrays what an engine does in a query."""
    which = np.flatnonzero(~brackets.solved)
    some = brackets.take(which)
    spans = Spans.of_brackets(some)
    firsts = np.unique(spans.of, return_index=True)[1]
    floor, ceiling = floor[which][firsts], ceiling[which][firsts]
    near = [
        scores[(scores >= low) & (scores <= end)]
        for scores, low, end in zip([tasks[i] for i in spans.task], spans.low, ceiling, strict=True)
    ]
    less = np.array([(scores < f).sum() for scores, f in zip(near, floor, strict=True)], int)
    seen = np.array([len(scores) for scores in near], int)
    score = np.full(len(which), np.nan, some.low.dtype)
    for i, (span, place) in enumerate(zip(spans.of, some.rank - some.below, strict=True)):
        if less[span] <= place < seen[span]:
            score[i] = near[span][place]
    result = some.after_scan(spans, floor, ceiling, less, seen, score)
    assert result is not None
    return brackets.put(which, result)


def after(count: int, score: float, ceiling: float = 1.0) -> Brackets | None:
    """Scan ten scores from 0 to 1 for that of rank 3, and see so many up to the ceiling."""
    low, high = np.array([0.0]), np.array([1.0])
    brackets = Brackets.whole(np.array([0]), np.array([3]), low, high, np.array([10]))
    spans, ceilings = Spans.of_brackets(brackets), np.array([ceiling])
    less, seen = np.array([0]), np.array([count])
    return brackets.after_scan(spans, low, ceilings, less, seen, np.array([score]))


@pytest.mark.parametrize(
    ("count", "score"),
    [(11, 0.5), (9, 0.5), (10, np.nan)],
    ids=["more rows", "fewer rows", "no row of that rank"],
)
def test_counts_that_contradict_the_census_are_noticed(count: int, score: float) -> None:
    assert after(count, score) is None
    assert after(10, 0.5) is not None


def test_targets_of_one_bracket_share_a_span() -> None:
    task, rank = np.array([0, 0, 1]), np.array([2, 5, 2])
    low, high, sizes = np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([9, 9])
    brackets = Brackets.whole(task, rank, low, high, sizes)
    spans = Spans.of_brackets(brackets)
    assert spans.of.tolist() == [0, 0, 1]
    assert (spans.first.tolist(), spans.last.tolist()) == ([2, 2], [5, 2])
    assert brackets.remaining == 18  # a bracket that targets share counts once
    solved = brackets._replace(high=np.array([0.0, 1.0, 0.0]))
    assert solved.remaining == 9
    assert brackets._replace(high=np.zeros(3)).remaining == 0


def test_cuts_lie_inside_and_ascend() -> None:
    low = np.array([-np.inf, 0.0, 1.0, -1e308])
    high = np.array([np.inf, 5e-324, 2.0, 1e308])
    cuts = cuts_between(low, high)
    assert (cuts[:, 1:] >= cuts[:, :-1]).all()
    assert (cuts > low[:, None]).all()
    assert (cuts <= high[:, None]).all()
    assert {1.2, 1.4, 1.6, 1.8} <= set(cuts[2].round(12))


def test_more_scores_than_there_were_are_a_contradiction() -> None:
    assert after(7, 0.5, ceiling=0.75) is not None  # part of the bracket
    assert after(11, 0.5, ceiling=0.75) is None

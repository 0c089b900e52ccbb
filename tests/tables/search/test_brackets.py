"""For any scores, brackets shrink to the right score in a bounded number of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapac.tables.search.brackets import Brackets, Spans, cuts_between, narrow

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
    spans = Spans.of_brackets(some, floor[which], ceiling[which])
    less, count, score = [], [], []
    for task, rank, below, span in zip(some.task, some.rank, some.below, spans.of, strict=True):
        scores_of_task = tasks[task]
        near = scores_of_task[
            (scores_of_task >= spans.low[span]) & (scores_of_task <= spans.ceiling[span])
        ]
        less.append((near < spans.floor[span]).sum())
        count.append(len(near))
        place = rank - below
        score.append(near[place] if less[-1] <= place < count[-1] else np.nan)
    kind = some.low.dtype
    result = some.after_scan(
        spans, np.array(less, int), np.array(count, int), np.array(score, kind)
    )
    assert result is not None
    return brackets.put(which, result)


def whole(count: int = 10) -> tuple[Brackets, Spans]:
    low, high = np.array([0.0]), np.array([1.0])
    brackets = Brackets.whole(np.array([0]), np.array([3]), low, high, np.array([count]))
    return brackets, Spans.of_brackets(brackets, low, high)


@pytest.mark.parametrize(
    ("count", "score"),
    [(11, 0.5), (9, 0.5), (10, np.nan)],
    ids=["more rows", "fewer rows", "no row of that rank"],
)
def test_counts_that_contradict_the_census_are_noticed(count: int, score: float) -> None:
    brackets, spans = whole()
    assert brackets.after_scan(spans, np.array([0]), np.array([count]), np.array([score])) is None
    assert brackets.after_scan(spans, np.array([0]), np.array([10]), np.array([0.5])) is not None


def test_targets_of_one_bracket_share_a_span() -> None:
    task, rank = np.array([0, 0, 1]), np.array([2, 5, 2])
    low, high, sizes = np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([9, 9])
    brackets = Brackets.whole(task, rank, low, high, sizes)
    spans = Spans.of_brackets(brackets, np.array([0.5, 0.1, 0.2]), np.array([0.6, 0.3, 0.4]))
    assert spans.of.tolist() == [0, 0, 1]
    assert spans.floor.tolist() == [0.1, 0.2]
    assert spans.ceiling.tolist() == [0.6, 0.4]
    assert brackets.remaining == 18  # a bracket that targets share counts once
    solved = brackets._replace(high=np.array([0.0, 1.0, 0.0]))
    assert solved.remaining == 9


def test_cuts_lie_inside_and_ascend() -> None:
    low = np.array([-np.inf, 0.0, 1.0, -1e308])
    high = np.array([np.inf, 5e-324, 2.0, 1e308])
    cuts = cuts_between(low, high)
    assert (cuts[:, 1:] >= cuts[:, :-1]).all()
    assert (cuts > low[:, None]).all()
    assert (cuts <= high[:, None]).all()
    assert {1.2, 1.4, 1.6, 1.8} <= set(cuts[2].round(12))


def test_more_scores_than_there_were_are_a_contradiction() -> None:
    kind = np.float64
    brackets = Brackets.whole(
        np.array([0]), np.array([5]), np.array([0.0], kind), np.array([9.0], kind), np.array([10])
    )
    spans = Spans.of_brackets(brackets, np.array([4.0]), np.array([6.0]))  # part of the bracket
    less, score = np.array([4]), np.array([5.0])
    assert brackets.after_scan(spans, less, np.array([7]), score) is not None
    assert brackets.after_scan(spans, less, np.array([11]), score) is None

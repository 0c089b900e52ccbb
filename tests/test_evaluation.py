"""Draws, methods and trials: exact on small draws, and the same however they are spread."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies import PROMISE, SmallStudy

from metapac import Guarantee, MetaCP
from metapac.evaluation import (
    Chosen,
    Draw,
    Judged,
    Method,
    Rows,
    Rule,
    data_checksum,
    evaluate,
    paper_methods,
)
from metapac.evaluation.methods import OWN, PER_TASK, POOLED
from metapac.evaluation.rows import judge
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level, joint_ranks

PAPERS = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
NAMES = ("PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")
AGAIN = ("Meta-CP", "Meta-PS even", "Meta-PS tight")

coarse = st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 0.5, 0.75, 1.0])


def same(one: Rows, other: Rows) -> bool:
    """Whether two tables are equal to the last bit."""
    return all(np.array_equal(vars(one)[name], vars(other)[name]) for name in vars(one))


def judged(scores: Any, labels: Any, **more: Any) -> Judged:
    table = np.asarray(scores)
    true = table[np.arange(len(table)), labels]
    return Judged(own=more.pop("own", true), true=true, scores=table, **more)


@st.composite
def small_tasks(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    n, classes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    table = [[draw(coarse) for _ in range(classes)] for _ in range(n)]
    return table, [draw(st.integers(0, classes - 1)) for _ in range(n)]


@given(small_tasks(), st.lists(coarse | st.floats(-2, 2), min_size=1, max_size=5))
def test_error_and_size_are_counts(
    task: tuple[list[list[float]], list[int]], cuts: list[float]
) -> None:
    table, labels = task
    found = judged(table, labels)
    for cut, error, size in zip(cuts, found.error(cuts), found.size(cuts), strict=True):
        misses = sum(row[label] < cut for row, label in zip(table, labels, strict=True))
        assert error == misses / len(table)
        assert size == sum(score >= cut for row in table for score in row) / len(table)


@given(small_tasks(), st.sampled_from([0.05, 0.1, 1 / 3, 0.5, 0.6, 2 / 3, 0.9]))
def test_no_larger_threshold_would_do(
    task: tuple[list[list[float]], list[int]], epsilon: float
) -> None:
    found = judged(*task)
    best = found.largest_threshold(epsilon)
    assert found.error([best])[0] <= epsilon
    for larger in [*found.true[found.true > best], best + 0.01 if best > -np.inf else -2.0]:
        assert found.error([larger])[0] > epsilon


def test_a_threshold_is_compared_in_the_precision_of_the_task() -> None:
    task = judged(np.array([[0.7, 0.1]], dtype=np.float32), [0])
    assert np.float64(np.float32(0.7)) < 0.7
    assert task.error([0.7])[0] == 0
    assert task.size([0.7])[0] == 1
    assert task.error([np.nextafter(np.float32(0.7), 1)])[0] == 1
    half = judged(np.array([[0.5]], dtype=np.float16), [0])
    assert half.error([1e9, -1e9]).tolist() == [1, 0]


def test_own_examples_are_not_judged() -> None:
    task = Judged.split([[1, 2], [3, 4], [5, 6]], [0, 1, 0], own=np.array([True, False, False]))
    assert task.own.tolist() == [1]
    assert task.true.tolist() == [4, 5]
    assert task.scores.tolist() == [[3, 4], [5, 6]]
    assert task.quantile is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"own": []}, "own is empty; pass at least one labelled example"),
        ({"own": [np.nan]}, "own holds 1 NaN out of 1 values"),
        ({"true": [0.5]}, r"scores must have a row for each of the 1 judged examples and a column"),
        ({"scores": [1.0, 2.0]}, r"a column for each label, got shape \(2,\)."),
        ({"true": [0.1, 0.9]}, "true must hold one of the scores of its row in scores, and does"),
        ({"quantile": np.inf}, "quantile must be a finite number or None, got inf. Pass what"),
    ],
)
def test_a_task_that_cannot_be_judged_is_refused(changes: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"own": [0.5], "true": [0.5, 0.5], "scores": [[0.5, 0.1], [0.2, 0.5]]}
    with pytest.raises(ValueError, match=message):
        Judged(**(good | changes))


def test_a_draw_needs_tasks_and_all_quantiles_or_none() -> None:
    task = judged([[0.5]], [0])
    with pytest.raises(ValueError, match="tests is empty; a draw needs at least one new task"):
        Draw(np.ones(2), np.arange(2), [])
    with pytest.raises(ValueError, match="but test task 1 has none. Predict them for all tasks"):
        Draw(np.ones(2), np.arange(2), [replace(task, quantile=0.5), task], np.ones(2))


def test_a_checksum_sees_bytes_shapes_and_types() -> None:
    some = np.arange(6)
    others = (some + 1, some.reshape(2, 3), some.astype(np.int32), some.astype(float))
    assert len({data_checksum(each) for each in (some, *others)}) == 5
    assert data_checksum(some, some) != data_checksum(some)
    assert data_checksum(np.arange(12)[::2]) == data_checksum(np.arange(0, 12, 2))


def levels(name: str, g: Guarantee, tasks: int) -> tuple[list[float], list[int]]:
    """The levels within tasks of the paper's split and ours, and the ranks across tasks."""
    delta = g.failure_probability
    if name == "Meta-PS even":
        return [g.alpha / 2], [oracles.allowed_errors(tasks, g.alpha / 2, delta)]
    if name == "Meta-PS tight":
        across = g.alpha * (1 - g.alpha / 2)
        return [g.alpha / 2], [oracles.allowed_errors(tasks, across, delta)]
    shares = tuple(Level(x, g.alpha * (1 - x)) for x in JOINT_LEVELS)
    return list(JOINT_LEVELS), list(joint_ranks(tasks, shares, delta))


def expected(name: str, g: Guarantee, draw: Draw) -> list[float]:
    """The threshold on each new task, by the slow references."""
    scores, tasks, tests = draw.scores.tolist(), draw.tasks.tolist(), draw.tests
    epsilon, delta = g.miss_rate, g.failure_probability
    if name == "PS":
        return [oracles.threshold(scores, epsilon, delta)] * len(tests)
    if name == "PS-Test":
        return [oracles.threshold(test.own.tolist(), epsilon, delta) for test in tests]
    if name == "oracle":
        cuts = [sorted(test.true.tolist()) for test in tests]  # type: ignore[attr-defined]
        return [
            max(cut for cut in mine if sum(x < cut for x in mine) <= epsilon * len(mine))
            for mine in cuts
        ]
    if name == "Meta-CP":
        assert draw.quantiles is not None
        guesses = dict(enumerate(draw.quantiles.tolist()))
        method = MetaCP(epsilon=epsilon, delta=delta, over="examples")
        method.calibrate(scores, tasks, guesses)
        return [method.threshold(test.quantile or 0.0) for test in tests]
    within, ranks = levels(name, g, len(set(tasks)))
    return [oracles.meta_ps(scores, tasks, g.miss_rate, within, ranks)] * len(tests)


@pytest.mark.parametrize("seed", range(3))
def test_every_method_is_what_its_name_says(seed: int) -> None:
    draw = SmallStudy().draw(np.random.default_rng(seed))
    rows = judge(7, draw, paper_methods(PROMISE))
    second = 0.1
    assert rows.methods() == [(n, PROMISE.delta) for n in NAMES] + [(n, second) for n in AGAIN]
    for name, delta in rows.methods():
        mine = rows.of(name, delta)
        cuts = expected(name, replace(PROMISE, delta=delta), draw)
        assert mine.threshold.tolist() == cuts, name
        assert np.isfinite(mine.threshold).all()
        assert mine.feasible.all()
        assert mine.draw.tolist() == [7] * 4
        assert mine.task.tolist() == [0, 1, 2, 3]
        judged_alone = zip(draw.tests, cuts, strict=True)
        assert mine.error.tolist() == [float(test.error([cut])[0]) for test, cut in judged_alone]
        judged_alone = zip(draw.tests, cuts, strict=True)
        assert mine.size.tolist() == [float(test.size([cut])[0]) for test, cut in judged_alone]


def test_a_promise_at_the_second_delta_is_not_run_twice() -> None:
    names = [method.name for method in paper_methods(replace(PROMISE, delta=0.1))]
    assert names == list(NAMES)


def test_without_quantiles_meta_cp_is_left_out() -> None:
    draw = SmallStudy(quantiles=False).draw(np.random.default_rng(0))
    found = judge(0, draw, paper_methods(PROMISE)).methods()
    assert [name for name, _ in found] == [n for n in (*NAMES, *AGAIN) if n != "Meta-CP"]


def known(tasks: int, examples: int, own: tuple[int, ...], **more: Any) -> Draw:
    tests = [judged(np.eye(5), np.arange(5), own=np.ones(n), **more) for n in own]
    names = np.repeat(np.arange(tasks), examples)
    return Draw(np.linspace(0, 1, len(names)), names, tests)


@pytest.mark.parametrize(
    ("draw", "method", "carried"),
    [
        (known(1, 109, (1,)), Method("PS", POOLED, PAPERS), [False]),
        (known(1, 110, (1,)), Method("PS", POOLED, PAPERS), [True]),
        (known(1, 1, (100, 109, 110)), Method("PS-Test", OWN, PAPERS), [False, False, True]),
        (known(110, 44, (1,)), Method("joint", PER_TASK, PAPERS), [False]),
        (known(111, 44, (1,)), Method("joint", PER_TASK, PAPERS), [True]),
        (known(111, 43, (1,)), Method("joint", PER_TASK, PAPERS), [False]),
        (known(115, 30, (1,)), Method("tight", PER_TASK, replace(PAPERS, split="tight")), [False]),
        (known(116, 30, (1,)), Method("tight", PER_TASK, replace(PAPERS, split="tight")), [True]),
        (known(116, 28, (1,)), Method("tight", PER_TASK, replace(PAPERS, split="tight")), [False]),
        (known(224, 30, (1,)), Method("even", PER_TASK, replace(PAPERS, split="even")), [False]),
        (known(225, 30, (1,)), Method("even", PER_TASK, replace(PAPERS, split="even")), [True]),
    ],
)
def test_too_few_data_keep_every_label(draw: Draw, method: Method, carried: list[bool]) -> None:
    rows = judge(0, draw, [method])
    assert rows.feasible.tolist() == carried
    assert np.isfinite(rows.threshold).tolist() == carried
    assert (rows.size[~rows.feasible] == 5).all()
    assert (rows.error[~rows.feasible] == 0).all()


def test_a_meta_cp_of_too_few_tasks_keeps_every_label() -> None:
    few = replace(SmallStudy(), tasks=2).draw(np.random.default_rng(0))
    rows = judge(0, few, paper_methods(PAPERS)).of("Meta-CP", PAPERS.delta)
    assert not rows.feasible.any()
    assert (rows.threshold == -np.inf).all()
    assert (rows.size == 3).all()


def test_draw_i_is_the_same_alone_and_in_a_batch() -> None:
    five = evaluate(SmallStudy(), guarantee=PROMISE, draws=5, rng=3)
    assert five.draw.tolist() == np.repeat(np.arange(5), 4 * (len(NAMES) + len(AGAIN))).tolist()
    assert same(five.take(five.draw < 2), evaluate(SmallStudy(), guarantee=PROMISE, draws=2, rng=3))
    for i, seed in enumerate(np.random.SeedSequence(3).spawn(5)):
        draw = SmallStudy().draw(np.random.default_rng(seed))
        assert same(five.take(five.draw == i), judge(i, draw, paper_methods(PROMISE)))
    assert (
        len({float(five.of("PS").take(five.of("PS").draw == i).threshold[0]) for i in range(5)})
        == 5
    )
    other = evaluate(SmallStudy(), guarantee=PROMISE, draws=5, rng=4)
    assert not np.array_equal(other.threshold, five.threshold)


def test_a_generator_or_no_seed_will_do() -> None:
    one, two = (
        evaluate(SmallStudy(), guarantee=PROMISE, draws=2, rng=np.random.default_rng(5))
        for _ in range(2)
    )
    assert same(one, two)
    shared = np.random.default_rng(5)
    first, second = (
        evaluate(SmallStudy(), guarantee=PROMISE, draws=2, rng=shared) for _ in range(2)
    )
    assert same(first, one)
    assert not same(second, one)
    seed = np.random.default_rng(5).spawn(1)[0].bit_generator.seed_seq.spawn(2)[1]  # type: ignore[attr-defined]
    alone = judge(1, SmallStudy().draw(np.random.default_rng(seed)), paper_methods(PROMISE))
    assert same(one.take(one.draw == 1), alone)
    free = [evaluate(SmallStudy(), guarantee=PROMISE, draws=1, rng=None) for _ in range(2)]
    assert not same(*free)


@dataclass(frozen=True)
class Failing(SmallStudy):
    """A study whose second draw fails."""

    def draw(self, rng: np.random.Generator) -> Draw:
        if rng.bit_generator.seed_seq.spawn_key == (1,):  # type: ignore[attr-defined]
            raise RuntimeError("no data")
        return super().draw(rng)


def test_a_draw_that_fails_is_named() -> None:
    with pytest.raises(RuntimeError, match="no data") as caught:
        evaluate(Failing(), guarantee=PROMISE, draws=3)
    assert caught.value.__notes__ == ["This was draw 1."]


def test_progress_is_told() -> None:
    told: list[int] = []
    evaluate(SmallStudy(), guarantee=PROMISE, draws=3, progress=told.append)
    assert told == [1, 2, 3]


def process(draw: Draw, g: Guarantee) -> Chosen:
    """No method: its thresholds say which process chose them."""
    return Chosen(np.full(len(draw.tests), os.getpid()), np.ones(len(draw.tests), dtype=bool))


WITH_PROCESS = (*paper_methods(PROMISE), Method("process", Rule(process, str), PROMISE))


def spread(**how: Any) -> tuple[Rows, set[int]]:
    """Return the rows of five draws, and the processes that drew them."""
    rows = evaluate(SmallStudy(), guarantee=PROMISE, methods=WITH_PROCESS, draws=5, **how)
    return rows.take(rows.method != "process"), set(rows.of("process").threshold.tolist())


@pytest.mark.parametrize("backend", [None, "multiprocessing"])
def test_the_rows_are_the_same_from_other_processes(backend: str | None) -> None:
    told: list[int] = []
    found, processes = spread(n_jobs=2, backend=backend, progress=told.append)
    assert same(found, evaluate(SmallStudy(), guarantee=PROMISE, draws=5))
    assert told == [1, 2, 3, 4, 5]
    assert os.getpid() not in processes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_the_rows_are_the_same_from_a_dask_cluster(cluster: Any) -> None:
    found, processes = spread(n_jobs=-1, backend="dask")
    assert same(found, evaluate(SmallStudy(), guarantee=PROMISE, draws=5))
    assert processes <= set(cluster.run(os.getpid).values())


SENT: list[int] = []


@dataclass(frozen=True)
class Counted(SmallStudy):
    """A study that knows how often it was sent away."""

    def __getstate__(self) -> dict[str, Any]:
        SENT.append(1)
        return self.__dict__


def test_dask_is_sent_the_study_once_however_many_draws(cluster: Any) -> None:
    counts = []
    for draws in (2, 6):
        SENT.clear()
        evaluate(Counted(), guarantee=PROMISE, draws=draws, n_jobs=-1, backend="dask")
        counts.append(len(SENT))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": 0}, "draws must hold whole numbers from 1 to"),
        ({"n_jobs": 0}, "n_jobs must be a whole number of workers, or -1 for one on each core, g"),
        ({"n_jobs": 1.5}, "n_jobs must be a whole number of workers, .* got 1.5."),
        ({"backend": "abacus"}, "Invalid backend: abacus"),
        ({"methods": ()}, "methods must have names that rows can tell apart, got none. Give each"),
        (
            {"methods": [Method("PS", POOLED, PROMISE)] * 2},
            "methods must have names .*, got 'PS' at delta=0.2 twice. Give each its own name",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(SmallStudy(), guarantee=PROMISE, **changes)


def test_a_missing_joblib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"need joblib. Install it with: pip install 'metapac\[parallel\]'",
    ):
        evaluate(SmallStudy(), guarantee=PROMISE, draws=2, n_jobs=2)
    evaluate(SmallStudy(), guarantee=PROMISE, draws=2)


def test_rows_are_found_by_method() -> None:
    rows = evaluate(SmallStudy(), guarantee=PROMISE, draws=2)
    assert len(rows) == 2 * 4 * (len(NAMES) + len(AGAIN))
    assert set(rows.of("Meta-CP").delta.tolist()) == {0.2}
    assert set(rows.of("Meta-CP", 0.1).delta.tolist()) == {0.1}
    with pytest.raises(ValueError, match="rows hold no method 'PSS'; they have: PS at delta=0.2,"):
        rows.of("PSS")
    with pytest.raises(ValueError, match="rows hold no method 'PS' at delta=0.3; they have: PS"):
        rows.of("PS", 0.3)

"""The protocol: the same rows however the draws are distributed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee, InvalidInput
from metapac.fewshot import Method, Rule, paper_methods, run_study
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import PS, Chosen
from metapac.fewshot.study.rows import Rows, evaluate_draw
from tests.helpers.studies import GUARANTEE, SmallStudy, same_rows

NAMES = ("PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")


def test_draw_i_is_the_same_alone_and_in_a_batch() -> None:
    five = run_study(SmallStudy(), guarantee=GUARANTEE, draws=5, rng=3)
    assert five.draw.tolist() == np.repeat(np.arange(5), 4 * len(NAMES)).tolist()
    assert same_rows(
        five.take(five.draw < 2), run_study(SmallStudy(), guarantee=GUARANTEE, draws=2, rng=3)
    )
    for i, seed in enumerate(np.random.SeedSequence(3).spawn(5)):
        draw = SmallStudy().draw(np.random.default_rng(seed))
        assert same_rows(
            five.take(five.draw == i), evaluate_draw(i, draw, paper_methods(GUARANTEE))
        )
    assert (
        len(
            {
                float(five.select("PS").take(five.select("PS").draw == i).threshold[0])
                for i in range(5)
            }
        )
        == 5
    )
    other = run_study(SmallStudy(), guarantee=GUARANTEE, draws=5, rng=4)
    assert not np.array_equal(other.threshold, five.threshold)


def test_a_generator_or_no_seed_will_do() -> None:
    one, two = (
        run_study(SmallStudy(), guarantee=GUARANTEE, draws=2, rng=np.random.default_rng(5))
        for _ in range(2)
    )
    assert same_rows(one, two)
    shared = np.random.default_rng(5)
    first, second = (
        run_study(SmallStudy(), guarantee=GUARANTEE, draws=2, rng=shared) for _ in range(2)
    )
    assert same_rows(first, one)
    assert not same_rows(second, one)
    seed = np.random.default_rng(5).spawn(1)[0].bit_generator.seed_seq.spawn(2)[1]  # type: ignore[attr-defined]
    alone = evaluate_draw(
        1, SmallStudy().draw(np.random.default_rng(seed)), paper_methods(GUARANTEE)
    )
    assert same_rows(one.take(one.draw == 1), alone)
    free = [run_study(SmallStudy(), guarantee=GUARANTEE, draws=1, rng=None) for _ in range(2)]
    assert not same_rows(*free)


@dataclass(frozen=True)
class Failing(SmallStudy):
    """A study whose second draw fails."""

    def draw(self, rng: np.random.Generator) -> Draw:
        if rng.bit_generator.seed_seq.spawn_key == (1,):  # type: ignore[attr-defined]
            raise RuntimeError("no data")
        return super().draw(rng)


def test_a_draw_that_fails_is_named() -> None:
    with pytest.raises(RuntimeError, match="no data") as caught:
        run_study(Failing(), guarantee=GUARANTEE, draws=3)
    assert caught.value.__notes__ == ["This was draw 1."]


def test_progress_counts_finished_draws() -> None:
    calls: list[tuple[Any, ...]] = []
    run_study(SmallStudy(), guarantee=GUARANTEE, draws=3, progress=lambda *call: calls.append(call))
    assert calls == [("draws", i, 3) for i in (1, 2, 3)]


def process_id(draw: Draw, g: Guarantee) -> Chosen:
    """Not a method: its thresholds say which process chose them."""
    return Chosen(np.full(len(draw.tests), os.getpid()), np.ones(len(draw.tests), dtype=bool))


WITH_PROCESS = (*paper_methods(GUARANTEE), Method("process", Rule(process_id, str), GUARANTEE))


def evaluate_in_processes(**options: Any) -> tuple[Rows, set[int]]:
    """Return the rows of five draws, and the processes that drew them."""
    rows = run_study(SmallStudy(), guarantee=GUARANTEE, methods=WITH_PROCESS, draws=5, **options)
    return rows.take(rows.method != "process"), set(rows.select("process").threshold.tolist())


@pytest.mark.parametrize("backend", [None, "multiprocessing"])
def test_the_rows_are_the_same_from_other_processes(backend: str | None) -> None:
    done: list[int] = []
    result, processes = evaluate_in_processes(
        n_jobs=2, backend=backend, progress=lambda _, count, __: done.append(count)
    )
    assert same_rows(result, run_study(SmallStudy(), guarantee=GUARANTEE, draws=5))
    assert done == [1, 2, 3, 4, 5]
    assert os.getpid() not in processes


@dataclass(frozen=True)
class Threaded(SmallStudy):
    """A study whose draws would rather share memory."""

    preferred_backend = "threading"


def test_a_study_may_prefer_threads() -> None:
    options: dict[str, Any] = {"guarantee": GUARANTEE, "methods": WITH_PROCESS, "draws": 3}
    for backend, is_here in ((None, True), ("loky", False)):
        rows = run_study(Threaded(), **options, n_jobs=2, backend=backend)
        assert (set(rows.select("process").threshold) == {os.getpid()}) == is_here


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
    result, processes = evaluate_in_processes(n_jobs=-1, backend="dask")
    assert same_rows(result, run_study(SmallStudy(), guarantee=GUARANTEE, draws=5))
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
        run_study(Counted(), guarantee=GUARANTEE, draws=draws, n_jobs=-1, backend="dask")
        counts.append(len(SENT))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": 0}, "draws must be a whole number from 1 to"),
        ({"n_jobs": 0}, "n_jobs must be a whole number of workers, or -1 for all cores, got 0"),
        ({"n_jobs": 1.5}, "n_jobs must be a whole number of workers, .* got 1.5."),
        ({"backend": "abacus"}, "Invalid backend: abacus"),
        ({"methods": ()}, "methods must be distinguishable by name and delta, got none. Give each"),
        (
            {"methods": [Method("PS", PS, GUARANTEE)] * 2},
            "methods must be distinguishable by name and delta, got 'PS' at delta=0.2 twice. Give",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_study(SmallStudy(), guarantee=GUARANTEE, **changes)


def test_a_missing_joblib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"workers needs joblib. Install it with: pip install 'metapac\[parallel\]'",
    ):
        run_study(SmallStudy(), guarantee=GUARANTEE, draws=2, n_jobs=2)
    run_study(SmallStudy(), guarantee=GUARANTEE, draws=2)


@pytest.mark.parametrize("made", [0.5, None, Chosen(np.array(0.5), np.array(True))])
def test_a_rule_that_returns_something_else_is_told_what_to_return(made: Any) -> None:
    method = Method("mine", Rule(lambda draw, g: made), GUARANTEE)
    with pytest.raises(InvalidInput, match=r"rule of method 'mine' must return Chosen\(thresh"):
        run_study(SmallStudy(), guarantee=GUARANTEE, methods=[method], draws=1)


def test_a_function_is_not_a_method() -> None:
    def choose(draw: Draw, g: Guarantee) -> Chosen:
        raise NotImplementedError

    bare: Any = choose
    for wrong in (bare, Method("mine", bare, GUARANTEE)):
        with pytest.raises(InvalidInput, match=r"must hold Method\(name, Rule\(choose\), guar"):
            run_study(SmallStudy(), guarantee=GUARANTEE, methods=[wrong], draws=1)

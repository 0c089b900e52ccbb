"""Guarantees on synthetic tasks of known error, through the whole evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import Guarantee
from metapac.fewshot import paper_methods, run_study, summarise
from metapac.fewshot.reproduce.claims import check_claims
from metapac.fewshot.study.draws import KnownTask, SyntheticStudy
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import MethodSummary, compare_sizes
from metapac.fewshot.synthetic import NormalFamily
from tests.helpers.oracles import FALSE_ALARM, too_many

KNOWN = Guarantee(epsilon=0.2, alpha=0.2, delta=0.1)


MANY = 200


@pytest.fixture(scope="module")
def known() -> Rows:
    """Many draws of tasks whose error at any threshold is a number."""
    study = SyntheticStudy(NormalFamily(), tasks=60, examples=40, tests=10)
    return run_study(study, guarantee=KNOWN, draws=MANY, rng=0)


def violating_draws(rows: Rows, method: str, delta: float = KNOWN.failure_probability) -> int:
    """In how many draws does the threshold violate the guarantee on more than alpha of tasks?"""
    selected = rows.select(method, delta)
    cuts = selected.threshold[selected.task == 0].tolist()
    assert len(cuts) == MANY
    return sum(NormalFamily().violation_rate(cut, KNOWN.miss_rate) > KNOWN.alpha for cut in cuts)


@pytest.mark.parametrize("method", ["Meta-PS even", "Meta-PS tight", "Meta-PS joint"])
def test_meta_ps_satisfies_its_guarantee_end_to_end(known: Rows, method: str) -> None:
    assert known.select(method).feasible.all()
    assert not too_many(violating_draws(known, method), MANY, KNOWN.failure_probability)


def test_ps_violates_it_and_is_caught(known: Rows) -> None:
    assert too_many(violating_draws(known, "PS"), MANY, KNOWN.failure_probability)
    assert violating_draws(known, "PS") > 0.9 * MANY


def test_the_rows_agree_with_the_family(known: Rows) -> None:
    # Every draw has new tasks, so that the number of violations is a sum of independent
    # events of known probability; Hoeffding bounds how far their share strays from its mean.
    for method in ("PS", "Meta-PS even", "Meta-PS tight"):
        selected = known.select(method)
        chances = [
            NormalFamily().violation_rate(cut, KNOWN.miss_rate)
            for cut in selected.threshold.tolist()
        ]
        share = float(np.mean(selected.error > KNOWN.miss_rate))
        slack = np.sqrt(np.log(2 / FALSE_ALARM) / (2 * len(selected)))
        assert abs(share - float(np.mean(chances))) < slack


def test_the_papers_claims_hold_on_the_family(known: Rows) -> None:
    lines: dict[str, MethodSummary] = {s.method: s for s in summarise(known, KNOWN)}
    assert lines["Meta-PS tight"].satisfied
    assert not lines["PS"].satisfied
    assert {v.claim.split(":")[0]: v.agrees for v in check_claims(known, KNOWN, "synthetic")} == {
        "Meta-PS even": True,
        "Meta-PS tight": True,
        "Meta-PS joint": True,
        "PS": True,
        "PS-Test": False,  # with 100 labels of the task, its sets need not be large here
    }


def test_the_tight_split_gives_smaller_sets(known: Rows) -> None:
    result = compare_sizes(known, "Meta-PS tight", "Meta-PS even")
    assert result.draws == MANY
    assert result.high < 0
    assert result.first_size < result.second_size
    best = compare_sizes(known, "Meta-PS joint", "Meta-PS tight")
    assert best.high < 0  # tasks of 40 examples are small
    # The same threshold rule twice differs by nothing: the interval is not negative by itself.
    assert compare_sizes(known, "PS", "PS").high == 0


def test_the_oracle_is_exact_on_every_task(known: Rows) -> None:
    selected = known.select("oracle")
    assert (selected.error <= KNOWN.miss_rate).all()
    assert selected.error == pytest.approx(KNOWN.miss_rate)
    right = known.take((known.error <= KNOWN.miss_rate) & (known.method != "oracle"))
    floor = {(d, t): s for d, t, s in zip(selected.draw, selected.task, selected.size, strict=True)}
    key = zip(right.draw, right.task, right.size, strict=True)
    assert all(size >= floor[draw, task] - 1e-12 for draw, task, size in key)


@given(st.floats(0.001, 0.999), st.floats(-10, 10))
def test_the_largest_threshold_of_a_known_task_is_within_a_digit(
    epsilon: float, signal: float
) -> None:
    task = KnownTask(NormalFamily(), signal, np.ones(1))
    best = task.largest_threshold(epsilon)
    assert task.error([best])[0] <= epsilon
    assert task.error([best + 1e-12])[0] > epsilon


def test_methods_are_run_at_the_given_guarantee() -> None:
    for method in paper_methods(KNOWN):
        g = method.guarantee
        assert replace(g, split="joint", delta=0.1) == KNOWN

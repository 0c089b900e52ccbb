"""Neighbouring methods against published values, exact integrals and slow loops."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import Guarantee
from metapac.fewshot import SyntheticStudy, run_study
from metapac.fewshot.study.draws import Draw, ScoredTask
from metapac.fewshot.study.methods import (
    PROMISES,
    choose_ranks,
    conformal_threshold,
    neighbour_methods,
    quantile_of_quantiles_coverage,
)

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1)


def draw_of(parts: list[Any]) -> Draw:
    """Tasks with these scores, and two new tasks."""
    tasks = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    scores = np.concatenate([np.asarray(part, float) for part in parts])
    new = ScoredTask(np.array([0.5]), np.array([0.5]), np.array([[0.5, 0.5]]))
    return Draw(scores, tasks, [new, new])


def threshold(name: str, parts: list[Any], guarantee: Guarantee = GUARANTEE) -> tuple[float, bool]:
    (method,) = (each for each in neighbour_methods(guarantee) if each.name == name)
    chosen = method.choose(draw_of(parts))
    assert len(chosen.thresholds) == 2
    assert len(set(chosen.thresholds.tolist())) == 1
    return float(chosen.thresholds[0]), bool(chosen.feasible[0])


def exact_coverage(examples: int, tasks: int, within: int, across: int) -> Fraction:
    """The integral over t of P[Bin(tasks, G(t)) < across], term by term.

    G(t) is the probability that at least ``within`` of ``examples`` uniform scores are at most t.
    Counts of the tasks' examples that are at most t are enumerated; of all examples together,
    j are at most t with density t^j (1 - t)^(all - j), whose integral is a beta function.
    """
    everything = examples * tasks
    ways = {(0, 0): 1}  # (tasks that report at most t, examples at most t) -> number of ways
    for _ in range(tasks):
        grown: dict[tuple[int, int], int] = {}
        for (reports, count), number in ways.items():
            for k in range(examples + 1):
                key = reports + (k >= within), count + k
                grown[key] = grown.get(key, 0) + number * math.comb(examples, k)
        ways = grown
    total = Fraction(0)
    for (reports, count), number in ways.items():
        if reports < across:
            beta = Fraction(1, (everything + 1) * math.comb(everything, count))
            total += number * beta
    return total


def test_the_printed_value_of_fedcp_qq() -> None:
    assert quantile_of_quantiles_coverage(10, 5, 10, 3) == pytest.approx(
        0.9256259545517654, abs=1e-13
    )
    assert choose_ranks(10, 5, 0.1) == (10, 3)


@given(st.data())
def test_coverage_is_the_exact_integral(data: st.DataObject) -> None:
    examples, tasks = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5))
    within, across = data.draw(st.integers(1, examples)), data.draw(st.integers(1, tasks))
    exact = float(exact_coverage(examples, tasks, within, across))
    actual = quantile_of_quantiles_coverage(examples, tasks, within, across)
    assert actual == pytest.approx(exact, abs=1e-12)


def test_coverage_of_the_largest_of_all_scores() -> None:
    # The largest of N uniform numbers has mean N / (N + 1), and one task of n its order statistics.
    assert quantile_of_quantiles_coverage(3000, 500, 3000, 500) == pytest.approx(
        1_500_000 / 1_500_001, abs=1e-13
    )
    assert quantile_of_quantiles_coverage(99, 1, 90, 1) == pytest.approx(0.9, abs=1e-13)
    assert quantile_of_quantiles_coverage(1, 99, 1, 90) == pytest.approx(0.9, abs=1e-13)


@given(st.integers(1, 12), st.integers(1, 8), st.floats(0.02, 0.6))
def test_ranks_are_the_best_of_all_pairs(examples: int, tasks: int, epsilon: float) -> None:
    pairs = [
        (quantile_of_quantiles_coverage(examples, tasks, within, across), within, across)
        for within in range(1, examples + 1)
        for across in range(1, tasks + 1)
    ]
    enough = [pair for pair in pairs if pair[0] >= 1 - epsilon]
    chosen = choose_ranks(examples, tasks, epsilon)
    if chosen is None:
        assert not enough
    else:
        assert quantile_of_quantiles_coverage(examples, tasks, *chosen) == min(enough)[0]


def test_fedcp_qq_takes_the_ranks_from_below() -> None:
    # Ten scores of nonconformity: the largest is minus the smallest score; third of five tasks.
    parts = [np.arange(10) + 100 * task for task in (4, 2, 0, 1, 3)]
    assert threshold("FedCP-QQ", parts) == (200.0, True)
    longer = [*parts[:4], np.concatenate([parts[4], [-5.0]])]  # cut to the first ten
    assert threshold("FedCP-QQ", longer) == (200.0, True)
    assert threshold("FedCP-QQ", [[1.0], [2.0]]) == (-math.inf, False)


@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_a_conformal_threshold_has_its_exact_coverage(n: int, epsilon: float) -> None:
    scores = np.arange(1, n + 1)
    cut = conformal_threshold(scores, epsilon)
    # The new score falls into each of the n + 1 gaps with equal probability.
    missed = 0 if cut == -math.inf else int(cut)
    assert Fraction(missed, n + 1) <= Fraction(epsilon) * (1 + Fraction(1, 2**49))
    assert Fraction(missed + 1, n + 1) > Fraction(epsilon) or missed == n


def test_a_conformal_threshold_is_not_lost_to_rounding() -> None:
    assert conformal_threshold(np.arange(1.0, 10.0), 0.1) == 1.0  # 0.1 * 10 is 1
    assert conformal_threshold(np.arange(1.0, 30.0), 0.1) == 3.0


@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=12),
    st.floats(0.05, 0.6),
)
def test_hcp_equals_its_definition(parts: list[list[int]], epsilon: float) -> None:
    def largest(limit: Fraction) -> float:
        """The largest score below which at most this mass lies; the new group counts as missed."""
        scores = sorted({score for part in parts for score in part})
        masses = [
            (1 + sum(Fraction(sum(s < cut for s in part), len(part)) for part in parts))
            / (len(parts) + 1)
            for cut in scores
        ]
        kept = [cut for cut, mass in zip(scores, masses, strict=True) if mass <= limit]
        return float(max(kept, default=-math.inf))

    found, feasible = threshold("HCP", parts, Guarantee(epsilon=epsilon, alpha=0.2, delta=0.1))
    tie = Fraction(1, 10**12)  # where rounding decides
    assert largest(Fraction(epsilon) - tie) <= found <= largest(Fraction(epsilon) + tie)
    assert feasible == (found > -math.inf)


def test_hcp_covers_a_new_example_of_a_new_task_exactly() -> None:
    # Four exchangeable tasks in every order; each in turn is the new one.
    tasks = [[0.0, 1.0], [2.0], [3.0, 4.0, 5.0], [-1.0, 6.0]]
    guarantee = Guarantee(epsilon=0.5, alpha=0.2, delta=0.1)
    missed = []
    for order in permutations(tasks):
        cut, _ = threshold("HCP", list(order[:-1]), guarantee)
        missed.append(np.mean([score < cut for score in order[-1]]))
    assert np.mean(missed) <= 0.5


def test_multi_environment_takes_a_quantile_of_the_thresholds() -> None:
    parts = [np.arange(19) + 100 * task for task in range(9)]  # second smallest of each
    assert threshold("multi-environment", parts) == (101.0, True)  # second of nine
    assert threshold("multi-environment", parts[:3]) == (-math.inf, False)
    assert threshold("averaged thresholds", parts) == (401.0, True)


def test_tasks_are_separated_whatever_their_order() -> None:
    study = SyntheticStudy(tasks=30, examples=40)
    draw = study.draw(np.random.default_rng(0))
    order = np.argsort(np.arange(len(draw.scores)) % 40, kind="stable")  # round robin
    shuffled = Draw(draw.scores[order], draw.tasks[order], draw.tests)
    for method in neighbour_methods(GUARANTEE):
        assert method.choose(draw).thresholds[0] == method.choose(shuffled).thresholds[0]


def test_they_run_in_an_evaluation_and_each_says_what_it_promises() -> None:
    rows = run_study(
        SyntheticStudy(tasks=60, examples=50),
        guarantee=GUARANTEE,
        methods=neighbour_methods(GUARANTEE),
        draws=3,
    )
    assert sorted(set(rows.method.tolist())) == sorted(PROMISES)
    assert PROMISES["averaged thresholds"] == "nothing"

"""The grid search against a slow loop and against Meta-PS, and the list of all methods."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee
from metapac.fewshot import Method, run_study, summarise
from metapac.fewshot.reproduce import experiments
from metapac.fewshot.reproduce.experiments import (
    GRID,
    GRID_NAME,
    STEP,
    all_methods,
    main_methods,
    meta_cp_methods,
    search_grid,
    split_methods,
)
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import META_PS, SECOND_DELTA
from tests.helpers.studies import GUARANTEE, SmallStudy, scored_task

TEST = scored_task([[0.7, 0.3]], [0])
EVEN = replace(GUARANTEE, split="even")
COARSE = 0.05
# Between the steps of the grid, on them, equal to each other, and at both ends.
SCORES = st.one_of(
    st.floats(0, 1, width=32),
    st.integers(0, 20).map(lambda step: step * COARSE),
    st.integers(0, 10**7).map(lambda step: step * STEP),
    st.sampled_from([0.0, 1.0, 0.5, 1e-8]),
)


def search_slowly(sample: list[float], epsilon: float, delta: float, step: float) -> float:
    """Try every step of the grid, from the last one down."""
    for number in range(round(1 / step), -1, -1):
        errors = sum(score < number * step for score in sample)
        # The Clopper-Pearson bound is at most epsilon if epsilon makes so few errors unlikely.
        if errors < len(sample) and stats.binom.cdf(errors, len(sample), epsilon) <= delta:
            return number * step
    return -math.inf


@given(
    samples=st.lists(st.lists(SCORES, min_size=1, max_size=30), min_size=1, max_size=5),
    epsilon=st.floats(0.02, 0.9),
    delta=st.floats(1e-4, 0.9),
)
@settings(max_examples=150, deadline=None)
def test_the_largest_certified_step_is_found(
    samples: list[list[float]], epsilon: float, delta: float
) -> None:
    for sample in samples:
        chances = stats.binom.cdf(np.arange(len(sample)), len(sample), epsilon)
        assume(not np.isclose(chances, delta, rtol=1e-9).any())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "STEP", COARSE)
        found = search_grid([np.sort(sample) for sample in samples], epsilon, delta)
    expected = [search_slowly(sample, epsilon, delta, COARSE) for sample in samples]
    np.testing.assert_array_equal(found, expected)


def test_known_thresholds() -> None:
    # (1 - 0.1) ** 29 < 0.05: 29 scores allow no error, 28 are too few. 46 allow one.
    one, two = np.linspace(0.25, 0.9, 29), np.linspace(0.25, 0.9, 46)
    found = search_grid([one, one[:28], two], 0.1, 0.05)
    np.testing.assert_allclose(found, [0.25, -np.inf, two[1]], atol=STEP)
    assert (found[[0, 2]] <= [one[0], two[1]]).all()
    assert search_grid([np.ones(29)], 0.1, 0.05) == [1.0]
    assert search_grid([np.zeros(29)], 0.1, 0.05) == [0.0]
    assert search_grid([np.full(29, -np.inf)], 0.1, 0.05) == [-np.inf]


def make_draw(scores: Any, sizes: list[int]) -> Draw:
    return Draw(np.asarray(scores), np.arange(len(sizes)).repeat(sizes), [TEST])


def choose(rule: Any, draw: Draw, guarantee: Guarantee = EVEN) -> tuple[float, bool]:
    chosen = Method("any", rule, guarantee).choose(draw)
    return float(chosen.thresholds[0]), bool(chosen.feasible[0])


@given(data=st.data(), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=16))
@settings(max_examples=150, deadline=None)
def test_it_is_meta_ps_with_the_even_split_up_to_a_step(
    data: st.DataObject, sizes: list[int]
) -> None:
    count = sum(sizes)
    scores = np.array(data.draw(st.lists(SCORES, min_size=count, max_size=count)))
    kind = data.draw(st.sampled_from([np.float32, np.float64]))
    draw = make_draw(scores.astype(kind), sizes)
    (cut, feasible), (grid, grid_feasible) = choose(META_PS, draw), choose(GRID, draw)
    assert feasible >= grid_feasible
    if math.isinf(cut):
        assert grid == -math.inf
        assert not grid_feasible
    else:
        assert feasible
        assert grid_feasible
        assert -1e-15 <= cut - grid < STEP * (1 + 1e-6)


@pytest.mark.parametrize("rng", range(5))
def test_on_the_steps_of_the_grid_they_are_equal(rng: int) -> None:
    generator = np.random.default_rng(rng)
    sizes = [20] * 30
    scores = generator.integers(0, 10**7, 600, endpoint=True) * STEP
    scores[generator.random(600) < 0.3] = generator.choice([0.0, 1.0])
    draw = make_draw(scores, sizes)
    (cut, feasible), (grid, grid_feasible) = choose(META_PS, draw), choose(GRID, draw)
    assert feasible
    assert grid_feasible
    assert grid == pytest.approx(cut, abs=1e-15)


def test_tasks_may_come_in_any_order() -> None:
    generator = np.random.default_rng(0)
    scores, tasks = generator.random(600), np.arange(30).repeat(20)
    order = generator.permutation(600)
    draws = [Draw(scores, tasks, [TEST]), Draw(scores[order], tasks[order], [TEST])]
    assert choose(GRID, draws[0]) == choose(GRID, draws[1])


def test_too_few_tasks_or_examples_keep_every_label() -> None:
    for sizes in ([30] * 2, [1] * 40):
        draw = make_draw(np.linspace(0.1, 0.9, sum(sizes)), sizes)
        assert choose(GRID, draw) == (-math.inf, False)


def test_all_methods_run_on_the_same_draws() -> None:
    chosen = all_methods(GUARANTEE)
    rows = run_study(SmallStudy(tests=2), guarantee=GUARANTEE, methods=chosen, draws=2)
    assert rows.methods() == [(method.name, method.guarantee.delta) for method in chosen]
    assert len(summarise(rows, GUARANTEE)) == len(chosen) == 17
    names = dict.fromkeys(method.name for method in chosen)
    assert [*names] == [
        "PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle",
        "FedCP-QQ", "averaged thresholds", "HCP", "multi-environment", GRID_NAME,
    ]  # fmt: skip
    loose = {method.name for method in chosen if method.guarantee.delta == SECOND_DELTA}
    assert loose == {"PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint"}


def test_each_method_is_run_as_its_name_says() -> None:
    for method in all_methods(GUARANTEE):
        if method.name.startswith("Meta-PS"):
            assert method.guarantee.split == method.name.split()[1].strip(",")
        assert (method.rule is GRID) == (method.name == GRID_NAME)
        assert method.guarantee.epsilon == GUARANTEE.epsilon
        assert pickle.loads(pickle.dumps(method)).describe() == method.describe()


def test_no_method_is_run_twice_if_both_deltas_are_one() -> None:
    names = [method.name for method in all_methods(replace(GUARANTEE, delta=SECOND_DELTA))]
    assert len(names) == len(set(names)) == 12


def test_meta_cp_is_run_at_both_deltas() -> None:
    first, second = meta_cp_methods(GUARANTEE)
    assert (first.name, second.name) == ("Meta-CP", "Meta-CP")
    assert (first.guarantee.delta, second.guarantee.delta) == (0.2, SECOND_DELTA)
    assert len(meta_cp_methods(replace(GUARANTEE, delta=SECOND_DELTA))) == 1


def test_controls_run_some_of_all_methods() -> None:
    known = {(method.name, method.guarantee): method.rule for method in all_methods(GUARANTEE)}
    for chosen in (main_methods, split_methods, meta_cp_methods):
        for method in chosen(GUARANTEE):
            assert known[method.name, method.guarantee] is method.rule
    splits = [method.name for method in split_methods(GUARANTEE)]
    assert splits == ["Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle"]
    assert {method.guarantee.delta for method in main_methods(GUARANTEE)} == {GUARANTEE.delta}
    assert len(main_methods(GUARANTEE)) == 11

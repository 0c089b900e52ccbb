"""The constants of the experiments, their controls and their methods, and the search of a grid."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import fields, replace
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
    EXPERIMENTS,
    GRID,
    GRID_NAME,
    STEP,
    Experiment,
    Training,
    all_methods,
    list_controls,
    main_methods,
    meta_cp_methods,
    search_grid,
    split_methods,
)
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import META_PS, SECOND_DELTA
from tests.helpers.studies import GUARANTEE, SmallStudy, scored_task

MINI = EXPERIMENTS["miniimagenet"]


def differences(one: Experiment, other: Experiment) -> dict[str, Any]:
    before, after = one.describe(), other.describe()
    return {name: value for name, value in after.items() if value != before[name]}


def test_the_description_says_all_that_matters() -> None:
    for name, e in EXPERIMENTS.items():
        described = e.describe()
        assert json.loads(json.dumps(described))["name"] == name == e.name
        left_out = {field.name for field in fields(Experiment)} - described.keys()
        assert left_out == {"title", "draws", "seeds"}
        assert e.describe_training().items() <= described.items()
        assert replace(e, draws=7, seeds=9).describe() == described
    other = replace(MINI, training=Training(lr=1e-3, episodes_per_epoch=1601))
    assert other.describe_training() != MINI.describe_training()
    for change in ({"backbone": "resnet12"}, {"ways": 4}, {"shots": 1}, {"min_group_size": 2}):
        assert replace(MINI, **change).describe_training() != MINI.describe_training()
    for change in ({"calibration_examples": 1}, {"predictor": "train"}, {"name": "other"}):
        assert replace(MINI, **change).describe_training() == MINI.describe_training()


CONTROLS = {
    "glyphs": ["seen", "no-shift", "n-75", "n-150"],  # of 250 examples
    "cifar10c": ["seen"],  # whose tasks are scored once
    "heart": ["seen", "no-shift"],
    "heart-distinct": ["seen"],
}


def test_a_control_changes_one_thing_and_keeps_the_learner() -> None:
    methods = {"seen": meta_cp_methods, "no": main_methods, "n": split_methods}
    changes: dict[str, Any] = {"seen": {"predictor": "train"}, "no": {"new_tasks": "calibration"}}
    for name, e in EXPERIMENTS.items():
        controls = list_controls(e)
        expected = CONTROLS.get(name, ["seen", "no-shift", "n-75", "n-150", "n-300"])
        assert [control.name for control in controls] == expected
        for control in controls:
            kind, _, count = control.name.partition("-")
            variant = control.experiment
            assert variant.describe_training() == e.describe_training()
            assert variant.draws == 10
            change = changes.get(kind) or {"calibration_examples": int(count) // 5}
            assert differences(e, variant) == change
            assert control.methods is methods[kind]
    few = replace(MINI, calibration_examples=30, ways=4, draws=3)
    assert [control.name for control in list_controls(few)][2:] == ["n-60"]
    assert {control.experiment.draws for control in list_controls(few)} == {3}
    assert list_controls(replace(EXPERIMENTS["cifar10c"], predictor="train")) == []


# Methods


def test_all_methods_run_on_the_same_draws() -> None:
    chosen = all_methods(GUARANTEE)
    rows = run_study(SmallStudy(tests=2), guarantee=GUARANTEE, methods=chosen, draws=2)
    assert rows.methods() == [(method.name, method.guarantee.delta) for method in chosen]
    assert len(summarise(rows, GUARANTEE)) == len(chosen) == 17
    assert [*dict.fromkeys(method.name for method in chosen)] == [
        "PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle",
        "FedCP-QQ", "averaged thresholds", "HCP", "multi-environment", GRID_NAME,
    ]  # fmt: skip
    loose = {method.name for method in chosen if method.guarantee.delta == SECOND_DELTA}
    assert loose == {"PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint"}
    for method in chosen:
        if method.name.startswith("Meta-PS"):
            assert method.guarantee.split == method.name.split()[1].strip(",")
        assert (method.rule is GRID) == (method.name == GRID_NAME)
        assert pickle.loads(pickle.dumps(method)).describe() == method.describe()


def test_controls_run_some_of_all_methods() -> None:
    known = {(method.name, method.guarantee): method.rule for method in all_methods(GUARANTEE)}
    for chosen in (main_methods, split_methods, meta_cp_methods):
        for method in chosen(GUARANTEE):
            assert known[method.name, method.guarantee] is method.rule
    splits = [method.name for method in split_methods(GUARANTEE)]
    assert splits == ["Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle"]
    assert [method.guarantee.delta for method in main_methods(GUARANTEE)] == [0.2] * 11
    deltas = [method.guarantee.delta for method in meta_cp_methods(GUARANTEE)]
    assert deltas == [0.2, SECOND_DELTA]
    one = replace(GUARANTEE, delta=SECOND_DELTA)  # no method is run twice
    assert (len(all_methods(one)), len(meta_cp_methods(one))) == (12, 1)


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


def choose(rule: Any, scores: Any, tasks: Any) -> tuple[float, bool]:
    even: Guarantee = replace(GUARANTEE, split="even")
    draw = Draw(np.asarray(scores), np.asarray(tasks), [scored_task([[0.7, 0.3]], [0])])
    chosen = Method("any", rule, even).choose(draw)
    return float(chosen.thresholds[0]), bool(chosen.feasible[0])


@given(
    data=st.data(),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=16),
    kind=st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=150, deadline=None)
def test_it_is_meta_ps_with_the_even_split_up_to_a_step(
    data: st.DataObject, sizes: list[int], kind: Any
) -> None:
    count = sum(sizes)
    scores = np.array(data.draw(st.lists(SCORES, min_size=count, max_size=count))).astype(kind)
    order = np.random.default_rng(0).permutation(count)  # tasks may come in any order
    tasks = np.arange(len(sizes)).repeat(sizes)[order]
    (cut, feasible), (grid, grid_feasible) = (
        choose(rule, scores, tasks) for rule in (META_PS, GRID)
    )
    assert feasible >= grid_feasible == math.isfinite(grid)
    assert math.isinf(cut) == math.isinf(grid)
    if math.isfinite(cut):
        assert -1e-15 <= cut - grid < STEP * (1 + 1e-6)


def test_on_the_steps_of_the_grid_they_are_equal() -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        scores = generator.integers(0, 10**7, 600, endpoint=True) * STEP
        scores[generator.random(600) < 0.3] = generator.choice([0.0, 1.0])
        tasks = np.arange(30).repeat(20)
        (cut, feasible), (grid, also) = (choose(rule, scores, tasks) for rule in (META_PS, GRID))
        assert feasible
        assert also
        assert grid == pytest.approx(cut, abs=1e-15)

"""Controls share the learner of their experiment and differ from it in one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from metapac.fewshot.reproduce.experiments import (
    DRAWS,
    EXPERIMENTS,
    Experiment,
    list_controls,
    main_methods,
    meta_cp_methods,
    split_methods,
)

SMALL_TASKS = ["n-75", "n-150", "n-300"]
NAMES = {
    "glyphs": ["seen", "no-shift", "n-75", "n-150"],  # of 250 examples
    "cifar10c": ["seen"],  # whose tasks are scored once
    "heart": ["seen", "no-shift"],
    "heart-distinct": ["seen"],
}


def differences(one: Experiment, other: Experiment) -> dict[str, Any]:
    before, after = one.describe(), other.describe()
    return {name: value for name, value in after.items() if value != before[name]}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def test_a_control_changes_one_thing_and_keeps_the_learner(experiment: Experiment) -> None:
    controls = list_controls(experiment)
    expected = NAMES.get(experiment.name, ["seen", "no-shift", *SMALL_TASKS])
    assert [control.name for control in controls] == expected
    for control in controls:
        variant = control.experiment
        assert variant.describe_training() == experiment.describe_training()
        assert variant.draws == min(DRAWS, experiment.draws)
        name, _, count = control.name.partition("-")
        if name == "n":
            examples = int(count) // 5
            assert differences(experiment, variant) == {"calibration_examples": examples}
            assert control.title == f"{count} calibration examples per task"
        else:
            change = {"seen": {"predictor": "train"}, "no": {"new_tasks": "calibration"}}[name]
            assert differences(experiment, variant) == change
        expected_methods = {"seen": meta_cp_methods, "no": main_methods, "n": split_methods}
        assert control.methods is expected_methods[name]


def test_small_tasks_are_smaller_than_those_of_the_experiment() -> None:
    few = replace(EXPERIMENTS["miniimagenet"], calibration_examples=30, ways=4)
    assert [control.name for control in list_controls(few)][2:] == ["n-60"]
    assert list_controls(few)[2].experiment.calibration_examples == 15


def test_a_predictor_of_what_the_learner_has_seen_has_nothing_to_compare_with() -> None:
    assert list_controls(replace(EXPERIMENTS["cifar10c"], predictor="train")) == []


def test_few_draws_are_not_made_more() -> None:
    few = replace(EXPERIMENTS["miniimagenet"], draws=3)
    assert {control.experiment.draws for control in list_controls(few)} == {3}

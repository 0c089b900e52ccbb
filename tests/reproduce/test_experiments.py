"""The constants of the experiments, their controls and their methods, and the search of a grid."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac.fewshot.reproduce import experiments

MINI = experiments.EXPERIMENTS["miniimagenet"]


def test_the_description_says_all_that_matters() -> None:
    for name, e in experiments.EXPERIMENTS.items():
        described = e.describe()
        assert json.loads(json.dumps(described))["name"] == name == e.name
        left_out = {field.name for field in fields(experiments.Experiment)} - described.keys()
        assert left_out == {"title", "draws", "seeds"}
        assert e.describe_training().items() <= described.items()
        assert replace(e, draws=7, seeds=9).describe() == described
    other = replace(MINI, training=experiments.Training(lr=1e-3, episodes_per_epoch=1601))
    assert other.describe_training() != MINI.describe_training()
    for change in ({"backbone": "resnet12"}, {"ways": 4}, {"shots": 1}, {"min_group_size": 2}):
        assert replace(MINI, **change).describe_training() != MINI.describe_training()
    for change in ({"calibration_examples": 1}, {"predictor": "train"}, {"name": "other"}):
        assert replace(MINI, **change).describe_training() == MINI.describe_training()


# Methods


COARSE = 0.05
# Between the steps of the grid, on them, equal to each other, and at both ends.
SCORES = st.one_of(
    st.floats(0, 1, width=32),
    st.integers(0, 20).map(lambda step: step * COARSE),
    st.integers(0, 10**7).map(lambda step: step * experiments.STEP),
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
        found = experiments.search_grid([np.sort(sample) for sample in samples], epsilon, delta)
    expected = [search_slowly(sample, epsilon, delta, COARSE) for sample in samples]
    np.testing.assert_array_equal(found, expected)

"""The values of the strong recipe and its learning rates."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from metapac import InvalidInput
from metapac.fewshot import MLP, Conv4, ResNet12, recipe_for
from metapac.fewshot.training.strong import Recipe


def test_the_learning_rate_rises_then_falls_to_a_fiftieth() -> None:
    recipe = Recipe(lr=0.1, warmup=10)
    rates = [recipe.learning_rate(step, 1000) for step in range(1001)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[4] == pytest.approx(0.05, rel=1e-3)
    assert max(rates) == rates[9] == pytest.approx(0.1, rel=1e-3)
    assert rates[500] == pytest.approx(0.1 * 0.51)
    assert rates[1000] == pytest.approx(0.002)
    assert all(a > b for a, b in itertools.pairwise(rates[9:]))


def test_a_short_run_warms_up_over_a_tenth_of_its_steps() -> None:
    recipe = Recipe(lr=0.1, warmup=500)
    assert recipe.learning_rate(9, 360) == pytest.approx(0.1 * 10 / 36, rel=1e-2)
    assert max(recipe.learning_rate(step, 360) for step in range(360)) > 0.095
    assert recipe.learning_rate(0, 5) > 0.09  # too short to warm up


def test_the_tuning_rate_falls_linearly() -> None:
    recipe = Recipe(tuning_steps=100, tuning_lr=1.0)
    assert [recipe.tuning_rate(step) for step in (0, 50, 100)] == pytest.approx([1.0, 0.525, 0.05])


@pytest.mark.parametrize(("steps", "epochs"), [(0, 0), (1, 1), (100, 1), (101, 2), (3000, 30)])
def test_tuning_epochs_have_up_to_100_steps(steps: int, epochs: int) -> None:
    assert Recipe(tuning_steps=steps).tuning_epochs == epochs


def test_the_recipe_suits_the_backbone() -> None:
    assert recipe_for(ResNet12(rng=0)) == recipe_for(MLP(2, rng=0)) == Recipe()
    small = recipe_for(Conv4(rng=0), epochs=7, flip=False, lr=None)
    assert (small.epochs, small.batch, small.flip, small.lr) == (7, 256, False, 0.1)
    with pytest.raises(TypeError, match="no field 'flips'"):
        recipe_for(MLP(2, rng=0), flips=False)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("epochs", 0, "epochs must be a whole number from 1"),
        ("batch", 1, "batch must be a whole number from 2"),
        ("tuning_steps", -1, "tuning_steps must be a whole number from 0"),
        ("crop", 1.5, "crop must be between 0 and 1, got 1.5"),
        ("averaged", -0.1, "averaged must be between 0 and 1"),
        ("lr", math.inf, "lr must be at least 0 and finite"),
        ("lr", math.nan, "lr must be at least 0 and finite"),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: Any, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        Recipe(**{field: value})

"""Options of ``metapac train``: which recipe uses what."""

from __future__ import annotations

from typing import Any

import pytest

from metapac import InvalidInput
from metapac.fewshot.cli.training import PAPER, TrainingOptions


def test_the_defaults_of_the_paper_are_filled_in() -> None:
    given = TrainingOptions(epochs=3, class_weights="1,10").for_paper()
    assert given == PAPER | {"epochs": 3, "validation_tasks": 400, "class_weights": [1.0, 10.0]}
    assert TrainingOptions(patience=4).for_paper()["patience"] == 4


def test_the_strong_recipe_decides_what_was_not_given() -> None:
    assert TrainingOptions(epochs=3, tuning_steps=9).for_strong() == {
        "epochs": 3,
        "lr": None,
        "tuning_steps": 9,
        "flip": None,
    }
    assert TrainingOptions(lr=0.2, flip=False).for_strong()["flip"] is False


@pytest.mark.parametrize(
    "options",
    [
        {"episodes_per_epoch": 5},
        {"episodes_per_step": 5},
        {"halve_every": 5},
        {"patience": 5},
        {"class_weights": "1,2"},
    ],
)
def test_options_of_the_other_recipe_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InvalidInput, match=f"^{name} is used by recipe='paper' only"):
        TrainingOptions(**options).for_strong()


def test_flip_is_for_the_strong_recipe() -> None:
    with pytest.raises(InvalidInput, match="flip is used by recipe='strong' only"):
        TrainingOptions(flip=True).for_paper()


def test_weights_must_be_numbers() -> None:
    with pytest.raises(InvalidInput, match="class_weights must be numbers separated by commas"):
        TrainingOptions(class_weights="one").for_paper()

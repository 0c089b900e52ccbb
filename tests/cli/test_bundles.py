"""Bundles of options, as the functions of the library take them."""

from __future__ import annotations

import pytest

from metapac import InvalidInput
from metapac.cli.options import GuaranteeOptions, NewColumnOptions
from metapac.guarantee import Guarantee


def test_options_state_a_guarantee() -> None:
    options = GuaranteeOptions(["0.1"], 0.2, "none", min_examples=3, split="0.3")
    assert options.parse() == Guarantee(
        epsilon=0.1, alpha=0.2, delta=None, min_examples=3, split=0.3
    )
    with pytest.raises(InvalidInput, match="alpha must be a number strictly between 0 and 1"):
        GuaranteeOptions(["0.1"], 2, "none").parse()


def test_columns_of_new_tasks_are_those_of_calibration_unless_given() -> None:
    names = ("task", "score", "label", "columns", "classes", "classes_column")
    numbers = ("prediction", "y", "scale")
    assert NewColumnOptions().parse() == dict.fromkeys((*names, *numbers))
    parsed = NewColumnOptions(task="site", columns="a,b", classes="x, y").parse()
    assert parsed["task"] == "site"
    assert parsed["columns"] == ["a", "b"]
    assert parsed["classes"] == ["x", "y"]
    assert NewColumnOptions(columns="p_*").parse()["columns"] == "p_*"

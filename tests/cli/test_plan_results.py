"""Results of ``metapac plan`` for every split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metapac import plan
from metapac.cli.plan import (
    PlanResult,
    _headline,
    find_class_offers,
    print_offers,
    print_result,
    summarise,
)
from metapac.planning import Offer, find_offers

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}


def as_options(text: str) -> str:
    return f"<{text}>"


def compute(sizes: list[int] | None, equal_tasks: tuple[int, int] | None = None) -> PlanResult:
    counts = None if sizes is None else {None: np.array(sizes)}
    return PlanResult.compute(LEVELS, 1, counts, equal_tasks, as_options=as_options)


def test_needs_alone() -> None:
    result = compute(None)
    assert result.plans["tight"].tasks == plan(**LEVELS, split="tight").tasks
    assert summarise(result).keys() == {"joint", "tight", "even", "dishonest"}
    assert "ranks" not in summarise(result)["joint"]


def test_feasible_tasks() -> None:
    result = compute([60] * 50 + [3])
    assert result.recommended is not None
    assert result.recommended.split == "joint"
    assert result.remedies is None
    assert result.too_small(result.options["tight"]) == 1


def test_remedies_show_parameters_as_asked() -> None:
    result = compute([60] * 3)
    assert result.recommended is None
    assert result.remedies is not None
    assert result.remedies.startswith("<epsilon=0.1, alpha=0.2, delta=0.1 cannot be guaranteed")
    assert summarise(result)["ways_out"] == result.remedies


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(compute([60] * 50, (50, 60)), 1)
    text = " ".join(capsys.readouterr().out.split())
    assert "Your 50 tasks of 60 examples suffice." in text
    assert "How small each parameter can be with your tasks" in text
    assert "Recommended: --split joint, the default." in text


def test_offers(capsys: pytest.CaptureFixture[str]) -> None:
    offers = [Offer(0.1, 0.05, 0.0123456), Offer(0.1, None, None)]
    print_offers(offers, {None: np.array([5, 9])}, as_json=False)
    text = capsys.readouterr().out
    assert "Smallest epsilon with 2 tasks of 5 to 9 examples" in text
    rows = [row.replace("│", " ").split() for row in text.splitlines()]
    assert ["0.1", "0.0124", "no", "value"] in rows


def test_the_class_that_supports_the_least_decides() -> None:
    sizes = {"no": np.array([400] * 40), "yes": np.array([3] * 40)}
    result = PlanResult.compute(LEVELS, 2, sizes, None, as_options=as_options)
    assert result.recommended is None
    assert result.remedies is not None
    assert "for 1 of 2 classes: class 'yes'" in result.remedies
    both = find_class_offers(sizes, 2)
    assert both == find_offers(sizes["yes"], classes=2)  # the rarer class
    assert both != find_offers(sizes["no"], classes=2)


def test_an_infeasible_split_asks_for_the_size_in_the_remedies() -> None:
    result = compute([60] * 3)
    assert result.remedies is not None
    size = result.options["joint"].examples_per_task
    assert f"with at least {size} examples each" in result.remedies


def test_what_dishonest_sites_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(compute(None), 1)
    text = " ".join(capsys.readouterr().out.split())
    fewest = plan(**LEVELS).tasks
    assert f"with {fewest} tasks, 1 dishonest site can force every label into every set" in text
    dishonest = summarise(compute(None))["dishonest"]
    assert (dishonest["fewest"]["tasks"], dishonest["fewest"]["to_keep_all"]) == (fewest, 1)
    assert f"with {dishonest['safer']['tasks']}, it takes 2" in text
    assert text.startswith(f"You need {fewest} tasks with at least ")


@pytest.mark.parametrize(
    ("split", "between"), [("joint", ", or something in between."), ("tight", "")]
)
def test_the_headline_names_both_ends(split: str, between: str) -> None:
    result = compute(None)
    planned = result.plans[split]
    text = _headline(replace(result, plans={"joint": planned}))
    assert planned.needs[0].describe() in text
    assert planned.needs[-1].describe() in text
    assert text.count(" tasks with ") == (2 if between else 1)
    assert text.endswith(between)

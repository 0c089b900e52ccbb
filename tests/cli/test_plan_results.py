"""Results of ``metapac plan`` for every split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metapac import plan
from metapac.cli.plan_results import PlanResult, print_offers, print_result, summarise
from metapac.exceptions import Parameter
from metapac.planning import Offer

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}


def show(parameter: Parameter) -> str:
    return f"<{parameter.name}>"


def compute(sizes: list[int] | None, equal_tasks: tuple[int, int] | None = None) -> PlanResult:
    counts = None if sizes is None else np.array(sizes)
    return PlanResult.compute(LEVELS, 1, counts, equal_tasks, show=show)


def test_needs_alone() -> None:
    result = compute(None)
    assert result.plans["tight"].tasks == plan(**LEVELS, split="tight").tasks
    assert summarise(result).keys() == {"joint", "tight", "even"}
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
    assert "<epsilon>, <alpha>, <delta> cannot be guaranteed" in result.remedies
    assert summarise(result)["ways_out"] == result.remedies


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(compute([60] * 50, (50, 60)), 1)
    text = " ".join(capsys.readouterr().out.split())
    assert "Smallest value of each parameter with 50 tasks of 60 examples" in text
    assert "Recommended: --split joint, the default." in text


def test_offers(capsys: pytest.CaptureFixture[str]) -> None:
    offers = [Offer(0.1, 0.05, 0.0123456), Offer(0.1, None, None)]
    print_offers(offers, np.array([5, 9]), as_json=False)
    text = capsys.readouterr().out
    assert "Smallest epsilon with 2 tasks of 5 to 9 examples" in text
    assert ["0.1", "0.0124", "-"] in [row.replace("│", " ").split() for row in text.splitlines()]

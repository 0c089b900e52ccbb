"""Levels tried on pilot tasks, as they are printed: what fits, and what needs more tasks."""

from __future__ import annotations

import math

import pytest

from metapac import Exploration
from metapac.cli import console
from metapac.cli.explore import print_exploration
from metapac.exploration import Cell, Estimate


@pytest.mark.parametrize(("width", "shown"), [(60, "1"), (80, "2"), (200, "4")])
def test_as_many_classes_as_the_terminal_has_room_for(
    width: int, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.stdout, "width", width)
    shares = {name: 0.1 + 0.02 * i for i, name in enumerate("edcba")}
    some, nothing = Estimate(0.25, 0.2, 0.3), Estimate(math.nan, math.nan, math.nan)
    missed = dict.fromkeys(shares, some) | {"e": nothing, "a": Estimate(0.6, 0.5, 0.7)}
    cells = [
        Cell(epsilon, alpha, per_class, tasks, (0.5,), some, nothing, some, missed)
        for per_class, epsilons in ((False, (0.1, 0.2)), (True, (0.05, 0.1)))
        for alpha, tasks in ((0.1, 29), (0.2, 14))
        for epsilon in epsilons
    ]
    print_exploration(Exploration(("x", "y"), 90, None, shares, tuple(cells), {}))
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= width
    text = " ".join(output.split())
    assert f"The {shown} rarest of 5 classes; --json has all." in text
    assert "One threshold for all classes (29 calibration tasks at alpha 0.1, 14 at 0.2)" in text
    assert "misses more than half of a class: 'a' from epsilon 0.1. Use --per-class" in text
    rows = [line.replace("│", " ").split()[:7] for line in output.splitlines()]
    estimates = ["0.25", "±0.05", "-", "25.0%", "-"]
    assert ["0.1", "0.1", *estimates] in rows
    assert ["0.2", *estimates] in [row[:6] for row in rows]  # alpha stands only in the first row


def test_an_alpha_that_needs_more_tasks_has_one_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.stdout, "width", 100)
    some, nothing = Estimate(0.25, 0.2, 0.3), Estimate(math.nan, math.nan, math.nan)
    cells = []
    for per_class in (False, True):
        for alpha, found, needed in ((0.05, nothing, 59), (0.2, some, None)):
            for epsilon in (0.1, 0.3):
                missed = dict.fromkeys("ab", found)
                rest = (0.5,), found, found, found, missed, needed
                cells.append(Cell(epsilon, alpha, per_class, 30, *rest))
    print_exploration(Exploration(("x",), 90, 0.05, {"a": 0.5, "b": 0.5}, tuple(cells), {}))
    output = capsys.readouterr().out
    assert output.count("needs 59 tasks") == 2  # one of each table
    assert "needs: too few calibration tasks for the guarantee." in output
    assert "misses more than half" not in output
    assert "pass --tasks" not in output  # both assume 30
    rows = [line.replace("│", " ").split() for line in output.splitlines()]
    assert [row[:4] for row in rows if row[1:2] == ["any"]] == [["0.05", "any", "needs", "59"]] * 2
    assert [row[0] for row in rows if row[2:3] == ["±0.05"] or row[3:4] == ["±0.05"]] == [
        "0.2",
        "0.3",
    ] * 2

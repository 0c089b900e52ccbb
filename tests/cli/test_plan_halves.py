"""Plans where only the number of tasks, or only their size, is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metapac import Plan, plan
from metapac.cli.plan import Half
from metapac.planning import OFFERED_ALPHAS
from tests.helpers.commands import metapac

LEVELS = ["--epsilon", 0.1, "--alpha", 0.1, "--delta", 0.05]


def planned(**asked: Any) -> Plan:
    result = plan(**{"epsilon": 0.1, "alpha": 0.1, "delta": 0.05} | asked)
    assert isinstance(result, Plan)
    return result


@pytest.mark.parametrize(
    ("half", "sentence"),
    [
        (Half(60, None), "With 60 tasks, each needs at least 9 labelled examples."),
        (Half(28, None), "With 28 tasks, no number of examples suffices."),
        (Half(1, None), "With 1 task, no number of examples suffices."),
        (
            Half(None, 44),
            "With 44 labelled examples in each task, you need at least 29 tasks.",
        ),
        (Half(None, 6), "With 6 labelled examples in each task, no number of tasks suffices."),
    ],
)
def test_the_other_half_in_words(half: Half, sentence: str) -> None:
    assert half.describe(planned()) == sentence
    if half.tasks is not None:
        words = ["--tasks", half.tasks]
    else:
        words = ["--examples", half.examples or 0]
    assert metapac("plan", *LEVELS, *words).stdout.splitlines()[-1] == sentence
    machine = json.loads(metapac("plan", *LEVELS, *words, "--json").stdout)
    assert machine["your_tasks"] == half.complete(planned())
    assert "recommended" not in machine


def test_examples_are_those_of_one_class() -> None:
    each = planned(classes=3)
    assert (
        Half(60, None)
        .describe(each)
        .endswith(f"at least {each.examples_for(60)} labelled examples of each class.")
    )
    output = metapac("plan", "--examples", 20, "--number-of-classes", 3).output
    assert "with 20 labelled examples of each class in each" in output


@pytest.mark.parametrize(
    ("words", "half"),
    [(["--tasks", 30], Half(30, None)), (["--examples", 10], Half(None, 10))],
)
def test_without_levels_common_guarantees_are_compared(words: list[Any], half: Half) -> None:
    rows = json.loads(metapac("plan", *words, "--json").stdout)
    assert {row["alpha"] for row in rows} == {*OFFERED_ALPHAS}
    cells: dict[str, list[int | None]] = {}
    for row in rows:
        levels = {name: row.pop(name) for name in ("epsilon", "alpha", "delta")}
        assert row == half.complete(planned(**levels))
        known, other = (row["tasks"], row["examples_per_task"])[:: 1 if half.tasks else -1]
        assert known == (half.tasks or half.examples)
        cells.setdefault(f"{levels['alpha']:g}", []).append(other)
    assert any(None in row for row in cells.values())
    output = metapac("plan", *words).output
    shown = {
        parts[0].strip(): [part.strip() for part in parts[1:]]
        for line in output.splitlines()
        if len(parts := line.strip("│").split("│")) == 4
    }
    assert shown.keys() == cells.keys()
    for alpha, row in cells.items():
        for text, number in zip(shown[alpha], row, strict=True):
            assert text.startswith("needs ") if number is None else text == str(number)


def test_a_cell_without_a_number_names_what_is_needed() -> None:
    assert "needs 29 tasks" in metapac("plan", "--tasks", 5).output
    assert "needs 7 examples" in metapac("plan", "--examples", 6).output
    assert planned().tasks == 29
    assert planned().needs[-1].examples_per_task == 7


@pytest.mark.parametrize("words", [["--tasks", 60], ["--examples", 60]])
def test_one_half_cannot_be_added_to_other_tasks(words: list[Any]) -> None:
    result = metapac("plan", *words, "--sizes", "3")
    assert result.exit_code == 2
    assert "--tasks and --examples are for tasks that all have the same size" in result.stderr
    assert (
        "pass --epsilon and --alpha and --delta"
        in metapac("plan", *words, "--plot", "needs.png").stderr
    )

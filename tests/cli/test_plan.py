"""``metapac plan``: needs of a guarantee, ranks and guarantees of given tasks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from metapac import InvalidInput, plan, planning
from metapac.guarantee import Guarantee
from metapac.planning import Demand
from tests.helpers.commands import (
    STRICT,
    metapac,
)


def test_plan_prints_every_split() -> None:
    result = metapac("plan", *STRICT)
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.replace("│", " ").splitlines()]
    assert ["joint,", "fewest", "tasks", "111", "44", "4884"] in rows
    assert ["joint,", "smallest", "tasks", "244", "7", "1708"] in rows
    assert ["tight", "116", "29", "3364"] in rows
    assert ["even", "225", "29", "6525"] in rows
    machine = json.loads(metapac("plan", *STRICT, "--tasks", 40, "--examples", 50, "--json").stdout)
    assert machine["tight"]["tasks"] == 116
    assert machine["tight"]["best_alpha"] == pytest.approx(0.29304, abs=1e-4)
    assert machine["tight"]["best_epsilon"] is None
    assert machine["joint"]["needs"][0] == [111, 44]


SIZES = ["29,300,4000", ",".join(["90"] * 48), "5,6"]


def test_plan_shows_the_rank_of_each_split() -> None:
    sizes = [word for text in SIZES for word in ("--sizes", text)]
    asked = ["--epsilon", 0.1, "--alpha", 0.1, "--delta"]
    result = metapac("plan", *asked, 0.2, *sizes)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Your 53 tasks of 5 to 4000 examples suffice." in text
    assert "Recommended: --split" in text
    machine = json.loads(metapac("plan", *asked, 0.2, *sizes, "--json").stdout)
    counts = [29, 300, 4000, *[90] * 48, 5, 6]
    planned = plan(epsilon=0.1, alpha=0.1, delta=0.2, sizes=counts)
    for option in planned.options:
        if option.delta is not None:
            assert machine[option.split]["ranks"] == list(option.nth_lowest)
            small = sum(size < option.examples_per_task for size in counts)
            assert machine[option.split]["too_small"] == small
    assert machine["recommended"] == "joint"
    assert machine["ways_out"] is None
    few = metapac("plan", *asked, "1e-5", *sizes)
    assert few.exit_code == 0
    text = " ".join(few.output.split())
    demand = Demand.from_sizes(Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5), counts)
    remedies = planning.explain_too_few_tasks([demand], trivial=False)
    assert (
        re.sub(r"(\w+)='?([^',; .]+(?:\.\d+)?)'?", r"--\1 \2", remedies).replace("None", "none")
        in text
    )
    assert "on-infeasible" not in text  # plan has no such option
    assert "Options: use --delta none, a weaker guarantee" in text
    assert "Recommended" not in text
    assert "Your 53 tasks of 5 to 4000 examples do not suffice." in text
    none = metapac("plan", *asked, "none", *sizes)
    assert "Recommended: --split joint, the default." in none.output


def test_plan_counts_the_tasks_of_a_table(csv_scores: Path) -> None:
    words = ["plan", csv_scores, "--task", "site", *STRICT]
    machine = json.loads(metapac(*words, "--sizes", "7,8", "--json").stdout)
    same = ["--sizes", ",".join(["30"] * 130 + ["7", "8"])]
    assert machine == json.loads(metapac("plan", *STRICT, *same, "--json").stdout)
    text = " ".join(metapac(*words).output.split())
    assert "Your 130 tasks of 30 examples suffice." in text
    empty = csv_scores.with_name("empty.csv")
    empty.write_text("site,p\na,1\n,2\n")
    result = metapac("plan", empty, "--task", "site")
    assert result.exit_code == 2
    assert "line 3: column 'site' is empty; an example must belong to a task" in result.stderr


def test_plan_shows_the_guarantees_that_tasks_support() -> None:
    words = ["plan", "--tasks", 60, "--examples", 40]
    machine = json.loads(metapac(*words, "--json").stdout)
    assert [tuple(row.values()) for row in machine] == plan(sizes=[40] * 60)
    result = metapac(*words)
    rows = [line.split() for line in result.output.replace("│", " ").splitlines()]
    assert ["alpha", "┃", "delta", "0.05", "┃", "delta", "none", "┃"] in [row[1:] for row in rows]
    by_alpha = {row[0]: row[1:] for row in rows if len(row) == 3}
    for alpha, delta, epsilon in plan(sizes=[40] * 60):
        shown = by_alpha[f"{alpha:g}"][0 if delta else 1]
        assert shown == "no value" if epsilon is None else float(shown) >= epsilon
    one = metapac("plan", "--sizes", "3", "--number-of-classes", 2)
    assert ["0.05", "no", "value", "no", "value"] in [
        line.replace("│", " ").split() for line in one.output.splitlines()
    ]
    each = json.loads(metapac(*words, "--number-of-classes", 2, "--json").stdout)
    assert [tuple(row.values()) for row in each] == plan(sizes=[40] * 60, classes=2)
    assert each != machine


def test_plan_for_each_class() -> None:
    result = metapac("plan", *STRICT, "--number-of-classes", 2)
    assert "For each of 2 classes: examples are those of one class" in " ".join(
        result.output.split()
    )
    machine = json.loads(metapac("plan", *STRICT, "--number-of-classes", 2, "--json").stdout)
    assert (
        machine["tight"]["tasks"] == plan(epsilon=0.1, alpha=0.1, delta=5e-6, split="tight").tasks
    )


def test_plan_counts_the_classes_of_a_table(tmp_path: Path) -> None:
    rows = [f"{site},{label}" for site in range(60) for label in ["no"] * 30 + ["yes"] * 9]
    (tmp_path / "t.csv").write_text("\n".join(["site,y", *rows]))
    words = ["plan", tmp_path / "t.csv", "--task", "site", "--label", "y", "--per-class"]
    machine = json.loads(metapac(*words, "--json").stdout)
    assert [tuple(row.values()) for row in machine] == plan(sizes=[9] * 60, classes=2)
    assert "60 tasks (30 of class 'no', 9 of class 'yes')" in " ".join(
        metapac(*words).output.split()
    )
    mixed = metapac(*words, "--sizes", "3")
    assert "--sizes cannot be added to a table with --per-class" in mixed.stderr


def test_the_delta_of_a_remedy_is_that_of_all_classes() -> None:
    sizes = ",".join(["25"] * 30)
    levels = ["--epsilon", ".1", "--alpha", ".1", "--number-of-classes", 3, "--sizes", sizes]
    output = " ".join(metapac("plan", *levels, "--delta", ".05").stdout.split())
    assert "--delta 0.05 cannot be guaranteed" in output
    remedy = re.search(r"settle for --delta ([0-9.]+[0-9])", output)
    assert remedy is not None
    output = metapac("plan", *levels, "--delta", remedy[1]).stdout
    assert "Recommended: --split joint" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pass --epsilon and --alpha and --delta, to see what a guarantee needs"),
        (["--epsilon", 0.1], "pass --alpha and --delta too"),
        (["--sizes", "3,x"], "--sizes must be whole numbers separated by commas, such as 743,3875"),
        (["--sizes", "-3"], "--sizes must be whole numbers separated by commas"),
        (["--task", "site"], "a table and --task go together"),
        (["scores.csv"], "a table and --task go together"),
        (["--sizes", "3", "--tasks", 2, "--examples", 2], "--tasks and --examples are for tasks"),
        (["a.csv", "--task", "s", "--number-of-classes", 2], "With a table, pass --per-class and"),
        (["a.csv", "--task", "s", "--per-class"], "a table, --per-class and --label go together"),
        (["--label", "y", "--sizes", "3"], "a table, --per-class and --label go together"),
        (["--per-class", "--sizes", "3"], "--per-class needs --number-of-classes, or a table"),
        (["--sizes", "3", "--plot", "x.png"], "pass --epsilon and --alpha and --delta, to"),
        ([*STRICT[:4], "--delta", "x"], "--delta must be a number, got 'x'."),
        ([*STRICT[:4], "--delta", "2"], "delta must be a number strictly between 0 and 1"),
        (
            [*STRICT[:4], "--delta", ".95"],
            "Did you mean --delta 0.05? To go on, pass --allow level",
        ),
        ([*STRICT, "--allow", "level"], "--allow must name checks to skip"),
    ],
)
def test_bad_options(words: list[Any], message: str) -> None:
    result = metapac("plan", *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_levels_that_look_like_confidences_can_be_allowed() -> None:
    levels: dict[str, Any] = {"epsilon": 0.9, "alpha": 0.1, "delta": 0.05}
    words = [word for name, level in levels.items() for word in (f"--{name}", level)]
    machine = json.loads(metapac("plan", *words, "--allow", "levels", "--json").stdout)
    assert machine["joint"]["tasks"] == plan(**levels, allow=["levels"]).tasks
    with pytest.raises(InvalidInput, match="Did you mean epsilon=0.1?"):
        plan(**levels)


def test_plan_draws(tmp_path: Path) -> None:
    for delta in ("1e-5", "none"):
        words = [*STRICT[:4], "--delta", delta, "--plot", tmp_path / "plan.png"]
        result = metapac("plan", *words)
        assert result.exit_code == 0, result.output
        assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
        (tmp_path / "plan.png").unlink()

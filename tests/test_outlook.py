"""What a table buys: ``metapac plan`` looks at pilot tasks only, and calibration agrees with it."""

from __future__ import annotations

import contextlib
import json
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from metapac import (
    Columns,
    Guarantee,
    InfeasibleGuarantee,
    MetaPS,
    explore,
    load,
    open_table,
    read_pilot,
)
from metapac.evidence import ranks_within
from metapac.exploration import draw_pilot_tasks, expected_thresholds
from metapac.planning import Demand, find_next_labels
from tests.helpers import oracles
from tests.helpers.commands import metapac

CLASSES = ["no", "yes"]
BY_LABEL = ["--task", "site", "--label", "y"]


def make_sites(sites: int, rng: int = 0, *, fewest: int = 1, rate: float = 0.3) -> pd.DataFrame:
    """Return sites of very different sizes with two classes; some sites may lack one."""
    own = np.random.default_rng(rng)
    sizes = own.integers(fewest, 60, sites)
    site = np.repeat([f"s{i:03d}" for i in range(sites)], sizes)
    sick = own.random(len(site)) < rate
    p = np.clip(0.1 + 0.3 * sick + 0.1 * own.normal(size=len(site)), 0.01, 0.99)
    columns = {"site": site, "y": np.where(sick, "yes", "no"), "p_no": 1 - p, "p_yes": p}
    return pd.DataFrame(columns).sample(frac=1, random_state=rng, ignore_index=True)


def make_numbers(sites: int = 12) -> pd.DataFrame:
    own = np.random.default_rng(3)
    site = np.repeat([f"s{i:02d}" for i in range(sites)], own.integers(20, 50, sites))
    scale, centre = own.integers(1, 4, len(site)) / 2, own.normal(size=len(site))
    y = centre + scale * own.normal(size=len(site))
    ends = {"low": centre - scale, "high": centre + scale}
    return pd.DataFrame({"site": site, "y": y, "predicted": centre, "scale": scale} | ends)


def plan(path: Path, *words: object) -> dict[str, Any]:
    done = metapac("plan", path, *words, "--json")
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    return result


NUMBERS: list[dict[str, str]] = [
    {"prediction": "predicted"},
    {"prediction": "predicted", "scale": "scale"},
    {"lower": "low", "upper": "high"},
]


@pytest.mark.parametrize("columns", NUMBERS, ids=lambda columns: "-".join(columns))
def test_widths_of_each_pilot_task_are_those_of_the_others(columns: dict[str, str]) -> None:
    rows = make_numbers()
    names = sorted({*rows.site})
    scale = rows.scale if "scale" in columns else 1.0
    inside = np.minimum(rows.y - rows.low, rows.high - rows.y)
    scores = inside if "lower" in columns else -(rows.y - rows.predicted).abs() / scale
    table = open_table(rows, Columns(task="site", y="y", **columns))
    found = explore(table, epsilon=[0.1, 0.3], alpha=[0.3], delta=0.2, n_tasks=20)
    assert found.spread == pytest.approx(np.diff(np.quantile(rows.y, [0.05, 0.95]))[0])
    for cell in found.cells:
        part = found.guarantee(cell)
        levels = np.array([find_levels(scores[rows.site == name].tolist(), part) for name in names])
        widths = []
        for i, name in enumerate(names):
            cut = expected_thresholds(np.delete(levels, i, axis=0), part, 20)[0]
            own = (rows.high - rows.low if "lower" in columns else 0 * scores) - 2 * cut * scale
            widths.append(own.clip(lower=0)[rows.site == name].mean())
        assert cell.size.value == pytest.approx(np.mean(widths), rel=1e-9)
        half = stats.t.ppf(0.975, len(names) - 1) * stats.sem(widths)
        assert cell.size.high == pytest.approx(np.mean(widths) + half, rel=1e-9)


def find_levels(values: list[float], part: Guarantee) -> list[float]:
    ranks = ranks_within(np.array([len(values)]), part)[0].tolist()
    return [oracles.largest(values, rank) for rank in ranks]


def test_only_pilot_tasks_are_looked_at(tmp_path: Path) -> None:
    rows, table = make_sites(60, fewest=25), tmp_path / "scores.csv"
    rows.to_csv(table, index=False)
    first = plan(table, *BY_LABEL)
    assert len(first["pilot"]) == 12
    others = ~rows.site.isin(first["pilot"])
    rows.loc[others, ["p_no", "p_yes"]] = np.nan
    rows.to_csv(table, index=False)
    assert plan(table, *BY_LABEL) == first
    rows.loc[~others, ["p_no", "p_yes"]] = 0.5  # of all pilot tasks: another result
    rows.to_csv(table, index=False)
    assert plan(table, *BY_LABEL, "--allow", "duplicates")["levels"] != first["levels"]


def test_pilot_tasks_depend_on_their_names_alone(tmp_path: Path) -> None:
    names = [f"s{i}" for i in range(30)]
    assert draw_pilot_tasks(names[::-1], 7) == draw_pilot_tasks(names, 9)[:7]
    drawn = [draw_pilot_tasks([f"{i} {name}" for name in names], 7) for i in range(3000)]
    counts = np.bincount([names.index(x.split()[1]) for some in drawn for x in some], minlength=30)
    assert stats.binomtest(int(counts.max()), 3000, 7 / 30).pvalue > 1e-6 / 30
    assert stats.binomtest(int(counts.min()), 3000, 7 / 30).pvalue > 1e-6 / 30
    # Tasks that were looked at stay pilot tasks, although more were added since.
    pilot, rows = tmp_path / "pilot.json", make_sites(80, fewest=20)
    few = rows[rows.site.isin(sorted({*rows.site})[::2])]
    for some in (few, rows):
        some.to_csv(tmp_path / "scores.csv", index=False)
        before = {*read_pilot(pilot).tasks} if pilot.exists() else set()
        plan(tmp_path / "scores.csv", *BY_LABEL, "-o", pilot)
        assert before <= {*read_pilot(pilot).tasks}
    assert len(read_pilot(pilot).tasks) == 16


@pytest.mark.parametrize("seed", [0, 1])
def test_what_calibration_refuses_is_marked(tmp_path: Path, seed: int) -> None:
    rows, table = make_sites(60, seed, rate=0.1), tmp_path / "scores.csv"
    rows.to_csv(table, index=False)
    grid = ["--epsilon", ".02,.1,.2,.4", "--alpha", ".1,.3", "--delta", ".1"]
    found = plan(table, *BY_LABEL, *grid)
    rest = rows[~rows.site.isin(found["pilot"])]
    marked, refused = [level["sizes"]["default"] is None for level in found["levels"]], []
    for level in found["levels"]:
        levels = {name: level[name] for name in ("epsilon", "alpha", "per_class")}
        method = MetaPS(**levels, delta=0.1)
        data = open_table(rest, Columns(task="site", label="y"))
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(InfeasibleGuarantee):
            method.calibrate(data)
        refused.append(not hasattr(method, "tasks_"))
    assert marked == refused
    assert {*refused} == {True, False}


@pytest.mark.parametrize("seed", range(4))
def test_the_next_labels_are_enough(seed: int) -> None:
    own = np.random.default_rng(seed)
    sizes = own.integers(1, own.choice([8, 40, 90]), own.choice([20, 78, 150]))
    grid = [(e, a) for e in (0.05, 0.1, 0.2) for a in (0.05, 0.1, 0.3)]
    asked = [Guarantee(epsilon=e, alpha=a, delta=0.05) for e, a in grid]
    found = find_next_labels(asked, sizes)
    refused = [g for g in asked if not Demand.from_sizes(g, sizes).is_feasible()]
    assert {g for g, _step in found} == {*refused}
    assert [step.labels for _g, step in found] == sorted(step.labels for _g, step in found)
    for guarantee, step in found:
        larger = np.sort(sizes)
        if step.fewest == step.size:  # new tasks
            larger = np.append(larger, [step.size] * step.tasks)
        else:
            small = larger[larger < step.size][step.may_stay :]
            assert len(small) == step.tasks
            assert (step.fewest, step.most) == (step.size - small.max(), step.size - small.min())
            larger[step.may_stay : step.may_stay + step.tasks] = step.size
        assert larger.sum() - sizes.sum() == step.labels
        assert Demand.from_sizes(guarantee, larger).is_feasible()


def test_one_more_label_is_said_to_be_enough() -> None:
    asked = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    ((_, step),) = find_next_labels([asked], np.full(29, 43))
    assert str(step) == "one more label in 29 tasks"


def paste(text: str) -> Any:
    """Run the last command in a text."""
    lines = text.replace("\\\n", " ").splitlines()
    (command,) = (line for line in lines if line.startswith("  metapac"))
    return metapac(*shlex.split(command)[1:])


@pytest.mark.parametrize("kind", ["classes", "per class", "numbers", "another table"])
def test_the_command_that_is_printed_can_be_pasted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows, words = make_sites(90, fewest=25), [*BY_LABEL, "--min-examples", "5"]
    if kind == "numbers":
        rows = make_numbers(60)
        words = ["--task", "site", "--prediction", "predicted", "--y", "y", "--scale", "scale"]
    if kind == "per class":
        rows = make_sites(300, fewest=50, rate=0.09)
        words += ["--epsilon", "0.30000001", "--alpha", "0.3", "--allow", "labels"]
    rows.to_csv("my scores.csv", index=False, sep=";")
    words += ["--separator", ";", "-o", "pilot.json"]
    if kind == "another table":
        make_sites(30, 1).assign(site=lambda f: "old " + f.site).to_csv(
            "old.csv", index=False, sep=";"
        )
        words += ["--pilot", "old.csv"]
    done = metapac("plan", "my scores.csv", *words)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    pasted = paste(done.stdout)
    assert pasted.exit_code == 0, pasted.output
    names, pilot = {*rows.site}, {*read_pilot("pilot.json").tasks}
    promise: Any = load("promise.json")
    assert {*promise.tasks_.tolist()} == names - pilot
    assert len(names - pilot) < len(names) or kind == "another table"
    assert (promise.classes_ is not None) == (kind == "per class")
    assert {*promise.context_.pilot} == pilot
    if kind == "per class":
        assert promise.epsilon == 0.30000001
        assert "--allow labels" in done.stdout


def test_use_per_class_is_said_only_where_it_works(tmp_path: Path) -> None:
    table, words = tmp_path / "scores.csv", [*BY_LABEL, "--epsilon", "0.3", "--alpha", "0.3"]
    for rate, works in ((0.09, True), (0.01, False)):
        make_sites(300, fewest=50, rate=rate).to_csv(table, index=False)
        text = metapac("plan", table, *words, "-o", tmp_path / "pilot.json").stdout
        assert "misses more than half of 'yes'" in text
        assert ("Use --per-class" in text) == works
        levels = ["--epsilon", "0.3", "--alpha", "0.3", "--delta", "0.05", "-o", tmp_path / "p"]
        warned = metapac("calibrate", table, *BY_LABEL, *levels).stderr
        assert ("Use --per-class" in warned) == works
        (tmp_path / "pilot.json").unlink()


def test_sets_that_say_nothing_are_not_recommended(tmp_path: Path) -> None:
    numbers, useless = make_numbers(60), tmp_path / "useless.csv"
    numbers.assign(predicted=0.0).to_csv(useless, index=False)
    constant = tmp_path / "constant.csv"
    numbers.assign(y=1.0).to_csv(constant, index=False)
    coin = tmp_path / "coin.csv"
    make_sites(60, fewest=25).assign(
        p_no=lambda f: np.linspace(0.4, 0.6, len(f)), p_yes=lambda f: 1 - f.p_no
    ).to_csv(coin, index=False)
    by_number = ["--task", "site", "--prediction", "predicted", "--y", "y"]
    for table, words in ((useless, by_number), (constant, by_number), (coin, BY_LABEL)):
        found = plan(
            table, *words, "--epsilon", "0.05", "--allow", "labels", "--allow", "direction"
        )
        assert any(level["sizes"]["default"] for level in found["levels"])
        assert (found["recommended"], found["command"]) == (None, None)


def test_small_tasks_show_what_iid_examples_would_give(tmp_path: Path) -> None:
    small, large = make_sites(150).groupby("site").head(6), make_sites(60, fewest=55)
    small.to_csv(tmp_path / "small.csv", index=False)
    for table, differs in (("small.csv", True), ("large.csv", False)):
        large.to_csv(tmp_path / "large.csv", index=False)
        words: Any = [tmp_path / table, *BY_LABEL, "--epsilon", "0.2", "--alpha", "0.3"]
        shown = [row for row in plan(*words)["levels"] if not row["per_class"]]
        assert all(("if i.i.d." in row["sizes"]) == differs for row in shown)
        if differs:
            iid = plan(*words, "--sampling", "iid")["levels"]
            own = [row["sizes"]["default"] for row in iid if not row["per_class"]]
            assert own == [row["sizes"]["if i.i.d."] for row in shown]
            assert "if i.i.d.: set size with --sampling iid" in metapac("plan", *words).stdout
        assert "--sampling" not in (plan(*words)["command"] or "")


def test_few_tasks_are_not_looked_at(tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    make_sites(39).assign(p_no=np.nan).to_csv(table, index=False)
    refused = metapac("plan", table, *BY_LABEL, "--epsilon", "0.1,0.2")
    assert "say with --pilot how many" in refused.stderr
    assert metapac("plan", table, *BY_LABEL).stdout.count("No score was looked at") == 1
    assert "'p_no' holds ''" in metapac("plan", table, *BY_LABEL, "--pilot", "5").stderr


BAD_INPUT: list[tuple[str, list[str]]] = [
    ("pilot", ["--pilot", "50"]),
    ("pilot", ["--pilot", "1"]),
    ("share 50 tasks", ["--pilot", "scores.csv"]),
    ("a number", ["--epsilon", "0.1,x"]),
    ("--tasks", ["--tasks", "30"]),
    ("--sizes", ["--sizes", "30"]),
    ("Did you mean 'site'", ["--task", "sit"]),
    ("classes", ["--label", "site"]),
    ("--pilot", ["--per-class", "--pilot", "5"]),
]


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_sites(50).to_csv("scores.csv", index=False)
    for words, options in BAD_INPUT:
        done = metapac("plan", "scores.csv", *BY_LABEL, *options)
        assert (done.exit_code, words in done.stderr) == (2, True), f"{options}: {done.output}"

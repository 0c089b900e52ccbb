"""``metapac evaluate``: the verdict first, then misses of classes and tasks."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from metapac import Context, load
from tests.helpers.commands import (
    CLASSES,
    PER_CLASS,
    as_new,
    calibrate_frame_by_class,
    metapac,
)

LEVELS = ["--epsilon", "0.1", "--alpha", "0.3", "--delta", "0.1"]


@pytest.fixture(scope="module")
def new_table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nearly the same examples at other sites."""
    path = tmp_path_factory.mktemp("new") / "new.parquet"
    as_new(frame).assign(site=frame.site.str.replace("site", "new")).to_parquet(path)
    return path


def rare(sites: list[str], *, spread: float = 0.3) -> pd.DataFrame:
    """Two hundred examples of each site, five percent of them "yes", whose scores are too low."""
    rng = np.random.default_rng([len(sites), sites[0].startswith("new")])
    y = np.tile(np.arange(200) < 10, len(sites))
    p_yes = rng.uniform(0, spread, len(y))
    columns = {"site": np.repeat(sites, 200), "y": np.where(y, "yes", "no")}
    return pd.DataFrame({**columns, "p_no": 1 - p_yes, "p_yes": p_yes})


@pytest.fixture(scope="module")
def rare_promise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rare")
    rare([f"old {i}" for i in range(20)]).to_parquet(folder / "known.parquet")
    words = ["--task", "site", "--label", "y", *LEVELS, "--unit", "hospital"]
    result = metapac("calibrate", folder / "known.parquet", *words, "-o", folder / "p.json")
    assert result.exit_code == 0, result.output
    return folder / "p.json"


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_figures_of_tasks(
    frame: pd.DataFrame, new_table: Path, promise: Path, tmp_path: Path
) -> None:
    words = ["evaluate", promise, new_table, "--task", "site", "--label", "y"]
    result = metapac(*words, "-o", tmp_path / "tasks.csv")
    assert result.exit_code == 0, result.output
    counts = "30 tasks (2,400 examples): at most 20% missed on {} of 30, {:.1%} on average."
    assert "Worst tasks" in result.stdout
    machine = json.loads(metapac(*words, "--json").stdout)
    in_set = load(promise).predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    missed = ~load(promise).predict_set(frame.true.to_numpy())
    assert (machine["tasks"], machine["examples"]) == (30, 2400)
    assert machine["missed"] == missed.sum()
    assert machine["error"] == pytest.approx(missed.mean())
    sizes = in_set.sum(axis=1)
    assert machine["set_size"] == pytest.approx(sizes.mean())
    shares = {name: np.mean(sizes == n) for name, n in (("empty", 0), ("single", 1), ("full", 3))}
    assert machine["sets"] == pytest.approx(shares)
    by_site = missed.reshape(30, 80).mean(axis=1)
    assert counts.format(sum(by_site <= 0.2), by_site.mean()) in result.stdout.splitlines()
    assert machine["within"] == np.mean(by_site <= 0.2)
    assert machine["worst"][0]["error"] == by_site.max()
    for row in machine["classes"]:
        of_class = (frame.y == row["class"]).to_numpy()
        assert (row["examples"], row["missed"]) == (of_class.sum(), missed[of_class].sum())
    with (tmp_path / "tasks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["task"]: float(row["error"]) for row in rows} == pytest.approx(
        dict(zip([f"new {i:02d}" for i in range(30)], by_site, strict=True))
    )
    assert f"30 tasks written to {tmp_path / 'tasks.csv'}" in result.stdout
    true_only = [*words[:5], "--score", "true", "--json"]
    scored = json.loads(metapac(*true_only).stdout)
    assert (scored["set_size"], scored["classes"]) == (None, None)
    assert scored["error"] == machine["error"]
    text = metapac(*true_only[:-1]).stdout
    assert "Set sizes and misses per class need a score for each class: pass --label." in text


def test_a_mean_size_says_over_what_and_is_that_of_predict(
    new_table: Path, promise: Path, tmp_path: Path
) -> None:
    table = pd.read_parquet(new_table)
    unequal = table[(table.site > "new 09") | (table.groupby("site").cumcount() < 20)]
    unequal.to_parquet(tmp_path / "unequal.parquet")
    output = tmp_path / "sets.parquet"
    predicted = metapac("predict", promise, tmp_path / "unequal.parquet", "-o", output)
    sizes = pd.read_parquet(output).groupby("site")["set_size"]
    over_tasks, over_rows = sizes.mean().mean(), pd.read_parquet(output)["set_size"].mean()
    assert f"{over_tasks:.3g}" != f"{over_rows:.3g}"
    assert f"; mean size {over_rows:.4g} over rows" in words_of(predicted.stdout)
    words = ["evaluate", promise, tmp_path / "unequal.parquet", "--task", "site", "--label", "y"]
    both = f"Sets: mean size {over_tasks:.4g} over tasks, {over_rows:.4g} over rows;"
    assert both in words_of(metapac(*words).stdout)
    machine = json.loads(metapac(*words, "--json").stdout)
    assert machine["set_size"] == pytest.approx(over_tasks)
    assert machine["set_size_over_rows"] == pytest.approx(over_rows)


def test_a_class_that_is_always_missed_cannot_be_overlooked(
    rare_promise: Path, tmp_path: Path
) -> None:
    rare([f"new {i}" for i in range(20)], spread=0.1).to_parquet(tmp_path / "new.parquet")
    result = metapac("evaluate", rare_promise, tmp_path / "new.parquet", "--check")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Holds: at least 70% of new hospitals have a miss rate of at most")
    harm = (
        "a class is missed far more often than 10%: yes in 200 of 200 examples (100%). The "
        "guarantee is for all classes together and does not rule this out. For a guarantee for "
        "each class, calibrate with --per-class."
    )
    assert f"Beware: {harm}" in words_of("\n".join(lines[:8]))
    assert result.stderr == ""
    as_json = metapac("evaluate", rare_promise, tmp_path / "new.parquet", "--json")
    assert words_of(as_json.stderr) == f"metapac: warning: {harm}"
    machine = json.loads(as_json.stdout)
    assert machine["neglected"] == ["yes"]
    assert machine["verdict"]["status"] == "holds"


def test_a_violated_guarantee_has_its_own_exit_code(rare_promise: Path, tmp_path: Path) -> None:
    bad = rare([f"new {i}" for i in range(20)])
    bad["y"] = np.where(np.arange(len(bad)) % 3 == 0, "yes", bad.y)
    bad.to_parquet(tmp_path / "bad.parquet")
    words = ["evaluate", rare_promise, tmp_path / "bad.parquet", "--allow", "direction"]
    quiet, checked = metapac(*words), metapac(*words, "--check")
    assert (quiet.exit_code, checked.exit_code) == (0, 3)
    assert quiet.stdout == checked.stdout
    assert quiet.stdout.startswith(
        "Violated: more than 30% of new hospitals have a miss rate above"
    )
    assert "Beware: a class is missed far more often than 10%: yes in" in words_of(quiet.stdout)
    assert "--per-class" not in quiet.stdout  # it cures no violation
    machine = json.loads(metapac(*words, "--check", "--json").stdout)
    assert machine["verdict"]["status"] == "violated"
    assert machine["verdict"]["flagged"] == 20


def test_sets_that_rule_nothing_out_are_no_success(rare_promise: Path, tmp_path: Path) -> None:
    new = rare([f"new {i}" for i in range(20)])
    new["p_yes"] = new.p_no = 0.9 + new.p_no / 10
    new.to_parquet(tmp_path / "new.parquet")
    words = ["evaluate", rare_promise, tmp_path / "new.parquet", "--allow", "sets"]
    result = metapac(*words)
    assert result.stdout.startswith("Holds: "), result.output
    assert "Every set has every label, so none is missed, and none is ruled out." in result.stdout


def test_tiny_tasks_prove_nothing_and_can_be_left_out(rare_promise: Path, tmp_path: Path) -> None:
    table = rare([f"new {i}" for i in range(20)])
    tiny = table.groupby("site").tail(5)
    tiny.to_parquet(tmp_path / "tiny.parquet")
    result = metapac("evaluate", rare_promise, tmp_path / "tiny.parquet")
    assert result.stdout.startswith("Cannot tell yet: 20 hospitals do not settle whether")
    mixed = pd.concat([table, tiny.assign(site=tiny.site + " tiny")])
    mixed.to_parquet(tmp_path / "mixed.parquet")
    words = ["evaluate", rare_promise, tmp_path / "mixed.parquet", "--min-examples", 50]
    result = metapac(*words, "--allow", "duplicates")
    assert result.exit_code == 0, result.output
    assert "Judged: hospitals with at least 50 examples." in result.stdout
    assert "20 hospitals (4,000 examples, 20 left out)" in result.stdout


def test_the_figure_is_written(new_table: Path, promise: Path, tmp_path: Path) -> None:
    words = ["evaluate", promise, new_table, "--label", "y", "--plot"]
    result = metapac(*words, tmp_path / "tasks.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "tasks.png").read_bytes().startswith(b"\x89PNG")
    assert f"figure written to {tmp_path / 'tasks.png'}" in result.stdout
    other = metapac(*words, tmp_path / "tasks.docx")
    assert other.exit_code == 2
    assert "--plot must end in .png, .svg, .pdf, got" in other.stderr


def test_a_missing_matplotlib_is_named_before_the_work(
    new_table: Path, promise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = metapac("evaluate", promise, new_table, "--label", "y", "--plot", tmp_path / "a.png")
    assert result.exit_code == 2
    assert "--plot needs matplotlib" in result.stderr


@pytest.mark.parametrize("flag", ["--output", "--plot"])
def test_no_input_is_overwritten(table: Path, promise: Path, tmp_path: Path, flag: str) -> None:
    suffix = {"--output": ".csv", "--plot": ".png"}[flag]
    copy = tmp_path / f"promise{suffix}"
    copy.write_bytes(promise.read_bytes())
    over = metapac("evaluate", copy, table, flag, copy)
    assert over.exit_code == 2
    assert "is also the input" in over.stderr
    assert copy.read_bytes() == promise.read_bytes()
    other = metapac("evaluate", promise, table, "-o", tmp_path / "tasks.parquet")
    assert "--output must end in .csv" in other.stderr


def test_calibration_tasks_are_named_and_left_out(
    frame: pd.DataFrame, promise: Path, tmp_path: Path
) -> None:
    old = metapac("evaluate", promise, write(frame, tmp_path))
    assert old.exit_code == 2
    assert "('site 00', 'site 01'," in old.stderr
    assert "pass --allow overlap" in old.stderr
    allowed = metapac("evaluate", promise, write(frame, tmp_path), "--allow", "overlap", "--json")
    assert json.loads(allowed.stdout)["tasks"] == 30
    some = as_new(frame).assign(site=frame.site.where(frame.site < "site 02", "new " + frame.site))
    result = metapac("evaluate", promise, write(some, tmp_path))
    assert "2 tasks calibrated on, so not counted here: site 00, site 01." in result.stdout
    machine = json.loads(metapac("evaluate", promise, write(some, tmp_path), "--json").stdout)
    assert (machine["tasks"], machine["overlap"]) == (28, ["site 00", "site 01"])
    one = as_new(frame).assign(site=frame.site.where(frame.site < "site 01", "new " + frame.site))
    assert "1 task calibrated on" in metapac("evaluate", promise, write(one, tmp_path)).stdout


def write(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_parquet(folder / "table.parquet")
    return folder / "table.parquet"


def test_the_model_is_compared(new_table: Path, promise: Path) -> None:
    result = metapac("evaluate", promise, new_table, "--model", "v2")
    assert result.exit_code == 0
    assert "names no model" in result.stderr


def test_names_of_tasks_are_not_markup(promise: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("site,true\n[/b]x,0.5\n[red]y,0.5\n")
    result = metapac("evaluate", promise, path)
    assert result.exit_code == 0, result.output
    assert "[/b]x" in result.stdout
    assert "[red]y" in result.stdout


def test_sets_and_errors_of_each_class(
    frame: pd.DataFrame, table: Path, new_table: Path, tmp_path: Path
) -> None:
    promise = tmp_path / "p.json"
    minimum = ["--min-examples", 25]
    words = ["calibrate", table, "--task", "site", *PER_CLASS, *minimum, "-o", promise]
    result = metapac(*words, "--epsilon", 0.3)
    assert result.exit_code == 0, result.output
    assert "left out" in result.stdout
    method = load(promise)
    thresholds = calibrate_frame_by_class(frame, min_examples=25).thresholds_
    assert method.thresholds_.tolist() == thresholds.tolist()
    assert "at least 25 examples of that class" in words_of(result.stdout)
    in_set = method.predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    assert metapac("predict", promise, table, "-o", tmp_path / "s.parquet").exit_code == 0
    sets = parquet.read_table(tmp_path / "s.parquet")["set"].to_pylist()
    assert sets == [CLASSES[row].tolist() for row in in_set]
    result = metapac("evaluate", promise, new_table, "-o", tmp_path / "tasks.csv")
    assert result.exit_code == 0, result.output
    text = words_of(result.stdout)
    assert "30 tasks (2,400 examples): " in text
    machine = json.loads(metapac("evaluate", promise, new_table, "--json").stdout)
    with (tmp_path / "tasks.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    for i, (label, row) in enumerate(zip(CLASSES, machine["by_class"], strict=True)):
        check_class(frame, in_set, i, row)
        within = round(row["within"] * row["tasks"])
        assert (
            f"Class {label}, {row['tasks']} tasks ({row['examples']} examples, {row['left_out']} "
            f"left out): at most 30% missed on {within} of {row['tasks']}, {row['error']:.1%} on "
            "average."
        ) in text
        lines = [line for line in written if line["class"] == label]
        assert len(lines) == row["tasks"]
    assert machine["within"] == min(row["within"] for row in machine["by_class"])
    assert machine["verdict"]["status"] in text.lower()


def check_class(frame: pd.DataFrame, in_set: Any, i: int, row: dict[str, Any]) -> None:
    """Compare the figures of one class with those of the arrays."""
    of_class = (frame.y == CLASSES[i]).to_numpy()
    counts = frame[of_class].groupby("site").size()
    evaluated = counts.index[counts >= 25]
    sites = frame.site[of_class].to_numpy()
    errors = pd.Series(~in_set[of_class, i]).groupby(sites).mean()[evaluated]
    assert row["class"] == CLASSES[i]
    assert (row["tasks"], row["left_out"]) == (len(evaluated), 30 - len(evaluated))
    assert row["within"] == np.mean(errors <= 0.3)
    assert row["error"] == pytest.approx(errors.mean())
    assert row["verdict"]["tasks"] == len(evaluated)


def test_training_and_pilot_tasks_are_not_new(
    frame: pd.DataFrame, promise: Path, tmp_path: Path
) -> None:
    predictor = load(promise)
    predictor.context_ = Context(trained_on=["new site 00"], pilot=["new site 01"])
    predictor.save(tmp_path / "named.json")
    new = write(as_new(frame), tmp_path)
    text = metapac("evaluate", tmp_path / "named.json", new).stdout
    assert "1 task trained on, so not counted here: new site 00." in text
    assert "1 task explored as a pilot, so not counted here: new site 01." in text
    few = write(frame.assign(site="new site 0" + (frame.index % 2).astype(str)), tmp_path)
    assert "('new site 00'" in (metapac("evaluate", tmp_path / "named.json", few).stderr)

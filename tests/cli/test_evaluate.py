"""``metapac evaluate``: miss rates and set sizes of tasks and classes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from metapac import load
from tests.helpers.commands import (
    CLASSES,
    PER_CLASS,
    calibrate_frame_by_class,
    metapac,
)


def test_evaluate(frame: pd.DataFrame, table: Path, promise: Path, tmp_path: Path) -> None:
    words = ["evaluate", promise, table, "--task", "site", "--label", "y"]
    result = metapac(*words, "-o", tmp_path / "tasks.csv")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "of 30 tasks (2400 examples); guaranteed on at least 70% of new tasks" in text
    assert "Worst tasks" in text
    machine = json.loads(metapac(*words, "--json").stdout)
    in_set = load(promise).predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    missed = ~load(promise).predict_set(frame.true.to_numpy())
    assert machine["tasks"] == 30
    assert machine["examples"] == 2400
    assert machine["error"] == pytest.approx(missed.mean())
    assert machine["set_size"] == pytest.approx(in_set.sum(axis=1).mean())
    by_site = missed.reshape(30, 80).mean(axis=1)
    assert machine["within"] == np.mean(by_site <= 0.2)
    assert machine["worst"][0]["error"] == by_site.max()
    with (tmp_path / "tasks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["task"]: float(row["error"]) for row in rows} == pytest.approx(
        dict(zip(sorted(set(frame.site)), by_site, strict=True))
    )
    true_only = json.loads(
        metapac("evaluate", promise, table, "--task", "site", "--score", "true", "--json").stdout
    )
    assert true_only["set_size"] is None
    assert true_only["error"] == machine["error"]


def test_the_promise_file_is_not_overwritten_and_its_tasks_are_recognised(
    table: Path, promise: Path, tmp_path: Path
) -> None:
    before = promise.read_bytes()
    over = metapac("evaluate", promise, table, "-o", promise)
    assert (over.exit_code, promise.read_bytes()) == (2, before)
    copy = tmp_path / "promise.csv"
    copy.write_bytes(before)
    over = metapac("evaluate", copy, table, "-o", copy)
    assert over.exit_code == 2
    assert "is also the input" in over.stderr
    other = metapac("evaluate", promise, table, "-o", tmp_path / "tasks.parquet")
    assert "--output must end in .csv" in other.stderr
    result = metapac("evaluate", promise, table, "-o", tmp_path / "tasks.csv")
    assert "30 of these tasks have the same name as a calibration task" in " ".join(
        result.stdout.split()
    )
    assert "Set sizes need a score for each class: pass --label." in result.stdout
    assert "30 tasks written to" in result.stdout
    machine = json.loads(metapac("evaluate", promise, table, "--json").stdout)
    assert (machine["tasks"], machine["calibrated_on"]) == (30, 30)


def test_names_of_tasks_are_not_markup(promise: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("site,true\n[/b]x,0.5\n[red]y,0.5\n")
    result = metapac("evaluate", promise, path)
    assert result.exit_code == 0, result.output
    assert "[/b]x" in result.stdout
    assert "[red]y" in result.stdout


def test_sets_and_errors_of_each_class(frame: pd.DataFrame, table: Path, tmp_path: Path) -> None:
    promise = tmp_path / "p.json"
    minimum = ["--min-examples", 25]
    words = ["calibrate", table, "--task", "site", *PER_CLASS, *minimum, "-o", promise]
    result = metapac(*words, "--epsilon", 0.3)
    assert result.exit_code == 0, result.output
    assert "left out" in result.stdout
    method = load(promise)
    assert (
        method.thresholds_.tolist()
        == calibrate_frame_by_class(frame, min_examples=25).thresholds_.tolist()
    )
    assert " ".join(result.stdout.split()).count("at least 25 examples of that class") == 2
    in_set = method.predict_set(frame[["p_cat", "p_dog", "p_owl"]].to_numpy())
    assert metapac("predict", promise, table, "-o", tmp_path / "s.parquet").exit_code == 0
    sets = parquet.read_table(tmp_path / "s.parquet")["set"].to_pylist()
    assert sets == [CLASSES[row].tolist() for row in in_set]
    result = metapac("evaluate", promise, table, "-o", tmp_path / "tasks.csv")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert (
        "30 tasks (2400 examples); guaranteed on at least 60% of new tasks for each class" in text
    )
    machine = json.loads(metapac("evaluate", promise, table, "--json").stdout)
    with (tmp_path / "tasks.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    for i, (label, row) in enumerate(zip(CLASSES, machine["by_class"], strict=True)):
        of_class = (frame.y == label).to_numpy()
        counts = frame[of_class].groupby("site").size()
        evaluated = counts.index[counts >= 25]
        errors = (
            pd.Series(~in_set[of_class, i])
            .groupby(frame.site[of_class].to_numpy())
            .mean()[evaluated]
        )
        assert row["class"] == label
        assert (row["tasks"], row["left_out"]) == (len(evaluated), 30 - len(evaluated))
        assert row["within"] == np.mean(errors <= 0.3)
        assert row["error"] == pytest.approx(errors.mean())
        shown = (
            f"class {label}: error at most 30% on {row['within']:.2%} of {len(evaluated)} tasks ("
        )
        assert shown in text
        assert f"{row['examples']} examples, {row['left_out']} left out)" in text
        by_task = {line["task"]: float(line["error"]) for line in written if line["class"] == label}
        assert by_task == pytest.approx(errors.to_dict())
    assert machine["within"] == min(row["within"] for row in machine["by_class"])
    worst = machine["worst"][0]
    assert worst["error"] == max(float(line["error"]) for line in written)

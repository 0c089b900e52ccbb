"""Regression, columns named one by one, and classes per row, as commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from metapac import load
from tests.helpers.commands import LEVELS, metapac
from tests.tables.test_residuals import make_sites
from tests.tables.test_row_classes import make_tasks

NUMBERS = ["--prediction", "guess", "--y", "truth", "--scale", "sd"]


@pytest.fixture
def promise(tmp_path: Path) -> Path:
    make_sites().to_csv(tmp_path / "sites.csv", index=False)
    path = tmp_path / "promise.json"
    result = metapac(
        "calibrate", tmp_path / "sites.csv", "--task", "site", *NUMBERS, *LEVELS, "-o", path
    )
    assert result.exit_code == 0, result.output
    return path


def test_intervals_are_written_and_summarised(promise: Path, tmp_path: Path) -> None:
    new = make_sites(100, sites=5)
    new.drop(columns="truth").to_parquet(tmp_path / "new.parquet")
    output = tmp_path / "out.parquet"
    result = metapac("predict", promise, tmp_path / "new.parquet", "-o", output)
    assert result.exit_code == 0, result.output
    low, high = load(promise).predict_interval(new.guess, new.sd).T
    written = parquet.read_table(output).to_pandas()
    np.testing.assert_array_equal(written.lower, low)
    np.testing.assert_array_equal(written.upper, high)
    width = high - low
    assert result.stdout.replace("\n", "") == (
        f"150 intervals written to {output}width: mean {width.mean():.4g}, median "
        f"{np.median(width):.4g} over rows"
    )
    described = metapac("predict", promise, tmp_path / "new.parquet", "-o", output, "--json")
    summary = json.loads(described.stdout)["summary"]
    assert summary["rows"] == 150
    assert summary["infinite"] == 0
    assert summary["median_width"] == pytest.approx(np.median(width))


def test_evaluation_shows_widths(promise: Path, tmp_path: Path) -> None:
    make_sites(100, sites=15).to_parquet(tmp_path / "new.parquet")
    result = metapac("evaluate", promise, tmp_path / "new.parquet")
    assert result.exit_code == 0, result.output
    assert "intervals: mean width" in result.stdout.lower()
    assert "set size" not in result.stdout.lower()
    assert "pass --label" not in result.stdout
    summary = json.loads(metapac("evaluate", promise, tmp_path / "new.parquet", "--json").stdout)
    assert summary["width"] > 0
    assert {"width"} <= summary["worst"][0].keys()


def test_infinite_intervals_are_counted(tmp_path: Path) -> None:
    make_sites(sites=2, examples=4).to_csv(tmp_path / "few.csv", index=False)
    path = tmp_path / "promise.json"
    few = ["calibrate", tmp_path / "few.csv", "--task", "site", *NUMBERS, *LEVELS]
    made = metapac(*few, "--on-infeasible", "trivial", "-o", path)
    remark = "Every interval is infinite, so the guarantee holds trivially."
    shown = metapac("show", path)
    for said in (made, shown):
        assert said.stderr == f"metapac: warning: {remark}\n"
        assert "label" not in said.output
    assert json.loads(metapac("show", path, "--json").stdout)["remarks"] == [remark]
    result = metapac("predict", path, tmp_path / "few.csv", "-o", tmp_path / "out.csv")
    assert "infinite: 8 (100.0%)" in result.stdout
    assert "warning: All intervals are infinite" in result.stderr
    assert pd.read_csv(tmp_path / "out.csv").upper.tolist() == [np.inf] * 8
    new = make_sites(100, sites=2, examples=4)
    new.to_csv(tmp_path / "new.csv", index=False)
    summary = json.loads(metapac("evaluate", path, tmp_path / "new.csv", "--json").stdout)
    assert summary["width"] == "inf"
    assert summary["worst"][0]["width"] == "inf"


def test_a_site_and_bad_options(promise: Path, tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    sent = metapac("site", table, "--name", "a", *NUMBERS, *LEVELS, "-o", tmp_path / "a.json")
    assert sent.exit_code == 0, sent.output
    wrong = metapac("calibrate", table, "--task", "site", "--y", "truth", *LEVELS, "-o", promise)
    assert wrong.exit_code == 2
    assert "--y needs prediction, the column with the predicted number." in wrong.stderr
    swapped = ["--prediction", "guess", "--y", "truth", "--scale", "guess"]
    bad = metapac("calibrate", table, "--task", "site", *swapped, *LEVELS, "-o", promise)
    assert bad.exit_code == 2
    assert "column 'guess' must hold positive numbers" in bad.stderr


def test_sites_are_told_about_intervals(tmp_path: Path) -> None:
    frame, files = make_sites(), []
    for name, part in frame.groupby("site"):
        part.to_csv(tmp_path / "site.csv", index=False)
        files.append(tmp_path / f"{name}.json")
        sent = ["site", tmp_path / "site.csv", "--name", name, *NUMBERS, *LEVELS, "-o", files[-1]]
        assert metapac(*sent).exit_code == 0
    combined = metapac("combine", *files, "-o", tmp_path / "promise.json")
    assert combined.exit_code == 0, combined.output
    words = " ".join(combined.stdout.split())
    assert "can make every interval infinite; " in words
    assert words.endswith("can shrink every interval to its prediction.")
    assert "label" not in words
    frame[:1].to_csv(tmp_path / "site.csv", index=False)
    small = metapac(*sent)
    assert "too few for a threshold, which takes 4. It counts as one that has infinite" in " ".join(
        small.stdout.split()
    )


def test_columns_are_named_one_by_one(tmp_path: Path, frame: pd.DataFrame) -> None:
    frame.drop(columns="probs").to_csv(tmp_path / "scores.csv", index=False)
    used = ["calibrate", tmp_path / "scores.csv", "--task", "site", "--label", "y", *LEVELS]
    path = tmp_path / "promise.json"
    names = ["--columns", "p_owl, p_cat,p_dog"]
    result = metapac(*used, *names, "--classes", "owl,cat,dog", "-o", path)
    assert result.exit_code == 0, result.output
    columns = load(path).columns_
    assert columns["columns"] == ["p_owl", "p_cat", "p_dog"]
    assert columns["classes"] == ["owl", "cat", "dog"]
    twice = metapac(*used, "--columns", "p_owl,p_owl", "-o", path)
    assert "--columns must name each column once" in twice.stderr
    sets = metapac("predict", path, tmp_path / "scores.csv", "-o", tmp_path / "sets.csv")
    assert "2400 sets of 3 classes (owl, cat, dog) written" in sets.stdout
    explored = metapac("explore", *used[1:6], *names, "--classes", "owl,cat,dog")
    assert explored.exit_code == 0, explored.output


def test_classes_of_each_row(tmp_path: Path) -> None:
    make_tasks().to_parquet(tmp_path / "tasks.parquet")
    make_tasks(100).to_parquet(tmp_path / "new.parquet")
    path = tmp_path / "promise.json"
    lists = ["--columns", "probs", "--classes-column", "candidates"]
    used = ["calibrate", tmp_path / "tasks.parquet", "--task", "task", "--label", "y", *lists]
    result = metapac(*used, *LEVELS, "-o", path)
    assert result.exit_code == 0, result.output
    sets = metapac("predict", path, tmp_path / "new.parquet", "-o", tmp_path / "sets.csv")
    assert "1000 sets written to" in sets.stdout
    assert "sets that contain each class" not in sets.stdout
    evaluated = metapac("evaluate", path, tmp_path / "new.parquet")
    assert "mean size" in evaluated.stdout
    assert "pass --label" not in evaluated.stdout
    refused = metapac(*used, *LEVELS, "--per-class", "-o", path)
    assert "--per-class" in refused.stderr

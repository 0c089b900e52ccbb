"""Tables opened by an engine."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from metapac import load
from tests.helpers.commands import LEVELS, calibrate_frame, metapac
from tests.helpers.engines import connection
from tests.helpers.workbooks import write_workbook


def test_a_missing_extra_is_named(table: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['ibis'] = None; from metapac.cli import main; main()"
    words = ["calibrate", table, "--task", "site", "--score", "true", *LEVELS, "-o", "p.json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert (
        "needs ibis. Install it with: pip install 'metapac[tables]' (in a checkout" in done.stderr
    )
    assert done.stderr.count("\n") == 1


def test_progress_is_shown_on_a_terminal(table: Path, tmp_path: Path) -> None:
    code = (
        "from rich.console import Console; from metapac.cli import console; "
        "console.stderr = Console(stderr=True, force_terminal=True, width=100); "
        "from metapac.cli.app import app; app()"
    )
    words = ["calibrate", table, "--task", "site", "--score", "true", *LEVELS, "-o", "p.json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert "counting the scores of each task" in done.stderr
    assert "threshold" in done.stdout


def test_a_database_is_not_read_by_spark(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.sqlite")
    database.execute("CREATE TABLE t (site TEXT, true REAL)")
    database.close()
    connection("spark")  # skips the test without Spark
    words = ["calibrate", tmp_path / "a.sqlite", "--task", "site", "--score", "true", *LEVELS]
    result = metapac(*words, "-o", tmp_path / "p.json", "--engine", "spark")
    assert result.exit_code == 2
    assert "is read by sqlite, not Spark. Leave --engine out." in result.stderr


def test_foreign_csv_is_read_with_options(frame: pd.DataFrame, tmp_path: Path) -> None:
    odd = frame.drop(columns="probs").replace({"site 00": "K\xf6ln"})
    odd.to_csv(tmp_path / "a.csv", sep=";", decimal=",", encoding="latin-1")
    words = ["calibrate", tmp_path / "a.csv", "--task", "site", "--score", "true", *LEVELS]
    output = ["-o", tmp_path / "p.json"]
    assert "a.csv is not utf-8 text. Read it with its enc" in metapac(*words, *output).stderr
    words += ["--encoding", "latin-1"]
    assert "Read it with --separator ';'." in metapac(*words, *output).stderr
    words += ["--separator", ";"]
    assert "decimal commas with --decimal ,." in metapac(*words, *output).stderr
    result = metapac(*words, "--decimal", ",", *output)
    assert result.exit_code == 0, result.output
    promise = load(tmp_path / "p.json")
    assert promise.threshold_ == calibrate_frame(frame).threshold_
    assert "K\xf6ln" in promise.tasks_


def test_a_tab_can_be_typed(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.drop(columns="probs").to_csv(tmp_path / "a.txt", sep="\t", index=False)
    words = ["calibrate", tmp_path / "a.txt", "--task", "site", "--score", "true", *LEVELS]
    result = metapac(*words, "-o", tmp_path / "p.json", "--separator", r"\t")
    assert result.exit_code == 0, result.output


def test_views_need_an_option(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.sqlite")
    database.execute("CREATE TABLE t (site TEXT, score REAL)")
    database.execute("CREATE VIEW v AS SELECT * FROM t")
    database.close()
    words = [
        "calibrate",
        tmp_path / "a.sqlite",
        "--table",
        "v",
        "--task",
        "site",
        "--score",
        "score",
    ]
    output = [*LEVELS, "-o", tmp_path / "p.json"]
    assert "If you trust it, read it with --views." in metapac(*words, *output).stderr
    assert "holds no rows" in metapac(*words, *output, "--views").stderr


def test_a_sheet_is_named_as_a_table(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", {"one": [["x"]], "two": [["site", "true"]]})
    words = ["calibrate", tmp_path / "a.xlsx", "--task", "site", "--score", "true", *LEVELS]
    output = ["-o", tmp_path / "p.json"]
    assert "it has: one, two. Pass one of them as --table." in metapac(*words, *output).stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_without_rows_is_named(
    suffix: str, frame: pd.DataFrame, promise: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"empty.{suffix}"
    empty = frame.drop(columns="probs").head(0)
    empty.to_csv(path, index=False) if suffix == "csv" else empty.to_parquet(path)
    output = ["-o", tmp_path / "out.json"]
    commands: list[list[object]] = [
        ["calibrate", path, "--task", "site", "--score", "true", *LEVELS, *output],
        ["calibrate", path, "--task", "site", "--label", "y", *LEVELS, *output],
        ["site", path, "--name", "a", "--label", "y", *LEVELS, *output],
        ["plan", path, "--task", "site"],
        ["evaluate", promise, path],
    ]
    for words in commands:
        result = metapac(*words)
        assert result.exit_code == 2, (words, result.output)
        assert f"empty.{suffix} holds no rows" in result.stderr
        assert result.stderr.count("\n") == 1
    result = metapac("predict", promise, path, "-o", tmp_path / "sets.csv")
    assert result.exit_code == 0, result.output  # a batch may be empty
    assert result.stdout.startswith("0 sets of 3 classes")

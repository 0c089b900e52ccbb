"""Checks of the data on the command line: one line each, with the option to go on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.commands import LEVELS, metapac

COLUMNS = ["--task", "site", "--label", "y"]


@pytest.fixture
def doubled(frame: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "doubled.parquet"
    pd.concat([frame, frame]).to_parquet(path)
    return path


def test_an_error_names_the_option_that_skips_the_check(doubled: Path, tmp_path: Path) -> None:
    output = tmp_path / "promise.json"
    result = metapac("calibrate", doubled, *COLUMNS, *LEVELS, "-o", output)
    assert result.exit_code == 2
    assert "doubled.parquet: every row occurs 2 times" in result.stderr
    assert result.stderr.endswith("To go on, pass --allow duplicates.\n")
    assert not output.exists()
    result = metapac("calibrate", doubled, *COLUMNS, *LEVELS, "-o", output, "--allow", "duplicates")
    assert result.exit_code == 0, result.output


def test_a_warning_is_one_line(frame: pd.DataFrame, tmp_path: Path) -> None:
    path, output = tmp_path / "some.parquet", tmp_path / "promise.json"
    pd.concat([frame, frame[:1000]]).to_parquet(path)
    result = metapac("calibrate", path, *COLUMNS, *LEVELS, "-o", output)
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if "copies" in line]
    assert line.startswith(f"metapac: warning: {path}: 1000 of 3400 rows are copies")
    assert line.endswith("To silence this, pass --allow duplicates.")


def test_several_checks_may_be_skipped(doubled: Path, tmp_path: Path) -> None:
    words = ["--epsilon", 0.6, "--alpha", 0.3, "--delta", 0.1, "-o", tmp_path / "promise.json"]
    result = metapac("calibrate", doubled, *COLUMNS, *words)
    assert "--epsilon 0.6 is a miss rate" in result.stderr
    assert "Did you mean --epsilon 0.4? To go on, pass --allow levels." in result.stderr
    for allow in (["--allow", "levels", "--allow", "duplicates"], ["--allow", "levels,duplicates"]):
        assert metapac("calibrate", doubled, *COLUMNS, *words, *allow).exit_code == 0


def test_an_unknown_check_is_refused(table: Path, promise: Path, tmp_path: Path) -> None:
    for words in (
        ["calibrate", table, *COLUMNS, *LEVELS, "-o", tmp_path / "p.json"],
        ["site", table, "--name", "ohio", "--label", "y", *LEVELS, "-o", tmp_path / "s.json"],
        ["predict", promise, table, "-o", tmp_path / "sets.csv"],
        ["evaluate", promise, table, "--label", "y"],
    ):
        result = metapac(*words, "--allow", "dupes")
        assert result.exit_code == 2
        assert "--allow must name checks to skip, out of direction, duplicates" in result.stderr


def test_ids(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "ids.parquet"
    frame.assign(patient=[i % 79 for i in range(len(frame))]).to_parquet(path)
    result = metapac(
        "calibrate", path, *COLUMNS, *LEVELS, "-o", tmp_path / "p.json", "--id", "patient"
    )
    assert result.exit_code == 2
    assert "id occurs twice within a task in 30 of 2400 rows (first: " in result.stderr
    result = metapac(
        "site", path, "--name", "ohio", "--label", "y", *LEVELS, "-o", tmp_path / "s.json",
        "--id", "patient",
    )  # fmt: skip
    assert "id occurs twice" in result.stderr


def test_the_score_of_a_class(table: Path, tmp_path: Path) -> None:
    result = metapac(
        "calibrate", table, "--task", "site", "--score", "p_cat", *LEVELS, "-o", tmp_path / "p.json"
    )
    assert result.exit_code == 2
    assert "--score p_cat looks like the score of one class, beside p_dog, p_owl" in result.stderr
    assert "the column with the true label" in result.stderr


def test_percentages_after_fractions(frame: pd.DataFrame, tmp_path: Path) -> None:
    table, promise, new = (tmp_path / name for name in ("t.parquet", "p.json", "n.parquet"))
    frame.to_parquet(table)
    assert metapac("calibrate", table, *COLUMNS, *LEVELS, "-o", promise).exit_code == 0
    scores = [name for name in frame if name.startswith("p_")]
    frame.assign(site="new " + frame.site, **{n: 100 * frame[n] for n in scores}).to_parquet(new)
    for words in (["predict", promise, new, "-o", tmp_path / "s.csv"], ["evaluate", promise, new]):
        result = metapac(*words)
        assert result.exit_code == 2, result.output
        assert "these are percentages and those fractions" in result.stderr
        assert "To go on, pass --allow percentages." in result.stderr

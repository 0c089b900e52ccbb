"""What a guarantee is about, as ``calibrate`` and ``combine`` are told and ``predict`` compares."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from metapac import Exploration, load
from tests.helpers.commands import LEVELS, as_new, metapac


@pytest.fixture(params=["calibrate", "combine"])
def command(
    request: pytest.FixtureRequest, table: Path, site_files: list[Path], tmp_path: Path
) -> list[object]:
    """Return the command without its context; its tasks are "site 00", "site 01", ..."""
    output = ["-o", tmp_path / "promise.json"]
    if request.param == "combine":
        return ["combine", *site_files, *output]
    return ["calibrate", table, "--task", "site", "--score", "true", *LEVELS, *output]


def pilot_file(path: Path, *tasks: str) -> Path:
    Exploration(tasks, 80, 0.05, {"no": 0.9, "yes": 0.1}, (), {}).save(path)
    return path


def test_the_context_is_stored(command: list[object], tmp_path: Path) -> None:
    words = ["--model", "triage 3.1", "--trained-on", "ohio, 7", "--unit", "hospital"]
    words += ["--example", "patient", "--pilot", str(pilot_file(tmp_path / "a", "utah"))]
    result = metapac(*command, *words)
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "promise.json").read_text())
    assert written["context"] == {
        "model": "triage 3.1",
        "trained_on": ["ohio", "7"],
        "pilot": ["utah"],
        "unit": "hospital",
        "example": "patient",
    }
    context = load(tmp_path / "promise.json").context_
    assert (context.model, context.unit, context.example) == ("triage 3.1", "hospital", "patient")


def test_without_options_nothing_is_claimed(command: list[object], tmp_path: Path) -> None:
    assert metapac(*command).exit_code == 0
    assert load(tmp_path / "promise.json").context_.to_json() == {}


@pytest.mark.parametrize("how", ["names", "text", "table", "pilot"])
def test_tasks_that_must_not_be_calibrated_on(
    command: list[object], how: str, tmp_path: Path
) -> None:
    names = ["ohio", "site 03", "site 07"]
    (tmp_path / "train.txt").write_text("\n".join(names))
    pd.DataFrame({"site": names}).to_parquet(tmp_path / "train.parquet")
    words: dict[str, list[object]] = {
        "names": ["--trained-on", ",".join(names)],
        "text": ["--trained-on", tmp_path / "train.txt"],
        "table": ["--trained-on", tmp_path / "train.parquet"],
        "pilot": ["--pilot", pilot_file(tmp_path / "pilot.json", *names)],
    }
    result = metapac(*command, *words[how])
    assert result.exit_code == 2
    option = "--pilot" if how == "pilot" else "--trained-on"
    shared = f"{option} and the calibration tasks share 2 tasks: 'site 03', 'site 07'."
    assert shared in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "promise.json").exists()


@pytest.mark.parametrize("words", [["--model", " "], ["--unit", ""], ["--example", ""]])
def test_empty_names(command: list[object], words: list[str], tmp_path: Path) -> None:
    result = metapac(*command, *words)
    assert result.exit_code == 2
    assert f"{words[0]} must be a non-empty string, got {words[1]!r}." in result.stderr
    assert not (tmp_path / "promise.json").exists()


def test_a_pilot_file_is_no_promise_file(command: list[object], promise: Path) -> None:
    result = metapac(*command, "--pilot", promise)
    assert result.exit_code == 2
    assert "promise.json is not a metapac pilot file" in result.stderr
    gone = metapac(*command, "--pilot", "gone.json")
    assert (gone.exit_code, "gone.json" in gone.stderr) == (2, True)


@pytest.mark.parametrize("use", ["predict", "evaluate"])
def test_another_model_is_refused(
    command: list[object], use: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    new = tmp_path / "new.parquet"
    as_new(frame).to_parquet(new)
    assert metapac(*command, "--model", "triage 3.1").exit_code == 0
    words = [use, tmp_path / "promise.json", new, "--label", "y", "--task", "site"]
    words = words[:3] if use == "predict" else words
    other = metapac(*words, "--model", "triage 4")
    assert other.exit_code == 2
    assert "--model must be 'triage 3.1', the model that was calibrated, got 'triage 4'" in (
        other.stderr
    )
    assert other.stderr.count("\n") == 1
    assert other.stdout == ""
    for more in (["--model", "triage 3.1"], []):
        same = metapac(*words, *more)
        assert (same.exit_code, same.stderr) == (0, "")

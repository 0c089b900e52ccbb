"""``metapac monitor --reference``: scores without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_monitor import LEVELS, WORDS, make, words_of
from tests.helpers.commands import metapac


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("drift")
    known = make("old", 60, seed=0)
    known.to_parquet(place / "calibration.parquet")
    table = ["calibrate", place / "calibration.parquet", "--task", "site", "--label", "y"]
    assert metapac(*table, *LEVELS, *WORDS, "-o", place / "promise.json").exit_code == 0
    for name, shift, seed in (("same", 0.0, 5), ("other", 1.5, 6)):
        make(name, 12, seed=seed, shift=shift).drop(columns="y").to_csv(
            place / f"{name}.csv", index=False
        )
    return place


def compare(folder: Path, name: str | Path, *more: object) -> Any:
    reference = ["--reference", folder / "calibration.parquet"]
    return metapac("monitor", folder / "promise.json", folder / name, *reference, *more)


def test_scores_like_those_of_calibration(folder: Path) -> None:
    result = compare(folder, "same.csv")
    assert result.exit_code == 0, result.output
    text = words_of(result.stdout)
    assert text.startswith("Without labels: ")
    assert "of 12 hospitals" in text
    assert "where 0.59 would be expected; a new patient has a higher score than one of" in text
    assert "Chance explains that. This is a heuristic" in text
    assert "label patients and pass --state." in text


def test_scores_that_changed(folder: Path) -> None:
    result = compare(folder, "other.csv")
    assert result.exit_code == 0
    text = result.stdout
    assert "That is more than chance explains: the scores have changed." in words_of(text)
    assert "Unusual hospitals (the first 10 of" in text


def test_json(folder: Path) -> None:
    facts = json.loads(compare(folder, "other.csv", "--json").stdout)
    assert facts["suspicious"] is True
    assert (facts["tasks"], facts["reference"]) == (12, 60)
    assert facts["expected"] == pytest.approx(12 * 3 / 61)
    assert facts["higher"] < 0.5
    assert facts["p_common"] < 0.005
    first = facts["unusual"][0]
    assert first.keys() == {"task", "examples", "higher", "p_value"}
    assert first["examples"] == 80
    assert facts["sentence"].startswith("Without labels")


def test_one_task_has_no_common_shift(folder: Path, tmp_path: Path) -> None:
    make("one", 1, seed=7).to_csv(tmp_path / "one.csv", index=False)
    facts = json.loads(compare(folder, tmp_path / "one.csv", "--json").stdout)
    assert facts["p_common"] is None
    assert "One hospital is too few to tell chance from change." in facts["sentence"]
    assert "Chance explains" not in facts["sentence"]


def test_scores_of_another_model_are_refused(folder: Path) -> None:
    promise = folder / "named.json"
    table = ["calibrate", folder / "calibration.parquet", "--task", "site", "--label", "y"]
    assert metapac(*table, *LEVELS, *WORDS, "--model", "net 1", "-o", promise).exit_code == 0
    words = ["monitor", promise, folder / "same.csv", "--reference", folder / "calibration.parquet"]
    other = metapac(*words, "--model", "net 2")
    assert other.exit_code == 2
    assert "--model must be 'net 1', the model that was calibrated, got 'net 2'" in other.stderr
    assert metapac(*words, "--model", "net 1").exit_code == 0


def test_bad_references(folder: Path, tmp_path: Path) -> None:
    few = pd.read_parquet(folder / "calibration.parquet")
    few[few.site < "old 05"].to_parquet(tmp_path / "few.parquet")
    few.assign(p_no=np.nan).to_parquet(tmp_path / "holes.parquet")
    (tmp_path / "empty.csv").write_text("")
    for name, message in [
        ("few.parquet", "--reference must have at least 19 tasks"),
        ("holes.parquet", "hold nulls or NaN in 4800 of 4800 rows"),
        ("missing.parquet", "missing.parquet"),
        ("empty.csv", "empty.csv"),
    ]:
        words = ["--reference", tmp_path / name]
        result = metapac("monitor", folder / "promise.json", folder / "same.csv", *words)
        assert result.exit_code == 2
        assert message in words_of(result.stderr)
        assert len(result.stderr.splitlines()) == 1

"""``metapac explore``: a table of levels, a figure, and the pilot file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metapac import read_pilot
from tests.helpers.commands import metapac


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    rng = np.random.default_rng(0)
    sick = rng.random(800) < 0.2
    p = rng.beta(2 + 3 * sick, 5)
    frame = pd.DataFrame({"site": np.arange(800) % 20, "y": np.where(sick, "yes", "no")})
    frame.assign(p_no=1 - p, p_yes=p).to_csv(tmp_path / "pilot.csv", index=False)
    return ["explore", tmp_path / "pilot.csv", "--task", "site", "--label", "y"]


def test_it_prints_draws_and_writes(words: list[object], tmp_path: Path) -> None:
    files = ["-o", tmp_path / "pilot.json", "--plot", tmp_path / "pilot.png"]
    result = metapac(*words, "--epsilon", ".1,.2", "--alpha", ".2", *files)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Sets to expect at delta 0.05, estimated on 20 pilot tasks with 800 examples" in text
    assert "One threshold per class, --per-class (20 calibration tasks)" in text
    assert "delta 0.01" in text
    assert "calibrate on other tasks" in text
    assert len(read_pilot(tmp_path / "pilot.json").cells) == 4
    assert (tmp_path / "pilot.png").read_bytes().startswith(b"\x89PNG")


def test_small_tasks_and_checks(words: list[object]) -> None:
    left_out = metapac(*words, "--min-examples", 41)
    assert left_out.exit_code == 2
    assert "holds 0 tasks with at least 41 examples" in left_out.stderr
    refused = metapac(*words, "--epsilon", ".1,.9")
    assert "Did you mean --epsilon 0.1? To go on, pass --allow levels." in refused.stderr
    allowed = metapac(*words, "--epsilon", ".1,.9", "--allow", "levels", "--min-examples", 30)
    assert allowed.exit_code == 0, allowed.output
    again = metapac(*words, "--id", "y")
    assert "id occurs twice within a task" in again.stderr


def test_json(words: list[object]) -> None:
    machine = json.loads(metapac(*words, "--delta", "none", "--json").stdout)
    assert machine["delta"] is None
    assert len(machine["cells"]) == 30
    assert {*machine["tasks"]} == {str(site) for site in range(20)}  # CSV holds texts


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--epsilon", "x"], "--epsilon must be numbers separated by commas, such as .05,.1, got"),
        (["--alpha", "2"], "alpha must be a number strictly between 0 and 1"),
        (["--label", "z"], "has no column 'z'"),
    ],
)
def test_bad_options(words: list[object], more: list[object], message: str) -> None:
    result = metapac(*words, *more)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_input_is_not_overwritten(words: list[object]) -> None:
    assert metapac(*words, "-o", words[1]).exit_code == 2
    assert metapac(*words, "--plot", words[1]).exit_code == 2


def test_levels_that_need_more_tasks_are_no_results(words: list[object], tmp_path: Path) -> None:
    levels = ["--epsilon", ".1,.2", "--alpha", ".1,.2", "--tasks", 26]
    result = metapac(*words, *levels, "--plot", tmp_path / "pilot.png")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("needs 29") == 1
    assert "needs: too few calibration tasks" in result.stdout
    cells = json.loads(metapac(*words, *levels, "--json").stdout)["cells"]
    needed = [(cell["alpha"], cell["tasks_needed"]) for cell in cells if not cell["per_class"]]
    assert needed == [(0.1, 29), (0.1, 29), (0.2, None), (0.2, None)]
    assert cells[0]["size"] == [None, None, None]
    assert None not in cells[2]["size"]


def test_alphas_with_different_numbers_of_tasks(words: list[object]) -> None:
    note = "The alphas assume different numbers of tasks"
    assert note in metapac(*words, "--per-class").stdout
    assert note not in metapac(*words, "--tasks", 60).stdout
    assert "explore always shows both" in metapac(*words, "--per-class").stderr

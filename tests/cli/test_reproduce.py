"""``metapac reproduce``: its options and what it prints; whole runs are in tests/reproduce."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metapac.evaluation import Rows, SyntheticStudy, evaluate, paper_methods
from metapac.reproduce import run
from metapac.reproduce.experiments import EXPERIMENTS, Experiment
from tests.helpers.commands import metapac


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Experiment, dict[str, Any]]]:
    """Record the runs instead of making them; each returns rows of synthetic tasks."""
    guarantee = EXPERIMENTS["glyphs"].guarantee
    study = SyntheticStudy(tasks=250, examples=250)
    methods = paper_methods(guarantee, second_delta=0.1)
    rows = evaluate(study, guarantee=guarantee, methods=methods, draws=2)
    made = []

    def reproduce(experiment: Experiment, folder: Path, **options: Any) -> Rows:
        folder.mkdir(exist_ok=True)
        options["progress"]("draws", 2, 2)
        made.append((experiment, options))
        return rows

    monkeypatch.setattr(run, "reproduce", reproduce)
    return made


def test_options_change_the_experiment(
    calls: list[tuple[Experiment, dict[str, Any]]], tmp_path: Path
) -> None:
    words = ["reproduce", "glyphs", "-o", tmp_path / "run", "--draws", 3, "--epochs", 1]
    result = metapac(*words, "--jobs", 2, "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    experiment, options = calls[0]
    assert (experiment.draws, experiment.training.epochs) == (3, 1)
    assert (options["n_jobs"], options["device"]) == (2, "cpu")
    summary = json.loads(result.stdout)
    assert summary["name"] == "glyphs"
    assert {line["method"] for line in summary["methods"]} >= {"PS", "PS-Test", "Meta-PS joint"}
    assert (tmp_path / "run" / "error.png").exists()


@pytest.mark.usefixtures("calls")
def test_the_table_and_the_claims_are_printed(tmp_path: Path) -> None:
    result = metapac("reproduce", "glyphs", "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Meta-PS joint" in text
    assert "holds: " in text
    assert f"Rows and figures are in {tmp_path / 'run'}" in text


def test_an_unknown_experiment() -> None:
    result = metapac("reproduce", "mnist")
    assert result.exit_code == 2
    assert "NAME must be 'glyphs' or" in result.stderr

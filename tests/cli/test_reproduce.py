"""``metapac reproduce``: its options and what it prints; whole runs are in tests/reproduce."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metapac.fewshot import run_study, summarise
from metapac.fewshot.reproduce import experiments, figures, run
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, Experiment, all_methods
from metapac.fewshot.study.draws import SyntheticStudy
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import Summary
from tests.helpers.commands import metapac
from tests.helpers.experiments import CLASSES, class_pools, shrink

REFERENCE = Path(__file__).parents[2] / "docs" / "cli.md"
Calls = list[tuple[Experiment, dict[str, Any]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Record the runs instead of making them; each returns rows of synthetic tasks."""
    guarantee = EXPERIMENTS["glyphs"].guarantee
    study = SyntheticStudy(tasks=250, examples=250)
    rows = [
        run_study(study, guarantee=guarantee, methods=all_methods(guarantee), draws=2, rng=seed)
        for seed in range(2)
    ]
    made: Calls = []

    def reproduce(experiment: Experiment, folder: Path, **options: Any) -> Summary:
        folder.mkdir(exist_ok=True)
        options["progress"]("draws", 2, 2)
        made.append((experiment, options))
        return summarise(rows, guarantee)

    monkeypatch.setattr(run, "reproduce", reproduce)
    monkeypatch.setattr(run, "read_accuracies", lambda folder: [0.5, 0.625])
    return made


def test_options_change_the_experiment(calls: Calls, tmp_path: Path) -> None:
    words = ["reproduce", "glyphs", "-o", tmp_path / "run", "--draws", 3, "--epochs", 1]
    words += ["--seeds", 2, "--rng", 5]
    result = metapac(*words, "--jobs", 2, "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    experiment, options = calls[0]
    assert experiment.training is not None
    assert (experiment.draws, experiment.training.epochs) == (3, 1)
    assert (options["n_jobs"], options["device"]) == (2, "cpu")
    assert (options["seeds"], options["rng"], options["controls"]) == (2, 5, False)
    summary = json.loads(result.stdout)
    row = re.search(r"^\| `reproduce` \| (.*) \|$", REFERENCE.read_text(), re.MULTILINE)
    assert row is not None
    assert {*summary} <= {*re.findall(r"`(\w+)`", row[1])}
    assert (summary["name"], summary["seeds"]) == ("glyphs", 2)
    assert summary["accuracy"] == [0.5, 0.625]
    assert summary["controls"] == []
    assert {claim["source"] for claim in summary["claims"]} == {"not in the paper"}
    assert {line["method"] for line in summary["methods"]} >= {"PS", "HCP", "Meta-PS even, grid"}
    assert (tmp_path / "run" / "error.png").exists()


def test_the_defaults_are_the_experiments(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metapac.fewshot.reproduce.run.draw_figures", lambda *rows, **options: None)
    for name in ("miniimagenet", "miniimagenet-conv4-strong"):
        result = metapac("reproduce", name, "-o", tmp_path / "run")
        assert result.exit_code == 0, result.output
        experiment, options = calls[-1]
        assert experiment == EXPERIMENTS[name]
        assert (options["seeds"], options["rng"]) == (None, 0)


def test_the_help_names_the_defaults() -> None:
    text = " ".join(metapac("reproduce", "--help").output.replace("│", " ").split())
    glyphs, cifar = EXPERIMENTS["glyphs"], EXPERIMENTS["cifar10c"]
    assert f"By default 3, {glyphs.seeds} for glyphs, {cifar.seeds} for cifar10c." in text
    assert f"By default 34, {glyphs.draws} for glyphs, {cifar.draws} for cifar10c." in text
    for name in EXPERIMENTS:
        assert name in text


@pytest.mark.usefixtures("calls")
def test_the_table_and_the_claims_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metapac.fewshot.reproduce.run.draw_figures", lambda *rows, **options: None)
    result = metapac("reproduce", "glyphs", "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    for name in ("Meta-PS joint", "averaged thresholds", "multi-environment", "Meta-PS even, grid"):
        assert name in text
    assert "delta = 0.1" not in text  # other deltas are in the JSON
    assert "over 4 calibration draws given these two learners" in text
    assert "Accuracy of the learner on new tasks: 50.0%, 62.5%" in text
    assert "agrees: Meta-PS tight: the 90 % quantile of error is at most epsilon = 0.1" in text
    assert "Control" not in text
    assert f"Rows and figures are in {tmp_path / 'run'}" in text


@pytest.mark.usefixtures("calls")
def test_the_figures_show_the_methods_of_the_paper_on_all_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Rows] = []
    for name in ("draw_error", "draw_size", "draw_error_per_set", "draw_error_per_delta"):
        monkeypatch.setattr(figures, name, lambda rows, *rest, **options: shown.append(rows))
    assert metapac("reproduce", "glyphs", "-o", tmp_path / "run").exit_code == 0
    assert len(shown) == 8  # four, each as PNG and as SVG
    for rows in shown:
        assert {name for name, _ in rows.methods()} == {*figures.COLOURS} - {"Meta-CP"}
        assert {*rows.draw.tolist()} == {0, 1, 2, 3}  # two draws of each of two seeds


def test_epochs_of_a_strong_recipe_are_refused(tmp_path: Path) -> None:
    name = "miniimagenet-resnet12-strong"
    result = metapac("reproduce", name, "--epochs", 3, "-o", tmp_path / "run")
    assert result.exit_code == 2
    assert " ".join(result.stderr.split()) == (
        "metapac: --epochs cannot be chosen for miniimagenet-resnet12-strong: its learner is "
        "trained by the strong recipe, which fixes the number of epochs. Leave the option out."
    )
    assert not (tmp_path / "run").exists()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make glyphs an experiment that takes a moment, and draw no figures."""
    shrink(monkeypatch)
    experiment = replace(CLASSES, name="glyphs")
    monkeypatch.setitem(experiments.EXPERIMENTS, "glyphs", experiment)
    monkeypatch.setattr(run, "load", lambda experiment, home: class_pools())
    monkeypatch.setattr("metapac.fewshot.reproduce.experiments.SMALL", (4,))
    monkeypatch.setattr("metapac.fewshot.reproduce.run.draw_figures", lambda *rows, **options: None)


@pytest.mark.usefixtures("tiny")
def test_a_run_is_extended_and_never_mixed(tmp_path: Path) -> None:
    words = ["reproduce", "glyphs", "--device", "cpu", "-o", tmp_path / "run"]
    first = metapac(*words, "--seeds", 2, "--controls", "--json")
    assert first.exit_code == 0, first.output
    summary = json.loads(first.stdout)
    names = [control["name"] for control in summary["controls"]]
    assert names == ["seen", "no-shift", "n-12"]
    for control in summary["controls"]:
        assert control["seeds"] == 2
        assert control["title"]
        shown = "Meta-CP" if control["name"] == "seen" else "Meta-PS joint"
        assert shown in {line["method"] for line in control["methods"]}
    fewer = metapac(*words)
    assert fewer.exit_code == 2
    assert (
        "already holds seed 1, and this call has the seeds 0 to 0. Pass --rng 0 and --seeds 2"
        in (" ".join(fewer.stderr.split()))
    )
    other = metapac(*words, "--seeds", 2, "--epochs", 2)
    assert other.exit_code == 2
    assert "experiment.training.epochs=1, but this one has" in " ".join(other.stderr.split())
    more = metapac(*words, "--seeds", 3, "--controls")
    assert more.exit_code == 0, more.output
    text = " ".join(more.output.split())
    assert "Student's t over 3 seeds" in text
    assert (
        "Control no-shift (new tasks from the calibration pool): Meta-PS joint, mean size" in text
    )
    title = "Meta-CP's predictor trained on what the learner was trained on"
    assert f"Control seen ({title}): Meta-CP, mean size" in text
    assert text.count("Control ") == 3


@pytest.mark.usefixtures("tiny")
def test_an_old_run_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_text("{}")
    result = metapac("reproduce", "glyphs", "-o", tmp_path)
    assert result.exit_code == 2
    assert "holds a run of a single seed, as metapac wrote it before" in " ".join(
        result.stderr.split()
    )
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"]


@pytest.mark.usefixtures("tiny")
def test_only_a_folder_of_a_run_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "file.png").touch()
    for name in "abcd":
        (tmp_path / f"{name}.csv").touch()
    before = sorted(tmp_path.iterdir())
    cases = {
        tmp_path / "file.png": f"--output must be a folder, got the file {tmp_path / 'file.png'}. "
                               "Choose another name.",
        tmp_path: "--output must be a new or empty folder, or that of a run: "
                  f"{tmp_path} holds no seed, but a.csv, b.csv, c.csv and 2 more. Choose another "
                  "folder.",
    }  # fmt: skip
    for output, message in cases.items():
        result = metapac("reproduce", "glyphs", "-o", output)
        assert result.exit_code == 2
        assert "".join(result.stderr.split()) == f"metapac: {message}".replace(" ", "")
    assert sorted(tmp_path.iterdir()) == before


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    cases: list[tuple[list[Any], str]] = [
        (["mnist"], "NAME must be 'glyphs' or 'miniimagenet'"),
        (["heart", "--home", tmp_path], "Run 'metapac data fetch heart', then"),
        (["glyphs", "--seeds", 0], "--seeds"),
    ]
    for words, message in cases:
        result = metapac("reproduce", *words, "-o", tmp_path / "run")
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())
        assert not (tmp_path / "run").exists()

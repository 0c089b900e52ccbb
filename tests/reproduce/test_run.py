"""Experiments end to end: several seeds, controls, folders that are extended and never mixed."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metapac.fewshot import ProtoNet, run_study, summarise
from metapac.fewshot.reproduce import run, seed
from metapac.fewshot.reproduce.claims import check_claims
from metapac.fewshot.reproduce.experiments import find_experiment
from metapac.fewshot.study.run import read_rows, read_seeds
from metapac.fewshot.study.summary import Summary
from tests.helpers.commands import metapac
from tests.helpers.experiments import (
    CLASSES,
    GROUPS,
    STRONG,
    class_pools,
    group_pools,
    shrink,
)
from tests.helpers.studies import GUARANTEE, SmallStudy, same_rows


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Small data for the experiments of tests/helpers/experiments.py."""
    shrink(monkeypatch)
    pools = {"sites": group_pools(), "points": class_pools()}
    monkeypatch.setattr(run, "load", lambda experiment, home: pools[experiment.data])
    monkeypatch.setattr("metapac.fewshot.reproduce.experiments.SMALL", (4,))
    return monkeypatch


@pytest.fixture
def trained(tiny: pytest.MonkeyPatch) -> list[int]:
    """The seeds that were trained."""
    made: list[int] = []
    train = seed.train_learner

    def counted(*parts: Any, **options: Any) -> Any:
        made.append(options["rng"])
        return train(*parts, **options)

    tiny.setattr(seed, "train_learner", counted)
    return made


def same(one: Summary, other: Summary) -> bool:
    pairs = zip(one.rows, other.rows, strict=True)
    return one.lines == other.lines and all(same_rows(*pair) for pair in pairs)


@pytest.mark.parametrize("experiment", [GROUPS, CLASSES, STRONG], ids=["groups", "few", "strong"])
def test_each_seed_is_a_training_with_draws_of_its_own(
    tmp_path: Path, trained: list[int], experiment: Any
) -> None:
    summary = run.reproduce(experiment, tmp_path, seeds=2, rng=4, device="cpu")
    assert trained == [4, 5]
    for number, rows in zip((4, 5), summary.rows, strict=True):
        assert same_rows(rows, read_rows(tmp_path / f"seed-{number}"))
        alone = run.reproduce(experiment, tmp_path / "alone", rng=number, device="cpu")
        assert same_rows(rows, alone.rows[0])
        shutil.rmtree(tmp_path / "alone")
    assert not same_rows(*summary.rows)
    assert same(summary, read_seeds(tmp_path))
    assert summary.seeds == 2
    assert len(set(weights(tmp_path))) == 2


def weights(folder: Path) -> list[str]:
    paths = sorted(folder.glob("seed-*"))
    return [str(seed.read_learner(path)["weights"]) for path in paths]


def test_the_number_of_seeds_is_the_experiments(tmp_path: Path, trained: list[int]) -> None:
    summary = run.reproduce(replace(CLASSES, seeds=3), tmp_path, device="cpu")
    assert trained == [0, 1, 2]
    assert "over 3 seeds" in summary.covers
    assert run.read_accuracies(tmp_path) == [
        seed.read_learner(tmp_path / f"seed-{i}")["accuracy"] for i in range(3)
    ]


def test_more_seeds_and_draws_extend_a_run(
    tmp_path: Path, tiny: pytest.MonkeyPatch, trained: list[int]
) -> None:
    first = run.reproduce(CLASSES, tmp_path, seeds=2, device="cpu")
    before = weights(tmp_path)
    more = run.reproduce(CLASSES, tmp_path, seeds=3, device="cpu")
    assert trained == [0, 1, 2]
    assert weights(tmp_path)[:2] == before
    assert all(same_rows(*pair) for pair in zip(more.rows[:2], first.rows, strict=True))
    with tiny.context() as patch:
        patch.setattr(ProtoNet, "embed", pytest.fail)
        longer = run.reproduce(replace(CLASSES, draws=3), tmp_path, seeds=3, device="cpu")
    assert trained == [0, 1, 2]
    assert longer.draws == 3
    for rows, old in zip(longer.rows, more.rows, strict=True):
        assert same_rows(rows.take(rows.draw < 2), old)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"seeds": 1}, "already holds seed 1, and this call has the seeds 0 to 0. Pass rng=0 and "
                   "seeds=2, or choose another folder."),
    ({"seeds": 2, "rng": 1}, "already holds seed 0, and this call has the seeds 1 to 2. Pass rng=0 "
                             "and seeds=3, or"),
    ({"seeds": 0}, "seeds must be a whole number from 1"),
    ({"rng": -1}, "rng must be a whole number from 0"),
]  # fmt: skip


def test_a_finished_seed_is_not_left_out(tmp_path: Path, trained: list[int]) -> None:
    run.reproduce(CLASSES, tmp_path, seeds=2, device="cpu")
    for options, message in REFUSED:
        with pytest.raises(ValueError, match=re.escape(message)):
            run.reproduce(CLASSES, tmp_path, device="cpu", **options)
    assert trained == [0, 1]


@pytest.mark.parametrize("file", ["evaluation.json", "learner.json"])
def test_a_run_of_a_single_seed_is_left_as_it_is(
    tmp_path: Path, trained: list[int], file: str
) -> None:
    run.reproduce(CLASSES, tmp_path / "new", device="cpu")
    shutil.copytree(tmp_path / "new" / "seed-0", tmp_path / "old")  # as it was written before
    for name in {"evaluation.json", "learner.json"} - {file}:
        (tmp_path / "old" / name).unlink()
    before = {path: path.read_bytes() for path in (tmp_path / "old").glob("*.*")}
    with pytest.raises(ValueError, match="old holds a run of a single seed, .* left as it is"):
        run.reproduce(CLASSES, tmp_path / "old", device="cpu")
    assert {path: path.read_bytes() for path in (tmp_path / "old").glob("*.*")} == before
    assert not (tmp_path / "old" / "seed-0").exists()
    assert trained == [0]


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path: Path, trained: list[int]) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"holds no seed, but thesis\.tex\. Choose another folder"):
        run.reproduce(CLASSES, tmp_path, device="cpu")
    with pytest.raises(ValueError, match="folder must be a folder, got the file"):
        run.reproduce(CLASSES, tmp_path / "thesis.tex", device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert trained == []
    (tmp_path / "empty").mkdir()
    run.reproduce(CLASSES, tmp_path / "empty", device="cpu")
    (tmp_path / "empty" / "thesis.tex").touch()  # beside a run, it is no obstacle
    run.reproduce(CLASSES, tmp_path / "empty", device="cpu")
    assert trained == [0]


def test_a_study_of_something_else_is_not_mixed_in(tmp_path: Path, trained: list[int]) -> None:
    run_study(SmallStudy(), guarantee=GUARANTEE, draws=1, folder=tmp_path / "seed-0")
    with pytest.raises(ValueError, match=r"experiment\.name=None.*experiment\.name='points'"):
        run.reproduce(CLASSES, tmp_path, device="cpu")
    assert trained == []


def test_controls_are_run_for_every_seed(
    tmp_path: Path, tiny: pytest.MonkeyPatch, trained: list[int]
) -> None:
    plain = run.reproduce(CLASSES, tmp_path, seeds=2, device="cpu")
    assert run.read_controls(CLASSES, tmp_path) == []
    stages: list[str] = []
    summary = run.reproduce(
        CLASSES, tmp_path, seeds=2, controls=True, device="cpu",
        progress=lambda stage, done, total: stages.append(stage),
    )  # fmt: skip
    assert same(summary, plain)
    assert trained == [0, 1]
    controls = {control.name: result for control, result in run.read_controls(CLASSES, tmp_path)}
    assert [*controls] == ["seen", "no-shift", "n-12"]
    for name, result in controls.items():
        assert f"seed 1: {name}: draws" in stages
        folders = [tmp_path / f"seed-{i}" / "controls" / name for i in range(2)]
        assert same(result, summarise([read_rows(folder) for folder in folders], result.guarantee))
    assert [line.method for line in controls["seen"]] == ["Meta-CP", "Meta-CP"]
    assert [len(controls[name]) for name in ("no-shift", "n-12")] == [11, 4]
    run.reproduce(CLASSES, tmp_path, seeds=3, device="cpu")  # the third without controls
    with pytest.raises(FileNotFoundError, match="no evaluation is here"):
        run.read_controls(CLASSES, tmp_path)


@pytest.mark.parametrize(
    ("tasks_from", "words"),
    [("pools", None), ("distinct", "divide the same groups"), ("bank", "scored once")],
)
def test_what_draws_share_is_said(
    tmp_path: Path, tiny: pytest.MonkeyPatch, tasks_from: str, words: str | None
) -> None:
    e = CLASSES if tasks_from == "bank" else GROUPS
    e = replace(e, tasks_from=tasks_from, bank=(14, 4), calibration_examples=9, draws=1)
    notes = run.reproduce(e, tmp_path, device="cpu").notes
    assert (words in notes[0]) if words else notes == ()


def test_only_one_process_works_on_a_seed(tmp_path: Path, tiny: pytest.MonkeyPatch) -> None:
    def meet(stage: str, done: int, total: int | None) -> None:
        assert (tmp_path / "seed-0" / ".metapac.lock").exists() == (stage != "reading the data")

    run.reproduce(CLASSES, tmp_path, device="cpu", progress=meet)
    assert not (tmp_path / "seed-0" / ".metapac.lock").exists()


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment on glyphs, run from the command line with fewer characters and draws."""
    folder = tmp_path_factory.mktemp("glyphs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_CHARACTERS", (50, 10, 30, 30))
        patch.setattr(seed, "QUANTILE_TASKS", 100)
        result = metapac(
            "reproduce", "glyphs", "--draws", 3, "--device", "cpu", "-o", folder, "--json"
        )
    assert result.exit_code == 0, result.output
    (folder / "said.json").write_text(result.stdout)
    return folder


def test_the_claims_of_the_paper_hold_on_glyphs(glyphs: Path) -> None:
    chosen = find_experiment("glyphs")
    result = check_claims(read_seeds(glyphs).rows, chosen.guarantee, chosen.data)
    assert [verdict.claim.partition(":")[0] for verdict in result] == [
        "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "PS", "Meta-CP", "PS-Test",
    ]  # fmt: skip
    assert [verdict.status for verdict in result[:3]] == ["agrees"] * 3
    assert result[-1].agrees
    # Three draws, and tasks of 150 examples: what is seen may be noise.
    assert result[3].numbers["error_quantile"] > chosen.guarantee.miss_rate
    assert result[3].status in ("agrees", "cannot tell yet")


def test_the_run_is_printed_and_drawn(glyphs: Path) -> None:
    text = json.loads((glyphs / "said.json").read_text())
    assert [claim["status"] for claim in text["claims"]][:3] == ["agrees"] * 3
    assert {claim["source"] for claim in text["claims"]} == {"not in the paper"}
    verdicts = {line["verdict"] for line in text["methods"]}
    assert verdicts <= {"observed within", "cannot tell yet", "violated", "too few data"}
    feasible = {line["method"]: line["feasible"] for line in text["methods"]}
    assert (feasible["Meta-PS even, grid"], feasible["PS"]) == (True, True)
    for name in ("error", "size", "error_per_set", "error_per_delta"):
        assert (glyphs / f"{name}.png").stat().st_size > 5000
        assert (glyphs / f"{name}.svg").read_text().startswith("<?xml")
    learner = seed.read_learner(glyphs / "seed-0")
    assert text["accuracy"] == [learner["accuracy"]]
    assert learner["accuracy"] > 0.3  # chance is 0.2
    assert learner["episodes"] == 180
    assert learner["experiment"] == json.loads(json.dumps(find_experiment("glyphs").describe()))


def test_the_grid_of_the_research_code_finds_the_threshold_of_meta_ps(glyphs: Path) -> None:
    (rows,) = read_seeds(glyphs).rows
    ours, grid = (rows.select(name) for name in ("Meta-PS even", "Meta-PS even, grid"))
    gaps = ours.threshold - grid.threshold
    assert ((gaps >= -1e-15) & (gaps < 1.001e-7)).all()

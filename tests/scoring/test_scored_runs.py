"""Scores of a run: its own pools, data and weights, or a refusal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metapac import InvalidInput
from metapac.fewshot import load_learner, load_pools, save_weights
from metapac.fewshot.options import Drawing, Run
from metapac.fewshot.scored_tables import ScoredTable, score_run
from metapac.fewshot.scoring import tabulate
from metapac.fewshot.training.checkpoints import weights_checksum
from tests.helpers.commands import metapac

SHORT = ["--epochs", "1", "--episodes", "4", "--batch", "4", "--tasks", "4", "--device", "cpu"]
TASKS = Drawing(tasks=6, shots=2, queries=4)
SEEN = ("train", "validation")


def train(folder: Path, data: Path, *more: object) -> Path:
    result = metapac("train", data, "-o", folder, *SHORT, *more)
    assert result.exit_code == 0, result.output
    return folder


def rows(path: Path, **more: Any) -> Path:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(12), 10)
    x = rng.normal(size=(12, 4))[y] + rng.normal(size=(120, 4))
    np.savez(path, **{"x": x.astype(np.float32), "y": y, **more})
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    return train(folder / "run", rows(folder / "rows.npz"), "--ways", "3")


def run(folder: Path, tasks: Drawing = TASKS, **options: Any) -> ScoredTable:
    return score_run(folder, tasks, Run(device="cpu", **options))


@pytest.mark.parametrize("pool", [None, "calibration", "test", "validation", "train"])
def test_tasks_are_those_of_the_library(trained: Path, pool: str | None) -> None:
    table, provenance, _ = run(trained, replace(TASKS, pool=pool))
    own = getattr(load_pools(trained).pools, pool or "calibration")
    seen = sum(len(getattr(load_pools(trained).pools, name).names) for name in SEEN)
    learner = load_learner(trained)
    expected = tabulate(learner, own.tasks(6, ways=3, shots=2, queries=4, rng=0))
    for name in ("task", "example", "label", "score", "classes"):
        np.testing.assert_array_equal(table[name], expected[name])
    np.testing.assert_array_equal(np.array(table["scores"]), np.array(expected["scores"]))
    assert {*table["label"].tolist()} <= {*own.names}
    checksum = weights_checksum(learner)
    assert provenance.details["weights_checksum"] == checksum
    assert provenance.details["data_checksum"] == load_pools(trained).checksum
    assert provenance.model == f"ProtoNet {checksum[7:19]}, 3 ways, 2 shots"
    assert "trained_on" not in provenance.details
    assert provenance.details["training"] == f"{seen} other classes, as the run records"
    assert provenance.details["drawn_from"] == f"{len(own.names)} classes"


def test_ways_and_shots_are_those_of_training_by_default(trained: Path) -> None:
    _, provenance, notes = run(trained, Drawing(tasks=4, queries=2))
    assert (provenance.details["ways"], provenance.details["shots"]) == (3, 5)
    (note,) = notes
    assert note.startswith("4 tasks from 3 classes: a class is in 4 tasks on average")


def test_the_data_may_move_but_not_change(trained: Path, tmp_path: Path) -> None:
    data = trained.parent / "rows.npz"
    moved = tmp_path / "moved.npz"
    data.rename(moved)
    try:
        words = "was trained on these data. Pass where they are"
        with pytest.raises(FileNotFoundError, match=words):
            run(trained)
        assert len(run(trained, data=str(moved)).table["task"]) == 6 * 3 * 4
        other = rows(tmp_path / "other.npz", y=np.arange(120) % 12)
        with pytest.raises(InvalidInput, match=r"the data changed: .*other\.npz is not what"):
            run(trained, data=str(other))
    finally:
        moved.rename(data)


def test_other_weights_in_the_folder_are_refused(trained: Path) -> None:
    file = trained / "model.safetensors"
    before, learner = file.read_bytes(), load_learner(trained)
    try:
        with torch.no_grad():
            next(learner.module.parameters()).add_(1e-7)
        save_weights(learner, file)
        with pytest.raises(InvalidInput, match="are not those that run.json describes: the run"):
            run(trained)
    finally:
        file.write_bytes(before)
    run(trained)


def test_a_run_without_calibration_classes(tmp_path: Path) -> None:
    data = rows(tmp_path / "rows.npz")
    folder = train(tmp_path / "run", data, "--ways", "2", "--pools", "4,4,0,4")
    message = (
        r"pool must be a pool of .*run, which has train, validation, test, got 'calibration'\. "
        "Train again in another folder, so that classes are kept for it"
    )
    with pytest.raises(InvalidInput, match=message):
        run(folder)
    assert run(folder, replace(TASKS, pool="test")).provenance.details["units"] == 4


def test_groups_and_maml(tmp_path: Path) -> None:
    sites = np.repeat(np.arange(12), 10)
    data = rows(tmp_path / "rows.npz", y=np.arange(120) % 2, groups=sites)
    folder = train(tmp_path / "run", data, "--learner", "maml", "--shots", "4")
    table, provenance, notes = run(folder, Drawing())
    assert sorted(set(table["task"].tolist())) == load_pools(folder).pools.calibration.names
    assert re.fullmatch(r"MAML \w{12}, 4 shots", provenance.model)
    assert notes == ()
    pools = load_pools(folder).pools
    assert provenance.details["trained_on"] == [*pools.train.names, *pools.validation.names]

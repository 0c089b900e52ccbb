"""Embeddings and scores of a run are computed once, and again only if the run is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from metapac.fewshot import ClassPool, ProtoNet
from metapac.fewshot.reproduce.seed import RunScores
from metapac.fewshot.scoring import Stored

CALLS: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_computed() -> None:
    CALLS.clear()


def compute() -> Stored:
    CALLS.append(1)
    return Stored(scores=np.array([0.25, 0.5], np.float32), tasks=np.array([0, 1]))


def test_arrays_are_computed_once(tmp_path: Path) -> None:
    runs = [RunScores(tmp_path, {"weights": "a"}) for _ in range(2)]
    first, second = (run.read_or_compute("tasks", compute) for run in runs)
    assert len(CALLS) == 1
    assert first.scores is not None
    assert second.scores is not None
    np.testing.assert_array_equal(first.scores, second.scores)
    assert second.scores.dtype == np.float32
    assert second.provenance == {"weights": "a", "arrays": "tasks"}


@pytest.mark.parametrize("change", ["weights", "damage", "name"])
def test_those_of_another_run_and_damaged_ones_are_computed_again(
    tmp_path: Path, change: str
) -> None:
    RunScores(tmp_path, {"weights": "a"}).read_or_compute("tasks", compute)
    path = tmp_path / "tasks.safetensors"
    if change == "damage":
        path.write_bytes(path.read_bytes()[:-3])
    if change == "name":
        path.rename(tmp_path / "others.safetensors")
    name = "others" if change == "name" else "tasks"
    weights = "b" if change == "weights" else "a"
    RunScores(tmp_path, {"weights": weights}).read_or_compute(name, compute)
    assert len(CALLS) == 2
    RunScores(tmp_path, {"weights": weights}).read_or_compute(name, compute)
    assert len(CALLS) == 2


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        CALLS.append(len(x))
        result: Tensor = self.layer(x)
        return result


def test_a_bank_is_the_same_from_stored_embeddings(tmp_path: Path) -> None:
    torch.manual_seed(0)
    learner: Any = ProtoNet(Counting())
    y = np.repeat(np.arange(4), 9)
    pool = ClassPool(np.random.default_rng(0).normal(size=(36, 3)).astype(np.float32), y)
    tasks = list(pool.tasks(3, ways=2, shots=3, queries=4, rng=0))
    whole = learner.bank(pool.x)
    CALLS.clear()
    run = RunScores(tmp_path, {"weights": "a"})
    for count in (36, 0):  # embedded once, then read
        bank = run.bank("test", learner, pool.x)
        assert sum(CALLS) == count
        CALLS.clear()
        np.testing.assert_array_equal(bank.scores(tasks), whole.scores(tasks))
        np.testing.assert_array_equal(bank.leave_one_out(tasks), whole.leave_one_out(tasks))
        np.testing.assert_array_equal(bank.predict_proba(tasks[0]), whole.predict_proba(tasks[0]))
    assert "embed" not in vars(learner)  # the learner itself is not changed


def test_arrays_with_other_settings_are_computed_again(tmp_path: Path) -> None:
    run = RunScores(tmp_path, {"weights": "a"})
    for queries, calls in ((5, 1), (5, 1), (6, 2), (6, 2), (5, 3)):
        stored = run.read_or_compute("tasks", compute, queries=queries, shape=(1, 2))
        assert stored.provenance == {
            "weights": "a", "arrays": "tasks", "queries": queries, "shape": [1, 2],
        }  # fmt: skip
        assert len(CALLS) == calls

"""Two processes that communicate over gloo, against one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from metapac.fewshot import MAML, MLP, Conv4, ProtoNet
from metapac.fewshot.pools import ClassPool
from metapac.fewshot.training.loop import train
from tests.helpers.training import (
    SMALL,
    TRAIN,
    VALIDATION,
    group_pool,
    identical,
    start_python,
    state_of,
)


def shared_runs(folder: Path | None = None) -> dict[str, dict[str, Tensor]]:
    """Train with batch norm, with absent labels, and MAML; the last one with a checkpoint."""
    images = np.random.default_rng(0).integers(256, size=(80, 16, 16), dtype=np.uint8)
    pool = ClassPool(images, np.repeat(np.arange(8), 10))
    # In float64 the order of a sum is all that differs between one process and two.
    conv = ProtoNet(Conv4(channels=1, size=16, width=4, rng=0))
    conv.module.double()
    train(conv, pool, pool, **{**SMALL, "validation_tasks": 5})
    rare = ProtoNet(MLP(4, width=6, dropout=0, rng=0))
    options: dict[str, Any] = {**SMALL, "shots": 3, "queries": 6, "class_weights": [1, 10]}
    train(rare, group_pool(12, 0), group_pool(5, 1), **options)
    maml = MAML(MLP(8, width=6, dropout=0, rng=0), classes=5, steps=2, step_size=0.1)
    train(maml, TRAIN, VALIDATION, **SMALL, checkpoint=folder)
    return {"conv": state_of(conv), "rare": state_of(rare), "maml": state_of(maml)}


SHARED = """
import sys, torch
import torch.distributed as dist
from tests.learners.training.test_distributed import *
from tests.helpers.training import small_learner
store = f"file://{sys.argv[1]}/store"
dist.init_process_group("gloo", init_method=store, rank=int(sys.argv[2]), world_size=2)
for name, state in shared_runs(Path(sys.argv[1])).items():
    torch.save(state, f"{sys.argv[1]}/{name}-{dist.get_rank()}.pt")
try:
    train(small_learner(), TRAIN, VALIDATION, **{**SMALL, "episodes_per_step": 3})
except ValueError as error:
    print(error)
dist.destroy_process_group()
"""


@pytest.mark.usefixtures("one_thread")
def test_two_processes_reach_the_weights_of_one(tmp_path: Path) -> None:
    # The processes meet through a file. A port that is free when a test asks for one may be taken
    # by another process before the first of these two, which loads torch first, can listen on it.
    both = [start_python("-c", SHARED, str(tmp_path), str(rank)) for rank in range(2)]
    for process in both:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert "episodes_per_step must be a multiple of the 2 processes that share it" in output
    for name, alone in shared_runs().items():
        first, second = (torch.load(tmp_path / f"{name}-{rank}.pt") for rank in range(2))
        assert identical(first, second)
        for key, tensor in alone.items():
            torch.testing.assert_close(first[key], tensor, rtol=0, atol=1e-5, msg=f"{name}: {key}")
    # One process can resume what two have begun.
    options = {**SMALL, "epochs": SMALL["epochs"] + 1}
    longer = [
        MAML(MLP(8, width=6, dropout=0, rng=0), classes=5, steps=2, step_size=0.1) for _ in "ab"
    ]
    train(longer[0], TRAIN, VALIDATION, **options, checkpoint=tmp_path)
    train(longer[1], TRAIN, VALIDATION, **options)
    for key, tensor in state_of(longer[0]).items():
        torch.testing.assert_close(tensor, longer[1].module.state_dict()[key], rtol=0, atol=1e-5)

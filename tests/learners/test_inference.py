"""Torch learners score in eval mode, in batches, from any kind of array."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from metapac.learners import MLP, Conv4, ProtoNet


def test_modes_and_statistics_do_not_change() -> None:
    learner = ProtoNet(Conv4(1, 16, 8, rng=0))
    learner.module.train()
    learner.module.get_submodule("blocks.0").eval()
    modes = [part.training for part in learner.module.modules()]
    before = copy.deepcopy(learner.module.state_dict())
    x = np.random.default_rng(9).random((4, 16, 16))
    learner.adapt(x, [0, 1, 0, 1]).predict_proba(x)
    with pytest.raises(ValueError, match="images of 16 x 16, got 15 x 15"):
        learner.embed(np.zeros((2, 15, 15)))
    assert [part.training for part in learner.module.modules()] == modes
    for name, value in learner.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_all_kinds_of_arrays_give_the_same_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    x, labels = rng.normal(size=(12, 4)).astype(np.float32), np.array([0, 1, 1, 2])
    on_disk = np.memmap(tmp_path / "x", np.float32, "w+", shape=x.shape)
    on_disk[:] = x
    on_disk.flush()
    read_only = np.memmap(tmp_path / "x", np.float32, "r", shape=x.shape)
    kinds = (
        torch.tensor(x),
        read_only,
        x.astype(np.float64),
        x.astype(">f4"),
        np.asfortranarray(x),
        x[::-1].copy()[::-1],
        pd.DataFrame(x),
        x.tolist(),
    )
    learner = ProtoNet(nn.Linear(4, 3))  # takes float32 only
    actual = learner.adapt(x[:4], labels).predict_proba(x[4:])
    for kind in kinds:
        again = learner.adapt(kind[:4], torch.tensor(labels)).predict_proba(kind[4:])
        np.testing.assert_allclose(again, actual, atol=1e-6)


def test_text_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"x must hold numbers, got <U1\. A torch learner takes"):
        ProtoNet(MLP(1, rng=0)).embed(np.array([["a"], ["b"]]))

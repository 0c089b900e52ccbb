"""Torch learners score in eval mode, in batches, from any kind of array."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from metapac import InvalidInput
from metapac.fewshot import MAML, MLP, Conv4, Learner, ProtoNet
from metapac.fewshot.learners import protonet
from metapac.fewshot.learners.protonet import check_example_type


class Net(nn.Module):
    """A backbone that does not convert its input."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.features = 2
        self.layer = nn.Linear(inputs, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.layer(x)
        return z


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


@pytest.mark.parametrize(("fast", "precision"), [(False, "highest"), (True, "high")])
def test_a_gpu_computes_with_all_digits_unless_told_otherwise(
    fast: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings() -> tuple[bool, str]:
        return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()

    on_gpu = SimpleNamespace(device=torch.device("cuda"))
    monkeypatch.setattr(protonet, "_reference_tensor", lambda module: on_gpu)
    before = settings()
    with protonet.eval_mode(nn.Linear(1, 1), fast=fast):
        assert settings() == (fast, precision)
    assert settings() == before


@pytest.mark.parametrize("fast", [False, True])
def test_a_learner_embeds_fast_only_if_told_to(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []

    def watched(device: torch.device, precision: str, **flags: bool) -> Any:
        chosen.append((precision, flags["allow_tf32"]))
        return nullcontext()

    monkeypatch.setattr(protonet, "cuda_math", watched)
    learner = ProtoNet(MLP(2, rng=0))
    learner.embed(np.eye(2), fast=fast)
    learner.adapt(np.eye(2), [0, 1])
    assert chosen == [("high", True) if fast else ("highest", False), ("highest", False)]


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


@pytest.mark.parametrize("adapt", [ProtoNet, lambda backbone: MAML(backbone, 2)])
@pytest.mark.parametrize(
    ("dtype", "remedy"), [("u1", r"x\.float\(\) / 255,"), ("i8", r"x\.float\(\),")]
)
def test_a_backbone_that_takes_floats_says_so_of_whole_numbers(
    adapt: Callable[[nn.Module], Learner], dtype: str, remedy: str
) -> None:
    learner, x = adapt(Net(4)), np.eye(4, dtype=dtype)
    kind = f"takes floats, and the examples are {x.dtype}"
    with pytest.raises(InvalidInput, match=rf"{kind}\. Begin its forward with {remedy} or pass"):
        learner.adapt(x, [0, 1, 0, 1])
    assert learner.adapt(x / 255, [0, 1, 0, 1]).predict_proba(x / 255).shape == (4, 2)


def test_another_fault_keeps_the_words_of_torch() -> None:
    learner = ProtoNet(Net(3))
    with pytest.raises(RuntimeError, match="mat1 and mat2 must have the same dtype"):
        learner.embed(np.eye(4, dtype="u1"))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        learner.embed(np.eye(4))
    check_example_type(learner.module, lambda x: x, torch.ones(1, 3))  # floats are not the cause


class Failing(nn.Linear):
    """A backbone that takes whole numbers, and fails when ``fail`` does."""

    features = 2

    def __init__(self, fail: Callable[[], None]) -> None:
        super().__init__(4, 2)
        self.fail = fail

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.fail()
        return super().forward(x.float())


@pytest.mark.parametrize("adapt", [ProtoNet, lambda backbone: MAML(backbone, 2)])
@pytest.mark.parametrize(
    ("error", "failures"),
    [(RuntimeError, 1), (torch.OutOfMemoryError, 1), (torch.OutOfMemoryError, 2)],
)
def test_a_fault_that_passes_is_not_blamed_on_the_type(
    adapt: Callable[[nn.Module], Learner], error: type[Exception], failures: int
) -> None:
    calls = []

    def fail() -> None:
        calls.append(error)
        if len(calls) <= failures:
            raise error("too much")

    with pytest.raises(error, match="too much"):
        adapt(Failing(fail)).adapt(np.eye(4, dtype="u1"), [0, 1, 0, 1])
    if error is torch.OutOfMemoryError:
        assert len(calls) == 1  # raised at once


def test_statistics_do_not_change_where_the_cause_is_sought() -> None:
    backbone = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)).train()
    before = copy.deepcopy(backbone.state_dict())
    with pytest.raises(InvalidInput, match="takes floats"):
        check_example_type(backbone, backbone, torch.ones(3, 4, dtype=torch.uint8))
    assert backbone.training
    for name, value in backbone.state_dict().items():
        assert torch.equal(value, before[name]), name

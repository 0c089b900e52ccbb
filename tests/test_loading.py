"""A trained learner comes back from its file alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from metapac.cli.app import app
from metapac.learners import MAML, MLP, Conv4, ProtoNet, ResNet12, ResNet50, SentenceCNN
from metapac.learners.loading import load_learner
from metapac.learners.weights import save_weights


def learners() -> dict[str, Any]:
    return {
        "conv4": ProtoNet(Conv4(1, 16, 4, mean=0.5, std=0.25, rng=1)),
        "mlp": ProtoNet(MLP(3, width=5, depth=1, dropout=0.1, rng=1)),
        "resnet12": ProtoNet(ResNet12(3, rng=1)),
        "resnet50": ProtoNet(ResNet50(3, rng=1)),
        "sentences": ProtoNet(SentenceCNN(np.eye(7, 4), tokens=6, maps=5, padding=1, rng=1)),
        "maml": MAML(MLP(3, rng=1), 4, steps=2, step_size=0.5, second_order=False),
    }


@pytest.mark.parametrize("name", list(learners()))
def test_a_learner_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    learner = learners()[name]
    save_weights(learner, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        again = load_learner(path)
        assert type(again) is type(learner)
        assert again.describe() == learner.describe()
        state = learner.module.state_dict()
        assert all(torch.equal(state[k], v) for k, v in again.module.state_dict().items())
        assert not again.module.training


def test_constants_that_are_no_weights_come_back_too(tmp_path: Path) -> None:
    learner = learners()["conv4"]
    save_weights(learner, tmp_path / "model.safetensors")
    x = np.random.default_rng(0).integers(0, 256, (8, 16, 16), dtype=np.uint8)
    y = np.array([0, 0, 1, 1])
    proba = [
        each.adapt(x[:4], y).predict_proba(x[4:]) for each in (learner, load_learner(tmp_path))
    ]
    np.testing.assert_array_equal(proba[0], proba[1])


def test_what_train_writes_can_be_used_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(300, 3)), y=np.arange(300) // 20)
    words = f"train {tmp_path}/x.npz -o {tmp_path}/run --ways 2 --shots 2 --epochs 1 --episodes 2"
    result = CliRunner().invoke(app, [*words.split(), "--tasks", "5", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    learner = load_learner(tmp_path / "run")
    told = json.loads((tmp_path / "run" / "run.json").read_text())["architecture"]
    assert told["backbone"] == learner.describe()["backbone"]
    assert learner.adapt(rng.normal(size=(4, 3)), [0, 0, 1, 1]).predict_proba(
        rng.normal(size=(5, 3))
    ).shape == (5, 2)


def test_foreign_learners_are_left_to_their_makers(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(ProtoNet(nn.Linear(3, 2)), path)
    with pytest.raises(ValueError, match="holds weights of Linear, which metapac cannot build by"):
        load_learner(path)

    class Own:
        module = nn.Linear(3, 2)

    save_weights(Own(), path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"weights of Own, .* Build the learner and pass it to lo"):
        load_learner(path)

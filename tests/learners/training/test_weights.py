"""Weights fit their architecture only, and a learner is rebuilt from its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner
from torch import nn

from metapac import BadArtefact
from metapac.cli.app import app
from metapac.fewshot import MAML, MLP, Conv4, ProtoNet, ResNet12, ResNet50, SentenceCNN
from metapac.fewshot.training.checkpoints import (
    describe_architecture,
    load_learner,
    load_weights,
    save_weights,
)


def test_weights_are_loaded_into_their_architecture_only(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    trained, fresh = (ProtoNet(Conv4(channels=1, size=16, width=4, rng=rng)) for rng in (0, 1))
    trained.module.get_buffer("blocks.0.1.running_mean").fill_(0.25)
    save_weights(trained, path)
    load_weights(fresh, path)
    for name, tensor in trained.module.state_dict().items():
        assert torch.equal(tensor, fresh.module.state_dict()[name])
    before = path.read_bytes()
    save_weights(fresh, path)
    assert path.read_bytes() == before  # the same weights, the same file
    with pytest.raises(
        ValueError, match=r"made with ProtoNet\(backbone=Conv4\(.*width=4.* is ProtoNet\(.*width=8"
    ):
        load_weights(ProtoNet(Conv4(channels=1, size=16, width=8)), path)


def test_any_other_module_is_identified_by_its_layers_and_number_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(ProtoNet(nn.Linear(3, 2)), path)
    load_weights(ProtoNet(nn.Linear(3, 2)), path)
    with pytest.raises(ValueError, match=r"weights=8\), and .*out_features=3.*weights=12\)"):
        load_weights(ProtoNet(nn.Linear(3, 3)), path)
    save_weights(ProtoNet(nn.Sequential(nn.Linear(4, 5))), path)
    for other in (nn.Sequential(nn.Linear(24, 1)), nn.Sequential(nn.Linear(4, 5), nn.ReLU())):
        with pytest.raises(ValueError, match="was made with .* and this learner is"):
            load_weights(ProtoNet(other), path)


def test_damaged_and_other_files_are_rejected(tmp_path: Path) -> None:
    path, learner = tmp_path / "model.safetensors", ProtoNet(MLP(3))
    save_weights(learner, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(BadArtefact, match=r"was edited or damaged: .* Restore it from a backup"):
        load_weights(learner, path)
    path.write_bytes(whole.replace(b'schema\\": 1', b'schema\\": 9'))
    with pytest.raises(BadArtefact, match=r"has schema 9, .*Upgrade metapac"):
        load_weights(learner, path)
    safetensors.torch.save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(BadArtefact, match=r"is not a metapac weights file.* written by save_w"):
        load_weights(learner, path)


def test_a_file_without_checksum_is_read_with_a_warning(tmp_path: Path) -> None:
    # As metapac 0.1 wrote it.
    path, learner = tmp_path / "model.safetensors", ProtoNet(MLP(3, width=5, rng=1))
    document = {"format": "metapac weights", "schema": 1, "metapac": "0.1.0"}
    document["architecture"] = describe_architecture(learner)
    state = learner.module.state_dict()
    old = safetensors.torch.save(state, metadata={"metapac": json.dumps(document)})
    path.write_bytes(old)
    with pytest.warns(UserWarning, match="has no checksum, .* damage would go unnoticed"):
        again = load_learner(path)
    assert all(torch.equal(state[name], v) for name, v in again.module.state_dict().items())
    path.write_bytes(old[:-4])
    with (
        pytest.warns(UserWarning, match="has no checksum"),
        pytest.raises(BadArtefact, match=r"valid tensors .*Restore it"),
    ):
        load_learner(path)


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
def test_a_learner_is_rebuilt_from_its_file(name: str, tmp_path: Path) -> None:
    learner = learners()[name]
    save_weights(learner, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        again = load_learner(path)
        assert type(again) is type(learner)
        assert again.describe() == learner.describe()
        state = learner.module.state_dict()
        assert all(torch.equal(state[k], v) for k, v in again.module.state_dict().items())
        assert not again.module.training


def test_constants_that_are_not_weights_are_restored_too(tmp_path: Path) -> None:
    learner = learners()["conv4"]
    save_weights(learner, tmp_path / "model.safetensors")
    x = np.random.default_rng(0).integers(0, 256, (8, 16, 16), dtype=np.uint8)
    y = np.array([0, 0, 1, 1])
    proba = [
        each.adapt(x[:4], y).predict_proba(x[4:]) for each in (learner, load_learner(tmp_path))
    ]
    np.testing.assert_array_equal(proba[0], proba[1])


def test_the_folder_that_train_writes_can_be_loaded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(300, 3)), y=np.arange(300) // 20)
    words = f"train {tmp_path}/x.npz -o {tmp_path}/run --ways 2 --shots 2 --epochs 1 --episodes 2"
    result = CliRunner().invoke(app, [*words.split(), "--tasks", "5", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    learner = load_learner(tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["architecture"]
    assert stored["backbone"] == learner.describe()["backbone"]
    assert learner.adapt(rng.normal(size=(4, 3)), [0, 0, 1, 1]).predict_proba(
        rng.normal(size=(5, 3))
    ).shape == (5, 2)


def test_learners_of_other_classes_cannot_be_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(ProtoNet(nn.Linear(3, 2)), path)
    with pytest.raises(ValueError, match="holds weights of Linear, a class that metapac cannot"):
        load_learner(path)

    class Custom:
        module = nn.Linear(3, 2)

    save_weights(Custom(), path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"weights of Custom, .* Build the learner and pass it"):
        load_learner(path)

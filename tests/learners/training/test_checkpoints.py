"""Weights and checkpoints: whole or absent, damage is found, learners are rebuilt from files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from metapac import BadArtefact, fewshot
from metapac.fewshot.tensors import write_tensors
from metapac.fewshot.training import checkpoints
from metapac.fewshot.training.checkpoints import Checkpoint
from metapac.fewshot.training.loop import Epoch
from tests.helpers.training import identical, state_of

TENSORS = ("weights", "best", "optimiser")


def a_checkpoint(epochs: int) -> Checkpoint:
    learner = fewshot.ProtoNet(fewshot.MLP(3, width=4, rng=epochs))
    state, moved = state_of(learner), torch.arange(6.0).view(2, 3).T  # not contiguous, and shared
    return Checkpoint(
        architecture=checkpoints.describe_architecture(learner),
        config={"ways": 5, "rng": 0, "lr": 0.1, "class_weights": [1.0, 10.0], "patience": None},
        history=[asdict(Epoch(e, 0.1 * e, 1 / 3, 0.1, 2.0)) for e in range(1, epochs + 1)],
        weights=state,
        best={name: tensor + 1 for name, tensor in state.items()},
        optimiser={"0/step": torch.tensor(3.0), "0/exp_avg": moved, "1/exp_avg": moved},
    )


def same(one: Checkpoint | None, other: Checkpoint) -> bool:
    assert one is not None
    documents = [(each.architecture, each.config, each.history) for each in (one, other)]
    tensors = [[dict(getattr(each, part)) for part in TENSORS] for each in (one, other)]
    return documents[0] == documents[1] and all(map(identical, *tensors))


def test_a_folder_holds_one_checkpoint_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert checkpoints.read_checkpoint(folder) is None
    for epochs in (0, 1, 2):
        checkpoints.write_checkpoint(folder, a_checkpoint(epochs))
        assert same(checkpoints.read_checkpoint(folder), a_checkpoint(epochs))
    assert not same(checkpoints.read_checkpoint(folder), a_checkpoint(3))
    (path,) = folder.iterdir()
    assert "best/layers.0.weight" in safetensors.torch.load_file(path)


def test_damaged_and_other_files_are_refused(tmp_path: Path) -> None:
    learner = fewshot.ProtoNet(fewshot.MLP(3, width=4))
    checkpoint, weights = tmp_path / checkpoints.FILE, tmp_path / "model.safetensors"
    checkpoints.write_checkpoint(tmp_path, a_checkpoint(1))
    fewshot.save_weights(learner, weights)
    damaged = "was edited or damaged: .* Restore it"
    kinds: list[tuple[Path, Callable[[], Any], bytes, bytes]] = [
        (checkpoint, lambda: checkpoints.read_checkpoint(tmp_path), b'ways\\": 5', b'ways\\": 6'),
        (weights, lambda: fewshot.load_weights(learner, weights), b'width\\": 4', b'width\\": 5'),
    ]
    for path, read, before, after in kinds:
        whole = path.read_bytes()
        schema = whole.index(b'schema\\": ') + len(b'schema\\": ')
        spoilt = {
            whole[:-20]: damaged,
            whole[:-1] + bytes([whole[-1] ^ 1]): damaged,
            whole.replace(before, after): damaged,
            whole[:schema] + b"9" + whole[schema + 1 :]: "has schema 9, .*Upgrade",
            safetensors.torch.save({"a": torch.zeros(1)}): "is not a metapac",
        }
        for content, message in spoilt.items():
            assert content != whole
            path.write_bytes(content)
            with pytest.raises(BadArtefact, match=message):
                read()


def test_the_optimiser_state_has_the_memory_format_of_its_weights() -> None:
    # A GPU trains channels last, and its fused Adam accepts no other layout of its state.
    weight = nn.Parameter(torch.ones(4, 3, 2, 2).to(memory_format=torch.channels_last))
    optimiser, fresh = torch.optim.Adam([weight]), torch.optim.Adam([weight])
    weight.square().sum().backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    state = checkpoints.get_optimiser_state(optimiser)
    checkpoints.set_optimiser_state(fresh, {k: v.contiguous() for k, v in state.items()})
    for name in ("exp_avg", "exp_avg_sq"):
        assert fresh.state[weight][name].stride() == weight.stride()
        assert torch.equal(fresh.state[weight][name], optimiser.state[weight][name])


# Weights, and learners rebuilt from them.


def test_weights_are_loaded_into_their_architecture_only(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    trained, fresh = (
        fewshot.ProtoNet(fewshot.Conv4(channels=1, size=16, width=4, rng=rng)) for rng in (0, 1)
    )
    trained.module.get_buffer("blocks.0.1.running_mean").fill_(0.25)
    fewshot.save_weights(trained, path)
    fewshot.load_weights(fresh, path)
    assert identical(state_of(trained), state_of(fresh))
    before = path.read_bytes()
    fewshot.save_weights(fresh, path)
    assert path.read_bytes() == before  # the same weights, the same file
    with pytest.raises(ValueError, match=r"ProtoNet\(backbone=Conv4\(.*width=4.* is .*width=8"):
        fewshot.load_weights(fewshot.ProtoNet(fewshot.Conv4(channels=1, size=16, width=8)), path)
    # Any other module is known by its layers and its number of weights.
    fewshot.save_weights(fewshot.ProtoNet(nn.Sequential(nn.Linear(4, 5))), path)
    fewshot.load_weights(fewshot.ProtoNet(nn.Sequential(nn.Linear(4, 5))), path)
    for other in (nn.Sequential(nn.Linear(24, 1)), nn.Sequential(nn.Linear(4, 5), nn.ReLU())):
        with pytest.raises(ValueError, match="was made with .* and this learner is"):
            fewshot.load_weights(fewshot.ProtoNet(other), path)


def test_a_learner_is_rebuilt_from_its_file(tmp_path: Path) -> None:
    learners: list[Any] = [
        fewshot.ProtoNet(fewshot.MLP(3, width=5, depth=1, dropout=0.1, rng=1)),
        fewshot.ProtoNet(fewshot.ResNet12(3, rng=1)),
        fewshot.ProtoNet(fewshot.ResNet50(3, rng=1)),
        fewshot.ProtoNet(fewshot.SentenceCNN(np.eye(7, 4), tokens=6, maps=5, padding=1, rng=1)),
        fewshot.ProtoNet(fewshot.Sphere(fewshot.MLP(3, rng=1))),
        fewshot.MAML(fewshot.MLP(3, rng=1), 4, steps=2, step_size=0.5, second_order=False),
        fewshot.ProtoNet(fewshot.Conv4(1, 16, 4, mean=0.5, std=0.25, rng=1)),
    ]
    for learner in learners:
        fewshot.save_weights(learner, tmp_path / "model.safetensors")
        for path in (tmp_path, tmp_path / "model.safetensors"):
            again = fewshot.load_learner(path)
            assert type(again) is type(learner)
            assert again.describe() == learner.describe()
            assert identical(state_of(again), state_of(learner))
            assert not again.module.training
    x = np.random.default_rng(0).integers(0, 256, (8, 16, 16), dtype=np.uint8)
    proba = [each.adapt(x[:4], [0, 0, 1, 1]).predict_proba(x[4:]) for each in (learner, again)]
    np.testing.assert_array_equal(proba[0], proba[1])  # with constants that are not weights


def test_learners_that_cannot_be_rebuilt_are_refused(tmp_path: Path) -> None:
    class Custom:
        module = nn.Linear(3, 2)

    path = tmp_path / "model.safetensors"
    learners: list[Any] = [fewshot.ProtoNet(nn.Linear(3, 2)), Custom()]
    for learner, name in zip(learners, ("Linear", "Custom"), strict=True):
        fewshot.save_weights(learner, path)
        with pytest.raises(ValueError, match=f"weights of {name}, a class that .*load_weights"):
            fewshot.load_learner(path)
    good = fewshot.ProtoNet(fewshot.MLP(3, width=5, rng=0))
    forged: dict[str, Any] = {
        "cannot be built": {"colour": 1},
        "be built": {"width": "wide"},
        "has shape|cannot": {"width": 2**40},
    }
    forged |= {"fewer tensors than layers": {"depth": 10**9}, "'layers.0.bias'": {"width": 4}}
    for message, changes in forged.items():
        described = {**good.describe()["backbone"], **changes}
        architecture = {"class": "ProtoNet", "backbone": described, "weights": 1}
        tensors, body = good.module.state_dict(), {"architecture": architecture}
        write_tensors(path, tensors, body, checkpoints.WEIGHTS, framework="torch")
        with pytest.raises(BadArtefact, match=message):
            fewshot.load_learner(path)

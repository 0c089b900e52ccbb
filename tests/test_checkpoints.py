from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from metapac.learners import MLP, Conv4, ProtoNet, checkpoints, weights
from metapac.learners.checkpoints import Checkpoint
from metapac.persistence import BadArtefact


def a_checkpoint(epochs: int, learner: ProtoNet | None = None) -> Checkpoint:
    learner = learner or ProtoNet(MLP(3, width=4, rng=epochs))
    state = learner.module.state_dict()
    return Checkpoint(
        architecture=weights.architecture(learner),
        settings={"ways": 5, "lr": 0.1, "class_weights": [1.0, 10.0], "patience": None},
        history=[{"epoch": e, "loss": 0.1 * e, "accuracy": 1 / 3} for e in range(1, epochs + 1)],
        weights=state,
        best={name: tensor + 1 for name, tensor in state.items()},
        optimiser={"0/step": torch.tensor(3.0), "0/exp_avg": torch.arange(4.0)},
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    def equal(a: Any, b: Any) -> bool:
        return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)

    return (
        one.architecture == other.architecture
        and one.settings == other.settings
        and one.history == other.history
        and all(equal(getattr(one, p), getattr(other, p)) for p in ("weights", "best", "optimiser"))
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    checkpoint = a_checkpoint(2)
    checkpoints.write(tmp_path / "new" / "folder", checkpoint)
    found = checkpoints.read(tmp_path / "new" / "folder")
    assert found is not None
    assert same(found, checkpoint)
    assert not same(found, a_checkpoint(3))


def test_an_empty_folder_holds_none(tmp_path: Path) -> None:
    assert checkpoints.read(tmp_path) is None
    assert checkpoints.read(tmp_path / "not there") is None


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(7),
        torch.tensor([1.0, float("nan"), -0.0]),
        torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).bfloat16(),
        torch.arange(24.0).view(2, 3, 2, 2).to(memory_format=torch.channels_last),
        torch.arange(6.0).view(2, 3).T,
        torch.empty(0, 3),
    ],
    ids=["scalar", "nan", "bfloat16", "channels-last", "transposed", "empty"],
)
def test_every_kind_of_tensor_survives_bit_for_bit(tensor: Tensor, tmp_path: Path) -> None:
    # Twice under two names: tensors that share memory are no obstacle.
    whole = {"a": tensor, "b": tensor}
    checkpoints.write(tmp_path, Checkpoint({}, {}, [], weights=whole, best={}, optimiser={}))
    found = checkpoints.read(tmp_path)
    assert found is not None
    for name in whole:
        assert found.weights[name].dtype == tensor.dtype
        assert found.weights[name].shape == tensor.shape
        torch.testing.assert_close(
            found.weights[name], tensor.contiguous(), rtol=0, atol=0, equal_nan=True
        )


def test_the_folder_holds_one_json_and_one_safetensors_and_nothing_else(tmp_path: Path) -> None:
    for epochs in (0, 1, 2):
        checkpoints.write(tmp_path, a_checkpoint(epochs))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint.json", "epoch-00002.safetensors"]
    json.loads((tmp_path / names[0]).read_text())
    safetensors.torch.load_file(tmp_path / names[1])


class Stopped(BaseException):
    """As good as a kill: nobody catches it."""


STEPS = ("mkdir", "open", "replace", "unlink")


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("count", [1, 2])
def test_stopped_anywhere_the_old_or_the_new_one_is_whole(
    method: str, when: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = a_checkpoint(1), a_checkpoint(2)
    checkpoints.write(tmp_path, old)
    real, calls = getattr(Path, method), [0]

    def stopping(self: Path, *args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == count and when == "before":
            raise Stopped
        found = real(self, *args, **kwargs)
        if calls[0] == count and when == "after":
            if method == "open":
                found.close()
            raise Stopped
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, stopping)
        try:
            checkpoints.write(tmp_path, new)
            stopped = False
        except Stopped:
            stopped = True
    found = checkpoints.read(tmp_path)
    assert found is not None
    assert same(found, old) or same(found, new)
    if not stopped:
        assert same(found, new)
    # The next process cleans up after the dead one.
    checkpoints.write(tmp_path, a_checkpoint(3))
    assert len([path for path in tmp_path.iterdir() if not path.name.startswith(".")]) == 2


def test_half_written_files_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_checkpoint(1)
    checkpoints.write(tmp_path, old)

    def stopping(descriptor: int) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", stopping)
        with pytest.raises(Stopped):
            checkpoints.write(tmp_path, a_checkpoint(2))
    found = checkpoints.read(tmp_path)
    assert found is not None
    assert same(found, old)


def truncate_index(folder: Path) -> None:
    path = folder / "checkpoint.json"
    path.write_bytes(path.read_bytes()[:-20])


def edit_index(folder: Path) -> None:
    path = folder / "checkpoint.json"
    path.write_text(path.read_text().replace('"ways": 5', '"ways": 6'))


def foreign_index(folder: Path) -> None:
    (folder / "checkpoint.json").write_text('{"format": "other"}')


def newer_index(folder: Path) -> None:
    path = folder / "checkpoint.json"
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))


def lose_tensors(folder: Path) -> None:
    (folder / "epoch-00001.safetensors").unlink()


def damage_tensors(folder: Path) -> None:
    path = folder / "epoch-00001.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncate_index, r"checkpoint.json was edited or damaged: it is not complete JSON .*"),
        (edit_index, r"checkpoint.json was edited or damaged: its checksum does not match"),
        (foreign_index, r"checkpoint.json is not a metapac checkpoint. Choose another folder"),
        (newer_index, r"has schema 2, written by metapac .*reads schemas up to 1. Upgrade"),
        (lose_tensors, r"epoch-00001.safetensors was edited or damaged: the file is missing"),
        (damage_tensors, r"safetensors was edited or damaged: its checksum is not the one"),
    ],
)
def test_a_spoiled_checkpoint_is_refused(
    spoil: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    checkpoints.write(tmp_path, a_checkpoint(1))
    spoil(tmp_path)
    with pytest.raises(BadArtefact, match=message):
        checkpoints.read(tmp_path)


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    stored = a_checkpoint(1)
    with pytest.raises(
        ValueError,
        match=r"run was made with ProtoNet\(backbone=MLP\(inputs=3, width=4, .* and this learner "
        r"is ProtoNet\(backbone=Conv4\(channels=1, size=16, .*Build the learner that it was made",
    ):
        checkpoints.refuse_other(
            "run", stored, ProtoNet(Conv4(channels=1, size=16)), stored.settings, epochs=1
        )


def test_other_settings_are_refused_by_name_and_value() -> None:
    learner = ProtoNet(MLP(3, width=4))
    stored = a_checkpoint(2, learner)
    checkpoints.refuse_other("run", stored, learner, stored.settings, epochs=2)
    asked = {**stored.settings, "ways": 20, "patience": 3}
    with pytest.raises(
        ValueError,
        match=r"run was made with ways=5, patience=None, and this call has ways=20, patience=3\. A "
        r"run goes on only with the arguments it began with",
    ):
        checkpoints.refuse_other("run", stored, learner, asked, epochs=2)
    with pytest.raises(ValueError, match=r"run holds 2 epochs and epochs=1 asks for fewer"):
        checkpoints.refuse_other("run", stored, learner, stored.settings, epochs=1)


def test_adam_goes_on_as_if_never_stopped() -> None:
    def optimiser_of(weight: nn.Parameter) -> torch.optim.Adam:
        return torch.optim.Adam([weight], 0.1)

    def step(weight: nn.Parameter, optimiser: torch.optim.Adam) -> None:
        optimiser.zero_grad()
        weight.square().sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    one = nn.Parameter(torch.tensor([1.0, -2.0]))
    first = optimiser_of(one)
    step(one, first)
    other = nn.Parameter(one.detach().clone())
    second = optimiser_of(other)
    checkpoints.set_optimiser(second, checkpoints.optimiser_tensors(first))
    fresh = nn.Parameter(one.detach().clone())
    for weight, optimiser in ((one, first), (other, second), (fresh, optimiser_of(fresh))):
        step(weight, optimiser)
    assert torch.equal(one, other)
    assert not torch.equal(one, fresh)


def test_weights_come_back_into_their_own_architecture_only(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    trained, fresh = (ProtoNet(Conv4(channels=1, size=16, width=4, rng=rng)) for rng in (0, 1))
    trained.module.get_buffer("blocks.0.1.running_mean").fill_(0.25)
    weights.save_weights(trained, path)
    weights.load_weights(fresh, path)
    for name, tensor in trained.module.state_dict().items():
        assert torch.equal(tensor, fresh.module.state_dict()[name])
    before = path.read_bytes()
    weights.save_weights(fresh, path)
    assert path.read_bytes() == before  # the same weights, the same file
    with pytest.raises(
        ValueError, match=r"made with ProtoNet\(backbone=Conv4\(.*width=4.* is ProtoNet\(.*width=8"
    ):
        weights.load_weights(ProtoNet(Conv4(channels=1, size=16, width=8)), path)


def test_a_foreign_module_is_known_by_its_layers_and_its_number_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weights.save_weights(ProtoNet(nn.Linear(3, 2)), path)
    weights.load_weights(ProtoNet(nn.Linear(3, 2)), path)
    with pytest.raises(ValueError, match=r"weights=8\), and .*out_features=3.*weights=12\)"):
        weights.load_weights(ProtoNet(nn.Linear(3, 3)), path)
    weights.save_weights(ProtoNet(nn.Sequential(nn.Linear(4, 5))), path)
    for other in (nn.Sequential(nn.Linear(24, 1)), nn.Sequential(nn.Linear(4, 5), nn.ReLU())):
        with pytest.raises(ValueError, match="was made with .* and this learner is"):
            weights.load_weights(ProtoNet(other), path)


def test_files_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    path, learner = tmp_path / "model.safetensors", ProtoNet(MLP(3))
    weights.save_weights(learner, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(BadArtefact, match=r"is not a complete safetensors file .*truncated"):
        weights.load_weights(learner, path)
    path.write_bytes(whole.replace(b'schema\\": 1', b'schema\\": 9'))
    with pytest.raises(BadArtefact, match=r"has schema 9, .*Upgrade metapac"):
        weights.load_weights(learner, path)
    safetensors.torch.save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(BadArtefact, match=r"holds no metapac weights\. Pass a file that save_w"):
        weights.load_weights(learner, path)


def test_the_optimiser_is_laid_out_like_its_weights() -> None:
    # A GPU trains channels last, and its fused Adam refuses any other layout of its state.
    weight = torch.nn.Parameter(torch.ones(4, 3, 2, 2).to(memory_format=torch.channels_last))
    optimiser = torch.optim.Adam([weight])
    weight.square().sum().backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    kept = {
        name: value.contiguous() for name, value in checkpoints.optimiser_tensors(optimiser).items()
    }
    fresh = torch.optim.Adam([weight])
    checkpoints.set_optimiser(fresh, kept)
    for name in ("exp_avg", "exp_avg_sq"):
        found = fresh.state[weight][name]
        assert found.stride() == weight.stride()
        assert torch.equal(found, optimiser.state[weight][name])

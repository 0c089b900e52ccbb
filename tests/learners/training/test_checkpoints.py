"""A checkpoint is always complete or absent, and damage is detected."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from metapac import BadArtefact
from metapac.fewshot import MLP, Conv4, ProtoNet
from metapac.fewshot.training import checkpoints
from metapac.fewshot.training.checkpoints import Checkpoint
from metapac.fewshot.training.history import Epoch


def a_checkpoint(epochs: int, learner: ProtoNet | None = None) -> Checkpoint:
    learner = learner or ProtoNet(MLP(3, width=4, rng=epochs))
    state = learner.module.state_dict()
    return Checkpoint(
        architecture=checkpoints.describe_architecture(learner),
        config={"ways": 5, "rng": 0, "lr": 0.1, "class_weights": [1.0, 10.0], "patience": None},
        history=[asdict(Epoch(e, 0.1 * e, 1 / 3, 0.1, 2.0)) for e in range(1, epochs + 1)],
        weights=state,
        best={name: tensor + 1 for name, tensor in state.items()},
        optimiser={"0/step": torch.tensor(3.0), "0/exp_avg": torch.arange(4.0)},
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    def equal(a: Any, b: Any) -> bool:
        return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)

    return (
        one.architecture == other.architecture
        and one.config == other.config
        and one.history == other.history
        and all(equal(getattr(one, p), getattr(other, p)) for p in ("weights", "best", "optimiser"))
    )


def test_a_checkpoint_survives_writing_and_reading(tmp_path: Path) -> None:
    checkpoint = a_checkpoint(2)
    checkpoints.write_checkpoint(tmp_path / "new" / "folder", checkpoint)
    stored = checkpoints.read_checkpoint(tmp_path / "new" / "folder")
    assert stored is not None
    assert same(stored, checkpoint)
    assert not same(stored, a_checkpoint(3))


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoints.read_checkpoint(tmp_path) is None
    assert checkpoints.read_checkpoint(tmp_path / "not there") is None


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
    # Twice under two names, since tensors may share memory.
    whole = {"a": tensor, "b": tensor}
    architecture = {"class": "Other", "weights": 1}
    written = Checkpoint(architecture, {"rng": 0}, [], weights=whole, best={}, optimiser={})
    checkpoints.write_checkpoint(tmp_path, written)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    for name in whole:
        assert stored.weights[name].dtype == tensor.dtype
        assert stored.weights[name].shape == tensor.shape
        torch.testing.assert_close(
            stored.weights[name], tensor.contiguous(), rtol=0, atol=0, equal_nan=True
        )


def test_the_folder_holds_one_safetensors_file_and_nothing_else(tmp_path: Path) -> None:
    for epochs in (0, 1, 2):
        checkpoints.write_checkpoint(tmp_path, a_checkpoint(epochs))
    (path,) = tmp_path.iterdir()
    assert path.name == "checkpoint.safetensors"
    assert "best/layers.0.weight" in safetensors.torch.load_file(path)


class Stopped(BaseException):
    """Stands for a kill: no code catches it."""


STEPS = ("mkdir", "open", "replace", "unlink")


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("count", [1, 2])
def test_stopped_anywhere_the_old_or_the_new_checkpoint_is_complete(
    method: str, when: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = a_checkpoint(1), a_checkpoint(2)
    checkpoints.write_checkpoint(tmp_path, old)
    real, calls = getattr(Path, method), [0]

    def stopping(self: Path, *args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == count and when == "before":
            raise Stopped
        result = real(self, *args, **kwargs)
        if calls[0] == count and when == "after":
            if method == "open":
                result.close()
            raise Stopped
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, stopping)
        try:
            checkpoints.write_checkpoint(tmp_path, new)
            stopped = False
        except Stopped:
            stopped = True
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    assert same(stored, old) or same(stored, new)
    if not stopped:
        assert same(stored, new)
    # The next process deletes what this one has left.
    checkpoints.write_checkpoint(tmp_path, a_checkpoint(3))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def test_half_written_files_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_checkpoint(1)
    checkpoints.write_checkpoint(tmp_path, old)

    def stopping(descriptor: int) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", stopping)
        with pytest.raises(Stopped):
            checkpoints.write_checkpoint(tmp_path, a_checkpoint(2))
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    assert same(stored, old)


def test_only_leftovers_of_checkpoints_are_cleared(tmp_path: Path) -> None:
    leftover = tmp_path / f".{checkpoints.FILE}.0123456789abcdef.partial"
    others = [tmp_path / ".thesis.pdf.partial", tmp_path / ".promise.json.0123.partial"]
    for path in (leftover, *others):
        path.mkdir()
        (path / "content").write_text("half")
    checkpoints.write_checkpoint(tmp_path, a_checkpoint(1))
    assert not leftover.exists()
    assert all(path.exists() for path in others)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip_last_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def edit_config(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'ways\\": 5', b'ways\\": 6'))


def raise_schema(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'schema\\": 2', b'schema\\": 3'))


def write_other_tensors(path: Path) -> None:
    safetensors.torch.save_file({"a": torch.zeros(1)}, path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncate, r"checkpoint.safetensors was edited or damaged: its checksum does not match"),
        (flip_last_bit, r"was edited or damaged: .* Restore it .* or choose another folder"),
        (edit_config, r"was edited or damaged: its checksum does not match its content"),
        (raise_schema, r"has schema 3, .*Upgrade"),
        (write_other_tensors, r"checkpoint.safetensors is not a metapac checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_rejected(
    spoil: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    checkpoints.write_checkpoint(tmp_path, a_checkpoint(1))
    path = tmp_path / "checkpoint.safetensors"
    before = path.read_bytes()
    spoil(path)
    assert path.read_bytes() != before
    with pytest.raises(BadArtefact, match=message):
        checkpoints.read_checkpoint(tmp_path)


def test_a_checkpoint_of_the_first_version_is_rejected_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").write_text('{"format": "metapac checkpoint", "schema": 1}')
    with pytest.raises(BadArtefact, match=r"checkpoint of metapac 0\.1.* Choose another folder"):
        checkpoints.read_checkpoint(tmp_path)


def test_another_architecture_is_rejected_by_name(tmp_path: Path) -> None:
    stored = a_checkpoint(1)
    with pytest.raises(
        ValueError,
        match=r"run was made with ProtoNet\(backbone=MLP\(inputs=3, width=4, .* and this learner "
        r"is ProtoNet\(backbone=Conv4\(channels=1, size=16, .*Build the learner that it was made",
    ):
        checkpoints.check_same_run(
            "run", stored, ProtoNet(Conv4(channels=1, size=16)), stored.config, epochs=1
        )


def test_another_configuration_is_rejected_by_name_and_value() -> None:
    learner = ProtoNet(MLP(3, width=4))
    stored = a_checkpoint(2, learner)
    checkpoints.check_same_run("run", stored, learner, stored.config, epochs=2)
    asked = {**stored.config, "ways": 20, "patience": 3}
    with pytest.raises(
        ValueError,
        match=r"run was made with ways=5, patience=None, and this call has ways=20, patience=3\. A "
        r"run can only be resumed with the arguments it was started with",
    ):
        checkpoints.check_same_run("run", stored, learner, asked, epochs=2)
    with pytest.raises(ValueError, match=r"run already holds 2 epochs, more than epochs=1\. Pass"):
        checkpoints.check_same_run("run", stored, learner, stored.config, epochs=1)


def test_adam_continues_as_if_never_stopped() -> None:
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
    checkpoints.set_optimiser_state(second, checkpoints.get_optimiser_state(first))
    fresh = nn.Parameter(one.detach().clone())
    for weight, optimiser in ((one, first), (other, second), (fresh, optimiser_of(fresh))):
        step(weight, optimiser)
    assert torch.equal(one, other)
    assert not torch.equal(one, fresh)


def test_the_optimiser_state_has_the_memory_format_of_its_weights() -> None:
    # A GPU trains channels last, and its fused Adam accepts no other layout of its state.
    weight = torch.nn.Parameter(torch.ones(4, 3, 2, 2).to(memory_format=torch.channels_last))
    optimiser = torch.optim.Adam([weight])
    weight.square().sum().backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    state = checkpoints.get_optimiser_state(optimiser)
    stored = {name: value.contiguous() for name, value in state.items()}
    fresh = torch.optim.Adam([weight])
    checkpoints.set_optimiser_state(fresh, stored)
    for name in ("exp_avg", "exp_avg_sq"):
        stored = fresh.state[weight][name]
        assert stored.stride() == weight.stride()
        assert torch.equal(stored, optimiser.state[weight][name])

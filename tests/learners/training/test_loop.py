"""Resuming a training run after interruptions and kills."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from metapac import InvalidInput
from metapac.fewshot import MAML, MLP, ClassPool, ProtoNet, accuracy, train
from metapac.fewshot.training import checkpoints, loop
from metapac.fewshot.training.history import Epoch
from metapac.fewshot.training.loop import Ranks, lock_run, seeded_torch
from tests.helpers.training import (
    SMALL,
    TRAIN,
    VALIDATION,
    class_pool,
    identical,
    run_python,
    small_learner,
    state_of,
    without_seconds,
)

pytestmark = pytest.mark.usefixtures("one_thread")


class Interrupted(Exception):
    pass


def interrupt_after(after: int) -> Callable[[Epoch], None]:
    def on_epoch(epoch: Epoch) -> None:
        if epoch.epoch == after:
            raise Interrupted

    return on_epoch


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_an_interrupted_run_ends_with_the_same_weights(after: int, tmp_path: Path) -> None:
    whole, parts = small_learner(), small_learner()
    straight = train(whole, TRAIN, VALIDATION, **SMALL)
    with pytest.raises(Interrupted):
        train(
            parts, TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path, on_epoch=interrupt_after(after)
        )
    # The new process starts with other weights, which the checkpoint replaces.
    fresh = ProtoNet(MLP(8, width=6, dropout=0.3, rng=99))
    resumed = train(fresh, TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    assert identical(state_of(fresh), state_of(whole))
    assert without_seconds(resumed) == without_seconds(straight)


def test_a_checkpoint_does_not_change_the_result(tmp_path: Path) -> None:
    with_it, without = small_learner(), small_learner()
    train(with_it, TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    train(without, TRAIN, VALIDATION, **SMALL)
    assert identical(state_of(with_it), state_of(without))


def test_more_epochs_extend_a_run(tmp_path: Path) -> None:
    whole, parts = small_learner(), small_learner()
    train(whole, TRAIN, VALIDATION, **SMALL)
    for epochs in (1, 3, 4):
        train(parts, TRAIN, VALIDATION, **{**SMALL, "epochs": epochs}, checkpoint=tmp_path)
    assert identical(state_of(whole), state_of(parts))


def test_a_run_without_a_seed_resumes_with_its_seed(tmp_path: Path) -> None:
    for epochs in (1, 2):
        train(
            small_learner(),
            TRAIN,
            VALIDATION,
            **{**SMALL, "epochs": epochs},
            checkpoint=tmp_path,
            rng=None,
        )
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    whole = small_learner()
    train(whole, TRAIN, VALIDATION, **{**SMALL, "epochs": 2}, rng=stored.config["rng"])
    assert identical(state_of(whole), dict(stored.best))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"lr": 0.5},
            r"was made with lr=0\.01, and this call has lr=0\.5\. A run can only be",
        ),
        ({"rng": 7, "shots": 2}, r"made with shots=5, rng=0, and this call has shots=2, rng=7\."),
        ({"class_weights": [1, 2, 3, 4, 5]}, r"class_weights=None, and .*=\[1\.0, 2\.0, 3\.0"),
        ({"epochs": 1}, r"already holds 4 epochs, more than epochs=1\. Pass at least epochs=4"),
    ],
)
def test_a_run_is_resumed_only_with_the_same_arguments(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    train(small_learner(), TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    with pytest.raises(ValueError, match=message):
        train(small_learner(), TRAIN, VALIDATION, **{**SMALL, **options}, checkpoint=tmp_path)


def test_a_run_is_resumed_only_with_the_same_learner_and_data(tmp_path: Path) -> None:
    train(small_learner(), TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"made with ProtoNet\(.*width=6.* learner is MAML\(.*st"):
        train(MAML(MLP(8, width=6), 5), TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    with pytest.raises(
        ValueError, match=r"made with train_pool=.*20 classes.* has train_pool=.*21"
    ):
        train(small_learner(), class_pool(21, 0), VALIDATION, **SMALL, checkpoint=tmp_path)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_numpy_numbers_are_stored_as_plain_numbers(tmp_path: Path) -> None:
    options = {**SMALL, "shots": np.int64(5), "lr": np.float32(0.01), "rng": np.int64(0)}
    options["class_weights"] = np.ones(5, dtype=np.float32)
    train(small_learner(), TRAIN, VALIDATION, **options, checkpoint=tmp_path)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    assert stored.config["shots"] == 5
    assert stored.config["class_weights"] == [1.0] * 5


def test_a_diverging_run_raises_and_leaves_its_checkpoint_intact(tmp_path: Path) -> None:
    pool = ClassPool(np.full_like(TRAIN.x, np.nan), TRAIN.y)
    with pytest.raises(
        ValueError,
        match=r"loss became nan in epoch 1 at learning rate 0\.01: .* smaller lr",
    ):
        train(small_learner(), pool, VALIDATION, **SMALL, checkpoint=tmp_path)
    stored = checkpoints.read_checkpoint(tmp_path)
    assert stored is not None
    assert not stored.history


@pytest.mark.parametrize("mode", [True, False])
def test_the_mode_of_the_module_is_restored(mode: bool) -> None:
    learner = small_learner()
    learner.module.train(mode)
    train(learner, TRAIN, VALIDATION, **{**SMALL, "epochs": 1})
    assert learner.module.training == mode
    accuracy(learner, VALIDATION, tasks=2)
    assert learner.module.training == mode


def test_seeded_torch_depends_on_the_seed_and_restores_the_generator() -> None:
    before = torch.get_rng_state()
    draws = []
    for seed in (1, 1, 2):
        with seeded_torch(seed, torch.device("cpu")):
            draws.append(float(torch.rand(())))
    assert draws[0] == draws[1] != draws[2]
    assert torch.equal(torch.get_rng_state(), before)


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from metapac.fewshot.training.loop import Trainer
from tests.learners.training.test_loop import *

def kill_at(function, call, before):
    calls = [0]
    def wrapper(*args, **kwargs):
        calls[0] += 1
        if calls[0] == call:
            before(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return wrapper

def truncate(descriptor):
    os.truncate(f"/proc/self/fd/{descriptor}", os.fstat(descriptor).st_size // 2)

folder = Path(sys.argv[1])
for owner, name, call in [
    (os, "fsync", 1),         # the very first checkpoint is half written
    (Trainer, "_step", 2),    # in the middle of epoch 1
    (os, "fsync", 1),         # the checkpoint of epoch 1 is half written
    (shutil, "rmtree", 1),    # what the killed process left is about to be deleted
    (Path, "replace", 1),     # the checkpoint of epoch 1 is written, but not yet in its place
    (Trainer, "save", 2),     # epoch 1 is saved, epoch 2 is trained and not saved
    (Path, "replace", 2),     # epoch 2 is saved, the checkpoint of epoch 3 not yet in its place
    (Trainer, "_step", 5),    # in the middle of epoch 4
]:
    child = os.fork()
    if not child:
        before = truncate if name == "fsync" else lambda *args: None
        setattr(owner, name, kill_at(getattr(owner, name), call, before))
        killed_run(folder)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    stored = checkpoints.read_checkpoint(folder)
    print(os.WTERMSIG(status), None if stored is None else len(stored.history))
"""


def killed_run(folder: Path | None) -> dict[str, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2)]
        learner = ProtoNet(nn.Sequential(*layers))
    train(learner, TRAIN, VALIDATION, **{**SMALL, "epochs": 5}, checkpoint=folder)
    return state_of(learner)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="kills processes as on Linux")
def test_killed_at_eight_points_the_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    killed = run_python("-c", KILLED, str(tmp_path / "run"))
    lines = [line.split() for line in killed.splitlines()]
    assert [line[0] for line in lines] == [str(int(signal.SIGKILL))] * 8
    assert [line[1] for line in lines] == ["None", "0", "0", "0", "0", "1", "2", "3"]
    assert identical(killed_run(tmp_path / "run"), killed_run(None))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint.safetensors"]


def test_only_the_first_process_locks_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = []

    def lock(folder: Path, command: str) -> AbstractContextManager[None]:
        locked.append((folder, command))
        return nullcontext()

    monkeypatch.setattr(loop, "lock_folder", lock)
    for folder, rank in ((tmp_path, 0), (tmp_path, 1), (None, 0)):
        with lock_run(folder, Ranks(rank, 2)):
            pass
    assert locked == [(tmp_path, "metapac train")]


@pytest.mark.parametrize("make", [ProtoNet, lambda backbone: MAML(backbone, 5)])
def test_a_backbone_that_takes_floats_says_so_of_bytes(make: Callable[..., Any]) -> None:
    backbone = nn.Linear(8, 4)
    backbone.features = 4  # type: ignore[assignment]
    pool = ClassPool((8 * np.abs(TRAIN.x)).astype(np.uint8), TRAIN.y)
    with pytest.raises(InvalidInput, match=r"takes floats, and the examples are uint8\. Begin its"):
        train(make(backbone), pool, pool, **SMALL)


class Failing(nn.Linear):
    """A backbone that takes bytes, and fails on batches of at least this size."""

    def __init__(self, error: Exception, at_least: int) -> None:
        super().__init__(8, 4)
        self.error, self.at_least = error, at_least

    def forward(self, x: Tensor) -> Tensor:
        if len(x) >= self.at_least:
            raise self.error
        return super().forward(x.float())


BYTES = ClassPool((8 * np.abs(TRAIN.x)).astype(np.uint8), TRAIN.y)


@pytest.mark.parametrize("error", [RuntimeError, torch.OutOfMemoryError])
def test_a_fault_of_large_batches_is_not_blamed_on_the_type(error: type[Exception]) -> None:
    episode = 5 * (5 + 15)  # examples; a step has four times as many
    learner = ProtoNet(Failing(error("too much"), episode + 1))
    with pytest.raises(error, match="too much"):
        train(learner, BYTES, BYTES, **SMALL)


def test_a_lack_of_memory_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_check_episode", pytest.fail)
    with pytest.raises(torch.OutOfMemoryError, match="too much"):
        train(ProtoNet(Failing(torch.OutOfMemoryError("too much"), 0)), BYTES, BYTES, **SMALL)


def test_if_the_search_for_the_cause_fails_the_first_error_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*parts: Any) -> None:
        raise RuntimeError("device-side assert")

    monkeypatch.setattr(loop, "_check_episode", fail)
    with pytest.raises(RuntimeError, match="too much"):
        train(ProtoNet(Failing(RuntimeError("too much"), 0)), BYTES, BYTES, **SMALL)


def test_other_faults_keep_the_words_of_torch() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        train(ProtoNet(nn.Linear(7, 4)), TRAIN, VALIDATION, **SMALL)

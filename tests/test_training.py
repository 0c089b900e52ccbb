"""The training loop against a slow one, its resumption after kills, and two processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from metapac.learners import MAML, MLP, Conv4, ProtoNet, SklearnLearner, checkpoints
from metapac.learners.course import Epoch, History, Settings
from metapac.learners.episodes import EpisodeSampler
from metapac.learners.run import Run
from metapac.learners.training import accuracy, train
from metapac.tasks.pools import ClassPool, GroupPool

TESTS = Path(__file__).parent
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The order of sums, hence the last bit, depends on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def class_pool(classes: int, seed: int, per_class: int = 20) -> ClassPool:
    """Rows of 8 numbers: two tell the class, six are noise that is three times as large."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.normal(size=(classes, 2)), per_class, axis=0)
    signal = centres + 0.2 * rng.normal(size=centres.shape)
    noise = 3 * rng.normal(size=(len(centres), 6))
    x = np.concatenate([signal, noise], axis=1)
    return ClassPool(x, np.repeat(np.arange(classes), per_class))


def group_pool(groups: int, seed: int, size: int = 30) -> GroupPool:
    """Tables of 4 columns with a rare label 1 that moves the first column, by group."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(groups * size, 4)), (rng.random(groups * size) < 0.15).astype(int)
    x[:, 0] += 2 * y
    return GroupPool(x, y, np.repeat(np.arange(groups), size), classes=2)


TRAIN, VALIDATION = class_pool(20, 0), class_pool(8, 1)
SMALL: dict[str, Any] = {"epochs": 4, "episodes_per_epoch": 12, "episodes_per_step": 4}
SMALL |= {"validation_tasks": 10, "lr": 0.01, "device": "cpu"}


def small_learner(dropout: float = 0.3) -> ProtoNet:
    return ProtoNet(MLP(8, width=6, dropout=dropout, rng=0))


def state_of(learner: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learner.module.state_dict().items()}


def identical(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_seconds(history: History) -> list[Epoch]:
    return [replace(epoch, seconds=0.0) for epoch in history.epochs]


def plain_loop(learner: ProtoNet, epochs: int, step: int, **course: Any) -> tuple[Any, list[float]]:
    """Adam on one episode after another; tasks validated one by one through ``adapt``."""
    given_settings = Settings(**course)
    samplers = [
        EpisodeSampler(pool, "cpu", ways=3, shots=2, queries=4) for pool in (TRAIN, VALIDATION)
    ]
    optimiser = torch.optim.Adam(learner.module.parameters())
    accuracies: list[float] = []
    best: dict[str, Tensor] = {}
    for epoch in range(1, epochs + 1):
        for group in optimiser.param_groups:
            group["lr"] = course["lr"] / 2 ** ((epoch - 1) // course["halve_every"])
        count = course["episodes_per_epoch"]
        episodes = samplers[0].gather(samplers[0].draw(count, given_settings.episodes_seed(epoch)))
        learner.module.train()
        for first in range(0, count, step):
            optimiser.zero_grad()
            for i in range(first, first + step):
                z = learner.module(episodes.support_x[i])
                prototypes = torch.stack([z[2 * way : 2 * way + 2].mean(0) for way in range(3)])
                logits = -(torch.cdist(learner.module(episodes.query_x[i]), prototypes) ** 2)
                loss = cross_entropy(logits, episodes.query_y[i]) / step
                loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        tasks = samplers[1].gather(samplers[1].draw(10, given_settings.validation_seed()))
        right = 0
        for support_x, support_y, query_x, query_y in zip(*tasks[:-1], strict=True):
            found = learner.adapt(support_x, support_y).predict_proba(query_x).argmax(1)
            right += int((found == query_y.numpy()).sum())
        accuracies.append(right / (10 * 12))
        if accuracies[-1] > max([-1.0, *accuracies[:-1]]):
            best = state_of(learner)
    return best, accuracies


def test_training_is_the_plain_loop_made_fast() -> None:
    course: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 4, "episodes_per_epoch": 12}
    course |= {"lr": 0.02, "halve_every": 2, "validation_tasks": 10}
    learner, other = small_learner(dropout=0), small_learner(dropout=0)
    history = train(
        learner, TRAIN, VALIDATION, epochs=5, episodes_per_step=4, rng=3, device="cpu", **course
    )
    course |= {"episodes_per_step": 4, "rng": 3, "class_weights": None, "patience": None}
    best, accuracies = plain_loop(
        other, epochs=5, step=4, train_pool="", validation_pool="", **course
    )
    assert [epoch.lr for epoch in history.epochs] == [0.02, 0.02, 0.01, 0.01, 0.005]
    assert [epoch.accuracy for epoch in history.epochs] == pytest.approx(accuracies, abs=1e-12)
    for name, tensor in learner.module.state_dict().items():
        torch.testing.assert_close(tensor, best[name], rtol=1e-4, atol=1e-5)


def test_the_rate_is_halved_every_so_many_epochs() -> None:
    names = dict.fromkeys(Settings.__dataclass_fields__, 1)
    given_settings = Settings(**{**names, "lr": 0.4, "halve_every": 3, "class_weights": None})  # type: ignore[arg-type]
    rates = [given_settings.lr_at(epoch) for epoch in range(1, 8)]
    assert rates == [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1]


def test_no_two_draws_of_a_run_share_a_seed() -> None:
    names = dict.fromkeys(Settings.__dataclass_fields__, 1)
    seeds = []
    for rng in (0, 1):
        course = Settings(**{**names, "class_weights": None, "rng": rng})  # type: ignore[arg-type]
        seeds.append(course.validation_seed())
        for epoch in range(1, 30):
            seeds.append(course.episodes_seed(epoch))
            seeds.extend(course.dropout_seed(epoch, rank) for rank in range(3))
    assert len(set(seeds)) == len(seeds) == 2 * (1 + 29 * 4)


def scripted(
    accuracies: list[float], monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[History, dict[str, Tensor], list[dict[str, Tensor]]]:
    """Train with given validation results; return also the weights after each epoch."""
    results, seen = iter(accuracies), []
    monkeypatch.setattr(Run, "_accuracy", lambda self: next(results))
    learner = small_learner()
    history = train(
        learner,
        TRAIN,
        VALIDATION,
        **{**SMALL, "epochs": len(accuracies), **options},
        progress=lambda epoch: seen.append(state_of(learner)),
    )
    return history, state_of(learner), seen


@pytest.mark.parametrize(
    ("accuracies", "best"),
    [([0.5, 0.9, 0.7], 2), ([0.5, 0.9, 0.9], 2), ([0.3, 0.2], 1), ([0.1, 0.2, 0.3], 3)],
)
def test_the_best_weights_are_kept_the_earlier_of_equals(
    accuracies: list[float], best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, final, seen = scripted(accuracies, monkeypatch)
    assert history.best.epoch == best
    assert [identical(final, state) for state in seen] == [
        epoch.epoch == best for epoch in history.epochs
    ]


def test_patience_ends_a_run_that_brings_nothing_better(monkeypatch: pytest.MonkeyPatch) -> None:
    history, _, _ = scripted([0.5, 0.4, 0.6, 0.6, 0.1, 0.9], monkeypatch, patience=2)
    assert [epoch.accuracy for epoch in history.epochs] == [0.5, 0.4, 0.6, 0.6, 0.1]


def test_a_stopped_run_stays_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options: dict[str, Any] = {"patience": 1, "checkpoint": tmp_path}
    history, final, _ = scripted([0.5, 0.4, 0.9], monkeypatch, **options)
    again, same, seen = scripted([0.9, 0.9, 0.9], monkeypatch, **options)
    assert again == history
    assert not seen
    assert identical(final, same)


def test_training_depends_on_rng_and_on_nothing_global() -> None:
    found = []
    for seed, noise in ((1, 0), (1, 1), (2, 0)):
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        learner = small_learner()
        history = train(learner, TRAIN, VALIDATION, rng=seed, **SMALL)
        assert torch.equal(torch.get_rng_state(), before)
        found.append((state_of(learner), without_seconds(history)))
    assert identical(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert not identical(found[0][0], found[2][0])


@pytest.mark.parametrize("mode", [True, False])
def test_the_module_comes_back_in_its_mode(mode: bool) -> None:
    learner = small_learner()
    learner.module.train(mode)
    train(learner, TRAIN, VALIDATION, **{**SMALL, "epochs": 1})
    assert learner.module.training == mode
    accuracy(learner, VALIDATION, tasks=2)
    assert learner.module.training == mode


def test_an_epoch_is_rounded_up_to_whole_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    step = Run._step

    def counting(self: Run, episodes: Any) -> Tensor:
        sizes.append(len(episodes.support_y))
        return step(self, episodes)

    monkeypatch.setattr(Run, "_step", counting)
    options = {**SMALL, "epochs": 1, "episodes_per_epoch": 9, "episodes_per_step": 4}
    train(small_learner(), TRAIN, VALIDATION, **options)
    assert sizes == [4, 4, 4]


@pytest.mark.parametrize("rng", [0, 1, 2])
def test_seconds_of_training_beat_chance_by_half(rng: int) -> None:
    # 5 labels: chance is 0.2, and what was not trained is lost in the noise columns.
    learner, unseen = ProtoNet(MLP(8, width=32, dropout=0, rng=rng)), class_pool(40, 7)
    assert accuracy(learner, unseen, tasks=200) < 0.35
    options: dict[str, Any] = {"epochs": 12, "episodes_per_epoch": 80, "validation_tasks": 50}
    history = train(
        learner, class_pool(60, 8), class_pool(20, 9), lr=5e-3, rng=rng, device="cpu", **options
    )
    assert history.best.accuracy > 0.7
    assert accuracy(learner, unseen, tasks=200) > 0.7


def test_accuracy_is_that_of_tasks_scored_one_by_one() -> None:
    learner, pool = small_learner(), VALIDATION
    sampler = EpisodeSampler(pool, "cpu", ways=4, shots=1, queries=3)
    tasks = sampler.gather(sampler.draw(11, 6))
    right = sum(
        int((learner.adapt(sx, sy).predict_proba(qx).argmax(1) == qy.numpy()).sum())
        for sx, sy, qx, qy in zip(*tasks[:-1], strict=True)
    )
    found = accuracy(learner, pool, ways=4, shots=1, queries=3, tasks=11, rng=6)
    assert found == pytest.approx(right / (11 * 12))


def test_groups_with_absent_labels_train_to_finite_weights() -> None:
    # 3 examples of a rare label: most support sets hold none of it.
    learner = ProtoNet(MLP(4, width=6, rng=0))
    options: dict[str, Any] = {"shots": 3, "queries": 6, "class_weights": [1, 10]}
    history = train(learner, group_pool(12, 0), group_pool(5, 1), **SMALL, **options)
    assert all(math.isfinite(epoch.loss) for epoch in history.epochs)
    assert all(tensor.isfinite().all() for tensor in learner.module.state_dict().values())


def test_class_weights_change_what_is_learned() -> None:
    found = []
    for class_weights in (None, [1.0, 1.0], [1.0, 10.0]):
        learner = ProtoNet(MLP(4, width=6, rng=0))
        options: dict[str, Any] = {"shots": 10, "queries": 10, "class_weights": class_weights}
        train(learner, group_pool(12, 0), group_pool(5, 1), **SMALL, **options)
        found.append(state_of(learner))
    assert identical(found[0], found[1])
    assert not identical(found[0], found[2])


def test_maml_trains_by_the_same_loop() -> None:
    learner = MAML(MLP(8, width=6, rng=0), classes=5, steps=2, step_size=0.1)
    before = state_of(learner)
    history = train(learner, TRAIN, VALIDATION, **SMALL)
    assert math.isfinite(history.epochs[-1].loss)
    assert not identical(before, state_of(learner))


class Interrupted(Exception):
    pass


def interrupting(after: int) -> Callable[[Epoch], None]:
    def progress(epoch: Epoch) -> None:
        if epoch.epoch == after:
            raise Interrupted

    return progress


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_an_interrupted_run_ends_with_the_same_weights(after: int, tmp_path: Path) -> None:
    whole, parts = small_learner(), small_learner()
    straight = train(whole, TRAIN, VALIDATION, **SMALL)
    with pytest.raises(Interrupted):
        train(parts, TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path, progress=interrupting(after))
    # The new process has a learner with other weights: those of the checkpoint count.
    fresh = ProtoNet(MLP(8, width=6, dropout=0.3, rng=99))
    resumed = train(fresh, TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    assert identical(state_of(fresh), state_of(whole))
    assert without_seconds(resumed) == without_seconds(straight)


def test_a_checkpoint_does_not_change_the_course(tmp_path: Path) -> None:
    with_it, without = small_learner(), small_learner()
    train(with_it, TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    train(without, TRAIN, VALIDATION, **SMALL)
    assert identical(state_of(with_it), state_of(without))


def test_more_epochs_prolong_a_run(tmp_path: Path) -> None:
    whole, parts = small_learner(), small_learner()
    train(whole, TRAIN, VALIDATION, **SMALL)
    for epochs in (1, 3, 4):
        train(parts, TRAIN, VALIDATION, **{**SMALL, "epochs": epochs}, checkpoint=tmp_path)
    assert identical(state_of(whole), state_of(parts))


def test_a_run_without_a_seed_goes_on_with_its_own(tmp_path: Path) -> None:
    for epochs in (1, 2):
        train(
            small_learner(),
            TRAIN,
            VALIDATION,
            **{**SMALL, "epochs": epochs},
            checkpoint=tmp_path,
            rng=None,
        )
    stored = checkpoints.read(tmp_path)
    assert stored is not None
    whole = small_learner()
    train(whole, TRAIN, VALIDATION, **{**SMALL, "epochs": 2}, rng=stored.settings["rng"])
    assert identical(state_of(whole), dict(stored.best))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 0.5}, r"was made with lr=0\.01, and this call has lr=0\.5\. A run goes on only"),
        ({"rng": 7, "shots": 2}, r"made with shots=5, rng=0, and this call has shots=2, rng=7\."),
        ({"class_weights": [1, 2, 3, 4, 5]}, r"class_weights=None, and .*=\[1\.0, 2\.0, 3\.0"),
        ({"epochs": 1}, r"holds 4 epochs and epochs=1 asks for fewer"),
    ],
)
def test_a_run_goes_on_only_with_its_own_arguments(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    train(small_learner(), TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    with pytest.raises(ValueError, match=message):
        train(small_learner(), TRAIN, VALIDATION, **{**SMALL, **change}, checkpoint=tmp_path)


def test_a_run_goes_on_only_with_its_own_learner_and_data(tmp_path: Path) -> None:
    train(small_learner(), TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    before = (tmp_path / "checkpoint.json").read_bytes()
    with pytest.raises(ValueError, match=r"made with ProtoNet\(.*width=6.* learner is MAML\(.*st"):
        train(MAML(MLP(8, width=6), 5), TRAIN, VALIDATION, **SMALL, checkpoint=tmp_path)
    with pytest.raises(
        ValueError, match=r"made with train_pool=.*20 classes.* has train_pool=.*21"
    ):
        train(small_learner(), class_pool(21, 0), VALIDATION, **SMALL, checkpoint=tmp_path)
    assert (tmp_path / "checkpoint.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, r"epochs must hold whole numbers from 1"),
        ({"episodes_per_step": 0}, r"episodes_per_step must hold whole numbers from 1"),
        ({"validation_tasks": 1.5}, r"validation_tasks must hold whole numbers"),
        ({"patience": 0}, r"patience must hold whole numbers from 1"),
        ({"lr": -1.0}, r"lr must be finite and positive, got -1.0"),
        ({"class_weights": [1.0, 0.0, 1, 1, 1]}, r"class_weights must be finite and positive"),
        ({"class_weights": [1.0]}, r"class_weights must hold 5 numbers, one for each label, got 1"),
        ({"shots": 18}, r"at least shots \+ queries = 23 examples"),
        ({"rng": -1}, r"rng must hold whole numbers from 0"),
    ],
)
def test_arguments_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(small_learner(), TRAIN, VALIDATION, **{**SMALL, **change})


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    options = {**SMALL, "shots": np.int64(5), "lr": np.float32(0.01), "rng": np.int64(0)}
    options["class_weights"] = np.ones(5, dtype=np.float32)
    train(small_learner(), TRAIN, VALIDATION, **options, checkpoint=tmp_path)
    stored = checkpoints.read(tmp_path)
    assert stored is not None
    assert stored.settings["shots"] == 5
    assert stored.settings["class_weights"] == [1.0] * 5


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(ValueError, match=r"learner must have a module and logits\(\).*SklearnLea"):
        train(SklearnLearner(LogisticRegression()), TRAIN, VALIDATION)  # type: ignore[arg-type]


def test_a_run_that_diverges_says_so_and_spoils_no_checkpoint(tmp_path: Path) -> None:
    broken = ClassPool(np.full_like(TRAIN.x, np.nan), TRAIN.y)
    with pytest.raises(ValueError, match=r"the loss became nan in epoch 1 at lr=0\.01: training"):
        train(small_learner(), broken, VALIDATION, **SMALL, checkpoint=tmp_path)
    stored = checkpoints.read(tmp_path)
    assert stored is not None
    assert not stored.history


def test_an_empty_history_has_no_best_epoch() -> None:
    with pytest.raises(ValueError, match=r"history is empty"):
        _ = History().best


KILLED = """
import os, signal, sys
from pathlib import Path
from test_training import *

def killing(function, at, before=lambda *args: None):
    calls = [0]
    def counted(*args, **kwargs):
        calls[0] += 1
        if calls[0] == at:
            before(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return counted

def halve(descriptor):
    os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)

folder = Path(sys.argv[1])
for owner, name, at in [
    (os, "fsync", 1),        # the first checkpoint of all is half written
    (Run, "_step", 2),       # in the middle of epoch 1
    (os, "fsync", 1),        # the tensors of epoch 1 are half written
    (Path, "replace", 2),    # they are in place, the index still points to those before
    (Path, "unlink", 1),     # the index points to them, those before are still there
    (os, "fsync", 2),        # the index of epoch 2 is half written
    (Run, "save", 2),        # epoch 2 is saved, epoch 3 is trained and not saved
    (Run, "_step", 5),       # in the middle of epoch 4
]:
    child = os.fork()
    if not child:
        before = halve if name == "fsync" else lambda *args: None
        setattr(owner, name, killing(getattr(owner, name), at, before))
        killed_run(folder)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    stored = checkpoints.read(folder)
    print(os.WTERMSIG(status), None if stored is None else len(stored.history))
"""


def killed_run(folder: Path | None) -> dict[str, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2)]
        learner = ProtoNet(nn.Sequential(*layers))
    train(learner, TRAIN, VALIDATION, **{**SMALL, "epochs": 5}, checkpoint=folder)
    return state_of(learner)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
def test_killed_at_eight_points_the_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    killed = run_python("-c", KILLED, str(tmp_path / "run"))
    found = [line.split() for line in killed.splitlines()]
    assert [line[0] for line in found] == [str(int(signal.SIGKILL))] * 8
    assert [line[1] for line in found] == ["None", "0", "0", "0", "1", "1", "2", "3"]
    assert identical(killed_run(tmp_path / "run"), killed_run(None))
    assert len(list((tmp_path / "run").glob("epoch-*"))) == 1


def run_python(*arguments: str, **environment: str) -> str:
    process = start_python(*arguments, **environment)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def start_python(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    source = str(TESTS.parent / "src")
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": f"{source}:{TESTS}",
            "OMP_NUM_THREADS": "1",
            **environment,
        },
    )


@needs_gpu
@pytest.mark.parametrize("compile", [False, True])
def test_on_a_gpu_training_beats_chance_by_half(compile: bool) -> None:
    learner, unseen = ProtoNet(MLP(8, width=32, dropout=0, rng=0)), class_pool(40, 7)
    options: dict[str, Any] = {"epochs": 12, "episodes_per_epoch": 80, "validation_tasks": 50}
    train(
        learner,
        class_pool(60, 8),
        class_pool(20, 9),
        lr=5e-3,
        device="cuda",
        compile=compile,
        **options,
    )
    assert next(learner.module.parameters()).is_cuda
    assert accuracy(learner, unseen, tasks=200) > 0.7


@needs_gpu
def test_on_a_gpu_no_step_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwaiting(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            torch.cuda.set_sync_debug_mode("error")
            try:
                return function(*args)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        return run

    monkeypatch.setattr(Run, "_step", unwaiting(Run._step))
    images = np.random.default_rng(0).integers(256, size=(80, 16, 16), dtype=np.uint8)
    pool = ClassPool(images, np.repeat(np.arange(8), 10))
    learner = ProtoNet(Conv4(channels=1, size=16, width=4, rng=0))
    history = train(learner, pool, pool, **{**SMALL, "device": "cuda"}, compile=False)
    assert history.epochs  # a step that waited would have raised

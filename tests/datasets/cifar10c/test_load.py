"""CIFAR10-C: from either layout to disjoint pools whose tasks differ by their corruptions."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from metapac.fewshot import ClassPool, ProtoNet, accuracy, train
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.cifar10c import cifar10c, missing, prepare
from metapac.fewshot.datasets.corruptions import NINE, random_corruptions
from metapac.fewshot.training.episodes import EpisodeSampler
from tests.helpers.cifar_files import BATCHES, CLASSES, fabricated, write_pickles, write_records
from tests.helpers.shared_data import needs_real_data, unpacked

WRITERS = {"pickles": write_pickles, "records": write_records}
NAMES = {corruption.name for corruption in NINE}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("kind", WRITERS)
def test_both_layouts_become_the_same_arrays(tmp_path: Path, kind: str) -> None:
    batches = fabricated()
    folder = WRITERS[kind](tmp_path / "source", batches)
    assert missing(folder) == []
    seen: list[tuple[str, int, int | None]] = []
    home = tmp_path / "home"
    made = prepare(tmp_path / "source", home=home, progress=lambda *call: seen.append(call))
    assert seen == [("reading batches", i, 6) for i in range(1, 7)]
    made.verify()
    assert made["x"].dtype == np.uint8
    assert made["x"].shape == (180, 3, 32, 32)
    for i, name in enumerate(BATCHES):
        rows = made["part"] == i
        result = sorted(
            (int(y), x.tobytes()) for y, x in zip(made["y"][rows], made["x"][rows], strict=True)
        )
        images, labels = batches[name]
        assert result == sorted((int(y), x.tobytes()) for y, x in zip(labels, images, strict=True))
    assert sorted(set(made["part"][:120])) == [0, 1, 2, 3]
    assert set(made["part"][120:150]) == {4}
    assert made.facts["classes"] == CLASSES
    assert made.facts["counts"] == dict.fromkeys(CLASSES, 18)
    assert made.facts["splits"]["train"] == {
        "classes": 10,
        "examples": 120,
        "smallest": 12,
        "largest": 12,
    }
    assert [split["examples"] for split in made.facts["splits"].values()] == [120, 30, 30]
    assert made.facts["notes"][5] == "test_batch was published with 10,000 images and has 30 here"


def prepared(folder: Path, each: int = 3) -> Path:
    write_records(folder / "source", fabricated(each))
    prepare(folder / "source", home=folder)
    return folder


def pictures(pool: ClassPool) -> set[bytes]:
    return {x.tobytes() for x in pool.x}


def test_pools_share_classes_but_no_image(tmp_path: Path) -> None:
    pools = cifar10c(validation=20, home=prepared(tmp_path))
    given = [pools.train, pools.validation, pools.calibration, pools.test]
    assert [len(pool.x) for pool in given] == [100, 20, 30, 30]
    assert [pool.name for pool in given] == ["train", "validation", "calibration", "test"]
    assert len(set.union(*map(pictures, given))) == 180
    batches = fabricated()
    for pool, name in ((pools.calibration, "data_batch_5"), (pools.test, "test_batch")):
        assert pictures(pool) == {x.tobytes() for x in batches[name][0]}
    for pool in given:
        assert pool.names == sorted(CLASSES)
        assert isinstance(pool.x, np.memmap)
        assert pool.transform is random_corruptions


def test_labels_stay_with_their_images(tmp_path: Path) -> None:
    labels = {
        x.tobytes(): CLASSES[y]
        for images, ys in fabricated().values()
        for x, y in zip(images, ys, strict=True)
    }
    pools = cifar10c(validation=20, home=prepared(tmp_path))
    for pool in (pools.train, pools.validation, pools.calibration, pools.test):
        assert [labels[x.tobytes()] for x in pool.x] == pool.y.tolist()


@pytest.mark.parametrize("validation", [1, 7, 10, 25, 119])
def test_validation_is_as_even_as_possible(tmp_path: Path, validation: int) -> None:
    pools = cifar10c(validation=validation, home=prepared(tmp_path))
    counts = [int((pools.validation.y == name).sum()) for name in CLASSES]
    assert sum(counts) == validation
    assert max(counts) - min(counts) <= 1
    assert len(pools.train.x) == 120 - validation


def test_validation_is_even_among_uneven_classes(tmp_path: Path) -> None:
    batches = fabricated()
    for name in BATCHES[1:4]:
        batches[name][1][:] = 4
    write_records(tmp_path / "source", batches)
    made = prepare(tmp_path / "source", home=tmp_path)
    assert made.facts["splits"]["train"]["largest"] == 93
    pools = cifar10c(validation=30, home=tmp_path)
    assert {int((pools.validation.y == name).sum()) for name in CLASSES} == {3}
    files = {x.tobytes(): i for i, name in enumerate(BATCHES) for x in batches[name][0]}
    assert [files[x.tobytes()] for x in made["x"]] == made["part"].tolist()


def test_no_validation_is_no_pool(tmp_path: Path) -> None:
    pools = cifar10c(validation=0, home=prepared(tmp_path))
    assert pools.validation is None
    assert len(pools.train.x) == 120


@pytest.mark.parametrize("validation", [120, 5000])
def test_validation_leaves_something_to_train_on(tmp_path: Path, validation: int) -> None:
    home = prepared(tmp_path)
    message = (
        f"validation must leave some of the 120 images of data_batch_1 to 4 .* got {validation}"
    )
    with pytest.raises(ValueError, match=message):
        cifar10c(validation=validation, home=home)
    with pytest.raises(ValueError, match="validation must .*whole number.* from 0"):
        cifar10c(validation=-1, home=home)


def test_all_images_of_a_task_share_one_sequence(tmp_path: Path) -> None:
    pools = cifar10c(validation=20, home=prepared(tmp_path))
    arguments: dict[str, Any] = {"ways": 10, "shots": 1, "queries": 2, "rng": 1}
    tasks = pools.calibration.tasks(12, **arguments)
    plain = ClassPool(pools.calibration.x, pools.calibration.y).tasks(12, **arguments)
    sequences = set()
    for task, same_draw in zip(tasks, plain, strict=True):
        assert isinstance(task.name, str)
        words = task.name.split(": ")[1].split(", ")
        assert 1 <= len(words) == len(set(words)) <= 3
        assert set(words) <= NAMES
        assert (task.x.dtype, task.x.shape) == (np.uint8, (30, 3, 32, 32))
        before = np.concatenate([same_draw.support_x, same_draw.query_x])
        after = np.concatenate([task.support_x, task.query_x])
        if words == ["identity"]:
            assert np.array_equal(after, before)
        # A corrupted image stays closest to its original.
        gaps = np.abs(after[:, None].astype(float) - before).mean((2, 3, 4))  # (30, 30)
        labels = np.concatenate([task.support_y, task.query_y])
        assert (labels[gaps.argmin(1)] == labels).all()
        sequences.add(task.name.split(": ")[1])
    assert len(sequences) > 3


def test_data_must_be_prepared_first(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cifar10c is not prepared under .* fetch cifar10c"):
        cifar10c(home=tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_missing_file_is_named(tmp_path: Path, kind: str) -> None:
    folder = WRITERS[kind](tmp_path, fabricated())
    (gone,) = folder.glob("data_batch_4*")
    gone.unlink()
    (sentence,) = missing(tmp_path)
    assert gone.name in sentence
    with pytest.raises(FileNotFoundError, match=rf"lacks {gone.name} of CIFAR-10\. Run .metapac"):
        prepare(tmp_path, home=tmp_path / "home")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def malicious(path: Path) -> None:
    path.write_bytes(f"cos\nsystem\n(S'touch {path.parent / 'trap'}'\ntR.".encode())


@pytest.mark.parametrize(
    ("kind", "damage", "message"),
    [
        ("pickles", cut, "data_batch_2 is not a complete pickle"),
        ("pickles", lambda path: os.truncate(path, 0), "data_batch_2 is empty: it has 0 bytes"),
        (
            "pickles",
            malicious,
            r"data_batch_2 asks for os.system, .* nothing is executed. Delete it",
        ),
        ("records", cut, "data_batch_2.bin must hold records of 3073 bytes, got 92189 bytes"),
        ("records", lambda path: os.truncate(path, 0), "data_batch_2.bin .* got 0 bytes"),
    ],
)
def test_damaged_files_leave_no_cache(tmp_path: Path, kind: str, damage: Any, message: str) -> None:
    folder = WRITERS[kind](tmp_path / "source", fabricated())
    (path,) = folder.glob("data_batch_2*")
    damage(path)
    with pytest.raises(ValueError, match=message):
        prepare(tmp_path / "source", home=tmp_path / "home")
    assert not (folder / "trap").exists()
    assert list((tmp_path / "home" / "cifar10c").iterdir()) == []


def test_the_cache_is_rebuilt_when_a_file_changes(tmp_path: Path) -> None:
    folder, home = write_records(tmp_path / "source", fabricated()), tmp_path / "home"
    first = prepare(folder, home=home)
    silent: list[Any] = []
    again = prepare(folder, home=home, progress=lambda *call: silent.append(call))
    assert again.folder == first.folder
    assert silent == []
    write_records(tmp_path / "other", fabricated(seed=1))
    (tmp_path / "other" / folder.name / "test_batch.bin").replace(folder / "test_batch.bin")
    changed = prepare(folder, home=home)
    assert changed.folder != first.folder
    assert not np.array_equal(changed["x"][150:], again["x"][150:])
    assert cache.open_prepared("cifar10c", home).checksum == changed.checksum


class Colours(nn.Module):
    """A network that uses only the mean colour of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return x.float().mean((2, 3)) / 25 * self.scale


COURSE: dict[str, Any] = {"ways": 10, "shots": 1, "queries": 1, "epochs": 2, "lr": 0.01}
COURSE |= {"episodes_per_epoch": 8, "episodes_per_step": 4, "validation_tasks": 8}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.needs_gpu)])
def test_learners_train_on_corrupted_episodes(tmp_path: Path, device: str) -> None:
    pools = cifar10c(validation=20, home=prepared(tmp_path))
    networks = [Colours(), Colours()]
    learners = [ProtoNet(network) for network in networks]
    options = COURSE | {"device": device, "compile": False}
    histories = [
        train(learner, pools.train, pools.validation, rng=3, **options) for learner in learners
    ]
    losses = [[epoch.loss for epoch in history.epochs] for history in histories]
    assert losses[0] == losses[1]
    if device == "cpu":
        assert torch.equal(networks[0].scale, networks[1].scale)
    assert not torch.equal(networks[0].scale.cpu(), Colours().scale)
    shares = [
        accuracy(learners[0], pools.test, ways=10, shots=1, queries=1, tasks=10, rng=i).value
        for i in (0, 0, 1)
    ]
    assert shares[0] == shares[1]
    assert min(shares) > 0.5  # 0.1 by chance
    sampler = EpisodeSampler(pools.train, device, ways=10, shots=1, queries=1)
    episodes = sampler.gather(sampler.draw(3, seed=0))
    assert (episodes.query_x.dtype, episodes.query_x.device.type) == (torch.uint8, device)


def test_episodes_are_corrupted_with_the_seeds_they_were_drawn_with(tmp_path: Path) -> None:
    pools = cifar10c(validation=0, home=prepared(tmp_path))
    sampler = EpisodeSampler(pools.train, "cpu", ways=5, shots=1, queries=2)
    drawn = sampler.draw(4, seed=8)
    result = sampler.gather(drawn)
    for i, seed in enumerate(drawn.seeds.tolist()):
        rng = np.random.default_rng(seed)
        before = pools.train.x[np.r_[drawn.support[i], drawn.query[i]]]
        after = random_corruptions(rng)(before, rng)
        assert np.array_equal(torch.cat([result.support_x[i], result.query_x[i]]).numpy(), after)


@pytest.mark.needs_gpu
def test_corruptions_do_not_synchronise_with_the_gpu(tmp_path: Path) -> None:
    pools = cifar10c(validation=0, home=prepared(tmp_path))
    sampler = EpisodeSampler(pools.train, "cuda", ways=5, shots=1, queries=2)
    drawn = sampler.draw(64, seed=8)
    sampler.gather(drawn)  # the first call builds the tables
    torch.cuda.set_sync_debug_mode("error")
    try:
        sampler.gather(drawn)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_checkpoint_of_another_transform_is_refused(tmp_path: Path) -> None:
    pools = cifar10c(validation=20, home=prepared(tmp_path))
    options = COURSE | {"device": "cpu", "epochs": 1, "checkpoint": tmp_path / "run"}
    train(ProtoNet(Colours()), pools.train, pools.validation, **options)
    plain = [ClassPool(pool.x, pool.y, name=pool.name) for pool in (pools.train, pools.validation)]
    with pytest.raises(ValueError, match="was made with train_pool="):
        train(ProtoNet(Colours()), *plain, **options)


def test_without_torch_files_are_prepared_and_no_pools_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = prepared(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "metapac.fewshot.datasets.corruptions")
    assert missing(tmp_path / "source") == []
    assert len(prepare(tmp_path / "source", home=home)) == 3
    with pytest.raises(
        ModuleNotFoundError, match=r"needs torch\. .* pip install 'metapac\[torch\]'"
    ):
        cifar10c(home=home)


@needs_real_data
def test_real_data_have_6000_images_per_class(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    unpacked("cifar10", tmp_path)
    made = prepare(tmp_path, home=tmp_path)
    assert made.facts["counts"] == dict.fromkeys(CLASSES, 6000)
    assert made.facts["notes"] == []
    pools = cifar10c(home=tmp_path)
    assert [len(pool.x) for pool in vars(pools).values()] == [35000, 5000, 10000, 10000]
    assert {int((pools.validation.y == name).sum()) for name in CLASSES} == {500}
    task = pools.calibration.tasks(1, ways=10, shots=5, queries=500, rng=0)[0]
    assert task.x.shape == (5050, 3, 32, 32)

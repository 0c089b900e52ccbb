"""mini-ImageNet as pools: the same from every layout, prepared once, with validation classes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from metapac.fewshot.datasets import pickles
from metapac.fewshot.datasets.miniimagenet import miniimagenet, missing, prepare
from tests.helpers.miniimagenet_files import (
    CLASSES,
    EACH,
    LAYOUTS,
    colour,
    with_csv,
    with_pickles,
)
from tests.helpers.shared_data import SHARED, needs_real_data


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pools(tmp_path: Path, layout: Callable[[Path], Path]) -> None:
    folder = layout(tmp_path / "published")
    assert missing(folder) == []
    made = prepare(folder, home=tmp_path)
    pools = miniimagenet(home=tmp_path)
    assert pools.validation is None
    for pool, split in (("train", "train"), ("calibration", "val"), ("test", "test")):
        held = getattr(pools, pool)
        assert held.names == CLASSES[split]
        assert isinstance(held.x, np.memmap)
        for name, positions in zip(held.names, held.positions, strict=True):
            colours = sorted(map(tuple, held.x[positions][:, 5, 5].tolist()))
            assert colours == sorted(colour(name, i) for i in range(EACH))
        assert made.facts["splits"][split] == {
            "classes": len(CLASSES[split]),
            "examples": EACH * len(CLASSES[split]),
            "smallest": EACH,
            "largest": EACH,
        }
    assert made.facts["notes"][0] == "train was published as 64 classes of 600 images"


def test_a_pickled_split_is_read_once_and_then_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_pickles(tmp_path / "published")
    read: list[tuple[Path, weakref.ref[Any]]] = []
    load = pickles.load

    def watched(path: Path) -> Any:
        assert [name for name, image in read if image() is not None] == []
        held = load(path)
        read.append((path, weakref.ref(held["image_data"])))
        return held

    monkeypatch.setattr(pickles, "load", watched)
    prepare(folder, home=tmp_path)
    assert [path.name for path, _ in read] == [f"mini-imagenet-cache-{s}.pkl" for s in CLASSES]
    assert [image() for _, image in read] == [None] * 3


def test_the_parent_folder_may_be_passed(tmp_path: Path) -> None:
    with_csv(tmp_path / "somewhere" / "mini")
    assert prepare(tmp_path / "somewhere", home=tmp_path).facts["layout"] == "images with csv files"


def test_validation_classes_are_not_used_for_training(tmp_path: Path) -> None:
    prepare(with_csv(tmp_path / "published"), home=tmp_path)
    pools = miniimagenet(validation=2, home=tmp_path)
    assert len(pools.validation.names) == 2
    assert sorted(pools.train.names + pools.validation.names) == CLASSES["train"]
    for pool in (pools.train, pools.validation):
        for name, positions in zip(pool.names, pool.positions, strict=True):
            assert set(pool.x[positions][:, 0, 0, 0]) == {colour(name, 0)[0]}
    with pytest.raises(ValueError, match="leave some of the 6 training classes to train on, got 6"):
        miniimagenet(validation=6, home=tmp_path)


def test_progress_counts_images(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    prepare(
        with_csv(tmp_path / "published"),
        home=tmp_path,
        progress=lambda *call: seen.append(call),
    )
    assert seen == [("reading images", done, 33) for done in (18, 24, 33)]


def test_a_changed_image_is_prepared_again(tmp_path: Path) -> None:
    folder = with_csv(tmp_path / "published")
    first = prepare(folder, home=tmp_path)
    changed = folder / "images" / "n1000000000.png"
    Image.fromarray(np.full((84, 84, 3), 99, np.uint8)).save(changed)
    second = prepare(folder, home=tmp_path)
    assert second.folder != first.folder
    assert 99 in second["x"]


def published_images(folder: Path) -> Path:
    """Write the real images under their published names, in any format."""
    (folder / "images").mkdir(parents=True)
    for split in CLASSES:
        with np.load(SHARED / f"miniimagenet84_{split}_webp75.npz") as pack:
            data, ends = pack["data"].tobytes(), pack["offsets"].tolist()
            labels = pack["classes"][pack["labels"]].tolist()
            names = [
                f"{label}{i:08d}.jpg" for label, i in zip(labels, pack["file_index"], strict=True)
            ]
        for name, start, stop in zip(names, ends[:-1], ends[1:], strict=True):
            (folder / "images" / name).write_bytes(data[start:stop])
        lines = [f"{name},{label}" for name, label in zip(names, labels, strict=True)]
        (folder / f"{split}.csv").write_text("\n".join(["filename,label", *lines]) + "\n")
    return folder


@needs_real_data
def test_real_counts(tmp_path: Path) -> None:
    made = prepare(published_images(tmp_path / "published"), home=tmp_path)
    assert made.facts["notes"] == []
    assert made["x"].shape == (60000, 84, 84, 3)
    pools = miniimagenet(home=tmp_path)
    assert [len(pool.names) for pool in (pools.train, pools.calibration, pools.test)] == [
        64,
        16,
        20,
    ]
    assert {len(rows) for rows in pools.test.positions} == {600}
    assert "n01532829" in pools.train.names
    assert 80 < pools.test.x[::1000].mean() < 150  # images, neither noise nor black

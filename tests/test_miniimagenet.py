"""mini-ImageNet in every layout in which it is passed on, with the faults that copies have."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from shared_data import SHARED, needs_real_data

from metapac.datasets import cache
from metapac.datasets.images import Pixels
from metapac.datasets.miniimagenet import miniimagenet, missing, prepare

CLASSES = {
    "train": [f"n0{i}" for i in range(6)],
    "val": ["n10", "n11"],
    "test": ["n20", "n21", "n22"],
}
EACH = 3


def colour(name: str, i: int) -> tuple[int, int, int]:
    return int(name[1:]) * 4, i * 50, 7


def picture(name: str, i: int) -> Pixels:
    return np.full((84, 84, 3), colour(name, i), np.uint8)


def with_csv(folder: Path, under: str = "images") -> Path:
    for split, names in CLASSES.items():
        lines = ["filename,label"]
        for name in names:
            for i in range(EACH):
                path = folder / under.format(name) / f"{name}{i:08d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(picture(name, i)).save(path)
                lines.append(f"{path.name},{name}")
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return folder


def with_class_folders_and_csv(folder: Path) -> Path:
    return with_csv(folder, "images/{}")


def with_folders(folder: Path) -> Path:
    for split, names in CLASSES.items():
        for name in names:
            (folder / split / name).mkdir(parents=True)
            for i in range(EACH):
                Image.fromarray(picture(name, i)).save(folder / split / name / f"{i}.png")
    return folder


def with_pickles(folder: Path, protocol: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, names in CLASSES.items():
        images = np.stack([picture(name, i) for i in range(EACH) for name in names])
        rows = {name: list(range(k, len(images), len(names))) for k, name in enumerate(names)}
        held = {"image_data": images, "class_dict": rows}
        path = folder / f"mini-imagenet-cache-{split}.pkl"
        path.write_bytes(pickle.dumps(held, protocol=protocol))
    return folder


def with_category_pickles(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files = {"train": "train_phase_train", "val": "val", "test": "test"}
    for split, names in CLASSES.items():
        images = np.stack([picture(name, i) for name in names for i in range(EACH)])
        held = {b"data": images, b"labels": np.repeat(range(len(names)), EACH).tolist()}
        path = folder / f"miniImageNet_category_split_{files[split]}.pickle"
        path.write_bytes(pickle.dumps(held, protocol=2))
    return folder


LAYOUTS = [with_csv, with_class_folders_and_csv, with_folders, with_pickles]


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
            found = sorted(map(tuple, held.x[positions][:, 5, 5].tolist()))
            assert found == sorted(colour(name, i) for i in range(EACH))
        assert made.facts["splits"][split] == {
            "classes": len(CLASSES[split]),
            "examples": EACH * len(CLASSES[split]),
            "smallest": EACH,
            "largest": EACH,
        }
    assert made.facts["notes"][0] == "train was published as 64 classes of 600 images"


def test_category_pickles_number_their_classes(tmp_path: Path) -> None:
    prepare(with_category_pickles(tmp_path / "published"), home=tmp_path)
    pools = miniimagenet(home=tmp_path)
    assert pools.calibration.names == ["val 0", "val 1"]
    (first, *_), (second, *_) = pools.calibration.positions
    assert pools.calibration.x[first, 0, 0, 0] == colour("n10", 0)[0]
    assert pools.calibration.x[second, 0, 0, 0] == colour("n11", 0)[0]


def test_the_folder_above_will_do(tmp_path: Path) -> None:
    with_csv(tmp_path / "somewhere" / "mini")
    assert prepare(tmp_path / "somewhere", home=tmp_path).facts["layout"] == "images with csv files"


def test_validation_classes_are_kept_from_training(tmp_path: Path) -> None:
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
    seen: list[tuple[int, int | None]] = []
    prepare(
        with_csv(tmp_path / "published"),
        home=tmp_path,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(18, 33), (24, 33), (33, 33)]


def test_a_changed_image_prepares_anew(tmp_path: Path) -> None:
    folder = with_csv(tmp_path / "published")
    first = prepare(folder, home=tmp_path)
    changed = folder / "images" / "n1000000000.png"
    Image.fromarray(np.full((84, 84, 3), 99, np.uint8)).save(changed)
    second = prepare(folder, home=tmp_path)
    assert second.folder != first.folder
    assert 99 in second["x"]


def cut_image(folder: Path) -> None:
    path = folder / "images" / "n2100000001.png"
    path.write_bytes(path.read_bytes()[:-60])


def drop_image(folder: Path) -> None:
    (folder / "images" / "n2100000001.png").unlink()


def drop_csv(folder: Path) -> None:
    (folder / "val.csv").unlink()


def empty_csv(folder: Path) -> None:
    (folder / "val.csv").write_text("")


def header_only(folder: Path) -> None:
    (folder / "val.csv").write_text("filename,label\n")


def other_columns(folder: Path) -> None:
    (folder / "val.csv").write_text("file;class\n")


def short_line(folder: Path) -> None:
    with (folder / "val.csv").open("a") as file:
        file.write("lonely.png\n")


def binary_csv(folder: Path) -> None:
    (folder / "val.csv").write_bytes(b"filename,label\n\xff\xfe\n")


def shared_class(folder: Path) -> None:
    with (folder / "val.csv").open("a") as file:
        file.write("n2000000000.png,n20\n")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (cut_image, "1 of 9 images cannot be read: .*n2100000001.png .*Copy those files again"),
        (drop_image, "test.csv names 1 of 9 images that are not in .*images: n2100000001.png. Put"),
        (drop_csv, "published lacks val.csv. Run 'metapac data fetch miniimagenet'"),
        (empty_csv, "val.csv must begin with the line filename,label, got nothing. Run"),
        (header_only, "val.csv names no image. Run"),
        (other_columns, "val.csv must begin with the line filename,label, got file;class"),
        (short_line, "val.csv, line 8 must hold a filename and a label, got {'filename': 'lonely"),
        (binary_csv, "val.csv is not a csv file .*utf-8"),
        (shared_class, "val and test of mini-ImageNet must not share a class, got 'n20' in both"),
    ],
)
def test_faults_are_named_and_nothing_is_left(
    tmp_path: Path, fault: Callable[[Path], None], message: str
) -> None:
    folder = with_csv(tmp_path / "published")
    fault(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepare(folder, home=tmp_path)
    with pytest.raises(FileNotFoundError):
        cache.opened("miniimagenet", tmp_path)


def test_no_layout_says_which_are_known(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no known layout: images/ with train.csv"):
        prepare(tmp_path, home=tmp_path)
    with pytest.raises(FileNotFoundError, match="absent is not a folder"):
        prepare(tmp_path / "absent", home=tmp_path)
    assert "no known layout" in missing(tmp_path)[0]


def test_an_empty_class_folder_is_named(tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "published")
    shutil.rmtree(folder / "val" / "n11")
    (folder / "val" / "n11").mkdir()
    with pytest.raises(ValueError, match="val/n11 has no images. Put the images of each class"):
        prepare(folder, home=tmp_path)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"images": 1}, "must hold image_data and class_dict, or data and labels, got images"),
        ([1], "must hold image_data and class_dict, or data and labels, got list"),
        (
            {"image_data": np.zeros((2, 32, 32, 3), np.uint8), "class_dict": {"a": [0]}},
            r"images of 84 x 84 x 3 as uint8, got uint8 of shape \(2, 32, 32, 3\)",
        ),
        (
            {"image_data": np.zeros((2, 84, 84, 3), np.uint8), "class_dict": {"a": [0, 2]}},
            "classes whose images are not among its 2",
        ),
    ],
)
def test_pickles_of_something_else_are_refused(tmp_path: Path, held: Any, message: str) -> None:
    folder = with_pickles(tmp_path / "published")
    (folder / "mini-imagenet-cache-val.pkl").write_bytes(pickle.dumps(held))
    with pytest.raises(ValueError, match=f"mini-imagenet-cache-val.pkl .*{message}"):
        prepare(folder, home=tmp_path)


def published_images(folder: Path) -> Path:
    """Write the real images under their published names; what they are is told by their bytes."""
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
    assert {len(own) for own in pools.test.positions} == {600}
    assert "n01532829" in pools.train.names
    assert 80 < pools.test.x[::1000].mean() < 150  # pictures, not noise and not darkness

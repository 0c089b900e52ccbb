"""mini-ImageNet in every layout in which it is passed on, with the faults that copies have."""

from __future__ import annotations

import pickle
import re
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from shared_data import SHARED, needs_real_data

from metapac.datasets import cache, pickles
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


def with_loose_images_and_csv(folder: Path) -> Path:
    return with_csv(folder, ".")


def with_loose_class_folders_and_csv(folder: Path) -> Path:
    return with_csv(folder, "{}")


def with_the_same_names_in_every_class(folder: Path) -> Path:
    """Published names begin with their class; others may not."""
    with_class_folders_and_csv(folder)
    for path in (folder / "images").glob("*/*.png"):
        path.rename(path.with_name(path.name[3:]))
    for split, names in CLASSES.items():
        lines = [f"{i:08d}.png,{name}" for name in names for i in range(EACH)]
        (folder / f"{split}.csv").write_text("\n".join(["filename,label", *lines]) + "\n")
    return folder


LAYOUTS = [
    with_csv,
    with_class_folders_and_csv,
    with_loose_images_and_csv,
    with_loose_class_folders_and_csv,
    with_the_same_names_in_every_class,
    with_folders,
    with_pickles,
]


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


def test_an_image_is_not_looked_for_under_another_label(tmp_path: Path) -> None:
    folder = with_class_folders_and_csv(tmp_path / "published")
    (folder / "images" / "n10").rename(folder / "images" / "n99")
    (told,) = missing(folder)
    assert "val.csv names 3 of 6 images that are not in" in told
    for i in range(EACH):  # the nearest place comes first
        Image.fromarray(picture("n10", i)).save(folder / "images" / f"n10{i:08d}.png")
    assert missing(folder) == []


def test_folders_are_listed_and_files_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_csv(tmp_path / "published")
    asked: list[Path] = []
    stat = Path.stat

    def counted(path: Path, **options: Any) -> Any:
        asked.append(path)
        return stat(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", counted)
        assert missing(folder) == []
    assert asked
    assert not [path for path in asked if path.suffix == ".png" and path.parent.name == "images"]


def test_a_pickled_split_is_read_once_and_let_go(
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


def short_line_after_an_empty_one(folder: Path) -> None:
    with (folder / "val.csv").open("a") as file:
        file.write("\nlonely.png\n")


def shared_class(folder: Path) -> None:
    Image.fromarray(picture("n20", 4)).save(folder / "images" / "n2000000004.png")
    with (folder / "val.csv").open("a") as file:
        file.write("n2000000004.png,n20\n")


def in_two_splits(folder: Path) -> None:
    with (folder / "test.csv").open("a") as file:
        file.write("n1100000001.png,n29\n")


def under_two_labels(folder: Path) -> None:
    with (folder / "val.csv").open("a") as file:
        file.write("n1100000001.png,n10\n")


def same_line_twice(folder: Path) -> None:
    with (folder / "val.csv").open("a") as file:
        file.write("n1100000001.png,n11\n")


def outside(folder: Path) -> None:
    Image.fromarray(picture("n10", 0)).save(folder.parent / "stray.png")
    with (folder / "val.csv").open("a") as file:
        file.write("../stray.png,n10\n../../stray.png,n10\n")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (cut_image, "1 of 9 images cannot be read: .*n2100000001.png .*Copy those files again"),
        (drop_image, "test.csv names 1 of 9 images that are not in .*images, nor in a folder"),
        (drop_image, "of their label there: n2100000001.png. Put them there"),
        (outside, r"2 of 8 images that are not in .*: \.\./stray.png, \.\./\.\./stray.png"),
        (drop_csv, "published lacks val.csv. Run 'metapac data fetch miniimagenet'"),
        (empty_csv, "val.csv must begin with the line filename,label, got nothing. Run"),
        (header_only, "val.csv names no image. Run"),
        (other_columns, "val.csv must begin with the line filename,label, got file;class"),
        (short_line, "val.csv, line 8 must hold a filename and a label, got {'filename': 'lonely"),
        (short_line_after_an_empty_one, "val.csv, line 9 must hold a filename and a label, got"),
        (binary_csv, "val.csv is not a csv file .*utf-8"),
        (shared_class, "val and test of mini-ImageNet must not share a class, got 'n20' in both"),
        (
            in_two_splits,
            "images/n1100000001.png must be listed once, got val.csv, line 6 as 'n11' and "
            "test.csv, line 11 as 'n29'. Take the three files from one source",
        ),
        (under_two_labels, "got val.csv, line 6 as 'n11' and val.csv, line 8 as 'n10'. Take"),
        (same_line_twice, "got val.csv, line 6 as 'n11' and val.csv, line 8 as 'n11'. Take"),
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


BLACK = np.zeros((2, 84, 84, 3), np.uint8)


def by_class(rows: Any, images: Any = BLACK) -> dict[str, Any]:
    return {"image_data": images, "class_dict": rows}


def by_label(labels: Any, images: Any = BLACK) -> dict[str, Any]:
    return {"data": images, "labels": labels}


NAMED = "must have a class_dict of {class name: rows}, got"
ROWS = "class 'a' must list some of the rows 0 .. 1, got"
ONE_EACH = "must hold labels, an integer for each of 2 images, got"
PICTURES = "must hold images of 84 x 84 x 3 as uint8, got"


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"images": 1}, "must hold image_data and class_dict, or data and labels, got images"),
        ([1], "must hold image_data and class_dict, or data and labels, got list"),
        (by_class({"a": [0]}, BLACK[:, :32, :32]), f"{PICTURES} uint8 of shape (2, 32, 32, 3)"),
        (by_class({"a": [0]}, BLACK[:0]), f"{PICTURES} uint8 of shape (0, 84, 84, 3)"),
        (by_class({"a": [0]}, BLACK + 0.5), f"{PICTURES} float64 of shape (2, 84, 84, 3)"),
        (by_class({"a": [0]}, None), f"{PICTURES} object of shape ()"),
        (by_label([0, 1], [[1], [2, 3]]), f"{PICTURES} object of shape (2,)"),
        (by_class(None), f"{NAMED} None"),
        (by_class([[0], [1]]), f"{NAMED} [[0], [1]]"),
        (by_class({}), f"{NAMED} {{}}"),
        (by_class({7: [0, 1]}), f"{NAMED} {{7: [0, 1]}}"),
        (by_class({"b": [1], "a": [0, 2]}), f"{ROWS} [0, 2]"),
        (by_class({"a": [-1, 0]}), f"{ROWS} [-1, 0]"),
        (by_class({"a": []}), f"{ROWS} []"),
        (by_class({"a": np.array([], np.int64)}), f"{ROWS} array([], dtype=int64)"),
        (by_class({"a": None}), f"{ROWS} None"),
        (by_class({"a": 0}), f"{ROWS} 0"),
        (by_class({"a": "01"}), f"{ROWS} '01'"),
        (by_class({"a": [0.0, 1.0]}), f"{ROWS} [0.0, 1.0]"),
        (by_class({"a": [True, False]}), f"{ROWS} [True, False]"),
        (by_class({"a": [0, "1"]}), f"{ROWS} [0, '1']"),
        (by_class({"a": [0, [1]]}), f"{ROWS} [0, [1]]"),
        (by_class({"a": [[0, 1]]}), f"{ROWS} [[0, 1]]"),
        (by_class({"a": [2**70]}), f"{ROWS} [1180591620717411303424]"),
        (
            by_class({"a": [0, 1], "b": [1]}),
            "must have an image in one class, once, got row 1 in 'a' and in 'b'. Run",
        ),
        (
            by_class({"a": [0, 0]}),
            "must have an image in one class, once, got row 0 in 'a' and in 'a'. Run",
        ),
        (by_label(None), f"{ONE_EACH} object of shape (): None"),
        (by_label([0]), f"{ONE_EACH} int64 of shape (1,): [0]"),
        (by_label([[0, 1]]), f"{ONE_EACH} int64 of shape (1, 2): [[0, 1]]"),
        (by_label([0.0, 1.0]), f"{ONE_EACH} float64 of shape (2,): [0.0, 1.0]"),
        (by_label([0, None]), f"{ONE_EACH} object of shape (2,): [0, None]"),
        (by_label([0, [1]]), f"{ONE_EACH} object of shape (2,): [0, [1]]"),
        (by_label({"a": 0}), f"{ONE_EACH} object of shape (): {{'a': 0}}"),
    ],
)
def test_pickles_of_something_else_are_refused(tmp_path: Path, held: Any, message: str) -> None:
    folder = with_pickles(tmp_path / "published")
    (folder / "mini-imagenet-cache-val.pkl").write_bytes(pickle.dumps(held))
    expected = f"mini-imagenet-cache-val.pkl,? {re.escape(message)}.*metapac data fetch"
    with pytest.raises(ValueError, match=expected):
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

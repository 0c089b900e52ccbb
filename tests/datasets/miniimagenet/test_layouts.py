"""The layouts of mini-ImageNet, and the faults of damaged copies."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.miniimagenet import miniimagenet, missing, prepare
from tests.helpers.miniimagenet_files import (
    EACH,
    colour,
    picture,
    with_category_pickles,
    with_class_folders_and_csv,
    with_csv,
    with_folders,
    with_pickles,
)


def test_category_pickles_number_their_classes(tmp_path: Path) -> None:
    prepare(with_category_pickles(tmp_path / "published"), home=tmp_path)
    pools = miniimagenet(home=tmp_path)
    assert pools.calibration.names == ["val 0", "val 1"]
    (first, *_), (second, *_) = pools.calibration.positions
    assert pools.calibration.x[first, 0, 0, 0] == colour("n10", 0)[0]
    assert pools.calibration.x[second, 0, 0, 0] == colour("n11", 0)[0]


def test_an_image_in_the_folder_of_another_label_is_not_used(tmp_path: Path) -> None:
    folder = with_class_folders_and_csv(tmp_path / "published")
    (folder / "images" / "n10").rename(folder / "images" / "n99")
    (sentence,) = missing(folder)
    assert "val.csv lists 3 of 6 images that are not in" in sentence
    for i in range(EACH):  # images/ is searched first
        Image.fromarray(picture("n10", i)).save(folder / "images" / f"n10{i:08d}.png")
    assert missing(folder) == []


def test_folders_are_listed_without_a_system_call_per_file(
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
        (drop_image, "test.csv lists 1 of 9 images that are not in .*images, nor in a folder"),
        (drop_image, "of their label there: n2100000001.png. Put them there"),
        (outside, r"2 of 8 images that are not in .*: \.\./stray.png, \.\./\.\./stray.png"),
        (drop_csv, "published lacks val.csv. Run 'metapac data fetch miniimagenet'"),
        (empty_csv, "val.csv must start with the line filename,label, got nothing. Run"),
        (header_only, "val.csv lists no images. Run"),
        (other_columns, "val.csv must start with the line filename,label, got file;class"),
        (short_line, "val.csv, line 8 must hold a filename and a label, got {'filename': 'lonely"),
        (short_line_after_an_empty_one, "val.csv, line 9 must hold a filename and a label, got"),
        (binary_csv, "val.csv is not a csv file .*utf-8"),
        (shared_class, "val and test of mini-ImageNet must not share a class, got 'n20' in both"),
        (
            in_two_splits,
            "images/n1100000001.png must be listed only once, got val.csv, line 6 as 'n11' and "
            "test.csv, line 11 as 'n29'. Take the three files from one source",
        ),
        (under_two_labels, "got val.csv, line 6 as 'n11' and val.csv, line 8 as 'n10'. Take"),
        (same_line_twice, "got val.csv, line 6 as 'n11' and val.csv, line 8 as 'n11'. Take"),
    ],
)
def test_faults_are_named_and_nothing_is_left_behind(
    tmp_path: Path, fault: Callable[[Path], None], message: str
) -> None:
    folder = with_csv(tmp_path / "published")
    fault(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepare(folder, home=tmp_path)
    with pytest.raises(FileNotFoundError):
        cache.open_prepared("miniimagenet", tmp_path)


def test_an_unknown_layout_is_refused_with_the_known_ones(tmp_path: Path) -> None:
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
ONE_LABEL_PER_IMAGE = "must hold labels, an integer for each of 2 images, got"
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
            "must list each image once, in one class, got row 1 in 'a' and in 'b'. Run",
        ),
        (
            by_class({"a": [0, 0]}),
            "must list each image once, in one class, got row 0 in 'a' and in 'a'. Run",
        ),
        (by_label(None), f"{ONE_LABEL_PER_IMAGE} object of shape (): None"),
        (by_label([0]), f"{ONE_LABEL_PER_IMAGE} int64 of shape (1,): [0]"),
        (by_label([[0, 1]]), f"{ONE_LABEL_PER_IMAGE} int64 of shape (1, 2): [[0, 1]]"),
        (by_label([0.0, 1.0]), f"{ONE_LABEL_PER_IMAGE} float64 of shape (2,): [0.0, 1.0]"),
        (by_label([0, None]), f"{ONE_LABEL_PER_IMAGE} object of shape (2,): [0, None]"),
        (by_label([0, [1]]), f"{ONE_LABEL_PER_IMAGE} object of shape (2,): [0, [1]]"),
        (by_label({"a": 0}), f"{ONE_LABEL_PER_IMAGE} object of shape (): {{'a': 0}}"),
    ],
)
def test_pickles_of_other_content_are_refused(tmp_path: Path, held: Any, message: str) -> None:
    folder = with_pickles(tmp_path / "published")
    (folder / "mini-imagenet-cache-val.pkl").write_bytes(pickle.dumps(held))
    expected = f"mini-imagenet-cache-val.pkl,? {re.escape(message)}.*metapac data fetch"
    with pytest.raises(ValueError, match=expected):
        prepare(folder, home=tmp_path)

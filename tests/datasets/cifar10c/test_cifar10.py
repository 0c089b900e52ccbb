"""CIFAR-10 is the same in both layouts, and damaged files are named."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac._common import brief
from metapac.fewshot.datasets.cifar10c import find_layout, missing, prepare
from tests.helpers.cifar_files import BATCHES, CLASSES, fabricated, write_pickles, write_records

WRITERS = {"pickles": write_pickles, "records": write_records}
AGAIN = "Delete it and run 'metapac data fetch cifar10c' again"


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("parent", [True, False])
def test_both_layouts_give_the_same_images(tmp_path: Path, kind: str, parent: bool) -> None:
    batches = fabricated()
    inside = WRITERS[kind](tmp_path, batches)
    layout = find_layout(tmp_path if parent else inside)
    assert layout.folder == inside
    assert layout.shortage == ""
    assert layout.classes() == CLASSES
    assert all(path.is_file() for path in layout.files)
    assert len(layout.files) == 7
    for name in BATCHES:
        images, labels = layout.read(name)
        assert images.dtype == np.uint8
        assert images.shape == (30, 3, 32, 32)
        assert np.array_equal(images, batches[name][0])
        assert np.array_equal(labels, batches[name][1])


def test_a_complete_layout_is_preferred(tmp_path: Path) -> None:
    pickled, records = (write(tmp_path, fabricated()) for write in WRITERS.values())
    assert find_layout(tmp_path).folder == pickled
    (pickled / "test_batch").unlink()
    assert find_layout(tmp_path).folder == records


@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_missing_is_named(tmp_path: Path, kind: str) -> None:
    inside = WRITERS[kind](tmp_path, fabricated())
    layout = find_layout(tmp_path)
    meta, batch = layout.files[0], layout.files[3]
    meta.unlink()
    batch.unlink()
    (sentence,) = missing(tmp_path)
    names = f"{meta.name}, {batch.name}"
    assert sentence.startswith(
        f"{inside} lacks {names} of CIFAR-10. Run 'metapac data fetch cifar10c'"
    )


@pytest.mark.parametrize("there", [True, False])
def test_all_files_are_missing_from_an_empty_folder(tmp_path: Path, there: bool) -> None:
    folder = tmp_path if there else tmp_path / "nowhere"
    (sentence,) = missing(folder)
    assert sentence.startswith(f"{folder} lacks batches.meta, data_batch_1, ")
    assert "cifar-10-python.tar.gz" in sentence


def test_the_message_names_the_folder_once(tmp_path: Path) -> None:
    inside = write_records(tmp_path, fabricated())
    (inside / "test_batch.bin").unlink()
    with pytest.raises(FileNotFoundError, match="lacks test_batch.bin of CIFAR-10. Run") as caught:
        prepare(tmp_path, home=tmp_path / "home")
    assert caught.value.filename == str(inside)
    assert str(tmp_path) not in str(caught.value.strerror)


@pytest.mark.parametrize("cut", [0, 1, 3072, 3074, 2 * 3073 - 1])
def test_truncated_records_are_refused(tmp_path: Path, cut: int) -> None:
    inside = write_records(tmp_path, fabricated())
    path = inside / "data_batch_2.bin"
    os.truncate(path, cut)
    message = rf"data_batch_2.bin must hold records of 3073 bytes, got {cut} bytes.*{AGAIN}"
    with pytest.raises(ValueError, match=message):
        find_layout(tmp_path).read("data_batch_2")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_truncated_pickles_are_refused(tmp_path: Path, share: float) -> None:
    path = write_pickles(tmp_path, fabricated()) / "test_batch"
    os.truncate(path, int(share * path.stat().st_size))
    with pytest.raises(ValueError, match="test_batch is (empty|not a complete pickle)"):
        find_layout(tmp_path).read("test_batch")


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("label", [10, 255])
def test_labels_beyond_the_classes_are_refused(tmp_path: Path, kind: str, label: int) -> None:
    batches = fabricated()
    batches["data_batch_1"][1][4] = label
    WRITERS[kind](tmp_path, batches)
    with pytest.raises(ValueError, match=rf"data_batch_1.* labels 0 .. 9, got {label}. {AGAIN}"):
        find_layout(tmp_path).read("data_batch_1")


GOOD: dict[str, Any] = {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]}


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([1], "data and labels, got list"),
        ({"data": GOOD["data"]}, "data and labels, got data"),
        (GOOD | {"data": [1]}, r"uint8 of shape \(n, 3072\), got int64 of shape \(1,\)"),
        (GOOD | {"data": [[1], [2, 3]]}, r"got object of shape \(2,\)"),
        (GOOD | {"data": None}, r"got object of shape \(\)"),
        (GOOD | {"data": GOOD["data"][:, :9]}, r"got uint8 of shape \(2, 9\)"),
        (GOOD | {"data": np.zeros((2, 3072))}, r"got float64 of shape \(2, 3072\)"),
        (GOOD | {"data": GOOD["data"][:0], "labels": []}, r"got uint8 of shape \(0, 3072\)"),
        (GOOD | {"labels": [0]}, r"a label for each of 2 images, got int64 of shape \(1,\)"),
        (GOOD | {"labels": [0.5, 1.0]}, "a label for each of 2 images, got float64"),
        (GOOD | {"labels": [0, [1]]}, r"got object of shape \(2,\): \[0, \[1\]\]"),
        (GOOD | {"labels": None}, r"got object of shape \(\): None"),
        (GOOD | {"labels": [0, -1]}, r"labels 0 .. 9, got -1"),
    ],
)
def test_batches_of_other_content_are_refused(tmp_path: Path, held: Any, message: str) -> None:
    path = write_pickles(tmp_path, fabricated()) / "data_batch_5"
    path.write_bytes(pickle.dumps(held))
    with pytest.raises(ValueError, match=f"data_batch_5 must hold .*{message}.*{AGAIN}"):
        find_layout(tmp_path).read("data_batch_5")


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("names", [CLASSES[:9], [*CLASSES[:9], "cat"]])
def test_any_other_number_of_classes_is_refused(
    tmp_path: Path, kind: str, names: list[str]
) -> None:
    WRITERS[kind](tmp_path, fabricated())
    layout = find_layout(tmp_path)
    if kind == "records":
        layout.meta.write_text("\n".join(names))
    else:
        layout.meta.write_bytes(pickle.dumps({"label_names": names}))
    with pytest.raises(ValueError, match=rf"batches.meta.* must name 10 classes, got 9. {AGAIN}"):
        layout.classes()


@pytest.mark.parametrize(
    "names", [None, 3, "abcdefghij", {"a": 1}, [*CLASSES[:9], 9], [*CLASSES[:9], None]]
)
def test_class_names_must_be_a_list_of_names(tmp_path: Path, names: Any) -> None:
    layout = find_layout(write_pickles(tmp_path, fabricated()))
    layout.meta.write_bytes(pickle.dumps({"label_names": names}))
    shown = re.escape(brief(names))
    message = f"batches.meta must hold label_names as a list of names, got {shown}. {AGAIN}"
    with pytest.raises(ValueError, match=message):
        layout.classes()


def test_class_names_may_be_any_bytes(tmp_path: Path) -> None:
    layout = find_layout(write_pickles(tmp_path, fabricated()))
    names = [name.encode() for name in CLASSES[:9]]
    layout.meta.write_bytes(pickle.dumps({"label_names": [*names, b"\xff"]}))
    assert layout.classes() == [*CLASSES[:9], r"\xff"]


def test_class_names_that_are_not_text_are_refused(tmp_path: Path) -> None:
    layout = find_layout(write_records(tmp_path, fabricated()))
    layout.meta.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"batches.meta.txt must be a text file .* Delete it"):
        layout.classes()
    layout = find_layout(write_pickles(tmp_path, fabricated()))
    layout.meta.write_bytes(pickle.dumps({"labels": 1}))
    with pytest.raises(ValueError, match="batches.meta must hold label_names, got labels. Delete"):
        layout.classes()

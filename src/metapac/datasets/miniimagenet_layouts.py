"""The layouts in which mini-ImageNet is passed on: csv files, a folder per class, pickles."""

from __future__ import annotations

import csv
import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metapac.datasets import pickles
from metapac.datasets.images import image_files, read_images

SIZE = 84
SPLITS = ("train", "val", "test")
REMEDY = "Run 'metapac data fetch miniimagenet' to be told where to get it."

Array = NDArray[Any]

_CSV = {split: f"{split}.csv" for split in SPLITS}
_CACHE = {split: f"mini-imagenet-cache-{split}.pkl" for split in SPLITS}
_CATEGORY = {  # of 'Dynamic few-shot visual learning without forgetting', used by many since
    "train": "miniImageNet_category_split_train_phase_train.pickle",
    "val": "miniImageNet_category_split_val.pickle",
    "test": "miniImageNet_category_split_test.pickle",
}
_SHOWN = 5


class Split(Protocol):
    """The images of a split, by class."""

    def sizes(self) -> dict[str, int]:
        """Return the classes and how many images each has."""

    def pixels(self, classes: Sequence[str]) -> Iterator[Array]:
        """Yield the images of these classes, one after the other, in blocks."""


class Layout(Protocol):
    """One way in which the images of the three splits lie in a folder."""

    @property
    def name(self) -> str:
        """What the layout is called."""

    @property
    def total(self) -> int | None:
        """How many images there are, where that is known before they are read."""

    def files(self) -> list[Path]:
        """Return every file that is read."""

    def read(self, split: str) -> Split:
        """Return a split; all that it takes in memory goes when it does."""


@dataclass(frozen=True)
class ImageSplit:
    """Image files, by class."""

    paths: Mapping[str, list[Path]]

    def sizes(self) -> dict[str, int]:
        return {name: len(paths) for name, paths in self.paths.items()}

    def pixels(self, classes: Sequence[str]) -> Iterator[Array]:
        return read_images([path for name in classes for path in self.paths[name]], SIZE)


@dataclass(frozen=True)
class ImageFiles:
    """Image files, by split and class."""

    name: str
    paths: Mapping[str, Mapping[str, list[Path]]]
    lists: Sequence[Path] = ()  # the csv files that name them

    @property
    def total(self) -> int:
        return len(self.files()) - len(self.lists)

    def files(self) -> list[Path]:
        images = [path for own in self.paths.values() for some in own.values() for path in some]
        return [*self.lists, *images]

    def read(self, split: str) -> Split:
        return ImageSplit(self.paths[split])


@dataclass(frozen=True)
class PickledSplit:
    """All images in one array, and the rows of each class."""

    images: Array
    rows: Mapping[str, Array]

    def sizes(self) -> dict[str, int]:
        return {name: len(own) for name, own in self.rows.items()}

    def pixels(self, classes: Sequence[str]) -> Iterator[Array]:
        return (self.images[self.rows[name]] for name in classes)


@dataclass(frozen=True)
class Pickles:
    """A pickle for each split."""

    name: str
    paths: Mapping[str, Path]
    total: None = None

    def files(self) -> list[Path]:
        return list(self.paths.values())

    def read(self, split: str) -> Split:
        return _unpickled(self.paths[split], split)


def find_layout(folder: Path) -> Layout:
    """Return the layout of a folder, or of the one folder in it that has one."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder. {REMEDY}")
    for place in (folder, *_folders(folder)):
        for names, build in ((_CSV, _from_csv), (_CACHE, _pickled), (_CATEGORY, _pickled)):
            if any((place / name).is_file() for name in names.values()):
                return build(place, _all_there(place, names))
        if all((place / split).is_dir() for split in SPLITS):
            return _from_folders(place)
    raise FileNotFoundError(
        f"{folder} holds mini-ImageNet in no known layout: images/ with train.csv, val.csv and "
        "test.csv; train/, val/ and test/ with a folder per class; or "
        f"{_CACHE['train']} and its like. {REMEDY}"
    )


def _all_there(place: Path, names: Mapping[str, str]) -> dict[str, Path]:
    paths = {split: place / name for split, name in names.items()}
    absent = [path.name for path in paths.values() if not path.is_file()]
    if absent:
        raise FileNotFoundError(f"{place} lacks {' and '.join(absent)}. {REMEDY}")
    return paths


def _pickled(place: Path, paths: dict[str, Path]) -> Layout:
    return Pickles("pickled caches", paths)


def _from_folders(place: Path) -> Layout:
    found = {}
    for split in SPLITS:
        found[split] = {path.name: image_files(path) for path in _folders(place / split)}
        empty = [str(place / split / name) for name, own in found[split].items() if not own]
        if empty or not found[split]:
            raise ValueError(
                f"{', '.join(empty[:_SHOWN]) or place / split} has no images. Put the images of "
                "each class into its folder, or remove the folder."
            )
    return ImageFiles("a folder per class", found)


def _from_csv(place: Path, lists: dict[str, Path]) -> Layout:
    known = _images_near(place)
    listed: dict[Path, str] = {}
    found = {split: _listed(path, known, listed) for split, path in lists.items()}
    return ImageFiles("images with csv files", found, tuple(lists.values()))


def _images_near(place: Path) -> set[Path]:
    """Return the images in a folder, in its folders and in those of images/."""
    folders = [place, *_folders(place)]
    if place / "images" in folders:
        folders += _folders(place / "images")
    return {path for folder in folders for path in image_files(folder)}


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder without asking each of 60,000 files what it is."""
    with os.scandir(folder) as entries:
        return sorted(folder / entry.name for entry in entries if entry.is_dir())


def _listed(path: Path, known: set[Path], listed: dict[Path, str]) -> dict[str, list[Path]]:
    """Return the images that a csv file names, by class; ``listed`` gains where each is named."""
    classes: dict[str, list[Path]] = {}
    absent, total = [], 0
    for line, row in _rows(path):
        name, label = row.get("filename"), row.get("label")
        if not name or not label:
            raise ValueError(
                f"{path}, line {line} must hold a filename and a label, got {row}. {REMEDY}"
            )
        total += 1
        image = _resolved(path.parent, name, label, known)
        if image is None:
            absent.append(name)
            continue
        _note(listed, image, f"{path.name}, line {line} as {label!r}")
        classes.setdefault(label, []).append(image)
    if not total:
        raise ValueError(f"{path} names no image. {REMEDY}")
    _refuse_absent(path, absent, total)
    return classes


def _resolved(place: Path, name: str, label: str, known: set[Path]) -> Path | None:
    """Return the image of a line: in images/, in its label's folder there, or without images/."""
    for parts in (("images", name), ("images", label, name), (name,), (label, name)):
        image = place.joinpath(*parts)
        if image in known:
            return image
    return None


def _note(listed: dict[Path, str], image: Path, where: str) -> None:
    if image in listed:
        raise ValueError(
            f"{image} must be listed once, got {listed[image]} and {where}. Take the three files "
            "from one source, or remove one of the lines."
        )
    listed[image] = where


def _refuse_absent(path: Path, absent: Sequence[str], total: int) -> None:
    if absent:
        images = path.parent / "images"
        more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        raise FileNotFoundError(
            f"{path} names {len(absent)} of {total} images that are not in "
            f"{images if images.is_dir() else path.parent}, nor in a folder of their label there: "
            f"{', '.join(absent[:_SHOWN])}{more}. Put them there."
        )


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the lines of a csv file below its first, with their numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if not {"filename", "label"} <= set(reader.fieldnames or ()):
                raise ValueError(
                    f"{path} must begin with the line filename,label, got "
                    f"{','.join(reader.fieldnames or ()) or 'nothing'}. {REMEDY}"
                )
            for row in reader:
                yield reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a csv file ({error}). {REMEDY}") from error


def _unpickled(path: Path, split: str) -> PickledSplit:
    held = pickles.load(path)
    if isinstance(held, dict) and {"image_data", "class_dict"} <= set(held):
        images = _pictures(path, held["image_data"])
        return PickledSplit(images, _rows_by_class(path, held["class_dict"], len(images)))
    if isinstance(held, dict) and {"data", "labels"} <= set(held):
        images = _pictures(path, held["data"])
        return PickledSplit(images, _rows_by_label(path, held["labels"], len(images), split))
    raise ValueError(
        f"{path} must hold image_data and class_dict, or data and labels, got "
        f"{', '.join(map(str, held)) if isinstance(held, dict) else type(held).__name__}. {REMEDY}"
    )


def _pictures(path: Path, value: Any) -> Array:
    images = _array(value)
    if images.dtype != np.uint8 or images.shape[1:] != (SIZE, SIZE, 3) or not len(images):
        raise ValueError(
            f"{path} must hold images of {SIZE} x {SIZE} x 3 as uint8, got {images.dtype} of shape "
            f"{images.shape}. {REMEDY}"
        )
    return images


def _rows_by_class(path: Path, value: Any, total: int) -> dict[str, Array]:
    if not isinstance(value, dict) or not value or not all(isinstance(key, str) for key in value):
        raise ValueError(
            f"{path} must have a class_dict of {{class name: rows}}, got {reprlib.repr(value)}. "
            f"{REMEDY}"
        )
    rows = {name: _array(own) for name, own in value.items()}
    for name, own in rows.items():
        if not _integers(own) or not len(own) or own.min() < 0 or own.max() >= total:
            raise ValueError(
                f"{path}, class {name!r} must list some of the rows 0 .. {total - 1}, got "
                f"{reprlib.repr(value[name])}. {REMEDY}"
            )
    _refuse_twice(path, rows)
    return rows


def _refuse_twice(path: Path, rows: Mapping[str, Array]) -> None:
    owners: dict[int, str] = {}
    for name, own in rows.items():
        for row in own.tolist():
            if row in owners:
                raise ValueError(
                    f"{path} must have an image in one class, once, got row {row} in "
                    f"{owners[row]!r} and in {name!r}. {REMEDY}"
                )
            owners[row] = name


def _rows_by_label(path: Path, value: Any, total: int, split: str) -> dict[str, Array]:
    labels = _array(value)
    if not _integers(labels) or len(labels) != total:
        raise ValueError(
            f"{path} must hold labels, an integer for each of {total} images, got {labels.dtype} "
            f"of shape {labels.shape}: {reprlib.repr(value)}. {REMEDY}"
        )
    # Such a file numbers its classes, each split on its own.
    return {f"{split} {label}": np.flatnonzero(labels == label) for label in np.unique(labels)}


def _integers(array: Array) -> bool:
    return array.ndim == 1 and array.dtype.kind in "iu"


def _array(value: Any) -> Array:
    """Return a value as an array, which is one of objects where it is ragged."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.empty(len(value), object)

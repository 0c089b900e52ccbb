"""The layouts in which mini-ImageNet is passed on: csv files, a folder per class, pickles."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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

    def sizes(self, split: str) -> dict[str, int]:
        """Return the classes of a split and how many images each has."""

    def pixels(self, split: str, classes: Sequence[str]) -> Iterator[Array]:
        """Yield the images of these classes, one after the other, in blocks."""


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

    def sizes(self, split: str) -> dict[str, int]:
        return {name: len(paths) for name, paths in self.paths[split].items()}

    def pixels(self, split: str, classes: Sequence[str]) -> Iterator[Array]:
        return read_images([path for name in classes for path in self.paths[split][name]], SIZE)


@dataclass(frozen=True)
class Pickles:
    """A pickle for each split, with all its images in one array."""

    name: str
    paths: Mapping[str, Path]
    total: None = None

    def files(self) -> list[Path]:
        return list(self.paths.values())

    def sizes(self, split: str) -> dict[str, int]:
        return {name: len(rows) for name, rows in _unpickled(self.paths[split], split)[1].items()}

    def pixels(self, split: str, classes: Sequence[str]) -> Iterator[Array]:
        images, rows = _unpickled(self.paths[split], split)
        return (images[rows[name]] for name in classes)


def find_layout(folder: Path) -> Layout:
    """Return the layout of a folder, or of the one folder in it that has one."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder. {REMEDY}")
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    for place in (folder, *inside):
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
        classes = sorted(path for path in (place / split).iterdir() if path.is_dir())
        found[split] = {path.name: image_files(path) for path in classes}
        empty = [str(place / split / name) for name, own in found[split].items() if not own]
        if empty or not found[split]:
            raise ValueError(
                f"{', '.join(empty[:_SHOWN]) or place / split} has no images. Put the images of "
                "each class into its folder, or remove the folder."
            )
    return ImageFiles("a folder per class", found)


def _from_csv(place: Path, lists: dict[str, Path]) -> Layout:
    images = place / "images" if (place / "images").is_dir() else place
    known = {path.name: path for path in image_files(images)}
    for folder in (path for path in images.iterdir() if path.is_dir()):
        known |= {path.name: path for path in image_files(folder)}
    found = {split: _listed(path, known, images) for split, path in lists.items()}
    return ImageFiles("images with csv files", found, tuple(lists.values()))


def _listed(path: Path, known: Mapping[str, Path], images: Path) -> dict[str, list[Path]]:
    """Return the images that a csv file names, by class."""
    classes: dict[str, dict[str, None]] = {}
    for number, row in enumerate(_rows(path), start=2):
        name, label = row.get("filename"), row.get("label")
        if not name or not label:
            raise ValueError(
                f"{path}, line {number} must hold a filename and a label, got {row}. {REMEDY}"
            )
        classes.setdefault(label, {})[name] = None
    names = [name for own in classes.values() for name in own]
    if not names:
        raise ValueError(f"{path} names no image. {REMEDY}")
    absent = [name for name in names if name not in known]
    if absent:
        more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        raise FileNotFoundError(
            f"{path} names {len(absent)} of {len(names)} images that are not in {images}: "
            f"{', '.join(absent[:_SHOWN])}{more}. Put them there."
        )
    return {label: [known[name] for name in own] for label, own in classes.items()}


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if not {"filename", "label"} <= set(reader.fieldnames or ()):
                raise ValueError(
                    f"{path} must begin with the line filename,label, got "
                    f"{','.join(reader.fieldnames or ()) or 'nothing'}. {REMEDY}"
                )
            yield from reader
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a csv file ({error}). {REMEDY}") from error


@lru_cache(maxsize=1)  # a split is asked for its sizes, then for its pixels
def _unpickled(path: Path, split: str) -> tuple[Array, dict[str, Array]]:
    """Return the images of a pickle and the rows of each class."""
    held = pickles.load(path)
    if isinstance(held, dict) and {"image_data", "class_dict"} <= set(held):
        images, rows = held["image_data"], held["class_dict"]
    elif isinstance(held, dict) and {"data", "labels"} <= set(held):
        # These number their classes, each split on its own.
        labels = np.asarray(held["labels"])
        images = held["data"]
        rows = {f"{split} {label}": np.flatnonzero(labels == label) for label in np.unique(labels)}
    else:
        raise ValueError(
            f"{path} must hold image_data and class_dict, or data and labels, got "
            f"{', '.join(map(str, held)) if isinstance(held, dict) else type(held).__name__}. "
            f"{REMEDY}"
        )
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.shape[1:] != (SIZE, SIZE, 3):
        raise ValueError(
            f"{path} must hold images of {SIZE} x {SIZE} x 3 as uint8, got {images.dtype} of shape "
            f"{images.shape}. {REMEDY}"
        )
    rows = {_text(name): np.asarray(own, np.int64) for name, own in rows.items()}
    ends = [(own.min(), own.max()) for own in rows.values() if len(own)]
    if not ends or min(low for low, _ in ends) < 0 or max(top for _, top in ends) >= len(images):
        raise ValueError(
            f"{path} has classes whose images are not among its {len(images)}. {REMEDY}"
        )
    return images, rows


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)

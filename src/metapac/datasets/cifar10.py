"""CIFAR-10 in both layouts of its publisher: pickled batches, and binary records."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac.datasets import pickles

TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = "test_batch"
BATCHES = (*TRAIN, TEST)
SHAPE = (3, 32, 32)  # channels, height, width, as both layouts store a picture
CLASSES = 10

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

_FOLDERS = {False: "cifar-10-batches-py", True: "cifar-10-batches-bin"}
_PIXELS = 3 * 32 * 32
_REMEDY = "Delete it and run 'metapac data fetch cifar10c' again."


@dataclass(frozen=True)
class Layout:
    """A folder with the batches, as pickles or as binary records."""

    folder: Path
    binary: bool

    @property
    def name(self) -> str:
        return "binary records" if self.binary else "pickled batches"

    @property
    def meta(self) -> Path:
        return self.folder / ("batches.meta.txt" if self.binary else "batches.meta")

    def batch(self, name: str) -> Path:
        return self.folder / (f"{name}.bin" if self.binary else name)

    def files(self) -> list[Path]:
        return [self.meta, *map(self.batch, BATCHES)]

    def absent(self) -> list[str]:
        return [path.name for path in self.files() if not path.is_file()]

    def lacks(self) -> str:
        """Return what is not in the folder, and what to do; nothing if all is there."""
        absent = self.absent()
        if not absent:
            return ""
        return (
            f"lacks {', '.join(absent)} of CIFAR-10. Run 'metapac data fetch cifar10c', or unpack "
            "cifar-10-python.tar.gz or cifar-10-binary.tar.gz there."
        )

    def missing(self) -> list[str]:
        """Return what is not there, in a sentence that names the folder; nothing if all is."""
        lacks = self.lacks()
        return [f"{self.folder} {lacks}"] if lacks else []

    def classes(self) -> list[str]:
        """Return the names of the ten classes, in the order of their labels."""
        names = _lines(self.meta) if self.binary else _label_names(self.meta)
        if len(set(names)) != CLASSES or len(names) != CLASSES:
            raise ValueError(
                f"{self.meta} must name {CLASSES} classes, got {len(set(names))}. {_REMEDY}"
            )
        return names

    def read(self, name: str) -> tuple[Images, Labels]:
        """Return the pictures of a batch, (n, 3, 32, 32), and their labels."""
        path = self.batch(name)
        images, labels = _records(path) if self.binary else _unpickled(path)
        outside = labels[(labels < 0) | (labels >= CLASSES)]
        if len(outside):
            raise ValueError(
                f"{path} must hold labels 0 .. {CLASSES - 1}, got {outside[0]}. {_REMEDY}"
            )
        return images.reshape(-1, *SHAPE), labels


def find_layout(folder: Path) -> Layout:
    """Return the layout in ``folder``, or in the publisher's folder within it, most complete."""
    places = [
        Layout(place, binary)
        for binary in _FOLDERS
        for place in (folder / _FOLDERS[binary], folder)
    ]
    return min(places, key=lambda layout: (len(layout.absent()), layout.folder != folder))


def _records(path: Path) -> tuple[Images, Labels]:
    """Read records of a label and the pixels, a byte each."""
    size = path.stat().st_size
    if not size or size % (1 + _PIXELS):
        raise ValueError(
            f"{path} must hold records of {1 + _PIXELS} bytes, got {size} bytes: it is empty or "
            f"truncated. {_REMEDY}"
        )
    records = np.fromfile(path, np.uint8).reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)


def _unpickled(path: Path) -> tuple[Images, Labels]:
    held = _dictionary(path, "data", "labels")
    images, labels = _array(held["data"]), _array(held["labels"])
    if images.dtype != np.uint8 or images.shape[1:] != (_PIXELS,) or not len(images):
        raise ValueError(
            f"{path} must hold pictures as uint8 of shape (n, {_PIXELS}), got {images.dtype} of "
            f"shape {images.shape}. {_REMEDY}"
        )
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{path} must hold a label for each of {len(images)} pictures, got {labels.dtype} of "
            f"shape {labels.shape}: {reprlib.repr(held['labels'])}. {_REMEDY}"
        )
    return images, labels.astype(np.int64)


def _label_names(path: Path) -> list[str]:
    names = _dictionary(path, "label_names")["label_names"]
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise ValueError(
            f"{path} must hold label_names as a list of names, got {reprlib.repr(names)}. {_REMEDY}"
        )
    return [
        name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
        for name in names
    ]


def _array(value: Any) -> NDArray[Any]:
    """Return a value as an array, which is one of objects where it is ragged."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.empty(len(value), object)


def _dictionary(path: Path, *keys: str) -> dict[str, Any]:
    held = pickles.load(path)
    if not isinstance(held, dict) or not set(keys) <= held.keys():
        found = ", ".join(map(str, held)) if isinstance(held, dict) else type(held).__name__
        raise ValueError(f"{path} must hold {' and '.join(keys)}, got {found}. {_REMEDY}")
    return held


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a text file ({error}). {_REMEDY}") from error

"""CIFAR-10 in both layouts of its publisher: pickled batches, and binary records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac._types import Counts
from metapac.datasets.store import pickles
from metapac.exceptions import InvalidInput

BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
Images = NDArray[np.uint8]

_SHAPE = (3, 32, 32)  # channels, height, width, as both layouts store an image
_PIXELS = 3 * 32 * 32
_CLASSES = 10
_FOLDERS = {False: "cifar-10-batches-py", True: "cifar-10-batches-bin"}
_REMEDY = "Delete it and run 'metapac data fetch cifar10c' again."


@dataclass(frozen=True)
class Layout:
    """A folder with the batches.

    Attributes
    ----------
    folder : Path
        The folder.
    binary : bool
        Whether the batches are binary records rather than pickles.
    """

    folder: Path
    binary: bool

    @property
    def name(self) -> str:
        """Kind of layout."""
        return "binary records" if self.binary else "pickled batches"

    @property
    def files(self) -> list[Path]:
        """Every file that is read."""
        return [self.meta, *map(self._batch, BATCHES)]

    @property
    def meta(self) -> Path:
        """File with the names of the classes."""
        return self.folder / ("batches.meta.txt" if self.binary else "batches.meta")

    def _batch(self, name: str) -> Path:
        return self.folder / (f"{name}.bin" if self.binary else name)

    @property
    def absent(self) -> list[str]:
        """Names of the files that are not there."""
        return [path.name for path in self.files if not path.is_file()]

    @property
    def shortage(self) -> str:
        """What the folder lacks, and what to do; empty if everything is there."""
        if not self.absent:
            return ""
        return (
            f"lacks {', '.join(self.absent)} of CIFAR-10. Run 'metapac data fetch cifar10c', or "
            "unpack cifar-10-python.tar.gz or cifar-10-binary.tar.gz there."
        )

    def classes(self) -> list[str]:
        """Return the names of the ten classes.

        Returns
        -------
        list of str
            Names, in the order of their labels.
        """
        names = _read_words(self.meta) if self.binary else _read_label_names(self.meta)
        if len(set(names)) != _CLASSES or len(names) != _CLASSES:
            raise InvalidInput(
                f"{self.meta} must name {_CLASSES} classes, got {len(set(names))}. {_REMEDY}"
            )
        return names

    def read(self, name: str) -> tuple[Images, Counts]:
        """Return the images of a batch and their labels.

        Parameters
        ----------
        name : str
            Name of the batch.

        Returns
        -------
        images : ndarray of uint8, shape (n, 3, 32, 32)
            Pixels.
        labels : ndarray of int, shape (n,)
            Labels from 0 to 9.
        """
        path = self._batch(name)
        images, labels = _read_records(path) if self.binary else _read_pickle(path)
        outside = labels[(labels < 0) | (labels >= _CLASSES)]
        if len(outside):
            raise InvalidInput(
                f"{path} must hold labels 0 .. {_CLASSES - 1}, got {outside[0]}. {_REMEDY}"
            )
        return images.reshape(-1, *_SHAPE), labels


def find_layout(folder: Path) -> Layout:
    """Return the most complete layout in a folder or in the publisher's subfolder.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    Layout
        The layout, which may lack files.
    """
    places = [
        Layout(place, binary)
        for binary in _FOLDERS
        for place in (folder / _FOLDERS[binary], folder)
    ]
    return min(places, key=lambda layout: (len(layout.absent), layout.folder != folder))


def _read_records(path: Path) -> tuple[Images, Counts]:
    """Read records of a label and the pixels, one byte each."""
    size = path.stat().st_size
    if not size or size % (1 + _PIXELS):
        raise InvalidInput(
            f"{path} must hold records of {1 + _PIXELS} bytes, got {size} bytes: it is empty or "
            f"truncated. {_REMEDY}"
        )
    records = np.fromfile(path, np.uint8).reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)


def _read_pickle(path: Path) -> tuple[Images, Counts]:
    content = _read_dict(path, "data", "labels")
    images, labels = (pickles.as_array(content[key]) for key in ("data", "labels"))
    if images.dtype != np.uint8 or images.shape[1:] != (_PIXELS,) or not len(images):
        raise InvalidInput(
            f"{path} must hold images as uint8 of shape (n, {_PIXELS}), got {images.dtype} of "
            f"shape {images.shape}. {_REMEDY}"
        )
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise InvalidInput(
            f"{path} must hold a label for each of {len(images)} images, got {labels.dtype} of "
            f"shape {labels.shape}: {_checks.brief(content['labels'])}. {_REMEDY}"
        )
    return images, labels.astype(np.int64)


def _read_label_names(path: Path) -> list[str]:
    names = _read_dict(path, "label_names")["label_names"]
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise InvalidInput(
            f"{path} must hold label_names as a list of names, got {_checks.brief(names)}. "
            f"{_REMEDY}"
        )
    return [
        name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
        for name in names
    ]


def _read_dict(path: Path, *keys: str) -> dict[str, Any]:
    content = pickles.load(path)
    if not isinstance(content, dict) or not set(keys) <= content.keys():
        kind = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise InvalidInput(f"{path} must hold {' and '.join(keys)}, got {kind}. {_REMEDY}")
    return content


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} must be a text file ({error}). {_REMEDY}") from error

"""CIFAR10-C: sequences of corruptions of CIFAR-10."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac._common import (
    Counts,
    PathLike,
    Progress,
    as_whole_number,
    brief,
    ignore_progress,
    require,
)
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache, pickles
from metapac.fewshot.pools import ClassPool, Pools

BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
Images = NDArray[np.uint8]

_SHAPE = (3, 32, 32)  # channels, height, width, as both layouts store an image
_PIXELS = 3 * 32 * 32
_CLASSES = 10
_FOLDERS = {False: "cifar-10-batches-py", True: "cifar-10-batches-bin"}
_REMEDY = "Delete it and run 'metapac data fetch cifar10c' again."


@dataclass(frozen=True)
class Layout:
    """A folder with the batches."""

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
        """Return the names of the ten classes."""
        names = _read_words(self.meta) if self.binary else _read_label_names(self.meta)
        if len(set(names)) != _CLASSES or len(names) != _CLASSES:
            raise InvalidInput(
                f"{self.meta} must name {_CLASSES} classes, got {len(set(names))}. {_REMEDY}"
            )
        return names

    def read(self, name: str) -> tuple[Images, Counts]:
        """Return the images of a batch and their labels."""
        path = self._batch(name)
        images, labels = _read_records(path) if self.binary else _read_pickle(path)
        outside = labels[(labels < 0) | (labels >= _CLASSES)]
        if len(outside):
            raise InvalidInput(
                f"{path} must hold labels 0 .. {_CLASSES - 1}, got {outside[0]}. {_REMEDY}"
            )
        return images.reshape(-1, *_SHAPE), labels


def find_layout(folder: Path) -> Layout:
    """Return the most complete layout in a folder or in the publisher's subfolder."""
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
            f"shape {labels.shape}: {brief(content['labels'])}. {_REMEDY}"
        )
    return images, labels.astype(np.int64)


def _read_label_names(path: Path) -> list[str]:
    names = _read_dict(path, "label_names")["label_names"]
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise InvalidInput(
            f"{path} must hold label_names as a list of names, got {brief(names)}. {_REMEDY}"
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


NAME = "cifar10c"

_SPLITS = {"train": BATCHES[:4], "calibration": BATCHES[4:5], "test": BATCHES[5:]}
_PUBLISHED = 10_000  # images in a batch


def cifar10c(*, validation: int = 5000, home: cache.Home = None) -> Pools[ClassPool]:
    """Return the prepared CIFAR-10 as pools of ten classes, whose tasks differ by corruptions.

    data_batch_1 to 4 are the training and validation pools, data_batch_5 is the calibration pool
    and test_batch the test pool; no image is in two pools. The corruptions of a task are drawn
    i.i.d. from one distribution in all of them, as in the paper.

    Parameters
    ----------
    validation : int, optional
        Number of images to set aside for validation, evenly from the classes.
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.

    Returns
    -------
    Pools
        Pools of images, uint8 (3, 32, 32), memory-mapped, with random corruptions as transform.

    Raises
    ------
    FileNotFoundError
        If the data are not prepared.
    MissingExtra
        If torch is not installed.

    Examples
    --------
    Prepare batches of ten black images, then load them:

    >>> import pathlib, tempfile
    >>> from metapac.fewshot import cifar10c
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
    >>> with tempfile.TemporaryDirectory() as home:
    ...     folder = pathlib.Path(home)
    ...     _ = (folder / "batches.meta.txt").write_text("a b c d e f g h i j")
    ...     for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
    ...                  "data_batch_5", "test_batch"):
    ...         records = b"".join(bytes([label]) + bytes(3072) for label in range(10))
    ...         _ = (folder / f"{name}.bin").write_bytes(records)
    ...     _ = get_data_set("cifar10c").prepare(folder, home=home)
    ...     pools = cifar10c(validation=10, home=home)
    >>> pools.train, pools.test
    (<ClassPool 'train': 10 classes, 30 examples>, <ClassPool 'test': 10 classes, 10 examples>)
    """
    corruptions = require("metapac.fewshot.datasets.corruptions", extra="torch", purpose="cifar10c")
    data = cache.open_prepared(NAME, home)
    sizes = {split: facts["examples"] for split, facts in data.facts["splits"].items()}
    validation = as_whole_number("validation", validation, minimum=0)
    if validation >= sizes["train"]:
        raise InvalidInput(
            f"validation must leave some of the {sizes['train']} images of data_batch_1 to 4 to "
            f"train on, got {validation}."
        )
    names = np.array(data.facts["classes"])
    pools, start = {}, 0
    for pool, size in {
        "train": sizes["train"] - validation,
        "validation": validation,
        "calibration": sizes["calibration"],
        "test": sizes["test"],
    }.items():
        if size:
            x, y = (data[array][start : start + size] for array in "xy")
            transform = corruptions.random_corruptions
            pools[pool] = ClassPool(x, names[y], name=pool, transform=transform)
        start += size
    return Pools(**pools)


def missing(folder: PathLike) -> list[str]:
    """Return which files of CIFAR-10 are missing from a folder."""
    layout = find_layout(Path(folder))
    return [f"{layout.folder} {layout.shortage}"] if layout.shortage else []


def prepare(
    folder: PathLike, *, home: cache.Home = None, progress: Progress | None = None
) -> cache.Prepared:
    """Convert the published batches, pickled or binary, into images and labels.

    The images of a split are ordered so that any number of images at its end has the classes in
    equal shares. A validation pool is then a slice, not a copy.
    """
    layout = find_layout(Path(folder))
    if layout.shortage:
        raise FileNotFoundError(errno.ENOENT, layout.shortage, str(layout.folder))
    fill = partial(_fill, layout=layout, progress=progress or ignore_progress)
    return cache.prepare(NAME, layout.files, fill, home=home)


def _fill(writer: cache.Writer, layout: Layout, progress: Progress) -> dict[str, Any]:
    classes = layout.classes()
    sizes: dict[str, int] = {}
    counts: dict[str, Counts] = {}
    for split, names in _SPLITS.items():
        batches = {}
        for name in names:
            batches[name] = layout.read(name)
            sizes[name] = len(batches[name][1])
            progress("reading batches", len(sizes), len(BATCHES))
        counts[split] = np.bincount(_append(writer, batches), minlength=len(classes))
    total = np.sum(list(counts.values()), axis=0)
    return {
        "layout": layout.name,
        "classes": classes,
        "counts": dict(zip(classes, total.tolist(), strict=True)),
        "splits": {split: cache.describe_counts(n.tolist()) for split, n in counts.items()},
        "notes": _differences(sizes),
    }


def _append(writer: cache.Writer, batches: dict[str, tuple[Images, Counts]]) -> Counts:
    """Write the batches of a split; return their labels."""
    y = np.concatenate([labels for _, labels in batches.values()])
    x = np.concatenate([images for images, _ in batches.values()])
    numbers = [BATCHES.index(name) for name in batches]
    part = np.repeat(numbers, [len(labels) for _, labels in batches.values()])
    order = _stratified_tail_order(y)
    for rows in np.array_split(order, len(batches)):
        writer.append("x", x[rows])
    writer.append("y", y[order])
    writer.append("part", part[order].astype(np.uint8))
    return y


def _stratified_tail_order(y: Counts) -> Counts:
    """Return an order in which any number of examples at the end has the classes evenly."""
    later = np.empty_like(y)  # number of examples of the same class after each example
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        later[members] = np.arange(len(members))[::-1]
    return np.lexsort((y, -later))


def _differences(sizes: dict[str, int]) -> list[str]:
    """Return how the data differ from what was published."""
    return [
        f"{name} was published with {_PUBLISHED:,} images and has {size:,} here"
        for name, size in sizes.items()
        if size != _PUBLISHED
    ]

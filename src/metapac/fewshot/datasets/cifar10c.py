"""CIFAR10-C: sequences of corruptions of CIFAR-10."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac._common import Counts, PathLike, Progress, as_whole_number, ignore_progress, require
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.pools import ClassPool, Pools

_NAME = "cifar10c"
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")

_SHAPE = (3, 32, 32)  # channels, height, width
_RECORD = 1 + 3 * 32 * 32  # bytes: the label, then the pixels
_CLASSES = 10
_PUBLISHED = 10_000  # images in a batch
_FILES = ("batches.meta.txt", *(f"{name}.bin" for name in _BATCHES))
_SPLITS = {"train": _BATCHES[:4], "calibration": _BATCHES[4:5], "test": _BATCHES[5:]}
_AGAIN = "Delete it and run 'metapac data fetch cifar10c' again."


def cifar10c(*, validation: int = 5000, home: cache.Home = None) -> Pools[ClassPool]:
    """Return the prepared CIFAR-10 as pools of ten classes, whose tasks differ by corruptions.

    data_batch_1 to 4 are the training and validation pools, data_batch_5 is the calibration pool
    and test_batch the test pool. The corruptions of all tasks are drawn i.i.d., as in the paper.

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

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from metapac.fewshot import cifar10c
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
    >>> with tempfile.TemporaryDirectory() as home:
    ...     folder = pathlib.Path(home)
    ...     _ = (folder / "batches.meta.txt").write_text("a b c d e f g h i j")
    ...     records = b"".join(bytes([label]) + bytes(3072) for label in range(10))
    ...     for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
    ...         _ = (folder / f"{name}.bin").write_bytes(records)
    ...     _ = get_data_set("cifar10c").prepare(folder, home=home)
    ...     pools = cifar10c(validation=10, home=home)
    >>> pools.train, pools.test
    (<ClassPool 'train': 10 classes, 30 examples>, <ClassPool 'test': 10 classes, 10 examples>)
    """
    corruptions = require("metapac.fewshot.datasets.corruptions", extra="torch", purpose="cifar10c")
    data = cache.open_prepared(_NAME, home)
    sizes = {split: facts["examples"] for split, facts in data.facts["splits"].items()}
    validation = as_whole_number("validation", validation, minimum=0)
    if validation >= sizes["train"]:
        raise InvalidInput(f"validation must be below {sizes['train']}, got {validation}.")
    train = {"train": sizes.pop("train") - validation, "validation": validation}
    names = np.array(data.facts["classes"])
    pools, start = {}, 0
    for pool, size in (train | sizes).items():
        if size:
            x, y = (data[array][start : start + size] for array in "xy")
            transform = corruptions.random_corruptions
            pools[pool] = ClassPool(x, names[y], name=pool, transform=transform)
        start += size
    return Pools(**pools)


def missing(folder: PathLike) -> list[str]:
    place, shortage = _find_batches(folder)
    return [f"{place} {shortage}"] if shortage else []


def prepare(
    folder: PathLike, *, home: cache.Home = None, progress: Progress | None = None
) -> cache.Prepared:
    """Convert the published batches; any number of images at the end of a split is stratified."""
    place, shortage = _find_batches(folder)
    if shortage:
        raise FileNotFoundError(errno.ENOENT, shortage, str(place))
    fill = partial(_fill, place=place, progress=progress or ignore_progress)
    return cache.prepare(_NAME, [place / name for name in _FILES], fill, home=home)


def _find_batches(folder: PathLike) -> tuple[Path, str]:
    """Return the folder of the batches, which may be the publisher's, and what it lacks."""
    inside = Path(folder) / "cifar-10-batches-bin"
    place = inside if inside.is_dir() else Path(folder)
    absent = [name for name in _FILES if not (place / name).is_file()]
    is_pickled = any((place / name).exists() for name in (_BATCHES[0], "cifar-10-batches-py"))
    pickled = " (the pickled version that is there is not read)" if is_pickled else ""
    remedy = "Run 'metapac data fetch cifar10c', or unpack cifar-10-binary.tar.gz there."
    text = f"lacks {', '.join(absent)} of CIFAR-10{pickled}. {remedy}"
    return place, text if absent else ""


def _fill(writer: cache.Writer, place: Path, progress: Progress) -> dict[str, Any]:
    classes = _read_classes(place / "batches.meta.txt")
    sizes: dict[str, int] = {}
    counts: dict[str, Counts] = {}
    for split, names in _SPLITS.items():
        batches = []
        for name in names:
            batches.append(_read_batch(place / f"{name}.bin"))
            sizes[name] = len(batches[-1][1])
            progress("reading batches", len(sizes), len(_BATCHES))
        x, y = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        part = np.repeat([_BATCHES.index(name) for name in names], [sizes[name] for name in names])
        order = _stratified_tail_order(y)
        for rows in np.array_split(order, len(batches)):
            writer.append("x", x[rows])
        writer.append("y", y[order])
        writer.append("part", part[order].astype(np.uint8))
        counts[split] = np.bincount(y, minlength=_CLASSES)
    total = np.sum(list(counts.values()), axis=0)
    published = f"was published with {_PUBLISHED:,} images and has"
    other = {name: size for name, size in sizes.items() if size != _PUBLISHED}
    return {
        "layout": "binary records",
        "classes": classes,
        "counts": dict(zip(classes, total.tolist(), strict=True)),
        "splits": {split: cache.describe_counts(n.tolist()) for split, n in counts.items()},
        "notes": [f"{name} {published} {size:,} here" for name, size in other.items()],
    }


def _read_classes(path: Path) -> list[str]:
    names = path.read_text("utf-8", "backslashreplace").split()
    if len(set(names)) != _CLASSES or len(names) != _CLASSES:
        raise InvalidInput(f"{path} must name {_CLASSES} classes, got {len(set(names))}. {_AGAIN}")
    return names


def _read_batch(path: Path) -> tuple[NDArray[np.uint8], Counts]:
    """Return the images of a batch and their labels."""
    size = path.stat().st_size
    if not size or size % _RECORD:
        raise InvalidInput(f"{path} must hold records of {_RECORD} bytes, got {size}. {_AGAIN}")
    records = np.fromfile(path, np.uint8).reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= _CLASSES:
        raise InvalidInput(f"{path} must hold labels 0 .. 9, got {labels.max()}. {_AGAIN}")
    return records[:, 1:].reshape(-1, *_SHAPE), labels


def _stratified_tail_order(y: Counts) -> Counts:
    """Return an order in which any number of examples at the end has the classes evenly."""
    later = np.empty_like(y)  # number of examples of the same class after each example
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        later[members] = np.arange(len(members))[::-1]
    return np.lexsort((y, -later))

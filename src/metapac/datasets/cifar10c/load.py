"""CIFAR10-C as in the paper: a task is CIFAR-10 through a random sequence of corruptions."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _checks, _optional
from metapac._types import Counts, PathLike, Progress, ignore_progress
from metapac.datasets.cifar10c.cifar10 import BATCHES, Images, Layout, find_layout
from metapac.datasets.store import cache
from metapac.exceptions import InvalidInput
from metapac.tasks.pools import ClassPool, Pools

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
    >>> from metapac.datasets import cifar10c
    >>> from metapac.datasets.catalogue import get_data_set
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
    corruptions = _optional.require(
        "metapac.datasets.cifar10c.corruptions", extra="torch", purpose="cifar10c"
    )
    data = cache.open_prepared(NAME, home)
    sizes = {split: facts["examples"] for split, facts in data.facts["splits"].items()}
    validation = _checks.as_whole_number("validation", validation, minimum=0)
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
    """Return which files of CIFAR-10 are missing from a folder.

    Parameters
    ----------
    folder : path_like
        Folder with the batches.

    Returns
    -------
    list of str
        Sentences that say what is missing and what to do; empty if nothing is.
    """
    layout = find_layout(Path(folder))
    return [f"{layout.folder} {layout.shortage}"] if layout.shortage else []


def prepare(
    folder: PathLike, *, home: cache.Home = None, progress: Progress | None = None
) -> cache.Prepared:
    """Convert the published batches, pickled or binary, into images and labels.

    The images of a split are ordered so that any number of images at its end has the classes in
    equal shares. A validation pool is then a slice, not a copy.

    Parameters
    ----------
    folder : path_like
        Folder with the batches.
    home : path_like, optional
        See `metapac.datasets.store.cache.data_home`.
    progress : callable, optional
        Called as ``progress("reading batches", done, total)``.

    Returns
    -------
    Prepared
        ``x``, uint8 (n, 3, 32, 32); ``y``, the label; and ``part``, the batch from 0 to 5.

    Raises
    ------
    FileNotFoundError
        If batches are missing.
    InvalidInput
        If a batch is damaged.
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

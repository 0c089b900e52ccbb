"""CIFAR10-C in the paper's sense: a task is CIFAR-10 through a random sequence of corruptions."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac.datasets import cache
from metapac.datasets.cifar10 import BATCHES, Images, Labels, Layout, find_layout
from metapac.tasks.pools import Change, ClassPool, Pools

NAME = "cifar10c"

_SPLITS = {"train": BATCHES[:4], "calibration": BATCHES[4:5], "test": BATCHES[5:]}
_PUBLISHED = 10_000  # pictures in a batch


def cifar10c(*, validation: int = 5000, home: cache.Home = None) -> Pools[ClassPool]:
    """Return the prepared data as pools of ten classes, whose tasks differ by their corruptions.

    data_batch_1 to 4 are the training pool, less ``validation`` pictures, the last of each class;
    data_batch_5 is the calibration pool and test_batch the test pool. No picture is in two pools.
    The corruptions of a task are drawn independently and alike in all of them, as in the paper.
    """
    change = _change()
    data = cache.opened(NAME, home)
    sizes = {split: own["examples"] for split, own in data.facts["splits"].items()}
    validation = _checks.whole_number("validation", validation, least=0)
    if validation >= sizes["train"]:
        raise ValueError(
            f"validation must leave some of the {sizes['train']} pictures of data_batch_1 to 4 to "
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
            pools[pool] = ClassPool(x, names[y], name=pool, change=change)
        start += size
    return Pools(**pools)


def _change() -> Change:
    try:
        from metapac.datasets.corruptions import random_corruptions
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "cifar10c needs torch. Install it with: pip install 'metapac[torch]'", name="torch"
        ) from error
    return random_corruptions


def missing(folder: str | os.PathLike[str]) -> list[str]:
    """Return what a folder lacks of CIFAR-10, and what to do; nothing if it can be prepared."""
    return find_layout(Path(folder)).missing()


def prepare(
    folder: str | os.PathLike[str],
    *,
    home: cache.Home = None,
    progress: cache.Progress | None = None,
) -> cache.Prepared:
    """Turn the published batches, pickled or binary, into pictures and labels in the cache.

    ``x`` is uint8 (n, 3, 32, 32), ``y`` the label, ``part`` the number of the file, 0 to 5. The
    pictures of a split come in an order of which any last ones hold the classes evenly, so that
    a validation pool can be cut off without a copy.
    """
    layout = find_layout(Path(folder))
    lacks = layout.lacks()
    if lacks:
        raise FileNotFoundError(errno.ENOENT, lacks, str(layout.folder))
    return cache.prepare(
        NAME, layout.files(), lambda writer: _fill(writer, layout, progress), home=home
    )


def _fill(writer: cache.Writer, layout: Layout, progress: cache.Progress | None) -> dict[str, Any]:
    classes = layout.classes()
    sizes: dict[str, int] = {}
    counts: dict[str, Labels] = {}
    for split, names in _SPLITS.items():
        batches = {}
        for name in names:
            batches[name] = layout.read(name)
            sizes[name] = len(batches[name][1])
            if progress is not None:
                progress(len(sizes), len(BATCHES))
        counts[split] = np.bincount(_append(writer, batches), minlength=len(classes))
    total = np.sum(list(counts.values()), axis=0)
    return {
        "layout": layout.name,
        "classes": classes,
        "counts": dict(zip(classes, total.tolist(), strict=True)),
        "splits": {split: _described(own) for split, own in counts.items()},
        "notes": _notes(sizes),
    }


def _append(writer: cache.Writer, batches: dict[str, tuple[Images, Labels]]) -> Labels:
    """Write the batches of a split; return their labels."""
    y = np.concatenate([labels for _, labels in batches.values()])
    x = np.concatenate([images for images, _ in batches.values()])
    files = [BATCHES.index(name) for name in batches]
    part = np.repeat(files, [len(labels) for _, labels in batches.values()])
    order = _even_at_the_end(y)
    for rows in np.array_split(order, len(batches)):
        writer.append("x", x[rows])
    writer.append("y", y[order])
    writer.append("part", part[order].astype(np.uint8))
    return y


def _even_at_the_end(y: Labels) -> NDArray[np.int64]:
    """Return an order of which any last ones hold the classes as evenly as can be."""
    later = np.empty_like(y)  # how many of its class come after each one
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        later[own] = np.arange(len(own))[::-1]
    return np.lexsort((y, -later))


def _described(counts: Labels) -> dict[str, int]:
    return {
        "classes": int((counts > 0).sum()),
        "examples": int(counts.sum()),
        "smallest": int(counts.min()),
        "largest": int(counts.max()),
    }


def _notes(sizes: dict[str, int]) -> list[str]:
    """Return how the data differ from those that were published."""
    return [
        f"{name} was published with {_PUBLISHED:,} pictures and has {size:,} here"
        for name, size in sizes.items()
        if size != _PUBLISHED
    ]

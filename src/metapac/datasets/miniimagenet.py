"""mini-ImageNet: 100 classes of 600 images, 84 x 84, split 64 / 16 / 20 by Ravi and Larochelle."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _checks
from metapac.datasets import cache
from metapac.datasets.miniimagenet_layouts import SPLITS, Layout, find_layout
from metapac.tasks.pools import ClassPool, Pools

NAME = "miniimagenet"

_PUBLISHED, _IMAGES = {"train": 64, "val": 16, "test": 20}, 600


def miniimagenet(*, validation: int = 0, home: cache.Home = None) -> Pools[ClassPool]:
    """Return the prepared data as pools: 64 classes to train on, 16 to calibrate on, 20 to test on.

    The paper picks the best epoch on the calibration classes. ``validation`` keeps that many of
    the training classes for it instead, so that training sees nothing of the calibration tasks.
    """
    data = cache.opened(NAME, home)
    classes = data.facts["classes"]
    validation = _checks.whole_number("validation", validation, least=0)
    if validation >= len(classes["train"]):
        raise ValueError(
            f"validation must leave some of the {len(classes['train'])} training classes to train "
            f"on, got {validation}."
        )
    border = len(classes["train"]) - validation
    members = {
        "train": classes["train"][:border],
        "validation": classes["train"][border:],
        "calibration": classes["val"],
        "test": classes["test"],
    }
    pools, first = {}, 0
    for pool, names in members.items():
        start, stop = np.searchsorted(data["y"], [first, first + len(names)])
        if names:
            labels = np.array(names)[data["y"][start:stop] - first]
            pools[pool] = ClassPool(data["x"][start:stop], labels, name=pool)
        first += len(names)
    return Pools(**pools)


def missing(folder: str | os.PathLike[str]) -> list[str]:
    """Return what a folder lacks of the layout that it comes nearest to."""
    try:
        find_layout(Path(folder))
    except (FileNotFoundError, ValueError) as error:
        return [str(error)]
    return []


def prepare(
    folder: str | os.PathLike[str],
    *,
    home: cache.Home = None,
    progress: cache.Progress | None = None,
) -> cache.Prepared:
    """Turn the published files into 84 x 84 pixels, class after class, in the cache.

    Known layouts: ``images/`` with train.csv, val.csv and test.csv; a folder per class under
    ``train/``, ``val/`` and ``test/``; and the pickled caches of the few-shot literature. Within
    a split, classes come in one random order, so that the last few are a fair choice of them.

    The csv files name an image by its place in ``images/``, or in its label's folder there; an
    image that is listed twice is refused.
    """
    layout = find_layout(Path(folder))
    return cache.prepare(
        NAME, layout.files(), lambda writer: _fill(writer, layout, progress), home=home
    )


def _fill(writer: cache.Writer, layout: Layout, progress: cache.Progress | None) -> dict[str, Any]:
    classes: dict[str, list[str]] = {}
    counts: dict[str, list[int]] = {}
    total, done, first = layout.total, 0, 0
    for split in SPLITS:
        held = layout.read(split)
        sizes = held.sizes()
        classes[split] = _shuffled(sizes)
        counts[split] = [sizes[name] for name in classes[split]]
        _refuse_shared(classes)
        for pixels in held.pixels(classes[split]):
            writer.append("x", pixels)
            done += len(pixels)
            if progress is not None:
                progress(done, total)
        del held  # before the next one is read: a pickled split is large
        numbers = np.arange(first, first + len(sizes), dtype=np.int16)
        writer.append("y", numbers.repeat(counts[split]))
        first += len(sizes)
    return {
        "layout": layout.name,
        "classes": classes,
        "splits": {split: _described(counts[split]) for split in SPLITS},
        "notes": _notes(counts),
    }


def _described(counts: list[int]) -> dict[str, int]:
    return {
        "classes": len(counts),
        "examples": sum(counts),
        "smallest": min(counts),
        "largest": max(counts),
    }


def _notes(counts: dict[str, list[int]]) -> list[str]:
    """Return how the data differ from those that were published."""
    return [
        f"{split} was published as {classes} classes of {_IMAGES} images"
        for split, classes in _PUBLISHED.items()
        if counts[split] != [_IMAGES] * classes
    ]


def _shuffled(names: Iterable[str]) -> list[str]:
    order: list[str] = np.random.default_rng(0).permutation(sorted(names)).tolist()
    return order


def _refuse_shared(classes: dict[str, list[str]]) -> None:
    for one, other in combinations(classes, 2):
        shared = sorted(set(classes[one]) & set(classes[other]))
        if shared:
            raise ValueError(
                f"{one} and {other} of mini-ImageNet must not share a class, got {shared[0]!r} in "
                "both. Take the three files from one source."
            )

"""Examples named on the command line, as pools: a data set of the paper, the glyphs, an .npz."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac.datasets import cache, cifar10c, fewrel, heart, heart_groups, miniimagenet
from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import Pools, split_classes, split_groups

Array = NDArray[Any]

_VALIDATION, _TEST = 0.16, 0.2  # of the classes or groups, as in mini-ImageNet


class Examples(NamedTuple):
    """Pools to train, validate and test on, and what else a backbone has to know of them."""

    pools: Pools[Any]
    words: Array | None = None  # vectors, where examples are sentences
    imagenet: bool = False  # whether pixels are normalised as ImageNet's
    checksum: str | None = None  # of the prepared data


def examples(data: str, *, ways: int, rng: int, home: Path | None = None) -> Examples:
    """Return the prepared data set of that name, or else a file split at random."""
    if data in _PREPARED:
        found = _PREPARED[data](rng, home)
        return found._replace(checksum=cache.opened(data, home).checksum)
    return Examples(_split(data, ways=ways, rng=rng))


def _heart(rng: int, home: Path | None) -> Pools[Any]:
    """Return the paper's years or, where other years were prepared, random state-years."""
    facts = cache.opened("heart", home).facts
    if set(range(2011, 2021)) <= set(facts["years"]):
        return heart(train=range(2011, 2014), validation=(2014,), home=home)
    count = len(facts["state-years"])
    validation, test = (max(1, round(share * count)) for share in (_VALIDATION, _TEST))
    parts = {"train": max(1, count - validation - test), "validation": validation}
    return heart_groups(**parts, calibration=0, test=test, rng=rng, home=home)


_PREPARED: dict[str, Callable[[int, Path | None], Examples]] = {
    "miniimagenet": lambda rng, home: Examples(
        miniimagenet(validation=8, home=home), imagenet=True
    ),
    "cifar10c": lambda rng, home: Examples(cifar10c(home=home)),
    "fewrel": lambda rng, home: Examples(*fewrel(validation=8, rng=rng, home=home)),
    "heart": lambda rng, home: Examples(_heart(rng, home)),
}


def _split(data: str, *, ways: int, rng: int) -> Pools[Any]:
    """Return pools for training, validation and test that share no class or group."""
    x, y, groups = _read(data)
    unit, names, least = ("classes", y, ways) if groups is None else ("groups", groups, 1)
    count = len(np.unique(names))
    validation, test = (max(least, round(share * count)) for share in (_VALIDATION, _TEST))
    if count < validation + test + least:
        raise ValueError(
            f"{data} has {count} {unit}; training, validation and test need {least} each, "
            f"{3 * least} in all, since they may not share any. Pass more data or fewer --ways."
        )
    parts = {"train": count - validation - test, "validation": validation, "calibration": 0}
    if groups is None:
        return split_classes(x, y, **parts, test=test, rng=rng)
    return split_groups(x, y, groups, **parts, test=test, rng=rng)


def _read(data: str) -> tuple[Array, Array, Array | None]:
    """Return x, y and, where each group is a task, groups."""
    if data == "glyphs":
        x, y, _ = glyphs()
        return x, y, None
    with Path(data).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(
                f"{data} is not a complete .npz file. Pass glyphs, {', '.join(_PREPARED)}, or a "
                "file written with np.savez(path, x=x, y=y)."
            )
        try:
            return _arrays(data, np.load(file, allow_pickle=False))
        except (zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{data} is damaged ({error}). Write it again.") from error


def _arrays(data: str, held: Mapping[str, Array]) -> tuple[Array, Array, Array | None]:
    if not {"x", "y"} <= set(held):
        raise ValueError(
            f"{data} must hold arrays x and y, and groups where each group is a task; it has: "
            f"{', '.join(held)}. Write it with np.savez(path, x=x, y=y)."
        )
    return held["x"], held["y"], held.get("groups")

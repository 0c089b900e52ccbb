"""Examples named on the command line, as pools: a data set of the paper, the glyphs, an .npz."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac.datasets import cifar10c, fewrel, heart, miniimagenet
from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import Pools, split_classes, split_groups

Array = NDArray[Any]

_VALIDATION, _TEST = 0.16, 0.2  # of the classes or groups, as in mini-ImageNet


class Examples(NamedTuple):
    """Pools to train, validate and test on, and the word vectors where examples are sentences."""

    pools: Pools[Any]
    words: Array | None = None


def examples(data: str, *, ways: int, rng: int) -> Examples:
    """Return the prepared data set of that name, or else a file split at random."""
    if data in _PREPARED:
        return _PREPARED[data](rng)
    return Examples(_split(data, ways=ways, rng=rng))


_PREPARED: dict[str, Callable[[int], Examples]] = {
    "miniimagenet": lambda rng: Examples(miniimagenet(validation=8)),
    "cifar10c": lambda rng: Examples(cifar10c()),
    "fewrel": lambda rng: Examples(*fewrel(validation=8, rng=rng)),
    "heart": lambda rng: Examples(heart(train=range(2011, 2014), validation=(2014,))),
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

"""mini-ImageNet: 100 classes of 600 images, 84 x 84, split 64 / 16 / 20 by Ravi and Larochelle."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _checks
from metapac._types import PathLike, Progress, ignore_progress
from metapac.datasets.miniimagenet.layouts import SPLITS, Layout, find_layout
from metapac.datasets.store import cache
from metapac.exceptions import InvalidInput
from metapac.tasks.pools import ClassPool, Pools

NAME = "miniimagenet"

_PUBLISHED, _IMAGES = {"train": 64, "val": 16, "test": 20}, 600


def miniimagenet(*, validation: int = 0, home: cache.Home = None) -> Pools[ClassPool]:
    """Return the prepared mini-ImageNet as pools: 64 training, 16 calibration, 20 test classes.

    Parameters
    ----------
    validation : int, optional
        Number of training classes to set aside for validation. (The paper selects the best epoch
        on the calibration classes; with a validation pool, training does not use them.)
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.

    Returns
    -------
    Pools
        Pools of images, uint8 (84, 84, 3), memory-mapped.

    Raises
    ------
    FileNotFoundError
        If the data are not prepared.

    Examples
    --------
    Prepare a folder of one image per class, then load it:

    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> from metapac.datasets import miniimagenet
    >>> from metapac.datasets.catalogue import get_data_set
    >>> with tempfile.TemporaryDirectory() as home:
    ...     for name in ("train/n01", "train/n02", "val/n03", "test/n04"):
    ...         folder = pathlib.Path(home, "images", name)
    ...         folder.mkdir(parents=True)
    ...         Image.new("RGB", (84, 84)).save(folder / "1.png")
    ...     _ = get_data_set("miniimagenet").prepare(pathlib.Path(home, "images"), home=home)
    ...     pools = miniimagenet(validation=1, home=home)
    >>> pools.calibration
    <ClassPool 'calibration': 1 class, 1 example>
    """
    data = cache.open_prepared(NAME, home)
    classes = data.facts["classes"]
    validation = _checks.as_whole_number("validation", validation, minimum=0)
    border = len(classes["train"]) - validation
    if border < 1:
        raise InvalidInput(
            f"validation must leave some of the {len(classes['train'])} training classes to train "
            f"on, got {validation}."
        )
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


def missing(folder: PathLike) -> list[str]:
    """Return what is missing from the layout that a folder comes closest to.

    Parameters
    ----------
    folder : path_like
        Folder with the images.

    Returns
    -------
    list of str
        Sentences that say what is missing and what to do; empty if nothing is.
    """
    try:
        find_layout(Path(folder))
    except (FileNotFoundError, ValueError) as error:
        return [str(error)]
    return []


def prepare(
    folder: PathLike, *, home: cache.Home = None, progress: Progress | None = None
) -> cache.Prepared:
    """Convert the published files into 84 x 84 pixels, class after class.

    Known layouts: ``images/`` with train.csv, val.csv and test.csv; a folder per class under
    ``train/``, ``val/`` and ``test/``; and the pickled caches of the few-shot literature. The
    classes of a split are stored in random order, so that the last few are a random subset.

    Parameters
    ----------
    folder : path_like
        Folder with the images.
    home : path_like, optional
        See `metapac.datasets.store.cache.data_home`.
    progress : callable, optional
        Called as ``progress("reading images", done, total)``.

    Returns
    -------
    Prepared
        ``x``, uint8 (n, 84, 84, 3), and ``y``, the position of the class.

    Raises
    ------
    FileNotFoundError
        If files are missing.
    InvalidInput
        If a file is damaged, an image is listed twice, or two splits share a class.
    """
    layout = find_layout(Path(folder))
    fill = partial(_fill, layout=layout, progress=progress or ignore_progress)
    return cache.prepare(NAME, layout.files, fill, home=home)


def _fill(writer: cache.Writer, layout: Layout, progress: Progress) -> dict[str, Any]:
    classes: dict[str, list[str]] = {}
    counts: dict[str, list[int]] = {}
    done, first = 0, 0
    for name in SPLITS:
        split = layout.read(name)
        classes[name] = _shuffle(split.sizes)
        counts[name] = [split.sizes[label] for label in classes[name]]
        _check_disjoint(classes)
        for pixels in split.pixels(classes[name]):
            writer.append("x", pixels)
            done += len(pixels)
            progress("reading images", done, layout.total)
        del split  # frees its memory before the next one is read
        numbers = np.arange(first, first + len(classes[name]), dtype=np.int16)
        writer.append("y", numbers.repeat(counts[name]))
        first += len(classes[name])
    return {
        "layout": layout.name,
        "classes": classes,
        "splits": {split: cache.describe_counts(counts[split]) for split in SPLITS},
        "notes": _differences(counts),
    }


def _differences(counts: dict[str, list[int]]) -> list[str]:
    """Return how the data differ from what was published."""
    return [
        f"{split} was published as {classes} classes of {_IMAGES} images"
        for split, classes in _PUBLISHED.items()
        if counts[split] != [_IMAGES] * classes
    ]


def _shuffle(names: Iterable[str]) -> list[str]:
    order: list[str] = np.random.default_rng(0).permutation(sorted(names)).tolist()
    return order


def _check_disjoint(classes: dict[str, list[str]]) -> None:
    for first, second in combinations(classes, 2):
        shared = sorted(set(classes[first]) & set(classes[second]))
        if shared:
            raise InvalidInput(
                f"{first} and {second} of mini-ImageNet must not share a class, got {shared[0]!r} "
                "in both. Take the three files from one source."
            )

"""Pools of any data set, by name or from a training run."""

from __future__ import annotations

import errno
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import numpy as np

from metapac import artefact
from metapac._common import Array, PathLike, Progress
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.cifar10c import cifar10c
from metapac.fewshot.datasets.fewrel import fewrel
from metapac.fewshot.datasets.glyphs import glyphs
from metapac.fewshot.datasets.heart import heart, heart_groups
from metapac.fewshot.datasets.heart_files import PAPER
from metapac.fewshot.datasets.images import image_folder
from metapac.fewshot.datasets.miniimagenet import miniimagenet
from metapac.fewshot.pools import ClassPool, GroupPool, Pools, split_classes, split_groups
from metapac.fewshot.tensors import data_checksum
from metapac.fewshot.vectors import load_arrays


def _is_architecture(body: dict[str, Any]) -> bool:
    parts = [body.get(name, {}) for name in ("backbone", "model")]
    is_named = isinstance(body.get("class"), str) and all(isinstance(part, dict) for part in parts)
    return is_named and artefact.fits(body.get("weights"), artefact.Size)


Architecture = Annotated[dict[str, Any], _is_architecture]


class EpochRow(TypedDict):
    """An epoch in the history of a run."""

    epoch: Annotated[artefact.Size, bool]
    loss: float
    accuracy: artefact.Share
    lr: float
    seconds: artefact.Seconds


class _Run(TypedDict):
    data: str
    data_checksum: str
    weights_checksum: NotRequired[artefact.Sha256]
    options: dict[str, Any]
    architecture: Architecture
    accuracy: artefact.Share
    accuracy_interval: NotRequired[artefact.Interval]
    pools: dict[str, list[Any]]
    left_out: NotRequired[list[Any]]
    classes: NotRequired[artefact.Size | None]
    history: list[EpochRow]


RUN = artefact.Format(
    "metapac run",
    written_by="'metapac train'",
    remedy="Run 'metapac train' again with the same options.",
    shape=_Run,
)
FILE = "run.json"
_CHECKPOINT = "checkpoint.safetensors"  # of a run that has not ended


def read_run(folder: PathLike) -> dict[str, Any]:
    """Return the record that ``metapac train`` wrote at the end of a run."""
    path = Path(folder)
    if not path.is_dir():
        raise InvalidInput(f"{path} is not a folder. Pass the folder that 'metapac train' wrote.")
    if (path / FILE).exists():
        return artefact.read(path / FILE, RUN)
    if (path / _CHECKPOINT).exists():
        raise InvalidInput(
            f"{path} holds a run that has not ended. Start 'metapac train' again with the same "
            "options: it resumes."
        )
    remedy = "Pass the folder that 'metapac train' wrote."
    if any(entry.is_dir() for entry in path.iterdir()):
        remedy += f" If it holds images, a folder for each class, run 'metapac train {path}' first."
    raise InvalidInput(f"{path} holds no {FILE}, so it is not the folder of a run. {remedy}")


def is_run(folder: PathLike) -> bool:
    """Return whether ``metapac train`` wrote a folder, be it to the end or not."""
    return any((Path(folder) / name).exists() for name in (FILE, _CHECKPOINT))


def check_same_data(folder: PathLike, data: str, stored: str, found: str) -> None:
    """Raise InvalidInput if the data of a run are no longer those that it was trained on."""
    if stored != found:
        raise InvalidInput(
            f"the data changed: {data} is not what {folder} was trained on (checksum "
            f"{_shorten(stored)} then, {_shorten(found)} now). Restore the data, or train on the "
            "new ones in another folder."
        )


def _shorten(checksum: str) -> str:
    """Return the first characters of a checksum, enough to tell two apart."""
    return checksum.removeprefix("sha256:")[:12]


_Arrays = tuple[Array, Array, Array | None]  # x, y and groups
_PREPARED = ("miniimagenet", "cifar10c", "fewrel", "heart")
_IMAGE_SIZE = 84  # as in mini-ImageNet
_VALIDATION_CLASSES = 8  # of the training classes, to select the best epoch
# Of the classes or groups, as in the paper's 56 + 8 + 16 + 20 classes of mini-ImageNet.
_SHARES = {"validation": 0.08, "calibration": 0.16, "test": 0.2}


@dataclass(frozen=True)
class LoadedPools:
    """Pools, and what a backbone needs to know about their examples.

    Attributes
    ----------
    pools : Pools
        Pools for training, validation, calibration and test.
    checksum : str
        Checksum of the data.
    words : ndarray or None
        Word vectors, if the examples are sentences.
    is_imagenet : bool
        Whether pixels are normalised with ImageNet's mean and standard deviation.
    image_size : int or None
        Height and width that the images of a folder were resized to.
    left_out : mapping
        Number of examples of each class or group that was left out as too small.
    """

    pools: Pools[Any]
    checksum: str
    words: Array | None = None
    is_imagenet: bool = False
    image_size: int | None = None
    left_out: Mapping[Any, int] = field(default_factory=dict)


def load_pools(
    data: PathLike,
    *,
    sizes: Mapping[str, int] | None = None,
    min_size: int | None = None,
    ways: int = 1,
    rng: int = 0,
    home: cache.Home = None,
    image_size: int | None = None,
    progress: Progress | None = None,
) -> LoadedPools:
    """Return pools for training, validation, calibration and test.

    Parameters
    ----------
    data : str or path-like
        A prepared data set (miniimagenet, cifar10c, fewrel or heart), "glyphs", or the path of an
        .npz file with arrays ``x``, ``y`` and, where each group is a task, ``groups``, or a folder
        of images with one folder per class. Or the folder of a run of ``metapac train``, whose
        pools are then returned, if its data have not changed; the parameters but ``home`` and
        ``progress`` are then not used.
    sizes : mapping of str to int, optional
        Number of classes or groups of the pools train, validation, calibration and test. Used by
        heart, glyphs, files and images. By default heart is split by the years of the paper, if
        they are prepared; otherwise 8 % go to validation, 16 % to calibration, 20 % to test and
        the rest to training.
    min_size : int, optional
        Leave out classes or groups of glyphs, of a file or of images with fewer examples. Also
        state-years of heart with fewer respondents, but only together with ``sizes``.
    ways : int, optional
        Minimum number of classes in each pool of glyphs, of a file or of images.
    rng : int, optional
        Seed of random splits.
    home : path_like, optional
        Folder of prepared data; by default $METAPAC_DATA, or ``metapac`` in the user's cache
        folder.
    image_size : int, optional
        Height and width to which the images of a folder are resized; by default 84. Only for these.
    progress : callable, optional
        Called as ``progress("reading images", done, total)``.

    Returns
    -------
    LoadedPools
        The pools, a checksum of the data, and what a backbone needs to know.

    Raises
    ------
    FileNotFoundError
        If the data set is not prepared, or there is no such file.
    InvalidInput
        If the file does not hold the arrays, or has too few classes or groups; or if the data of
        a run changed, or the run has not ended.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from metapac.fewshot import load_pools
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "data.npz")
    ...     np.savez(path, x=np.zeros((40, 3)), y=np.arange(40) % 10)
    ...     loaded = load_pools(path)
    >>> loaded.pools.train, loaded.pools.calibration
    (<ClassPool 'train': 5 classes, 20 examples>, <ClassPool 'calibration': 2 classes, 8 examples>)
    """
    data = str(data)
    is_folder = data not in (*_PREPARED, "glyphs") and Path(data).is_dir()
    if is_folder and not is_run(data):
        size = _IMAGE_SIZE if image_size is None else image_size
        loaded = _split_arrays(data, _read_images(data, size, progress), sizes, min_size, ways, rng)
        return replace(loaded, image_size=size)
    if image_size is not None:
        raise InvalidInput(
            f"image_size is for a folder of images, got {data}. Leave it out.",
            parameter="image_size",
        )
    if is_folder:
        return load_run_pools(data, home=home, progress=progress)
    if data not in _PREPARED:
        return _split_arrays(data, _read_arrays(data, sizes), sizes, min_size, ways, rng)
    checksum = cache.open_prepared(data, home).checksum
    if data == "miniimagenet":
        pools = miniimagenet(validation=_VALIDATION_CLASSES, home=home)
        return LoadedPools(pools, checksum, is_imagenet=True)
    if data == "cifar10c":
        return LoadedPools(cifar10c(home=home), checksum)
    if data == "fewrel":
        pools, words = fewrel(validation=_VALIDATION_CLASSES, rng=rng, home=home)
        return LoadedPools(pools, checksum, words)
    return LoadedPools(_load_heart(sizes, min_size, rng, home), checksum)


def load_run_pools(
    folder: PathLike,
    *,
    data: str | None = None,
    home: cache.Home = None,
    progress: Progress | None = None,
) -> LoadedPools:
    """Return the pools that a run of ``metapac train`` had, if its data have not changed."""
    record = read_run(folder)
    data, stored = data or record["data"], record["data_checksum"]
    sizes, rng = record["options"].get("pools"), record["options"]["rng"]
    if data in _PREPARED:
        check_same_data(folder, data, stored, cache.open_prepared(data, home).checksum)
        return load_pools(data, sizes=sizes, rng=rng, home=home)
    if data != "glyphs" and not Path(data).exists():
        raise FileNotFoundError(
            errno.ENOENT,
            f"{folder} was trained on these data. Pass where they are now, as --data or with "
            "load_run_pools(run, data=...)",
            data,
        )
    size = record["options"].get("image_size")
    if size is None:
        x, y, groups = _read_arrays(data, sizes)
    else:
        x, y, groups = _read_images(data, size, progress)
    arrays = (x, y) if groups is None else (x, y, groups)
    checksum = data_checksum(*arrays)
    check_same_data(folder, data, stored, checksum)
    classes = record.get("classes")
    pools = {
        name: _take(name, members, x, y, groups, classes)
        for name, members in record["pools"].items()
    }
    return LoadedPools(Pools(**pools), checksum, image_size=size)


def _take(
    name: str, members: list[Any], x: Array, y: Array, groups: Array | None, classes: int | None
) -> ClassPool | GroupPool:
    """Return the pool of some classes or groups."""
    if groups is None:
        rows = np.isin(y, members)
        return ClassPool(x[rows], y[rows], name=name)
    rows, classes = np.isin(groups, members), classes or int(y.max()) + 1
    return GroupPool(x[rows], y[rows], groups[rows], name=name, classes=classes)


def _load_heart(
    sizes: Mapping[str, int] | None, min_size: int | None, rng: int, home: cache.Home
) -> Pools[Any]:
    """Return random state-years or, by default and if they are prepared, the paper's years."""
    facts = cache.open_prepared("heart", home).facts
    if sizes is None and {*PAPER} <= {*facts["years"]}:
        return heart(train=range(2011, 2014), validation=(2014,), home=home)
    sizes = sizes or _default_sizes(len(facts["state-years"]), 1)
    return heart_groups(**sizes, min_size=min_size, rng=rng, home=home)


def _default_sizes(count: int, minimum: int) -> dict[str, int]:
    """Return shares of the classes or groups, at least ``minimum`` of them in each pool."""
    sizes = {pool: max(minimum, round(share * count)) for pool, share in _SHARES.items()}
    return {"train": max(1, count - sum(sizes.values())), **sizes}


def _split_arrays(
    data: str,
    arrays: _Arrays,
    sizes: Mapping[str, int] | None,
    min_size: int | None,
    ways: int,
    rng: int,
) -> LoadedPools:
    """Split examples at random into pools that share no class or group."""
    checksum = data_checksum(*(array for array in arrays if array is not None))
    (x, y, groups), left_out = _leave_out_small(arrays, min_size or 1)
    unit, ids, minimum = ("classes", y, ways) if groups is None else ("groups", groups, 1)
    count, large = len(np.unique(ids)), f" with at least {min_size} examples" if left_out else ""
    if sizes is None and count < 4 * minimum:
        raise InvalidInput(
            f"{data} has {count} {unit}{large}; training, validation, calibration and test need "
            f"{minimum} each, {4 * minimum} in all, since they may not share any. Pass more data, "
            f"or lower ways{' or the examples of each in a task' if left_out else ''}.",
            parameter="ways",
        )
    sizes = sizes or _default_sizes(count, minimum)
    _check_sizes(data, sizes, f"{unit}{large}", count, minimum)
    if groups is None:
        pools: Pools[Any] = split_classes(x, y, **sizes, rng=rng)
    else:
        pools = split_groups(x, y, groups, **sizes, rng=rng)
    return LoadedPools(pools, checksum, left_out=left_out)


def _leave_out_small(arrays: _Arrays, minimum: int) -> tuple[_Arrays, dict[Any, int]]:
    """Return the examples of large classes or groups, and the sizes of the others."""
    x, y, groups = arrays
    ids = y if groups is None else groups
    names, sizes = np.unique(ids, return_counts=True)
    small = sizes < minimum
    rows = {np.shape(array)[:1] for array in arrays if array is not None}
    if not small.any() or rows != {np.shape(ids)}:  # the split says which array is wrong
        return arrays, {}
    kept = np.isin(ids, names[~small])
    left_out = dict(zip(names[small].tolist(), sizes[small].tolist(), strict=True))
    return (x[kept], y[kept], None if groups is None else groups[kept]), left_out


def _check_sizes(data: str, sizes: Mapping[str, int], units: str, count: int, minimum: int) -> None:
    """Raise InvalidInput if there are too few classes or groups for the pools, or in one."""
    small = [name for name, size in sizes.items() if 0 < size < minimum]
    if small:
        raise InvalidInput(
            f"pools gives {small[0]} only {sizes[small[0]]} {units.partition(' ')[0]}, and a task "
            f"has {minimum}. Give it more, or lower ways.",
            parameter=("pools", "ways"),
        )
    if sum(sizes.values()) > count:
        raise InvalidInput(
            f"pools must ask for at most {count} {units}, as many as {data} has, got "
            f"{sum(sizes.values())}.",
            parameter="pools",
        )


def _read_images(data: str, size: int, progress: Progress | None) -> _Arrays:
    """Return the images of a folder and the names of their classes; they have no groups."""
    x, y, names = image_folder(data, size=size, progress=progress)
    return x, np.array(names)[y], None


def _read_arrays(data: str, sizes: Mapping[str, int] | None) -> _Arrays:
    """Return x, y and, where each group is a task, groups."""
    if data == "glyphs":
        options = {"characters": sum(sizes.values())} if sizes else {}
        x, y, _ = glyphs(**options)
        return x, y, None
    with Path(data).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise InvalidInput(
                f"{data} is not a complete .npz file. Pass glyphs, {', '.join(_PREPARED)}, a file "
                "written with np.savez(path, x=x, y=y), or a folder of images."
            )
    arrays = load_arrays(Path(data))
    if not {"x", "y"} <= set(arrays):
        raise InvalidInput(
            f"{data} must hold arrays x and y, and groups where each group is a task; it has: "
            f"{', '.join(arrays)}. Write it with np.savez(path, x=x, y=y)."
        )
    return arrays["x"], arrays["y"], arrays.get("groups")

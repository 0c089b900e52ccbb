"""Pools of any data set, by name or from a training run."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from metapac import artefact
from metapac._common import Array, PathLike, Progress
from metapac.errors import InvalidInput
from metapac.fewshot import pools as pooling
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.cifar10c import cifar10c
from metapac.fewshot.datasets.fewrel import fewrel
from metapac.fewshot.datasets.glyphs import glyphs
from metapac.fewshot.datasets.heart import PAPER, heart, heart_groups
from metapac.fewshot.datasets.images import image_folder
from metapac.fewshot.datasets.miniimagenet import miniimagenet
from metapac.fewshot.options import PoolSizes
from metapac.fewshot.tasks import count_noun
from metapac.fewshot.tensors import data_checksum
from metapac.fewshot.vectors import load_arrays

_REMEDY = "Run 'metapac train' again with the same options."
RUN = artefact.Format("metapac run", "'metapac train'", _REMEDY)
FILE = "run.json"
_CHECKPOINT = "checkpoint.safetensors"  # of a run that has not ended


def read_run(folder: PathLike) -> dict[str, Any]:
    """Return the record that ``metapac train`` wrote at the end of a run."""
    path = Path(folder)
    if (path / FILE).exists():
        return artefact.read(path / FILE, RUN)
    if (path / _CHECKPOINT).exists():
        raise InvalidInput(f"{path} holds a run that has not ended. {_REMEDY} It resumes.")
    raise InvalidInput(f"{path} is not the folder of a run: it has no {FILE}.")


def is_run(folder: PathLike) -> bool:
    """Return whether ``metapac train`` wrote a folder, be it to the end or not."""
    return any((Path(folder) / name).exists() for name in (FILE, _CHECKPOINT))


def check_same_data(folder: PathLike, data: str, stored: str, found: str) -> None:
    """Raise InvalidInput if the data of a run are no longer those that it was trained on."""
    if stored != found:
        then, now = (checksum.removeprefix("sha256:")[:12] for checksum in (stored, found))
        text = f"the data changed: {data} is not what {folder} was trained on (checksum {then}"
        raise InvalidInput(f"{text} then, {now} now). Restore the data, or train another run.")


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
    checksum : str
        Checksum of the data.
    words : ndarray or None
        Word vectors of sentences.
    is_imagenet : bool
        Whether pixels are normalised with ImageNet's mean and standard deviation.
    image_size : int or None
        Height and width of images from a folder.
    left_out : mapping
        Number of examples of each class or group left out as too small.
    """

    pools: pooling.Pools[Any]
    checksum: str
    words: Array | None = None
    is_imagenet: bool = False
    image_size: int | None = None
    left_out: Mapping[Any, int] = field(default_factory=dict)


def load_pools(
    data: PathLike,
    *,
    sizes: PoolSizes | None = None,
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
        A prepared data set (miniimagenet, cifar10c, fewrel or heart), "glyphs", an .npz file with
        arrays ``x``, ``y`` and, where each group is a task, ``groups``, or a folder of images with
        one folder per class. Or the folder of a run of ``metapac train``, whose pools are then
        returned, if its data have not changed; of the others, only ``home`` and ``progress`` apply.
    sizes : mapping of str to int or to sequence, optional
        Number of classes or groups of the pools train, validation, calibration and test, for
        heart, glyphs, files and images; but for heart also their names, as of a published split.
        By default heart is split by the years of the paper, if they are prepared; otherwise 8%
        go to validation, 16% to calibration, 20% to test and the rest to training.
    min_size : int, optional
        Leave out classes or groups of glyphs, files or images with fewer examples; with ``sizes``
        also state-years of heart.
    ways : int, optional
        Minimum number of classes in each pool of glyphs, of a file or of images.
    rng : int, optional
        Seed of random splits.
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.
    image_size : int, optional
        Height and width to which the images of a folder are resized; by default 84.
    progress : callable, optional
        Called as ``progress("reading images", done, total)``.

    Returns
    -------
    LoadedPools
        The pools, a checksum of the data, and what a backbone needs to know.

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
    is_images = is_folder and not is_run(data)
    if image_size is not None and not is_images:
        text = f"image_size is for a folder of images, got {data}. Leave it out."
        raise InvalidInput(text, parameter="image_size")
    if is_folder and not is_images:
        return load_run_pools(data, home=home, progress=progress)
    if data in _PREPARED:
        return _load_prepared(data, sizes, min_size, rng, home)
    image_size = image_size or (_IMAGE_SIZE if is_images else None)
    arrays = _read_arrays(data, sizes, image_size, progress)
    loaded = _split_arrays(data, arrays, sizes, min_size, ways, rng)
    return replace(loaded, image_size=image_size)


def load_run_pools(
    folder: PathLike,
    *,
    data: str | None = None,
    home: cache.Home = None,
    progress: Progress | None = None,
) -> LoadedPools:
    """Return the pools that a run of ``metapac train`` had, if its data have not changed."""
    record = read_run(folder)
    options, data, stored = record["options"], data or record["data"], record["data_checksum"]
    sizes, image_size = options.get("pools"), options.get("image_size")
    if data in _PREPARED:
        check_same_data(folder, data, stored, cache.open_prepared(data, home).checksum)
        return load_pools(data, sizes=sizes, rng=options["rng"], home=home)
    if data != "glyphs" and not Path(data).exists():
        text = f"{folder} was trained on these data. Pass where they are now, as --data or data="
        raise FileNotFoundError(errno.ENOENT, text, data)
    arrays = _read_arrays(data, sizes, image_size, progress)
    checksum = _checksum(arrays)
    check_same_data(folder, data, stored, checksum)
    whole = make_pool(arrays)
    if record.get("classes"):  # groups that were left out may have more
        whole.classes = record["classes"]
    pools = pooling.split_by_name(whole, record["pools"])
    return LoadedPools(pools, checksum, image_size=image_size)


def _load_prepared(data: str, sizes: Any, min_size: Any, rng: int, home: Any) -> LoadedPools:
    prepared = cache.open_prepared(data, home)
    pools: pooling.Pools[Any]
    if data == "miniimagenet":
        pools = miniimagenet(validation=_VALIDATION_CLASSES, home=home)
        return LoadedPools(pools, prepared.checksum, is_imagenet=True)
    if data == "fewrel":
        pools, words = fewrel(validation=_VALIDATION_CLASSES, rng=rng, home=home)
        return LoadedPools(pools, prepared.checksum, words)
    if data == "cifar10c":
        pools = cifar10c(home=home)
    elif sizes is None and {*PAPER} <= {*prepared.facts["years"]}:
        pools = heart(train=range(2011, 2014), validation=(2014,), home=home)
    else:
        sizes = sizes or _default_sizes(len(prepared.facts["state-years"]), 1)
        pools = heart_groups(**sizes, min_size=min_size, rng=rng, home=home)
    return LoadedPools(pools, prepared.checksum)


def _default_sizes(count: int, minimum: int) -> dict[str, int]:
    """Return shares of the classes or groups, at least ``minimum`` of them in each pool."""
    sizes = {pool: max(minimum, round(share * count)) for pool, share in _SHARES.items()}
    return {"train": max(1, count - sum(sizes.values())), **sizes}


def _split_arrays(
    data: str, arrays: _Arrays, sizes: Any, min_size: int | None, ways: int, rng: int
) -> LoadedPools:
    """Split examples, at random or by names, into pools that share no class or group."""
    large, left_out = _leave_out_small(data, arrays, min_size or 1)
    whole, minimum = make_pool(large), ways if arrays[2] is None else 1
    if is_named(sizes):
        pools: Any = take_named(data, arrays, sizes, minimum, left_out)
        return LoadedPools(pools, _checksum(arrays), left_out=left_out)
    units = count_noun(whole.names, whole.unit) + f" of {min_size} examples" * bool(left_out)
    if sizes is None and len(whole.names) < 4 * minimum:
        text = f"{data} has {units}; the four pools need {minimum} each"
        raise InvalidInput(f"{text}, {4 * minimum} in all; lower ways.", parameter="ways")
    sizes = sizes or _default_sizes(len(whole.names), minimum)
    for pool, size in sizes.items():
        if 0 < size < minimum:
            text = f"pools gives {pool} only {size} classes, and a task has {minimum}."
            raise InvalidInput(text, parameter=("pools", "ways"))
    if (total := sum(sizes.values())) > len(whole.names):
        rule = f"pools must ask for at most the {units} of {data}"
        raise InvalidInput(f"{rule}, got {total}.", parameter="pools")
    pools = pooling.split_pool(whole, sizes, rng)
    return LoadedPools(pools, _checksum(arrays), left_out=left_out)


def is_named(sizes: PoolSizes | None) -> bool:
    return sizes is not None and any(not isinstance(size, int) for size in sizes.values())


def take_named(
    data: str,
    arrays: _Arrays,
    names: Mapping[str, Sequence[Any]],
    minimum: int = 1,
    left_out: Container[Any] = (),
) -> pooling.Pools[Any]:
    """Return the pools of a fixed split, by the names of their classes or groups."""
    whole = make_pool(arrays)
    known = {str(name): name for name in whole.names}
    counts = Counter(str(name) for members in names.values() for name in members)
    for name, count in counts.items():
        if name not in known or count > 1:
            fault = "twice" if name in known else f"that {data} does not have"
            raise InvalidInput(f"pools has a name {fault}: {name!r}.", parameter="pools")
    kept = {}
    for pool, members in names.items():
        kept[pool] = [known[str(name)] for name in members if known[str(name)] not in left_out]
        if members and len(kept[pool]) < minimum:
            text = f"pools gives {pool} {len(kept[pool])} classes that are large enough"
            raise InvalidInput(f"{text}, and a task has {minimum}.", parameter=("pools", "ways"))
    return pooling.split_by_name(whole, kept)


def make_pool(arrays: _Arrays) -> Any:
    x, y, groups = arrays
    return pooling.ClassPool(x, y) if groups is None else pooling.GroupPool(x, y, groups)


def _leave_out_small(data: str, arrays: _Arrays, minimum: int) -> tuple[_Arrays, dict[Any, int]]:
    """Return the examples of large classes or groups, and the sizes of the others."""
    x, y, groups = arrays
    whole = make_pool(arrays)
    sizes = dict(zip(whole.names, map(len, whole.positions), strict=True))
    left_out = {name: size for name, size in sizes.items() if size < minimum}
    if not left_out:
        return arrays, {}
    if len(left_out) == len(sizes):
        text = f"{data} has {count_noun(0, whole.unit)} with at least {minimum} examples."
        raise InvalidInput(text, parameter=("pools", "ways"))
    kept = ~np.isin(y if groups is None else groups, [*left_out])
    return (x[kept], y[kept], None if groups is None else groups[kept]), left_out


def _checksum(arrays: _Arrays) -> str:
    return data_checksum(*(array for array in arrays if array is not None))


def _read_arrays(data: str, sizes: Any, image_size: int | None, progress: Any) -> _Arrays:
    """Return x, y and, where each group is a task, groups."""
    if image_size is not None:
        x, y, names = image_folder(data, size=image_size, progress=progress)
        return x, np.array(names)[y], None
    if data == "glyphs":
        options = {"characters": sum(sizes.values())} if sizes and not is_named(sizes) else {}
        x, y, _ = glyphs(**options)
        return x, y, None
    arrays = load_arrays(Path(data))
    if not {"x", "y"} <= set(arrays):
        raise InvalidInput(f"{data} must hold arrays x and y; it has: {', '.join(arrays)}.")
    return arrays["x"], arrays["y"], arrays.get("groups")

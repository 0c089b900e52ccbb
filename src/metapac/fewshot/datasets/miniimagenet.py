"""mini-ImageNet: classes of ImageNet at 84 x 84 pixels."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from metapac._common import PathLike, Progress, as_whole_number, ignore_progress, listed
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.images import image_files, read_images
from metapac.fewshot.pools import ClassPool, Pools

_NAME = "miniimagenet"
_SPLITS = ("train", "val", "test")

_SIZE = 84
_PUBLISHED, _IMAGES = {"train": 64, "val": 16, "test": 20}, 600
_REMEDY = "Run 'metapac data fetch miniimagenet' for instructions."


def miniimagenet(*, validation: int = 0, home: cache.Home = None) -> Pools[ClassPool]:
    """Return the prepared mini-ImageNet as pools: 64 training, 16 calibration, 20 test classes.

    Parameters
    ----------
    validation : int, optional
        Number of training classes to set aside for validation. (The paper validates on the
        calibration classes.)
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.

    Returns
    -------
    Pools
        Pools of images, uint8 (84, 84, 3), memory-mapped.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> from metapac.fewshot import miniimagenet
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
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
    data = cache.open_prepared(_NAME, home)
    classes = data.facts["classes"]
    validation = as_whole_number("validation", validation, minimum=0)
    border = len(classes["train"]) - validation
    if border < 1:
        raise InvalidInput(f"validation must be below {len(classes['train'])}, got {validation}.")
    members = {"train": classes["train"][:border], "validation": classes["train"][border:]}
    members |= {"calibration": classes["val"], "test": classes["test"]}
    pools, first = {}, 0
    for pool, names in members.items():
        start, stop = np.searchsorted(data["y"], [first, first + len(names)])
        if names:
            labels = np.array(names)[data["y"][start:stop] - first]
            pools[pool] = ClassPool(data["x"][start:stop], labels, name=pool)
        first += len(names)
    return Pools(**pools)


def missing(folder: PathLike) -> list[str]:
    try:
        _find_layout(Path(folder))
    except (FileNotFoundError, ValueError) as error:
        return [str(error)]
    return []


def prepare(
    folder: PathLike, *, home: cache.Home = None, progress: Progress | None = None
) -> cache.Prepared:
    """Convert the published files into 84 x 84 pixels, the classes of a split in random order."""
    layout, splits, lists = _find_layout(Path(folder))
    images = [p for classes in splits.values() for paths in classes.values() for p in paths]
    fill = partial(_fill, layout=layout, splits=splits, progress=progress or ignore_progress)
    return cache.prepare(_NAME, [*lists, *images], fill, home=home)


_Classes = dict[str, list[Path]]  # the images of each class
_Layout = tuple[str, dict[str, _Classes], list[Path]]  # its name, the splits, and the csv files


def _find_layout(folder: Path) -> _Layout:
    """Return the layout of a folder, or of its first subfolder with a known layout."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder. {_REMEDY}")
    places = [folder, *_subfolders(folder)]
    for place in places:
        lists = {split: place / f"{split}.csv" for split in _SPLITS}
        absent = [path.name for path in lists.values() if not path.is_file()]
        if not absent:
            return _from_csv(place, lists)
        if len(absent) < len(_SPLITS):
            raise FileNotFoundError(f"{place} lacks {' and '.join(absent)}. {_REMEDY}")
        if all((place / split).is_dir() for split in _SPLITS):
            return _from_folders(place)
    pickled = [path for place in places for path in place.glob("*.p*kl*")]
    layouts = "images/ with train.csv, val.csv and test.csv; or train/, val/ and test/"
    convert = [f"Convert {path.name} as docs/reference/data-sets.md shows." for path in pickled]
    text = f"{folder} has no known layout: {layouts} with a folder per class"
    raise FileNotFoundError(f"{text}. {convert[0] if convert else _REMEDY}")


def _from_folders(place: Path) -> _Layout:
    splits: dict[str, _Classes] = {}
    for split in _SPLITS:
        splits[split] = {path.name: image_files(path) for path in _subfolders(place / split)}
        empty = [str(place / split / name) for name, paths in splits[split].items() if not paths]
        if empty or not splits[split]:
            raise InvalidInput(f"{listed(empty) or place / split} has no images.")
    return "a folder per class", splits, []


def _from_csv(place: Path, lists: Mapping[str, Path]) -> _Layout:
    folders = [place, *_subfolders(place)]
    if place / "images" in folders:
        folders += _subfolders(place / "images")
    present = {path for folder in folders for path in image_files(folder)}
    listed_at: dict[Path, str] = {}
    splits = {split: _read_csv(path, present, listed_at) for split, path in lists.items()}
    return "images with csv files", splits, [*lists.values()]


def _subfolders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, without a system call per file."""
    with os.scandir(folder) as entries:
        return sorted(folder / entry.name for entry in entries if entry.is_dir())


def _read_csv(path: Path, present: set[Path], listed_at: dict[Path, str]) -> _Classes:
    """Return the images that a csv file lists, by class; add each one's line to ``listed_at``."""
    classes: _Classes = {}
    absent = []
    for line, row in _csv_rows(path):
        name, label = row.get("filename"), row.get("label")
        if not name or not label:
            raise InvalidInput(f"{path}, line {line} must hold a filename and a label. {_REMEDY}")
        places = (("images",), ("images", label), (), (label,))
        candidates = (path.parent.joinpath(*place, name) for place in places)
        image = next((candidate for candidate in candidates if candidate in present), None)
        if image is None:
            absent.append(name)
            continue
        where = f"{path.name}, line {line} as {label!r}"
        if listed_at.setdefault(image, where) != where:
            both = f"{listed_at[image]} and {where}"
            raise InvalidInput(f"{image} must be listed only once, got {both}.")
        classes.setdefault(label, []).append(image)
    if absent:
        text = f"{path} lists {len(absent)} images that are not in its folder: {listed(absent)}."
        raise FileNotFoundError(text)
    if not classes:
        raise InvalidInput(f"{path} lists no images. {_REMEDY}")
    return classes


def _csv_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            return [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} is not a csv file ({error}). {_REMEDY}") from error


def _fill(
    writer: cache.Writer, layout: str, splits: Mapping[str, _Classes], progress: Progress
) -> dict[str, Any]:
    classes: dict[str, list[str]] = {}
    for split, found in splits.items():
        classes[split] = np.random.default_rng(0).permutation(sorted(found)).tolist()
    for name, count in Counter(chain.from_iterable(classes.values())).items():
        if count > 1:
            raise InvalidInput(f"{name!r} must be a class of only one split, got {count}.")
    counts = {s: [len(splits[s][name]) for name in names] for s, names in classes.items()}
    done, first, total = 0, 0, sum(map(sum, counts.values()))
    for split, names in classes.items():
        for pixels in read_images([path for n in names for path in splits[split][n]], _SIZE):
            writer.append("x", pixels)
            done += len(pixels)
            progress("reading images", done, total)
        numbers = np.arange(first, first + len(names), dtype=np.int16)
        writer.append("y", numbers.repeat(counts[split]))
        first += len(names)
    other = {s: n for s, n in _PUBLISHED.items() if counts[s] != [_IMAGES] * n}
    notes = [f"{s} was published as {n} classes of {_IMAGES} images" for s, n in other.items()]
    described = {split: cache.describe_counts(counts[split]) for split in _SPLITS}
    return {"layout": layout, "classes": classes, "splits": described, "notes": notes}

"""mini-ImageNet: classes of ImageNet at 84 x 84 pixels."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from metapac._common import (
    Array,
    PathLike,
    Progress,
    as_whole_number,
    brief,
    ignore_progress,
    listed,
)
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache, pickles
from metapac.fewshot.datasets.images import image_files, read_images
from metapac.fewshot.pools import ClassPool, Pools

SPLITS = ("train", "val", "test")

_SIZE = 84
_REMEDY = "Run 'metapac data fetch miniimagenet' for instructions."
_CSV = {split: f"{split}.csv" for split in SPLITS}
_CACHE = {split: f"mini-imagenet-cache-{split}.pkl" for split in SPLITS}
_CATEGORY = {  # of "Dynamic Few-Shot Visual Learning without Forgetting", reused by many papers
    "train": "miniImageNet_category_split_train_phase_train.pickle",
    "val": "miniImageNet_category_split_val.pickle",
    "test": "miniImageNet_category_split_test.pickle",
}


@dataclass(frozen=True)
class Split:
    """The images of a split."""

    sizes: dict[str, int]
    pixels: Callable[[Sequence[str]], Iterator[Array]]


@dataclass(frozen=True)
class Layout:
    """The images of the three splits in a folder."""

    name: str
    files: list[Path]
    total: int | None
    read: Callable[[str], Split]


def find_layout(folder: Path) -> Layout:
    """Return the layout of a folder, or of its first subfolder with a known layout."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder. {_REMEDY}")
    for place in (folder, *_subfolders(folder)):
        for names, build in (
            (_CSV, _from_csv),
            (_CACHE, _from_pickles),
            (_CATEGORY, _from_pickles),
        ):
            if any((place / name).is_file() for name in names.values()):
                return build(place, _find_all(place, names))
        if all((place / split).is_dir() for split in SPLITS):
            return _from_folders(place)
    raise FileNotFoundError(
        f"{folder} holds mini-ImageNet in no known layout: images/ with train.csv, val.csv and "
        "test.csv; train/, val/ and test/ with a folder per class; or pickled caches such as "
        f"{_CACHE['train']}. {_REMEDY}"
    )


def _find_all(place: Path, names: Mapping[str, str]) -> dict[str, Path]:
    paths = {split: place / name for split, name in names.items()}
    absent = [path.name for path in paths.values() if not path.is_file()]
    if absent:
        raise FileNotFoundError(f"{place} lacks {' and '.join(absent)}. {_REMEDY}")
    return paths


def _from_pickles(place: Path, paths: dict[str, Path]) -> Layout:
    return Layout(
        "pickled caches", [*paths.values()], None, lambda split: _read_pickle(paths[split], split)
    )


def _from_images(
    name: str, splits: Mapping[str, Mapping[str, list[Path]]], lists: Sequence[Path] = ()
) -> Layout:
    """Return a layout of image files by split and class; ``lists`` are the csv files."""
    images = [path for classes in splits.values() for paths in classes.values() for path in paths]

    def read(split: str) -> Split:
        classes = splits[split]
        return Split(
            {name: len(paths) for name, paths in classes.items()},
            lambda names: read_images([p for name in names for p in classes[name]], _SIZE),
        )

    return Layout(name, [*lists, *images], len(images), read)


def _from_folders(place: Path) -> Layout:
    splits = {}
    for split in SPLITS:
        splits[split] = {path.name: image_files(path) for path in _subfolders(place / split)}
        empty = [str(place / split / name) for name, paths in splits[split].items() if not paths]
        if empty or not splits[split]:
            raise InvalidInput(
                f"{listed(empty) or place / split} has no images. Put the images of each "
                "class into its folder, or remove the folder."
            )
    return _from_images("a folder per class", splits)


def _from_csv(place: Path, lists: dict[str, Path]) -> Layout:
    folders = [place, *_subfolders(place)]
    if place / "images" in folders:
        folders += _subfolders(place / "images")
    present = {path for folder in folders for path in image_files(folder)}
    listed_at: dict[Path, str] = {}
    splits = {split: _read_csv(path, present, listed_at) for split, path in lists.items()}
    return _from_images("images with csv files", splits, [*lists.values()])


def _subfolders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, without a system call per file."""
    with os.scandir(folder) as entries:
        return sorted(folder / entry.name for entry in entries if entry.is_dir())


def _read_csv(path: Path, present: set[Path], listed_at: dict[Path, str]) -> dict[str, list[Path]]:
    """Return the images that a csv file lists, by class; add each one's line to ``listed_at``."""
    classes: dict[str, list[Path]] = {}
    absent, total = [], 0
    for line, row in _csv_rows(path):
        name, label = row.get("filename"), row.get("label")
        if not name or not label:
            raise InvalidInput(
                f"{path}, line {line} must hold a filename and a label, got {row}. {_REMEDY}"
            )
        total += 1
        image = _find_image(path.parent, name, label, present)
        if image is None:
            absent.append(name)
            continue
        where = f"{path.name}, line {line} as {label!r}"
        if listed_at.setdefault(image, where) != where:
            raise InvalidInput(
                f"{image} must be listed only once, got {listed_at[image]} and {where}. Take the "
                "three files from one source, or remove one of the lines."
            )
        classes.setdefault(label, []).append(image)
    if not total:
        raise InvalidInput(f"{path} lists no images. {_REMEDY}")
    if absent:
        images = path.parent / "images"
        raise FileNotFoundError(
            f"{path} lists {len(absent)} of {total} images that are not in "
            f"{images if images.is_dir() else path.parent}, nor in a folder of their label there: "
            f"{listed(absent)}. Put them there."
        )
    return classes


def _find_image(place: Path, name: str, label: str, present: set[Path]) -> Path | None:
    """Return the image of a line: in images/, in its label's folder there, or without images/."""
    for parts in (("images", name), ("images", label, name), (name,), (label, name)):
        image = place.joinpath(*parts)
        if image in present:
            return image
    return None


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a csv file, with their line numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if not {"filename", "label"} <= set(reader.fieldnames or ()):
                raise InvalidInput(
                    f"{path} must start with the line filename,label, got "
                    f"{','.join(reader.fieldnames or ()) or 'nothing'}. {_REMEDY}"
                )
            for row in reader:
                yield reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} is not a csv file ({error}). {_REMEDY}") from error


def _read_pickle(path: Path, split: str) -> Split:
    """Return a split in one of two layouts: rows by class, or a label for each image."""
    content = pickles.load(path)
    keys = set(content) if isinstance(content, dict) else set()
    if {"image_data", "class_dict"} <= keys:
        images = _check_images(path, content["image_data"])
        rows = _rows_by_class(path, content["class_dict"], len(images))
    elif {"data", "labels"} <= keys:
        images = _check_images(path, content["data"])
        rows = _rows_by_label(path, content["labels"], len(images), split)
    else:
        raise InvalidInput(
            f"{path} must hold image_data and class_dict, or data and labels, got "
            f"{', '.join(map(str, content)) if keys else type(content).__name__}. {_REMEDY}"
        )
    return Split(
        {name: len(members) for name, members in rows.items()},
        lambda names: (images[rows[name]] for name in names),
    )


def _check_images(path: Path, value: Any) -> Array:
    images = pickles.as_array(value)
    if images.dtype != np.uint8 or images.shape[1:] != (_SIZE, _SIZE, 3) or not len(images):
        raise InvalidInput(
            f"{path} must hold images of {_SIZE} x {_SIZE} x 3 as uint8, got {images.dtype} of "
            f"shape {images.shape}. {_REMEDY}"
        )
    return images


def _rows_by_class(path: Path, value: Any, total: int) -> dict[str, Array]:
    if not isinstance(value, dict) or not value or not all(isinstance(key, str) for key in value):
        raise InvalidInput(
            f"{path} must have a class_dict of {{class name: rows}}, got {brief(value)}. {_REMEDY}"
        )
    rows = {name: pickles.as_array(members) for name, members in value.items()}
    class_of_row: dict[int, str] = {}
    for name, members in rows.items():
        if not _holds_integers(members) or not len(members) or not _are_rows(members, total):
            raise InvalidInput(
                f"{path}, class {name!r} must list some of the rows 0 .. {total - 1}, got "
                f"{brief(value[name])}. {_REMEDY}"
            )
        for row in members.tolist():
            if row in class_of_row:
                raise InvalidInput(
                    f"{path} must list each image once, in one class, got row {row} in "
                    f"{class_of_row[row]!r} and in {name!r}. {_REMEDY}"
                )
            class_of_row[row] = name
    return rows


def _rows_by_label(path: Path, value: Any, total: int, split: str) -> dict[str, Array]:
    labels = pickles.as_array(value)
    if not _holds_integers(labels) or len(labels) != total:
        raise InvalidInput(
            f"{path} must hold labels, an integer for each of {total} images, got {labels.dtype} "
            f"of shape {labels.shape}: {brief(value)}. {_REMEDY}"
        )
    # These files number the classes of each split, from 0 in each.
    return {f"{split} {label}": np.flatnonzero(labels == label) for label in np.unique(labels)}


def _holds_integers(array: Array) -> bool:
    return array.ndim == 1 and array.dtype.kind in "iu"


def _are_rows(rows: Array, total: int) -> bool:
    return bool(rows.min() >= 0 and rows.max() < total)


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
    data = cache.open_prepared(NAME, home)
    classes = data.facts["classes"]
    validation = as_whole_number("validation", validation, minimum=0)
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
    """Return what is missing from the layout that a folder comes closest to."""
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

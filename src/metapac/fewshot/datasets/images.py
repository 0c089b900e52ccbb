"""Folders of images."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac._common import Counts, PathLike, Progress, as_whole_number, listed, require
from metapac.errors import InvalidInput
from metapac.fewshot.tasks import LazyArray

Pixels = NDArray[np.uint8]

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff"}

_BLOCK = 256  # images decoded by one thread at a time


def image_folder(
    folder: PathLike, *, size: int, lazy: bool = False, progress: Progress | None = None
) -> tuple[Any, Counts, list[str]]:
    """Return the images of a folder that has one subfolder per class.

    Images of another size are resized without preserving their aspect ratio, as in mini-ImageNet.

    Parameters
    ----------
    folder : path_like
        Folder with one subfolder per class.
    size : int
        Height and width in pixels.
    lazy : bool, default False
        Whether to read images when tasks need them instead of now, for folders larger than memory.
    progress : callable, optional
        Called as ``progress("reading images", done, total)``.

    Returns
    -------
    x : ndarray of uint8 or LazyArray, shape (n, size, size, 3)
        Pixels.
    y, names : ndarray of int, shape (n,), and list of str
        Class of each image, as a position in the sorted ``names`` of the classes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> from metapac.fewshot import image_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "cat").mkdir()
    ...     Image.new("RGB", (10, 10)).save(f"{folder}/cat/1.png")
    ...     x, y, names = image_folder(folder, size=8)
    >>> x.shape, y.tolist(), names
    ((1, 8, 8, 3), [0], ['cat'])
    """
    size = as_whole_number("size", size)
    root = Path(folder)
    found = {path.name: image_files(path) for path in sorted(root.iterdir()) if path.is_dir()}
    files = {name: paths for name, paths in found.items() if paths}
    if not files:
        text = f"{root} has no folder with images in it. Put those of each class into a separate"
        raise InvalidInput(f"{text} folder; supported formats are {', '.join(sorted(SUFFIXES))}.")
    paths = [path for members in files.values() for path in members]
    y = np.repeat(np.arange(len(files)), [len(members) for members in files.values()])
    shape = (len(paths), size, size, 3)
    if lazy:
        read = partial(_read_rows, paths, size)
        return LazyArray(read, shape=shape, dtype=np.uint8), y, list(files)
    x, done = np.empty(shape, np.uint8), 0
    for block in read_images(paths, size):
        x[done : done + len(block)] = block
        done += len(block)
        if progress:
            progress("reading images", done, len(paths))
    return x, y, list(files)


def image_files(folder: Path) -> list[Path]:
    """Return the image files in a folder, but not in its subfolders."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(".")]
    return [folder / name for name in sorted(names) if Path(name).suffix.lower() in SUFFIXES]


def read_images(paths: Sequence[Path], size: int) -> Iterator[Pixels]:
    require("PIL.Image", extra="data", purpose="reading images")
    faults: list[str] = []
    blocks = [paths[start : start + _BLOCK] for start in range(0, len(paths), _BLOCK)]
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        for first in range(0, len(blocks), workers):  # as many as are held in memory at a time
            part = blocks[first : first + workers]
            for pixels, block_faults in pool.map(_decode, part, repeat(size)):
                faults += block_faults
                yield pixels
    if faults:
        text = f"{len(faults)} of {len(paths)} images cannot be read: {listed(faults)}"
        raise InvalidInput(f"{text}. Copy those files again, or remove them.")


def _read_rows(paths: Sequence[Path], size: int, positions: Counts) -> Pixels:
    blocks = read_images([paths[i] for i in positions.tolist()], size)
    return np.concatenate([np.empty((0, size, size, 3), np.uint8), *blocks])


def _decode(paths: Sequence[Path], size: int) -> tuple[Pixels, list[str]]:
    """Return the pixels of some images, and what is wrong with those that cannot be read."""
    pixels = np.zeros((len(paths), size, size, 3), np.uint8)
    faults = []
    for i, path in enumerate(paths):
        try:
            pixels[i] = _image(path, size)
        except MemoryError:
            raise
        except Exception as error:  # a broken or huge file can fail in any way
            faults.append(f"{path} ({error})")
    return pixels, faults


def _image(path: Path, size: int) -> Any:
    from PIL import Image

    with Image.open(path) as file:
        if file.mode.startswith(("I", "F")):  # would be clipped at 255, not scaled
            raise InvalidInput(f"it has mode {file.mode}: save it with 8 bits per channel")
        picture = file.convert("RGB")
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(picture)

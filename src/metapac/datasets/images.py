"""Image files as arrays: RGB, one size, decoded by all cores and never all in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _checks
from metapac.datasets.cache import Progress

Pixels = NDArray[np.uint8]

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff"}

_BLOCK = 256  # images decoded by one thread at a time
_SHOWN = 5


def image_folder(
    folder: str | os.PathLike[str], *, size: int, progress: Progress | None = None
) -> tuple[Pixels, NDArray[np.int64], list[str]]:
    """Return the images of a folder with one folder per class: pixels, class numbers, class names.

    Pixels are uint8 (n, size, size, 3). An image of another size is resized to a square, whatever
    its proportions, as mini-ImageNet's are. One of 16 or 32 bits a pixel is refused by name.
    """
    size = _checks.whole_number("size", size)
    root = Path(folder)
    names = sorted(path.name for path in root.iterdir() if path.is_dir())
    files = {name: image_files(root / name) for name in names}
    names = [name for name in names if files[name]]
    if not names:
        raise ValueError(
            f"{root} has no folder with images in it. Put the images of each class into a folder "
            f"of its own; known are {', '.join(sorted(SUFFIXES))}."
        )
    paths = [path for name in names for path in files[name]]
    y = np.repeat(np.arange(len(names)), [len(files[name]) for name in names])
    x = np.empty((len(paths), size, size, 3), np.uint8)
    done = 0
    for block in read_images(paths, size):
        x[done : done + len(block)] = block
        done += len(block)
        if progress is not None:
            progress(done, len(paths))
    return x, y, names


def image_files(folder: Path) -> list[Path]:
    """Return the images that lie in a folder, sorted by name."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(".")]
    return [folder / name for name in sorted(names) if Path(name).suffix.lower() in SUFFIXES]


def read_images(paths: Sequence[Path], size: int) -> Iterator[Pixels]:
    """Yield the images in their order, in blocks (block, size, size, 3).

    Those of ``paths`` that cannot be read are told together at the end. Grey images of 16 or 32
    bits are among them: no file says which of its values is white.
    """
    _pillow()
    faults: list[str] = []
    blocks = [paths[start : start + _BLOCK] for start in range(0, len(paths), _BLOCK)]
    workers = os.cpu_count() or 1
    waiting: deque[Future[tuple[Pixels, list[str]]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for i in range(len(blocks) + workers):
            if i < len(blocks):
                waiting.append(pool.submit(_decode, blocks[i], size))
            if i >= workers and waiting:  # so that every thread has one block to go on with
                pixels, found = waiting.popleft().result()
                faults += found
                yield pixels
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise ValueError(
            f"{len(faults)} of {len(paths)} images cannot be read: {'; '.join(faults[:_SHOWN])}"
            f"{more}. Copy those files again from where they came, or remove them."
        )


def _decode(paths: Sequence[Path], size: int) -> tuple[Pixels, list[str]]:
    """Return the pixels of some images, and what is wrong with those that have none."""
    pixels = np.zeros((len(paths), size, size, 3), np.uint8)
    faults = []
    for i, path in enumerate(paths):
        try:
            pixels[i] = _image(path, size)
        except MemoryError:
            raise
        except Exception as error:  # a broken or a huge file can fail in any way
            reason = "it has zero bytes" if _empty(path) else str(error)
            faults.append(f"{path} ({reason})")
    return pixels, faults


def _image(path: Path, size: int) -> Any:
    from PIL import Image

    with Image.open(path) as file:
        if file.mode.startswith(("I", "F")):  # would be cut off at 255, not scaled
            raise ValueError(f"it has pixels of mode {file.mode}: save it with 8 bits a channel")
        picture = file.convert("RGB")
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _empty(path: Path) -> bool:
    return path.is_file() and not path.stat().st_size


def _pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "images need Pillow. Install it with: pip install 'metapac[data]'", name="PIL"
        ) from error

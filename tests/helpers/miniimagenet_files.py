"""A small mini-ImageNet in every layout that is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from metapac.fewshot.datasets.images import Pixels

CLASSES = {
    "train": [f"n0{i}" for i in range(6)],
    "val": ["n10", "n11"],
    "test": ["n20", "n21", "n22"],
}
EACH = 3


def colour(name: str, i: int) -> tuple[int, int, int]:
    return int(name[1:]) * 4, i * 50, 7


def picture(name: str, i: int) -> Pixels:
    return np.full((84, 84, 3), colour(name, i), np.uint8)


def with_csv(folder: Path, under: str = "images") -> Path:
    for split, names in CLASSES.items():
        lines = ["filename,label"]
        for name in names:
            for i in range(EACH):
                path = folder / under.format(name) / f"{name}{i:08d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(picture(name, i)).save(path)
                lines.append(f"{path.name},{name}")
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return folder


def with_folders(folder: Path) -> Path:
    for split, names in CLASSES.items():
        for name in names:
            (folder / split / name).mkdir(parents=True)
            for i in range(EACH):
                Image.fromarray(picture(name, i)).save(folder / split / name / f"{i}.png")
    return folder


def with_the_same_names_in_every_class(folder: Path) -> Path:
    """Published names begin with their class; others may not."""
    with_csv(folder, "images/{}")
    for path in (folder / "images").glob("*/*.png"):
        path.rename(path.with_name(path.name[3:]))
    for split, names in CLASSES.items():
        lines = [f"{i:08d}.png,{name}" for name in names for i in range(EACH)]
        (folder / f"{split}.csv").write_text("\n".join(["filename,label", *lines]) + "\n")
    return folder


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "images": with_csv,
    "images by class": partial(with_csv, under="images/{}"),
    "loose": partial(with_csv, under="."),
    "loose by class": partial(with_csv, under="{}"),
    "same names": with_the_same_names_in_every_class,
    "folders": with_folders,
}

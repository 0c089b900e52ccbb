"""A small mini-ImageNet in every layout in which it is distributed."""

from __future__ import annotations

import pickle
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


def with_class_folders_and_csv(folder: Path) -> Path:
    return with_csv(folder, "images/{}")


def with_folders(folder: Path) -> Path:
    for split, names in CLASSES.items():
        for name in names:
            (folder / split / name).mkdir(parents=True)
            for i in range(EACH):
                Image.fromarray(picture(name, i)).save(folder / split / name / f"{i}.png")
    return folder


def with_pickles(folder: Path, protocol: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, names in CLASSES.items():
        images = np.stack([picture(name, i) for i in range(EACH) for name in names])
        rows = {name: list(range(k, len(images), len(names))) for k, name in enumerate(names)}
        held = {"image_data": images, "class_dict": rows}
        path = folder / f"mini-imagenet-cache-{split}.pkl"
        path.write_bytes(pickle.dumps(held, protocol=protocol))
    return folder


def with_category_pickles(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files = {"train": "train_phase_train", "val": "val", "test": "test"}
    for split, names in CLASSES.items():
        images = np.stack([picture(name, i) for name in names for i in range(EACH)])
        held = {b"data": images, b"labels": np.repeat(range(len(names)), EACH).tolist()}
        path = folder / f"miniImageNet_category_split_{files[split]}.pickle"
        path.write_bytes(pickle.dumps(held, protocol=2))
    return folder


def with_loose_images_and_csv(folder: Path) -> Path:
    return with_csv(folder, ".")


def with_loose_class_folders_and_csv(folder: Path) -> Path:
    return with_csv(folder, "{}")


def with_the_same_names_in_every_class(folder: Path) -> Path:
    """Published names begin with their class; others may not."""
    with_class_folders_and_csv(folder)
    for path in (folder / "images").glob("*/*.png"):
        path.rename(path.with_name(path.name[3:]))
    for split, names in CLASSES.items():
        lines = [f"{i:08d}.png,{name}" for name in names for i in range(EACH)]
        (folder / f"{split}.csv").write_text("\n".join(["filename,label", *lines]) + "\n")
    return folder


LAYOUTS = [
    with_csv,
    with_class_folders_and_csv,
    with_loose_images_and_csv,
    with_loose_class_folders_and_csv,
    with_the_same_names_in_every_class,
    with_folders,
    with_pickles,
]

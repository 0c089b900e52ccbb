"""A small copy of CIFAR-10 in the binary layout of its publisher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def fabricated(each: int = 3, seed: int = 0) -> dict[str, Batch]:
    """Return batches in which each class has ``each`` images, of one colour."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(30, 226, size=(10, 3, 1, 1))
    batches = {}
    for name in BATCHES:
        labels = rng.permutation(np.repeat(np.arange(10), each))
        images = colours[labels] + rng.integers(-30, 30, size=(len(labels), 3, 32, 32))
        batches[name] = images.astype(np.uint8), labels
    return batches


def write_records(folder: Path, batches: dict[str, Batch]) -> Path:
    folder = folder / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, (images, labels) in batches.items():
        records = np.c_[labels.astype(np.uint8), images.reshape(len(images), -1)]
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join([*CLASSES, ""]) + "\n")
    return folder

"""Corruptions of CIFAR10-C: seconds for 10,000 images, compared with a loop over single images.

    python benchmarks/corruptions.py [cpu | cuda]

Images are uint8, 3 x 32 x 32. The baseline corrupts one image at a time with NumPy and SciPy, is
timed on a few and scaled. Before timing, its elastic transform is compared with ours.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage

from metapac.fewshot.datasets.corruptions import NINE, Corruption, corrupt, displace, move, smooth

IMAGES, SLICE, REPEATS = 10_000, 200, 5
SEQUENCES = [
    ("shot noise", "impulse noise", "elastic transform"),
    ("gaussian noise", "shot noise", "elastic transform"),
]
POINTS = np.array([[26.0, 26.0], [26.0, 6.0], [6.0, 6.0]])
PIXELS = np.mgrid[:32, :32][::-1].astype(float)  # columns, rows

Array = NDArray[Any]


def sampled(image: Array, columns: Array, rows: Array, mode: str) -> Array:
    return np.stack(
        [ndimage.map_coordinates(c, [rows, columns], order=1, mode=mode) for c in image]
    )


def elastic(image: Array, moves: Array, noise: Array | None) -> Array:
    back = np.linalg.solve(np.c_[POINTS + moves, np.ones(3)], POINTS)  # (3, 2)
    columns, rows = np.tensordot(back[:2].T, PIXELS, 1) + back[2][:, None, None]
    image = sampled(image, columns, rows, "mirror")
    if noise is None:
        return image
    field = [1.6 * ndimage.gaussian_filter(each, 6.4, mode="reflect", truncate=3) for each in noise]
    columns, rows = PIXELS + field
    return sampled(image, columns, rows, "reflect")


def one_by_one(image: Array, corruption: Corruption, rng: np.random.Generator) -> Array:
    x, first = image / 255, corruption.severity == 1
    if corruption.kind == "gaussian noise":
        x = x + rng.normal(scale=0.04 if first else 0.06, size=x.shape)
    elif corruption.kind == "shot noise":
        photons = 500 if first else 250
        x = rng.poisson(x * photons) / photons
    elif corruption.kind == "impulse noise":
        chance, half = rng.random(x.shape), 0.005 if first else 0.01
        x = np.where(chance < half, 0, np.where(chance >= 1 - half, 1, x))
    elif corruption.kind == "elastic transform":
        moves = rng.uniform(-1, 1, (3, 2)) * (2.56 if first else 2.24)
        x = elastic(x, moves, None if first else rng.uniform(-1, 1, (2, 32, 32)))
    return np.rint(255 * np.clip(x, 0, 1)).astype(np.uint8)


def check() -> None:
    """Refuse to time what does not give the answer."""
    rng = np.random.default_rng(0)
    x, moves = rng.random((20, 3, 32, 32)), rng.uniform(-2.24, 2.24, (20, 3, 2))
    noise = rng.uniform(-1, 1, (20, 2, 32, 32))
    slow = [elastic(*each) for each in zip(x, moves, noise, strict=True)]
    bent = move(torch.from_numpy(x), torch.from_numpy(moves))
    found = displace(bent, 1.6 * smooth(torch.from_numpy(noise), 6.4))
    np.testing.assert_allclose(found.numpy(), np.stack(slow), atol=1e-9)


def seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def compare(name: str, images: Any, sequence: Sequence[Corruption]) -> None:
    rng, few = np.random.default_rng(0), np.asarray(images[:SLICE].cpu())

    def loop() -> None:
        for image in few:
            for corruption in sequence:
                image = one_by_one(image, corruption, rng)

    ours = seconds(lambda: corrupt(images, sequence, 0))
    rival = seconds(loop, 1) * len(images) / len(few)
    print(f"{name:50} {ours:8.3f} s {rival:8.2f} s {rival / ours:7.1f} x")


def main(device: str = "cpu") -> None:
    check()
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(256, size=(IMAGES, 3, 32, 32), dtype=np.uint8))
    images = images.to(device)
    where = (
        torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    )
    print(f"{IMAGES} images on {device}, {where}; best of {REPEATS}")
    print(f"{'':50} {'here':>10} {'loop':>10} {'ratio':>9}")
    for corruption in NINE[1:]:
        compare(corruption.name, images, [corruption])
    for kinds in SEQUENCES:
        sequence = [Corruption(kind, 2) for kind in kinds]
        compare(", ".join(corruption.name for corruption in sequence), images, sequence)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Prepare mini-ImageNet and reopen it: seconds and peak memory.

    python benchmarks/miniimagenet.py FOLDER

FOLDER holds the images with their csv files. The cache goes to a temporary folder.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time

from metapac.fewshot import miniimagenet
from metapac.fewshot.datasets.miniimagenet import prepare


def main(folder: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        start = time.perf_counter()
        data = prepare(folder, home=home)
        prepared = time.perf_counter()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        again = time.perf_counter()
        miniimagenet(home=home)
        opened = time.perf_counter()
        prepare(folder, home=home)
        checked = time.perf_counter()
        data.verify()
        verified = time.perf_counter()
    print(f"prepare {len(data['y'])} images: {prepared - start:.1f} s, peak {peak:.0f} MiB")
    print(f"reopen as pools: {opened - again:.4f} s")
    print(f"prepare again, nothing changed: {checked - opened:.2f} s")
    print(f"verify every byte: {verified - checked:.2f} s")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

"""Preparing CDC Heart: seconds, MB a second and peak memory on a fabricated yearly file.

    python benchmarks/heart.py FOLDER [MEGABYTES]

A file such as the CDC's (330 columns, 300 MB by default) is written into FOLDER, read once by
pandas and once by the reader behind ``prepare``, whose answers must agree, and then prepared in a
separate process, whose peak memory is measured. Figures are in README.md beside this file.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac.fewshot.datasets.heart import open_year, prepare

sys.path.append(str(Path(__file__).parents[1]))
from tests.helpers.sas_files import head, ibm, padded

COLUMNS = 330
ROWS = 5000  # written at a time

Array = NDArray[Any]


def write_year(path: Path, megabytes: int) -> int:
    """Write answers, missing seldom in the first third and often in the rest; return the rows."""
    names = ["_STATE", "CVDINFR4", *(f"V{i}" for i in range(COLUMNS - 2))]
    codes = np.array([np.frombuffer(ibm(float(i)), ">u8")[0] for i in range(100)])
    codes[0] = np.frombuffer(ibm("."), ">u8")[0]
    gaps = np.where(np.arange(COLUMNS) < COLUMNS // 3, 1e-3, 0.3)
    rng = np.random.default_rng(0)
    rows = megabytes * 10**6 // (8 * COLUMNS)
    with path.open("wb") as file:
        file.write(head(dict.fromkeys(names, (False, 8))))
        for start in range(0, rows, ROWS):
            values = rng.integers(1, 10, (min(ROWS, rows - start), COLUMNS))
            values[rng.random(values.shape) < gaps] = 0
            values[:, 0] = rng.integers(1, 57, len(values))
            values[:, 1] = rng.integers(1, 3, len(values))
            file.write(codes[values].astype(">u8").tobytes())
        file.write(padded(b" " * (rows * 8 * COLUMNS % 80))[rows * 8 * COLUMNS % 80 :])
    return rows


def by_pandas(path: Path) -> Array:
    """Return in how many rows each feature is missing."""
    import pandas as pd  # not in the process whose memory is measured

    parts = pd.read_sas(path, format="xport", chunksize=ROWS)
    counts: Array = sum(np.isnan(part.to_numpy()[:, 2:]).sum(0) for part in parts)
    return counts


def by_metapac(path: Path) -> Array:
    year = open_year(path)
    counts: Array = sum(np.isnan(block[:, 3:]).sum(0) for block in year.blocks(year.numeric))
    return counts


def peak() -> float:
    """Return the peak memory of this process in MiB (Linux)."""
    match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def child(folder: Path) -> None:
    """Prepare, and print seconds, peak memory before and after in MiB, and rows kept."""
    before = peak()
    start = time.perf_counter()
    data = prepare(folder, home=folder / "home")
    seconds = time.perf_counter() - start
    print(seconds, before, peak(), data.facts["counts"]["rows kept"])


def main(folder: Path, megabytes: int) -> None:
    path = folder / "LLCP2011.XPT "
    rows = write_year(path, megabytes)
    answers = []
    for name, read in (("pandas.read_sas", by_pandas), ("one reading", by_metapac)):
        start = time.perf_counter()
        answers.append(read(path))
        seconds = time.perf_counter() - start
        print(f"{name}: {seconds:.2f} s, {megabytes / seconds:.0f} MB/s")
    assert np.array_equal(answers[0], answers[1])
    run = subprocess.run(
        [sys.executable, __file__, "--child", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, before, after, kept = map(float, run.stdout.split())
    print(f"prepare, two readings: {seconds:.2f} s, {megabytes / seconds:.0f} MB/s")
    print(f"peak memory: {after:.0f} MiB, {after - before:.0f} more than before")
    print(f"rows kept: {kept:.0f} of {rows}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]))
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 300)
